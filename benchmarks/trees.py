"""What is benchmarked on: made-up repositories, and caches that cite their files.

Everything is drawn from a seeded generator, so two runs measure the same thing. A cache is brought
in as a user's is: the file is written beside the sources, and the daemon notices.
"""

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.asking import ask_once, body_of, request
from benchmarks.measure import wait_until
from benchmarks.running import Daemon, git

CACHE_FILE: Final = ".agent-cache.json"

# The median source file of the public repositories that the research measured has about 2 KB.
FILE_BYTES: Final = 2048

# A directory of a real tree holds a few dozen files.
FILES_A_DIRECTORY: Final = 50

SOURCES_EACH: Final = 8


@dataclass(frozen=True, slots=True)
class Tree:
    root: Path
    files: list[str]


def text(name: str, turn: int = 0) -> str:
    """`FILE_BYTES` that no other file has, and that differ from turn to turn."""
    line = f"{name} {turn} "
    return (line * (FILE_BYTES // len(line) + 1))[: FILE_BYTES - 1] + "\n"


def make_tree(root: Path, files: int) -> Tree:
    """A repository of one commit."""
    names = [f"src/part{n // FILES_A_DIRECTORY:03}/module{n:05}.py" for n in range(files)]
    write_files(root, names)
    git(root, "init", "-q", "-b", "main")
    (root / ".git/info/exclude").write_text(f"/{CACHE_FILE}\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    return Tree(root, names)


def write_files(root: Path, names: Sequence[str], turn: int = 0) -> None:
    for directory in {(root / name).parent for name in names}:
        directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (root / name).write_text(text(name, turn))


def add_irrelevant(tree: Tree, files: int) -> None:
    """So many tracked files more, in one commit. Nobody cites them; they share one blob."""
    root = tree.root
    blob = git(root, "hash-object", "-w", tree.files[0]).strip()
    names = [f"other/d{n // 1000:03}/e{n % 1000 // 50:02}/f{n:06}.txt" for n in range(files)]
    listing = "".join(f"100644 {blob}\t{name}\n" for name in names)
    index = ["git", "-C", str(root), "update-index", "--index-info"]
    subprocess.run(index, input=listing.encode(), check=True)
    git(root, "commit", "-q", "-m", "more")
    git(root, "reset", "-q", "--hard")


def topic(files: Sequence[str], number: int) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    summary = f"Finding {number}: the request enters at {files[0]} and is answered by {files[-1]}."
    return {"ts": now, "summary": summary, "files": list(files)}


def make_topics(
    files: Sequence[str], entries: int, *, each: int = SOURCES_EACH, seed: int = 1
) -> dict[str, Any]:
    rng = random.Random(seed)
    width = min(each, len(files))
    return {f"finding-{n}": topic(rng.sample(files, width), n) for n in range(entries)}


def write_cache(root: Path, topics: dict[str, Any]) -> None:
    document = {"_meta": {"maxAgeDays": 7}, "topics": topics, "patterns": {}}
    new = root / f"{CACHE_FILE}.new"
    new.write_text(json.dumps(document, indent=2) + "\n")
    new.rename(root / CACHE_FILE)


def fill(daemon: Daemon, root: Path, topics: dict[str, Any], *, wait_s: float = 120.0) -> None:
    """Register `root`, bring `topics` in through its cache file, and wait until all are fresh."""
    daemon.add(root)
    daemon.sync()
    write_cache(root, topics)
    wait_until(lambda: _fresh(daemon, root) == len(topics), "all entries are fresh", wait_s)
    daemon.sync()


def _fresh(daemon: Daemon, root: Path) -> int:
    """How many entries of `root` are fresh; none as long as the daemon is too busy to say."""
    try:
        status = body_of(ask_once(daemon.socket, request("GET", "/v1/status")))
    except TimeoutError:
        return 0
    repos = json.loads(status)["repos"]
    return sum(repo["entries"]["fresh"] for repo in repos if repo["root"] == str(root))
