"""Which backend a root needs: what its filesystem can tell, by /proc/self/mountinfo."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Backend(StrEnum):
    INOTIFY = "inotify"
    FSEVENTS = "fsevents"
    POLLING = "polling"


# Filesystems whose files change elsewhere, where the kernel here is not told: network and cluster
# ones, and the shared folders of virtual machines. `9p` is also how WSL mounts Windows drives and
# gVisor its container's files; `fakeowner` and `virtiofs` are desktop containers' shares. Anything
# that begins with `fuse` is one too: sshfs, rclone, bindfs, Windows and phone drives.
SILENT: Final = frozenset(
    ["9p", "afs", "ceph", "cifs", "coda", "drvfs", "fakeowner", "gfs2", "gofer", "gpfs"]  # noqa: RUF005
    + ["lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs"]
    + ["v9fs", "vboxsf", "virtiofs", "vmhgfs"]
)


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the table. `path` is where it is mounted, b"" for the root filesystem."""

    number: int  # unique among the mounts of now, so a remount shows
    path: bytes
    kind: str

    @property
    def is_silent(self) -> bool:
        return self.kind in SILENT or self.kind.startswith("fuse")


def parse_mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    """In the table's order: of two at one path, the later is the one that is seen. Source: proc(5),
    section /proc/pid/mountinfo."""
    mounts = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(b" - ")
        fields = left.split(b" ")
        if dash and len(fields) >= 5:
            path = _unescaped(fields[4]).rstrip(b"/")
            mounts.append(Mount(int(fields[0]), path, os.fsdecode(right.split(b" ")[0])))
    return tuple(mounts)


def _unescaped(field: bytes) -> bytes:
    """The table writes space, tab, newline and backslash as three octal digits."""
    first, *rest = field.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)


def read_mounts() -> tuple[Mount, ...]:
    """Nothing where there is no such table."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return parse_mounts(file.read())
    except OSError:
        return ()


def mount_of(path: bytes, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that `path` is on."""
    found = None
    for mount in mounts:
        if _is_within(path, mount.path) and (found is None or len(mount.path) >= len(found.path)):
            found = mount
    return found


def mounts_about(roots: Iterable[bytes], mounts: Iterable[Mount]) -> frozenset[Mount]:
    """Those on the way to one of the roots, or beneath one."""
    places = tuple(roots)
    return frozenset(
        mount
        for mount in mounts
        if any(_is_within(root, mount.path) or _is_within(mount.path, root) for root in places)
    )


def _is_within(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory + b"/")


def backend_for(
    root: bytes,
    *,
    platform: str = sys.platform,
    mounts: Callable[[], tuple[Mount, ...]] = read_mounts,
) -> Backend:
    if platform == "darwin":
        return Backend.FSEVENTS
    if not platform.startswith("linux"):
        return Backend.POLLING
    mount = mount_of(os.path.realpath(root), mounts())
    return Backend.POLLING if mount is not None and mount.is_silent else Backend.INOTIFY
