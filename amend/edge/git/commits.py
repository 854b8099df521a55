"""Ask git which commit brought the present state of each path, along first parents.

A merge counts for what it brought to its first parent, the root commit for what it began with, and
for a path that is gone the commit that deleted it: `git log -1 --first-parent -m -- path`, for
exactly that path. A shallow clone's oldest commits bring everything at once and nothing in truth,
so they are no answer.

Measured on two histories of 46,000 first parents: comparing every commit with its parent costs
0.12 ms a commit for any number of paths, asking for one path about 0.015 ms a commit. Limiting the
comparison to the paths makes it dearer (200 paths: nine times).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Final

from amend.core.model import Commit
from amend.edge.git.places import RepositoryPlaces, ask
from amend.edge.git.reading import read_regular
from amend.edge.git.run import CHANGES, DESCRIBE, LIMIT_S, WALK, GitFailed
from amend.edge.git.trees import askable, entries_until, raw_changes

# The first steps are small, since most changes are recent. 4096 commits take 0.6 s, which is what
# a step that runs out of time wastes.
_STEPS: Final = (64, 512, 4096)

# Where the two ways cost the same (0.12 / 0.015).
_FEW_PATHS: Final = 8

# The rest is for asking path by path, which reaches deeper.
_WALK_SHARE: Final = 0.6

# Ids of 25,000 commits.
_SHALLOW_BYTES_MAX: Final = 1 << 20

# A subject is a line of a list; git's own advice is 50.
_SUBJECT_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class OnLine:
    """A commit on a line of first parents. `second`: its committer's time, seconds since 1970."""

    oid: str
    parent: str | None
    second: int


def last_commits(
    places: RepositoryPlaces, head: str, paths: Sequence[bytes], *, limit_s: float = LIMIT_S
) -> dict[bytes, Commit]:
    """For each path the commit that brought its present state.

    Paths that are not found in time, that no commit ever held, or whose commit is beyond the
    boundary of a shallow clone are left out. Raises nothing of git's.
    """
    until_s = time.monotonic() + limit_s
    found = last_oids(places, head, paths, until_s)
    boundary = shallow_boundary(places)
    oids = set(found.values()) - boundary
    # It takes milliseconds; what was found up to the last moment is worth them.
    told = _described(places, oids, max(until_s, time.monotonic() + 1))
    return {path: told[oid] for path, oid in found.items() if oid in told}


def last_oids(
    places: RepositoryPlaces, head: str, paths: Iterable[bytes], until_s: float
) -> dict[bytes, str]:
    """`last_commits` by their ids, those at a shallow boundary among them."""
    missing = askable(paths)
    found: dict[bytes, str] = {}
    began_s = time.monotonic()
    walk_until_s = began_s + (until_s - began_s) * _WALK_SHARE
    at: str | None = head
    step = 0
    while at is not None and len(missing) >= _FEW_PATHS and time.monotonic() < walk_until_s:
        try:
            brought, at = _walk(places, at, _STEPS[min(step, len(_STEPS) - 1)], walk_until_s)
        except GitFailed:
            break
        for path in missing & brought.keys():
            found[path] = brought[path]
        missing -= found.keys()
        step += 1
    if at is not None and missing:
        found.update(_one_by_one(places, head, at, sorted(missing), until_s))
    return found


def _walk(
    places: RepositoryPlaces, start: str, count: int, until_s: float
) -> tuple[dict[bytes, str], str | None]:
    """For every path that the `count` commits from `start` changed, the newest of them; and where
    to go on, None at the end."""
    line = first_parents(places, start, until_s, count_max=count)
    brought = _brought(places, line, until_s)
    return brought, line[-1].parent if line else None


def first_parents(
    places: RepositoryPlaces, start: str, until_s: float, *, count_max: int
) -> list[OnLine]:
    """The commits from `start` along first parents, newest first."""
    arguments = ["--timestamp", "--parents", f"--max-count={count_max}", start, "--"]
    line = []
    for facts in ask(places, WALK, arguments, until_s=until_s).decode().splitlines():
        second, oid, *parents = facts.split(" ")
        line.append(OnLine(oid, parents[0] if parents else None, int(second)))
    return line


def newest_changes(
    places: RepositoryPlaces, line: Sequence[OnLine], paths: Iterable[bytes], until_s: float
) -> tuple[dict[bytes, OnLine], bool]:
    """The newest commit on the line to change each path; and whether all of the line was looked
    at, or enough: only then does a path that is not found have none there."""
    missing = askable(paths)
    found: dict[bytes, OnLine] = {}
    begin = 0
    for step in chain(_STEPS, repeat(_STEPS[-1])):
        if not missing or begin >= len(line):
            return found, True
        portion = line[begin : begin + step]
        try:
            brought = _brought(places, portion, until_s)
        except GitFailed:
            return found, False
        by_oid = {commit.oid: commit for commit in portion}
        found |= {path: by_oid[brought[path]] for path in missing & brought.keys()}
        missing -= found.keys()
        begin += step
    raise AssertionError("the steps never end")


def _brought(places: RepositoryPlaces, line: Sequence[OnLine], until_s: float) -> dict[bytes, str]:
    output = ask(
        places,
        CHANGES,
        ["--stdin", "--root", "-m", "--raw"],
        stdin="".join(f"{c.oid} {c.parent or ''}".rstrip() + "\n" for c in line).encode(),
        until_s=until_s,
    )
    brought: dict[bytes, str] = {}
    for oid, change in raw_changes(output):
        brought.setdefault(change.path, oid)
    return brought


def _one_by_one(
    places: RepositoryPlaces, head: str, start: str, paths: Sequence[bytes], until_s: float
) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    try:
        at_head = entries_until(places, head, paths, until_s)
        for path in paths:
            arguments: list[str | bytes] = ["--max-count=1", start, "--", path]
            oid = ask(places, WALK, arguments, until_s=until_s).strip().decode()
            # git takes the path for a directory as well. Where there is a file now, the newest
            # commit is the file's own; else it is only if its parent has the file.
            if oid and (path in at_head or _held(places, f"{oid}^1", path, until_s)):
                found[path] = oid
    except GitFailed:
        pass  # out of time, or objects of a partial clone are missing: what was found counts
    return found


def _held(places: RepositoryPlaces, treeish: str, path: bytes, until_s: float) -> bool:
    try:
        return path in entries_until(places, treeish, [path], until_s)
    except GitFailed:
        return False  # a root commit has no parent


def shallow_boundary(places: RepositoryPlaces) -> frozenset[str]:
    """The commits whose parents a shallow clone left behind."""
    text = read_regular(places.common_dir + b"/shallow", _SHALLOW_BYTES_MAX) or b""
    return frozenset(text.decode("ascii", "replace").split())


def _described(places: RepositoryPlaces, oids: Iterable[str], until_s: float) -> dict[str, Commit]:
    """What can be told of these commits, in whatever encoding they were written."""
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    try:
        output = ask(
            places,
            DESCRIBE,
            ["--format=%H%x00%at%x00%s"],
            stdin="".join(oid + "\n" for oid in wanted).encode(),
            until_s=until_s,
        )
    except GitFailed:
        return {}
    told = {}
    for line in output.split(b"\n"):
        facts = line.split(b"\0", 2)
        if len(facts) < 3:
            continue  # a line "commit <id>", which newer versions of git can leave out
        oid, authored_at = facts[0].decode(), _time(facts[1])
        if authored_at is not None:
            subject = facts[2].decode("utf-8", "replace").strip()[:_SUBJECT_CHARS_MAX]
            told[oid] = Commit(oid, authored_at, subject)
    return told


def _time(epoch: bytes) -> datetime | None:
    """None for what is no time: a commit may say anything."""
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        return None
