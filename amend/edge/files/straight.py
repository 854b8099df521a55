"""List, read and make what lies beneath a root where no symlink is on the way, nor at its end.

For files that amend keeps in step by writing: what a link leads to is somebody else's.
"""

import errno
import os
import stat
from dataclasses import dataclass
from typing import Final

from amend.edge.files.beneath import (
    DIRECTORY_FLAGS,
    FILE_FLAGS,
    LIST_FLAGS,
    NAMES_MAX,
    TooLarge,
    is_amends,
    is_git,
    kind_of,
    open_directory,
    open_straight,
    read_bounded,
)
from amend.errors import Refused

# Opening a symlink for itself: ELOOP by openat2, ENOTDIR or ELOOP by the walk by hand.
_LINK_ERRNOS: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Named:
    """A name in a directory; a link is neither a directory nor a file."""

    name: bytes
    is_directory: bool
    is_file: bool


def is_link(root: bytes, path: bytes) -> bool:
    """Whether a symlink stands on the way to `path`, or at its end."""
    parts = path.split(b"/")
    for at in range(1, len(parts) + 1):
        try:
            if stat.S_ISLNK(os.lstat(root + b"/" + b"/".join(parts[:at])).st_mode):
                return True
        except OSError:
            return False
    return False


def list_straight(root: bytes, path: bytes) -> list[Named] | None:
    """The names in a directory, sorted; None where there is none, or a link leads to it.

    `.git` and amend's own files are left out. Raises `TooLarge`, and OSError for what is not to be
    read.
    """
    try:
        root_fd = open_directory(root)
    except FileNotFoundError:
        return None
    try:
        fd = open_straight(root_fd, path, LIST_FLAGS)
    except OSError as error:
        if error.errno in _LINK_ERRNOS or error.errno == errno.ENOENT:
            return None
        raise
    finally:
        os.close(root_fd)
    try:
        with os.scandir(fd) as found:
            names = [
                Named(
                    os.fsencode(each.name),
                    each.is_dir(follow_symlinks=False),
                    each.is_file(follow_symlinks=False),
                )
                for each in found
            ]
    finally:
        os.close(fd)
    if len(names) > NAMES_MAX:
        raise TooLarge(f"has more than {NAMES_MAX} names")
    kept = [each for each in names if not is_git(each.name) and not is_amends(each.name)]
    return sorted(kept, key=lambda each: each.name)


def read_straight(root: bytes, path: bytes, *, bytes_max: int) -> bytes:
    """The bytes of the regular file at `path`. Raises OSError (ELOOP: a link), `Refused`."""
    root_fd = open_directory(root)
    try:
        fd = open_straight(root_fd, path, FILE_FLAGS)
    finally:
        os.close(root_fd)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise Refused(f"is {kind_of(mode)}, not a regular file")
        return read_bounded(fd, bytes_max)
    finally:
        os.close(fd)


def make_directories(root: bytes, path: bytes) -> None:
    """Make `path` and what is missing above it. Raises `Refused` where a link or a file stands."""
    root_fd = open_directory(root)
    try:
        parts = path.split(b"/")
        for at in range(1, len(parts) + 1):
            here = b"/".join(parts[:at])
            try:
                fd = open_straight(root_fd, here, DIRECTORY_FLAGS)
            except FileNotFoundError:
                _make_one(root_fd, here)
                continue
            except OSError as error:
                if error.errno not in _LINK_ERRNOS:
                    raise
                raise Refused(f"{os.fsdecode(here)} is a symlink or no directory") from error
            os.close(fd)
    finally:
        os.close(root_fd)


def _make_one(root_fd: int, path: bytes) -> None:
    parent, _, name = path.rpartition(b"/")
    fd = open_straight(root_fd, parent, DIRECTORY_FLAGS)
    try:
        os.mkdir(name, dir_fd=fd)
    except FileExistsError:
        pass  # somebody else made it meanwhile
    finally:
        os.close(fd)
