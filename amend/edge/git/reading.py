"""Read git's own small files: bounded, regular files only, so that nothing hangs or grows.

A repository may come from anywhere; any of its files may be a FIFO, a device or a gigabyte.
"""

import os
import stat


def read_regular(path: bytes, bytes_max: int) -> bytes | None:
    """The file's first `bytes_max` bytes, None where no regular file can be read."""
    return _read(path, bytes_max, from_end=False)


def read_last(path: bytes, bytes_max: int) -> bytes | None:
    """The file's last `bytes_max` bytes, None where no regular file can be read."""
    return _read(path, bytes_max, from_end=True)


def _read(path: bytes, bytes_max: int, *, from_end: bool) -> bytes | None:
    try:
        # Without O_NONBLOCK, opening a FIFO waits for its other end.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    with open(fd, "rb") as file:
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                return None
            if from_end:
                file.seek(max(0, about.st_size - bytes_max))
            return file.read(bytes_max)
        except OSError:
            return None
