"""Replay a repository's history under findings, and compare every verdict with brute force.

    python benchmarks/replay.py PATH [--findings 200] [--steps 300] [--seed 1]

Clones PATH (a repository or a bare one) without copying objects, puts findings over its real
files (3 to 12 each), then walks its first-parent history by `git switch --detach`, forwards and
back. After each step every verdict is asked twice: at once, when nothing may be called fresh
wrongly, and after `/v1/sync`, when verdicts and causes must equal a re-computation that hashes
every cited file and asks git for every changed one. Prints the figures; exits 1 when one is false.
"""

import argparse
import hashlib
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.running import Daemon, git

EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


@dataclass
class Figures:
    steps: int = 0
    verdicts: int = 0
    false_fresh_at_once: int = 0
    false_fresh: int = 0
    false_stale: int = 0
    wrong_causes: int = 0
    wrong_commits: int = 0
    commits_checked: int = 0
    changed: int = 0
    answer_ms: list[float] = field(default_factory=list)
    settle_ms: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def blob_of(path: Path) -> str | None:
    """git's hash of what is at `path` now."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Oracle:
    """What is true, found the slow way."""

    def __init__(self, root: Path, findings: dict[str, list[str]]) -> None:
        self.root = root
        self.findings = findings
        paths = {path for files in findings.values() for path in files}
        self.recorded = {path: blob_of(root / path) for path in paths}

    def look(self) -> dict[str, str]:
        """Path → cause, for every cited path that is not as it was recorded."""
        tree = {}
        for line in git(self.root, "ls-tree", "-r", "-z", "HEAD").split("\0"):
            facts, tab, path = line.partition("\t")
            if tab:
                tree[path] = facts.split()[2]
        causes = {}
        for path, then in self.recorded.items():
            now = blob_of(self.root / path)
            if now == then:
                continue
            if now is not None:
                causes[path] = "committed" if tree.get(path) == now else "edited"
            else:
                causes[path] = self._gone(path, then, tree)
        return causes

    def _gone(self, path: str, blob: str | None, tree: dict[str, str]) -> str:
        """`moved` when the commit that deleted it added its bytes at one other path."""
        others = {other for other, there in tree.items() if there == blob and other != path}
        if not others or blob == EMPTY_BLOB:
            return "deleted"
        by = self.last_commit(path)
        if not by:
            return "deleted"
        listing = git(self.root, "ls-tree", "-r", "-z", "--name-only", f"{by}^1")
        new = others - set(listing.split("\0"))
        return "moved" if len(new) == 1 else "deleted"

    def last_commit(self, path: str) -> str:
        arguments = ("log", "-1", "--first-parent", "-m", "--format=%H", "--", f":(literal){path}")
        return git(self.root, *arguments).strip()


def choose(paths: list[str], count: int, rng: random.Random) -> dict[str, list[str]]:
    return {
        f"finding-{number}": sorted(rng.sample(paths, rng.randint(3, 12)))
        for number in range(count)
    }


def route(commits: list[str], steps: int, rng: random.Random) -> list[str]:
    """Commits to visit, newest first in `commits`: mostly forwards, sometimes back, once far."""
    at = min(len(commits) - 1, steps * 12)
    visited = []
    for _ in range(steps):
        stride = rng.choice([1, 1, 2, 5, 20, 60])
        at += stride if rng.random() < 0.25 else -stride
        at = max(0, min(len(commits) - 1, at))
        visited.append(commits[at])
    return visited


def compare(
    figures: Figures, oracle: Oracle, rows: dict[str, Any], truth: dict[str, str], step: int
) -> None:
    for key, files in oracle.findings.items():
        figures.verdicts += 1
        wanted = {path: truth[path] for path in files if path in truth}
        stale = any(cause != "moved" for cause in wanted.values())
        row = rows[key]
        if row["verdict"] == "fresh" and stale:
            figures.false_fresh += 1
            figures.wrong.append(f"step {step}: {key} is fresh, but {wanted}")
        elif row["verdict"] != "fresh" and not stale:
            figures.false_stale += 1
            figures.wrong.append(f"step {step}: {key} is {row['verdict']}: {row['causes']}")
        found = {cause["source"]: cause["cause"] for cause in row["causes"]}
        if found != wanted:
            figures.wrong_causes += 1
            figures.wrong.append(f"step {step}: {key} has causes {found}, true are {wanted}")


def check_commits(
    figures: Figures, oracle: Oracle, rows: dict[str, Any], rng: random.Random
) -> None:
    """A few commits a step against `git log`, which takes long."""
    told = [
        (cause["source"], cause["commit"]["oid"])
        for row in rows.values()
        for cause in row["causes"]
        if cause["cause"] == "committed" and "commit" in cause
    ]
    for path, oid in rng.sample(told, min(3, len(told))):
        figures.commits_checked += 1
        if oracle.last_commit(path) != oid:
            figures.wrong_commits += 1
            figures.wrong.append(f"{path}: {oid} is not the commit that brought it")


def replay(source: Path, findings: int, steps: int, seed: int) -> Figures:
    rng, figures = random.Random(seed), Figures()
    with tempfile.TemporaryDirectory(prefix="am-replay-") as base, Daemon() as daemon:
        root = Path(base) / "repo"
        git(Path(base), "clone", "-q", "--shared", "--no-checkout", str(source), str(root))
        commits = git(root, "rev-list", "--first-parent", "HEAD").split()
        git(root, "switch", "-q", "--detach", "-f", commits[min(len(commits) - 1, steps * 12)])
        listing = git(root, "ls-files", "-z").split("\0")
        paths = [p for p in listing if p and (root / p).is_file() and not (root / p).is_symlink()]
        oracle = Oracle(root, choose(paths, findings, rng))
        daemon.add(root)
        for key, files in oracle.findings.items():
            daemon.put(root, key, files)
        daemon.sync()
        for step, commit in enumerate(route(commits, steps, rng)):
            git(root, "switch", "-q", "--detach", commit)
            started_s = time.perf_counter()
            at_once = daemon.entries(root)
            figures.answer_ms.append((time.perf_counter() - started_s) * 1e3)
            daemon.sync()
            figures.settle_ms.append((time.perf_counter() - started_s) * 1e3)
            rows = daemon.entries(root)
            truth = oracle.look()
            figures.steps += 1
            figures.changed += len(truth)
            for key, files in oracle.findings.items():
                stale = any(truth.get(path, "moved") != "moved" for path in files)
                if stale and at_once[key]["verdict"] == "fresh":
                    figures.false_fresh_at_once += 1
            compare(figures, oracle, rows, truth, step)
            check_commits(figures, oracle, rows, rng)
        marks = daemon.metrics()
        report(figures, marks)
    return figures


def report(figures: Figures, metrics: dict[str, float]) -> None:
    print(
        f"steps {figures.steps}, verdicts compared {figures.verdicts}, "
        f"changed cited paths seen {figures.changed}"
    )
    print(f"false fresh at once   {figures.false_fresh_at_once}")
    print(f"false fresh settled   {figures.false_fresh}")
    print(f"false stale settled   {figures.false_stale}")
    print(f"wrong causes          {figures.wrong_causes}")
    print(f"wrong commits         {figures.wrong_commits} of {figures.commits_checked} checked")
    for name in ("marks", "restores", "rehashes", "watch_overflows"):
        print(f"{name:21} {metrics[f'amend_{name}_total']:.0f}")
    for name, values in (
        ("all verdicts at once", figures.answer_ms),
        ("settled", figures.settle_ms),
    ):
        ordered = sorted(values)
        print(
            f"{name:21} p50 {statistics.median(ordered):.1f} ms, "
            f"p99 {ordered[int(len(ordered) * 0.99) - 1]:.1f} ms, max {ordered[-1]:.1f} ms"
        )
    for line in figures.wrong[:20]:
        print("WRONG", line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--findings", type=int, default=200)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    figures = replay(chosen.path.resolve(), chosen.findings, chosen.steps, chosen.seed)
    wrong = figures.false_fresh_at_once + figures.false_fresh + figures.false_stale
    return 1 if wrong or figures.wrong_causes or figures.wrong_commits else 0


if __name__ == "__main__":
    sys.exit(main())
