"""A configuration that is saved by emptying its file first is never taken for none."""

import os
from pathlib import Path
from typing import Any, cast

import pytest

from amend.core.policy import OnStale
from amend.daemon import run
from amend.daemon.answers import Answers
from amend.daemon.run import Daemon
from amend.daemon.tending import Options, Tending
from amend.edge.store import Store
from tests.integration.serve_fakes import until

OBSERVE = '[policy]\non_stale = "observe"\n'


@pytest.fixture
def config() -> Path:
    return Path(os.environ["AMEND_CONFIG"])


class Reloading:
    """A daemon that serves nobody, and what it applies."""

    def __init__(self) -> None:
        store = Store(":memory:")
        self.tending = Tending(store, None, None, Options(), inline_bytes_max=None)
        self.answers = Answers(self.tending, "0")
        self.daemon = Daemon(os.environ)
        self.applied: list[OnStale] = []
        self.tending.apply_options = cast("Any", self._apply)  # type: ignore[method-assign]

    def _apply(self, options: Options) -> None:
        self.applied.append(options.on_stale)

    def reload(self) -> None:
        self.daemon._reload(self.tending, self.answers)


async def test_what_is_half_saved_is_waited_for(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SAVE_S", 0.01)
    reloading = Reloading()
    config.write_text(OBSERVE)
    reloading.reload()

    config.write_text("")
    reloading.reload()
    config.write_text('[policy]\non_stale = "evict"\n')
    await until(lambda: len(reloading.applied) == 2)

    assert reloading.applied == [OnStale.OBSERVE, OnStale.EVICT]


async def test_what_stays_empty_says_nothing_any_more(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SAVE_S", 0.01)
    reloading = Reloading()
    config.write_text(OBSERVE)
    reloading.reload()

    config.write_text("")
    reloading.reload()
    at_once = list(reloading.applied)
    await until(lambda: len(reloading.applied) == 2)

    assert at_once == [OnStale.OBSERVE]
    assert reloading.applied == [OnStale.OBSERVE, OnStale.MARK]


def test_a_new_configuration_reaches_the_hooks(config: Path) -> None:
    reloading = Reloading()
    config.write_text('[hooks]\nexplore = "off"\nexplorers = ["scout"]\n')

    reloading.reload()

    settings = reloading.daemon._hook_settings()
    assert (settings.explore.value, settings.explorers) == ("off", frozenset({"scout"}))
