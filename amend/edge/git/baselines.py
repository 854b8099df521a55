"""Ask git whether files were like this at a time: the baseline of an entry older than amend's own
record (DESIGN section 4, "Baselines").

The worktree's reflog says which commit was checked out then, and that commit holds the file or
not: exact. Where the reflog does not reach back, as in a fresh clone, time decides: the last commit
that changed the file was made before, or later. Both are about files that are as HEAD has them; of
others the caller may ask the filesystem.

Only commits that are later than the oldest time asked for are compared with their parents: once for
all paths and times, 0.14 ms a commit.

An entry may know no better than a day when it was written: then a file counts as it was when it was
so all day, and as changed when it was not so at any moment of it.

git keeps whole seconds. A time that is given more exactly and falls into the second of a change
cannot be told from it; one that is given in whole seconds counts as after it.
"""

import re
import stat
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import accumulate, takewhile
from typing import Final

from amend.edge.git.commits import first_parents, newest_changes, shallow_boundary
from amend.edge.git.head import HeadState
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.reading import read_last
from amend.edge.git.run import LIMIT_S, GitFailed, GitTimedOut
from amend.edge.git.trees import TreeEntry, entries_until

# The last 1 MiB of a reflog is some 7,000 moves of HEAD.
_REFLOG_BYTES_MAX: Final = 1 << 20

# A whole history's worth: asked once for each older entry, when amend first sees it.
ALL_LIMIT_S: Final = 60.0

# A listing of 48 MB. The largest histories that were measured have 46,000 on their line.
_LINE_MAX: Final = 500_000

# Two machines' clocks differ by seconds; a `ts` further ahead says nothing about time.
_AHEAD_MAX: Final = timedelta(minutes=5)

# "<old> <new> <name> <address> <epoch> <zone>", then a tab and a message.
_REFLOG_LINE: Final = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*> (\d{1,12}) [+-]\d{4}")


class Baseline(Enum):
    """What history says about a file that an older entry cites."""

    MATCHED = "as it was"
    CHANGED = "changed by a commit since"
    MODIFIED = "differs from HEAD"
    UNTRACKED = "not in HEAD"
    CANNOT_TELL = "history does not reach, or does not say"


@dataclass(frozen=True, slots=True)
class AsOf:
    """Were these paths at `ts` (aware) as they are now? `until`: and at every moment to then, where
    nobody knows at which of them it was."""

    ts: datetime
    paths: frozenset[bytes]
    until: datetime | None = None

    @property
    def last_second(self) -> int:
        return int((self.until or self.ts).timestamp())


def baseline(
    places: RepositoryPlaces,
    head: HeadState,
    blobs: Mapping[bytes, bytes],
    ts: datetime,
    now: datetime,
    *,
    lf_blobs: Mapping[bytes, bytes] | None = None,
    limit_s: float = LIMIT_S,
) -> dict[bytes, Baseline]:
    """`baselines` for one time and all of `blobs`."""
    asked = [AsOf(ts, frozenset(blobs))]
    return baselines(places, head, blobs, asked, now, lf_blobs=lf_blobs, limit_s=limit_s)[0]


def baselines(
    places: RepositoryPlaces,
    head: HeadState,
    blobs: Mapping[bytes, bytes],
    asked: Sequence[AsOf],
    now: datetime,
    *,
    lf_blobs: Mapping[bytes, bytes] | None = None,
    limit_s: float = ALL_LIMIT_S,
) -> list[dict[bytes, Baseline]]:
    """An answer for each of `asked`, about paths among `blobs`, which gives their blobs now.

    `lf_blobs`: for files with CRLF, the blob of the bytes with LF instead. git may have converted
    them at checkout, and such a file is as HEAD has it. A symlink cannot be told: its blob is where
    it leads, not what is there. Raises `GitFailed`.
    """
    until_s = time.monotonic() + limit_s
    at_head = entries_until(places, head.oid, blobs, until_s) if head.oid is not None else {}
    unclean = _unclean(at_head, blobs, lf_blobs or {})
    answers = [
        dict.fromkeys(one.paths, Baseline.CANNOT_TELL)
        if one.ts - now > _AHEAD_MAX
        else {path: unclean[path] for path in one.paths & unclean.keys()}
        for one in asked
    ]
    rest = {
        index: replace(one, paths=one.paths - answers[index].keys())
        for index, one in enumerate(asked)
        if one.paths - answers[index].keys()
    }
    if head.oid is not None and rest:
        exact = _by_reflog(places, head.oid, at_head, rest, until_s)
        rest = {index: one for index, one in rest.items() if index not in exact}
        for index, answer in (exact | _by_time(places, head.oid, rest, until_s)).items():
            answers[index] |= answer
    return answers


def _unclean(
    at_head: Mapping[bytes, TreeEntry],
    blobs: Mapping[bytes, bytes],
    lf_blobs: Mapping[bytes, bytes],
) -> dict[bytes, Baseline]:
    """What can be said of files without their history: those that are not as HEAD has them."""
    unclean = {}
    for path, blob in blobs.items():
        entry = at_head.get(path)
        if entry is None:
            unclean[path] = Baseline.UNTRACKED
        elif entry.blob is None or stat.S_ISLNK(entry.mode):
            unclean[path] = Baseline.CANNOT_TELL
        elif entry.blob not in (blob, lf_blobs.get(path)):
            unclean[path] = Baseline.MODIFIED
    return unclean


# -- by what was checked out -------------------------------------------------------------------


def _by_reflog(
    places: RepositoryPlaces,
    head: str,
    at_head: Mapping[bytes, TreeEntry],
    asked: Mapping[int, AsOf],
    until_s: float,
) -> dict[int, dict[bytes, Baseline]]:
    """Answers to those of `asked` for which the reflog says what was checked out."""
    reflog = _Reflog(_head_moves(places))
    heads = {index: reflog.heads_at(one, head) for index, one in asked.items()}
    wanted: dict[str, set[bytes]] = {}
    for index, oids in heads.items():
        for oid in oids:
            wanted.setdefault(oid, set()).update(asked[index].paths)
    trees = {}
    for oid, paths in wanted.items():
        try:
            trees[oid] = entries_until(places, oid, paths, until_s)
        except GitTimedOut:
            raise
        except GitFailed:
            continue  # an old commit may no longer be in this clone
    answers = {}
    for index, oids in heads.items():
        if oids and oids <= trees.keys():
            answers[index] = {
                path: _then({trees[oid].get(path) == at_head[path] for oid in oids})
                for path in asked[index].paths
            }
    return answers


def _then(same: set[bool]) -> Baseline:
    """Whether the file was the same, in each commit that may have been checked out."""
    if len(same) > 1:
        return Baseline.CANNOT_TELL
    return Baseline.MATCHED if same.pop() else Baseline.CHANGED


@dataclass(frozen=True, slots=True)
class _HeadMove:
    old: str
    new: str
    second: int


def _head_moves(places: RepositoryPlaces) -> list[_HeadMove]:
    text = read_last(places.git_dir + b"/logs/HEAD", _REFLOG_BYTES_MAX) or b""
    lines = text.split(b"\n")
    if len(text) == _REFLOG_BYTES_MAX:
        del lines[0]  # its beginning is missing
    moves = []
    for line in lines:
        match = _REFLOG_LINE.match(line.partition(b"\t")[0])
        if match is not None:
            moves.append(_HeadMove(match[1].decode(), match[2].decode(), int(match[3])))
    return moves


class _Reflog:
    def __init__(self, moves: Sequence[_HeadMove]) -> None:
        self._moves = moves
        seconds = [move.second for move in moves]
        self._latest_until = list(accumulate(seconds, max))
        self._earliest_from = list(accumulate(reversed(seconds), min))[::-1]

    def heads_at(self, asked: AsOf, head: str) -> set[str]:
        """The commits one of which HEAD was then; none where the reflog cannot tell."""
        second = int(asked.ts.timestamp())
        count = bisect_right(self._latest_until, second)
        end = bisect_right(self._latest_until, asked.last_second)
        if not count:
            return set()  # it begins later
        for moves, until in ((count, second), (end, asked.last_second)):
            if moves < len(self._moves) and self._earliest_from[moves] <= until:
                return set()  # a clock went backwards
        before, during = self._moves[:count], self._moves[count:end]
        after = [move.old for move in self._moves[count : end + 1]]
        trail = [before[-1].new, *(move.new for move in during)]
        if trail != (after if end < len(self._moves) else [*after, head]):
            return set()  # moves in between were not logged, or have expired
        heads = set(trail)
        if asked.ts.microsecond:
            same_second = takewhile(lambda move: move.second == second, reversed(before))
            heads |= {oid for move in same_second for oid in (move.old, move.new)}
        return heads if all(oid.strip("0") for oid in heads) else set()


# -- by when it was changed --------------------------------------------------------------------


def _by_time(
    places: RepositoryPlaces, head: str, asked: Mapping[int, AsOf], until_s: float
) -> dict[int, dict[bytes, Baseline]]:
    if not asked:
        return {}
    line = first_parents(places, head, until_s, count_max=_LINE_MAX)
    # Committers' clocks differ, so that an older commit may have a later time: the last one counts.
    oldest = min(int(one.ts.timestamp()) for one in asked.values())
    later = max((n + 1 for n, commit in enumerate(line) if commit.second >= oldest), default=0)
    paths = frozenset().union(*(one.paths for one in asked.values()))
    changes, is_whole = newest_changes(places, line[:later], paths, until_s)
    is_whole = is_whole and len(line) < _LINE_MAX
    boundary = shallow_boundary(places)

    def since(path: bytes, one: AsOf) -> Baseline:
        change = changes.get(path)
        if change is None:
            return Baseline.MATCHED if is_whole else Baseline.CANNOT_TELL
        second = int(one.ts.timestamp())
        if change.second == second and one.ts.microsecond:
            return Baseline.CANNOT_TELL
        if change.second <= second:
            return Baseline.MATCHED
        if change.second <= one.last_second:
            return Baseline.CANNOT_TELL
        # A shallow clone's oldest commit stands for all that came before it.
        return Baseline.CANNOT_TELL if change.oid in boundary else Baseline.CHANGED

    return {index: {path: since(path, one) for path in one.paths} for index, one in asked.items()}
