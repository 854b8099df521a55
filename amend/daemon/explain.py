"""Ask git, off the hot path, what the watcher cannot know.

Three questions, each a batch for one worktree, answered in a worker thread:
* of changed and deleted sources: does HEAD have this state, and which commit brought it;
* of deleted sources: where did their bytes go;
* of entries older than amend's record: was the source already like this at their `ts`.

Values in, values out; `Worktree` applies the answers on the loop. What git cannot answer is left
out, never guessed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from amend.core.freshness import Explained
from amend.core.model import (
    ABSENT,
    AbsentPrint,
    CauseKind,
    EntryName,
    FilePrint,
    Fingerprint,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
)
from amend.edge.files.beneath import list_names, read_file
from amend.edge.files.look import HASH_BYTES_MAX, blob_hash, blob_sha256, look_at_file
from amend.edge.git.head import HeadState
from amend.edge.git.history import (
    AsOf,
    Baseline,
    TreeEntry,
    baselines,
    entries_at,
    find_moves,
    last_commits,
)
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
    """A version whose fingerprints wait: its `ts`, and each source with its look and mtime.

    `until`: it was written at some moment from `ts` to then.
    """

    version_id: int
    ts: datetime | None
    sources: tuple[tuple[Source, Fingerprint, int], ...]
    until: datetime | None = None


AskedBy = dict[Question, list[tuple[EntryName, int]]]
"""Who wants to know: entries, and the ids of their versions."""

Told = dict[Source, tuple[Fingerprint, Explained]]
"""What git said of each source, and of which look. A source that is not in it is not settled."""


def at_head(
    places: RepositoryPlaces, head: HeadState, root: bytes, questions: Sequence[Question]
) -> Told:
    """Which of these states HEAD has; one cheap command. `root`: where the files are."""
    if head.oid is None:  # nothing was ever committed, so nothing of this is
        return {q.source: (q.now, Explained(committed=False)) for q in questions}
    told: Told = {}
    entries = entries_at(places, head.oid, [q.source.path for q in questions])
    for question in questions:
        entry, now = entries.get(question.source.path), question.now
        if isinstance(now, FilePrint):
            committed = entry is not None and _is_checked_out(entry, now, root, question.source)
        else:
            committed = entry is None
        told[question.source] = (now, Explained(committed=committed))
    return told


def _is_checked_out(entry: TreeEntry, now: FilePrint, root: bytes, source: Source) -> bool:
    """Whether the file is the one of HEAD, also where git wrote CRLF for LF at the checkout."""
    if entry.mode != now.mode:
        return False
    if entry.blob == now.blob:
        return True
    data = _bytes_of(root, source.path, now.blob)
    if data is None:
        return False
    with_lf = data.replace(b"\r\n", b"\n")
    if entry.sha256 is not None:
        return entry.sha256 in (blob_sha256(data), blob_sha256(with_lf))
    return entry.blob == blob_hash(with_lf)


def _bytes_of(root: bytes, path: bytes, blob: bytes) -> bytes | None:
    """The file's bytes; None where they are no longer those of `blob`."""
    try:
        data = read_file(root, path, bytes_max=HASH_BYTES_MAX)
    except (AmendError, OSError):
        return None
    return data if blob_hash(data) == blob else None


def lf_blob(root: bytes, path: bytes, blob: bytes) -> bytes | None:
    """The blob of the file with LF for CRLF; None where it has none, or is no longer `blob`."""
    data = _bytes_of(root, path, blob)
    if data is None or b"\r\n" not in data:
        return None
    return blob_hash(data.replace(b"\r\n", b"\n"))


def with_commits(places: RepositoryPlaces, head: HeadState, told: Told) -> Told:
    """Those that HEAD has, with the commit that brought each; at worst a walk of seconds."""
    brought = {source: look for source, (look, said) in told.items() if said.committed}
    if head.oid is None or not brought:
        return {}
    commits = last_commits(places, head.oid, [source.path for source in brought])
    return {
        source: (look, Explained(committed=True, commit=commits[source.path]))
        for source, look in brought.items()
        if source.path in commits
    }


def moves_of(
    places: RepositoryPlaces, head: HeadState, root: bytes, questions: Sequence[Question]
) -> dict[RelPath, RelPath]:
    """Where deleted files went, by git's word."""
    gone: dict[bytes, bytes] = {
        q.source.path: q.then.blob
        for q in questions
        if isinstance(q.now, AbsentPrint) and isinstance(q.then, FilePrint)
    }
    if head.oid is None or not gone:
        return {}
    moves = find_moves(
        places,
        head.oid,
        gone,
        hash_path=lambda path: _blob_of(root, path),
        list_directory=lambda path: list_names(root, path),
    )
    return {RelPath(old): RelPath(new) for old, new in moves.items()}


def _blob_of(root: bytes, path: bytes) -> bytes | None:
    look = look_at_file(root, path, now_ns=0)
    fingerprint = look.fingerprint if look is not None else None
    return fingerprint.blob if isinstance(fingerprint, FilePrint) else None


def base_versions(
    places: RepositoryPlaces | None,
    head: HeadState,
    root: bytes,
    versions: Sequence[Unbased],
    now: datetime,
) -> dict[int, dict[Source, Fingerprint]]:
    """For each version the fingerprints that time and history give its sources."""
    blobs: dict[bytes, bytes] = {
        source.path: look.blob
        for version in versions
        for source, look, _ in version.sources
        if source.kind is SourceKind.FILE and isinstance(look, FilePrint)
    }
    asked = [
        AsOf(
            version.ts or now,
            frozenset(source.path for source, _, _ in version.sources if source.path in blobs),
            version.until,
        )
        for version in versions
    ]
    history: Sequence[Mapping[bytes, Baseline]] = [{} for _ in versions]
    if places is not None and blobs:
        history = baselines(places, head, blobs, asked, now)
        differing = {p for told in history for p, b in told.items() if b is Baseline.MODIFIED}
        lf_blobs = {p: lf for p in differing if (lf := lf_blob(root, p, blobs[p])) is not None}
        if lf_blobs:
            history = baselines(places, head, blobs, asked, now, lf_blobs=lf_blobs)
    return {
        version.version_id: {
            source: _based(source, look, mtime_ns, version, told=told.get(source.path), now=now)
            for source, look, mtime_ns in version.sources
        }
        for version, told in zip(versions, history, strict=True)
    }


def _based(
    source: Source,
    look: Fingerprint,
    mtime_ns: int,
    version: Unbased,
    *,
    told: Baseline | None,
    now: datetime,
) -> Fingerprint:
    ts = version.ts
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
    changed_at = datetime.fromtimestamp(mtime_ns / 1e9, UTC)
    if changed_at <= ts:
        return look
    if version.until is not None and changed_at < version.until:
        return NoPrint(CauseKind.NO_BASELINE, "changed about the day it was written")
    if source.kind is SourceKind.FILE:
        return CHANGED_SINCE  # modified or untracked, and written after the entry
    return NoPrint(CauseKind.NO_BASELINE, "the directory changed since, and time cannot tell how")
