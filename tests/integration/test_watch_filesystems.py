"""Which backend a root needs, by the table of mounts."""

import errno
import os
from pathlib import Path

import pytest

from amend.edge.watch.filesystems import (
    Backend,
    Mount,
    backend_for,
    mount_of,
    mounts_about,
    parse_mounts,
    read_mounts,
)
from amend.edge.watch.inotify import Inotify
from amend.edge.watch.watcher import Watcher

TABLE = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
31 22 0:45 / /mnt/c rw,noatime - 9p C:\134 rw,dirsync,aname=drvfs
32 22 0:46 / /home/a/with\040space rw master:3 - nfs4 host:/export rw,vers=4.2
33 22 0:47 / /home/a/fast rw - tmpfs tmpfs rw
34 33 0:48 / /home/a/fast rw - fuse.sshfs host:/ rw
35 22 0:49 / /vm rw - virtiofs share rw
36 22 0:50 / /win rw - cifs //host/share rw
37 22 0:51 / /merged rw - overlay overlay rw,lowerdir=/a
"""


def test_a_table_is_read_with_its_escapes() -> None:
    mounts = parse_mounts(TABLE)

    assert mounts[0] == Mount(22, b"", "ext4")
    assert mounts[3] == Mount(32, b"/home/a/with space", "nfs4")
    assert len(mounts) == 9


def test_lines_that_are_none_are_left_out() -> None:
    assert parse_mounts(b"\nnonsense\n22 1 0:1 / /x rw\n") == ()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/", "ext4"),
        (b"/home/a/repo", "ext4"),
        (b"/mnt/c", "9p"),
        (b"/mnt/c/Users/a/repo", "9p"),
        (b"/mnt/cd", "ext4"),
        (b"/home/a/with space/repo", "nfs4"),
        (b"/home/a/fast/repo", "fuse.sshfs"),
        (b"/merged/repo", "overlay"),
    ],
)
def test_a_path_is_on_the_deepest_and_latest_mount_above_it(path: bytes, kind: str) -> None:
    mount = mount_of(path, parse_mounts(TABLE))

    assert mount is not None
    assert mount.kind == kind


@pytest.mark.parametrize(
    ("path", "backend"),
    [
        (b"/home/a/repo", Backend.INOTIFY),
        (b"/merged/repo", Backend.INOTIFY),
        (b"/mnt/c/repo", Backend.POLLING),
        (b"/home/a/with space/repo", Backend.POLLING),
        (b"/home/a/fast/repo", Backend.POLLING),
        (b"/vm/repo", Backend.POLLING),
        (b"/win/repo", Backend.POLLING),
    ],
)
def test_silent_filesystems_are_polled(path: bytes, backend: Backend) -> None:
    def mounts() -> tuple[Mount, ...]:
        return parse_mounts(TABLE)

    assert backend_for(path, platform="linux", mounts=mounts) is backend


def test_macos_uses_fsevents_and_what_is_unknown_is_polled() -> None:
    assert backend_for(b"/repo", platform="darwin") is Backend.FSEVENTS
    assert backend_for(b"/repo", platform="freebsd14") is Backend.POLLING


def test_without_a_table_linux_uses_inotify() -> None:
    assert backend_for(b"/repo", platform="linux", mounts=lambda: ()) is Backend.INOTIFY


def test_the_mounts_about_a_root_are_those_above_and_those_beneath() -> None:
    mounts = mounts_about([b"/home/a"], parse_mounts(TABLE))

    assert sorted(mount.number for mount in mounts) == [22, 32, 33, 34]


def test_this_machine_has_a_root_filesystem() -> None:
    mounts = read_mounts()

    assert mount_of(b"/", mounts) is not None


def test_a_silent_mount_inside_a_root_is_listed_and_its_keys_are_known(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path.resolve() / "repo")
    os.makedirs(root + b"/share")
    share = Mount(99, root + b"/share", "nfs4")
    watch = Inotify(read_mounts=lambda: (share,))
    watch.add_root(root)

    watch.want(root, b"share/deep/f", "remote")
    watch.want(root, b"f", "local")
    health, keys = watch.health(root), watch.unwatched_keys()
    watch.close()

    assert health.unwatched == ((root + b"/share", errno.EREMOTE),)
    assert keys == {"remote"}


def test_a_mount_that_comes_and_goes_is_noticed_on_retry(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path.resolve() / "repo")
    os.makedirs(root + b"/share")
    table: list[Mount] = []
    watch = Inotify(read_mounts=lambda: tuple(table))
    watch.add_root(root)
    watch.want(root, b"share/f", "f")
    watch.drain()

    table.append(Mount(99, root + b"/share", "nfs4"))
    watch.retry_unwatched()
    mounted, listed = watch.drain(), watch.unwatched_keys()
    table.clear()
    watch.retry_unwatched()
    unmounted, unlisted = watch.drain(), watch.unwatched_keys()
    watch.retry_unwatched()
    nothing_new = watch.drain()
    rescans = watch.health().rescans
    watch.close()

    assert mounted == listed == {"f"}
    assert unmounted == {"f"}
    assert unlisted == set()
    assert nothing_new == set()
    assert rescans == 2


def test_a_root_whose_filesystem_changes_moves_with_all_it_wants(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path.resolve() / "repo")
    os.makedirs(root)
    now = [Backend.INOTIFY]
    watch = Watcher(backend_for=lambda _: now[0])
    watch.add_root(root)
    watch.want(root, b"f", "f")
    watch.want_names(root, b"", "names")
    watch.drain()

    now[0] = Backend.POLLING
    watch.retry_unwatched()
    moved, polled = watch.drain(), watch.health(root)
    now[0] = Backend.INOTIFY
    watch.retry_unwatched()
    watch.drain()
    (tmp_path / "repo/f").write_text("text")
    touched, armed = watch.drain(), watch.health(root)
    watch.close()

    assert moved == {"f", "names"}
    assert polled.backend == "polling"
    assert polled.unwatched == ((root, errno.EREMOTE),)
    assert touched == {"f", "names"}
    assert armed.backend == "inotify"


def test_each_root_is_watched_by_its_own_backend(tmp_path: Path) -> None:
    local, remote = (os.fsencode(tmp_path.resolve() / name) for name in ("local", "remote"))
    for root in (local, remote):
        os.makedirs(root)
    watch = Watcher(backend_for=lambda root: Backend.POLLING if root == remote else Backend.INOTIFY)
    for root in (local, remote):
        watch.add_root(root)
        watch.want(root, b"f", root)
    watch.drain()

    (tmp_path / "local/f").write_text("text")
    touched, unwatched = watch.drain(), watch.unwatched_keys()
    both, neither = watch.health(), watch.health(b"/never/added")
    watch.close()

    assert touched == {local}
    assert unwatched == {remote}
    assert both.backend == "inotify+polling"
    assert neither.backend == "none"
