"""What the daemon has lately done and suffered, told to its log.

Verdict changes come one by one and are told together, a line for each repository and cause. The
rest is counted already, for `/metrics`: that is looked at on a timer that runs anyway, and what has
grown since is one line. So it costs nothing where it happens, wakes nobody, and a flood is summed
up before it is told.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from amend.core.model import EntryName, Judgement, Verdict, path_text
from amend.daemon.answers import Answers
from amend.daemon.logs import Log
from amend.daemon.tending import Tending
from amend.daemon.worktree import Worktree

# The daemon's tick is 10 s. After six of them comes what costs more to find out, and what happens
# all the time.
LOOKS_A_MINUTE: Final = 6

# A checkout or a build touches its files within this.
TOGETHER_S: Final = 1.0

# More does not fit on a screen; `amend status` has all.
SHOWN_MAX: Final = 10


class Captured(Protocol):
    """What became of explorations: counts by why, and by the rule of a secret."""

    @property
    def dropped(self) -> Mapping[str, int]: ...

    @property
    def withheld(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class Staled:
    """`refined`: it was stale before, and the cause is known better now."""

    cause: str
    refined: bool


@dataclass(frozen=True, slots=True)
class Restored:
    previous: Verdict


@dataclass(frozen=True, slots=True)
class Unknown:
    cause: str


Turn = Staled | Restored | Unknown | Literal[Verdict.FRESH, Verdict.MISSING]
"""What became of an entry, as far as the log tells it: fresh is new, missing is gone."""


def _turn_of(previous: Verdict, verdict: Verdict, cause: str) -> Turn | None:
    """None: of what was fresh or unknown before nobody waits to be told why."""
    if verdict is Verdict.STALE:
        return Staled(cause, refined=previous is verdict)
    if verdict is previous:
        return None
    if verdict is Verdict.MISSING:
        return Verdict.MISSING
    if verdict is Verdict.UNKNOWN:
        return Unknown(cause)
    return Verdict.FRESH if previous is Verdict.MISSING else Restored(previous)


class Happenings:
    def __init__(
        self,
        log: Log,
        tending: Tending,
        answers: Answers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._log = log
        self._tending = tending
        self._answers = answers
        self.captures: Captured | None = None
        self._loop = loop
        self._together: Counter[tuple[str, Turn]] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._held_timer: asyncio.TimerHandle | None = None
        self._counts: dict[tuple[str, ...], int] = {}
        self._git_failed: set[str] = set()
        self._problems: dict[str, list[str]] = {}
        self._unwatched: frozenset[tuple[bytes, int]] = frozenset()
        self._looks = 0
        log.on_held = self._held

    # -- verdicts --------------------------------------------------------------------------------

    def changed(self, repo: str, name: EntryName, previous: Verdict, judgement: Judgement) -> None:
        """For `Changes.on_published`."""
        verdict, causes = judgement.verdict, judgement.causes
        if self._log.is_enabled("debug"):
            self._log.debug(
                "entry_changed",
                repo=repo,
                kind=name.kind.value,
                key=name.key,
                previous=previous.value,
                verdict=verdict.value,
                causes=[cause.kind.value for cause in causes],
                sources=[cause.source for cause in causes if cause.source],
            )
        cause = causes[0].kind.value if causes else ""
        turn = _turn_of(previous, verdict, cause)
        if turn is None:
            return
        self._together[repo, turn] += 1
        if self._timer is None:
            self._timer = self._loop.call_later(TOGETHER_S, self.tell_together)

    def tell_together(self) -> None:
        """One line for each repository, direction and cause."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        together, self._together = self._together, Counter()
        for (repo, turn), count in together.items():
            match turn:
                case Staled(cause, refined):
                    self._log.info(
                        "entries_staled", repo=repo, count=count, cause=cause, refined=refined
                    )
                case Restored(previous):
                    self._log.info(
                        "entries_restored", repo=repo, count=count, previous=previous.value
                    )
                case Unknown(cause):
                    self._log.info("entries_unknown", repo=repo, count=count, cause=cause)
                case Verdict.FRESH:
                    self._log.info("entries_learnt", repo=repo, count=count)
                case Verdict.MISSING:
                    self._log.info("entries_removed", repo=repo, count=count)

    # -- repositories ----------------------------------------------------------------------------

    def added(self, worktree: Worktree, is_linked: bool) -> None:
        root = path_text(worktree.root)
        self._log.info("repo_added", repo=worktree.id, linked=is_linked, root=root)

    def removed(self, worktree: Worktree) -> None:
        self._log.info("repo_removed", repo=worktree.id, root=path_text(worktree.root))

    # -- what is counted -------------------------------------------------------------------------

    def look(self) -> None:
        """Tell what has grown or turned since the last look; for each tick."""
        self._looks += 1
        worktrees = self._tending.worktrees
        for worktree in worktrees.values():
            self._look_at_files(worktree)
            self._look_at_git(worktree)
        self._look_at_watch()
        self._look_at_captures()
        self._look_at_doors()
        if self._looks % LOOKS_A_MINUTE == 0:
            self._look_at_hooks()
            for worktree in worktrees.values():
                self._look_at_problems(worktree)
            self._forget_all_but(worktrees)

    def finish(self) -> None:
        """Tell what would have waited: the daemon ends."""
        self.tell_together()
        self._looks = -1
        self.look()
        self._log.on_held = lambda delay_s: None
        if self._held_timer is not None:
            self._held_timer.cancel()
        self._log.tell_suppressed(at_end=True)

    def _held(self, delay_s: float | None) -> None:
        """The log holds something back until then."""
        if self._held_timer is None and delay_s is not None:
            self._held_timer = self._loop.call_later(delay_s, self._tell_held)

    def _tell_held(self) -> None:
        self._held_timer = None
        self._log.tell_suppressed()
        self._held(self._log.due_in_s)

    def _grown(self, count: int, *name: str) -> int:
        """By how much; a count that began anew has grown by itself."""
        before = self._counts.get(name, 0)
        self._counts[name] = count
        return count - before if count >= before else count

    def _look_at_files(self, worktree: Worktree) -> None:
        repo, log, shared = worktree.id, self._log, worktree.cache_file.shared
        if count := self._grown(shared.writes, repo, "writes"):
            log.info("cache_file_written", repo=repo, count=count)
        if count := self._grown(shared.conflicts, repo, "conflicts"):
            log.info("write_conflicted", repo=repo, count=count)
        if count := self._grown(shared.recovered, repo, "recovered"):
            log.info("version_recovered", repo=repo, count=count)
        if count := self._grown(shared.unmerged, repo, "unmerged"):
            log.error("version_unmerged", repo=repo, count=count)
        written = sum(tree.writes for tree in worktree.trees if tree.root == worktree.root)
        if count := self._grown(written, repo, "indexes"):
            log.info("index_written", repo=repo, count=count)
        if count := self._grown(self._answers.notes_saved.get(repo, 0), repo, "notes"):
            log.info("note_saved", repo=repo, count=count)

    def _look_at_git(self, worktree: Worktree) -> None:
        repo = worktree.id
        problem = worktree.git_problem
        if problem is not None and repo not in self._git_failed:
            self._git_failed.add(repo)
            self._log.warning("git_failed", repo=repo, detail=problem)
        elif problem is None and repo in self._git_failed:
            self._git_failed.discard(repo)
            self._log.info("git_recovered", repo=repo)
        timeouts = worktree.places.tally.timeouts if worktree.places is not None else 0
        if count := self._grown(timeouts, repo, "timeouts"):
            self._log.warning("git_timed_out", repo=repo, count=count)
        if count := self._grown(worktree.memory.unreported, repo, "unreported"):
            self._log.warning("change_unreported", repo=repo, count=count)

    def _look_at_watch(self) -> None:
        if self._tending.watch is None:
            return
        health = self._tending.watch.health()
        overflows = self._grown(health.overflows, "overflows")
        rescans = self._grown(health.rescans, "rescans")
        if overflows or rescans:
            self._log.warning("watch_overflowed", overflows=overflows, rescans=rescans)
        if count := self._grown(health.reader_errors, "reader errors"):
            self._log.error("watch_failed", count=count)
        unwatched = frozenset(health.unwatched)
        if unwatched and unwatched != self._unwatched:
            self._log.warning(
                "watch_degraded",
                count=len(unwatched),
                reason=os.strerror(health.unwatched[0][1]),
                paths=[path_text(path) for path, _ in health.unwatched[:SHOWN_MAX]],
            )
        elif self._unwatched and not unwatched:
            self._log.info("watch_recovered")
        self._unwatched = unwatched

    def _look_at_captures(self) -> None:
        if self.captures is None:
            return
        for reason, times in self.captures.dropped.items():
            if count := self._grown(times, "dropped", reason):
                self._log.info("exploration_not_stored", reason=reason, count=count)
        for rule, times in self.captures.withheld.items():
            if count := self._grown(times, "withheld", rule):
                self._log.info("exploration_not_stored", reason="secret", rule=rule, count=count)

    def _look_at_doors(self) -> None:
        api, hooks = self._answers.connections, self._answers.hook_connections
        cut = {
            "peers": self._grown(api.refused_peers, "api peers"),
            "full": self._grown(api.refused_full, "api full"),
            "slow": self._grown(api.timeouts, "api slow"),
            "broken": self._grown(api.rejected - api.timeouts, "api broken"),
        }
        if any(cut.values()):
            self._log.warning(
                "requests_refused",
                peers=cut["peers"],
                full=cut["full"],
                slow=cut["slow"],
                broken=cut["broken"],
            )
        peers = self._grown(hooks.refused_peers, "hook peers")
        full = self._grown(hooks.refused_full, "hook full")
        large = self._grown(hooks.too_large, "hook large")
        slow = self._grown(hooks.unfinished, "hook slow")
        if peers or full or large or slow:
            self._log.warning("hooks_refused", peers=peers, full=full, large=large, slow=slow)

    def _look_at_hooks(self) -> None:
        tallies = self._answers.hooks.tallies if self._answers.hooks is not None else {}
        for agent, tally in tallies.items():
            told = self._grown(tally.told, agent, "told")
            silent = self._grown(tally.silent, agent, "silent")
            late = self._grown(tally.late, agent, "late")
            bugs = self._grown(tally.bugs, agent, "bugs")
            if told or silent or late or bugs:
                self._log.info(
                    "hooks_answered", agent=agent, told=told, silent=silent, late=late, bugs=bugs
                )

    def _look_at_problems(self, worktree: Worktree) -> None:
        before, now = self._problems.get(worktree.id, []), worktree.problems()
        if now and now != before:
            self._log.warning(
                "repo_problems", repo=worktree.id, count=len(now), problems=now[:SHOWN_MAX]
            )
        elif before and not now:
            self._log.info("repo_problems_gone", repo=worktree.id)
        self._problems[worktree.id] = now

    def _forget_all_but(self, repos: Mapping[str, Worktree]) -> None:
        """Of worktrees that are tended no longer."""
        gone = self._problems.keys() - repos.keys()
        if gone:
            self._problems = {repo: p for repo, p in self._problems.items() if repo in repos}
            self._git_failed &= repos.keys()
            self._counts = {n: c for n, c in self._counts.items() if n[0] not in gone}
