"""`SharedFile` against a filesystem in memory, with another writer's steps between amend's.

The other writer ("agent") reads, thinks and writes: by rename, in place in two halves, or after
comparing. Its steps, and a kill of amend, fall where the example says: before every call that amend
makes to the filesystem; so does the failure of that call.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amend.edge.files.exchange import Changed, Held, Present, Staged
from amend.edge.files.shared import INVALID_S, RETRY_S_MAX, SharedFile
from tests.integration.shared_file_stress import Document, dump, mark, merge, parse


class Killed(BaseException):
    """amend's process ends here."""


@dataclass(eq=False)
class Inode:
    data: bytes
    writes: int = 0

    def write(self, data: bytes) -> None:
        self.data = data
        self.writes += 1

    def key(self) -> bytes:
        return b"%d.%d" % (id(self), self.writes)


@dataclass
class MemoryStaged:
    new: bytes
    present: Present


@dataclass(eq=False)
class MemoryHeld:
    world: "World"
    inode: Inode
    base: bytes | None
    ours: bytes | None
    in_place: bool = True
    live: bool = True  # somebody watches it

    def knows(self, content: bytes) -> bool:
        return content in (self.base, self.ours)

    def key(self) -> bytes:
        self.world.tick("held.key")
        return self.inode.key()

    def read(self) -> bytes:
        self.world.tick("held.read")
        return self.inode.data

    def release(self, *, merged: bool) -> None:
        self.world.held.remove(self)
        if not merged:
            self.world.unmerged.append(self.inode.data)

    def close(self) -> None:
        self.live = False


@dataclass
class World:
    """The filesystem door of one target in memory. `between` runs before each call."""

    target: Inode | None = None
    between: Callable[[str], None] = lambda step: None
    refusal: str | None = None
    held: list[MemoryHeld] = field(default_factory=list)
    unmerged: list[bytes] = field(default_factory=list)
    staged: list[bytes] = field(default_factory=list)
    inodes: list[Inode] = field(default_factory=list)

    def tick(self, step: str) -> None:
        self.between(step)

    def put(self, data: bytes) -> Inode:
        """As a rename does."""
        self.target = Inode(data)
        self.inodes.append(self.target)  # keeps its id from being used again
        return self.target

    def key(self) -> bytes:
        self.tick("key")
        return self.target.key() if self.target is not None else b""

    def read(self) -> Present:
        self.tick("read")
        return Present(self.target.data, self.target.key()) if self.target else Present(None, b"")

    def why_not_writable(self) -> str | None:
        return self.refusal

    def stage(self, present: Present, new: bytes) -> MemoryStaged:
        self.tick("stage")
        parse(new)
        self.staged.append(new)
        return MemoryStaged(new, present)

    def exchange(self, staged: Staged) -> tuple[MemoryHeld, bytes]:
        assert isinstance(staged, MemoryStaged)
        self.tick("exchange")
        if self.target is None:
            raise Changed
        displaced = self.target
        base = staged.present.data
        held = MemoryHeld(self, displaced, base, staged.new)
        held.in_place = displaced.key().split(b".")[0] == staged.present.key.split(b".")[0]
        self.held.append(held)
        key = self.put(staged.new).key()
        try:
            self.tick("exchanged")
        except OSError:
            held.close()
            raise
        return held, key

    def create(self, staged: Staged) -> bytes:
        assert isinstance(staged, MemoryStaged)
        self.tick("create")
        if self.target is not None:
            raise Changed
        return self.put(staged.new).key()

    def discard(self, staged: Staged) -> None:
        pass

    def leftovers(self) -> list[Held]:
        left = [held for held in self.held if not held.live]
        for held in left:
            held.in_place = held.live = True
        return list(left)


def shared_file(
    world: World, *, quiet_s: float = 1.0, plan: Callable[[bytes | None], bytes | None] = mark
) -> SharedFile:
    return SharedFile(
        b"/nowhere",
        b"cache",
        retain_dir=None,
        plan=plan,
        merge=merge,
        journal=lambda data: None,
        quiet_s=quiet_s,
        door=world,
    )


def settle(shared: SharedFile, now_s: float = 0.0) -> float:
    """Step until there is nothing to do; returns when that was."""
    for _ in range(2000):
        due_s = shared.step(now_s)
        if due_s is None:
            return now_s
        now_s = max(due_s, now_s)
    raise AssertionError("it never comes to rest")


def meanwhile(world: World, step: str, action: Callable[[], object]) -> None:
    """Do something once, just before amend's next call of this name."""

    def interfere(at: str) -> None:
        if at == step:
            world.between = lambda step: None
            action()

    world.between = interfere


def content(world: World) -> Document:
    assert world.target is not None
    return parse(world.target.data)


def test_a_quiet_file_is_written_once_and_then_left_alone() -> None:
    world = World()
    world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)

    settle(shared)
    shared.request(10.0)
    settle(shared, 10.0)

    assert content(world) == {"a": {"stale": True}}
    assert shared.writes == 1


def test_nothing_is_written_before_the_file_has_been_quiet() -> None:
    world = World()
    world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    world.put(b'{"a": {}, "b": {}}')
    shared.noticed(0.9)

    early_due_s = shared.step(1.5)
    written_early = shared.writes
    due_s = shared.step(1.9)

    assert (early_due_s, written_early) == (1.9, 0)
    assert due_s is not None
    assert shared.writes == 1


def test_its_own_write_does_not_start_the_quiet_time_again() -> None:
    world = World()
    world.put(b"{}")
    wanted = b'{"one": {}}'
    shared = shared_file(world, plan=lambda present: wanted)
    shared.request(0.0)
    shared.step(0.0)
    shared.step(1.0)

    shared.noticed(1.1)
    wanted = b'{"two": {}}'
    shared.request(1.2)
    shared.step(1.2)

    assert content(world) == {"two": {}}


def test_a_file_that_needs_nothing_costs_no_write_and_no_wakeup() -> None:
    world = World()
    world.put(b'{"a": {"stale": true}}')
    shared = shared_file(world)
    shared.request(0.0)

    settle(shared)

    assert shared.writes == 0
    assert shared.step(100.0) is None


def test_a_missing_file_is_created_only_when_the_plan_wants_one() -> None:
    world = World()
    unwanted, wanted = shared_file(world), shared_file(world, plan=lambda present: b"{}")

    unwanted.request(0.0)
    settle(unwanted)
    absent = world.target is None
    wanted.request(0.0)
    settle(wanted)

    assert absent
    assert content(world) == {}


def test_a_file_that_appears_while_one_is_created_is_not_overwritten() -> None:
    world = World()
    shared = shared_file(world, plan=lambda present: mark(present) if present else b'{"ours": {}}')
    shared.request(0.0)
    meanwhile(world, "create", lambda: world.put(b'{"theirs": {}}'))

    settle(shared)

    assert content(world) == {"theirs": {"stale": True}}
    assert shared.conflicts == 1


@pytest.mark.parametrize("by", ["rename", "in place"])
@pytest.mark.parametrize("step", ["key", "read", "stage", "exchange", "held.key", "held.read"])
def test_a_write_of_somebody_else_at_any_step_is_in_the_file_afterwards(step: str, by: str) -> None:
    world = World()
    original = world.put(b'{"a": {}}')
    theirs = b'{"a": {"stale": true}, "b": {}}'
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    write = original.write if by == "in place" else world.put
    meanwhile(world, step, lambda: write(theirs))

    settle(shared, 1.0)

    assert set(content(world)) == {"a", "b"}


def test_a_late_write_through_an_old_descriptor_is_merged() -> None:
    world = World()
    old = world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    shared.step(1.0)
    old.write(b"")  # truncated: torn for a while
    shared.step(1.3)
    old.write(b'{"a": {}, "late": {}}')

    settle(shared, 2.0)

    assert "late" in content(world)
    assert shared.recovered == 1


def test_a_recovered_entry_is_put_back_when_an_old_view_is_written_over_it() -> None:
    world = World()
    world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    meanwhile(world, "exchange", lambda: world.put(b'{"a": {}, "b": {}}'))
    shared.step(1.0)
    recovered_at_once = set(content(world))
    world.put(b'{"a": {"stale": true}, "c": {}}')  # read in between, without b

    settle(shared, 1.5)

    assert recovered_at_once == {"a", "b"}
    assert set(content(world)) == {"a", "b", "c"}
    assert shared.reasserted == 1


def test_a_newer_edit_of_a_recovered_entry_is_not_undone() -> None:
    world = World()
    world.put(b'{"a": {"v": 0}}')
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    meanwhile(world, "exchange", lambda: world.put(b'{"a": {"v": 1}}'))
    shared.step(1.0)
    recovered = content(world)["a"]["v"]
    world.put(b'{"a": {"v": 2}}')

    settle(shared, 1.2)

    assert recovered == 1
    assert content(world)["a"]["v"] == 2


def test_a_version_written_from_an_old_view_does_not_undo_an_older_recovery() -> None:
    world = World()
    old = world.put(b'{"a": {}}')
    shared = shared_file(world, quiet_s=0.0)
    shared.request(0.0)
    shared.step(0.0)
    old.write(b'{"a": {}, "late": {}}')
    shared.step(0.1)
    world.put(dump(content(world) | {"y": {}}))
    shared.request(0.2)
    meanwhile(world, "exchange", lambda: world.put(b'{"a": {}, "old view": {}}'))
    shared.step(0.2)
    old.write(b'{"a": {}, "late": {}, "later": {}}')  # recovered last, displaced first

    settle(shared, 0.3)

    assert set(content(world)) == {"a", "late", "later", "old view"}


def test_a_file_that_cannot_be_parsed_is_reported_and_never_written() -> None:
    world = World()
    world.put(b'{"a": ')
    shared = shared_file(world)
    shared.request(0.0)

    now_s = settle(shared)

    assert now_s == pytest.approx(1.0 + INVALID_S)
    assert shared.writes == 0
    assert shared.blocked is not None
    assert world.target is not None
    assert world.target.data == b'{"a": '


def test_a_file_that_can_be_parsed_again_is_written_again() -> None:
    world = World()
    torn = world.put(b'{"a": ')
    shared = shared_file(world)
    shared.request(0.0)
    now_s = settle(shared)
    torn.write(b'{"a": {}}')

    shared.noticed(now_s + 1)
    settle(shared, now_s + 1)

    assert shared.blocked is None
    assert content(world) == {"a": {"stale": True}}


def test_a_displaced_version_that_stays_torn_is_kept_and_reported() -> None:
    world = World()
    old = world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    shared.step(1.0)
    old.write(b'{"a": {}, "la')

    settle(shared, 1.1)

    assert world.unmerged == [b'{"a": {}, "la']
    assert shared.last_error is not None


def test_a_refusal_blocks_until_something_changes() -> None:
    world = World(refusal="it has 2 hard links")
    world.put(b'{"a": {}}')
    shared = shared_file(world)
    shared.request(0.0)
    settle(shared)
    blocked, due_s = shared.blocked, shared.step(50.0)
    world.refusal = None

    shared.request(60.0)
    settle(shared, 60.0)

    assert (blocked, due_s) == ("it has 2 hard links", None)
    assert shared.blocked is None
    assert shared.writes == 1


def test_a_full_disk_is_retried_ever_more_seldom() -> None:
    world = World()
    world.put(b'{"a": {}}')
    full = True

    def fail(step: str) -> None:
        if full and step == "stage":
            raise OSError(errno.ENOSPC, "No space left on device")

    world.between = fail
    shared = shared_file(world)
    shared.request(0.0)
    shared.step(0.0)
    first_s = shared.step(1.0)
    assert first_s is not None
    second_s = shared.step(first_s)
    assert second_s is not None
    error = shared.last_error
    full = False

    settle(shared, second_s)

    assert second_s - first_s > first_s - 1.0
    assert error == "no space left on device"
    assert content(world) == {"a": {"stale": True}}


class Agent:
    """A writer that knows nothing of amend: reads all, changes a key, writes all."""

    def __init__(self, world: World, modes: Iterator[str]) -> None:
        self.world = world
        self.written: dict[str, int] = {}
        self._modes = modes
        self._n = 0
        self._steps = self._life()

    def step(self) -> None:
        next(self._steps)

    def rest(self) -> None:
        """Finish what was begun."""
        while next(self._steps) != "idle":
            pass

    def _life(self) -> Iterator[str]:
        while True:
            mode = next(self._modes, "rename")
            yield "idle"
            assert self.world.target is not None
            read = self.world.target.data
            document = parse(read)  # amend never lets anybody see a torn file
            self._n += 1
            key = f"k{self._n % 7}"
            document[key] = {"v": self._n}
            yield "read"
            if mode == "compare" and self.world.target.data != read:
                continue
            data = dump(document)
            if mode == "in place":
                opened = self.world.target
                yield "opened"
                opened.write(b"")
                yield "truncated"
                opened.write(data[: len(data) // 2])
                yield "half"
                opened.write(data)
            else:
                self.world.put(data)
            self.written[key] = self._n


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.integers(0, 3), max_size=120),
    pauses=st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.3]), min_size=1, max_size=40),
    modes=st.lists(st.sampled_from(["rename", "in place", "compare"]), max_size=30),
    kills=st.sets(st.integers(0, 150), max_size=2),
    failures=st.sets(st.integers(0, 150), max_size=4),
    quiet_s=st.sampled_from([0.0, 0.0, 0.2]),
)
def test_no_interleaving_loses_a_key_or_shows_a_torn_file_and_marks_arrive(
    *,
    steps: list[int],
    pauses: list[float],
    modes: list[str],
    kills: set[int],
    failures: set[int],
    quiet_s: float,
) -> None:
    world = World()
    world.put(b"{}")
    agent = Agent(world, iter(modes))
    schedule = iter(steps)
    ticks = 0

    def between(step: str) -> None:
        nonlocal ticks
        ticks += 1
        if ticks in kills:
            raise Killed
        if ticks in failures and step != "key":  # which the real door answers without raising
            raise OSError(errno.EIO, "Input/output error")
        for _ in range(next(schedule, 0)):
            agent.step()

    world.between = between
    shared = shared_file(world, quiet_s=quiet_s)
    now_s = 0.0

    for pause_s in pauses:
        now_s += pause_s
        agent.step()
        try:
            shared.noticed(now_s)
            shared.request(now_s)
            shared.step(now_s)
        except Killed:
            shared.close()
            for held in world.held:
                held.close()
            shared = shared_file(world, quiet_s=quiet_s)
            shared.recover_leftovers()
    world.between = lambda step: None
    agent.rest()
    now_s = settle(shared, now_s)
    shared.request(now_s)
    settle(shared, now_s + RETRY_S_MAX)

    final = content(world)
    assert {key: entry["v"] for key, entry in final.items()} == agent.written
    assert all(entry.get("stale") for entry in final.values())
    assert world.held == []
    assert world.unmerged == []
