"""What a source looks like now: its fingerprint, and the stat that shows the next change.

A look is: open beneath the root, stat what was opened, read it, stat the path. It counts only when
both stats agree: then the path still leads to what was read, and that has not changed since. Looks
are compared by inequality, never by order: times go backwards.

Guarantees: no fingerprint of bytes that changed while they were read; what could not be looked at
is `NoPrint` with a reason, never a guess; no wait on anything but a disk. Starts no process,
keeps no state, reads no clock (`now_ns` is wall time, taken before the look). Hashing large files
belongs in a worker: `look_at_file` returns None for those.
"""

import errno
import hashlib
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from amend.core.model import (
    ABSENT,
    GIT_MODE_EXECUTABLE,
    GIT_MODE_FILE,
    CauseKind,
    FilePrint,
    Fingerprint,
    ListingPrint,
    NoPrint,
)
from amend.edge.files.beneath import (
    LIST_FLAGS,
    NAMES_MAX,
    TooLarge,
    entries_of,
    open_beneath,
    open_file,
    open_straight,
    stat_beneath,
)
from amend.errors import Refused, reason_of

# Kernels before 6.13 stamp files with a clock that steps every 4 ms (10 ms at HZ=100), so two
# writes within a step look alike. Twice the slowest step.
RACY_NS: Final = 20_000_000

# FAT stamps to 2 s; NFS and 9p stamp with another machine's clock. Git uses the same margin.
RACY_COARSE_NS: Final = 2_000_000_000

# SHA-1 runs at about 1 GB/s, so this is 70 ms of a worker. Larger files are data, not source.
HASH_BYTES_MAX: Final = 64 << 20

# A tree of more is `node_modules` or build output: the pattern was a mistake.
GLOB_DIRECTORIES_MAX: Final = 10_000

# An editor's save takes one retry. A file that fails five is being written without a pause.
TRIES: Final = 5

_CHUNK_BYTES: Final = 1 << 20
_KEY: Final = struct.Struct("=QQqqqI")
_ABSENT_ERRNOS: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Look:
    """A fingerprint and what `stat_key` said when it was taken.

    `racy`: the next change may leave the stat as it is, so look again instead of comparing.
    `links`: root-relative names that decide where the path leads besides itself: every symlink
    passed, and what they lead to.
    """

    fingerprint: Fingerprint
    stat: bytes
    racy: bool
    links: tuple[bytes, ...] = ()


class _Moving(Exception):
    """It changed while it was looked at."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """`stat` None: take whatever the path's stat is now."""

    fingerprint: Fingerprint
    stat: bytes | None
    racy: bool


def stat_key(root: bytes, path: bytes) -> bytes:
    """What `path` leads to, links followed: device, inode, size, both times, mode, packed.

    b"" when nothing is there, b"!" and the errno when it cannot be looked at.
    """
    try:
        found = os.stat(root + b"/" + path)
        # As `_key`, without its call: every source of every answer comes here.
        return _KEY.pack(
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            found.st_mode,
        )
    except OSError as error:
        return b"" if error.errno in _ABSENT_ERRNOS else b"!%d" % (error.errno or 0)
    except ValueError:  # a NUL in the path
        return b"!%d" % errno.EINVAL


def look_at_file(
    root: bytes,
    path: bytes,
    *,
    now_ns: int,
    inline_bytes_max: int | None = None,
    racy_ns: int = RACY_NS,
) -> Look | None:
    """The file `path` leads to. None: a regular file above `inline_bytes_max`, not read."""

    def observe(passed: list[bytes]) -> _Observed | None:
        return _observe_file(root, path, passed, now_ns - racy_ns, inline_bytes_max)

    return _agreed(root, path, observe)


def look_at_absence(root: bytes, path: bytes, *, now_ns: int = 0) -> Look:
    """Whether nothing is at `path`. Anything there is a `FilePrint` whose blob is empty: unread."""

    def observe(passed: list[bytes]) -> _Observed:
        found = stat_beneath(root, path, passed)
        return _Observed(FilePrint(b"", found.st_mode, found.st_size), _key(found), False)

    return _certain(_agreed(root, path, observe))


def look_at_listing(root: bytes, path: bytes, *, now_ns: int, racy_ns: int = RACY_NS) -> Look:
    """The names in the directory `path` leads to. A file there counts as no directory: absent."""

    def observe(passed: list[bytes]) -> _Observed:
        was = stat_key(root, path)
        try:
            fd = open_beneath(root, path, LIST_FLAGS, passed)
        except NotADirectoryError:
            return _Observed(ABSENT, was, False)
        try:
            before = os.fstat(fd)
            names = sorted(name + b"/" if is_dir else name for name, is_dir in entries_of(fd))
        except TooLarge as error:
            return _Observed(NoPrint(CauseKind.TOO_LARGE, error.message), _key(before), False)
        finally:
            os.close(fd)
        listing = ListingPrint(b"\0".join(names))
        return _Observed(listing, _key(before), _is_racy(before, now_ns - racy_ns))

    return _certain(_agreed(root, path, observe))


def look_at_glob(
    root: bytes, pattern: bytes, *, now_ns: int, racy_ns: int = RACY_NS
) -> tuple[Look, tuple[bytes, ...]]:
    """The files `pattern` matches, and the directories whose names decide that.

    `*` and `?` match within a component, `**` any number of components, `[` itself; a name that
    begins with a dot only a component that does. Symlinks match by name and are never descended,
    except on the literal way to the first wildcard. The look's stat is the directories' joined.
    """
    for _ in range(TRIES):
        walk = _GlobWalk(root, pattern)
        try:
            walk.run()
            look = walk.agreed(now_ns - racy_ns)
        except _Moving:
            continue
        except TooLarge as error:
            return _unlooked(root, walk, CauseKind.TOO_LARGE, error.message)
        except Refused as error:
            return _unlooked(root, walk, CauseKind.UNREADABLE, error.message)
        except (OSError, ValueError) as error:
            return _unlooked(root, walk, CauseKind.UNREADABLE, _words(error))
        return look, tuple(sorted(walk.keys))
    return _unlooked(root, walk, CauseKind.UNREADABLE, "keeps changing")


def _agreed(
    root: bytes, path: bytes, observe: Callable[[list[bytes]], _Observed | None]
) -> Look | None:
    """What `observe` saw, once the path's stat afterwards is the stat of what it saw."""
    for _ in range(TRIES):
        passed = list[bytes]()
        try:
            seen = observe(passed)
        except _Moving:
            continue
        except (OSError, ValueError, Refused) as error:
            seen = _unseen(error)
        if seen is None:
            return None
        now = stat_key(root, path)
        if seen.stat is None or seen.stat == now:
            return Look(seen.fingerprint, now, seen.racy, tuple(passed))
    return Look(_unreadable("keeps changing"), stat_key(root, path), True)


def _certain(look: Look | None) -> Look:
    assert look is not None, "only a file can be left to a worker"
    return look


def _unseen(error: OSError | ValueError | Refused) -> _Observed:
    """What a failed look amounts to. Racy: what was in the way may change without this stat."""
    if isinstance(error, OSError) and error.errno in _ABSENT_ERRNOS:
        return _Observed(ABSENT, b"", False)
    detail = error.message if isinstance(error, Refused) else _words(error)
    return _Observed(_unreadable(detail), None, True)


def _unreadable(detail: str) -> NoPrint:
    return NoPrint(CauseKind.UNREADABLE, detail)


def _words(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return "the path contains a NUL byte"
    if error.errno == errno.ELOOP:
        return "too many symlinks on the way, or a loop of them"
    return reason_of(error)


def _observe_file(
    root: bytes,
    path: bytes,
    passed: list[bytes],
    racy_since_ns: int,
    inline_bytes_max: int | None,
) -> _Observed | None:
    fd, before = open_file(root, path, passed)
    try:
        size_bytes, key = before.st_size, _key(before)
        if size_bytes > HASH_BYTES_MAX:
            detail = f"is {size_bytes} bytes, the most amend hashes is {HASH_BYTES_MAX}"
            return _Observed(NoPrint(CauseKind.TOO_LARGE, detail), key, False)
        if inline_bytes_max is not None and size_bytes > inline_bytes_max:
            return None
        blob = _blob_hash(fd, size_bytes)
    finally:
        os.close(fd)
    mode = GIT_MODE_EXECUTABLE if before.st_mode & 0o100 else GIT_MODE_FILE
    return _Observed(FilePrint(blob, mode, size_bytes), key, _is_racy(before, racy_since_ns))


def blob_hash(data: bytes) -> bytes:
    """Git's name for these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def blob_sha256(data: bytes) -> bytes:
    """Git's name for these bytes in a repository of that kind."""
    return hashlib.sha256(b"blob %d\0" % len(data) + data).digest()


def _blob_hash(fd: int, size_bytes: int) -> bytes:
    """Git's name for the file's bytes. `_Moving` when it does not have `size_bytes` of them."""
    header = b"blob %d\0" % size_bytes
    piece = os.read(fd, min(size_bytes, _CHUNK_BYTES)) if size_bytes else b""
    digest = hashlib.sha1(header + piece, usedforsecurity=False)
    left_bytes = size_bytes - len(piece)
    while left_bytes > 0:
        piece = os.read(fd, min(left_bytes, _CHUNK_BYTES))
        if not piece:
            raise _Moving
        digest.update(piece)
        left_bytes -= len(piece)
    return digest.digest()


def _key(found: os.stat_result) -> bytes:
    return _KEY.pack(
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
    )


def _is_racy(found: os.stat_result, since_ns: int) -> bool:
    """Whether it changed so lately that the next change could get the same times.

    Any write moves the ctime, also one that sets the mtime back; the mtime counts as well for
    filesystems that have no true ctime.
    """
    return found.st_ctime_ns > since_ns or found.st_mtime_ns > since_ns


class _GlobWalk:
    """One pass over the directories a pattern reaches, each visited once with every component of
    the pattern that may match in it."""

    def __init__(self, root: bytes, pattern: bytes) -> None:
        parts = pattern.split(b"/")
        wild = next((i for i, part in enumerate(parts) if _is_wild(part)), len(parts) - 1)
        self.root = root
        self.pattern = pattern
        self.prefix = b"/".join(parts[:wild])
        self.parts = [_Component(part) for part in parts[wild:]]
        self.keys: dict[bytes, bytes] = {}
        self.matches: list[bytes] = []
        self.links: list[bytes] = []
        self.newest_ns = 0

    def run(self) -> None:
        if b"\0" in self.pattern:
            raise ValueError("embedded null byte")
        was = stat_key(self.root, self.prefix)
        try:
            base_fd = open_beneath(self.root, self.prefix, LIST_FLAGS, self.links)
        except OSError as error:
            if error.errno not in _ABSENT_ERRNOS:
                raise
            self.keys[self.prefix] = was  # from before, so that what has come since shows
            return
        try:
            pending: list[tuple[bytes, frozenset[int]]] = [(b"", frozenset({0}))]
            while pending:
                if len(self.keys) == GLOB_DIRECTORIES_MAX:
                    raise TooLarge(f"reaches more than {GLOB_DIRECTORIES_MAX} directories")
                pending.extend(self._visit(base_fd, *pending.pop()))
        finally:
            os.close(base_fd)

    def agreed(self, racy_since_ns: int) -> Look:
        stats = []
        for directory in sorted(self.keys):
            if stat_key(self.root, directory) != self.keys[directory]:
                raise _Moving
            stats.append(self.keys[directory])
        listing = ListingPrint(b"\0".join(sorted(self.matches)))
        racy = self.newest_ns > racy_since_ns
        return Look(listing, b"".join(stats), racy, tuple(self.links))

    def _visit(
        self, base_fd: int, below: bytes, at: frozenset[int]
    ) -> list[tuple[bytes, frozenset[int]]]:
        """Match the names in one directory; returns the directories to go on with."""
        try:
            fd = open_straight(base_fd, below, LIST_FLAGS)
        except OSError as error:
            if error.errno in (*_ABSENT_ERRNOS, errno.ELOOP):
                raise _Moving from error
            raise
        try:
            found = os.fstat(fd)
            entries = entries_of(fd)
        finally:
            os.close(fd)
        self.keys[_join(self.prefix, below)] = _key(found)
        self.newest_ns = max(self.newest_ns, found.st_ctime_ns, found.st_mtime_ns)
        at = self._closed(at)
        further = []
        for name, is_dir in entries:
            text, path = os.fsdecode(name), _join(below, name)
            if is_dir:
                onward = self._onward(text, at)
                if onward:
                    further.append((path, onward))
            elif self._matches(text, at):
                if len(self.matches) == NAMES_MAX:
                    raise TooLarge(f"matches more than {NAMES_MAX} files")
                self.matches.append(_join(self.prefix, path))
        return further

    def _closed(self, at: frozenset[int]) -> frozenset[int]:
        """With what follows a `**`, which may stand for nothing."""
        closed = set(at)
        for i in sorted(at):
            here = i
            while self.parts[here].any_depth and here + 1 < len(self.parts):
                here += 1
                closed.add(here)
        return frozenset(closed)

    def _onward(self, name: str, at: frozenset[int]) -> frozenset[int]:
        last = len(self.parts) - 1
        stay = {i for i in at if self.parts[i].any_depth and self.parts[i].matches(name)}
        advance = {
            i + 1
            for i in at
            if i < last and not self.parts[i].any_depth and self.parts[i].matches(name)
        }
        return frozenset(stay | advance)

    def _matches(self, name: str, at: frozenset[int]) -> bool:
        last = len(self.parts) - 1
        return last in at and self.parts[last].matches(name)


class _Component:
    def __init__(self, part: bytes) -> None:
        text = os.fsdecode(part)
        self.any_depth = text == "**"
        self._dotted = text.startswith(".")
        self._expression = re.compile(_expression(text), re.DOTALL)

    def matches(self, name: str) -> bool:
        if name.startswith(".") and not self._dotted:
            return False
        return self._expression.fullmatch(name) is not None


def _expression(text: str) -> str:
    """The component as a regular expression that takes linear time on any name.

    What follows a `*` is taken where it first occurs, and never reconsidered: a later place
    cannot match more. Only the end is tied down.
    """
    first, *rest = ("".join("." if c == "?" else re.escape(c) for c in p) for p in text.split("*"))
    if not rest:
        return first
    return first + "".join(f"(?>.*?{piece})" for piece in rest[:-1]) + ".*" + rest[-1]


def _is_wild(part: bytes) -> bool:
    return b"*" in part or b"?" in part


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory and name else directory or name


def _unlooked(
    root: bytes, walk: _GlobWalk, reason: CauseKind, detail: str
) -> tuple[Look, tuple[bytes, ...]]:
    """No answer; only the way to the first wildcard is worth a watch then."""
    racy = reason is CauseKind.UNREADABLE
    stat_now = stat_key(root, walk.prefix)
    return Look(NoPrint(reason, detail), stat_now, racy, tuple(walk.links)), (walk.prefix,)


def modified_at_ns(key: bytes) -> int:
    """The mtime in a `stat_key`, 0 where nothing could be looked at."""
    return int(_KEY.unpack(key)[3]) if len(key) == _KEY.size else 0


def changed_at_ns(key: bytes) -> int:
    """The ctime in a `stat_key`, which no program can set; 0 where nothing could be looked at."""
    return int(_KEY.unpack(key)[4]) if len(key) == _KEY.size else 0
