"""What goes wrong in the world, and in amend: nothing is lost silently, nothing ends the reader."""

import asyncio
import contextlib
import ctypes
import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import inotify_add_watch, inotify_rm_watch

from amend.edge.watch.filesystems import Backend
from amend.edge.watch.fsevents import DROPPED, Arrived, FsEvents
from amend.edge.watch.inotify import Inotify
from amend.edge.watch.interface import Key
from amend.edge.watch.polling import Polling
from amend.edge.watch.watcher import Watcher

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repo"
    root.mkdir()
    return root


class Kernel:
    """Adds watches, until it is told to refuse; watching an inode again costs nothing."""

    def __init__(self) -> None:
        self.left = sys.maxsize
        self.refused: dict[bytes, int] = {}
        self._given: set[int] = set()

    def add_watch(self, fd: int, path: bytes, mask: int) -> int:
        if path in self.refused:
            ctypes.set_errno(self.refused[path])
            return -1
        wd = inotify_add_watch(fd, path, mask)
        if wd < 0 or wd in self._given:
            return wd
        if not self.left:
            inotify_rm_watch(fd, wd)
            ctypes.set_errno(errno.ENOSPC)
            return -1
        self.left -= 1
        self._given.add(wd)
        return wd


def watching(path: Path, kernel: Kernel | None = None, **options: Any) -> tuple[Inotify, bytes]:
    watch = Inotify(add_watch=kernel.add_watch if kernel is not None else None, **options)
    root = os.fsencode(path)
    watch.add_root(root)
    return watch, root


def write(path: Path, text: str = "text") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def overflow(directory: Path) -> None:
    """More events than the queue holds."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    files = [directory / "noise", directory / "more noise"]
    for file in files:
        file.touch()
    for number in range(limit + 1000):
        os.utime(files[number % 2], (number, number))  # equal neighbours would be merged


# -- overflow --------------------------------------------------------------------------------------


def test_an_overflow_touches_every_key_and_is_counted_once(path: Path) -> None:
    watch, root = watching(path)
    write(path / "d/wanted")
    write(path / "e/other")
    watch.want(root, b"d/wanted", "wanted")
    watch.want(root, b"e/other", "other")
    watch.drain()

    overflow(path)
    write(path / "d/wanted", "edited while events were being lost")
    touched = watch.drain()
    health = watch.health()
    write(path / "d/wanted", "edited after")
    after = watch.drain()
    watch.close()

    assert touched == {"wanted", "other"}
    assert (health.overflows, health.rescans) == (1, 1)
    assert after == {"wanted"}


def test_directories_that_appear_during_an_overflow_are_armed_after_it(path: Path) -> None:
    # facebook/buck2#1434
    watch, root = watching(path)
    watch.want(root, b"new/deep/f", "f")
    watch.drain()

    overflow(path)
    write(path / "new/deep/f")
    touched = watch.drain()
    write(path / "new/deep/f", "edited after")
    after = watch.drain()
    watch.close()

    assert touched == {"f"}
    assert after == {"f"}


async def test_an_overflow_is_survived_in_the_background(path: Path) -> None:
    watch, root = watching(path)
    write(path / "d/wanted")
    watch.want(root, b"d/wanted", "wanted")
    watch.drain()
    touched: set[Key] = set()
    arrived = asyncio.Event()

    def deliver(keys: set[Key]) -> None:
        touched.update(keys)
        arrived.set()

    overflow(path)
    watch.start(asyncio.get_running_loop(), deliver)
    async with asyncio.timeout(10):
        await arrived.wait()
    watch.drain()
    overflows = watch.health().overflows
    watch.close()

    assert touched == {"wanted"}
    assert overflows == 1


# -- refusals --------------------------------------------------------------------------------------


def test_what_the_kernel_has_no_room_for_is_listed_with_its_keys(path: Path) -> None:
    kernel = Kernel()
    watch, root = watching(path, kernel)
    for number in range(100):
        write(path / f"d{number}/f")
    kernel.left = 60
    for number in range(100):
        watch.want(root, b"d%d/f" % number, number)
    watch.drain()

    for number in range(100):
        write(path / f"d{number}/f", "edited")
    touched = watch.drain()
    unwatched, keys = watch.health().unwatched, watch.unwatched_keys()
    watch.close()

    assert touched == set(range(60))
    assert keys == set(range(60, 100))
    assert {number for _, number in unwatched} == {errno.ENOSPC}
    assert len(unwatched) == 40


def test_what_was_refused_is_armed_and_touched_when_there_is_room_again(path: Path) -> None:
    kernel = Kernel()
    watch, root = watching(path, kernel)
    write(path / "d/e/f")
    kernel.left = 0
    watch.want(root, b"d/e/f", "f")
    watch.drain()
    watch.retry_unwatched()
    still_refused = watch.drain()

    kernel.left = 10
    watch.retry_unwatched()
    armed = watch.drain()
    write(path / "d/e/f", "edited")
    edited = watch.drain()
    unwatched = watch.health().unwatched
    watch.close()

    assert still_refused == set()
    assert armed == {"f"}
    assert edited == {"f"}
    assert unwatched == ()


def test_amend_takes_no_more_watches_than_it_is_allowed(path: Path) -> None:
    watch, root = watching(path, watches_max=20)

    for number in range(50):
        write(path / f"d{number}/f")
        watch.want(root, b"d%d/f" % number, number)
    health, keys = watch.health(), watch.unwatched_keys()
    for number in range(50):
        if number not in keys:
            watch.unwant(root, b"d%d/f" % number, number)
    watch.retry_unwatched()
    later = watch.unwatched_keys()
    watch.close()

    assert health.armed == 20
    assert {number for _, number in health.unwatched} == {errno.ENOSPC}
    assert 0 < len(later) < len(keys)


def test_a_roots_parent_that_may_not_be_watched_leaves_the_root_watched(path: Path) -> None:
    kernel = Kernel()
    kernel.refused[os.fsencode(path.parent)] = errno.EACCES
    watch, root = watching(path, kernel)
    watch.want(root, b"f", "f")

    write(path / "f")
    edited = watch.drain()
    path.rename(path.with_name("moved"))
    renamed = watch.drain()
    unwatched = watch.health(root).unwatched
    watch.close()

    assert edited == {"f"}
    assert renamed == {"f"}
    assert unwatched == ((os.fsencode(path.parent), errno.EACCES),)


def test_a_root_whose_parent_does_not_exist_is_armed_on_retry(tmp_path: Path) -> None:
    root_path = tmp_path.resolve() / "not/yet/repo"
    watch, root = watching(root_path)
    watch.want(root, b"f", "f")
    before = watch.health(root).unwatched

    write(root_path / "f")
    watch.retry_unwatched()
    came = watch.drain()
    write(root_path / "f", "edited")
    edited = watch.drain()
    after = watch.health(root).unwatched
    watch.close()

    assert before == ((os.fsencode(root_path.parent), errno.ENOENT),)
    assert came == {"f"}
    assert edited == {"f"}
    assert after == ()


@contextlib.contextmanager
def as_nobody() -> Iterator[Path]:
    """A directory of a user whom permissions bind; as that user."""
    with tempfile.TemporaryDirectory() as base:
        if os.geteuid() == 0:
            os.chown(base, NOBODY, -1)
            os.seteuid(NOBODY)
            try:
                yield Path(base).resolve()
            finally:
                os.seteuid(0)
        else:
            yield Path(base).resolve()


def test_a_directory_that_may_not_be_read_is_listed_until_it_may() -> None:
    with as_nobody() as base:
        write(base / "repo/secret/f")
        secret = base / "repo/secret"
        secret.chmod(0)
        watch, root = watching(base / "repo")
        watch.want(root, b"secret/f", "f")
        watch.drain()
        refused, keys = watch.health(root).unwatched, watch.unwatched_keys()

        secret.chmod(0o755)
        allowed = watch.drain()
        write(secret / "f", "edited")
        edited = watch.drain()
        unwatched = watch.health(root).unwatched
        watch.close()

    assert refused == ((root + b"/secret", errno.EACCES),)
    assert keys == {"f"}
    assert allowed == {"f"}
    assert edited == {"f"}
    assert unwatched == ()


def test_an_armed_directory_that_may_no_longer_be_read_touches_what_is_in_it() -> None:
    with as_nobody() as base:
        write(base / "repo/d/e/f")
        watch, root = watching(base / "repo")
        watch.want(root, b"d/e/f", "f")
        watch.drain()

        (base / "repo/d").chmod(0)
        closed = watch.drain()
        (base / "repo/d").chmod(0o755)
        opened = watch.drain()
        write(base / "repo/d/e/f", "edited")
        edited = watch.drain()
        watch.close()

    assert closed == opened == edited == {"f"}


# -- no inotify at all -----------------------------------------------------------------------------


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    lowest = os.dup(0)
    os.close(lowest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_an_inotify_instance_roots_are_polled_and_come_back_later(path: Path) -> None:
    # opencode#32930
    root = os.fsencode(path)
    watch = Watcher(backend_for=lambda _: Backend.INOTIFY)
    with no_descriptor_left():
        watch.add_root(root)
        watch.want(root, b"f", "f")
        polled, keys = watch.health(root), watch.unwatched_keys()
        watch.retry_unwatched()
        still_polled = watch.health(root).backend

    watch.retry_unwatched()
    moved = watch.drain()
    write(path / "f")
    touched = watch.drain()
    armed = watch.health(root)
    watch.close()

    assert (polled.backend, polled.unwatched) == ("polling", ((root, errno.EMFILE),))
    assert keys == {"f"}
    assert still_polled == "polling"
    assert moved == {"f"}
    assert touched == {"f"}
    assert (armed.backend, armed.unwatched) == ("inotify", ())


LIMITED = """
import errno, os, sys
from amend.edge.watch.watcher import Watcher
kind, root = sys.argv[1], os.fsencode(sys.argv[2])
limit = "/proc/sys/user/max_inotify_" + kind
with open(limit, "w") as file:
    file.write("0" if kind == "instances" else "20")
watch = Watcher()
watch.add_root(root)
for number in range(40):
    watch.want(root, b"d%d/f" % number, number)
watch.drain()
for number in range(40):
    with open(root + b"/d%d/f" % number, "a") as file:
        file.write("more")
touched, unwatched = watch.drain(), watch.unwatched_keys()
assert touched | unwatched == set(range(40)), (touched, unwatched)
health = watch.health(root)
print(health.backend, len(touched) > 0, {errno.errorcode[number] for _, number in health.unwatched})
"""


def run_apart(script: str, *arguments: str, flags: tuple[str, ...]) -> str:
    """The script's output, from namespaces of its own; skips where those are not to be had."""
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", *flags, "true"]
    if unshare is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip(f"this machine does not allow unshare {' '.join(flags)}")
    done = subprocess.run(
        [unshare, *flags, sys.executable, "-c", script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("kind", "said"),
    [("watches", "inotify True {'ENOSPC'}"), ("instances", "polling False {'EMFILE'}")],
)
def test_a_users_real_limits_are_survived(path: Path, kind: str, said: str) -> None:
    for number in range(40):
        write(path / f"d{number}/f")

    output = run_apart(LIMITED, kind, str(path), flags=("--user", "--map-root-user"))

    assert output == said


# -- mounts ----------------------------------------------------------------------------------------

MOUNTED = """
import os, subprocess, sys
from amend.edge.watch.inotify import Inotify
root = os.fsencode(sys.argv[1])
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
def umount(path):
    subprocess.run(["umount", path], check=True)
def edit(path):
    with open(path, "a") as file:
        file.write("more")
watch = Inotify()
watch.add_root(root)
watch.want(root, b"m/d/f", "f")
watch.want(root, b"alias/f", "alias")
mount("--bind", root + b"/m/d", root + b"/alias")
watch.retry_unwatched()
watch.drain()

edit(root + b"/m/d/f")
assert watch.drain() == {"f", "alias"}, "a bind mount is the same directory"

mount("-t", "tmpfs", "none", root + b"/m")
watch.retry_unwatched()
assert "f" in watch.drain(), "a mount over a watched directory"
os.makedirs(root + b"/m/d")
edit(root + b"/m/d/f")
assert watch.drain() == {"f"}, "what came on the new mount"
edit(root + b"/m/d/f")
assert watch.drain() == {"f"}, "an edit on the new mount"

umount(root + b"/m")
assert watch.drain() == {"f"}, "an unmount"
assert watch.health().rescans >= 1
watch.retry_unwatched()
watch.drain()
edit(root + b"/m/d/f")
assert "f" in watch.drain(), "an edit of what was below the mount"
print("all seen")
"""


def test_mounts_over_and_beside_watched_directories_are_seen(path: Path) -> None:
    write(path / "m/d/f")
    (path / "alias").mkdir()

    flags = ("--user", "--map-root-user", "--mount", "--propagation", "private")
    output = run_apart(MOUNTED, str(path), flags=flags)

    assert output == "all seen"


# -- our own bugs ----------------------------------------------------------------------------------


class Treacherous:
    """A key that fails at a bad moment."""

    def __init__(self) -> None:
        self.failures_left = 0

    def __hash__(self) -> int:
        if self.failures_left:
            self.failures_left -= 1
            raise RuntimeError("no hash today")
        return 1


@pytest.mark.parametrize("failures", [1, 2])
def test_a_bug_while_events_are_read_costs_a_rescan_and_is_counted(
    path: Path, failures: int
) -> None:
    watch, root = watching(path)
    key = Treacherous()
    for name, its in (("a", "a"), ("b", "b"), ("c", key)):
        write(path / name)
        watch.want(root, name.encode(), its)
    watch.drain()

    key.failures_left = failures
    write(path / "c", "edited")
    write(path / "a", "edited")
    touched = watch.drain()
    touched |= watch.drain()
    health = watch.health()
    write(path / "b", "edited after")
    after = watch.drain()
    watch.close()

    assert {"a", "b"} <= touched
    assert key in touched
    assert health.reader_errors == failures
    assert health.rescans >= 1
    assert after == {"b"}


async def test_a_bug_in_the_background_reader_is_told_to_the_loop_and_reading_goes_on(
    path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    watch, root = watching(path)
    key, delivered, arrived = Treacherous(), set[Key](), asyncio.Event()

    def deliver(keys: set[Key]) -> None:
        delivered.update(keys)
        if {"b", key} <= delivered:
            arrived.set()

    watch.want(root, b"a", key)
    watch.want(root, b"b", "b")
    watch.drain()
    watch.start(loop, deliver)

    key.failures_left = 1
    write(path / "a")
    async with asyncio.timeout(10):
        await arrived.wait()
    errors = watch.health().reader_errors
    watch.close()

    assert errors == 1
    assert isinstance(told[0]["exception"], RuntimeError)


# -- FSEvents, polling -----------------------------------------------------------------------------


class HandStream:
    def __init__(self) -> None:
        self.arrived: Arrived = lambda events: None
        self.stops = 0

    def open(self, root: bytes, arrived: Arrived) -> "HandStream":
        self.arrived = arrived
        return self

    def stop(self) -> None:
        self.stops += 1


@pytest.mark.parametrize("flag", [0x1, 0x2, 0x4, 0x8])
def test_events_that_fsevents_dropped_touch_everything_beneath(path: Path, flag: int) -> None:
    root, stream = os.fsencode(path), HandStream()
    watch = FsEvents(open_stream=stream.open)
    watch.add_root(root)
    watch.want(root, b"a/f", "a")
    watch.want(root, b"a/b/f", "b")
    watch.want(root, b"c/f", "c")

    stream.arrived([(root + b"/a", flag)])
    beneath = watch.drain()
    stream.arrived([(b"/", flag)])
    everything = watch.drain()
    health = watch.health()
    watch.close()

    assert flag & DROPPED
    assert beneath == {"a", "b"}
    assert everything == {"a", "b", "c"}
    assert (health.overflows, health.rescans) == (2, 2)


def test_a_stream_that_cannot_be_opened_is_listed_and_tried_again(path: Path) -> None:
    root, stream = os.fsencode(path), HandStream()
    failures = [OSError(errno.EMFILE, "no more streams")]

    def opened(real: bytes, arrived: Arrived) -> HandStream:
        if failures:
            raise failures.pop()
        return stream.open(real, arrived)

    watch = FsEvents(open_stream=opened)
    watch.add_root(root)
    watch.want(root, b"f", "f")
    before = watch.health(root)
    watch.retry_unwatched()
    retried, after = watch.drain(), watch.health(root)
    watch.close()

    assert (before.armed, before.unwatched) == (0, ((root, errno.EIO),))
    assert (after.armed, after.unwatched) == (1, ())
    assert retried == {"f"}
    assert stream.stops == 1


def test_the_silence_of_fsevents_and_of_polling_proves_nothing(path: Path) -> None:
    root = os.fsencode(path)
    for watch in (FsEvents(open_stream=HandStream().open), Polling()):
        watch.add_root(root)
        watch.want(root, b"f", "f")
        watch.want_names(root, b"", "names")

        keys = watch.unwatched_keys()
        watch.close()

        assert keys == {"f", "names"}


def test_polling_looks_once_more_at_what_changed_within_the_clocks_grain(path: Path) -> None:
    root = os.fsencode(path)
    watch = Polling()
    watch.add_root(root)
    write(path / "f")
    watch.want(root, b"f", "f")

    looks = []
    for _ in range(3):
        watch.poll()
        looks.append(watch.drain())
    watch.close()

    assert looks == [{"f"}, set(), set()]
