"""What an agent's hooks are answered: which finding is offered when, and once.

A hook's question is turned into an answer here, whichever agent asks; the agent's own module says
it in that agent's words. What a session was told is in the store, so that a restart of the daemon
tells nothing twice.

Guarantees: `exchange` never raises and waits for no disk but the store's; nothing is called fresh
that was not verified after the question came; no answer for a subagent, and none where an
exploration has ended.
"""

import os
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import orjson

from amend.agents.known import AGENTS
from amend.core.agent import (
    NOTHING,
    Answer,
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
    FilesEdited,
    PromptGiven,
    Question,
    Session,
    SessionOpened,
    digest_of,
)
from amend.core.matching import Match
from amend.core.model import (
    CauseKind,
    EntryName,
    Judgement,
    Kind,
    RelPath,
    Source,
    SourceKind,
    Verdict,
    path_bytes,
)
from amend.core.wording import (
    Checked,
    Finding,
    head_start_text,
    instead_text,
    prompt_text,
    session_text,
)
from amend.daemon.answers import Answers
from amend.daemon.memory import Known
from amend.daemon.tending import Tending
from amend.daemon.worktree import Worktree
from amend.edge.store_hooks import SessionAt, Told, Use
from amend.errors import AmendError, DocumentInvalid
from amend.formats.config import Explore

# The socket gives up at 50 ms (DESIGN section 6); what was told must have been sent.
ANSWERED_S: Final = 0.04

# The entries' words are read at the first question; some hundred are within this.
READ_S: Final = 0.02

# As many keys as fit the session's text; each is verified, at some 40 µs.
FRESH_MAX: Final = 60
STALE_MAX: Final = 10

# Issue 5: two fit a prompt without hiding it.
BESIDE_PROMPT_MAX: Final = 2
MATCHES_MAX: Final = 5

# A question of more is a document; its beginning says what it is about.
QUESTION_CHARS_MAX: Final = 8_000

_TRUE_IN_PART: Final = frozenset(
    {
        CauseKind.EDITED,
        CauseKind.COMMITTED,
        CauseKind.DELETED,
        CauseKind.MOVED,
        CauseKind.APPEARED,
        CauseKind.EVIDENCE,
        CauseKind.EXPIRED,
    }
)


@dataclass(frozen=True, slots=True)
class HookSettings:
    """`explorers`: the types of subagents that only look around."""

    explore: Explore = Explore.ANSWER
    explorers: frozenset[str] = frozenset()


class Captures(Protocol):
    """Who stores what explorations find; each call returns at once."""

    def starting(self, question: ExplorationStarting) -> None: ...
    def launched(self, question: ExplorationLaunched) -> None: ...
    def ended(self, question: ExplorationEnded) -> None: ...
    def failed(self, question: ExplorationFailed) -> None: ...


class Hooks:
    def __init__(
        self,
        tending: Tending,
        answers: Answers,
        captures: Captures,
        *,
        settings: HookSettings,
        on_bug: Callable[[BaseException], object] = lambda error: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.failed = 0  # hook input that is none, or too slow to answer
        self._tending = tending
        self._answers = answers
        self._captures = captures
        self._on_bug = on_bug
        self._now = now
        self._monotonic_s = monotonic_s
        self._records = tending.store.hooks

    async def exchange(self, agent: str, body: bytes) -> bytes:
        """The reply to a hook's input, b"" for none."""
        try:
            document = orjson.loads(body)
            if not isinstance(document, dict):
                raise DocumentInvalid("hook input is no JSON object")
            question = AGENTS[agent].question(document)
            if question is None:
                return b""
            answer = await self._answer(question, self._monotonic_s() + ANSWERED_S)
            return AGENTS[agent].reply(document, answer)
        except (AmendError, orjson.JSONDecodeError, TimeoutError, OSError):
            self.failed += 1
        except Exception as error:
            self.failed += 1
            self._on_bug(error)
        return b""

    async def _answer(self, question: Question, until_s: float) -> Answer:
        worktree = self._worktree(question.session)
        if worktree is None:
            return NOTHING
        match question:
            case SessionOpened():
                return await self._opened(question, worktree)
            case PromptGiven():
                return await self._prompted(question, worktree, until_s)
            case ExplorationStarting():
                return await self._starting(question, worktree, until_s)
            case FilesEdited():
                self._edited(question, worktree)
            case ExplorationLaunched():
                self._captures.launched(question)
            case ExplorationEnded():
                self._captures.ended(question)
            case ExplorationFailed():
                self._captures.failed(question)
        return NOTHING

    def _worktree(self, session: Session) -> Worktree | None:
        try:
            return self._tending.find(path_bytes(session.directory))
        except (AmendError, UnicodeEncodeError):
            return None

    # -- a session opens -------------------------------------------------------------------------

    async def _opened(self, question: SessionOpened, worktree: Worktree) -> Answer:
        now, memory = self._now(), worktree.memory
        worktree.finder.warm()  # reads the entries' words before they are asked for
        known = [each for name in memory.names() if (each := memory.known(name)) is not None]
        with self._tending.store.transaction(durable=False):
            before = self._records.opened(worktree.id, now)
        fresh, rest = await self._most_useful(worktree, known)
        gone = [
            each
            for each in known
            if before is not None
            and each.judgement.verdict is Verdict.STALE
            and each.since is not None
            and each.since >= before
        ]
        gone.sort(key=lambda each: (each.since, each.entry.name.key), reverse=True)
        stale = [
            self._finding(each, judgement)
            for each in gone[:STALE_MAX]
            if (judgement := await memory.answer(each)).verdict is Verdict.STALE
        ]
        index = worktree.trees[0].root_lines() if worktree.trees else ()
        return Answer(context=session_text(fresh, rest, stale, index))

    async def _most_useful(
        self, worktree: Worktree, known: Iterable[Known]
    ) -> tuple[list[EntryName], int]:
        """Names of verified entries, and how many more there may be. A tree lists its notes."""
        uses = self._records.usefulness(worktree.id)
        candidates = [
            each
            for each in known
            if each.judgement.verdict is Verdict.FRESH and each.entry.name.kind is not Kind.NOTE
        ]
        candidates.sort(
            key=lambda each: (uses.get(each.entry.name, 0), each.entry.versions[0].id), reverse=True
        )
        fresh = []
        for each in candidates[:FRESH_MAX]:
            if (await worktree.memory.answer(each)).verdict is Verdict.FRESH:
                fresh.append(each.entry.name)
        return fresh, len(candidates[FRESH_MAX:])

    # -- a prompt --------------------------------------------------------------------------------

    async def _prompted(self, question: PromptGiven, worktree: Worktree, until_s: float) -> Answer:
        if question.session.subagent is not None:
            return NOTHING
        here = _at(question.session, worktree)
        told = self._records.told(here, Told.SHOWN, Told.INSTEAD)
        matching: list[tuple[Finding, int]] = []
        for match in await self._rank(worktree, question.text):
            known = worktree.memory.known(match.name) if match.is_clear else None
            if known is None or len(matching) == BESIDE_PROMPT_MAX:
                continue
            judgement = await worktree.memory.answer(known)
            version = judgement.version
            if judgement.verdict is not Verdict.FRESH or version is None:
                continue
            if (match.name, version.id) not in told:
                matching.append((self._finding(known, judgement), version.id))
        undermined = await self._undermined(here, worktree, {name for name, _ in told})
        self._in_time(until_s)
        now = self._now()
        if not matching and not undermined:
            return NOTHING
        with self._tending.store.transaction(durable=False):
            shown = [(finding.name, version) for finding, version in matching]
            self._records.tell(here, shown, Told.SHOWN, now)
            said = [(finding.name, version) for finding, version in undermined]
            self._records.tell(here, said, Told.RECONCILED, now)
            for name, _ in shown:
                self._records.add_use(here, Use.SHOWN, name, 0, now)
        text = prompt_text(
            [finding for finding, _ in matching],
            [finding for finding, _ in undermined],
            self._checked(worktree),
        )
        return Answer(context=text)

    async def _undermined(
        self, here: SessionAt, worktree: Worktree, shown: Set[EntryName]
    ) -> list[tuple[Finding, int]]:
        """What the session was told and then made untrue, and was not told of yet."""
        done = self._records.told(here, Told.RECONCILED)
        found = []
        for name, version in self._records.told(here, Told.UNDERMINED) - done:
            known = worktree.memory.known(name) if name in shown else None
            if known is None:
                continue
            judgement = await worktree.memory.answer(known)
            if judgement.verdict is Verdict.STALE:
                found.append((self._finding(known, judgement), version))
        return sorted(found, key=lambda pair: pair[0].name.key)

    # -- an exploration --------------------------------------------------------------------------

    async def _starting(
        self, question: ExplorationStarting, worktree: Worktree, until_s: float
    ) -> Answer:
        if question.agent_type not in self.settings.explorers:
            return NOTHING
        answer = NOTHING
        if question.session.subagent is None and self.settings.explore is not Explore.OFF:
            answer = await self._known_of(question, worktree, until_s)
        if not answer.instead:
            self._captures.starting(question)
        return answer

    async def _known_of(
        self, question: ExplorationStarting, worktree: Worktree, until_s: float
    ) -> Answer:
        here, now = _at(question.session, worktree), self._now()
        match = await self._match(question, worktree)
        known = worktree.memory.known(match.name) if match is not None else None
        if match is None or known is None:
            self._use(here, Use.MISS, None, now)
            return NOTHING
        judgement = await worktree.memory.answer(known)
        self._in_time(until_s)
        version, checked = judgement.version, self._checked(worktree)
        if version is None:
            return NOTHING
        told = match.name, version.id
        is_fresh = judgement.verdict is Verdict.FRESH
        if is_fresh and match.is_confident and self.settings.explore is Explore.ANSWER:
            if self._was_answered(here, match.name):
                return NOTHING  # asked once more: it runs
            finding = self._finding(known, judgement, whole=True)
            cost = self._records.cost(worktree.id, match.name) or 0
            self._use(here, Use.HIT, told, now, tokens=cost)
            return Answer(instead=instead_text(finding, checked))
        self._use(here, Use.HEAD_START if is_fresh else Use.STALE, told, now)
        if not is_fresh and not _is_true_in_part(judgement):
            return NOTHING
        finding = self._finding(known, judgement, whole=True)
        return self._told(head_start_text(finding, checked))

    async def _match(self, question: ExplorationStarting, worktree: Worktree) -> Match | None:
        """What the task is clearly about: what it found the last time, or what fits its words."""
        asked = digest_of(question.description, question.prompt)
        name = self._records.found_by(worktree.id, asked)
        if name is not None and worktree.memory.known(name) is not None:
            return Match(name, 1.0, True, True, ("the same task",))
        ranked = await self._rank(worktree, f"{question.description}\n{question.prompt}")
        return ranked[0] if ranked and ranked[0].is_clear else None

    def _told(self, text: str) -> Answer:
        if self.settings.explore is Explore.INFORM:
            return Answer(context=text)
        return Answer(head_start=text)

    def _was_answered(self, here: SessionAt, name: EntryName) -> bool:
        return any(told == name for told, _ in self._records.told(here, Told.INSTEAD))

    def _use(
        self,
        here: SessionAt,
        what: Use,
        told: tuple[EntryName, int] | None,
        now: datetime,
        *,
        tokens: int = 0,
    ) -> None:
        """Note what became of an exploration, and of what the session was told with that."""
        how = Told.INSTEAD if what is Use.HIT else Told.SHOWN
        with self._tending.store.transaction(durable=False):
            self._records.add_use(here, what, told[0] if told else None, tokens, now)
            if told is not None:
                self._records.tell(here, [told], how, now)

    # -- edits -----------------------------------------------------------------------------------

    def _edited(self, question: FilesEdited, worktree: Worktree) -> None:
        """Look at what was edited before the kernel tells of it, and note who has done it."""
        here, now = _at(question.session, worktree), self._now()
        for text in question.paths:
            path = os.path.join(path_bytes(question.session.directory), path_bytes(text))
            for other in self._tending.worktrees.values():
                sources = _sources_at(other, os.path.normpath(path))
                if not sources:
                    continue
                memory = other.memory
                memory.touched(sources)
                # The watch may have told of the edit already: what counts is why it is stale.
                specs = {source.spec for source in sources}
                lost = [
                    (name, known.judgement.version.id)
                    for name in memory.resting_on(sources)
                    if (known := memory.known(name)) is not None
                    and known.judgement.verdict is Verdict.STALE
                    and known.judgement.version is not None
                    and any(cause.source in specs for cause in known.judgement.causes)
                ]
                if other is worktree and lost:
                    with self._tending.store.transaction(durable=False):
                        self._records.tell(here, lost, Told.UNDERMINED, now)

    # -- the pieces ------------------------------------------------------------------------------

    async def _rank(self, worktree: Worktree, text: str) -> list[Match]:
        """By all entries where they can be read in time, else by those that were."""
        question = text[:QUESTION_CHARS_MAX]
        return await worktree.finder.find(question, MATCHES_MAX, within_s=READ_S)

    def _in_time(self, until_s: float) -> None:
        """Raises `TimeoutError` where the reply would come too late to have been told."""
        if self._monotonic_s() > until_s:
            raise TimeoutError

    def _finding(self, known: Known, judgement: Judgement, *, whole: bool = False) -> Finding:
        """`whole`: with all that was found out, where that is kept."""
        version = judgement.version or known.entry.versions[0]
        entry = self._answers.entry(known, version)
        detail = self._records.detail(version.id) if whole else None
        return Finding(
            known.entry.name,
            judgement.verdict,
            detail or entry["summary"],
            tuple(entry["files"]),
            judgement.causes,
            version.ts,
        )

    def _checked(self, worktree: Worktree) -> Checked:
        return Checked(self._now(), worktree.head.oid or "")


def _at(session: Session, worktree: Worktree) -> SessionAt:
    return SessionAt(session.agent, session.id, worktree.id)


def _is_true_in_part(judgement: Judgement) -> bool:
    """Whether what is known may spare an exploration some of its way."""
    return judgement.verdict is Verdict.STALE and all(
        cause.kind in _TRUE_IN_PART for cause in judgement.causes
    )


def _sources_at(worktree: Worktree, path: bytes) -> list[Source]:
    """What the worktree's entries rest on at the absolute `path`: the file, or the names around."""
    places: list[tuple[bytes, str | None]] = [(worktree.root, None)]
    places += [(s.root, name) for name, s in worktree.siblings.items() if s.is_worktree]
    found = []
    for root, repository in places:
        if not path.startswith(root + b"/"):
            continue
        below = RelPath(path[len(root) + 1 :])
        parent = RelPath(below.rpartition(b"/")[0])
        found += [
            source
            for source in (
                Source(SourceKind.FILE, below, repository),
                Source(SourceKind.ABSENT, below, repository),
                Source(SourceKind.LISTING, parent, repository),
            )
            if worktree.memory.ground.holds(source)
        ]
    return found
