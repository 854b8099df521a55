"""inotify itself: one descriptor, through watchdog's ctypes bindings. Linux only.

Knows numbers and paths, nothing of what they are for.
"""

import ctypes
import errno
import fcntl
import os
import struct
import termios
from array import array
from collections.abc import Callable, Iterator
from typing import Final

from watchdog.observers.inotify_c import InotifyConstants as Bits
from watchdog.observers.inotify_c import WatchDescriptor, inotify_add_watch, inotify_rm_watch

CONTENT: Final = Bits.IN_MODIFY | Bits.IN_ATTRIB | Bits.IN_CLOSE_WRITE
MOVED_OR_DELETED_SELF: Final = Bits.IN_DELETE_SELF | Bits.IN_MOVE_SELF
GONE: Final = Bits.IN_DELETE | Bits.IN_MOVED_FROM
CAME: Final = Bits.IN_CREATE | Bits.IN_MOVED_TO
ATTRIB: Final = Bits.IN_ATTRIB
IS_DIRECTORY: Final = Bits.IN_ISDIR
OVERFLOW: Final = Bits.IN_Q_OVERFLOW
UNMOUNT: Final = Bits.IN_UNMOUNT
IGNORED: Final = Bits.IN_IGNORED

# One mask for all, never opens or reads: a second mask on one inode would replace the first, and
# amend's own reading would wake it for ever. IN_EXCL_UNLINK is left out: a file that is unlinked
# and linked again under a wanted name may still be written through the old descriptor.
EVERYTHING: Final = CONTENT | MOVED_OR_DELETED_SELF | GONE | CAME
DIRECTORY: Final = EVERYTHING | Bits.IN_ONLYDIR | Bits.IN_DONT_FOLLOW
DIRECTORY_OR_LINK: Final = EVERYTHING | Bits.IN_ONLYDIR
FILE: Final = EVERYTHING | Bits.IN_DONT_FOLLOW

# Only that a directory itself goes away. Added to what the inode is watched for already.
OWN_FATE: Final = MOVED_OR_DELETED_SELF | Bits.IN_ONLYDIR | Bits.IN_MASK_ADD

# 1,000 to 4,000 events: the loop gets its turn between two reads, and one costs it some 5 ms.
READ_BYTES: Final = 64 << 10

# The longest record: a header and a name of 255 bytes with its padding.
RECORD_BYTES_MAX: Final = 16 + 256

# The user's limit is shared with editors and build tools; amend takes at most a quarter.
WATCHES_SHARE: Final = 4
WATCHES_WITHOUT_LIMIT: Final = 100_000

_HEADER: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the padded name

AddWatch = Callable[[int, bytes, int], int]


def watches_max_here() -> int:
    try:
        with open("/proc/sys/fs/inotify/max_user_watches") as file:
            return int(file.read()) // WATCHES_SHARE
    except (OSError, ValueError):
        return WATCHES_WITHOUT_LIMIT


class Descriptor:
    def __init__(self, add_watch: AddWatch | None = None) -> None:
        """Raises `OSError` EMFILE when the user has no inotify instance left."""
        init = ctypes.CDLL(None, use_errno=True).inotify_init1
        self.fd = int(init(os.O_NONBLOCK | os.O_CLOEXEC))
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._add_watch = add_watch if add_watch is not None else inotify_add_watch
        self._queued = array("i", [0])

    def add(self, path: bytes, mask: int) -> int:
        """The watch descriptor, or the negative errno."""
        if b"\0" in path:
            return -errno.ENOENT  # C would watch what is before the NUL
        wd = self._add_watch(self.fd, path, mask)
        return wd if wd >= 0 else -ctypes.get_errno()

    def remove(self, wd: int) -> None:
        """EINVAL, when the kernel dropped it first, is as good."""
        inotify_rm_watch(self.fd, WatchDescriptor(wd))

    def queued_bytes(self) -> int:
        """What is queued now; a third of what a read that finds nothing costs."""
        fcntl.ioctl(self.fd, termios.FIONREAD, self._queued)
        return self._queued[0]

    def read(self) -> bytes | None:
        """Records as `records` takes them; None when nothing is queued."""
        while True:
            try:
                return os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                return None
            except InterruptedError:
                continue

    def close(self) -> None:
        os.close(self.fd)


def records(buffer: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(watch, mask, name) of each event; the name is b"" for the watched thing itself."""
    unpack, header_bytes = _HEADER.unpack_from, _HEADER.size
    at, end = 0, len(buffer)
    while at < end:
        wd, mask, _, length = unpack(buffer, at)
        at += header_bytes
        if length:
            yield wd, mask, buffer[at : at + length].rstrip(b"\0")
            at += length
        else:
            yield wd, mask, b""
