"""One worktree as the daemon tends it: its memory, its cache file, its git state.

Marks are immediate; what git has to say about them is asked in a worker, one batch at a time, and
arrives as a refinement.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from amend.core.model import (
    SiblingRule,
    Source,
    Verdict,
)
from amend.daemon.asking import Asking, Whereabouts
from amend.daemon.cache_file import CacheFile
from amend.daemon.contracts import Contracts
from amend.daemon.finding import Finder
from amend.daemon.lock_wait import LockWait
from amend.daemon.memory import Memory, finish_large
from amend.daemon.memory_tree import MemoryTree
from amend.daemon.siblings import Sibling
from amend.edge.git.head import (
    NO_HEAD,
    HeadState,
    is_locked,
    needs_git,
    read_head,
    signal_paths,
)
from amend.edge.git.history import is_tracked
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.run import GitFailed
from amend.edge.store import Store
from amend.edge.watch.interface import Watch
from amend.errors import Refused
from amend.formats.agent_cache import FILE_NAME

# git is asked once the mark has reached whoever listens: its worker would take their turn.
GIT_AFTER_S: Final = 0.01


class Signal(Enum):
    CACHE_FILE = "cache file"
    HEAD = "head"
    WORKTREES = "worktrees"
    CONTRACTS = "contracts"


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
        *,
        store: Store,
    ) -> None:
        self.id = memory.id
        self.root = root
        self.places = places
        self.memory = memory
        self.cache_file = cache_file
        self.finder = Finder(memory, store)
        self.head = NO_HEAD
        self._slow_key = b""  # see `needs_git`
        self._is_head_due = False
        if places is not None:
            self._slow_key = needs_git(places)
            self._is_head_due = bool(self._slow_key)
            if not self._slow_key:
                self.head = read_head(places)
        self.git_problem: str | None = None
        self.siblings: dict[str, Sibling] = {}
        self._sibling_states: dict[str, tuple[object, str | None, str | None]] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._watch = watch
        self._contracts_key = SignalKey(self, Signal.CONTRACTS)
        self.contracts = Contracts(memory, watch, self._contracts_key)
        self.trees: tuple[MemoryTree, ...] = ()  # see `Tending`
        self._head_key = SignalKey(self, Signal.HEAD)
        self._file_key = SignalKey(self, Signal.CACHE_FILE)
        self._worktrees_key = SignalKey(self, Signal.WORKTREES)
        self._aimed: set[tuple[bytes, bytes]] = set()
        self._wake = asyncio.Event()
        self._asking = Asking(memory, self._whereabouts)
        self._tracked_asked = False
        self._busy = False
        self._lock_wait = LockWait(lambda: self.is_rewritten)
        memory.on_changed = self._memory_changed
        memory.on_behind = self._wake.set
        if places is None:
            cache_file.set_tracked(False)
            self._tracked_asked = True

    # -- watching --------------------------------------------------------------------------------

    def arm(self) -> None:
        assert self._watch is not None
        self._watch.want(self.root, FILE_NAME, self._file_key)
        if self.places is not None:
            self._watch.add_root(self.places.common_dir)
            self._watch.want_names(self.places.common_dir, b"worktrees", self._worktrees_key)
        self._aim_at_head()

    def _aim_at_head(self) -> None:
        if self._watch is None:
            return
        states = [(self.places, self.head)]
        states += [(sibling.places, sibling.head) for sibling in self.siblings.values()]
        wanted = {
            path
            for places, head in states
            if places is not None
            for path in signal_paths(places, head)
        }
        # Its own coming, or becoming a repository.
        wanted |= {(sibling.root, b".git") for sibling in self.siblings.values()}
        for base, path in wanted - self._aimed:
            self._watch.add_root(base)
            self._watch.want(base, path, self._head_key)
        for base, path in self._aimed - wanted:
            self._watch.unwant(base, path, self._head_key)
        self._aimed = wanted

    def refresh_head(self) -> None:
        """Look at what is checked out, here and in siblings; if that changed, what git said before
        is void."""
        moved = self._refresh_siblings()
        if self.places is None:
            self._head_is(NO_HEAD, moved)
            return
        key = needs_git(self.places)
        if not key:
            self._head_is(read_head(self.places), moved)
        elif key != self._slow_key:
            self._slow_key, self._is_head_due = key, True
            self._wake.set()
        elif moved:
            self._head_is(self.head, moved)

    def _head_is(self, head: HeadState, moved: bool) -> None:
        """`moved`: a sibling's has."""
        if (head.symref, head.oid) != (self.head.symref, self.head.oid):
            self._tracked_asked = False
            moved = True
        elif head == self.head and not moved:
            return
        self.head = head
        for tree in self.trees:
            tree.resume()
        self._aim_at_head()
        if moved:
            self.memory.head_moved()
            self._wake.set()

    def _refresh_siblings(self) -> bool:
        moved = False
        for name, sibling in self.siblings.items():
            sibling.look()
            sibling.refresh_head()
            now = sibling.places, sibling.head.symref, sibling.head.oid
            # Compared with what was last seen here: a question may have looked in between.
            if now != self._sibling_states.get(name):
                self._sibling_states[name] = now
                moved = True
                self._look_later(self.memory.touched(self.memory.ground.in_sibling(name)))
        return moved

    def set_siblings(self, rules: Iterable[SiblingRule]) -> None:
        """What entries may cite as `name:path`, from now on."""
        rules = tuple(rules)
        if rules == tuple(sibling.rule for sibling in self.siblings.values()):
            return
        self.siblings = {rule.name: Sibling(rule) for rule in rules}
        if self._watch is not None:
            for sibling in self.siblings.values():
                self._watch.add_root(sibling.root)
        sources = self.memory.ground.set_siblings(self.siblings)
        self._aim_at_head()
        self._look_later(self.memory.touched(sources))

    def _look_later(self, large: list[Source]) -> None:
        """At what takes a worker; without a loop, whoever asks looks."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if large:
            task = loop.create_task(finish_large(self.memory, large))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    def disarm(self) -> None:
        """Stop watching anything for it."""
        assert self._watch is not None
        self.memory.ground.drop(list(self.memory.ground.held()))
        self.contracts.disarm()
        self._watch.unwant(self.root, FILE_NAME, self._file_key)
        if self.places is not None:
            self._watch.unwant_names(self.places.common_dir, b"worktrees", self._worktrees_key)
        for base, path in self._aimed:
            self._watch.unwant(base, path, self._head_key)

    @property
    def watched_roots(self) -> set[bytes]:
        """Where the watch is hung for it; others may use the same."""
        siblings = {sibling.root for sibling in self.siblings.values()}
        own = {self.root} if self.places is None else {self.root, self.places.common_dir}
        return own | siblings | {base for base, _ in self._aimed}

    def _memory_changed(self) -> None:
        self.cache_file.request()
        self._wake.set()

    # -- asking git ------------------------------------------------------------------------------

    def _has_questions(self) -> bool:
        return (
            not self._tracked_asked
            or self._is_head_due
            or self.memory.is_behind
            or self._asking.has_questions
        )

    def stop(self) -> None:
        for task in self._looking:
            task.cancel()
        self.finder.stop()
        self.cache_file.close()

    @property
    def settled(self) -> bool:
        """Whether git has answered all that was asked of it."""
        return not self._busy and not self._looking and not self._has_questions()

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
        while self._lock_wait.lasts(loop.time()):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(GIT_AFTER_S)

    @property
    def is_rewritten(self) -> bool:
        """Whether git is at work in the worktree just now."""
        return self.places is not None and is_locked(self.places)

    async def ask_git(self) -> None:
        if self._is_head_due:
            self._is_head_due = False
            assert self.places is not None
            self._head_is(await asyncio.to_thread(read_head, self.places), moved=False)
        await self.memory.catch_up()
        try:
            if not self._tracked_asked:
                self._tracked_asked = True
                assert self.places is not None
                tracked = await asyncio.to_thread(is_tracked, self.places, FILE_NAME)
                self.cache_file.set_tracked(tracked)
            self.contracts.cite(await self._asking.ask())
            self.git_problem = None
        except (GitFailed, Refused) as error:
            self.git_problem = error.message
            if self.cache_file.tracked is None:
                self.cache_file.set_tracked(True)  # not known, so not written

    def _whereabouts(self, repository: str | None) -> Whereabouts:
        if repository is None:
            return Whereabouts(self.places, self.head, self.root)
        sibling = self.siblings.get(repository)
        if sibling is None:
            return Whereabouts(None, NO_HEAD, self.root)
        return Whereabouts(sibling.places, sibling.head, sibling.root, sibling.is_worktree)

    # -- telling ---------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Sentences a person can act on."""
        found = [self.cache_file.problem, self.git_problem, self.cache_file.shared.last_error]
        found += [sibling.problem for sibling in self.siblings.values()]
        found += self.contracts.problems()
        found += [problem for tree in self.trees for problem in tree.problems()]
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
