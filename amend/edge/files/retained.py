"""Displaced versions: watched while somebody may still write to them, then kept for a while.

A displaced file is moved at once into a directory of the caller's, out of the user's sight, and
stays open. Its name says what amend had read and what it wrote (two digests), so that after a kill
its bytes can be told from amend's own. Names there begin with a tag of the target:

    <tag>.amend-<read>-<new>-<time>.held      watched, or left by an amend that was killed
    <tag>.amend-<read>-<new>-<time>.intent    what was read and what was written
    <tag>.amend-<read>-<new>-<time>.kept      all it says is in the target
    <tag>.amend-<read>-<new>-<time>.unmerged  could not be parsed

Guarantees: no displaced file is removed before all it says is in the target, or a copy is here; at
most `KEPT_MAX` and `UNMERGED_MAX` stay. On another filesystem than the target's, displaced files
stay beside it until they are released.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from amend.edge.files.beneath import FILE_FLAGS, read_bounded

# A cache of this size holds some 30,000 entries; a larger one is no file that agents read whole.
SHARED_BYTES_MAX: Final = 8 << 20

# What a person may want back after a mishap; at a write per settled transition this is minutes.
KEPT_MAX: Final = 5

# Unparsable versions are what a torn write left. More than this is one writer's habit.
UNMERGED_MAX: Final = 20

CREATE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

_MARK: Final = b".amend-"
_INODE_BYTES: Final = 16
_IDENTITY: Final = struct.Struct("=QQqqq")
_INTENT: Final = struct.Struct(">QQ")


class Retain:
    """The directory for displaced files of one target; None where the caller keeps none."""

    def __init__(self, directory: bytes | None, target: bytes) -> None:
        self.live: set[bytes] = set()  # names of displaced files that this process watches
        self._directory = directory
        self._tag = tag_of(target)

    @contextmanager
    def opened(self) -> Iterator[int | None]:
        if self._directory is None:
            yield None
            return
        os.makedirs(self._directory, 0o700, exist_ok=True)
        fd = os.open(self._directory, DIRECTORY_FLAGS)
        try:
            yield fd
        finally:
            os.close(fd)

    def name_for(self, name: bytes, suffix: bytes) -> bytes:
        """What a displaced file, named so beside the target or here, is called here."""
        return self._tag + name[name.rindex(_MARK) :].removesuffix(b".held") + suffix

    def write_intent(self, name: bytes, base: bytes, new: bytes) -> None:
        with self.opened() as fd:
            if fd is not None:
                packed = _INTENT.pack(len(base), len(new)) + base + new
                _create(fd, self.name_for(name, b".intent"), packed)

    def read_intent(self, name: bytes) -> tuple[bytes | None, bytes | None]:
        """What was read and written when it was displaced, where that is known for certain."""
        with self.opened() as dir_fd:
            if dir_fd is None:
                return None, None
            try:
                fd = os.open(self.name_for(name, b".intent"), FILE_FLAGS, dir_fd=dir_fd)
            except FileNotFoundError:
                return None, None
            try:
                packed = read_bounded(fd, _INTENT.size + 2 * SHARED_BYTES_MAX)
            finally:
                os.close(fd)
        if len(packed) < _INTENT.size:
            return None, None
        base_bytes, _ = _INTENT.unpack_from(packed)
        base = packed[_INTENT.size : _INTENT.size + base_bytes]
        new = packed[_INTENT.size + base_bytes :]
        if digests_in(name) != (digest(base), digest(new)):  # cut short by a power failure
            return None, None
        return base, new

    def forget_intent(self, name: bytes) -> None:
        with self.opened() as fd:
            if fd is not None:
                unlink(fd, self.name_for(name, b".intent"))

    def keep_copy(self, name: bytes, content: bytes, *, merged: bool) -> bool:
        """Whether there is a copy here now of a displaced file that could not be moved."""
        with self.opened() as fd:
            if fd is None:
                return False
            _create(fd, self.name_for(name, b".kept" if merged else b".unmerged"), content)
            return True

    def left(self, dir_fd: int) -> list[bytes]:
        """Names here of displaced files that nobody watches."""
        return [
            name
            for name in names_in(dir_fd)
            if name.startswith(self._tag) and name.endswith(b".held") and name not in self.live
        ]

    def forget_orphans(self) -> None:
        """Remove what a kill left of writes that displaced nothing."""
        with self.opened() as fd:
            if fd is None:
                return
            wanted = {self.name_for(name, b".intent") for name in self.live}
            for name in names_in(fd):
                mine = name.startswith(self._tag) and name.endswith(b".intent")
                if mine and name not in wanted:
                    unlink(fd, name)

    def prune(self) -> None:
        """Keep the newest few displaced files of this target."""
        with self.opened() as fd:
            if fd is None:
                return
            for suffix, kept_max in ((b".kept", KEPT_MAX), (b".unmerged", UNMERGED_MAX)):
                kept = [
                    name
                    for name in names_in(fd)
                    if name.startswith(self._tag) and name.endswith(suffix)
                ]
                for name in sorted(kept, key=stamp_in)[:-kept_max]:
                    unlink(fd, name)


class HeldFile:
    """A displaced file, open: its name may change, its bytes stay readable.

    `base` and `ours` are what amend had read and what it put in its place, None where that is not
    known any more. `in_place`: it may be in the middle of being written; False: it came by rename.
    """

    def __init__(
        self,
        retain: Retain,
        dir_fd: int,
        name: bytes,
        *,
        base: bytes | None,
        ours: bytes | None,
        retained: bool = False,
    ) -> None:
        self.base = base
        self.ours = ours
        self.in_place = True
        self._retain = retain
        self._name = name
        self._retained = retained  # the name is in the retain directory
        self._fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
        try:
            self._dir_fd = os.dup(dir_fd)
        except OSError:
            os.close(self._fd)
            raise
        retain.live.add(name)

    def stamp(self) -> bytes:
        return stamp_in(self._name)

    def knows(self, content: bytes) -> bool:
        """Whether nobody but amend has anything to say in `content`."""
        return digest(content) in digests_in(self._name)

    def key(self) -> bytes:
        return identity(os.fstat(self._fd))

    def is_regular(self) -> bool:
        return stat.S_ISREG(os.fstat(self._fd).st_mode)

    def read(self) -> bytes:
        os.lseek(self._fd, 0, os.SEEK_SET)
        return read_bounded(self._fd, SHARED_BYTES_MAX)

    def hide(self) -> None:
        """Move it out of the user's directory. Where that cannot be done at once, it stays."""
        hidden = self._retain.name_for(self._name, b".held")
        try:
            with self._retain.opened() as fd:
                if fd is None:
                    return
                there = os.dup(fd)
                try:
                    os.rename(self._name, hidden, src_dir_fd=self._dir_fd, dst_dir_fd=there)
                except OSError:
                    os.close(there)
                    raise
        except OSError:  # EXDEV, or a full disk: it is as safe where it is, and found at start
            return
        os.close(self._dir_fd)
        self._retain.live.discard(self._name)
        self._retain.live.add(hidden)
        self._dir_fd, self._name, self._retained = there, hidden, True

    def release(self, *, merged: bool) -> None:
        """Stop watching it. `merged`: all it says is in the target."""
        here = self._dir_fd
        try:
            if self._retained:
                kept = self._retain.name_for(self._name, b".kept" if merged else b".unmerged")
                os.rename(self._name, kept, src_dir_fd=here, dst_dir_fd=here)
            elif self._retain.keep_copy(self._name, self.read(), merged=merged) or merged:
                os.unlink(self._name, dir_fd=here)
            self._retain.forget_intent(self._name)
            self._retain.prune()
        finally:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            os.close(self._dir_fd)
            self._fd = self._dir_fd = -1
            self._retain.live.discard(self._name)


def tag_of(target: bytes) -> bytes:
    """What the names of its displaced files begin with."""
    return hashlib.sha1(target, usedforsecurity=False).hexdigest()[:16].encode()


def held_in(directory: bytes) -> set[bytes]:
    """The tags of targets of which a displaced file there is watched, or was left by a kill."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {name.partition(_MARK)[0] for name in names if name.endswith(b".held")}


def target_beside(name: bytes) -> bytes:
    """The name of the file beside which one of amend's own stands, b"" where it has none."""
    return name[1:].partition(_MARK)[0] if name.startswith(b".") and _MARK in name[1:] else b""


def digest(content: bytes) -> bytes:
    """A short name for bytes: enough to recognise one's own, no defence against anybody."""
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode()


def digests_in(name: bytes) -> tuple[bytes, ...]:
    """Of what was read and of what was written, from a displaced file's name."""
    return tuple(name[name.rindex(_MARK) + len(_MARK) :].split(b".")[0].split(b"-")[:2])


def stamp_in(name: bytes) -> bytes:
    """When it was displaced, from its name; orders names by wall time."""
    return name[name.rindex(_MARK) + len(_MARK) :].split(b".")[0].rpartition(b"-")[2]


def identity(found: os.stat_result) -> bytes:
    """Which file it is (see `inode_of`), then what moves with every write."""
    return _IDENTITY.pack(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def inode_of(key: bytes) -> bytes:
    return key[:_INODE_BYTES]


def write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def names_in(dir_fd: int) -> list[bytes]:
    return [os.fsencode(name) for name in os.listdir(dir_fd)]


def unlink(dir_fd: int, name: bytes) -> None:
    """Remove one of amend's own files; one that stays is found and removed at the next start."""
    with suppress(OSError):
        os.unlink(name, dir_fd=dir_fd)


def _create(dir_fd: int, name: bytes, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    try:
        write_all(fd, content)
    finally:
        os.close(fd)
