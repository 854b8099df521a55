"""What the cache file should hold, given what it holds and the verdict on it.

Guarantees: transitions only, so that an entry whose file already says what it should costs no edit;
no entry is removed for a verdict of unknown, or for a rule that its document breaks; what comes
back into the file and is stale is marked in the same edit. Says what to change; the writer says
when and how.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from amend.core.model import (
    UNKNOWN_CAUSES,
    Cause,
    CauseKind,
    EntryName,
    Kind,
    Place,
    Verdict,
)


class OnStale(StrEnum):
    MARK = "mark"
    EVICT = "evict"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Mark:
    """The `stale` field of an entry in the file."""

    since: datetime
    cause: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """An entry as the file holds it, and the verdict on that version of it; where the file holds
    none, on the version that would be put there."""

    name: EntryName
    place: Place
    in_file: bool
    mark: Mark | None
    has_stale_field: bool  # also one that is no mark of ours
    verdict: Verdict
    causes: tuple[Cause, ...]
    since: datetime | None


@dataclass(frozen=True, slots=True)
class SetMark:
    name: EntryName
    mark: Mark


@dataclass(frozen=True, slots=True)
class ClearMark:
    name: EntryName


@dataclass(frozen=True, slots=True)
class Remove:
    name: EntryName


@dataclass(frozen=True, slots=True)
class PutBack:
    """Write the answering version's payload, marked where it is stale."""

    name: EntryName
    mark: Mark | None = None


Edit = SetMark | ClearMark | Remove | PutBack


def mark_for(causes: tuple[Cause, ...], since: datetime) -> Mark | None:
    """The mark that says why; its cause is the first that is a known difference.

    None where nothing is known to speak against the entry, or where its document breaks a rule:
    that entry belongs to whoever wrote it. A `files` item that names nothing is no such rule.
    """
    against = [cause for cause in causes if cause.kind is not CauseKind.MOVED]
    if any(c.kind is CauseKind.INVALID and not _is_of_one_source(c) for c in against):
        return None
    known = [cause for cause in against if cause.kind not in UNKNOWN_CAUSES]
    if not known:
        return None
    files = dict.fromkeys(cause.source for cause in against if cause.source)
    return Mark(since, known[0].kind.value, tuple(files))


def _is_of_one_source(cause: Cause) -> bool:
    """Whether an `invalid` cause points at `/<section>/<key>/files/<index>`."""
    parts = cause.pointer.split("/")
    return len(parts) == 5 and parts[3] == "files" and parts[4].isdecimal()


def wanted_edits(on_stale: OnStale, held: Iterable[Held], now: datetime) -> list[Edit]:
    """The edits that bring the file in step; none under `observe`."""
    if on_stale is OnStale.OBSERVE:
        return []
    edits = []
    for item in held:
        edit = _wanted(on_stale, item, now)
        if edit is not None:
            edits.append(edit)
    return edits


def _wanted(on_stale: OnStale, item: Held, now: datetime) -> Edit | None:
    stale = item.verdict is Verdict.STALE
    mark = mark_for(item.causes, item.since or now) if stale else None
    if item.place is Place.LEAVING:
        return Remove(item.name) if item.in_file else None
    if item.place is Place.COMING:
        return PutBack(item.name, None if item.in_file else mark)
    if item.place is Place.AWAY and not item.in_file:
        # Also when the policy has become `mark`: what was evicted comes back, marked.
        back = item.verdict is Verdict.FRESH or on_stale is OnStale.MARK
        return PutBack(item.name, mark) if back else None
    if not item.in_file:
        return None
    if item.verdict is Verdict.FRESH:
        return ClearMark(item.name) if item.has_stale_field else None
    if mark is None:
        return None  # unknown is neither: a mark that is there stays
    if on_stale is OnStale.EVICT:
        # One that breaks a rule never comes back by itself: its writer must see it to mend it.
        invalid = any(cause.kind is CauseKind.INVALID for cause in item.causes)
        return None if invalid else Remove(item.name)
    present = item.mark
    if present is not None and (present.cause, present.files) == (mark.cause, mark.files):
        return None
    return SetMark(item.name, mark)


def prunable(
    in_file: Iterable[tuple[EntryName, Place, datetime | None]],
    now: datetime,
    prune_after: timedelta,
) -> list[Remove]:
    """Topics too old to keep (the seed's rule), for when the file is written anyway.

    `in_file`: what the file holds, with the `ts` it has there.
    """
    return [
        Remove(name)
        for name, place, ts in in_file
        if name.kind is Kind.TOPIC
        and place is Place.FILE
        and ts is not None
        and now - ts > prune_after
    ]
