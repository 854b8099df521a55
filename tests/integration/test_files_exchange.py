"""The user's file is whole and nobody's write is lost: on a real filesystem, with every system
call failing once and amend killed at every step."""

import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from amend.edge.files import beneath, exchange, retained, syscalls
from amend.edge.files.exchange import Changed, FileDoor, Present, why_not_writable
from amend.edge.files.retained import KEPT_MAX
from amend.edge.files.shared import SharedFile
from amend.errors import Refused
from tests.integration.shared_file_stress import dump, mark, merge, parse

OLD: Final = b'{"a":{}}'
THEIRS: Final = b'{"a":{},"b":{}}'
LATE_S: Final = 1000.0


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    yield
    if before:
        assert len(os.listdir("/proc/self/fd")) <= len(before)


class Place:
    """A root with a cache file in it and a retain directory beside the root."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.file = self.root / "cache.json"
        self.file.write_bytes(OLD)
        self.retain = directory / "retain"

    def door(self, at: Callable[[str], None] = lambda step: None) -> FileDoor:
        return FileDoor(os.fsencode(self.root), b"cache.json", os.fsencode(self.retain), at)

    def shared(self, door: FileDoor | None = None, **more: Any) -> SharedFile:
        words: dict[str, Any] = {"plan": mark, "journal": lambda data: None} | more
        return SharedFile(
            os.fsencode(self.root),
            b"cache.json",
            retain_dir=os.fsencode(self.retain),
            merge=merge,
            door=door if door is not None else self.door(),
            **words,
        )

    def content(self) -> dict[str, Any]:
        return parse(self.file.read_bytes())

    def beside(self) -> list[str]:
        return [path.name for path in self.root.iterdir() if path != self.file]

    def retained(self, suffix: str) -> list[bytes]:
        if not self.retain.exists():
            return []
        return [p.read_bytes() for p in sorted(self.retain.iterdir()) if p.name.endswith(suffix)]

    def replace_by_rename(self, content: bytes) -> None:
        beside = self.root / "theirs"
        beside.write_bytes(content)
        beside.rename(self.file)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def settle(shared: SharedFile, now_s: float) -> None:
    shared.request(now_s)
    for _ in range(500):
        due_s = shared.step(now_s)
        if due_s is None:
            return
        now_s = max(due_s, now_s)
    raise AssertionError("it never comes to rest")


def write(shared: SharedFile) -> None:
    """Up to the moment when the file has just been replaced."""
    shared.request(0.0)
    shared.step(0.0)
    shared.step(1.0)


def test_a_replaced_file_keeps_its_mode_group_and_attributes(place: Place) -> None:
    place.file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(place.file, -1, 1234)
    attribute = _set_attribute(place.file)
    before = place.file.stat()

    settle(place.shared(), 0.0)

    after = place.file.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)
    if attribute:
        assert os.getxattr(place.file, "user.amend") == b"kept"
    assert place.beside() == []


def _set_attribute(path: Path) -> bool:
    try:
        os.setxattr(path, "user.amend", b"kept")
    except (OSError, AttributeError):
        return False
    return True


def test_what_was_replaced_is_journaled_before_and_kept_after(place: Place) -> None:
    journal: list[tuple[bytes, bytes]] = []

    def note(data: bytes) -> None:
        journal.append((data, place.file.read_bytes()))

    settle(place.shared(journal=note), 0.0)

    assert journal == [(OLD, OLD)]
    assert place.retained(".kept") == [OLD]
    assert place.retained(".held") == []
    assert place.retained(".intent") == []


def test_only_the_newest_few_replaced_versions_are_kept(place: Place) -> None:
    shared = place.shared()

    for n in range(KEPT_MAX + 3):
        place.file.write_bytes(dump({f"k{n}": {}}))
        settle(shared, 100.0 * n)
        settle(shared, 100.0 * n + 50)

    assert len(place.retained(".kept")) == KEPT_MAX
    assert dump({f"k{KEPT_MAX + 2}": {}}) in place.retained(".kept")
    assert dump({"k0": {}}) not in place.retained(".kept")


def test_without_a_place_to_keep_them_replaced_versions_stay_until_their_watch_is_over(
    place: Place,
) -> None:
    shared = place.shared(FileDoor(os.fsencode(place.root), b"cache.json", None))

    write(shared)
    watched = place.beside()
    settle(shared, 1.0)

    assert len(watched) == 1
    assert place.beside() == []


def test_replaced_versions_are_copied_where_the_place_to_keep_them_is_elsewhere(
    place: Place,
) -> None:
    elsewhere = _on_another_filesystem(place.root)
    try:
        place.retain = elsewhere
        shared = place.shared()

        write(shared)
        watched = place.beside()
        settle(shared, 1.0)

        assert len(watched) == 1
        assert place.beside() == []
        assert place.retained(".kept") == [OLD]
    finally:
        shutil.rmtree(elsewhere)


def _on_another_filesystem(path: Path) -> Path:
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == path.stat().st_dev:
        pytest.skip("there is no second filesystem here")
    return Path(tempfile.mkdtemp(dir=shm))


def test_a_missing_file_is_created_as_the_umask_says(place: Place) -> None:
    place.file.unlink()
    before = os.umask(0o027)
    try:
        settle(place.shared(plan=lambda present: b"{}" if present is None else None), 0.0)
    finally:
        os.umask(before)

    assert place.file.read_bytes() == b"{}"
    assert place.file.stat().st_mode & 0o777 == 0o640
    assert place.beside() == []


@pytest.mark.parametrize("call", ["rename", "link"])
def test_a_file_that_appears_is_never_overwritten(
    place: Place, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if call == "link":
        monkeypatch.setattr(syscalls, "_RENAME", None)
    place.file.unlink()
    door = place.door(lambda step: _appear(step, place))
    staged = door.stage(Present(None, b""), b"{}")

    with pytest.raises(Changed):
        door.create(staged)
    door.discard(staged)

    assert place.file.read_bytes() == THEIRS
    assert place.beside() == []


def _appear(step: str, place: Place) -> None:
    if step == "creating":
        place.file.write_bytes(THEIRS)


def test_a_file_is_created_where_renaming_cannot_promise_not_to_overwrite(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "_RENAME", None)
    place.file.unlink()
    door = place.door()
    staged = door.stage(Present(None, b""), b"{}")

    door.create(staged)
    door.discard(staged)

    assert place.file.read_bytes() == b"{}"
    assert place.file.stat().st_nlink == 1
    assert place.beside() == []


@pytest.mark.parametrize("odd", ["symlink", "dangling", "fifo", "directory"])
def test_what_takes_the_files_place_at_the_last_moment_is_put_back(place: Place, odd: str) -> None:
    target = place.root.parent / "target"
    target.write_bytes(OLD)

    def swap(step: str) -> None:
        if step != "exchanging":
            return
        place.file.unlink()
        if odd == "fifo":
            os.mkfifo(place.file)
        elif odd == "directory":
            place.file.mkdir()
        else:
            place.file.symlink_to(target if odd == "symlink" else "nothing")

    shared = place.shared(place.door(swap))

    write(shared)

    assert shared.blocked is not None
    assert not place.file.is_file() or place.file.is_symlink()
    assert target.read_bytes() == OLD
    assert place.beside() == []


def _hard_link(place: Place) -> None:
    (place.root / "other").hardlink_to(place.file)


def _symlinked(place: Place) -> None:
    place.file.rename(place.root / "real")
    place.file.symlink_to("real")


def _somebody_elses(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(place.file, 4321, -1)


def _a_directory(place: Place) -> None:
    place.file.unlink()
    place.file.mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_hard_link, "2 hard links"),
        (_symlinked, "a symlink"),
        (_somebody_elses, "belongs to user 4321"),
        (_a_directory, "a directory"),
        (lambda place: place.file.chmod(0o444), "read-only"),
    ],
)
def test_a_file_that_is_not_amends_to_replace_is_left_alone_and_reported(
    place: Place, spoil: Callable[[Place], None], words: str
) -> None:
    spoil(place)
    before = sorted(os.listdir(place.root))

    reason = why_not_writable(os.fsencode(place.root), b"cache.json")
    shared = place.shared()
    settle(shared, 0.0)

    assert words in (reason or "")
    assert words in (shared.blocked or "")
    assert shared.writes == 0
    assert sorted(os.listdir(place.root)) == before


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b".git/cache.json", "git directory"),
        (b"link/cache.json", "symlink"),
        (b"cache.json/x", "no directory"),
        (b"none/cache.json", "no such file"),
    ],
)
def test_a_path_that_amend_does_not_write_to_says_why(
    place: Place, path: bytes, words: str
) -> None:
    (place.root / "real").mkdir()
    (place.root / "link").symlink_to("real")

    assert words in (why_not_writable(os.fsencode(place.root), path) or "")


def test_an_ordinary_file_and_a_missing_one_may_be_written(place: Place) -> None:
    root = os.fsencode(place.root)

    assert why_not_writable(root, b"cache.json") is None
    assert why_not_writable(root, b"new.json") is None
    assert place.beside() == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_filesystem_that_cannot_exchange_is_not_written_to(
    place: Place, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir_fd: int, one: bytes, other: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(syscalls, "exchange", refuse)
    shared = place.shared()

    settle(shared, 0.0)

    assert "cannot exchange" in (shared.blocked or "")
    assert place.file.read_bytes() == OLD
    assert place.beside() == []


def test_a_file_too_large_to_be_shared_is_left_alone(place: Place) -> None:
    with place.file.open("r+b") as file:
        file.truncate(retained.SHARED_BYTES_MAX + 1)
    shared = place.shared()

    settle(shared, 0.0)

    assert "larger than" in (shared.blocked or "")
    assert shared.writes == 0


def test_a_write_through_a_descriptor_opened_before_is_merged(place: Place) -> None:
    shared = place.shared()
    with place.file.open("r+b") as old:
        write(shared)
        replaced = place.content()
        old.truncate(0)
        old.write(THEIRS)

    settle(shared, 1.2)

    assert replaced == {"a": {"stale": True}}
    assert set(place.content()) == {"a", "b"}
    assert shared.recovered == 1


STEPS: Final = (
    "staging",
    "opened",
    "written",
    "intended",
    "staged",
    "exchanging",
    "exchanged",
    "synced",
    "hidden",
)


@pytest.mark.parametrize("theirs", ["nothing", "by rename", "in place"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_file_is_whole_and_the_next_start_merges(
    place: Place, step: str, theirs: str
) -> None:
    def at(reached: str) -> None:
        if reached == "exchanging" and theirs == "by rename":
            place.replace_by_rename(THEIRS)
        if reached == "exchanging" and theirs == "in place":
            place.file.write_bytes(THEIRS)
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        write(place.shared(place.door(at)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    left = place.file.read_bytes()
    written = STEPS.index(step) >= STEPS.index("exchanging") and theirs != "nothing"

    shared = place.shared()
    shared.recover_leftovers()
    settle(shared, 0.0)
    settle(shared, LATE_S)

    assert os.WTERMSIG(status) == signal.SIGKILL
    assert left in (OLD, THEIRS, mark(OLD))
    assert set(place.content()) == ({"a", "b"} if written else {"a"})
    assert all(entry == {"stale": True} for entry in place.content().values())
    assert place.beside() == []
    assert place.retained(".held") == []
    assert place.retained(".intent") == []
    assert place.retained(".unmerged") == []


def test_an_edit_that_a_killed_amend_had_displaced_wins_over_what_it_was_made_from(
    place: Place,
) -> None:
    place.file.write_bytes(b'{"a":{"v":1},"gone":{}}')

    def at(reached: str) -> None:
        if reached == "exchanging":
            place.replace_by_rename(b'{"a":{"v":2}}')
        if reached == "hidden":
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        write(place.shared(place.door(at)))
        os._exit(0)
    os.waitpid(child, 0)
    left = place.content()
    place.replace_by_rename(dump(left | {"c": {}}))  # written by somebody who saw only ours

    shared = place.shared()
    shared.recover_leftovers()
    settle(shared, 0.0)
    settle(shared, LATE_S)

    assert left["a"]["v"] == 1
    assert {key: entry.get("v") for key, entry in place.content().items()} == {"a": 2, "c": None}


def test_what_killed_amends_left_is_taken_up_in_the_order_in_which_it_was_displaced(
    place: Place,
) -> None:
    for n in range(5):
        door = place.door()
        held, _ = door.exchange(door.stage(door.read(), dump({f"k{n}": {}})))
        held.close()

    left = place.door().leftovers()

    read = [each.read() for each in left]
    for each in left:
        each.close()
    assert read == [OLD, *(dump({f"k{n}": {}}) for n in range(4))]


class FailingOs:
    """`os`, whose n-th call that touches the disk fails. Closing always works."""

    CALLS: Final = (
        *("open", "read", "write", "fsync", "rename", "unlink", "link", "readlink", "lseek", "dup"),
        *("stat", "lstat", "fstat", "fstatvfs", "access", "fchmod", "fchown"),
        *("listxattr", "getxattr", "setxattr", "listdir", "scandir", "makedirs"),
    )

    def __init__(self, number: int) -> None:
        self.fails_at = -1
        self.calls = 0
        self._number = number

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return self.guarded(found) if name in self.CALLS else found

    def guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*words: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls == self.fails_at:
                raise OSError(self._number, os.strerror(self._number))
            return call(*words, **more)

        return guard


@pytest.mark.parametrize(
    ("number", "theirs"),
    [(errno.ENOSPC, "nothing"), (errno.EIO, "by rename"), (errno.EMFILE, "in place")],
)
def test_whichever_call_fails_the_file_is_whole_and_nothing_is_lost(
    tmp_path: Path, number: int, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingOs(number)
    for module in (beneath, exchange, retained):
        monkeypatch.setattr(module, "os", failing)
    for call in ("exchange", "open_without_links"):
        monkeypatch.setattr(syscalls, call, failing.guarded(getattr(syscalls, call)))
    n, reached = 0, True

    while reached:
        n += 1
        directory = tmp_path / str(n)
        directory.mkdir()
        place = Place(directory)
        failing.calls, failing.fails_at = 0, n

        reached = _survives_a_failure(place, failing, theirs)

    assert n > 40  # as many calls as a write makes, at the least


def _survives_a_failure(place: Place, failing: FailingOs, theirs: str) -> bool:
    """Whether the failure happened at all."""
    interfered = False

    def at(reached: str) -> None:
        nonlocal interfered
        if reached == "exchanging" and not interfered and theirs != "nothing":
            interfered = True
            if theirs == "by rename":
                place.replace_by_rename(THEIRS)
            else:
                place.file.write_bytes(THEIRS)

    shared = place.shared(place.door(at))
    try:
        shared.noticed(0.0)
    except OSError:
        shared.noticed(0.0)
    write(shared)
    assert place.file.read_bytes() in (OLD, THEIRS, mark(OLD), mark(THEIRS)), "torn, or lost"
    settle(shared, 1.0)
    settle(shared, LATE_S)
    happened = failing.calls >= failing.fails_at
    failing.fails_at = -1
    shared.recover_leftovers()  # as a new start does: a file that could not be removed goes then
    settle(shared, 2 * LATE_S)

    assert set(place.content()) == ({"a", "b"} if interfered else {"a"})
    assert all(entry == {"stale": True} for entry in place.content().values())
    assert place.beside() == []
    assert place.retained(".held") == []
    assert place.retained(".intent") == []
    assert shared.blocked is None
    return happened


def test_reading_a_target_that_is_a_symlink_is_refused(place: Place) -> None:
    _symlinked(place)

    with pytest.raises(Refused, match="symlink"):
        place.door().read()


def test_closing_lets_go_of_every_descriptor_and_the_next_start_takes_over(place: Place) -> None:
    shared = place.shared()
    with place.file.open("r+b") as old:
        write(shared)
        shared.close()
        old.truncate(0)
        old.write(THEIRS)

    again = place.shared()
    again.recover_leftovers()
    settle(again, 0.0)
    settle(again, LATE_S)

    assert set(place.content()) == {"a", "b"}
    assert place.retained(".held") == []
