"""What every watch promises, whichever way it learns of changes.

The one for macOS runs on a fake stream, which tells of changes the way FSEvents does: by path and
flags, a renamed directory by its own two names only.
"""

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amend.edge.watch.fsevents import (
    CREATED,
    IS_DIRECTORY,
    REMOVED,
    RENAMED,
    ROOT_CHANGED,
    Arrived,
    Event,
    FsEvents,
)
from amend.edge.watch.inotify import Inotify
from amend.edge.watch.interface import Key, Wanted, Watch
from amend.edge.watch.polling import Polling

MODIFIED = 0x1000


class FakeStream:
    """Compares the tree with what it was, when told to; delivers from another thread."""

    def __init__(self, root: bytes, arrived: Arrived) -> None:
        self.root = root
        self.arrived = arrived
        self.stopped = False
        self._seen = self._look()

    def stop(self) -> None:
        self.stopped = True

    def tell(self) -> None:
        before, self._seen = self._seen, self._look()
        events = self._events(before, self._seen)
        if events and not self.stopped:
            thread = threading.Thread(target=self.arrived, args=(events,))
            thread.start()
            thread.join()

    def _look(self) -> dict[bytes, tuple[int, bool, tuple[int, ...]]]:
        found: dict[bytes, tuple[int, bool, tuple[int, ...]]] = {}
        places = [self.root]
        for at, directories, files in os.walk(self.root):
            places += [os.path.join(at, name) for name in directories + files]
        for place in places:
            try:
                s = os.lstat(place)
            except OSError:
                continue
            is_directory = stat.S_ISDIR(s.st_mode)
            look = (s.st_mode,) if is_directory else (s.st_mode, s.st_size, s.st_mtime_ns)
            found[place] = (s.st_ino, is_directory, look)
        return found

    def _events(
        self,
        before: dict[bytes, tuple[int, bool, tuple[int, ...]]],
        after: dict[bytes, tuple[int, bool, tuple[int, ...]]],
    ) -> list[Event]:
        if before.get(self.root, (0,))[0] != after.get(self.root, (0,))[0]:
            return [(self.root, ROOT_CHANGED)]
        came = {path for path in after if before.get(path, (0,))[0] != after[path][0]}
        went = {path for path in before if before[path][0] != after.get(path, (0,))[0]}
        moved = {before[path][0] for path in went} & {after[path][0] for path in came}
        events: list[Event] = []
        untold: set[bytes] = set()  # below a renamed directory nothing is told
        for path in sorted(came | went):
            inode, is_directory, _ = after[path] if path in came else before[path]
            flags = IS_DIRECTORY if is_directory else 0
            if inode in moved:
                flags |= RENAMED
            else:
                flags |= (CREATED if path in came else 0) | (REMOVED if path in went else 0)
            if is_directory and (inode in moved or os.path.dirname(path) in untold):
                untold.add(path)
            if os.path.dirname(path) not in untold:
                events.append((path, flags))
        for path in before.keys() & after.keys() - came:
            if before[path] != after[path]:
                events.append((path, MODIFIED | (IS_DIRECTORY if after[path][1] else 0)))
        return events


class Rig:
    """A watch on `root`, and how to make it notice what happened until now."""

    def __init__(self, watch: Watch, root: Path, notice: Callable[[], None]) -> None:
        self.watch = watch
        self.path = root
        self.root = os.fsencode(root)
        self.notice = notice
        watch.add_root(self.root)

    def want(self, path: str, key: Key) -> None:
        self.watch.want(self.root, path.encode(), key)

    def want_names(self, path: str, key: Key) -> None:
        self.watch.want_names(self.root, path.encode(), key)

    def touched(self) -> set[Key]:
        self.notice()
        return self.watch.drain()

    def write(self, path: str, text: str = "text") -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def fsevents_rig(root: Path) -> Rig:
    streams: list[FakeStream] = []

    def opened(real: bytes, arrived: Arrived) -> FakeStream:
        streams.append(FakeStream(real, arrived))
        return streams[-1]

    def notice() -> None:
        for stream in tuple(streams):
            stream.tell()

    return Rig(FsEvents(open_stream=opened), root, notice)


def polling_rig(root: Path) -> Rig:
    watch = Polling(interval_s=0.01)
    return Rig(watch, root, watch.poll)


def inotify_rig(root: Path) -> Rig:
    return Rig(Inotify(), root, lambda: None)


@pytest.fixture(params=[inotify_rig, polling_rig, fsevents_rig])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    root = tmp_path.resolve() / "repo"
    root.mkdir()
    it = request.param(root)
    yield it
    it.watch.close()


def test_an_edit_touches_the_keys_of_its_path_and_no_other(rig: Rig) -> None:
    rig.write("src/a.py")
    rig.write("src/b.py")
    rig.want("src/a.py", "a")
    rig.want("src/a.py", "a too")
    rig.want("src/b.py", "b")
    rig.touched()

    rig.write("src/a.py", "longer text")

    assert "b" not in (touched := rig.touched())
    assert touched == {"a", "a too"}


def test_one_key_can_be_wanted_at_many_paths(rig: Rig) -> None:
    for path in ("a", "b"):
        rig.write(path)
        rig.want(path, "both")

    rig.write("b", "longer text")

    assert rig.touched() == {"both"}


def test_a_change_of_mode_touches(rig: Rig) -> None:
    rig.write("a")
    rig.want("a", "a")
    rig.touched()

    (rig.path / "a").chmod(0o755)

    assert rig.touched() == {"a"}


def test_a_file_that_comes_and_one_that_goes_touch(rig: Rig) -> None:
    rig.write("there")
    rig.want("there", "goes")
    rig.want("absent", "comes")
    rig.touched()

    (rig.path / "there").unlink()
    rig.write("absent")

    assert rig.touched() == {"goes", "comes"}


def test_a_path_whose_directories_do_not_exist_yet_is_seen_to_come(rig: Rig) -> None:
    rig.want("x/y/z/new", "new")
    rig.touched()

    rig.write("x/y/z/new")

    assert rig.touched() == {"new"}


def test_after_it_came_its_edits_are_seen(rig: Rig) -> None:
    rig.want("x/y/z/new", "new")
    rig.write("x/y/z/new")
    rig.touched()

    rig.write("x/y/z/new", "longer text")

    assert rig.touched() == {"new"}


def test_a_save_by_rename_touches(rig: Rig) -> None:
    rig.write("a")
    rig.want("a", "a")
    rig.touched()

    rig.write(".a.tmp", "another text")
    (rig.path / ".a.tmp").rename(rig.path / "a")

    assert "a" in rig.touched()


def test_a_renamed_ancestor_touches_on_its_way_out_and_back(rig: Rig) -> None:
    rig.write("a/b/f")
    rig.want("a/b/f", "f")
    rig.touched()

    (rig.path / "a").rename(rig.path / "z")
    out = rig.touched()
    (rig.path / "z").rename(rig.path / "a")
    back = rig.touched()

    assert out == {"f"}
    assert back == {"f"}


def test_a_directory_that_becomes_a_file_and_back_touches(rig: Rig) -> None:
    rig.write("a/f")
    rig.want("a/f", "f")
    rig.touched()

    (rig.path / "a/f").unlink()
    (rig.path / "a").rmdir()
    (rig.path / "a").write_text("now a file")
    file = rig.touched()
    (rig.path / "a").unlink()
    rig.write("a/f", "again")
    directory = rig.touched()

    assert file == {"f"}
    assert directory == {"f"}


def test_names_that_come_and_go_touch_whoever_wants_the_names(rig: Rig) -> None:
    rig.write("src/a.py")
    rig.want_names("src", "names")
    rig.touched()

    rig.write("src/b.py")
    came = rig.touched()
    (rig.path / "src/a.py").unlink()
    went = rig.touched()

    assert came == {"names"}
    assert went == {"names"}


def test_an_edit_does_not_touch_who_wants_only_the_names(rig: Rig) -> None:
    rig.write("src/a.py")
    os.utime(rig.path / "src", (1, 1))  # a fresh directory is looked at twice by polling
    rig.want_names("src", "names")
    rig.touched()
    rig.touched()

    (rig.path / "src/a.py").write_text("longer text")

    assert rig.touched() == set()


def test_the_directory_itself_coming_and_going_touches_its_names(rig: Rig) -> None:
    rig.want_names("src", "names")
    rig.touched()

    rig.write("src/a.py")
    came = rig.touched()
    (rig.path / "src").rename(rig.path / "lib")
    went = rig.touched()

    assert came == {"names"}
    assert went == {"names"}


def test_the_names_in_the_root_itself_can_be_wanted(rig: Rig) -> None:
    rig.want_names("", "names")
    rig.touched()

    rig.write("a")

    assert rig.touched() == {"names"}


def test_a_root_that_is_deleted_and_made_again_touches_both_times(rig: Rig) -> None:
    rig.write("f")
    rig.want("f", "f")
    rig.touched()

    (rig.path / "f").unlink()
    rig.path.rmdir()
    gone = rig.touched()
    rig.path.mkdir()
    rig.write("f", "again")
    back = rig.touched()

    assert gone == {"f"}
    assert back == {"f"}


def test_an_edit_of_what_a_link_leads_to_touches(rig: Rig) -> None:
    rig.write("v1/f")
    (rig.path / "current").symlink_to("v1")
    rig.want("current/f", "f")
    rig.touched()

    rig.write("v1/f", "longer text")

    assert rig.touched() == {"f"}


def test_a_link_that_is_led_elsewhere_touches_and_is_followed(rig: Rig) -> None:
    rig.write("v1/f")
    rig.write("v2/f", "other text")
    (rig.path / "current").symlink_to("v1")
    rig.want("current/f", "f")
    rig.touched()

    (rig.path / "next").symlink_to("v2")
    (rig.path / "next").rename(rig.path / "current")
    retargeted = rig.touched()
    rig.write("v2/f", "an even longer text")
    edited = rig.touched()

    assert retargeted == {"f"}
    assert edited == {"f"}


def test_reading_touches_nothing(rig: Rig) -> None:
    rig.write("src/a.py")
    for path in ("src", "src/a.py"):
        os.utime(rig.path / path, (1, 1))
    rig.want("src/a.py", "a")
    rig.want_names("src", "names")
    for _ in range(2):
        rig.touched()

    (rig.path / "src/a.py").read_text()
    os.listdir(rig.path / "src")

    assert rig.touched() == set()


def test_what_is_not_wanted_any_more_is_silent(rig: Rig) -> None:
    rig.write("a")
    rig.want("a", "kept")
    rig.want("a", "given up")
    rig.want_names("", "names")
    rig.touched()

    rig.watch.unwant(rig.root, b"a", "given up")
    rig.watch.unwant(rig.root, b"a", "never wanted")
    rig.watch.unwant_names(rig.root, b"", "names")
    rig.watch.unwant_names(rig.root, b"never/wanted", "names")
    rig.write("a", "longer text")
    rig.write("b")

    assert rig.touched() == {"kept"}


def test_a_dropped_root_is_silent_and_can_be_added_again(rig: Rig) -> None:
    rig.write("a")
    rig.want("a", "a")
    rig.touched()

    rig.watch.drop_root(rig.root)
    rig.watch.drop_root(rig.root)
    rig.write("a", "longer text")
    dropped = rig.touched()
    rig.watch.add_root(rig.root)
    rig.watch.add_root(rig.root)
    rig.want("a", "a")
    rig.write("a", "an even longer text")
    added = rig.touched()

    assert dropped == set()
    assert added == {"a"}


def test_all_that_is_wanted_can_be_listed(rig: Rig) -> None:
    rig.want("a/f", "one")
    rig.want("a/f", "two")
    rig.want_names("a", "one")

    wanted = sorted(rig.watch.wanted(rig.root))

    assert wanted == [
        Wanted(b"a", "one", True),
        Wanted(b"a/f", "one", False),
        Wanted(b"a/f", "two", False),
    ]


def test_a_path_that_no_file_can_have_may_be_wanted_and_stays_silent(rig: Rig) -> None:
    rig.write("a/f")
    rig.want("a\0b/f", "nul")
    rig.want("n" * 300, "long")
    rig.touched()

    rig.write("a/f", "longer text")

    assert rig.touched() == set()


def test_health_names_the_backend_and_the_last_event(rig: Rig) -> None:
    rig.write("a")
    rig.want("a", "a")
    rig.touched()

    rig.write("a", "longer text")
    rig.touched()
    health = rig.watch.health(rig.root)

    assert health.backend in {"inotify", "polling", "fsevents"}
    assert health.armed >= 1
    assert health.events >= 1
    assert health.last_event_at is not None


class Inbox:
    """What a watch delivered on the loop, and waiting for it."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.batches = 0
        self.failures_left = 0
        self._arrived = asyncio.Event()

    def put(self, keys: set[Key]) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise RuntimeError("the owner is broken")
        self.batches += 1
        self.keys |= keys
        self._arrived.set()

    async def has(self, key: Key) -> None:
        async with asyncio.timeout(10):
            while key not in self.keys:
                self._arrived.clear()
                await self._arrived.wait()


async def test_touched_keys_are_delivered_in_the_background(rig: Rig) -> None:
    inbox = Inbox()
    rig.write("a")
    rig.want("a", "a")
    rig.touched()
    rig.watch.start(asyncio.get_running_loop(), inbox.put)

    rig.write("a", "longer text")
    if isinstance(rig.watch, FsEvents):
        rig.notice()
    await inbox.has("a")

    assert inbox.keys == {"a"}


async def test_an_owner_that_fails_is_counted_and_gets_the_keys_later(rig: Rig) -> None:
    inbox = Inbox()
    inbox.failures_left = 1
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    for path in ("a", "b"):
        rig.write(path)
        rig.want(path, path)
    rig.touched()
    rig.watch.start(loop, inbox.put)

    rig.write("a", "longer text")
    await _until(lambda: bool(failures), rig)
    rig.write("b", "longer text")
    await _until(lambda: "b" in inbox.keys, rig)

    assert rig.watch.health().reader_errors == 1
    assert inbox.keys == {"a", "b"}


async def _until(holds: Callable[[], bool], rig: Rig) -> None:
    async with asyncio.timeout(10):
        while not holds():
            if isinstance(rig.watch, FsEvents):
                rig.notice()
            await asyncio.sleep(0.005)
