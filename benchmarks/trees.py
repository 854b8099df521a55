"""What is benchmarked on: made-up repositories, caches that cite their files, and memory trees.

Everything is drawn from a seeded generator, so two runs measure the same thing. A cache is brought
in as a user's is: the file is written beside the sources, and the daemon notices.
"""

import json
import os
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

NOTES: Final = "memory"
INDEX: Final = "index.aicontext"

_TEXT: Final = """
token session cookie retry queue index cache shard lease clock page order price stock refund
webhook schema column migration replica region bucket batch cursor limit
"""
_WORDS: Final = _TEXT.split()


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


# -- memory trees --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteTree:
    root: Path
    directories: list[str]  # root-relative, `memory` itself not among them
    notes: list[str]  # root-relative
    sources: list[str]


def make_notes(root: Path, areas: int, topics: int, *, each: int, sources: int) -> NoteTree:
    """A repository of one commit with notes and no index: each second one names a source.

    `areas` directories of `topics` directories; `each`: notes in every one of both.
    """
    named = make_tree(root, sources).files
    directories = []
    for area in range(areas):
        directories.append(f"{NOTES}/area-{area:02}")
        directories += [f"{NOTES}/area-{area:02}/topic-{n:02}" for n in range(topics)]
    notes = [f"{path}/note-{n:02}.aicontext" for path in directories for n in range(each)]
    tree = NoteTree(root, directories, notes, named)
    for directory in directories:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(notes):
        (root / name).write_text(note_text(tree, number))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "notes")
    return tree


def note_text(tree: NoteTree, number: int, turn: int = 0) -> str:
    """About 300 bytes; the title and a bullet differ from turn to turn."""
    rng = random.Random(number)
    words = rng.choices(_WORDS, k=24)
    source = f"`{rng.choice(tree.sources)}`" if number % 2 else "the old service"
    return (
        f"2026-01-{1 + number % 28:02}: {note_title(number, turn)}\n"
        f"  - {' '.join(words[:9])}, as {source} has it\n"
        f"  - {' '.join(words[9:16])} since turn {turn}\n"
        f"  - {' '.join(words[16:])}\n"
    )


def note_title(number: int, turn: int = 0) -> str:
    return f"{' '.join(random.Random(-number - 1).choices(_WORDS, k=2))} {number:05} turn {turn}"


def indexes(tree: NoteTree) -> list[str]:
    """Root-relative, the root's first."""
    return [f"{directory}/{INDEX}" for directory in (NOTES, *tree.directories)]


def listing(tree: NoteTree) -> dict[str, set[str]]:
    """What each index has to list, going by nothing but the disk."""
    wanted = {}
    for directory in (NOTES, *tree.directories):
        names = os.listdir(tree.root / directory)
        wanted[directory] = {name for name in names if name != INDEX and not name.startswith(".")}
    return wanted


def indexed(tree: NoteTree, directory: str) -> dict[str, str]:
    """What the index of the directory lists, with the descriptions."""
    try:
        lines = (tree.root / directory / INDEX).read_text().splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines:
        kind, colon, rest = line.partition(": ")
        if colon and kind in ("dir", "file"):
            name, _, description = rest.partition(" | ")
            found[name.strip().rstrip("/")] = description.strip()
    return found


def out_of_step(tree: NoteTree) -> list[str]:
    """Directories whose index lists something else than what is there."""
    return [path for path, names in listing(tree).items() if set(indexed(tree, path)) != names]


def stamps(tree: NoteTree) -> dict[str, tuple[int, int]]:
    """Which file each index is and when it was last changed."""
    found = {}
    for name in indexes(tree):
        stat = (tree.root / name).stat()
        found[name] = stat.st_ino, stat.st_ctime_ns
    return found
