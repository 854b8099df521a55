"""Validating cited files: amend through curl, against the seed's own shell loop, on one repository.

The seed (Agent Retrieval Caching) stores a commit for each file and compares it with `git log -n 1
-- FILE`. The loop here is that one, run by bash, with jq where there is one and a generated script
without it otherwise. Bloom filters in a commit-graph are the best that can be done for it; a fresh
clone has none.
"""

import json
import os
import random
import shutil
import statistics
from pathlib import Path
from typing import Final

from benchmarks.measure import Row, skipped, whole_process_ms
from benchmarks.running import Daemon, git
from benchmarks.sizes import Sizes
from benchmarks.trees import fill, topic

# DESIGN section 11 for 100 files; research/performance.md, goal 8, for 20.
_RATIOS_MAX: Final = {
    (100, "no commit-graph"): 1 / 1000,
    (100, "Bloom filters"): 1 / 250,
    (20, "no commit-graph"): 1 / 250,
    (20, "Bloom filters"): 1 / 60,
}

# A hook's share of a question: the process itself, with nothing to ask.
_NOTHING: Final = ["curl", "-s", "file:///dev/null"]

WITH_JQ: Final = """
for file in $(jq -r '.referenced_files | keys[]' "$1"); do
  stored=$(jq -r ".referenced_files[\\"$file\\"]" "$1")
  now=$(git -C "$2" log -n 1 --format=%H -- "$file" 2>/dev/null)
  if [ "$stored" != "$now" ]; then exit 1; fi
done
exit 0
"""

# The same without jq: file and commit alternate in a text file, which is kinder to the seed.
_WITHOUT_JQ: Final = """
while read -r stored file; do
  now=$(git -C "$2" log -n 1 --format=%H -- "$file" 2>/dev/null)
  if [ "$stored" != "$now" ]; then exit 1; fi
done < "$1"
exit 0
"""


def measure_seed(base: Path, sizes: Sizes, source: Path) -> list[Row]:
    curl = shutil.which("curl")
    if curl is None:
        return [skipped("validating cited files", "there is no curl")]
    root = base / "clone"
    git(base, "clone", "-q", "--shared", str(source), str(root))
    commits = int(git(root, "rev-list", "--count", "HEAD"))
    git(root, "commit-graph", "write", "--reachable", "--changed-paths")
    files = _plain_files(root)
    rows = []
    with Daemon(base / "daemon") as daemon:
        chosen = {
            count: random.Random(count).sample(files, min(count, len(files)))
            for count in sizes.seed_files
        }
        topics = {f"cited-{count}": topic(names, count) for count, names in chosen.items()}
        fill(daemon, root, topics)
        for count, names in chosen.items():
            contract = _contract(base / f"contract{count}.json", root, names)
            rows += _compare(daemon, root, contract, count, commits=commits, sizes=sizes)
    return rows


def _compare(
    daemon: Daemon, root: Path, contract: Path, count: int, *, commits: int, sizes: Sizes
) -> list[Row]:
    question = contract.with_suffix(".question")
    question.write_text(json.dumps({"cwd": str(root), "key": f"cited-{count}"}))
    ask = ["curl", "-sf", "--unix-socket", str(daemon.socket)]
    ask += ["-H", "content-type: application/json", "--data-binary", f"@{question}"]
    ask += ["http://amend/v1/lookup"]
    script = WITH_JQ if shutil.which("jq") else _WITHOUT_JQ
    seed = ["bash", "-c", script, "seed", str(contract), str(root)]
    graphs = {"Bloom filters": _env(graph=True)}
    if sizes.seed_without_graph:
        graphs["no commit-graph"] = _env(graph=False)
    took_ms: dict[str, list[float]] = {"ask": [], "nothing": [], **{name: [] for name in graphs}}
    for _ in range(sizes.seed_runs):
        for name, env in graphs.items():
            took_ms[name].append(whole_process_ms(seed, env))
            for _ in range(sizes.curls):
                took_ms["ask"].append(whole_process_ms(ask))
                took_ms["nothing"].append(whole_process_ms(_NOTHING))
    middle = {name: statistics.median(values) for name, values in took_ms.items()}
    what = f"validating {count} files through curl, {commits:,} commits"
    rows = [
        Row(
            f"{what}, floor: the seed, {name}",
            middle["ask"],
            "ms",
            middle[name],
            ratio_max=_RATIOS_MAX.get((count, name)) if commits >= 50_000 else None,
        )
        for name in graphs
    ]
    rows.append(
        Row(
            f"  floor: curl file:///dev/null, {count} sources",
            middle["ask"],
            "ms",
            middle["nothing"],
            ratio_max=1.15 if count == 20 else None,
        )
    )
    return rows


def _plain_files(root: Path) -> list[str]:
    """What the seed's loop can name: no blank, no quote, a regular file."""
    listing = git(root, "ls-files", "-s", "-z").split("\0")
    pairs = (line.partition("\t")[::2] for line in listing if line)
    return [
        path
        for facts, path in pairs
        if facts.startswith("100") and path.isascii() and not set(path) & set(" \"'\\*?[")
    ]


def _contract(path: Path, root: Path, names: list[str]) -> Path:
    commits = {
        name: git(root, "log", "-n", "1", "--format=%H", "--", name).strip() for name in names
    }
    if shutil.which("jq"):
        path.write_text(json.dumps({"version": 1, "referenced_files": commits}, indent=2))
    else:
        path.write_text("".join(f"{commit} {name}\n" for name, commit in commits.items()))
    return path


def _env(*, graph: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    switch = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.commitGraph",
        "GIT_CONFIG_VALUE_0": "true" if graph else "false",
    }
    return {**kept, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **switch}
