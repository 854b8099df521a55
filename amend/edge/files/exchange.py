"""Replace a file without overwriting what somebody else put there: the write primitives.

A new version is written beside the target and then exchanged with it in one step, so that what
was there, whatever it was, is in our hands afterwards and is never overwritten. A target that does
not exist is created only if nothing has taken its name meanwhile. Displaced files are kept in a
directory of the caller's.

Names beside the target:
    .<name>.amend-new-<time>           being written; never held anybody's bytes
    .<name>.amend-<read>-<new>-<time>  complete, or displaced (see `retained`)
    .amend-probe-<random>              empty: can this filesystem exchange?

Guarantees: at every step, after a kill or a failure as well, the target is complete, old or new;
no symlink is followed and none is replaced. Decides nothing about contents (`shared` does). No
lock, no clock.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from amend.edge.files import syscalls
from amend.edge.files.beneath import (
    FILE_FLAGS,
    is_git,
    kind_of,
    open_directory,
    open_straight,
    read_bounded,
)
from amend.edge.files.retained import (
    CREATE_FLAGS,
    DIRECTORY_FLAGS,
    SHARED_BYTES_MAX,
    HeldFile,
    Retain,
    digest,
    identity,
    inode_of,
    names_in,
    unlink,
    write_all,
)
from amend.errors import Refused, reason_of

_TRIES: Final = 5
_UNSUPPORTED_ERRNOS: Final = frozenset(
    {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
)
_PROBE: Final = b".amend-probe-"
_NO_EXCHANGE: Final = "its filesystem cannot exchange two files in one step"


class Changed(Exception):
    """The target is not what was read: read again and start over."""


@dataclass(frozen=True, slots=True)
class Present:
    """What the target is: its bytes (None: absent) and which file holds them (b"": none)."""

    data: bytes | None
    key: bytes


class Held(Protocol):
    """A displaced version: a file that was the target, and may still be written through
    descriptors opened before."""

    @property
    def base(self) -> bytes | None:
        """What amend had read when it displaced this; None when that is not known any more."""

    @property
    def ours(self) -> bytes | None:
        """What amend put in its place; None when that is not known any more."""

    @property
    def in_place(self) -> bool:
        """Whether it may be in the middle of being written; False: it came by rename, whole."""

    def knows(self, content: bytes) -> bool:
        """Whether nobody but amend has anything to say in `content`."""

    def key(self) -> bytes: ...
    def read(self) -> bytes: ...
    def release(self, *, merged: bool) -> None:
        """Stop watching it. `merged`: all it says is in the target."""

    def close(self) -> None: ...


class Staged(Protocol):
    """A new version, complete and on disk beside the target."""


class Door(Protocol):
    """What `shared` needs of the filesystem, for one target. Raises `OSError`; `Refused` when the
    target is nothing amend writes; `Changed`."""

    def key(self) -> bytes: ...
    def read(self) -> Present: ...
    def why_not_writable(self) -> str | None: ...
    def stage(self, present: Present, new: bytes) -> Staged: ...
    def exchange(self, staged: Staged) -> tuple[Held, bytes]:
        """Put it in place of the target; returns what was displaced and the target's new key."""

    def create(self, staged: Staged) -> bytes:
        """Put it where nothing is; returns the target's new key."""

    def discard(self, staged: Staged) -> None: ...
    def leftovers(self) -> list[Held]:
        """Displaced versions, oldest first, that nobody watches: amend was killed, or failed."""


def why_not_writable(root: bytes, path: bytes) -> str | None:
    """Why amend will not write this file, None when it may. Absent ones may be created.

    Tries out an exchange of two empty files beside it: only that tells whether the filesystem can.
    """
    try:
        return _why_not(root, path, probe=True)
    except OSError as error:
        return f"its directory cannot be written: {reason_of(error)}"


def _why_not(root: bytes, path: bytes, *, probe: bool) -> str | None:
    """Raises `OSError` for what may be better in a moment, such as a full disk."""
    *parents, name = path.split(b"/")
    if any(is_git(part) for part in (*parents, name)):
        return "it is in a git directory"
    try:
        dir_fd = _open_parent(root, path)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return "a directory on the way to it is a symlink or no directory"
        if error.errno in (errno.ENOENT, errno.EACCES):
            return f"its directory cannot be opened: {reason_of(error)}"
        raise
    try:
        return _why_not_in(dir_fd, name) or (_why_no_exchange(dir_fd) if probe else None)
    finally:
        os.close(dir_fd)


def _why_not_in(dir_fd: int, name: bytes) -> str | None:
    if os.fstatvfs(dir_fd).f_flag & os.ST_RDONLY:
        return "its filesystem is read-only"
    if not os.access(b".", os.W_OK | os.X_OK, dir_fd=dir_fd):
        return "its directory is read-only for amend"
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return f"it is {kind_of(found.st_mode)}"
    if found.st_nlink > 1:
        return (
            f"it has {found.st_nlink} hard links, and a replacement would leave the others behind"
        )
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    if not found.st_mode & stat.S_IWUSR:
        return "it is read-only"
    return None


def _why_no_exchange(dir_fd: int) -> str | None:
    names = [_PROBE + secrets.token_hex(8).encode() for _ in range(2)]
    try:
        for name in names:
            os.close(os.open(name, CREATE_FLAGS, 0o600, dir_fd=dir_fd))
        syscalls.exchange(dir_fd, *names)
    except OSError as error:
        if error.errno in _UNSUPPORTED_ERRNOS:
            return _NO_EXCHANGE
        raise
    finally:
        for name in names:
            unlink(dir_fd, name)
    return None


@dataclass(slots=True)
class StagedFile:
    dir_fd: int
    name: bytes
    fd: int
    present: Present
    new: bytes
    exchanged: bool = False  # the name may stand for somebody else's file from here on


def _nothing(step: str) -> None:
    pass


class FileDoor:
    """The real filesystem, for one target. `at` is told the name of each step, for tests."""

    def __init__(
        self,
        root: bytes,
        path: bytes,
        retain_dir: bytes | None,
        at: Callable[[str], None] = _nothing,
    ) -> None:
        self._root = root
        self._path = path
        self._name = path.rpartition(b"/")[2]
        self._retain = Retain(retain_dir, root + b"/" + path)
        self._at = at
        self._probed = False

    def key(self) -> bytes:
        try:
            return identity(os.lstat(self._root + b"/" + self._path))
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            return b"!%d" % (error.errno or 0)

    def read(self) -> Present:
        try:
            fd = self._open_target()
        except (FileNotFoundError, NotADirectoryError):
            return Present(None, b"")
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Refused(f"it is {kind_of(found.st_mode)}")
            for _ in range(_TRIES):
                key = identity(found)
                os.lseek(fd, 0, os.SEEK_SET)
                data = read_bounded(fd, SHARED_BYTES_MAX)
                found = os.fstat(fd)
                if identity(found) == key:
                    return Present(data, key)
            raise Changed
        finally:
            os.close(fd)

    def why_not_writable(self) -> str | None:
        reason = _why_not(self._root, self._path, probe=not self._probed)
        self._probed = reason is None
        return reason

    def stage(self, present: Present, new: bytes) -> StagedFile:
        dir_fd = _open_parent(self._root, self._path)
        stamp = b"%016x" % time.time_ns()  # the order of displaced versions matters after a kill
        name = b".%s.amend-new-%s" % (self._name, stamp)
        ready = b".%s.amend-%s-%s-%s" % (
            self._name,
            digest(present.data or b""),
            digest(new),
            stamp,
        )
        fd = -1
        self._at("staging")
        try:
            fd = os.open(name, CREATE_FLAGS, 0o600 if present.key else 0o666, dir_fd=dir_fd)
            self._at("opened")
            if present.key:
                _copy_attributes(dir_fd, self._name, fd)
            write_all(fd, new)
            self._at("written")
            os.fsync(fd)
            if present.data is not None:
                self._retain.write_intent(ready, present.data, new)
            self._at("intended")
            os.rename(name, ready, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        except BaseException as error:
            if fd >= 0:
                os.close(fd)
                unlink(dir_fd, name)
            self._retain.forget_intent(ready)
            os.close(dir_fd)
            if isinstance(error, FileNotFoundError):
                raise Changed from error
            raise
        self._at("staged")
        return StagedFile(dir_fd, ready, fd, present, new)

    def exchange(self, staged: Staged) -> tuple[HeldFile, bytes]:
        assert isinstance(staged, StagedFile)
        before = os.fstat(staged.fd)
        self._at("exchanging")
        try:
            syscalls.exchange(staged.dir_fd, staged.name, self._name)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise Changed from error
            if error.errno in _UNSUPPORTED_ERRNOS:
                raise Refused(_NO_EXCHANGE) from error
            raise
        staged.exchanged = True
        self._at("exchanged")
        held = self._take(staged)
        try:
            after = os.fstat(staged.fd)
            self._finish(staged)
        except OSError:
            held.close()  # found again by `leftovers`
            raise
        held.hide()
        self._at("hidden")
        untouched = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        return held, identity(after) if untouched else b"?"

    def create(self, staged: Staged) -> bytes:
        assert isinstance(staged, StagedFile)
        self._at("creating")
        try:
            syscalls.rename_unless_taken(staged.dir_fd, staged.name, self._name)
        except FileExistsError as error:
            raise Changed from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                raise
            self._link(staged)
        staged.exchanged = True
        self._at("created")
        found = os.fstat(staged.fd)
        self._finish(staged)
        self._retain.forget_intent(staged.name)
        return identity(found)

    def discard(self, staged: Staged) -> None:
        assert isinstance(staged, StagedFile)
        if staged.fd < 0:
            return
        if not staged.exchanged:
            unlink(staged.dir_fd, staged.name)
            self._retain.forget_intent(staged.name)
        self._close(staged)

    def leftovers(self) -> list[Held]:
        found: list[HeldFile] = []
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._left_beside(found)
            with self._retain.opened() as retain_fd:
                if retain_fd is not None:
                    for name in self._retain.left(retain_fd):
                        found.append(self._leftover(retain_fd, name, retained=True))
            self._retain.forget_orphans()
        except OSError:
            for held in found:
                held.close()
            raise
        found.sort(key=HeldFile.stamp)
        return [*found]

    def _left_beside(self, found: list[HeldFile]) -> None:
        beside = b".%s.amend-" % self._name
        dir_fd = _open_parent(self._root, self._path)
        try:
            for name in names_in(dir_fd):
                if name.startswith((beside + b"new-", _PROBE)):
                    unlink(dir_fd, name)
                elif name.startswith(beside) and name not in self._retain.live:
                    found.append(self._leftover(dir_fd, name, retained=False))
        finally:
            os.close(dir_fd)

    def _leftover(self, dir_fd: int, name: bytes, *, retained: bool) -> HeldFile:
        base, ours = self._retain.read_intent(name)
        return HeldFile(self._retain, dir_fd, name, base=base, ours=ours, retained=retained)

    def _open_target(self) -> int:
        root_fd = open_directory(self._root)
        try:
            return open_straight(root_fd, self._path, FILE_FLAGS)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refused("it, or a directory on the way to it, is a symlink") from error
            raise
        finally:
            os.close(root_fd)

    def _take(self, staged: StagedFile) -> HeldFile:
        """The displaced file, open. What is no regular file is put back."""
        try:
            held = HeldFile(
                self._retain,
                staged.dir_fd,
                staged.name,
                base=staged.present.data,
                ours=staged.new,
            )
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            self._put_back(staged)
            raise Refused("it became a symlink or a socket while amend was writing") from error
        try:
            regular = held.is_regular()
            held.in_place = inode_of(held.key()) == inode_of(staged.present.key)
        except OSError:
            held.close()  # found again by `leftovers`
            raise
        if not regular:
            held.close()
            self._put_back(staged)
            raise Refused("it became something else than a file while amend was writing")
        return held

    def _put_back(self, staged: StagedFile) -> None:
        syscalls.exchange(staged.dir_fd, staged.name, self._name)
        there = os.stat(staged.name, dir_fd=staged.dir_fd, follow_symlinks=False)
        if inode_of(identity(there)) == inode_of(identity(os.fstat(staged.fd))):
            staged.exchanged = False  # ours again, so that `discard` may remove it

    def _finish(self, staged: StagedFile) -> None:
        """Make the new name durable and let go."""
        try:
            os.fsync(staged.dir_fd)
        finally:
            self._close(staged)
        self._at("synced")

    def _close(self, staged: StagedFile) -> None:
        os.close(staged.fd)
        os.close(staged.dir_fd)
        staged.fd = staged.dir_fd = -1

    def _link(self, staged: StagedFile) -> None:
        """Create without overwriting where renaming cannot promise that."""
        try:
            os.link(staged.name, self._name, src_dir_fd=staged.dir_fd, dst_dir_fd=staged.dir_fd)
        except FileExistsError as error:
            raise Changed from error
        os.unlink(staged.name, dir_fd=staged.dir_fd)


def _open_parent(root: bytes, path: bytes) -> int:
    root_fd = open_directory(root)
    try:
        return open_straight(root_fd, path.rpartition(b"/")[0], DIRECTORY_FLAGS)
    finally:
        os.close(root_fd)


def _copy_attributes(dir_fd: int, name: bytes, to_fd: int) -> None:
    """Group, mode and extended attributes of the target, as far as amend may set them."""
    fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
    try:
        found = os.fstat(fd)
        mode = stat.S_IMODE(found.st_mode)
        if found.st_gid != os.fstat(to_fd).st_gid:
            try:
                os.fchown(to_fd, -1, found.st_gid)
            except OSError:  # another group must not gain what this one had
                mode &= ~0o070
        os.fchmod(to_fd, mode)
        for attribute in os.listxattr(fd) if hasattr(os, "listxattr") else ():
            with suppress(OSError):  # those of the system are not ours to set
                os.setxattr(to_fd, attribute, os.getxattr(fd, attribute))
    finally:
        os.close(fd)
