"""Ask git what a commit or the index holds, and in which paths two commits differ."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from amend.edge.git.places import RepositoryPlaces, ask
from amend.edge.git.run import CHANGES, IGNORED, INDEX, LIMIT_S, TREE, GitFailed

# git matches every path against every name of the directories on the way, so that many paths are
# cheaper in portions of neighbours (4,000 in a tree of 5,000 files: 0.20 s of CPU, at once 0.31).
_PATHS_PER_COMMAND: Final = 500

# The least that a system takes for a command line, environment and all, is 256 KiB (macOS).
_PATHS_BYTES_MAX: Final = 128 << 10

# Hexadecimal digits of a SHA-1, in which amend names blobs too.
_SHA1_DIGITS: Final = 40

_NO_NAMES: Final = frozenset({b"", b".", b".."})


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a tree. `blob` None: the repository names it by its SHA-256, so that it cannot be
    compared with a fingerprint, only with the bytes themselves."""

    mode: int
    blob: bytes | None
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class RawChange:
    """One path in which a commit differs from its first parent. Mode 0: it is not there."""

    path: bytes
    old: TreeEntry
    new: TreeEntry


def entries_at(
    places: RepositoryPlaces, treeish: str, paths: Sequence[bytes], *, limit_s: float = LIMIT_S
) -> dict[bytes, TreeEntry]:
    """The files (symlinks too) among `paths` that the tree holds. Raises `GitFailed`."""
    return entries_until(places, treeish, paths, time.monotonic() + limit_s)


def entries_until(
    places: RepositoryPlaces, treeish: str, paths: Iterable[bytes], until_s: float
) -> dict[bytes, TreeEntry]:
    """`entries_at` as one of a series of commands."""
    if treeish.startswith("-"):
        raise GitFailed(f"{treeish!r} names no commit", hint="a name may not begin with -")
    wanted = askable(paths)
    found = {}
    for portion in _portions(sorted(wanted)):
        output = ask(places, TREE, [treeish, "--", *portion], until_s=until_s)
        for line in output.split(b"\0"):
            facts, tab, path = line.partition(b"\t")
            if tab and path in wanted:
                mode, kind, oid = facts.split(b" ")
                if kind == b"blob":
                    found[path] = _entry(mode, oid)
    return found


def askable(paths: Iterable[bytes]) -> set[bytes]:
    """Those that can be a file's path in a tree: one that cannot would fail the whole question."""
    return {p for p in paths if b"\0" not in p and _NO_NAMES.isdisjoint(p.split(b"/"))}


def changed_paths(
    places: RepositoryPlaces, old: str, new: str, *, limit_s: float = LIMIT_S
) -> set[bytes] | None:
    """Every path in which the two commits differ, None when git cannot tell."""
    try:
        until_s = time.monotonic() + limit_s
        output = ask(places, CHANGES, ["--name-only", old, new, "--"], until_s=until_s)
    except GitFailed:
        return None
    return set(output.split(b"\0")) - {b""}


def index_entries(places: RepositoryPlaces, until_s: float) -> Iterator[tuple[bytes, TreeEntry]]:
    """Every file of the index that no merge conflict has in several versions."""
    return _index_entries(ask(places, INDEX, until_s=until_s))


def is_tracked(places: RepositoryPlaces, path: bytes) -> bool:
    """Whether the index has a file at `path`. Raises `GitFailed`."""
    output = ask(places, INDEX, ["--", path], until_s=time.monotonic() + LIMIT_S)
    return any(line.partition(b"\t")[2] == path for line in output.split(b"\0"))


def ignored_below(places: RepositoryPlaces, path: bytes) -> set[bytes]:
    """The files below `path` that git is told to ignore, by root-relative path. Raises as above."""
    output = ask(places, IGNORED, ["--", path], until_s=time.monotonic() + LIMIT_S)
    return set(output.split(b"\0")) - {b""}


def raw_changes(output: bytes) -> Iterator[tuple[str, RawChange]]:
    """(commit, change) in the order of `CHANGES --raw`'s output; commit "" before the first."""
    commit = ""
    tokens = iter(output.split(b"\0"))
    for token in tokens:
        # A path always follows its facts, so one that looks like a commit's id misleads nobody.
        if token.startswith(b":"):
            old_mode, new_mode, old, new, _status = token[1:].split(b" ")
            yield commit, RawChange(next(tokens), _entry(old_mode, old), _entry(new_mode, new))
        else:
            commit = token.decode()


def _entry(mode: bytes, oid: bytes) -> TreeEntry:
    is_ours = len(oid) == _SHA1_DIGITS
    name = bytes.fromhex(oid.decode())
    return TreeEntry(int(mode, 8), name) if is_ours else TreeEntry(int(mode, 8), None, name)


def _index_entries(output: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    for line in output.split(b"\0"):
        facts, tab, path = line.partition(b"\t")
        if tab:
            mode, oid, stage = facts.split(b" ")
            if stage == b"0":
                yield path, _entry(mode, oid)


def _portions(paths: Iterable[bytes]) -> Iterator[list[bytes]]:
    portion: list[bytes] = []
    size = 0
    for path in paths:
        size += len(path) + 1
        if portion and (size > _PATHS_BYTES_MAX or len(portion) >= _PATHS_PER_COMMAND):
            yield portion
            portion, size = [], len(path) + 1
        portion.append(path)
    if portion:
        yield portion
