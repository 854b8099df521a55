"""What `/metrics` tells is what was counted, over all worktrees."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.core.metrics import Counter, Histogram
from amend.daemon.figures import hooks_text, prometheus_text
from amend.daemon.tending import Options, Tending
from amend.edge.serve.hook_exchange import Tally, TimelyExchange
from amend.edge.serve.limits import HookStats, Stats
from amend.edge.store import Store
from tests.conftest import Repository


@pytest.fixture
def tending(git: Callable[..., Repository], tmp_path: Path) -> Iterator[Tending]:
    """Two repositories and a directory that git knows nothing of."""
    store = Store(":memory:")
    made = Tending(store, None, None, Options(), inline_bytes_max=None)
    (tmp_path / "plain").mkdir()
    for root in (git("one").root, git("two").root, tmp_path / "plain"):
        made.add(os.fsencode(root))
    yield made
    store.close()


def values(tending: Tending, connections: Stats | None = None) -> dict[str, str]:
    text = prometheus_text(tending, Counter(), Histogram(), connections or Stats())
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def test_what_became_of_displaced_versions_is_told(tending: Tending) -> None:
    for worktree in tending.worktrees.values():
        worktree.cache_file.shared.reasserted += 2
        worktree.cache_file.shared.unmerged += 1

    told = values(tending)

    assert told["amend_file_reasserted_total"] == "6"
    assert told["amend_file_unmerged_total"] == "3"


def test_what_git_was_asked_and_did_not_answer_in_time_is_told(tending: Tending) -> None:
    tallies = [w.places.tally for w in tending.worktrees.values() if w.places is not None]
    before = values(tending)
    for tally in tallies:
        tally.commands += 5
        tally.timeouts += 1

    told = values(tending)

    assert len(tallies) == 2
    assert int(told["amend_git_commands_total"]) - int(before["amend_git_commands_total"]) == 10
    assert (before["amend_git_timeouts_total"], told["amend_git_timeouts_total"]) == ("0", "2")


def test_requests_that_reached_no_route_are_told(tending: Tending) -> None:
    told = values(tending, Stats(rejected=4, timeouts=3))

    assert (told["amend_rejected_total"], told["amend_timeouts_total"]) == ("4", "3")


def test_every_count_of_a_connection_or_a_cache_file_has_a_figure(tending: Tending) -> None:
    stats = Stats()
    numbers = iter(range(1_000_001, 1_000_100))
    counted = []
    for name in Stats.__slots__:
        counted.append(next(numbers))
        setattr(stats, name, counted[-1])
    shared = next(iter(tending.worktrees.values())).cache_file.shared
    for name, value in vars(shared).items():
        if type(value) is int and not name.startswith("_"):
            counted.append(next(numbers))
            setattr(shared, name, counted[-1])

    told = values(tending, stats).values()

    assert len(counted) == 10
    assert {str(number) for number in counted} <= set(told)


async def nothing(agent: str, body: bytes) -> bytes:
    return b""


def test_every_count_of_hooks_has_a_figure() -> None:
    stats, tally = HookStats(), Tally()
    numbers = iter(range(1, 100))
    for counts in (stats, tally):
        for name in counts.__slots__:
            setattr(counts, name, next(numbers))

    hooks = TimelyExchange(nothing, ("claude",), on_bug=lambda error: "")
    hooks.tallies["claude"] = tally
    hooks.seconds.observe(0.002, agent="claude")

    text = hooks_text(hooks, stats)

    lines = [line for line in text.splitlines() if line[0] != "#" and "_seconds_" not in line]
    told = [line.rpartition(" ")[2] for line in lines]
    assert sorted(told) == sorted(str(n) for n in range(1, next(numbers)))
    assert 'amend_hook_exchanges_total{agent="claude",outcome="told"}' in text
    assert 'amend_hook_seconds_count{agent="claude"} 1' in text
