"""Which backend a root needs: what its filesystem can tell, by /proc/self/mountinfo."""

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Final


class Backend(StrEnum):
    INOTIFY = "inotify"
    FSEVENTS = "fsevents"
    POLLING = "polling"


# Filesystems whose files change elsewhere: the kernel here is not told. `9p` and `drvfs` are WSL's
# Windows drives, `virtiofs` and `fakeowner` are desktop containers' shared folders.
SILENT: Final = frozenset(
    [
        "9p",
        "afs",
        "ceph",
        "cifs",
        "drvfs",
        "fakeowner",
        "gfs2",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
        "v9fs",
    ]
)


def filesystem_of(path: bytes, mountinfo: bytes) -> str:
    """The type of the filesystem that `path` is on, "" when the table does not say."""
    best, kind = b"", ""
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(b" - ")
        fields = left.split(b" ")
        if not dash or len(fields) < 5:
            continue
        mount = _unescaped(fields[4]).rstrip(b"/")
        inside = path == mount or path.startswith(mount + b"/")
        if inside and len(mount) >= len(best):
            best, kind = mount, os.fsdecode(right.split(b" ")[0])
    return kind


def _unescaped(field: bytes) -> bytes:
    """The table writes space, tab, newline and backslash as three octal digits."""
    parts = field.split(b"\\")
    return parts[0] + b"".join(bytes((int(p[:3], 8),)) + p[3:] for p in parts[1:])


def _mountinfo() -> bytes:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return file.read()
    except OSError:
        return b""


def backend_for(
    root: bytes, *, platform: str = sys.platform, mountinfo: Callable[[], bytes] = _mountinfo
) -> Backend:
    if platform == "darwin":
        return Backend.FSEVENTS
    if not platform.startswith("linux"):
        return Backend.POLLING
    kind = filesystem_of(os.path.realpath(root), mountinfo())
    silent = kind in SILENT or kind.startswith("fuse")
    return Backend.POLLING if silent else Backend.INOTIFY
