"""What a full working day leaves in the log's files: a fake clock, the real `Log`.

The day: editors, agents and builds touch files, hooks come and go, and four times something runs
wild for minutes (a mount that flaps, a hostile client, a file that two fight over, a bug in a hot
place). What is counted by `Happenings` comes here as it would from there, each 10 s.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.daemon.log_file import LogFile, log_path
from amend.daemon.logs import Log

DAY_S = 24 * 3600.0
WORK_S = 10 * 3600.0
DAY = datetime(2026, 11, 30, tzinfo=UTC)
BYTES_MAX = 25_000_000

CAUSES = ("edited", "committed", "evidence", "appeared", "deleted", "moved")
CAUSES_WEIGHTS = (70, 15, 8, 3, 2, 2)

# A person works in one repository for so long; agents meanwhile in one more.
TURN_S = 20 * 60.0
REPOS = [f"{n:012x}" for n in range(12)]


@dataclass
class Logged:
    """`bytes`: written in all, also what was rotated away; `lines`: of them."""

    events: int = 0
    bytes: int = 0
    lines: int = 0


class CountingFile(LogFile):
    def __init__(self, path: Path, logged: Logged) -> None:
        super().__init__(path)
        self._logged = logged

    def msg(self, line: bytes) -> None:
        self._logged.bytes += len(line) + 1
        self._logged.lines += 1
        super().msg(line)


class Day:
    def __init__(self, state: Path, *, seed: int) -> None:
        self.now_s = 0.0
        self.logged = Logged()
        self.random = random.Random(seed)
        self._null = os.open(os.devnull, os.O_WRONLY)
        self.log = Log(
            "0.1.0",
            fd=self._null,
            is_strict=True,
            now=lambda: DAY + timedelta(seconds=self.now_s),
            monotonic_s=lambda: self.now_s,
        )
        self.log.configure("info", "json", "0123abcd")
        self.file = CountingFile(log_path(state), self.logged)
        self.log.use_file(self.file)

    def close(self) -> None:
        self.log.tell_suppressed(at_end=True)
        self.log.use_file(None)
        os.close(self._null)

    def live(self, events: int) -> None:
        """A third while people work, two thirds in four floods."""
        floods = sorted(self.random.uniform(0, WORK_S) for _ in range(4))
        times = [
            begin + self.random.uniform(0, 600) for begin in floods for _ in range(events // 6)
        ]
        times += [self.random.uniform(0, WORK_S) for _ in range(events - len(times))]
        for at_s in sorted(times):
            self.now_s = at_s
            flood = next((n for n, begin in enumerate(floods) if 0 <= at_s - begin < 600), None)
            if flood is not None and self.random.random() < 0.95:
                self._run_wild(flood)
            else:
                self._work()
            self.logged.events += 1
        self.now_s = DAY_S
        self.log.info("everything_verified", entries=5_000, seconds=1.5)

    def _work(self) -> None:
        pick = self.random.choices
        log, repo = self.log, self._repo()
        match pick(range(8), weights=(40, 30, 12, 8, 6, 2, 1, 1))[0]:
            case 0:
                cause = pick(CAUSES, weights=CAUSES_WEIGHTS)[0]
                log.info("entries_staled", repo=repo, count=3, cause=cause, refined=False)
            case 1:
                log.info("entries_restored", repo=repo, count=2, previous="stale")
            case 2:
                log.info("cache_file_written", repo=repo, count=1)
            case 3:
                agent = self.random.choice(("claude", "codex"))
                log.info("exploration_stored", agent=agent, repo=repo, sources=9, key="a-key")
            case 4:
                log.info("index_written", repo=repo, count=1)
            case 5:
                log.info("exploration_not_stored", reason="nothing_read", count=1)
            case 6:
                log.info("write_conflicted", repo=repo, count=1)
            case _:
                log.info("note_saved", repo=repo, count=1)

    def _repo(self) -> str:
        """Mostly one of the two that are worked in, sometimes another (a fetch, a build)."""
        turn = int(self.now_s / TURN_S)
        worked_in = (REPOS[turn % len(REPOS)], REPOS[7 * turn % len(REPOS)])
        return self.random.choice(worked_in if self.random.random() < 0.95 else REPOS)

    def _run_wild(self, flood: int) -> None:
        log, repo = self.log, self.random.choice(REPOS)
        match flood:
            case 0:
                log.warning("watch_degraded", count=self.random.randrange(9), reason="no space")
            case 1:
                log.warning("requests_refused", peers=0, full=3, slow=1, broken=2)
            case 2:
                log.info("write_conflicted", repo=repo, count=1)
            case _:
                log.error("bug", id="0badcafe", error=_mistake())


def _mistake() -> Exception:
    try:
        raise KeyError("in a hot place")
    except KeyError as error:
        return error


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    made = Day(tmp_path, seed=20261130)
    yield made
    made.close()


def on_disk(day: Day) -> int:
    return sum(path.stat().st_size for path in day.file.path.parent.iterdir())


def test_a_full_day_of_500_000_events_leaves_less_than_25_mb(day: Day) -> None:
    day.live(500_000)

    print(
        f"{day.logged.events} events: {day.logged.lines} lines, {day.logged.bytes / 1e6:.1f} MB "
        f"written, {on_disk(day) / 1e6:.1f} MB kept"
    )
    assert day.logged.events == 500_000
    assert on_disk(day) < BYTES_MAX
    assert day.logged.bytes < BYTES_MAX, "it must fit without throwing old lines away"


def test_a_flood_of_half_a_million_is_a_few_lines_that_add_up(day: Day) -> None:
    for n in range(500_000):
        day.now_s = n * 600 / 500_000
        day.log.info("write_conflicted", repo=REPOS[0], count=1)
    day.log.tell_suppressed(at_end=True)

    counts = [json.loads(line)["count"] for line in day.file.path.read_text().splitlines()]
    assert len(counts) == 13  # at 0, 10, 30, 70 s, then each minute, and at the end
    assert sum(counts) == 500_000
