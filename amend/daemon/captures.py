"""Stores what explorations find: the finding as a topic, resting on exactly what was looked at.

An exploration is known by three things that come in any order: the call that starts it, which
says what was asked; its launch, which ties the call to its id; and its end, which may come several
times, the last of them being the one that counts. Everything slow happens after `ended` has
returned: its transcript is read in a worker, and read again for as long as it does not say yet what
the exploration said last; then its files are looked at and the entry is put, as through the API.

Guarantees: an exploration has one entry, however often it ends; an entry never rests on less than
what is known to have been looked at (a transcript that is too large, or that leaves out what was
found out in another one, stores nothing); a file that has changed since it was read makes the entry
stale at birth; nothing that looks like a secret is stored.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from amend.core.agent import (
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
    Session,
    digest_of,
)
from amend.core.capturing import Ranked, entry_for, key_for, own_path, summary_of
from amend.core.explored import Explored, Meta
from amend.core.model import EntryName, Kind, Place, SourceKind, Version, path_bytes
from amend.core.secrets import find_secret
from amend.core.wording import HEAD
from amend.daemon.captured_sources import (
    Found,
    Territory,
    checked_out,
    evidence_of,
    found_by,
    prints_then,
)
from amend.daemon.explorations import Explorations, Noted
from amend.daemon.tending import Tending
from amend.daemon.transcripts import NO_META, READERS, NotRead, is_complete, read_transcript
from amend.daemon.worktree import Worktree
from amend.edge.store_hooks import Exploration
from amend.errors import AmendError
from amend.formats.agent_cache import topic_payload

# Claude Code 2.1.197 writes the last lines of a transcript after it has told of the end
# (research/hooks-verified.md, section 0.7): half a second later, and once more two seconds after
# the end, for a busy disk.
AGAIN_S: Final = (0.5, 1.5)

# Each may hold a transcript of 64 MiB, and what Python makes of it.
READ_AT_ONCE: Final = 2

# Whoever asks for everything to be settled waits for a disk that hangs no longer than for git; who
# stops the daemon, for no longer than a busy disk takes.
SETTLE_S: Final = 10.0
STOP_S: Final = 2.0

# Explorations that an exploration was made of; Claude Code nests 5 deep.
SPAWNED_MAX: Final = 20

# Claude Code tells 120,000 characters whole; a page of a finding has 3,000.
DETAIL_CHARS_MAX: Final = 256 << 10
TASK_CHARS_MAX: Final = 200
QUESTION_CHARS_MAX: Final = 8_000


class Explorers(Protocol):
    @property
    def explorers(self) -> frozenset[str]:
        """The types of subagents whose findings are stored."""
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """An exploration that was stored as `name`, which rests on so many sources."""

    agent: str
    exploration: str
    repo: str
    name: EntryName
    version: int
    sources: int


@dataclass(slots=True)
class _Ended:
    """An exploration that has ended, with all that its ends have said of it."""

    said: ExplorationEnded
    at: datetime
    bases: dict[bytes, str] = field(default_factory=dict)  # see `Found`
    task: "asyncio.Task[None] | None" = None
    stored: int | None = None  # stands for the finding that was stored of it last

    @property
    def is_at_work(self) -> bool:
        return self.task is not None and not self.task.done()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class _Finding:
    """All that there is to store of an exploration."""

    explored: Explored
    answer: str
    description: str
    prompt: str
    began_at: datetime | None
    head: str | None

    @property
    def question(self) -> str:
        return f"{self.description}\n{self.prompt}".strip()[:QUESTION_CHARS_MAX]

    @property
    def asked(self) -> bytes:
        return digest_of(self.description, self.prompt)

    @property
    def task(self) -> str:
        lines = (self.description or self.prompt).strip().splitlines()
        return lines[0][:TASK_CHARS_MAX] if lines else ""


async def _ranked(worktree: Worktree, question: str) -> Sequence[Ranked]:
    return await worktree.finder.find(question, 1)


class Captures:
    def __init__(
        self,
        tending: Tending,
        *,
        settings: Callable[[], Explorers],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_stored: Callable[[Stored], object] = lambda stored: None,
        on_bug: Callable[[BaseException], object] = lambda error: None,
        ranked: Callable[[Worktree, str], Awaitable[Sequence[Ranked]]] = _ranked,
        again_s: Sequence[float] = AGAIN_S,
    ) -> None:
        """`ranked`: the entries that a question may be about, best first."""
        self.stored = 0
        self.dropped: dict[str, int] = {}  # by why
        self.withheld: dict[str, int] = {}  # by the rule for secrets that they trip
        self.left_out = 0  # paths of what was stored that are no sources
        self._tending = tending
        self._settings = settings
        self._now = now
        self._on_stored = on_stored
        self._on_bug = on_bug
        self._ranked = ranked
        self._again_s = again_s
        self._explorations = Explorations(now)
        self._ended: Noted[_Ended] = Noted(now)  # by exploration
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._storing = asyncio.Lock()  # so that each finds what the one before has stored
        self._stopping = asyncio.Event()

    # -- what hooks tell -------------------------------------------------------------------------

    def starting(self, question: ExplorationStarting) -> None:
        if question.agent_type in self._settings().explorers:
            worktree = self._worktree_at(_bytes(question.session.directory))
            head = worktree.head.oid if worktree is not None else None
            self._explorations.starting(question, head)

    def launched(self, question: ExplorationLaunched) -> None:
        self._explorations.launched(question)

    def ended(self, question: ExplorationEnded) -> None:
        agent, name = question.session.agent, (question.session.agent, question.exploration)
        if not question.exploration or not question.agent_type or self._stopping.is_set():
            return
        said = self._explorations.ended(question)
        if question.agent_type not in self._settings().explorers or agent not in READERS:
            return
        ended = _Ended(said, self._now())
        before = self._ended.get(name)
        if before is not None:
            before.cancel()
            ended.bases, ended.stored = before.bases, before.stored
        # Now: the worktree of a subagent is gone as soon as this hook is answered.
        _, through = own_path(_bytes(question.session.directory))
        base = self._checked_out(through) if through else None
        ended.bases |= {through: base} if base is not None else {}
        self._ended.put(name, ended)
        self._schedule(ended)

    def failed(self, question: ExplorationFailed) -> None:
        exploration = self._explorations.failed(question)
        ended = self._ended.get((question.session.agent, exploration))
        if ended is not None and ended.is_at_work:
            ended.cancel()
            self._drop("failed")

    # -- living ----------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Return when all that was scheduled before is done, or after a while.

        What a disk that hangs still holds up after a `stop` is given up.
        """
        is_last = self._stopping.is_set()
        if self._tasks:
            limit_s = STOP_S if is_last else SETTLE_S
            _, late = await asyncio.wait(set(self._tasks), timeout=limit_s)
            for task in late if is_last else ():
                task.cancel()

    def stop(self) -> None:
        """Take nothing more, and wait for no transcript to grow: `settle` stores what there is."""
        self._stopping.set()

    def figures(self) -> Mapping[str, object]:
        """Of this daemon's life."""
        return {
            "stored": self.stored,
            "dropped": dict(self.dropped),
            "withheld": dict(self.withheld),
            "left_out": self.left_out,
        }

    def _schedule(self, ended: _Ended) -> None:
        task = asyncio.get_running_loop().create_task(self._capture(ended))
        ended.task = task
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_bug(error)

    def _drop(self, why: str) -> None:
        self.dropped[why] = self.dropped.get(why, 0) + 1

    # -- one exploration -------------------------------------------------------------------------

    async def _capture(self, ended: _Ended) -> None:
        """Read what it did and store it; what is in the way is counted, never raised."""
        try:
            finding = await self._finding(ended)
            if ended.stored == hash((finding.answer, finding.explored)):
                return
            async with self._storing:
                worktree = self._worktree(ended, finding.explored)
                territory, found = await self._found(ended, finding, worktree)
                async with _held(worktree, found):
                    prints = await asyncio.to_thread(prints_then, found, territory)
                    evidence = await asyncio.to_thread(evidence_of, territory, found.seen, prints)
                    summary = await asyncio.to_thread(self._summary, finding)
                    ranked = await self._ranked(worktree, finding.question)
                    version = Version(
                        0, tuple(prints), tuple(prints.values()), ended.at, evidence=evidence
                    )
                    self._store(ended, finding, worktree, version, summary=summary, ranked=ranked)
                    self.left_out += found.left_out
        except _Secret as rule:
            self.withheld[str(rule)] = self.withheld.get(str(rule), 0) + 1
        except (_NotStored, NotRead) as reason:
            self._drop(str(reason))

    async def _finding(self, ended: _Ended) -> _Finding:
        explored, meta = await self._read(ended)
        for delay_s in self._again_s:
            if explored is not None and is_complete(explored, ended.said.text):
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            explored, meta = await self._read(ended)
        if explored is None:
            raise _NotStored("no_transcript")
        answer = (ended.said.text.strip() or explored.text.strip())[:DETAIL_CHARS_MAX]
        if not answer:
            raise _NotStored("no_answer")
        agent, said = ended.said.session.agent, ended.said
        call = said.call or self._explorations.call_of(agent, said.exploration)
        pending = self._explorations.pending(agent, call or meta.call or explored.call)
        asked = pending.asked if pending is not None else None
        # The subagent was asked what it was asked, and what amend had to say besides.
        prompt = explored.prompt.partition(f"\n\n{HEAD}")[0]
        explored = await self._with_spawned(said.session, explored)
        return _Finding(
            explored,
            answer,
            (asked.description if asked else "") or said.description or meta.description,
            (asked.prompt if asked else "") or said.prompt or prompt,
            explored.started_at or (pending.at if pending is not None else None),
            pending.head if pending is not None else None,
        )

    async def _read(self, ended: _Ended) -> tuple[Explored | None, Meta]:
        said = ended.said
        if not said.transcript:
            return None, NO_META
        path = os.path.join(said.session.directory, said.transcript)
        async with self._reading:
            return await asyncio.to_thread(read_transcript, said.session.agent, path)

    async def _with_spawned(self, session: Session, explored: Explored) -> Explored:
        """With what was looked at by the explorations that it started itself."""
        agent = session.agent
        to_read, known = list(explored.spawned), set(explored.spawned)
        while to_read:
            call = to_read.pop()
            if self._explorations.has_failed(agent, call):
                continue
            path = self._explorations.transcript_of(agent, call)
            if not path or len(known) > SPAWNED_MAX:
                raise _NotStored("unknown_part")
            async with self._reading:
                whole = os.path.join(session.directory, path)
                part, _ = await asyncio.to_thread(read_transcript, agent, whole)
            if part is None:
                raise _NotStored("unknown_part")
            to_read += [each for each in part.spawned if each not in known]
            known.update(part.spawned)
            reads, tokens = explored.reads + part.reads, explored.tokens + part.tokens
            explored = replace(explored, reads=reads, tokens=tokens)
        return explored

    # -- where -----------------------------------------------------------------------------------

    def _worktree(self, ended: _Ended, explored: Explored) -> Worktree:
        """The session's worktree; where its directory is one of a subagent's that belongs to none,
        the one in which most was read."""
        directory, through = own_path(_bytes(ended.said.session.directory))
        worktree = self._worktree_at(directory)
        if worktree is None and through:
            counts: dict[str, int] = {}
            for read in explored.reads:
                path, _ = own_path(os.path.join(directory, _bytes(read.path)))
                there = self._worktree_at(os.path.dirname(path))
                if there is not None:
                    counts[there.id] = counts.get(there.id, 0) + 1
            if counts:
                worktree = self._tending.worktrees[max(counts, key=counts.__getitem__)]
        if worktree is None:
            raise _NotStored("no_worktree")
        return worktree

    def _worktree_at(self, directory: bytes) -> Worktree | None:
        try:
            return self._tending.find(own_path(directory)[0]) if directory else None
        except (AmendError, OSError, ValueError):
            return None

    def _checked_out(self, through: bytes) -> str | None:
        tended = (w.head.oid for w in self._tending.worktrees.values() if w.root == through)
        return checked_out(through) or next(tended, None)

    # -- what it rests on ------------------------------------------------------------------------

    async def _found(
        self, ended: _Ended, finding: _Finding, worktree: Worktree
    ) -> tuple[Territory, Found]:
        explored = finding.explored
        places: list[tuple[bytes, str | None]] = [(worktree.root, None)]
        places += [(s.root, name) for name, s in worktree.siblings.items() if s.is_worktree]
        directory = _bytes(explored.cwd) or _bytes(ended.said.session.directory)
        head = finding.head or worktree.head.oid
        territory = Territory(tuple(places), directory, worktree.places, head)
        found = await asyncio.to_thread(
            found_by, explored, finding.answer, territory, finding.began_at, ended.bases
        )
        if not found.seen:
            raise _NotStored("nothing_read")
        return territory, found

    # -- storing ---------------------------------------------------------------------------------

    @staticmethod
    def _summary(finding: _Finding) -> str:
        """Raises where anything that would be kept looks like a secret."""
        summary = summary_of(finding.answer)
        rule = find_secret(f"{finding.task}\n{summary}") or find_secret(finding.answer)
        if rule is not None:
            raise _Secret(rule)
        return summary

    def _store(
        self,
        ended: _Ended,
        finding: _Finding,
        worktree: Worktree,
        version: Version,
        *,
        summary: str,
        ranked: Sequence[Ranked],
    ) -> None:
        """Put the entry. Without a pause: nobody else takes its key meanwhile."""
        if self._tending.worktrees.get(worktree.id) is not worktree:
            raise _NotStored("no_worktree")
        answer = finding.answer
        self._tending.drain()
        worktree.cache_file.refresh()
        name = self._name(ended, finding, worktree, ranked)
        files = [source.spec for source in version.sources]
        is_written = worktree.cache_file.may_write() is None
        hooks = self._tending.store.hooks

        def also(version_id: int) -> None:
            if answer != summary:
                hooks.save_detail(version_id, answer)
            hooks.add_exploration(self._exploration(ended, finding, worktree, name, version_id))

        known = worktree.memory.put(
            name,
            version,
            topic_payload(summary, files, ended.at),
            Place.COMING if is_written else Place.STORE,
            also=also,
        )
        id_, said = known.entry.versions[0].id, ended.said
        ended.stored = hash((answer, finding.explored))
        self.stored += 1
        agent = said.session.agent
        self._on_stored(Stored(agent, said.exploration, worktree.id, name, id_, len(files)))

    def _name(
        self, ended: _Ended, finding: _Finding, worktree: Worktree, ranked: Sequence[Ranked]
    ) -> EntryName:
        said, memory = ended.said, worktree.memory
        before = self._tending.store.hooks.exploration(said.session.agent, said.exploration)
        if before is not None and before[0] == worktree.id:
            return before[1]
        same = self._tending.store.hooks.found_by(worktree.id, finding.asked)
        if same is not None and same.kind is Kind.TOPIC:
            return same
        matching = entry_for(finding.task, ranked)
        if matching is not None and memory.known(matching) is not None:
            return matching
        taken = {name.key for name in memory.all_known()}
        return EntryName(Kind.TOPIC, key_for(finding.task, taken.__contains__))

    def _exploration(
        self, ended: _Ended, finding: _Finding, worktree: Worktree, name: EntryName, version: int
    ) -> Exploration:
        explored, said = finding.explored, ended.said
        until = explored.ended_at or ended.at
        seconds = (until - finding.began_at).total_seconds() if finding.began_at else 0.0
        return Exploration(
            agent=said.session.agent,
            id=said.exploration,
            session=said.session.id,
            repo=worktree.id,
            name=name,
            version=version,
            asked=finding.asked,
            task=finding.task,
            tokens=explored.tokens.total,
            seconds=max(0.0, seconds),
            at=ended.at,
        )


class _Secret(Exception):
    """The rule that a text trips; nothing of it."""


class _NotStored(Exception):
    """Why, in a word."""


def _bytes(path: str) -> bytes:
    """b"" for what no path can be."""
    try:
        return path_bytes(path)
    except UnicodeEncodeError:
        return b""


@asynccontextmanager
async def _held(worktree: Worktree, found: Found) -> AsyncIterator[None]:
    """Watched and looked at in workers, so that whoever puts the entry need not hash them on the
    loop; watched no longer where no entry rests on them."""
    ground = worktree.memory.ground
    sources = [each.source for each in found.seen]
    new = [source for source in sources if not ground.holds(source)]
    ground.hold(new)
    try:
        files = [source for source in new if source.kind is SourceKind.FILE]
        await asyncio.gather(*(ground.hash_in_worker(source) for source in files))
        yield
    finally:
        ground.drop([source for source in new if not worktree.memory.resting_on([source])])
