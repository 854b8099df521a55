"""The system calls that `os` lacks: exchange two names, rename unless taken, open without links.

Each raises `OSError` with the kernel's errno, and ENOSYS where the platform has no such call, so
that a caller decides what to do without. Every call names things relative to a directory
descriptor. Decides nothing.
"""

import ctypes
import errno
import os
import sys
from typing import Any, Final

# linux/fs.h and sys/stdio.h: the flags of renameat2(2) and of renameatx_np(2).
_LINUX_NOREPLACE: Final = 1
_LINUX_EXCHANGE: Final = 2
_MACOS_SWAP: Final = 2
_MACOS_EXCL: Final = 4

# openat2(2) has this number on every architecture but Alpha.
_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_OPEN_HOW_BYTES: Final = ctypes.c_size_t(ctypes.sizeof(_OpenHow))


def _renaming_call() -> Any:
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    call = getattr(_LIBC, name, None)
    if call is not None:
        call.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
        call.restype = ctypes.c_int
    return call


def _opening_call() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    call = _LIBC.syscall
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )
    call.restype = ctypes.c_long
    return call


_RENAME: Final = _renaming_call()
_SYSCALL: Final = _opening_call()


def exchange(dir_fd: int, one: bytes, other: bytes) -> None:
    """Swap what two names in one directory stand for, in one step. ENOENT when either is absent;
    EINVAL or ENOTSUP where the filesystem cannot."""
    _rename(dir_fd, one, other, _MACOS_SWAP if sys.platform == "darwin" else _LINUX_EXCHANGE)


def rename_unless_taken(dir_fd: int, old: bytes, new: bytes) -> None:
    """Rename within one directory; EEXIST when something has the new name."""
    _rename(dir_fd, old, new, _MACOS_EXCL if sys.platform == "darwin" else _LINUX_NOREPLACE)


def _rename(dir_fd: int, old: bytes, new: bytes, flags: int) -> None:
    if _RENAME is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new)
    if _RENAME(dir_fd, old, dir_fd, new, flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new)


def open_without_links(dir_fd: int, path: bytes, flags: int) -> int:
    """Open `path` beneath the directory in one call. ELOOP at any symlink, EXDEV at any `..` that
    climbs out, ENOSYS or EPERM where the kernel or a sandbox has no such call."""
    if _SYSCALL is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    fd: int = _SYSCALL(_SYS_OPENAT2, dir_fd, path, ctypes.addressof(how), _OPEN_HOW_BYTES)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd
