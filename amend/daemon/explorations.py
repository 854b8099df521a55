"""What hooks have told of explorations: what was asked, which call started which, how each ended.

The three come in any order, each may be missing, and an exploration may end several times. Nothing
is kept for longer than `PENDING`, nor more than `NOTED_MAX` of a kind: what never ends was killed
without a word. Reads no disk and no clock but the one it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from amend.core.agent import (
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
)

# The longest exploration that was seen took 20 minutes; what has not ended after this never will.
PENDING: Final = timedelta(hours=2)

# A row is a kilobyte, and ten agents at work start a hundred in an hour.
NOTED_MAX: Final = 1_000

T = TypeVar("T")

Name = tuple[str, str]
"""An agent's name, and the id of one of its calls or explorations."""


class Noted(Generic[T]):
    """The latest `NOTED_MAX`, none of them older than `PENDING`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: dict[Name, tuple[datetime, T]] = {}

    def put(self, name: Name, value: T) -> None:
        now = self._now()
        self._kept.pop(name, None)
        self._kept[name] = now, value
        while len(self._kept) > NOTED_MAX or self._oldest_at() < now - PENDING:
            del self._kept[next(iter(self._kept))]

    def get(self, name: Name) -> T | None:
        noted = self._kept.get(name)
        return noted[1] if noted is not None and noted[0] >= self._now() - PENDING else None

    def drop(self, name: Name) -> None:
        self._kept.pop(name, None)

    def _oldest_at(self) -> datetime:
        return next(iter(self._kept.values()))[0]


@dataclass(frozen=True, slots=True)
class Pending:
    """An exploration that was about to start. `head`: what was checked out then."""

    asked: ExplorationStarting
    at: datetime
    head: str | None


class Explorations:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._pending: Noted[Pending] = Noted(now)  # by call
        self._started: Noted[str] = Noted(now)  # call → exploration
        self._calls: Noted[str] = Noted(now)  # exploration → call
        self._ends: Noted[ExplorationEnded] = Noted(now)  # by exploration
        self._failed: Noted[str] = Noted(now)  # call → exploration, or "" where none started

    def starting(self, question: ExplorationStarting, head: str | None) -> None:
        if question.call:
            name = question.session.agent, question.call
            self._pending.put(name, Pending(question, self._now(), head))

    def launched(self, question: ExplorationLaunched) -> None:
        agent = question.session.agent
        if question.call and question.exploration:
            self._started.put((agent, question.call), question.exploration)
            self._calls.put((agent, question.exploration), question.call)

    def ended(self, question: ExplorationEnded) -> ExplorationEnded:
        """What is said now, with what only an earlier end of it has said."""
        name = question.session.agent, question.exploration
        if question.call:
            launched = ExplorationLaunched(question.session, question.call, question.exploration)
            self.launched(launched)
        before = self._ends.get(name)
        if before is not None:
            question = replace(
                question,
                text=question.text or before.text,
                transcript=question.transcript or before.transcript,
                call=question.call or before.call,
                prompt=question.prompt or before.prompt,
                description=question.description or before.description,
            )
        self._ends.put(name, question)
        return question

    def failed(self, question: ExplorationFailed) -> str:
        """The exploration that it is about, "" where that is not known."""
        agent = question.session.agent
        exploration = question.exploration or self._started.get((agent, question.call)) or ""
        call = question.call or self._calls.get((agent, exploration)) or ""
        self._pending.drop((agent, call))
        self._failed.put((agent, call), exploration)
        return exploration

    def call_of(self, agent: str, exploration: str) -> str:
        return self._calls.get((agent, exploration)) or ""

    def pending(self, agent: str, call: str) -> Pending | None:
        return self._pending.get((agent, call))

    def has_failed(self, agent: str, call: str) -> bool:
        """Whether nothing came of what the call was to start."""
        exploration = self._started.get((agent, call)) or ""
        is_over = self._ends.get((agent, exploration)) is None
        return is_over and self._failed.get((agent, call)) is not None

    def transcript_of(self, agent: str, call: str) -> str:
        """Where the exploration that the call started has written what it did."""
        exploration = self._started.get((agent, call)) or ""
        end = self._ends.get((agent, exploration))
        return end.transcript if end is not None else ""
