"""One worktree as the daemon tends it: its memory, its cache file, its git state.

Marks are immediate; what git has to say about them is asked in a worker, one batch at a time, and
arrives as a refinement.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from amend.core.freshness import Explained
from amend.core.model import (
    EntryName,
    FilePrint,
    Fingerprint,
    RelPath,
    SiblingRule,
    Source,
    SourceKind,
    Verdict,
)
from amend.daemon.by_content import at_hash
from amend.daemon.cache_file import CacheFile
from amend.daemon.contracts import Contracts
from amend.daemon.explain import (
    Question,
    Told,
    Unbased,
    at_head,
    base_versions,
    lf_blob,
    moves_of,
    with_commits,
)
from amend.daemon.memory import TO_BE_BASED, Memory, finish_large, pending_oid
from amend.daemon.siblings import Sibling
from amend.edge.files.look import modified_at_ns
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
from amend.edge.watch.interface import Watch
from amend.errors import Refused
from amend.formats.agent_cache import FILE_NAME
from amend.formats.contract import Reference

# git is asked once the mark has reached whoever listens: its worker would take their turn.
GIT_AFTER_S: Final = 0.01

# Nor while git rewrites the worktree; a lock that a crash left is waited for no longer than this
# (one stood for 28 minutes, research/watching.md section 5).
GIT_WAIT_S: Final = 5.0


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
    ) -> None:
        self.id = memory.id
        self.root = root
        self.places = places
        self.memory = memory
        self.cache_file = cache_file
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
        self._head_key = SignalKey(self, Signal.HEAD)
        self._file_key = SignalKey(self, Signal.CACHE_FILE)
        self._worktrees_key = SignalKey(self, Signal.WORKTREES)
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
        self._aim_at_head()
        if moved:
            self._unanswered.clear()
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
            or not self.memory.unsettled <= self._unanswered
            or not self.memory.unbased <= self._unanswered
        )

    def stop(self) -> None:
        for task in self._looking:
            task.cancel()
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
        if self._is_head_due:
            self._is_head_due = False
            assert self.places is not None
            self._head_is(await asyncio.to_thread(read_head, self.places), moved=False)
        await self.memory.catch_up()
        heads = self._heads()
        outdated: set[EntryName] = set()
        names = (self.memory.unsettled | self.memory.unbased) - self._unanswered
        try:
            if not self._tracked_asked:
                self._tracked_asked = True
                assert self.places is not None
                tracked = await asyncio.to_thread(is_tracked, self.places, FILE_NAME)
                self.cache_file.set_tracked(tracked)
            await self._base()
            await self._resolve()
            outdated = await self._explain()
            self.git_problem = None
        except (GitFailed, Refused) as error:
            self.git_problem = error.message
            if self.cache_file.tracked is None:
                self.cache_file.set_tracked(True)  # not known, so not written
        if self._heads() == heads:
            # git has no more to say of these HEADs; asked again when one moves.
            still_open = self.memory.unsettled | self.memory.unbased
            self._unanswered |= (names & still_open) - outdated

    def _heads(self) -> list[tuple[str | None, str | None]]:
        """What git was asked about, when it is asked; an operation that ends changes none of it."""
        heads = [self.head, *(sibling.head for sibling in self.siblings.values())]
        return [(head.symref, head.oid) for head in heads]

    def _is_still(self, repository: str | None, head: HeadState) -> bool:
        now = self._git_of(repository)[1]
        return (now.symref, now.oid) == (head.symref, head.oid)

    def _git_of(self, repository: str | None) -> tuple[RepositoryPlaces | None, HeadState, bytes]:
        """Whom to ask about a source there: places, what is "now", and the root."""
        if repository is None:
            return self.places, self.head, self.root
        sibling = self.siblings.get(repository)
        if sibling is None:
            return None, NO_HEAD, self.root
        return sibling.places, sibling.head, sibling.root

    async def _base(self) -> None:
        unbased: dict[str | None, list[Unbased]] = {}
        owners: dict[int, EntryName] = {}
        for name in list(self.memory.unbased):
            known = self.memory.known(name)
            for version in known.entry.versions if known is not None else ():
                waiting = [
                    source
                    for source, look in zip(version.sources, version.fingerprints, strict=True)
                    if look == TO_BE_BASED
                ]
                owners[version.id] = name
                for repository in dict.fromkeys(source.repository for source in waiting):
                    there = [source for source in waiting if source.repository == repository]
                    looks = tuple([await self._look(source) for source in there])
                    asked = Unbased(version.id, version.ts, looks)
                    unbased.setdefault(repository, []).append(asked)
        now = datetime.now(UTC)
        for repository, asked_there in unbased.items():
            places, head, root = self._git_of(repository)
            based = await asyncio.to_thread(base_versions, places, head, root, asked_there, now)
            self.memory.based({id_: (owners[id_], prints) for id_, prints in based.items()})

    async def _resolve(self) -> None:
        """What the hashes of contracts stand for: one question for each commit."""
        owners: dict[int, EntryName] = {}
        asked: dict[tuple[str | None, str], list[tuple[int, Reference]]] = {}
        for name in list(self.memory.unbased):
            known = self.memory.known(name)
            for version in known.entry.versions if known is not None else ():
                owners[version.id] = name
                for source, look in zip(version.sources, version.fingerprints, strict=True):
                    oid = pending_oid(look)
                    if oid is not None:
                        there = asked.setdefault((source.repository, oid), [])
                        there.append((version.id, Reference(source, oid)))
        told: dict[int, dict[Source, Fingerprint]] = {}
        for (repository, oid), references in asked.items():
            places, _, root = self._git_of(repository)
            if places is None:
                continue  # asked again when it is there
            wanted = [reference for _, reference in references]
            prints = await asyncio.to_thread(at_hash, places, oid, wanted)
            for version_id, reference in references:
                found = prints[reference]
                if isinstance(found, FilePrint):
                    found = replace(found, mode=0)  # a hash in a contract is of bytes alone
                    now = self.memory.ground.last(reference.source)
                    if isinstance(now, FilePrint) and now.blob != found.blob:
                        lf = await asyncio.to_thread(lf_blob, root, reference.source.path, now.blob)
                        if lf == found.blob:  # git wrote it with CRLF
                            found = replace(found, blob=now.blob)
                told.setdefault(version_id, {})[reference.source] = found
        if told:
            self.memory.based({id_: (owners[id_], prints) for id_, prints in told.items()})
            self.contracts.cite({owners[id_] for id_ in told})

    async def _look(self, source: Source) -> tuple[Source, Fingerprint, int]:
        ground = self.memory.ground
        look = await ground.look_patiently(source)
        seen = ground.last_look(source)
        return source, look, modified_at_ns(seen.stat) if seen is not None else 0

    async def _explain(self) -> set[EntryName]:
        """The entries whose sources changed while git was being asked about them."""
        questions: dict[str | None, dict[Question, list[tuple[EntryName, int]]]] = {}
        for name in self.memory.unsettled - self._unanswered:
            known = self.memory.known(name)
            version = known.judgement.version if known is not None else None
            if known is None or version is None:
                continue
            open_specs = {cause.source for cause in known.judgement.causes if not cause.settled}
            for source, then in zip(version.sources, version.fingerprints, strict=True):
                if source.kind is SourceKind.FILE and source.spec in open_specs:
                    now = self.memory.ground.last(source)
                    there = questions.setdefault(source.repository, {})
                    question = Question(source, then, now)
                    there.setdefault(question, []).append((name, version.id))
        outdated: set[EntryName] = set()
        for repository, there in questions.items():
            await self._explain_there(repository, there)
            for question, askers in there.items():
                if self.memory.ground.last(question.source) != question.now:
                    outdated.update(name for name, _ in askers)
        return outdated

    async def _explain_there(
        self,
        repository: str | None,
        asked_by: Mapping[Question, list[tuple[EntryName, int]]],
    ) -> None:
        asked = list(asked_by)
        places, head, root = self._git_of(repository)
        if repository is not None and places is not None and needs_git(places):
            return  # a sibling's reftable is not read; why it changed stays open
        if places is None:
            edited = Explained(committed=False)
            await self._take(repository, head, {q.source: (q.now, edited) for q in asked})
            return
        told = await asyncio.to_thread(at_head, places, head, root, asked)
        if not await self._take(repository, head, told):
            return
        if repository is None or self.siblings[repository].is_worktree:
            for some in _each_path_once(asked):
                moves = await asyncio.to_thread(moves_of, places, head, root, some)
                if not self._is_still(repository, head):
                    break
                for question in some:
                    if question.source.path in moves:
                        new = moves[question.source.path]
                        for name, version_id in asked_by[question]:
                            self.memory.moved(name, version_id, question.source, new)
        told = await asyncio.to_thread(with_commits, places, head, told)
        await self._take(repository, head, told)

    async def _take(self, repository: str | None, head: HeadState, told: Told) -> bool:
        """Give what git said to the memory, unless it was about a HEAD that is no more."""
        if self._is_still(repository, head):
            self.memory.explained(told)
            await self.memory.catch_up()
        return self._is_still(repository, head)

    # -- telling ---------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Sentences a person can act on."""
        found = [self.cache_file.problem, self.git_problem, self.cache_file.shared.last_error]
        found += [sibling.problem for sibling in self.siblings.values()]
        found += self.contracts.problems()
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


def _each_path_once(asked: Iterable[Question]) -> list[list[Question]]:
    """The questions in as few lists as have no path twice: findings may have seen a file in
    different states."""
    lists: list[dict[RelPath, Question]] = []
    for question in asked:
        path = question.source.path
        free = next((each for each in lists if path not in each), None)
        if free is None:
            lists.append(free := {})
        free[path] = question
    return [list(each.values()) for each in lists]
