"""The verdict changes of this daemon's life, numbered by its clock, and who listens to them.

The clock is `c:<instance>:<n>`. A clock of another instance, or older than what is kept, is not
known: whoever asks with it must look at everything once.
"""

import asyncio
import itertools
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from amend.core.model import Cause, EntryName, Judgement, Verdict
from amend.edge.store import ChangeRow, Store
from amend.formats.api import CauseJson, ChangeJson
from amend.formats.times import rfc3339

# A branch switch that turns every entry of a large cache. Each holds its causes, so that these are
# some 5 MB; who was away for longer looks at everything once.
KEPT_MAX: Final = 4_096

# At some 10 µs each; a branch switch may bring thousands.
SAVED_AT_ONCE: Final = 200

# A listener that reads nothing for this many changes is dropped and resumes by its last clock.
QUEUED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Kept:
    """A change as it is remembered; a fifth of the size of its JSON."""

    clock: str
    at: datetime
    repo: str
    root: str
    name: EntryName
    previous: Verdict
    judgement: Judgement

    def json(self) -> ChangeJson:
        return {
            "clock": self.clock,
            "at": rfc3339(self.at),
            "repo": self.repo,
            "root": self.root,
            "kind": self.name.kind.value,
            "key": self.name.key,
            "previous": self.previous.value,
            "verdict": self.judgement.verdict.value,
            "causes": [cause_json(cause) for cause in self.judgement.causes],
            "refined": self.previous is self.judgement.verdict,
        }


class Changes:
    def __init__(self, store: Store) -> None:
        self.instance = secrets.token_hex(4)
        self.number = 0
        self._store = store
        self._kept: deque[_Kept] = deque(maxlen=KEPT_MAX)
        self._unsaved: list[_Kept] = []
        self._listeners: set[asyncio.Queue[ChangeJson | None]] = set()
        self.on_published: Callable[[str, EntryName, Verdict, Judgement], None] = (
            lambda repo, name, previous, judgement: None
        )

    @property
    def clock(self) -> str:
        return f"c:{self.instance}:{self.number}"

    def publish(
        self, repo: str, root: str, name: EntryName, previous: Verdict, judgement: Judgement
    ) -> None:
        self.number += 1
        kept = _Kept(self.clock, datetime.now(UTC), repo, root, name, previous, judgement)
        self._kept.append(kept)
        if self._listeners:
            change = kept.json()
            for listener in list(self._listeners):
                try:
                    listener.put_nowait(change)
                except asyncio.QueueFull:
                    self._drop(listener)
        if previous is not judgement.verdict:
            self._unsaved.append(kept)
        self.on_published(repo, name, previous, judgement)

    def save(self) -> None:
        """Write some of what was published since into the store, inside a transaction; see
        `unsaved` for whether that was all."""
        unsaved, self._unsaved = self._unsaved[:SAVED_AT_ONCE], self._unsaved[SAVED_AT_ONCE:]
        self._store.add_changes(
            ChangeRow(
                kept.clock,
                rfc3339(kept.at),
                kept.repo,
                kept.name,
                kept.previous.value,
                kept.judgement.verdict.value,
                json.dumps([cause_json(cause) for cause in kept.judgement.causes]),
            )
            for kept in unsaved
        )

    @property
    def unsaved(self) -> bool:
        return bool(self._unsaved)

    def since(self, clock: str) -> list[ChangeJson] | None:
        """The changes after `clock`, oldest first; None when that clock is not known."""
        number = self._number_of(clock)
        if number is None:
            return None
        newer = self.number - number
        return [kept.json() for kept in itertools.islice(self._kept, len(self._kept) - newer, None)]

    def _number_of(self, clock: str) -> int | None:
        prefix, _, digits = clock.rpartition(":")
        if prefix != f"c:{self.instance}" or not digits.isascii() or not digits.isdigit():
            return None
        number = int(digits)
        return number if self.number - len(self._kept) <= number <= self.number else None

    def listen(self, last: str | None) -> AsyncIterator[ChangeJson]:
        """Changes from now on, after those since the clock `last` when it is known.

        Listening begins with the call, not with the first `anext`. Ends when the daemon stops or
        the listener falls `QUEUED_MAX` behind.
        """
        queue: asyncio.Queue[ChangeJson | None] = asyncio.Queue(QUEUED_MAX)
        missed = self.since(last) if last is not None else None
        self._listeners.add(queue)
        return self._deliver(queue, missed or [])

    async def _deliver(
        self, queue: asyncio.Queue[ChangeJson | None], missed: list[ChangeJson]
    ) -> AsyncIterator[ChangeJson]:
        try:
            for change in missed:
                yield change
            while (change_or_end := await queue.get()) is not None:
                yield change_or_end
        finally:
            self._listeners.discard(queue)

    def _drop(self, listener: asyncio.Queue[ChangeJson | None]) -> None:
        self._listeners.discard(listener)
        while not listener.empty():
            listener.get_nowait()
        listener.put_nowait(None)

    def close(self) -> None:
        for listener in list(self._listeners):
            self._drop(listener)


def cause_json(cause: Cause) -> CauseJson:
    """Only what the cause carries."""
    row: CauseJson = {"cause": cause.kind.value}
    if cause.source:
        row["source"] = cause.source
    if cause.detail:
        row["detail"] = cause.detail
    if cause.pointer:
        row["pointer"] = cause.pointer
    if cause.commit is not None:
        row["commit"] = {
            "oid": cause.commit.oid,
            "author_time": rfc3339(cause.commit.authored_at),
            "subject": cause.commit.subject,
        }
    if cause.moved_to:
        row["moved_to"] = cause.moved_to
    if cause.gained:
        row["gained"] = list(cause.gained)
    if cause.lost:
        row["lost"] = list(cause.lost)
    if cause.verified:
        row["verified"] = True
    if not cause.settled:
        row["settled"] = False
    return row
