"""Which of one worktree's entries a question in words is about.

The index of all entries' words is built at the first question: what they say lies in the store, and
most worktrees are never asked. From then on it follows the memory, by the ids of the newest
versions, of which none comes twice: before each question those are compared, and what differs is
read again.

Guarantees: the loop is held for no longer than `SLICE_S` and one entry at a time; as long as not
all entries are in the index, no match is confident, since a better one may be missing; what left
the memory is never found.
"""

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from amend.core.matching import Index, Match, Texts
from amend.core.model import IN_CACHE_FILE, EntryName, Kind, Version
from amend.daemon.memory import Memory
from amend.daemon.notes import summary_of
from amend.edge.store import Store
from amend.formats.agent_cache import summary_and_files
from amend.formats.contract import document_of

# An entry takes 0.1 to 0.2 ms to read and index: ten and more at once, and half of the loop's time
# for everybody else. 10,000 take some seconds, once.
SLICE_S: Final = 0.002
PAUSE_S: Final = 0.002

# Larger documents are found by their names and files alone: parsing one would hold the loop.
DOCUMENT_BYTES_MAX: Final = 64 << 10

# Of a contract's document: nothing in these says what it is about.
_NOT_SAID: Final = frozenset(
    {"version", "generated_at", "evidence", "referenced_files", "repository", "url_sources"}
)
_DEPTH_MAX: Final = 6

NOT_ALL_READ: Final = "not all entries have been read yet"


class Finder:
    def __init__(self, memory: Memory, store: Store) -> None:
        self._memory = memory
        self._store = store
        self._index = Index()
        self._of: dict[int, EntryName] = {}  # newest version → its entry, as last looked at
        self._outdated: list[EntryName] = []  # to be read again; some may come twice
        self._later: asyncio.TimerHandle | None = None
        self._seen_revision = -1

    def rank(self, question: str, limit: int = 5) -> list[Match]:
        """The entries that the question may be about, best first; at once, and confident only when
        all entries are known. The rest is read afterwards, where a loop is running."""
        until_s = time.monotonic() + SLICE_S
        self._look()
        self._read(until_s)
        self._read_later()
        return self._ranked(question, limit)

    async def find(
        self, question: str, limit: int = 5, *, within_s: float | None = None
    ) -> list[Match]:
        """As `rank`, once all entries are known, or when the time is over."""
        until_s = time.monotonic() + within_s if within_s is not None else math.inf
        self._look()
        while self._outdated and time.monotonic() < until_s:
            while self._outdated and time.monotonic() < until_s:
                self._read(time.monotonic() + SLICE_S)
                await asyncio.sleep(0)
            self._look()
        return self._ranked(question, limit)

    def warm(self) -> None:
        """Read what the first question will need, from now on and a little at a time."""
        self._look()
        self._read_later()

    @property
    def is_settled(self) -> bool:
        """Whether all entries that were there when last looked are in the index."""
        return not self._outdated

    def stop(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _ranked(self, question: str, limit: int) -> list[Match]:
        matches = [
            match
            for match in self._index.rank(question, limit)
            if self._memory.known(match.name) is not None
        ]
        if self._outdated:
            return [
                replace(match, is_confident=False, why=(*match.why, NOT_ALL_READ))
                for match in matches
            ]
        return matches

    # -- following the memory --------------------------------------------------------------------

    def _look(self) -> None:
        if self._memory.revision == self._seen_revision:
            return
        self._seen_revision = self._memory.revision
        known = self._memory.all_known()
        ids = [each.entry.versions[0].id for each in known.values()]
        if ids == list(self._of):
            return
        now = dict(zip(ids, known, strict=True))
        self._outdated += [self._of[gone] for gone in self._of.keys() - now.keys()]
        self._outdated += [now[new] for new in now.keys() - self._of.keys()]
        self._of = now

    def _read(self, until_s: float) -> None:
        """One entry at least, so that it comes to an end."""
        while self._outdated:
            name = self._outdated.pop()
            known = self._memory.known(name)
            if known is None:
                self._index.remove(name)
            else:
                version = known.entry.versions[0]
                payload = self._store.recorded(version.id).payload
                self._index.add(name, texts_of(name, version, payload))
            if not self._outdated:
                self._index.settle()
            elif time.monotonic() >= until_s:
                return

    def _read_later(self) -> None:
        if not self._outdated or self._later is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # whoever asks next goes on
        self._later = loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._later = None
        self._read(time.monotonic() + SLICE_S)
        self._read_later()


def texts_of(name: EntryName, version: Version, payload: bytes) -> Texts:
    """What the entry says. The directories of a key are said beside it: they are no subject."""
    above, _, key = name.key.rpartition("/")
    paths = tuple(source.spec for source in version.sources)
    summary = ""
    if name.kind in IN_CACHE_FILE:
        summary, _ = summary_and_files(name, payload)
    elif name.kind is Kind.NOTE:
        summary = summary_of(payload)
    elif len(payload) <= DOCUMENT_BYTES_MAX:
        summary = " ".join(_said(document_of(payload), _DEPTH_MAX))
    return Texts(key, f"{summary} {above}" if above else summary, paths)


def _said(value: Any, depth_max: int) -> Iterator[str]:
    """The names and texts in a document, those nearest to its top first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth_max > 0:
        said = {name: each for name, each in value.items() if name not in _NOT_SAID}
        yield from said
        for each in said.values():
            yield from _said(each, depth_max - 1)
    elif isinstance(value, list) and depth_max > 0:
        for each in value:
            yield from _said(each, depth_max - 1)
