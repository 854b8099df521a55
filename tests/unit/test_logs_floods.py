"""What repeats in the log becomes one line, and nothing that was counted is lost."""

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.daemon.log_events import WINDOW_S, Event, Fact, Role
from amend.daemon.log_floods import KINDS_MAX, SUPPRESSED, Floods
from amend.daemon.logs import Log

FLOODED = Event(
    "flooded",
    "info",
    "",
    (
        Fact("repo", str, "", Role.BY),
        Fact("count", int, "", Role.SUM),
        Fact("last", int, ""),
        Fact("root", str, "", private=True),
    ),
)
EACH = Event("each", "info", "", (Fact("n", int, ""),), window_s=0)
EVENTS = {event.name: event for event in (FLOODED, EACH)}


class Watched:
    """A log whose clock the test moves, and what it has written."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self.log = Log(
            fd=self._write_fd, events=EVENTS, is_strict=True, monotonic_s=lambda: self.now_s
        )

    def lines(self) -> list[dict[str, Any]]:
        try:
            text = os.read(self._read_fd, 1 << 20)
        except BlockingIOError:
            return []
        return [json.loads(line) for line in text.splitlines()]

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


def test_the_first_is_written_at_once_and_the_rest_when_the_window_is_over(
    watched: Watched,
) -> None:
    for n in range(100):
        watched.log.info("flooded", repo="a", count=2, last=n)
    first = watched.lines()
    watched.now_s = WINDOW_S
    watched.log.tell_suppressed()
    second = watched.lines()

    assert [(line["count"], line["last"], SUPPRESSED in line) for line in first] == [(2, 0, False)]
    assert [(line["count"], line["last"], line[SUPPRESSED]) for line in second] == [(198, 99, 99)]


def test_what_comes_after_the_window_brings_out_what_was_held_back(watched: Watched) -> None:
    watched.log.info("flooded", repo="a", count=1)
    watched.log.info("flooded", repo="a", count=1)
    watched.now_s = WINDOW_S + 1
    watched.log.info("each", n=1)

    lines = watched.lines()

    assert [line["event.name"] for line in lines] == ["flooded", "flooded", "each"]


def test_lines_that_differ_in_a_fact_they_are_told_apart_by_are_not_put_together(
    watched: Watched,
) -> None:
    for repo in ("a", "b", "a"):
        watched.log.info("flooded", repo=repo, count=1)

    assert [line["repo"] for line in watched.lines()] == ["a", "b"]


def test_a_flood_that_goes_on_is_told_ever_more_seldom_down_to_once_a_minute(
    watched: Watched,
) -> None:
    for second in range(1000):
        watched.now_s = float(second)
        for _ in range(10):
            watched.log.info("flooded", repo="a", count=1)
    watched.log.tell_suppressed(at_end=True)

    lines = watched.lines()

    told_at_s = list(itertools.accumulate([WINDOW_S, 2 * WINDOW_S, 4 * WINDOW_S, *[60] * 15]))
    assert told_at_s[-1] < 1000 < told_at_s[-1] + 60
    assert len(lines) == 1 + len(told_at_s) + 1
    assert sum(line["count"] for line in lines) == 10_000


def test_what_pauses_for_longer_than_a_window_is_not_held_back(watched: Watched) -> None:
    for n in range(3):
        watched.now_s = n * (WINDOW_S + 1)
        watched.log.info("flooded", repo="a", count=1)

    assert [SUPPRESSED in line for line in watched.lines()] == [False] * 3


def test_what_is_to_be_told_each_time_is(watched: Watched) -> None:
    for n in range(50):
        watched.log.info("each", n=n)

    assert [line["n"] for line in watched.lines()] == list(range(50))


def test_what_was_held_back_tells_nothing_private_either(watched: Watched) -> None:
    for _ in range(2):
        watched.log.info("flooded", repo="a", count=1, root="/home/ada")
    watched.log.tell_suppressed(at_end=True)

    assert not any("root" in line for line in watched.lines())


def test_memory_is_bounded_however_many_kinds_there_are() -> None:
    floods, told = Floods(), 0

    for n in range(20 * KINDS_MAX):
        told += sum(int(str(facts[SUPPRESSED])) for _, facts in floods.take_due(0.0))
        told += floods.admits(FLOODED, {"repo": str(n // 2), "count": 1}, 0.0)
    held = len(floods._windows)
    told += sum(int(str(facts[SUPPRESSED])) for _, facts in floods.take_all())

    assert held <= KINDS_MAX
    assert told == 20 * KINDS_MAX


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 9),
            st.floats(0, 3 * WINDOW_S),  # until the next
        )
    )
)
def test_what_is_told_adds_up_to_what_happened(happened: list[tuple[str, int, float]]) -> None:
    floods, now_s = Floods(), 0.0
    told: Counter[str] = Counter()
    lines: Counter[str] = Counter()

    def tell(some: list[tuple[Event, dict[str, Any]]]) -> None:
        for _, facts in some:
            told[facts["repo"]] += facts["count"]
            lines[facts["repo"]] += facts[SUPPRESSED]

    for repo, count, pause_s in happened:
        facts = {"repo": repo, "count": count}
        tell(floods.take_due(now_s))
        if floods.admits(FLOODED, facts, now_s):
            told[repo] += count
            lines[repo] += 1
        now_s += pause_s
    tell(floods.take_all())

    for repo in "abc":
        assert told[repo] == sum(count for each, count, _ in happened if each == repo)
        assert lines[repo] == sum(1 for each, _, _ in happened if each == repo)
