"""The words of amend as values: entries, versions, sources, fingerprints, verdicts and causes.

Everything here is frozen. Paths are root-relative bytes (`RelPath`), so that any file name can be
cited; text turns into them with the filesystem's surrogate escapes (`path_bytes`, `path_text`).
Nothing here reads a clock or a disk.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

from amend.core.evidence import Remembered

RelPath = NewType("RelPath", bytes)
"""Relative to a worktree's root: no empty, `.` or `..` component; b"": the root."""

# DESIGN section 4. Enough for the branches a person moves between in a week; one costs 200 bytes.
VERSIONS_MAX: Final = 8

GIT_MODE_FILE: Final = 0o100644
GIT_MODE_EXECUTABLE: Final = 0o100755


# What would be read as a sibling's name or as an assertion of absence.
_NEEDS_DOT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*:|!")


def path_text(path: bytes) -> str:
    """The path as text; bytes that are no UTF-8 become lone surrogates, as in `os.fsdecode`."""
    return path.decode("utf-8", "surrogateescape")


def path_bytes(text: str) -> bytes:
    """The inverse of `path_text`; `UnicodeEncodeError` where a surrogate stands for no byte."""
    return text.encode("utf-8", "surrogateescape")


class Kind(StrEnum):
    TOPIC = "topic"
    PATTERN = "pattern"
    CONTRACT = "contract"
    NOTE = "note"


IN_CACHE_FILE: Final = frozenset({Kind.TOPIC, Kind.PATTERN})
"""The others have files of their own, in which amend marks nothing."""


class SourceKind(StrEnum):
    FILE = "file"
    ABSENT = "absent"  # rests on the path not existing: "!path"
    LISTING = "listing"  # rests on the names in a directory: "path/"
    GLOB = "glob"  # rests on the names a pattern matches: "src/*.ts"
    URL = "url"  # rests on a web page, at which amend does not look


@dataclass(frozen=True, slots=True)
class Source:
    """Something an entry rests on. `repository` names a sibling, None this worktree."""

    kind: SourceKind
    path: RelPath
    repository: str | None = None

    def __hash__(self) -> int:
        """Of the path alone, which bytes remember: sources are looked up on every question."""
        return hash(self.path)

    @property
    def spec(self) -> str:
        """As it is written in a `files` list; a leading `./` keeps what reads otherwise."""
        text = path_text(self.path)
        if self.kind is SourceKind.URL:
            return text
        if self.kind is SourceKind.LISTING:
            text = f"{text}/" if text else "./"
        if self.repository is not None:
            text = f"{self.repository}:{text}"
        elif _NEEDS_DOT.match(text) and not (text[0] == "!" and self.kind is SourceKind.ABSENT):
            text = f"./{text}"
        return f"!{text}" if self.kind is SourceKind.ABSENT else text


@dataclass(frozen=True, slots=True)
class SiblingRule:
    """Another repository that entries may cite as `name:path`, and what of it is "now".

    `root` is absolute. `track`: "worktree", "head", or "ref:" and a ref's name.
    """

    name: str
    root: bytes
    track: str = "worktree"


class CauseKind(StrEnum):
    EDITED = "edited"
    COMMITTED = "committed"
    DELETED = "deleted"
    MOVED = "moved"
    APPEARED = "appeared"
    EVIDENCE = "evidence"
    EXPIRED = "expired"
    INVALID = "invalid"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    NO_BASELINE = "no_baseline"
    SHALLOW = "shallow"


UNKNOWN_CAUSES: Final = frozenset(
    {CauseKind.UNREADABLE, CauseKind.TOO_LARGE, CauseKind.NO_BASELINE, CauseKind.SHALLOW}
)


@dataclass(frozen=True, slots=True)
class FilePrint:
    """A file's raw bytes: git's blob hash (SHA-1, 20 bytes), git's mode, size in bytes.

    The hash covers the size; a tree does not tell it, and then it is 0. Mode 0: whatever it was,
    the bytes alone count.
    """

    blob: bytes
    mode: int
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ListingPrint:
    """Sorted names joined by NUL: a directory's children (its own end in `/`), a glob's matches."""

    names: bytes


@dataclass(frozen=True, slots=True)
class AbsentPrint:
    """Nothing is at the path."""


@dataclass(frozen=True, slots=True)
class NoPrint:
    """It could not be fingerprinted; `reason` is one of `UNKNOWN_CAUSES`."""

    reason: CauseKind
    detail: str = ""


Fingerprint = FilePrint | ListingPrint | AbsentPrint | NoPrint
"""What a source looked like, or looks like now."""

ABSENT: Final = AbsentPrint()


class Verdict(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Commit:
    oid: str
    authored_at: datetime
    subject: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a source no longer supports an entry, or (`moved`) how it still does.

    `source` is the spec as written, "" when the cause is the entry's own (expired, invalid).
    """

    kind: CauseKind
    source: str = ""
    detail: str = ""
    pointer: str = ""  # invalid: JSON pointer into the document
    commit: Commit | None = None  # committed, deleted by a commit, moved by a commit
    moved_to: str = ""
    gained: tuple[str, ...] = ()  # appeared: names; evidence: the nearest lines now
    lost: tuple[str, ...] = ()  # evidence: the lines that were cited
    verified: bool = False  # expired: all sources still match
    settled: bool = True  # False while git has not been asked yet whether HEAD has the new bytes


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule of the entry's document that it breaks. `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    rule: str


@dataclass(frozen=True, slots=True)
class Version:
    """One payload of an entry with the fingerprints of its sources when it was written.

    `fingerprints` is parallel to `sources`. `moves` follows renamed sources: old path to new.
    `evidence`: cited lines of sources, as they were then. The payload itself lives in the store
    under `id`.
    """

    id: int
    sources: tuple[Source, ...]
    fingerprints: tuple[Fingerprint, ...]
    ts: datetime | None
    problems: tuple[Problem, ...] = ()
    moves: tuple[tuple[RelPath, RelPath], ...] = ()
    evidence: tuple[tuple[Source, Remembered], ...] = ()


@dataclass(frozen=True, slots=True)
class EntryName:
    """An entry's name within its worktree."""

    kind: Kind
    key: str

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Entry:
    name: EntryName
    versions: tuple[Version, ...]  # newest first, 1 to VERSIONS_MAX


class Place(StrEnum):
    """Where an entry lives besides the store."""

    FILE = "file"  # in the cache file
    AWAY = "away"  # evicted: amend took it out and puts it back when it is fresh again
    COMING = "coming"  # written through the API; on its way into the cache file
    LEAVING = "leaving"  # deleted through the API; on its way out of the cache file
    STORE = "store"  # the cache file may not be written: the API alone knows it


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on an entry, the version that answers, and why."""

    verdict: Verdict
    version: Version | None
    causes: tuple[Cause, ...] = ()
    drift: tuple[str, ...] = field(default=())  # specs that changed while all cited evidence stands
