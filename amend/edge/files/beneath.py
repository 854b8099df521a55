"""Open, read and list what lies beneath a root, and nothing else.

A path is walked component by component on directory descriptors. Symlinks are followed by hand,
at most `LINKS_MAX` of them, as long as every step stays beneath the root; `..` in a link's target
goes back to the directory that was really walked through. Where no symlink is in the way, Linux
does the same walk in one call (`openat2`).

Guarantees: nothing outside the root is opened, whatever is renamed or relinked meanwhile; nothing
in a `.git` is opened; nothing but a regular file is read, so a FIFO, a device or a socket is a
refusal and never a wait; no descriptor outlives a failure. The root itself is opened by its
absolute path, links and all: whoever registered it meant it. Writes nothing.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from amend.edge.files import syscalls
from amend.errors import Refused

# Linux's own limit for one path (MAXSYMLINKS).
LINKS_MAX: Final = 40

# Longer directories are generated, and nobody rests a finding on ten thousand names by hand.
NAMES_MAX: Final = 10_000

# Reading in 1 MiB pieces keeps memory flat; larger pieces were no faster.
_CHUNK_BYTES: Final = 1 << 20

# O_PATH needs no read permission on the directories passed, as the kernel's own walk does not.
DIRECTORY_FLAGS: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
LIST_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Answers about the path itself; with any other the walk by hand finds out.
_FINAL_ERRNOS: Final = frozenset({errno.ENOENT, errno.EACCES, errno.EMFILE, errno.ENFILE})

_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symlink"),
)


class TooLarge(Refused):
    """More bytes or names than amend looks at."""


def is_git(name: bytes) -> bool:
    """Whether a name is a git directory's, on filesystems that fold case as well."""
    return len(name) == 4 and name.lower() == b".git"


def is_amends(name: bytes) -> bool:
    """Whether a name is one of amend's own temporary files (`exchange`): never listed or cited."""
    return name.startswith(b".") and b".amend-" in name


def kind_of(mode: int) -> str:
    """What a `st_mode` that is no regular file's is, in words."""
    return next((words for test, words in _KINDS if test(mode)), "no regular file")


def open_directory(root: bytes) -> int:
    return os.open(root, DIRECTORY_FLAGS)


def open_straight(dir_fd: int, path: bytes, flags: int) -> int:
    """Open `path` beneath a directory where no component is a symlink.

    ELOOP or ENOTDIR where one is, EXDEV at any `..`; b"" is the directory itself.
    """
    if not path:
        return os.open(b".", flags, dir_fd=dir_fd)
    if b".." in path and b".." in path.split(b"/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    try:
        return syscalls.open_without_links(dir_fd, path, flags)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.EINTR):
            raise
    here = dir_fd
    *parents, name = path.split(b"/")
    try:
        for parent in parents:
            below = os.open(parent, DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=here)
            if here != dir_fd:
                os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        if here != dir_fd:
            os.close(here)


def open_beneath(root: bytes, path: bytes, flags: int, passed: list[bytes] | None = None) -> int:
    """Open what `path` leads to, beneath `root`.

    `passed` receives the root-relative names of the symlinks on the way and, if there were any,
    of what they lead to. Raises `OSError`, and `Refused` where the way leads out or into `.git`.
    """
    _refuse_path(path)
    root_fd = open_directory(root)
    try:
        return open_straight(root_fd, path, flags)
    except OSError as error:
        if error.errno in _FINAL_ERRNOS:
            raise
    finally:
        os.close(root_fd)
    with place(root, path, passed if passed is not None else []) as (dir_fd, name):
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=dir_fd)


def stat_beneath(root: bytes, path: bytes, passed: list[bytes]) -> os.stat_result:
    """The stat of what `path` leads to, without opening it. Raises as `open_beneath` does."""
    _refuse_path(path)
    with place(root, path, passed) as (dir_fd, name):
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


def open_file(
    root: bytes, path: bytes, passed: list[bytes] | None = None
) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file that `path` leads to, and its stat.

    Raises as `open_beneath` does, and `Refused` where it is no regular file.
    """
    try:
        fd = open_beneath(root, path, FILE_FLAGS, passed)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what Linux answers for a socket
            raise Refused("is a socket, not a regular file") from error
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"is {kind_of(found.st_mode)}, not a regular file")
    except BaseException:
        os.close(fd)
        raise
    return fd, found


def read_file(root: bytes, path: bytes, *, bytes_max: int) -> bytes:
    """The bytes of the regular file that `path` leads to. `TooLarge` above `bytes_max`."""
    fd, _ = open_file(root, path)
    try:
        return read_bounded(fd, bytes_max)
    finally:
        os.close(fd)


def read_bounded(fd: int, bytes_max: int) -> bytes:
    """Everything from the descriptor's position on. `TooLarge` above `bytes_max`."""
    pieces: list[bytes] = []
    room_bytes = bytes_max + 1
    while room_bytes > 0:
        piece = os.read(fd, min(room_bytes, _CHUNK_BYTES))
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        room_bytes -= len(piece)
    raise TooLarge(f"is larger than {bytes_max} bytes")


def entries_of(dir_fd: int, names_max: int = NAMES_MAX) -> list[tuple[bytes, bool]]:
    """The names in an open directory, unsorted, and whether each is a directory itself.

    A symlink is none. `.git` and amend's own temporary files are left out. `TooLarge` above
    `names_max`.
    """
    entries: list[tuple[bytes, bool]] = []
    with os.scandir(dir_fd) as found:
        for entry in found:
            name = os.fsencode(entry.name)
            if is_git(name) or is_amends(name):
                continue
            if len(entries) == names_max:
                raise TooLarge(f"has more than {names_max} names")
            entries.append((name, entry.is_dir(follow_symlinks=False)))
    return entries


def list_names(root: bytes, path: bytes) -> list[bytes]:
    """The sorted names in the directory that `path` leads to; a directory's own end in `/`.

    Empty where it cannot be listed: this is for searches, which then find nothing there.
    """
    try:
        fd = open_beneath(root, path, LIST_FLAGS)
    except (OSError, Refused):
        return []
    try:
        return sorted(name + b"/" if is_dir else name for name, is_dir in entries_of(fd))
    except TooLarge:
        return []
    finally:
        os.close(fd)


@contextmanager
def place(root: bytes, path: bytes, passed: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """The directory and the name in it that `path` leads to, symlinks followed by hand.

    The name may not exist, and is `.` where the way ends in a directory by `..`. See
    `open_beneath` for `passed` and what is raised.
    """
    dirs, names = [open_directory(root)], list[bytes]()
    pending = path.split(b"/")[::-1]
    hops = 0
    try:
        while True:
            name = pending.pop()
            if name == b"..":
                if len(dirs) == 1:
                    raise _leads_out()
                os.close(dirs.pop())
                names.pop()
                name = b""
            if name in (b"", b"."):
                if pending:
                    continue
                break
            if is_git(name):
                raise _into_git()
            target = _link_target(dirs[-1], name)
            if target is None:
                if not pending:
                    names.append(name)
                    break
                flags = DIRECTORY_FLAGS | os.O_NOFOLLOW
                dirs.append(os.open(name, flags, dir_fd=dirs[-1]))
                names.append(name)
                continue
            passed.append(b"/".join([*names, name]))
            hops += 1
            if hops > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith(b"/"):
                target = _rebased(root, target)
                while len(dirs) > 1:
                    os.close(dirs.pop())
                names.clear()
            pending.extend(target.split(b"/")[::-1])
        if passed:
            passed.append(b"/".join(names))
        yield dirs[-1], name or b"."
    finally:
        for fd in dirs:
            os.close(fd)


def _refuse_path(path: bytes) -> None:
    if b"\0" in path:
        raise Refused("the path contains a NUL byte")
    if b".git" in path.lower() and any(is_git(name) for name in path.split(b"/")):
        raise _into_git()


def _link_target(dir_fd: int, name: bytes) -> bytes | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # no symlink, nothing: the caller sees
            return None
        raise


def _rebased(root: bytes, target: bytes) -> bytes:
    """An absolute link target as a path from the root; `Refused` when it does not begin there."""
    for prefix in (root.rstrip(b"/"), os.path.realpath(root).rstrip(b"/")):
        if target == prefix or target.startswith(prefix + b"/"):
            return target[len(prefix) :].lstrip(b"/")
    raise _leads_out()


def _leads_out() -> Refused:
    return Refused("a symlink on the way leads out of the root")


def _into_git() -> Refused:
    return Refused("leads into a git directory, which amend does not read")
