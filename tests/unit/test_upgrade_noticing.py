"""When another amend counts as installed, and when it is left alone."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amend.daemon import upgrade
from amend.daemon.logs import Log
from amend.daemon.upgrade import (
    EDITED_QUIET_S,
    QUIET_S,
    RETRY_S,
    RETRY_S_MAX,
    Installation,
    NotReady,
    Successor,
    Upgrade,
    successor_of,
    this_installation,
)
from amend.edge.store import SCHEMA_VERSION

NEXT = Successor("2.0", SCHEMA_VERSION)


def record(site: Path, version: str, text: str = "") -> None:
    """As an installer writes it: beside, and then renamed."""
    directory = site / f"amend_daemon-{version}.dist-info"
    directory.mkdir(exist_ok=True)
    (directory / "new").write_text(text or version)
    (directory / "new").rename(directory / "RECORD")


def unrecord(site: Path, version: str) -> None:
    directory = site / f"amend_daemon-{version}.dist-info"
    (directory / "RECORD").unlink()
    directory.rmdir()


class Watched:
    """An upgrade that is waited for, with a probe that says what the test wants."""

    def __init__(self, installation: Installation, log_path: Path) -> None:
        self.now_s = 0.0
        self.log_path = log_path
        self.answers: list[Successor | NotReady] = []
        self.probed = 0
        self._log_file = log_path.open("wb")
        self.upgrade = Upgrade(
            installation,
            Log(fd=self._log_file.fileno()),
            probe=self._probe,
            now_s=lambda: self.now_s,
            quiet_s=0,
        )
        self.waiting = asyncio.get_running_loop().create_task(self.upgrade.wait())

    async def _probe(self) -> Successor:
        self.probed += 1
        answer = self.answers.pop(0)
        if isinstance(answer, NotReady):
            raise answer
        return answer

    async def tick(self, after_s: float = 10.0) -> Successor | None:
        """What has been found by the time that all of it was dealt with."""
        self.now_s += after_s
        self.upgrade.tick()
        for _ in range(10):  # far more turns than it takes
            await asyncio.sleep(0)
        return self.waiting.result() if self.waiting.done() else None

    def events(self) -> list[str]:
        return [json.loads(line)["event.name"] for line in self.log_path.read_text().splitlines()]

    async def close(self) -> None:
        self.waiting.cancel()
        await asyncio.gather(self.waiting, return_exceptions=True)
        self._log_file.close()


@pytest.fixture
async def watched(tmp_path: Path) -> Any:
    site = tmp_path / "site"
    site.mkdir()
    record(site, "1.0")
    made = Watched(Installation(site, None), tmp_path / "log")
    yield made
    await made.close()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


async def test_as_long_as_nothing_is_installed_nothing_is_run(watched: Watched) -> None:
    found = [await watched.tick() for _ in range(5)]

    assert (found, watched.probed) == ([None] * 5, 0)


async def test_another_version_takes_over(watched: Watched, site: Path) -> None:
    watched.answers = [NEXT]
    unrecord(site, "1.0")
    record(site, "2.0")

    assert await watched.tick() == NEXT


async def test_the_same_version_installed_again_takes_over(watched: Watched, site: Path) -> None:
    watched.answers = [NEXT]
    record(site, "1.0")

    assert await watched.tick() == NEXT


async def test_an_amend_that_is_removed_goes_on_and_so_does_one_that_comes_back(
    watched: Watched, site: Path
) -> None:
    away = site.parent / "away"
    (site / "amend_daemon-1.0.dist-info").rename(away)  # as pip keeps it until all has gone well

    without = await watched.tick()
    away.rename(site / "amend_daemon-1.0.dist-info")
    back = await watched.tick()

    assert (without, back, watched.probed) == (None, None, 0)


async def test_what_still_changes_is_waited_for(
    watched: Watched, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.answers = [NEXT]
    left = iter(["2.0", "2.1", "2.2"])
    sleep = asyncio.sleep

    async def installing(seconds: float) -> None:
        version = next(left, None)
        if version is not None:
            record(site, version)
        await sleep(seconds)

    monkeypatch.setattr(upgrade.asyncio, "sleep", installing)
    watched.upgrade.tick()
    record(site, "1.1")
    watched.upgrade.tick()
    found = await watched.waiting

    assert found == NEXT
    assert (watched.probed, next(left, None)) == (1, None)


async def test_what_cannot_start_is_tried_again_ever_later(watched: Watched, site: Path) -> None:
    watched.answers = [NotReady("no module named b"), NotReady("no module named b"), NEXT]
    record(site, "2.0")

    assert await watched.tick() is None
    assert await watched.tick(RETRY_S / 2) is None
    assert watched.probed == 1
    assert await watched.tick(RETRY_S / 2) is None
    assert watched.probed == 2
    assert await watched.tick(RETRY_S) is None
    assert watched.probed == 2
    assert await watched.tick(RETRY_S_MAX) == NEXT
    assert watched.events().count("upgrade_unusable") >= 1


async def test_another_one_is_tried_at_once(watched: Watched, site: Path) -> None:
    watched.answers = [NotReady("no module named b"), NEXT]
    record(site, "2.0")

    assert await watched.tick() is None
    record(site, "2.0", "whole")

    assert await watched.tick(0) == NEXT


# -- what counts -----------------------------------------------------------------------------------


def _edit(path: Path) -> None:
    path.write_text("more = 1\n")


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda root: _edit(root / "amend/a.py"), True),
        (lambda root: _edit(root / "amend/deep/new.py"), True),
        (lambda root: (root / "amend/a.py").unlink(), True),
        (lambda root: _edit(root / "amend/ui.css"), False),
        (lambda root: _edit(root / "amend/deep/b.pyc"), False),
        (lambda root: record(root, "1.0"), True),
    ],
)
def test_of_an_editable_installation_sources_count_too(
    tmp_path: Path, change: Callable[[Path], None], counts: bool
) -> None:
    (tmp_path / "amend/deep").mkdir(parents=True)
    for name in ("a.py", "deep/b.py"):
        (tmp_path / "amend" / name).write_text("")
    record(tmp_path, "1.0")
    installation = Installation(tmp_path, tmp_path / "amend")
    before = installation.stamp()

    change(tmp_path)

    assert (installation.stamp() != before) == counts


def test_this_checkout_is_edited_and_waits_longer_than_a_wheel_does() -> None:
    found = this_installation()

    assert found is not None
    assert found.stamp()
    assert found.quiet_s == EDITED_QUIET_S > QUIET_S


# -- what the other one says -----------------------------------------------------------------------


@pytest.mark.parametrize("answer", [b"", b"amend 2.0", b"[]", b'{"version": "2.0"}', b"\xff"])
def test_what_says_nothing_of_itself_is_not_ready(answer: bytes) -> None:
    with pytest.raises(NotReady, match="does not say what it is"):
        successor_of(answer)


def test_one_with_an_older_store_is_not_ready() -> None:
    said = {"version": "0.0", "schema": SCHEMA_VERSION - 1}

    with pytest.raises(NotReady, match=r"version 0\.0 knows the store's schema"):
        successor_of(json.dumps(said).encode())


async def test_this_amend_is_ready_itself() -> None:
    found = await upgrade.probe()

    assert found.schema == SCHEMA_VERSION


async def test_one_that_does_not_take_the_configuration_is_not_ready() -> None:
    Path(os.environ["AMEND_CONFIG"]).write_text("[daemon]\nlog_level = 'loud'\n")

    with pytest.raises(NotReady, match="log_level"):
        await upgrade.probe()
