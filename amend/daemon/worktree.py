"""One worktree as the daemon tends it: its memory, its cache file, its git state.

Marks are immediate; what git has to say about them is asked in a worker, one batch at a time, and
arrives as a refinement.
"""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from amend.core.freshness import Explained
from amend.core.model import EntryName, Fingerprint, Source, SourceKind, Verdict
from amend.daemon.cache_file import CacheFile
from amend.daemon.explain import (
    Question,
    Told,
    Unbased,
    at_head,
    base_versions,
    moves_of,
    with_commits,
)
from amend.daemon.memory import TO_BE_BASED, Memory
from amend.edge.files.look import modified_at_ns
from amend.edge.git.head import NO_HEAD, HeadState, is_locked, read_head, signal_paths
from amend.edge.git.history import is_tracked
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.run import GitFailed
from amend.edge.watch.interface import Watch
from amend.errors import Refused
from amend.formats.agent_cache import FILE_NAME

# git is asked once the mark has reached whoever listens: its worker would take their turn.
GIT_AFTER_S: Final = 0.01

# Nor while git rewrites the worktree; a lock that a crash left is waited for no longer than this
# (one stood for 28 minutes, research/watching.md section 5).
GIT_WAIT_S: Final = 5.0


class Signal(Enum):
    CACHE_FILE = "cache file"
    HEAD = "head"


@dataclass(frozen=True, slots=True, eq=False)
class SignalKey:
    """What the watch gives back for a worktree's own files."""

    worktree: "Worktree"
    signal: Signal


def worktree_id(places: RepositoryPlaces | None, root: bytes) -> str:
    """By common git directory and root: a directory's name is no identity."""
    common = places.common_dir if places is not None else b""
    return hashlib.blake2b(common + b"\0" + root, digest_size=6).hexdigest()


class Worktree:
    def __init__(
        self,
        root: bytes,
        places: RepositoryPlaces | None,
        memory: Memory,
        cache_file: CacheFile,
        watch: Watch | None,
    ) -> None:
        self.id = memory.id
        self.root = root
        self.places = places
        self.memory = memory
        self.cache_file = cache_file
        self.head = read_head(places) if places is not None else NO_HEAD
        self.git_problem: str | None = None
        self._watch = watch
        self._head_key = SignalKey(self, Signal.HEAD)
        self._aimed: set[tuple[bytes, bytes]] = set()
        self._wake = asyncio.Event()
        self._unanswered: set[EntryName] = set()
        self._tracked_asked = False
        self._busy = False
        self._busy_since_s: float | None = None
        memory.on_changed = self._memory_changed
        memory.on_behind = self._wake.set
        if places is None:
            cache_file.set_tracked(False)
            self._tracked_asked = True

    # -- watching --------------------------------------------------------------------------------

    def arm(self) -> None:
        assert self._watch is not None
        self._watch.want(self.root, FILE_NAME, SignalKey(self, Signal.CACHE_FILE))
        self._aim_at_head()

    def _aim_at_head(self) -> None:
        if self.places is None or self._watch is None:
            return
        wanted = set(signal_paths(self.places, self.head))
        for base, path in wanted - self._aimed:
            self._watch.add_root(base)
            self._watch.want(base, path, self._head_key)
        for base, path in self._aimed - wanted:
            self._watch.unwant(base, path, self._head_key)
        self._aimed = wanted

    def refresh_head(self) -> None:
        """Look at what is checked out; if that changed, what git said before is void."""
        if self.places is None:
            return
        head = read_head(self.places)
        if head == self.head:
            return
        moved = (head.symref, head.oid) != (self.head.symref, self.head.oid)
        self.head = head
        self._aim_at_head()
        if moved:
            self._unanswered.clear()
            self._tracked_asked = False
            self.memory.head_moved()
            self._wake.set()

    def disarm(self) -> None:
        """Stop watching git directories outside the root; the root's own go with it."""
        assert self._watch is not None
        for base, path in self._aimed:
            if base != self.root:
                self._watch.unwant(base, path, self._head_key)

    def _memory_changed(self) -> None:
        self.cache_file.request()
        self._wake.set()

    # -- asking git ------------------------------------------------------------------------------

    def _has_questions(self) -> bool:
        return (
            not self._tracked_asked
            or self.memory.is_behind
            or not self.memory.unsettled <= self._unanswered
            or not self.memory.unbased <= self._unanswered
        )

    @property
    def settled(self) -> bool:
        """Whether git has answered all that was asked of it."""
        return not self._busy and not self._has_questions()

    async def tend(self) -> None:
        """Answer git's share of what the memory wants to know, for as long as it is tended."""
        while True:
            self._wake.clear()
            if self._has_questions():
                self._busy = True
                try:
                    await self.ask_git()
                finally:
                    self._busy = False
                continue
            await self._wake.wait()
            await self._quiet()

    async def _quiet(self) -> None:
        """Return when marks have gone out and git is not rewriting the worktree."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(GIT_AFTER_S)
        self._busy_since_s = self._busy_since_s or loop.time()
        until_s = self._busy_since_s + GIT_WAIT_S
        while self.is_rewritten and loop.time() < until_s:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(GIT_AFTER_S)
        if not self.is_rewritten:
            self._busy_since_s = None

    @property
    def is_rewritten(self) -> bool:
        """Whether git is at work in the worktree just now."""
        return self.places is not None and is_locked(self.places)

    async def ask_git(self) -> None:
        await self.memory.catch_up()
        head = self.head
        outdated: set[EntryName] = set()
        names = (self.memory.unsettled | self.memory.unbased) - self._unanswered
        try:
            if not self._tracked_asked:
                self._tracked_asked = True
                assert self.places is not None
                tracked = await asyncio.to_thread(is_tracked, self.places, FILE_NAME)
                self.cache_file.set_tracked(tracked)
            await self._base()
            outdated = await self._explain()
            self.git_problem = None
        except (GitFailed, Refused) as error:
            self.git_problem = error.message
            if self.cache_file.tracked is None:
                self.cache_file.set_tracked(True)  # not known, so not written
        if self.head == head:
            # git has no more to say of this HEAD; asked again when it moves.
            still_open = self.memory.unsettled | self.memory.unbased
            self._unanswered |= (names & still_open) - outdated

    async def _base(self) -> None:
        unbased = []
        owners: dict[int, EntryName] = {}
        for name in list(self.memory.unbased):
            known = self.memory.known(name)
            for version in known.entry.versions if known is not None else ():
                waiting = [
                    source
                    for source, look in zip(version.sources, version.fingerprints, strict=True)
                    if look == TO_BE_BASED
                ]
                if waiting:
                    owners[version.id] = name
                    looks = [await self._look(source) for source in waiting]
                    unbased.append(Unbased(version.id, version.ts, tuple(looks)))
        if not unbased:
            return
        now = datetime.now(UTC)
        based = await asyncio.to_thread(base_versions, self.places, self.head, unbased, now)
        self.memory.based({id_: (owners[id_], prints) for id_, prints in based.items()})

    async def _look(self, source: Source) -> tuple[Source, Fingerprint, int]:
        ground = self.memory.ground
        look = await ground.look_patiently(source)
        seen = ground.last_look(source)
        return source, look, modified_at_ns(seen.stat) if seen is not None else 0

    async def _explain(self) -> set[EntryName]:
        """The entries whose sources changed while git was being asked about them."""
        questions: dict[Source, Question] = {}
        asked_by: dict[bytes, list[tuple[EntryName, int]]] = {}
        for name in self.memory.unsettled - self._unanswered:
            known = self.memory.known(name)
            version = known.judgement.version if known is not None else None
            if known is None or version is None:
                continue
            open_specs = {cause.source for cause in known.judgement.causes if not cause.settled}
            for source, then in zip(version.sources, version.fingerprints, strict=True):
                if source.kind is SourceKind.FILE and source.spec in open_specs:
                    now = self.memory.ground.last(source)
                    questions[source] = Question(source, then, now)
                    asked_by.setdefault(source.path, []).append((name, version.id))
        if not questions:
            return set()
        if self.places is None:
            edited = Explained(committed=False)
            await self._take(self.head, {q.source: (q.now, edited) for q in questions.values()})
            return set()
        head, asked = self.head, list(questions.values())
        told = await asyncio.to_thread(at_head, self.places, head, asked)
        if await self._take(head, told):
            moves = await asyncio.to_thread(moves_of, self.places, head, self.root, asked)
            for old, new in moves.items() if self.head == head else ():
                for name, version_id in asked_by.get(old, ()):
                    self.memory.moved(name, version_id, old, new)
            await self._take(head, await asyncio.to_thread(with_commits, self.places, head, told))
        outdated = [q for q in asked if self.memory.ground.last(q.source) != q.now]
        return {name for q in outdated for name, _ in asked_by[q.source.path]}

    async def _take(self, head: HeadState, told: Told) -> bool:
        """Give what git said to the memory, unless it was about a HEAD that is no more."""
        if self.head == head:
            self.memory.explained(told)
            await self.memory.catch_up()
        return self.head == head

    # -- telling ---------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Sentences a person can act on."""
        found = [self.cache_file.problem, self.git_problem, self.cache_file.shared.last_error]
        if not os.path.isdir(self.root):
            found.append("the worktree's directory is gone")
        return [problem for problem in found if problem]

    def counts(self) -> dict[Verdict, int]:
        counts = dict.fromkeys(Verdict, 0)
        for name in self.memory.names():
            known = self.memory.known(name)
            if known is not None:
                counts[known.judgement.verdict] += 1
        return counts
