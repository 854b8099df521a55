"""When the watchdog pings, when it does not, and when it cannot tell."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amend.daemon.logs import Log
from amend.daemon.watchdog import NAME, ROOT, Watchdog
from amend.edge.service_notify import Notifier
from amend.edge.watch.watcher import Watcher

# Far beyond what a watch needs; what is silent costs a test a fraction of it.
INTERVAL_S = 0.02
WAIT_S = 10.0


class Pings(Notifier):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.came = asyncio.Event()

    def alive(self) -> None:
        self.count += 1
        self.came.set()

    async def next(self) -> None:
        self.came.clear()
        await asyncio.wait_for(self.came.wait(), WAIT_S)


class Kennel:
    """A watchdog in a state directory, on a real watch that delivers as the daemon's does."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.log_path = state.parent / "log"
        self._log_file = self.log_path.open("wb")
        self.watch = Watcher()
        self.pings = Pings()
        self.is_deaf = False
        log = Log(fd=self._log_file.fileno())
        self.dog = Watchdog(self.watch, self.pings, state, INTERVAL_S, log)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self.dog.run())
        self.watch.start(loop, self._touched)

    def _touched(self, keys: set[Any]) -> None:
        if not self.is_deaf:
            for key in keys:
                key.changed()

    def events(self) -> list[str]:
        return [json.loads(line)["event.name"] for line in self.log_path.read_text().splitlines()]

    def withheld(self) -> int:
        """How often that was told and not yet taken back."""
        events = self.events()
        return events.count("watchdog_withheld") - events.count("watchdog_resumed")

    async def until_withheld(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while not self.withheld():  # noqa: ASYNC110  (a log file tells nobody)
                await asyncio.sleep(0.001)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.watch.close()
        self._log_file.close()


@pytest.fixture
async def kennel(tmp_path: Path) -> Any:
    state = tmp_path / "state"
    state.mkdir()
    made = Kennel(state)
    yield made
    await made.stop()


async def test_it_pings_while_its_file_comes_back_through_the_watch(kennel: Kennel) -> None:
    kennel.start()

    await kennel.pings.next()
    await kennel.pings.next()

    assert (kennel.state / ROOT / NAME.decode()).stat().st_mode & 0o777 == 0o600
    assert kennel.withheld() == 0


async def test_a_watch_that_delivers_nothing_stops_it_and_is_told_once(kennel: Kennel) -> None:
    kennel.start()
    await kennel.pings.next()

    kennel.is_deaf = True
    await kennel.until_withheld()
    before = kennel.pings.count
    await asyncio.sleep(5 * INTERVAL_S)
    during, told = kennel.pings.count, kennel.withheld()
    kennel.is_deaf = False
    await kennel.pings.next()

    assert during == before
    assert (told, kennel.withheld()) == (1, 0)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Watchdog, "_write", refuse)


def no_watch_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "unwatched_keys", lambda self: _Everything())


class _Everything(set[Any]):
    def __contains__(self, _: object) -> bool:
        return True


@pytest.mark.parametrize("trouble", [full_disk, no_watch_left])
async def test_where_the_test_cannot_be_made_the_loop_is_proof_enough(
    kennel: Kennel,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[pytest.MonkeyPatch], None],
) -> None:
    trouble(monkeypatch)
    kennel.is_deaf = True
    kennel.start()

    for _ in range(3):
        await kennel.pings.next()

    assert kennel.events() == ["watchdog_untested"]


async def test_a_state_directory_that_was_emptied_is_made_again(kennel: Kennel) -> None:
    kennel.start()
    await kennel.pings.next()
    (kennel.state / ROOT / NAME.decode()).unlink()
    (kennel.state / ROOT).rmdir()
    (kennel.state / ROOT).parent.rmdir()

    for _ in range(3):
        await kennel.pings.next()

    assert (kennel.state / ROOT / NAME.decode()).exists()
