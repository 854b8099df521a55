"""What the views are told of the past: bounded, complete, and true to the store."""

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.core.metrics import Histogram
from amend.core.model import Cause, CauseKind, EntryName, Judgement, Kind, Verdict
from amend.daemon.changes import Changes
from amend.daemon.reporting import CHANGES_SHOWN_MAX, POINTS, latency, report, since_of
from amend.daemon.tending import Options, Tending
from amend.daemon.worktree import Worktree
from amend.edge.serve.hook_exchange import Tally
from amend.edge.serve.hot import HOOK, LOOKUP
from amend.edge.store import ChangeRow, Store
from amend.edge.store_hooks import FORGET_AFTER, SessionAt, Use
from amend.errors import RequestInvalid
from amend.formats import api
from amend.formats.times import rfc3339
from tests.conftest import Repository

NOW = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
AUTH = EntryName(Kind.TOPIC, "auth")
EDITED = (Cause(CauseKind.EDITED, "a.py"),)
COMMITTED = (Cause(CauseKind.COMMITTED, "a.py"),)


@pytest.fixture
def tending(tmp_path: Path) -> Iterator[Tending]:
    # A name that would be cut short where a path is taken for a URI.
    store = Store(str(tmp_path / "what?.db"))
    yield Tending(store, Changes(store), None, Options(), inline_bytes_max=None)
    store.close()


def told(
    tending: Tending,
    worktree: Worktree | None = None,
    since: datetime = NOW - timedelta(days=1),
    tallies: dict[str, Tally] | None = None,
) -> api.ActivityAnswer:
    return asyncio.run(
        report(
            tending,
            worktree,
            since=since,
            now=NOW,
            tallies=tallies or {},
            requests=Histogram(),
            exchanges=Histogram(),
        )
    )


def change(at: datetime, previous: str, verdict: str, repo: str = "r", n: int = 1) -> ChangeRow:
    causes = '[{"cause": "edited", "source": "a.py"}]'
    return ChangeRow(f"c:old:{n}", rfc3339(at), repo, AUTH, previous, verdict, causes)


def remember(tending: Tending, *rows: ChangeRow) -> None:
    with tending.store.transaction():
        tending.store.add_changes(rows)


def use(tending: Tending, what: Use, tokens: int, at: datetime, repo: str = "r") -> None:
    with tending.store.transaction():
        tending.store.hooks.add_use(SessionAt("claude", "s", repo), what, AUTH, tokens, at)


def publish(tending: Tending, previous: Verdict, judgement: Judgement, repo: str = "r") -> None:
    assert tending.changes is not None
    tending.changes.publish(repo, "/r", AUTH, previous, judgement)


def test_marks_and_restores_are_told_by_when_they_happened(tending: Tending) -> None:
    remember(
        tending,
        change(NOW - timedelta(days=2), "fresh", "stale", n=1),
        change(NOW - timedelta(hours=23, minutes=59), "fresh", "stale", n=2),
        change(NOW - timedelta(hours=1, minutes=1), "fresh", "stale", n=3),
        change(NOW - timedelta(hours=1, minutes=1), "stale", "fresh", n=4),
        change(NOW - timedelta(seconds=1), "stale", "unknown", n=5),
        change(NOW, "unknown", "stale", n=6),
    )

    points = told(tending)["points"]

    assert len(points) == POINTS
    assert points[0]["at"] == "2026-11-29T12:00:00.250Z"
    turns = {n: (p["marks"], p["restores"]) for n, p in enumerate(points)}
    assert {n: turn for n, turn in turns.items() if turn != (0, 0)} == {
        0: (1, 0),
        45: (1, 1),
        47: (1, 0),
    }


def test_uses_and_saved_tokens_are_told_by_when_they_happened(tending: Tending) -> None:
    use(tending, Use.HIT, 40_000, NOW - timedelta(hours=2))
    use(tending, Use.HIT, 2_000, NOW - timedelta(hours=2))
    use(tending, Use.HEAD_START, 500, NOW - timedelta(hours=2))
    use(tending, Use.MISS, 0, NOW)

    points = told(tending)["points"]

    assert (points[44]["hits"], points[44]["head_starts"], points[44]["tokens"]) == (2, 1, 42_500)
    assert (points[47]["misses"], points[47]["tokens"]) == (1, 0)
    assert sum(point["hits"] + point["misses"] for point in points) == 3


def test_an_answer_speaks_of_one_repository_where_one_is_meant(
    tending: Tending, git: Callable[..., Repository]
) -> None:
    one = tending.add(os.fsencode(git("one").root))
    two = tending.add(os.fsencode(git("two").root))
    remember(tending, change(NOW, "fresh", "stale", one.id), change(NOW, "stale", "fresh", two.id))
    use(tending, Use.HIT, 7, NOW, one.id)
    publish(tending, Verdict.FRESH, Judgement(Verdict.STALE, None, EDITED), two.id)

    answer = told(tending, one)

    assert [row["root"] for row in answer["changes"]] == [os.fsdecode(one.root)]
    last = answer["points"][-1]
    assert (last["marks"], last["restores"], last["tokens"]) == (1, 0, 7)


def test_the_latest_change_is_told_before_it_is_stored(tending: Tending) -> None:
    remember(tending, change(NOW, "fresh", "stale"))
    publish(tending, Verdict.STALE, Judgement(Verdict.FRESH, None))

    changes = told(tending)["changes"]

    assert [(row["previous"], row["verdict"]) for row in changes] == [
        ("stale", "fresh"),
        ("fresh", "stale"),
    ]


def test_a_change_that_is_both_stored_and_remembered_is_told_once(tending: Tending) -> None:
    publish(tending, Verdict.FRESH, Judgement(Verdict.STALE, None, EDITED))
    tending.save()

    changes = told(tending)["changes"]

    assert [row["verdict"] for row in changes] == ["stale"]


def test_a_change_is_told_with_the_causes_that_became_known_later(tending: Tending) -> None:
    publish(tending, Verdict.FRESH, Judgement(Verdict.STALE, None, EDITED))
    publish(tending, Verdict.STALE, Judgement(Verdict.STALE, None, COMMITTED))

    changes = told(tending)["changes"]

    assert [row["causes"][0]["cause"] for row in changes] == ["committed"]


def test_an_answer_is_bounded_whatever_has_happened(tending: Tending) -> None:
    rows = [change(NOW - timedelta(seconds=n), "fresh", "stale", n=n) for n in range(500)]
    remember(tending, *rows)
    for _ in range(1_500):
        publish(tending, Verdict.FRESH, Judgement(Verdict.STALE, None))

    answer = told(tending)

    assert (len(answer["changes"]), len(answer["points"])) == (CHANGES_SHOWN_MAX, POINTS)


def test_a_store_that_cannot_be_read_leaves_the_past_empty(tending: Tending) -> None:
    os.unlink(tending.store.path)

    answer = told(tending)

    assert answer["changes"] == []
    assert all(point["marks"] == 0 for point in answer["points"])


def test_steps_are_never_shorter_than_the_times_of_the_store(tending: Tending) -> None:
    answer = told(tending, since=NOW - timedelta(seconds=3))

    assert (answer["step_s"], len(answer["points"])) == (1, POINTS)


def test_hooks_are_told_by_agent(tending: Tending) -> None:
    answer = told(tending, tallies={"codex": Tally(1, 2, 3, 4), "claude": Tally()})

    assert [row["agent"] for row in answer["hooks"]] == ["claude", "codex"]
    assert answer["hooks"][1] == {"agent": "codex", "told": 1, "silent": 2, "late": 3, "bugs": 4}


def test_latency_is_bounded_by_the_buckets_of_one_route() -> None:
    requests = Histogram()
    for _ in range(98):
        requests.observe(0.0004, method="POST", route=HOOK, status="200")
    requests.observe(0.0004, method="POST", route=HOOK, status="204")
    requests.observe(0.02, method="POST", route=HOOK, status="200")
    requests.observe(9.0, method="POST", route=LOOKUP, status="200")

    assert [latency(requests, f'route="{route}"') for route in (HOOK, LOOKUP, "/none")] == [
        {"count": 100, "p50_s": 0.0005, "p99_s": 0.0005},
        {"count": 1, "p50_s": None, "p99_s": None},
        {"count": 0, "p50_s": None, "p99_s": None},
    ]


def test_since_is_a_time_that_has_been_and_that_is_remembered() -> None:
    assert since_of(None, NOW) == NOW - timedelta(days=1)
    assert since_of("2026-11-30T11:00:00Z", NOW) == NOW.replace(hour=11, microsecond=0)
    assert since_of("1970-01-01", NOW) == NOW - FORGET_AFTER
    for text in ("yesterday", "2026-11-30T12:00:01Z", ""):
        with pytest.raises(RequestInvalid):
            since_of(text, NOW)
