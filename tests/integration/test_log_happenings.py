"""What a daemon has done and suffered is told to its log: in one line each, once, and added up."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from amend.core.model import Cause, CauseKind, EntryName, Judgement, Kind, Verdict
from amend.daemon import happenings
from amend.daemon.answers import Answers
from amend.daemon.changes import Changes
from amend.daemon.happenings import LOOKS_A_MINUTE, Happenings
from amend.daemon.logs import Log
from amend.daemon.tending import Options, Tending
from amend.edge.serve.hook_exchange import Tally, TimelyExchange
from amend.edge.store import Store
from amend.edge.watch.interface import Key, Touched, WatchHealth
from amend.edge.watch.watcher import Watcher
from amend.formats import api
from tests.integration.serve_fakes import until


class Deaf(Watcher):
    """Loses every event, and knows nothing of it."""

    def drain(self) -> set[Key]:
        super().drain()
        return set()

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        super().start(loop, lambda keys: None)


class Degraded(Watcher):
    told = WatchHealth("inotify", 1)

    def health(self, root: bytes | None = None) -> WatchHealth:
        return self.told


class Captured:
    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.withheld: dict[str, int] = {}


class Tended:
    def __init__(self, tmp_path: Path, watch: Watcher) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = Store(":memory:")
        changes = Changes(self.store)
        self.watch = watch
        self.tending = Tending(self.store, changes, watch, Options(), inline_bytes_max=None)
        self.answers = Answers(self.tending, "0")
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self.log = Log(fd=self._write_fd, is_strict=True)
        self.log.configure("info", "json")
        self.captured = Captured()
        self.happenings = Happenings(self.log, self.tending, self.answers, self.loop)
        self.happenings.captures = self.captured
        changes.on_published = self.happenings.changed
        self.tending.on_added = self.happenings.added
        self.tending.on_removed = self.happenings.removed
        self.root = tmp_path / "shop"
        self.root.mkdir()
        (self.root / "a.py").write_text("one")
        (self.root / "b.py").write_text("one")
        self.tending.start(self.loop)
        self.worktree = self.tending.add(os.fsencode(self.root))

    async def put(self, key: str, *files: str) -> None:
        request = api.PutRequest(summary="s", files=list(files))
        await self.answers.put_entry(str(self.root), "topic", key, request, None)

    async def verdict(self, key: str) -> str:
        request = api.LookupRequest(cwd=str(self.root), key=key)
        return (await self.answers.lookup(request))["verdict"]

    def lines(self) -> list[dict[str, Any]]:
        try:
            text = os.read(self._read_fd, 1 << 20)
        except BlockingIOError:
            return []
        return [json.loads(line) for line in text.splitlines()]

    def told(self) -> list[tuple[Any, ...]]:
        """Name and facts of what was logged since this was last called, but for the repository."""
        return [
            (line["event.name"], *(v for k, v in line.items() if "." not in k and k not in HEAD))
            for line in self.lines()
        ]

    def told_after_a_look(self, looks: int = 1) -> list[tuple[Any, ...]]:
        for _ in range(looks):
            self.happenings.look()
        return self.told()

    async def close(self) -> None:
        self.log.tell_suppressed(at_end=True)
        self.log.on_held = lambda delay_s: None
        await self.tending.stop()
        self.store.close()
        os.close(self._read_fd)
        os.close(self._write_fd)


HEAD = {"timestamp", "severity_text", "severity_number", "repo"}


@pytest.fixture
async def tend(tmp_path: Path) -> AsyncIterator[Callable[..., Tended]]:
    made: list[Tended] = []

    def tend(watch: Watcher | None = None) -> Tended:
        made.append(Tended(tmp_path, watch or Watcher()))
        return made[-1]

    yield tend
    for each in made:
        await each.close()


STALE = Judgement(Verdict.STALE, None, (Cause(CauseKind.EDITED, source="a.py"),))
GONE = Judgement(Verdict.STALE, None, (Cause(CauseKind.DELETED, source="a.py"),))
FRESH = Judgement(Verdict.FRESH, None)
UNKNOWN = Judgement(Verdict.UNKNOWN, None, (Cause(CauseKind.TOO_LARGE),))
MISSING = Judgement(Verdict.MISSING, None)


def named(n: int) -> EntryName:
    return EntryName(Kind.TOPIC, f"key-{n}")


# -- verdicts --------------------------------------------------------------------------------------


async def test_what_turns_together_is_one_line_a_direction_and_cause(
    tend: Callable[..., Tended],
) -> None:
    here = tend()
    changed = here.happenings.changed
    for n in range(100):
        changed("r", named(n), Verdict.FRESH, STALE)
    for n in range(3):
        changed("r", named(n), Verdict.FRESH, GONE)
        changed("r", named(n), Verdict.STALE, STALE)
        changed("r", named(n), Verdict.UNKNOWN, FRESH)
    here.told()

    here.happenings.tell_together()

    assert here.told() == [
        ("entries_staled", 100, "edited", False),
        ("entries_staled", 3, "deleted", False),
        ("entries_staled", 3, "edited", True),
        ("entries_restored", 3, "unknown"),
    ]


async def test_every_way_that_a_verdict_can_turn_has_its_event(tend: Callable[..., Tended]) -> None:
    here = tend()
    here.told()
    for previous in Verdict:
        for judgement in (FRESH, STALE, UNKNOWN, MISSING):
            here.happenings.changed("r", named(0), previous, judgement)

    here.happenings.tell_together()

    assert set(here.told()) == {
        ("entries_staled", 3, "edited", False),
        ("entries_staled", 1, "edited", True),
        ("entries_restored", 1, "stale"),
        ("entries_restored", 1, "unknown"),
        ("entries_learnt", 1),
        ("entries_unknown", 3, "too_large"),
        ("entries_removed", 3),
    }


async def test_a_mark_and_its_undoing_are_told_by_themselves_soon(
    tend: Callable[..., Tended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(happenings, "TOGETHER_S", 0.01)
    here, seen = tend(), []
    await here.put("auth", "a.py")

    (here.root / "a.py").write_text("two")
    await until(lambda: seen.extend(here.told()) or ("entries_staled", 1, "edited", False) in seen)
    (here.root / "a.py").write_text("one")
    await until(lambda: seen.extend(here.told()) or ("entries_restored", 1, "stale") in seen)

    assert list(dict.fromkeys(each[0] for each in seen)) == [
        *("repo_added", "entries_learnt", "entries_staled", "entries_restored"),
    ]


async def test_keys_and_sources_are_told_at_debug_alone(tend: Callable[..., Tended]) -> None:
    here = tend()
    here.log.configure("debug", "json")

    here.happenings.changed("r", named(7), Verdict.FRESH, STALE)

    line = here.lines()[-1]
    assert (line["event.name"], line["key"], line["sources"]) == (
        "entry_changed",
        "key-7",
        ["a.py"],
    )


# -- the guard -------------------------------------------------------------------------------------


async def test_a_change_that_the_watch_never_told_of_trips_the_guard_and_is_answered_truly(
    tend: Callable[..., Tended],
) -> None:
    here = tend(Deaf())
    await here.put("auth", "a.py")
    here.told_after_a_look()

    (here.root / "a.py").write_text("two")
    verdict = await here.verdict("auth")

    assert verdict == "stale"
    assert here.worktree.memory.unreported == 1
    assert ("change_unreported", 1) in here.told_after_a_look()


async def test_an_event_that_is_only_on_its_way_trips_no_guard(tend: Callable[..., Tended]) -> None:
    here = tend()
    await here.put("auth", "a.py")
    await here.put("login", "a.py", "b.py")
    known = here.worktree.memory.find("auth", None)
    assert known is not None

    (here.root / "a.py").write_text("two")
    judgement = await here.worktree.memory.answer(known)  # before the loop has heard of it
    await until(lambda: here.worktree.counts()[Verdict.STALE] == 2)

    assert judgement.verdict is Verdict.STALE
    assert here.worktree.memory.unreported == 0


async def test_an_entry_that_grows_old_trips_no_guard(tend: Callable[..., Tended]) -> None:
    from datetime import timedelta

    here = tend(Deaf())
    await here.put("auth", "a.py")
    here.worktree.memory.max_age = timedelta(0)

    verdict = await here.verdict("auth")

    assert verdict == "stale"
    assert here.worktree.memory.unreported == 0


# -- what is counted -------------------------------------------------------------------------------


async def test_what_has_grown_is_told_once_by_how_much(tend: Callable[..., Tended]) -> None:
    here = tend()
    here.told_after_a_look()
    shared, api_stats, hooks = (
        here.worktree.cache_file.shared,
        here.answers.connections,
        here.answers.hook_connections,
    )

    shared.writes += 2
    shared.conflicts += 3
    shared.recovered += 4
    shared.unmerged += 1
    here.answers.notes_saved[here.worktree.id] = 5
    api_stats.refused_peers, api_stats.timeouts, api_stats.rejected = 1, 2, 5
    hooks.unfinished = 6
    here.captured.dropped["no_answer"] = 7
    here.captured.withheld["aws-key"] = 8
    first, second = here.told_after_a_look(), here.told_after_a_look()

    assert set(first) == {
        ("cache_file_written", 2),
        ("write_conflicted", 3),
        ("version_recovered", 4),
        ("version_unmerged", 1),
        ("note_saved", 5),
        ("requests_refused", 1, 0, 2, 3),
        ("hooks_refused", 0, 0, 0, 6),
        ("exploration_not_stored", "no_answer", 7),
        ("exploration_not_stored", "secret", "aws-key", 8),
    }
    assert second == []


async def test_hooks_are_summed_up_once_a_minute_and_only_with_traffic(
    tend: Callable[..., Tended],
) -> None:
    async def nothing(agent: str, body: bytes) -> bytes:
        return b""

    here = tend()
    here.answers.hooks = TimelyExchange(nothing, ("claude", "codex"), on_bug=lambda error: "")
    here.told()

    here.answers.hooks.tallies["claude"] = Tally(told=3, silent=40, late=1)
    first = here.told_after_a_look(LOOKS_A_MINUTE)
    second = here.told_after_a_look(LOOKS_A_MINUTE)

    assert first == [("hooks_answered", "claude", 3, 40, 1, 0)]
    assert second == []


async def test_a_watch_that_degrades_and_recovers_is_told_once_each_without_paths(
    tend: Callable[..., Tended],
) -> None:
    watch = Degraded()
    here = tend(watch)
    here.told_after_a_look()
    unwatched = ((b"/home/ada/a", 28), (b"/home/ada/b", 28))

    watch.told = WatchHealth("inotify", 1, unwatched, overflows=1, rescans=2, reader_errors=1)
    first, second = here.told_after_a_look(), here.told_after_a_look()
    watch.told = WatchHealth("inotify", 3, (), overflows=1, rescans=2, reader_errors=1)
    third, fourth = here.told_after_a_look(), here.told_after_a_look()

    assert first == [
        ("watch_overflowed", 1, 2),
        ("watch_failed", 1),
        ("watch_degraded", 2, "No space left on device"),
    ]
    assert third == [("watch_recovered",)]
    assert second == fourth == []


async def test_problems_of_a_repository_are_counted_and_their_words_kept_back(
    tend: Callable[..., Tended],
) -> None:
    here = tend()
    here.told_after_a_look(LOOKS_A_MINUTE)

    here.worktree.cache_file.problem = "somebody's words"
    here.worktree.git_problem = "more of them"
    first = here.told_after_a_look(2 * LOOKS_A_MINUTE)
    here.worktree.cache_file.problem = here.worktree.git_problem = None
    second = here.told_after_a_look(2 * LOOKS_A_MINUTE)

    assert first == [("git_failed",), ("repo_problems", 2)]
    assert second == [("git_recovered",), ("repo_problems_gone",)]


async def test_a_repository_that_is_removed_is_told_and_forgotten(
    tend: Callable[..., Tended],
) -> None:
    here = tend()
    here.worktree.cache_file.shared.writes += 1
    here.told_after_a_look(LOOKS_A_MINUTE)

    here.tending.remove(here.worktree.id)
    told = here.told_after_a_look(LOOKS_A_MINUTE)

    assert told == [("repo_removed",)]
    assert here.worktree.id not in str(here.happenings._counts)
    assert here.happenings._problems == {}


async def test_what_the_log_holds_back_is_told_without_anybody_asking(
    tend: Callable[..., Tended],
) -> None:
    here, seen = tend(), []

    for _ in range(3):
        here.log.info("config_reloaded")
    await until(lambda: seen.extend(here.told()) or ("config_reloaded", 2) in seen)

    assert [each for each in seen if each[0] == "config_reloaded"] == [
        ("config_reloaded",),
        ("config_reloaded", 2),
    ]


async def test_at_the_end_everything_is_told(tend: Callable[..., Tended]) -> None:
    here = tend()
    here.told()
    here.worktree.cache_file.shared.writes += 1
    here.happenings.changed("r", named(0), Verdict.FRESH, STALE)
    here.happenings.changed("r", named(0), Verdict.STALE, FRESH)
    for _ in range(3):
        here.log.info("config_reloaded")

    here.happenings.finish()

    assert {each[0] for each in here.told()} == {
        *("cache_file_written", "entries_staled", "entries_restored", "config_reloaded"),
    }
