"""Where an exploration looked → sources that an entry can rest on, as they were when it looked.

All of it but `checked_out` reads much or starts git, and belongs in a worker.

A file in a worktree of the exploration's own (Claude Code makes one on request and removes it with
the subagent, if nothing was changed in it) counts as the repository's own file of that path; what
was read there is what the commit has that was checked out there.

Guarantees: nothing outside the worktree and its siblings is a source, nor what amend itself writes;
a file that may have changed since it was read has a print that it does not have now, or none.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from amend.core.capturing import (
    SOURCES_MAX,
    Seen,
    Sight,
    cited_lines,
    mentioned,
    own_path,
    print_when_read,
    seen_in,
)
from amend.core.evidence import Remembered, remember
from amend.core.explored import Explored, Read
from amend.core.model import (
    ABSENT,
    CauseKind,
    FilePrint,
    Fingerprint,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
    path_bytes,
)
from amend.core.secrets import find_secret
from amend.core.sources import parse_spec
from amend.daemon.explain import CHANGED_SINCE, lf_blob
from amend.daemon.ground import TEXT_BYTES_MAX
from amend.edge.files.beneath import read_file, stat_beneath
from amend.edge.files.look import (
    RACY_NS,
    Look,
    blob_hash,
    changed_at_ns,
    look_at_file,
    look_at_glob,
)
from amend.edge.git.head import needs_git, read_head
from amend.edge.git.history import TreeEntry, entries_at
from amend.edge.git.places import RepositoryPlaces, discover
from amend.errors import AmendError
from amend.formats.agent_cache import FILE_NAME

# amend writes these itself: an entry that rested on them would be stale by being written.
_AMENDS_OWN: Final = frozenset({FILE_NAME, b"index.aicontext"})


# Memory holds it for every entry: four times what ten files cost otherwise. Of files that are over
# it any byte counts.
EVIDENCE_BYTES_MAX: Final = 16 << 10

_SYMLINK_MODE: Final = 0o120000

_NO_BASE: Final = NoPrint(
    CauseKind.NO_BASELINE, "was read in a worktree that is gone, and what it held cannot be told"
)


@dataclass(frozen=True, slots=True)
class Territory:
    """What may be cited, and where relative paths begin. `places`: roots on disk, each with the
    name that sources have for it (None: the worktree's own)."""

    places: tuple[tuple[bytes, str | None], ...]
    directory: bytes
    git: RepositoryPlaces | None
    head: str | None

    def root_of(self, source: Source) -> bytes:
        return next(root for root, name in self.places if name == source.repository)


@dataclass(slots=True)
class Found:
    """`left_out`: how many paths are no sources. `bases`: the commit that was checked out in each
    worktree that was looked through."""

    seen: list[Seen] = field(default_factory=list)
    left_out: int = 0
    bases: dict[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Spot:
    root: bytes
    repository: str | None
    path: RelPath
    through: bytes

    def source(self, kind: SourceKind = SourceKind.FILE) -> Source | None:
        """None for what cannot stand in a list of files, or should not."""
        source = Source(kind, self.path, self.repository)
        try:
            is_spec = parse_spec(source.spec) == source
        except ValueError:
            return None
        return source if is_spec and self.path.rpartition(b"/")[2] not in _AMENDS_OWN else None


def checked_out(root: bytes) -> str | None:
    """The commit that the worktree at `root` has checked out; None where files do not tell.

    Reads a few small files, and starts nothing.
    """
    try:
        places = discover(root)
        if places is None or places.root != os.path.realpath(root) or needs_git(places):
            return None
        return read_head(places).oid
    except (AmendError, OSError):
        return None


# -- where it looked -------------------------------------------------------------------------------


def found_by(
    explored: Explored,
    answer: str,
    territory: Territory,
    began_at: datetime | None,
    bases: Mapping[bytes, str],
) -> Found:
    """What the exploration looked at, and what its answer names and exists."""
    found = Found(bases=dict(bases))
    sights: list[Sight] = []
    doubtful: list[tuple[_Spot, Read]] = []
    outside: set[str] = set()
    for read in explored.reads:
        spot = _located(read.path, territory)
        if spot is None:
            outside.add(read.path)
            continue
        if spot.through and spot.through not in found.bases:
            base = checked_out(spot.through)
            found.bases |= {spot.through: base} if base is not None else {}
        looked_at, is_doubtful = _sights(spot, read)
        sights += looked_at
        if is_doubtful:
            doubtful.append((spot, read))
    sights += _once_there(doubtful, territory, found.bases)
    sights += _mentions(answer, territory)
    files = {sight.source.path for sight in sights if sight.source.kind is SourceKind.FILE}
    kept = [
        sight
        for sight in sights
        if sight.source.kind is SourceKind.FILE or sight.source.path not in files
    ]
    found.seen = seen_in(kept, began_at)
    found.left_out = len(outside)
    return found


def _located(text: str, territory: Territory, directory: bytes | None = None) -> _Spot | None:
    """Where the path lies, None for outside of everything that may be cited."""
    try:
        raw = path_bytes(text)
    except UnicodeEncodeError:
        return None
    if not raw or b"\0" in raw:
        return None
    whole = os.path.normpath(os.path.join(directory or territory.directory, raw))
    named, through = own_path(b"/" + whole.lstrip(b"/"))
    spot = _beneath(named, through, territory)
    if spot is None:
        # The session's directory may be named by a symlink, a root never is.
        real = os.path.join(os.path.realpath(os.path.dirname(named)), os.path.basename(named))
        spot = _beneath(real, through, territory)
    return spot


def _beneath(path: bytes, through: bytes, territory: Territory) -> _Spot | None:
    for root, name in sorted(territory.places, key=lambda place: -len(place[0])):
        if path.startswith(root + b"/"):
            return _Spot(root, name, RelPath(path[len(root) + 1 :]), through)
    return None


def _sights(spot: _Spot, read: Read) -> tuple[list[Sight], bool]:
    """What the look was at; and whether it may have been at what is there no longer."""
    at = _stat(spot)
    if read.failed:
        source = spot.source(SourceKind.ABSENT)
        is_wrong = isinstance(at, os.stat_result) and _was_there(at, read) and not spot.through
        return ([] if source is None or is_wrong else [Sight(source, read, spot.through)]), False
    if isinstance(at, os.stat_result):
        source = spot.source() if stat.S_ISREG(at.st_mode) else None
        return ([Sight(source, read, spot.through)] if source is not None else []), False
    if at == "unreadable":
        return [], False
    if read.is_glob:
        return _of_pattern(spot, read), False
    if read.is_guess:
        return [], True
    source = spot.source()
    return ([Sight(source, read, spot.through)] if source is not None else []), False


def _stat(spot: _Spot) -> "os.stat_result | str":
    try:
        return stat_beneath(spot.root, spot.path, [])
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except (OSError, ValueError, AmendError):
        return "unreadable"


def _was_there(at: os.stat_result, read: Read) -> bool:
    """Whether something was there when a command said that nothing is: it meant another place."""
    return read.at is not None and at.st_ctime_ns < _ns(read.at)


def _ns(at: datetime) -> int:
    """Files are stamped with a clock that may be a step behind the one of the transcript."""
    return int(at.timestamp() * 1e9) - RACY_NS


def _of_pattern(spot: _Spot, read: Read) -> list[Sight]:
    look, _ = look_at_glob(spot.root, spot.path, now_ns=0)
    names = getattr(look.fingerprint, "names", b"").split(b"\0")
    if len(names) > SOURCES_MAX:
        return []
    spots = [_Spot(spot.root, spot.repository, RelPath(n), spot.through) for n in names if n]
    sources = [each.source() for each in spots]
    return [Sight(source, read, spot.through) for source in sources if source is not None]


def _once_there(
    doubtful: Sequence[tuple[_Spot, Read]], territory: Territory, bases: Mapping[bytes, str]
) -> list[Sight]:
    """Of what a command line named and is not there: what git knows as a file was read."""
    by_commit: dict[str, list[tuple[_Spot, Read]]] = {}
    for spot, read in doubtful:
        commit = bases.get(spot.through) if spot.through else territory.head
        if commit is not None and spot.repository is None:
            by_commit.setdefault(commit, []).append((spot, read))
    sights = []
    for commit, looks in by_commit.items():
        entries = _entries(territory, commit, [spot.path for spot, _ in looks])
        for spot, read in looks:
            source = spot.source() if spot.path in entries else None
            if source is not None:
                sights.append(Sight(source, read, spot.through))
    return sights


def _entries(
    territory: Territory, commit: str, paths: Sequence[bytes]
) -> Mapping[bytes, TreeEntry]:
    if territory.git is None:
        return {}
    try:
        return entries_at(territory.git, commit, paths)
    except AmendError:
        return {}


def _mentions(answer: str, territory: Territory) -> list[Sight]:
    own_root = next(root for root, name in territory.places if name is None)
    sights = []
    for path in mentioned(answer):
        for directory in dict.fromkeys((own_root, territory.directory)):
            spot = _located(path, territory, directory)
            at = _stat(spot) if spot is not None else ""
            if spot is None or not isinstance(at, os.stat_result) or not stat.S_ISREG(at.st_mode):
                continue
            source = spot.source()
            if source is not None:
                read = Read(path, is_guess=True)
                sights.append(Sight(source, read, spot.through, is_mention=True))
            break
    return sights


# -- what was there --------------------------------------------------------------------------------


def prints_then(found: Found, territory: Territory) -> dict[Source, Fingerprint]:
    """What each source was when it was looked at, by a look at it now; in their order."""
    prints: dict[Source, Fingerprint] = {}
    now: dict[Source, Fingerprint] = {}
    for seen in found.seen:
        if seen.source.kind is SourceKind.ABSENT:
            prints[seen.source] = ABSENT
            continue
        root = territory.root_of(seen.source)
        look = look_at_file(root, seen.source.path, now_ns=0)
        assert look is not None, "no size is left to a worker"
        now[seen.source] = look.fingerprint
        prints[seen.source] = _print_then(seen, look, root)
    throughs = {through for seen in found.seen for through in seen.throughs if through}
    for through in throughs:
        there = [seen for seen in found.seen if through in seen.throughs and seen.source in now]
        looks = {seen.source: now[seen.source] for seen in there}
        at_base = _prints_at_base(territory, found.bases.get(through), through, looks)
        for seen in there:
            then, own = at_base[seen.source], prints[seen.source]
            is_agreed = seen.throughs == {through} or then == own
            prints[seen.source] = then if is_agreed else CHANGED_SINCE
    return prints


def _print_then(seen: Seen, look: Look, root: bytes) -> Fingerprint:
    read_ns = _ns(seen.at) if seen.at is not None else None
    changed_ns = max(changed_at_ns(look.stat), _links_changed_ns(root, look.links))
    then = print_when_read(look.fingerprint, changed_ns, read_ns)
    return then if then is not None else CHANGED_SINCE


def _links_changed_ns(root: bytes, links: Iterable[bytes]) -> int:
    """When the last of these was made to lead elsewhere, or exchanged for another."""
    newest_ns = 0
    for link in links:
        try:
            newest_ns = max(newest_ns, os.lstat(root + b"/" + link).st_ctime_ns)
        except (OSError, ValueError):
            continue
    return newest_ns


def _prints_at_base(
    territory: Territory, commit: str | None, through: bytes, now: Mapping[Source, Fingerprint]
) -> dict[Source, Fingerprint]:
    """What each of these was in the worktree at `through`, in which `commit` was checked out."""
    own = [source for source in now if source.repository is None]
    entries: Mapping[bytes, TreeEntry] = {}
    if commit is not None:
        entries = _entries(territory, commit, [source.path for source in own])
    root = next(root for root, name in territory.places if name is None)
    prints: dict[Source, Fingerprint] = dict.fromkeys(now, _NO_BASE)
    for source in own:
        entry = entries.get(source.path)
        if entry is None or entry.blob is None or entry.mode == _SYMLINK_MODE:
            continue
        look = look_at_file(through, source.path, now_ns=0)
        still = look.fingerprint if look is not None else None
        if isinstance(still, FilePrint) and not _is_blob(entry.blob, through, source.path, still):
            continue  # changed there before or after it was read
        present = now[source]
        is_same = isinstance(present, FilePrint) and _is_blob(
            entry.blob, root, source.path, present
        )
        prints[source] = present if is_same else FilePrint(entry.blob, 0)
    return prints


def _is_blob(blob: bytes, root: bytes, path: bytes, now: FilePrint) -> bool:
    """Whether the file is a checkout of the blob, also where git wrote CRLF for LF."""
    return now.blob == blob or lf_blob(root, path, now.blob) == blob


def evidence_of(
    territory: Territory, seen: Iterable[Seen], prints: Mapping[Source, Fingerprint]
) -> tuple[tuple[Source, Remembered], ...]:
    """The lines that were looked at, of files that were not looked at as a whole.

    Of each file all of them or none: of a file with evidence nothing else counts.
    """
    evidence: list[tuple[Source, Remembered]] = []
    room_bytes = EVIDENCE_BYTES_MAX
    for each in seen:
        then = prints.get(each.source)
        if not each.ranges or not isinstance(then, FilePrint) or then.size > TEXT_BYTES_MAX:
            continue
        lines = _remembered(territory.root_of(each.source), each, then.blob)
        size_bytes = sum(map(_size_bytes, lines))
        if size_bytes <= room_bytes:
            room_bytes -= size_bytes
            evidence += [(each.source, remembered) for remembered in lines]
    return tuple(evidence)


def _remembered(root: bytes, seen: Seen, blob: bytes) -> list[Remembered]:
    try:
        data = read_file(root, seen.source.path, bytes_max=TEXT_BYTES_MAX)
        if blob_hash(data) != blob:
            return []
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        found = [remember(data, lines) for lines in cited_lines(seen.ranges, count)]
        said = (b"\n".join((e.before, *e.lines, e.after)).decode("utf-8", "replace") for e in found)
        return [] if any(map(find_secret, said)) else found  # the store shall not hold it
    except (AmendError, OSError, ValueError):
        return []


def _size_bytes(remembered: Remembered) -> int:
    return len(remembered.before) + len(remembered.after) + sum(map(len, remembered.lines))
