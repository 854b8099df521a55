"""Ask git whether files were like this at a time: the baseline of an entry older than amend's own
record (DESIGN section 4, "Baselines").

The worktree's reflog says which commit was checked out then, and that commit holds the file or
not: exact. Where the reflog does not reach back, as in a fresh clone, time decides: the last commit
that changed the file was made before, or later. Both are about files that are as HEAD has them; of
others the caller may ask the filesystem.

git keeps whole seconds. A time that is given more exactly and falls into the second of a change
cannot be told from it; one that is given in whole seconds counts as after it.
"""

import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from amend.edge.git.commits import describe, last_oids, shallow_boundary
from amend.edge.git.head import HeadState
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.reading import read_last
from amend.edge.git.run import LIMIT_S, GitFailed
from amend.edge.git.trees import TreeEntry, entries_until

# The last 1 MiB of a reflog is some 7,000 moves of HEAD.
_REFLOG_BYTES_MAX: Final = 1 << 20

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
    """For each path, with its blob now: was the file like this at `ts`? Both times are aware.

    `lf_blobs`: for files with CRLF, the blob of the bytes with LF instead. git may have converted
    them at checkout, and such a file is as HEAD has it. A symlink cannot be told: its blob is where
    it leads, not what is there. Raises `GitFailed`.
    """
    if ts - now > _AHEAD_MAX:
        return dict.fromkeys(blobs, Baseline.CANNOT_TELL)
    if head.oid is None:
        return dict.fromkeys(blobs, Baseline.UNTRACKED)
    until_s = time.monotonic() + limit_s
    at_head = entries_until(places, head.oid, blobs, until_s)
    answer: dict[bytes, Baseline] = {}
    for path, blob in blobs.items():
        entry = at_head.get(path)
        if entry is None:
            answer[path] = Baseline.UNTRACKED
        elif entry.blob is None or stat.S_ISLNK(entry.mode):
            answer[path] = Baseline.CANNOT_TELL
        elif entry.blob not in (blob, (lf_blobs or {}).get(path)):
            answer[path] = Baseline.MODIFIED
    clean = {path: at_head[path] for path in blobs if path not in answer}
    if clean:
        exact = _by_reflog(places, head.oid, clean, ts, until_s)
        answer |= _by_time(places, head.oid, clean, ts, until_s) if exact is None else exact
    return answer


# -- by what was checked out -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _HeadMove:
    old: str
    new: str
    second: int


def _by_reflog(
    places: RepositoryPlaces,
    head: str,
    clean: Mapping[bytes, TreeEntry],
    ts: datetime,
    until_s: float,
) -> dict[bytes, Baseline] | None:
    """None when the reflog does not say what was checked out at `ts`."""
    possible = _heads_at(_head_moves(places), head, ts)
    if not possible:
        return None
    try:
        trees = [entries_until(places, oid, clean, until_s) for oid in sorted(possible)]
    except GitFailed:
        return None  # that commit is no longer in this clone
    answer = {}
    for path, entry in clean.items():
        same = {tree.get(path) == entry for tree in trees}
        if len(same) > 1:
            answer[path] = Baseline.CANNOT_TELL
        else:
            answer[path] = Baseline.MATCHED if same.pop() else Baseline.CHANGED
    return answer


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


def _heads_at(moves: Sequence[_HeadMove], head: str, ts: datetime) -> set[str]:
    """The commits one of which HEAD was at `ts`; none where the reflog cannot tell."""
    second = int(ts.timestamp())
    before = [move for move in moves if move.second <= second]
    after = moves[len(before) :]
    if not before or before != list(moves[: len(before)]):
        return set()  # it begins later, or a clock went backwards
    then = before[-1].new
    if (after[0].old if after else head) != then:
        return set()  # moves in between were not logged, or have expired
    heads = {then}
    if ts.microsecond:
        heads |= {oid for move in before if move.second == second for oid in (move.old, move.new)}
    return set() if any(not oid.strip("0") for oid in heads) else heads


# -- by when it was changed --------------------------------------------------------------------


def _by_time(
    places: RepositoryPlaces,
    head: str,
    clean: Mapping[bytes, TreeEntry],
    ts: datetime,
    until_s: float,
) -> dict[bytes, Baseline]:
    oids = last_oids(places, head, clean, until_s)
    told = describe(places, oids.values(), max(until_s, time.monotonic() + 1))
    boundary = shallow_boundary(places)
    answer = {}
    for path in clean:
        oid = oids.get(path, "")
        if oid not in told:
            answer[path] = Baseline.CANNOT_TELL
            continue
        committed_at = told[oid].committed_at
        if ts.microsecond and committed_at == ts.replace(microsecond=0):
            answer[path] = Baseline.CANNOT_TELL
        elif committed_at <= ts:
            answer[path] = Baseline.MATCHED
        else:
            # A shallow clone's oldest commit stands for all that came before it.
            answer[path] = Baseline.CANNOT_TELL if oid in boundary else Baseline.CHANGED
    return answer
