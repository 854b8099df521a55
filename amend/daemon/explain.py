"""Ask git, off the hot path, what the watcher cannot know.

Three questions, each a batch for one worktree, answered in a worker thread:
* of changed and deleted sources: does HEAD have this state, and which commit brought it;
* of deleted sources: where did their bytes go;
* of entries older than amend's record: was the source already like this at their `ts`.

Values in, values out; `Worktree` applies the answers on the loop. What git cannot answer is left
out, never guessed.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from amend.core.freshness import Explained
from amend.core.model import (
    ABSENT,
    AbsentPrint,
    CauseKind,
    FilePrint,
    Fingerprint,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
)
from amend.edge.files.beneath import LIST_FLAGS, entries_of, open_beneath
from amend.edge.files.look import look_at_file
from amend.edge.git.head import HeadState
from amend.edge.git.history import Baseline, baseline, entries_at, find_moves, last_commits
from amend.edge.git.places import RepositoryPlaces
from amend.errors import AmendError

# A print that no file has: the source is known to have changed since the entry was written, and
# what it was then is not known.
CHANGED_SINCE: Final = FilePrint(b"", 0, -1)


@dataclass(frozen=True, slots=True)
class Question:
    """One changed or deleted source: what the entry expects there and what is there."""

    source: Source
    then: Fingerprint
    now: Fingerprint


@dataclass(frozen=True, slots=True)
class Unbased:
    """A version whose fingerprints wait: its `ts`, and each source with its look and mtime."""

    version_id: int
    ts: datetime | None
    sources: tuple[tuple[Source, Fingerprint, int], ...]


@dataclass(slots=True)
class Told:
    """What git said. A source in neither mapping could not be settled."""

    explained: dict[Source, tuple[Fingerprint, Explained]] = field(default_factory=dict)
    moves: dict[RelPath, RelPath] = field(default_factory=dict)


def explain_sources(
    places: RepositoryPlaces, head: HeadState, root: bytes, questions: Sequence[Question]
) -> Told:
    """Which of these HEAD has, by which commit, and where deleted files went."""
    told = Told()
    if head.oid is None:  # nothing was ever committed, so nothing of this is
        told.explained = {q.source: (q.now, Explained(committed=False)) for q in questions}
        return told
    at_head = entries_at(places, head.oid, [q.source.path for q in questions])
    brought = []
    for question in questions:
        entry = at_head.get(question.source.path)
        if isinstance(question.now, FilePrint):
            committed = entry is not None and entry.blob == question.now.blob
        else:
            committed = entry is None
        if committed:
            brought.append(question)
        else:
            told.explained[question.source] = (question.now, Explained(committed=False))
    commits = last_commits(places, head.oid, [q.source.path for q in brought]) if brought else {}
    for question in brought:
        explained = Explained(committed=True, commit=commits.get(question.source.path))
        told.explained[question.source] = (question.now, explained)
    gone: dict[bytes, bytes] = {
        q.source.path: q.then.blob
        for q in questions
        if isinstance(q.now, AbsentPrint) and isinstance(q.then, FilePrint)
    }
    moves = find_moves(
        places,
        head.oid,
        gone,
        hash_path=lambda path: _blob_of(root, path),
        list_directory=lambda path: _names_in(root, path),
    )
    told.moves = {RelPath(old): RelPath(new) for old, new in moves.items()}
    return told


def _blob_of(root: bytes, path: bytes) -> bytes | None:
    look = look_at_file(root, path, now_ns=0)
    fingerprint = look.fingerprint if look is not None else None
    return fingerprint.blob if isinstance(fingerprint, FilePrint) else None


def _names_in(root: bytes, path: bytes) -> list[bytes]:
    """The files in a directory of the worktree; none where it cannot be listed."""
    try:
        fd = open_beneath(root, path, LIST_FLAGS)
    except (OSError, AmendError):
        return []
    try:
        return sorted(name for name, is_directory in entries_of(fd) if not is_directory)
    except (OSError, AmendError):
        return []
    finally:
        os.close(fd)


def base_versions(
    places: RepositoryPlaces | None, head: HeadState, versions: Sequence[Unbased], now: datetime
) -> dict[int, dict[Source, Fingerprint]]:
    """For each version the fingerprints that time and history give its sources."""
    answers: dict[int, dict[Source, Fingerprint]] = {}
    for version in versions:
        blobs: dict[bytes, bytes] = {
            source.path: look.blob
            for source, look, _ in version.sources
            if source.kind is SourceKind.FILE and isinstance(look, FilePrint)
        }
        history: Mapping[bytes, Baseline] = {}
        if places is not None and version.ts is not None and blobs:
            history = baseline(places, head, blobs, version.ts, now)
        answers[version.version_id] = {
            source: _based(
                source, look, mtime_ns, ts=version.ts, told=history.get(source.path), now=now
            )
            for source, look, mtime_ns in version.sources
        }
    return answers


def _based(
    source: Source,
    look: Fingerprint,
    mtime_ns: int,
    *,
    ts: datetime | None,
    told: Baseline | None,
    now: datetime,
) -> Fingerprint:
    if source.kind is SourceKind.ABSENT or isinstance(look, NoPrint):
        return look if isinstance(look, NoPrint) else ABSENT
    if ts is None or ts > now or told is Baseline.CANNOT_TELL:
        return NoPrint(CauseKind.NO_BASELINE, "older than amend's record, and time cannot tell")
    if told is Baseline.MATCHED:
        return look
    if told is Baseline.CHANGED:
        return CHANGED_SINCE
    if isinstance(look, AbsentPrint):
        return look  # a cited file that is not there: deleted, whenever that was
    unchanged = datetime.fromtimestamp(mtime_ns / 1e9, UTC) <= ts
    if unchanged:
        return look
    if source.kind is SourceKind.FILE:
        return CHANGED_SINCE  # modified or untracked, and written after the entry
    return NoPrint(CauseKind.NO_BASELINE, "the directory changed since, and time cannot tell how")
