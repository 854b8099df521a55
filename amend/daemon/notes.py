"""Notes of memory trees as entries: what each rests on, and since when.

Whoever reads the trees tells what came, changed and went; nothing here looks at a tree. A note
rests on every item of its `files:` bullets, and on what it names in backticks and exists when its
text is learnt. It never expires, and amend writes no mark into it.

Since when (DESIGN section 4, "Baselines"): a note that somebody writes today while amend watches
rests on its sources as they are then. Any other says by its date what it saw, and git is asked; a
date is no time of day, so a source that changed about that day is unknown.

Guarantees: a note that cannot be understood, or lists what can be no source, is never fresh.
"""

import json
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from functools import partial
from typing import Final

from amend.core.aicontext import SUFFIX, Noted
from amend.core.model import (
    EntryName,
    Fingerprint,
    Kind,
    Problem,
    RelPath,
    Source,
    SourceKind,
    Version,
    path_bytes,
    path_text,
)
from amend.core.notes import Citation, citations, joined, written_between
from amend.core.sources import parse_spec
from amend.daemon.memory import TO_BE_BASED, Learnt, Memory
from amend.edge.files.beneath import stat_beneath
from amend.errors import AmendError
from amend.formats.aicontext import noted, parse_note

# As many as the API takes for one entry; a note that names more is no note about something.
SOURCES_MAX: Final = 1000

# Would stand for something else in a key, or cannot be sent: `:` ends a tree's name.
_ESCAPED: Final = re.compile(r"[%:\x00-\x1f\x7f\udc80-\udcff]")

NOBODY: Final[Mapping[str, int]] = {}
"""Nobody knows of any note when it was written."""

_KINDS: Final = {stat.S_IFREG: SourceKind.FILE, stat.S_IFDIR: SourceKind.LISTING}


def key_of(trees: Sequence[bytes], tree: bytes, path: str) -> str:
    """The key of the note at `path` below `tree`: "decisions/auth", and "notes:decisions/auth" in
    any tree but the first of `trees`, so that no two notes have the same."""
    below = _escaped(path.removesuffix(SUFFIX))
    return below if tree == trees[0] else f"{_escaped(path_text(tree))}:{below}"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in path_bytes(found[0])), text
    )


class Notes:
    def __init__(
        self, memory: Memory, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._memory = memory
        self._now = now

    def learn(self, key: str, data: bytes, *, written_ns: int | None = None) -> None:
        """Take in the note's bytes.

        `written_ns`: its ctime, where somebody wrote it while amend watched. None: nobody knows
        when, as at a start and after a checkout, and its date decides.
        """
        self.learn_all({key: data}, {} if written_ns is None else {key: written_ns})

    def learn_all(self, notes: Mapping[str, bytes], written_ns: Mapping[str, int] = NOBODY) -> None:
        """`learn` for many, in one transaction; `written_ns` has those of which somebody knows."""
        self._take_in(notes, {key: _Moment(at) for key, at in written_ns.items()})

    def learning(self) -> AbstractContextManager[None]:
        """For `learn_all` a few at a time: git is asked about all of them together, afterwards."""
        return self._memory.learning()

    def saved(self, key: str, data: bytes) -> None:
        """Take in what somebody has just said through amend, whatever date it has, also when the
        note says it already."""
        self._take_in({key: data}, {key: _Moment(time.time_ns(), is_said_now=True)})

    def forget(self, *keys: str) -> None:
        """These notes are gone. Their versions wait for them to come back."""
        self._memory.forget_documents([EntryName(Kind.NOTE, key) for key in keys])

    def knows(self, key: str) -> bool:
        return self._memory.known(EntryName(Kind.NOTE, key)) is not None

    def forget_all_but(self, keys: Set[str]) -> None:
        """Forget what the store knows and no tree has."""
        notes = (name for name in self._memory.names() if name.kind is Kind.NOTE)
        self._memory.forget_documents([name for name in notes if name.key not in keys])

    def _take_in(self, notes: Mapping[str, bytes], moments: Mapping[str, "_Moment"]) -> None:
        found: dict[str, Source | None] = {}  # in backticks, for all of them
        learnt, empty = [], []
        for key, data in notes.items():
            name, document = EntryName(Kind.NOTE, key), parse_note(data)
            said = joined(noted(document))
            if said is None and document.problem is None:
                empty.append(name)  # just created, or a heading alone
                continue
            read = _Read(said or Noted(None, "", ()), citations(document), document.problem)
            moment = moments.get(key, _UNKNOWN)
            version = partial(self._version, read, moment, found)
            learnt.append(Learnt(name, _payload(read), version, moment.is_said_now))
        # What its date says can be said again: only what was seen as it happened is lost for good.
        self._memory.learn_documents(learnt, durable=bool(moments))
        self._memory.forget_documents(empty)

    def _version(
        self,
        read: "_Read",
        moment: "_Moment",
        found: dict[str, Source | None],
        before: Version | None,
    ) -> Version:
        problems = []
        if read.problem is not None:
            problems.append(Problem("", f"the note {read.problem}"))
        sources: dict[Source, None] = {}
        for each in read.cites:
            try:
                source = parse_spec(each.path) if each.is_listed else self._existing(each, found)
            except ValueError as error:
                rule = f"line {each.line}: files names {each.path!a}, which {error}"
                problems.append(Problem("", rule))
                continue
            if source is not None:
                sources[source] = None
        if len(sources) > SOURCES_MAX:
            problems.append(Problem("", f"names {len(sources)} paths, the most is {SOURCES_MAX}"))
            sources.clear()
        on = read.said.on
        ts = datetime.combine(on, time_of_day(), UTC) if on is not None else None
        prints = self._prints(tuple(sources), on, moment, before)
        return Version(0, tuple(sources), prints, ts, tuple(problems))

    def _existing(self, cited: Citation, found: dict[str, Source | None]) -> Source | None:
        if cited.path not in found:
            path = parse_spec(cited.path).path
            try:
                mode = stat_beneath(self._memory.root, path, []).st_mode
            except (AmendError, OSError, ValueError):
                mode = 0
            kind = _KINDS.get(stat.S_IFMT(mode))
            found[cited.path] = Source(kind, RelPath(path)) if kind is not None else None
        return found[cited.path]

    def _prints(
        self,
        sources: Sequence[Source],
        on: date | None,
        moment: "_Moment",
        before: Version | None,
    ) -> tuple[Fingerprint, ...]:
        written_ns = moment.written_ns
        if written_ns is None:
            return (TO_BE_BASED,) * len(sources)
        if moment.is_said_now or self._may_be_today(on):
            return tuple(self._memory.print_at(source, written_ns) for source in sources)
        # The text was touched up, nobody found it out anew: what its date stands for still counts.
        known: dict[Source, Fingerprint] = {}
        if before is not None and before.ts is not None and before.ts.date() == on:
            known = dict(zip(before.sources, before.fingerprints, strict=True))
        return tuple(known.get(source, TO_BE_BASED) for source in sources)

    def _may_be_today(self, on: date | None) -> bool:
        """Whether somewhere it is that day now; what has no date says nothing else."""
        if on is None:
            return True
        begin, end = written_between(on)
        return begin <= self._now() < end


@dataclass(frozen=True, slots=True)
class _Read:
    """A note as far as it is understood. `problem`: why it is not."""

    said: Noted
    cites: tuple[Citation, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a note was written, None where only its date says. `is_said_now`: its date is not
    asked."""

    written_ns: int | None
    is_said_now: bool = False


_UNKNOWN: Final = _Moment(None)


# -- payloads --------------------------------------------------------------------------------------


def _payload(read: _Read) -> bytes:
    """All that makes one version differ from another: layout and comments do not."""
    said = read.said
    value: dict[str, object] = {
        "title": said.title,
        "date": said.on.isoformat() if said.on is not None else None,
        "bullets": said.bullets,
        "cites": [each.path for each in read.cites],
    }
    if read.problem is not None:
        value["problem"] = read.problem
    return json.dumps(value, separators=(",", ":")).encode()


def said_in(payload: bytes) -> Noted:
    """What a recorded note says."""
    value = json.loads(payload)
    on = date.fromisoformat(value["date"]) if value["date"] is not None else None
    return Noted(on, value["title"], tuple(value["bullets"]))


def summary_of(payload: bytes) -> str:
    """A recorded note as an answer shows it: its title and its bullets, a line each."""
    said = said_in(payload)
    return "\n".join([said.title, *(f"- {bullet}" for bullet in said.bullets)])
