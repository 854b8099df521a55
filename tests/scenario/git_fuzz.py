"""Random git operations, and amend asked before, during and after each: is it ever wrong?

One repository with a linked worktree and a remote, findings over a few files of each worktree, and
dice. While an operation runs, findings are looked up; after it everything is asked at once, and
after `/v1/sync` compared with `git_truth.Truth`. Every run is decided by its seed, except for which
moments of an operation the questions meet. To replay one, or to run more:

    AMEND_FUZZ_SEED=7 python -m tests.scenario.git_fuzz [OPERATIONS]
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.running import Daemon
from tests.integration.git_repositories import Repository, new_repository
from tests.integration.git_truth import (
    Look,
    Truth,
    Version,
    WriteWatch,
    holds,
    index_stamp,
    told_causes,
    told_moves,
)

FILES = ("a.py", "b.py", "c.py", "lib/a.py", "lib/b.py", "lib/sub/a.py")
SPECS = (*FILES, "lib/", "lib/*.py", "lib/**/*.py", "!lib/b.py", "!c.py")
BRANCHES = ("main", "one", "two", "three")
KEYS = ("first", "second", "third", "fourth")

# DESIGN section 4.
VERSIONS_MAX = 8

# Two ends that merge without a conflict; few enough for contents to come back.
TEXTS = [f"top {i}\n" + "between\n" * 5 + f"end {j}\n" for i in range(3) for j in range(3)]

# A repository's history grows, and with it what an operation costs: then a new one begins.
EPISODE_OPERATIONS = 300

# Marker in a worktree's git directory → the command that is half done.
HALF_DONE = {
    "rebase-merge": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


@dataclass
class Tally:
    operations: int = 0
    refused: int = 0  # by git, and not among the operations
    asked_during: int = 0
    verdicts: int = 0
    stale: int = 0
    false_fresh: int = 0
    false_stale: int = 0  # after `/v1/sync`
    wrong_causes: int = 0  # causes or commits after `/v1/sync`
    mistakes: int = 0  # answers of 500
    locks: int = 0  # writes below `.git` by amend, and locks that git met
    told: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Tally") -> "Tally":
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def is_right(self) -> bool:
        return not self.told


class Hands(Repository):
    """Git in one worktree, at random."""

    def __init__(self, root: Path, home: Path, dice: random.Random) -> None:
        super().__init__(root, home)
        self.dice = dice
        self.complaints: list[str] = []
        self.succeeded = True

    @property
    def git_dir(self) -> Path:
        return Path(self.git("rev-parse", "--absolute-git-dir"))

    def run(self, *arguments: str) -> bool:
        self.clock_s += 60
        date = f"{self.clock_s} +0000"
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
            check=False,
        )
        if b".lock" in done.stderr:
            self.complaints.append(f"git {arguments}: {done.stderr.decode(errors='replace')}")
        self.succeeded = done.returncode == 0
        return self.succeeded

    def operate(self) -> str:
        """One operation; its name."""
        half_done = self._half_done()
        self.succeeded = True
        if half_done and self.dice.random() < 0.8:
            return self._end(half_done)
        weighted = self._operations()
        operation = self.dice.choices([*weighted], weights=[*weighted.values()])[0]
        operation()
        return operation.__name__

    @property
    def is_half_done(self) -> bool:
        return self._half_done() is not None

    def _half_done(self) -> str | None:
        git_dir = self.git_dir
        return next((c for marker, c in HALF_DONE.items() if (git_dir / marker).exists()), None)

    def _end(self, command: str) -> str:
        how = self.dice.choice(["--abort", "--abort", "--continue", "--continue", "--skip"])
        if command == "merge" and how == "--skip":
            how = "--abort"
        if how == "--continue":
            self.run("add", "-A")
        if not self.run(command, how) and self._half_done() == command:
            self.run("reset", "-q", "--hard")
            self.run(command, "--quit")
        return f"{command} {how}"

    def _operations(self) -> Mapping[Callable[[], object], int]:
        return {
            self.edit: 10,
            self.commit: 16,
            self.amend: 4,
            self.move: 5,
            self.remove: 3,
            self.chmod: 2,
            self.switch: 10,
            self.branch: 3,
            self.detach: 4,
            self.merge: 7,
            self.rebase: 6,
            self.cherry_pick: 5,
            self.revert: 4,
            self.reset: 9,
            self.restore: 3,
            self.stash: 5,
            self.unstash: 5,
            self.push: 3,
            self.fetch: 4,
            self.pack: 3,
            self.sparse: 2,
            self.orphan: 1,
            self.worktree: 3,
            self.rename_branch: 1,
        }

    # -- what it draws from --------------------------------------------------------------------

    def a_branch(self) -> str:
        return self.dice.choice(BRANCHES)

    def a_commit(self) -> str:
        return self.dice.choice([*BRANCHES, "HEAD~1", "HEAD~2", "HEAD^2", "origin/main"])

    def change_files(self) -> None:
        for path in self.dice.sample(FILES, self.dice.choice([1, 1, 2, 3])):
            if self.dice.random() < 0.15:
                (self.root / path).unlink(missing_ok=True)
            else:
                self.write(path, self.dice.choice(TEXTS))

    # -- operations ----------------------------------------------------------------------------

    def edit(self) -> None:
        self.change_files()
        if self.dice.random() < 0.5:
            self.run("add", "-A")

    def commit(self) -> None:
        self.change_files()
        self.run("add", "-A")
        self.run("commit", "-q", "-m", "a change")

    def amend(self) -> None:
        if self.dice.random() < 0.7:
            self.change_files()
        self.run("commit", "-q", "-a", "--amend", "--no-edit", "--allow-empty")

    def move(self) -> None:
        old, new = self.dice.sample(FILES, 2)
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        if self.run("mv", "-f", old, new) and self.dice.random() < 0.5:
            self.run("commit", "-q", "-m", "move")

    def remove(self) -> None:
        if self.run("rm", "-q", "-f", self.dice.choice(FILES)) and self.dice.random() < 0.5:
            self.run("commit", "-q", "-m", "remove")

    def chmod(self) -> None:
        path = self.root / self.dice.choice(FILES)
        if path.exists():
            path.chmod(self.dice.choice([0o644, 0o755]))
            self.run("commit", "-q", "-a", "-m", "mode")

    def switch(self) -> None:
        force = ["-f"] if self.dice.random() < 0.5 else []
        self.run("switch", "-q", *force, self.a_branch())

    def branch(self) -> None:
        self.run("switch", "-q", "-C", self.a_branch())

    def detach(self) -> None:
        self.run("checkout", "-q", "--detach", self.a_commit())

    def merge(self) -> None:
        how = self.dice.choice(["--ff", "--no-ff", "--ff-only", "--squash"])
        self.run("merge", "-q", how, "--no-edit", self.a_commit())

    def rebase(self) -> None:
        self.run("rebase", "-q", self.a_commit())

    def cherry_pick(self) -> None:
        self.run("cherry-pick", self.a_commit())

    def revert(self) -> None:
        self.run("revert", "--no-edit", self.dice.choice(["HEAD", "HEAD~1", "main~1"]))

    def reset(self) -> None:
        how = self.dice.choice(["--soft", "--mixed", "--hard", "--hard", "--keep"])
        self.run("reset", "-q", how, self.a_commit())

    def restore(self) -> None:
        self.run("checkout", self.a_branch(), "--", self.dice.choice([*FILES, "."]))

    def stash(self) -> None:
        self.run("stash", "push", "-q", *(["-u"] if self.dice.random() < 0.5 else []))

    def unstash(self) -> None:
        self.run("stash", "pop", "-q")

    def push(self) -> None:
        self.run("push", "-q", "-f", "origin", f"HEAD:refs/heads/{self.a_branch()}")

    def fetch(self) -> None:
        self.run("fetch", "-q", "--prune", "origin")

    def pack(self) -> None:
        packs = (["pack-refs", "--all"], ["gc", "-q", "--prune=now"], ["repack", "-q", "-a", "-d"])
        self.run(*self.dice.choice(packs))

    def sparse(self) -> None:
        if self.dice.random() < 0.5:
            self.run("sparse-checkout", "set", "--no-cone", "/*.py", "/lib/*.py")
        else:
            self.run("sparse-checkout", "disable")

    def orphan(self) -> None:
        self.run("branch", "-q", "-D", "three")
        if self.run("switch", "-q", "--orphan", "three"):
            self.change_files()
            self.run("add", "-A")
            self.run("commit", "-q", "-m", "another root")

    def worktree(self) -> None:
        """A third one, which amend finds by itself."""
        extra = str(self.root.parent / "extra")
        if os.path.exists(extra):
            self.run("worktree", "remove", "-f", extra)
        else:
            self.run("worktree", "add", "-q", "-f", "--detach", extra, self.a_commit())

    def rename_branch(self) -> None:
        self.run("branch", "-q", "-M", self.a_branch(), self.a_branch())


class Fuzz:
    """One episode: a repository of its own in a running daemon."""

    def __init__(self, daemon: Daemon, base: Path, seed: int) -> None:
        self.daemon = daemon
        self.seed = seed
        self.tally = Tally()
        self.dice = random.Random(seed)
        self.asking = random.Random(seed)  # how often it is thrown depends on how long git takes
        home = base / "home"
        main = new_repository(base / "main", home)
        main.write(".git/info/exclude", ".agent-cache.json\n")
        main.commit("begin", **dict.fromkeys(FILES, TEXTS[0]))
        for branch in BRANCHES[1:]:
            main.git("branch", branch)
        main.git("clone", "-q", "--bare", str(main.root), str(base / "remote"))
        main.git("remote", "add", "origin", str(base / "remote"))
        main.git("fetch", "-q", "origin")
        main.git("worktree", "add", "-q", str(base / "linked"), "one")
        roots = (base / "main", base / "linked")
        self.hands = {root: Hands(root, home, self.dice) for root in roots}
        self.truths: dict[Path, Truth] = {}
        for root in roots:
            self.truths[root] = Truth(Repository(root, home), self.truths.values())
        self.watches = {root: WriteWatch(root) for root in roots}
        self.ids = [daemon.add(root)["id"] for root in roots]
        self.versions: dict[str, Version] = {}  # by summary
        for root in roots:
            for key in KEYS:
                self.put(root, key)

    def run(self, operations: int) -> Tally:
        watch = WriteWatch(self.truths[next(iter(self.truths))].common_dir)
        try:
            with ThreadPoolExecutor(1) as thread:
                while self.tally.operations < operations and self.tally.is_right:
                    self.step(thread, watch)
        finally:
            for each in (watch, *self.watches.values()):
                each.close()
            for repo_id in self.ids:
                self.daemon.request("DELETE", f"/v1/repos/{repo_id}")
        return self.tally

    def put(self, root: Path, key: str) -> None:
        specs = self.dice.sample(SPECS, self.dice.choice([1, 1, 2, 3]))
        summary = f"number {len(self.versions)}"
        key = f"{root.name}-{key}"
        self.daemon.put(root, key, specs, summary=summary)
        self.truths[root].record(key, specs, summary)
        self.versions[summary] = self.truths[root].findings[key][0]

    def step(self, thread: ThreadPoolExecutor, watch: WriteWatch) -> None:
        root = self.dice.choice([*self.hands])
        if self.dice.random() < 0.15:
            self.put(root, self.dice.choice(KEYS))
        hands = self.hands[root]
        operation = thread.submit(hands.operate)
        self.ask_during(operation)
        name = f"{operation.result()} in {root.name}"
        is_done = hands.succeeded or hands.is_half_done
        self.tally.operations += is_done
        self.tally.refused += not is_done
        for complaint in hands.complaints:
            self.tally.locks += 1
            self.tell(name, complaint)
        hands.complaints.clear()
        if not is_done:
            return  # what it did all the same is seen after the next one
        watch.begin()
        stamps = [index_stamp(truth.git_dir) for truth in self.truths.values()]
        for each in self.truths:
            self.check_at_once(each, name)
        self.daemon.sync()
        for each in self.truths:
            self.check_settled(each, name)
        written = watch.seen()
        if written or stamps != [index_stamp(truth.git_dir) for truth in self.truths.values()]:
            self.tally.locks += 1
            self.tell(name, f"amend wrote {written}")

    def tell(self, operation: str, what: str) -> None:
        number = self.tally.operations
        self.tally.told.append(f"AMEND_FUZZ_SEED={self.seed}, {number}: {operation}: {what}")

    # -- while git is at work ----------------------------------------------------------------------

    def ask_during(self, operation: "Future[str]") -> None:
        while not operation.done():
            root = self.asking.choice([*self.truths])
            key = self.a_key(self.asking)
            truth, watch = self.truths[root], self.watches[root]
            watch.begin()
            before = self.everything(truth)
            answer = self.lookup(root, key)
            after = self.everything(truth)
            self.tally.asked_during += 1
            if answer["verdict"] != "fresh":
                continue
            row = answer["entry"] | answer
            version, moves = self.answering(root, key, row), told_moves(row)
            written = [os.path.relpath(path, root) for path in watch.seen()]
            for spec, then in version.looks.items():
                held = holds(spec, then, before, moves) or holds(spec, then, after, moves)
                # git removes a file before it writes it anew, so it may have held in between.
                if not held and not _touched(moves.get(spec, spec), written):
                    self.tally.false_fresh += 1
                    looks = f"{spec} was {before[spec]}, then {after[spec]}, must be {then}"
                    self.tell("during", f"{key} is fresh, but {looks}")

    def lookup(self, root: Path, key: str) -> Any:
        question = {"cwd": str(root), "key": key}
        status, answer = self.daemon.request("POST", "/v1/lookup", question)
        if status != 200:
            self.tally.mistakes += 1
            self.tell("lookup", f"{key} in {root.name}: {answer}")
            return {"verdict": "unknown", "causes": []}
        return answer

    @staticmethod
    def everything(truth: Truth) -> dict[str, Look]:
        return {spec: truth.look(spec) for spec in SPECS}

    def a_key(self, dice: random.Random) -> str:
        return f"{dice.choice([*self.hands]).name}-{dice.choice(KEYS)}"

    def answering(self, root: Path, key: str, row: Mapping[str, Any]) -> Version:
        """The version that answered. One that is true in another worktree answers in this one as
        well, which has it from then on."""
        version = self.versions[row["summary"]]
        known = self.truths[root].findings.setdefault(key, [])
        if version not in known or row["verdict"] != "fresh":
            # Only a version that was taken from there once more makes an older one the newest.
            known[:] = [version, *(each for each in known if each is not version)][:VERSIONS_MAX]
        return version

    # -- after it ----------------------------------------------------------------------------------

    def check_at_once(self, root: Path, operation: str) -> None:
        key = self.a_key(self.dice)
        answer = self.lookup(root, key)
        self.check_fresh(root, key, answer.get("entry", {}) | answer, operation)
        for key, row in self.daemon.entries(root).items():
            self.check_fresh(root, key, row, operation)

    def check_fresh(self, root: Path, key: str, row: Mapping[str, Any], operation: str) -> None:
        if row["verdict"] != "fresh":
            return
        truth, version = self.truths[root], self.answering(root, key, row)
        if not truth.supports(version, told_moves(row)):
            self.tally.false_fresh += 1
            self.tell(operation, f"{key} is fresh: {row}, but {truth.causes(version)}")

    def check_settled(self, root: Path, operation: str) -> None:
        truth, rows = self.truths[root], self.daemon.entries(root)
        for key, row in rows.items():
            self.tally.verdicts += 1
            self.check_fresh(root, key, row, operation)
            version, moves = self.answering(root, key, row), told_moves(row)
            if row["verdict"] != "fresh":
                self.tally.stale += row["verdict"] == "stale"
                better = [v.summary for v in truth.findings[key] if truth.supports(v)]
                self.tally.false_stale += bool(better)
                if better:
                    self.tell(operation, f"{key} is {row}, but {better} are supported")
            # A rename that was seen half-way, or that git no longer shows, is true all the same
            # while the bytes stand there.
            truth.followed = {
                (spec, then): moves[spec]
                for spec, then in version.looks.items()
                if spec in moves and truth.file(moves[spec]) == then
            }
            causes, told = truth.causes(version), told_causes(row)
            for spec, cause in causes.items():
                # Where a deleted file's bytes are is asked when it goes and when HEAD moves, not
                # for everything that comes afterwards.
                if cause["cause"] == "moved" and told.get(spec, {}).get("cause") == "deleted":
                    causes[spec] = told[spec]
            if told != causes:
                self.tally.wrong_causes += 1
                self.tell(operation, f"{key}, {version.summary}, has {told}, must be {causes}")


def _touched(spec: str, written: list[str]) -> bool:
    """Whether one of these writes may have changed what a source looks like."""
    path = spec.removeprefix("!").partition("*")[0].rstrip("/")
    is_within = path != spec.removeprefix("!")  # of a listing or a glob, everything counts
    return any(
        f"{path}/".startswith(f"{each}/") or (is_within and each.startswith(f"{path}/"))
        for each in written
    )


def chosen_seed(otherwise: int | None = None) -> int:
    """`AMEND_FUZZ_SEED`, or what is given instead, or a new one."""
    said = os.environ.get("AMEND_FUZZ_SEED")
    if said is not None:
        return int(said)
    return otherwise if otherwise is not None else random.SystemRandom().randrange(1 << 32)


def run(operations: int, seed: int) -> Tally:
    """In episodes, each of which can be replayed by its own seed, until one is wrong."""
    print(f"AMEND_FUZZ_SEED={seed}", flush=True)
    total = Tally()
    with Daemon() as daemon:
        while total.operations < operations and total.is_right:
            with tempfile.TemporaryDirectory(prefix="am-fuzz-") as base:
                fuzz = Fuzz(daemon, Path(base).resolve(), seed)
                total += fuzz.run(min(EPISODE_OPERATIONS, operations - total.operations))
            seed += 1
    for line in total.told:
        print(line, flush=True)
    return total


def main() -> int:
    operations = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODE_OPERATIONS
    outcome = run(operations, chosen_seed())
    print(*(f"{name} {value}" for name, value in vars(outcome).items() if name != "told"), sep=", ")
    return 0 if outcome.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
