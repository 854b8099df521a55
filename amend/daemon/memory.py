"""The memory of one worktree: its entries, what they rest on, and the verdict on each.

The only holder of entries in memory. It learns from the cache file (`ingest`), from contracts and
notes (`learn_documents`), from the API (`put`, `delete`), from the watch (`touched`) and from git
(`explained`, `based`, `moved`), judges what each of these may have changed, and publishes the
verdicts that did change.

Guarantees: `answer` judges by looks taken after it was called; a version is recorded durably before
its entry is served or its file is written; a state change never awaits in its middle.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from amend.core.dependents import Dependents
from amend.core.evidence import Remembered, Standing, standing
from amend.core.freshness import (
    Explained,
    compare,
    explain,
    judge,
    paths_of,
    verdict_of,
    with_move,
)
from amend.core.model import (
    IN_CACHE_FILE,
    VERSIONS_MAX,
    Cause,
    CauseKind,
    Entry,
    EntryName,
    FilePrint,
    Fingerprint,
    Judgement,
    Kind,
    NoPrint,
    Place,
    RelPath,
    Source,
    SourceKind,
    Verdict,
    Version,
)
from amend.core.policy import Mark
from amend.daemon.changes import Changes
from amend.daemon.explain import AskedBy, Question, Told
from amend.daemon.ground import Ground, NeedsWorker
from amend.edge.files.look import changed_at_ns
from amend.edge.store import EntryRow, Recorded, Store, payload_digest
from amend.edge.watch.interface import Watch
from amend.formats.agent_cache import CacheDocument, CacheEntry

# Each large file costs one worker round; an entry citing more than this many is looked at again
# by the next question.
WORKER_ROUNDS_MAX: Final = 64

# What git said of a branch switch may change hundreds of verdicts, at some 100 µs each; questions
# come in between.
REJUDGED_AT_ONCE: Final = 16

# As many of what git said was there when a note was written, at some 150 µs each.
FILLED_AT_ONCE: Final = 8

# What became of cited lines in a text; finding out takes a millisecond for 100 KB.
STOOD_MAX: Final = 1_000

TO_BE_BASED: Final = NoPrint(CauseKind.NO_BASELINE, "older than amend's record; git is being asked")
SAME_INSTANT: Final = NoPrint(
    CauseKind.NO_BASELINE,
    "changed in the instant the entry was written; cannot tell which is newer",
)
_NO_MISSING: Final = Judgement(Verdict.MISSING, None)
_AS_IT_WAS: Final = {verdict.value: Judgement(verdict, None) for verdict in Verdict}


# What a hash in a contract stands for, until git has said it.
_PENDING: Final = re.compile(r"git is being asked what ([0-9a-f]{40,64}) is")


def pending(oid: str) -> NoPrint:
    """Holds the place of what `oid`, a commit or a blob, has at a source."""
    return NoPrint(CauseKind.NO_BASELINE, f"git is being asked what {oid} is")


def pending_oid(look: Fingerprint) -> str | None:
    match = _PENDING.fullmatch(look.detail) if isinstance(look, NoPrint) else None
    return match[1] if match is not None else None


_Based = tuple[EntryName, Mapping[Source, Fingerprint]]
"""What git said was there when one of an entry's versions was written."""


@dataclass(slots=True)
class Known:
    """An entry in memory. `digests` is parallel to the entry's versions."""

    row: int
    entry: Entry
    digests: tuple[bytes, ...]
    place: Place
    file_digest: bytes  # of the payload the cache file holds; empty: not there
    mark: Mark | None = None  # as it stands in the file
    has_stale_field: bool = False
    judgement: Judgement = _NO_MISSING
    since: datetime | None = None  # when it last stopped being fresh

    def version_in_file(self) -> Version | None:
        for digest, version in zip(self.digests, self.entry.versions, strict=True):
            if digest == self.file_digest:
                return version
        return None


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a file of its own says: a contract, a note.

    `version` is asked for when the payload is none that the entry has, and gets its newest one.
    `is_said_anew`: also when it is, because somebody has just said so again.
    """

    name: EntryName
    payload: bytes
    version: Callable[[Version | None], Version]
    is_said_anew: bool = False


class Memory:
    def __init__(
        self,
        repo_id: str,
        root: bytes,
        *,
        store: Store,
        changes: Changes | None,
        watch: Watch | None,
        inline_bytes_max: int | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = repo_id
        self.root = root
        self.ground = Ground(root, watch, store.shared, inline_bytes_max=inline_bytes_max)
        self.max_age: timedelta | None = None
        self.is_lenient = True
        self.on_changed: Callable[[], None] = lambda: None  # the cache file may need a write
        self.on_behind: Callable[[], None] = lambda: None  # `catch_up` is due
        # An answer has found these changed, of an entry that was fresh by its last mark.
        self.on_unmarked: Callable[[list[Source]], None] = lambda sources: None
        self.unwritten: set[EntryName] = set()  # the cache file may not say of these what it should
        self.to_base: set[EntryName] = set()  # of `_unbased`, those that git was not asked about
        self.revision = 0  # another one: other entries, or other newest versions
        self.marks = 0
        self.restores = 0
        self.unreported = 0  # answers that found changed what the watch never told of
        self._store = store
        self._changes = changes
        self._now = now
        self._known: dict[EntryName, Known] = {}
        self._dependents = Dependents()
        self._unbased: set[EntryName] = set()  # with versions whose baselines git shall decide
        self._unexplained: set[EntryName] = set()  # whose causes git may explain
        self._explained: dict[Source, tuple[Fingerprint, Explained | None]] = {}
        self._unsaved: dict[EntryName, Known] = {}
        self._stood: dict[tuple[Remembered, bytes], Standing] = {}
        self._declined: set[EntryName] = set()
        self._outdated: set[EntryName] = set()  # to be judged again by `catch_up`
        self._to_fill: dict[int, _Based] = {}  # notes' versions to be filled by `catch_up`
        self._learners = 0
        self._to_base_then: set[EntryName] = set()  # once everybody has learnt
        self._load(store.entries(repo_id))

    # -- what is known ---------------------------------------------------------------------------

    def _load(self, rows: Iterable[EntryRow]) -> None:
        for row in rows:
            if not row.versions:
                continue
            known = self._take_up(row)
            if row.verdict is not None:
                known.judgement = _AS_IT_WAS[row.verdict]
            known.since = row.since

    def unjudged(self) -> list[EntryName]:
        """Entries whose sources were not looked at since they were taken up."""
        return [name for name, known in self._known.items() if known.judgement.version is None]

    def names(self) -> list[EntryName]:
        """Every entry that can be asked for."""
        return [n for n, known in self._known.items() if known.place is not Place.LEAVING]

    def known(self, name: EntryName) -> Known | None:
        known = self._known.get(name)
        return None if known is None or known.place is Place.LEAVING else known

    def all_known(self) -> Mapping[EntryName, Known]:
        """Also what is on its way out of the cache file."""
        return self._known

    def resting_on(self, sources: Iterable[Source]) -> set[EntryName]:
        return {name for source in sources for name in self._dependents.of(source)}

    def find(self, key: str, kind: Kind | None) -> Known | None:
        for each in (kind,) if kind is not None else Kind:
            known = self.known(EntryName(each, key))
            if known is not None:
                return known
        return None

    # -- judging ---------------------------------------------------------------------------------

    async def answer(self, known: Known) -> Judgement:
        """The verdict, with every source looked at after this was called."""
        name = known.entry.name
        for _ in range(WORKER_ROUNDS_MAX):
            current = self._known.get(name)
            if current is None:
                return _NO_MISSING
            try:
                judgement = self._judge(current, self.ground.look)
            except NeedsWorker as needed:
                await self.ground.hash_in_worker(needed.source)
                continue
            was_fresh = current.judgement.verdict is Verdict.FRESH
            if was_fresh and judgement.verdict is Verdict.STALE:
                self.on_unmarked(self._changed_of(current))
            self._take(current, judgement)
            self.settle(in_burst=True)
            return judgement
        detail = "its large files keep changing while they are read"
        return Judgement(
            Verdict.UNKNOWN,
            known.entry.versions[0],
            (Cause(CauseKind.UNREADABLE, detail=detail),),
        )

    def _changed_of(self, known: Known) -> list[Source]:
        """What no longer supports the version that was the answer until now."""
        version = known.judgement.version
        if version is None:
            return []
        stands = self._stands if self.is_lenient else None
        causes = compare(known.entry.name.kind, version, self.ground.last, stands).causes
        specs = {cause.source for cause in causes}
        return [source for source in version.sources if source.spec in specs]

    def touched(self, sources: Iterable[Source], *, in_burst: bool = False) -> list[Source]:
        """Look at these again and judge what rests on those that changed; large ones come back."""
        large = []
        for source in sources:
            try:
                self.ground.look(source)
            except NeedsWorker as needed:
                large.append(needed.source)
        self.settle(in_burst=in_burst)
        return large

    def settle(self, *, in_burst: bool = False) -> None:
        """Judge every entry that rests on a source whose look has changed, until none is left.

        In a burst only what is fresh is judged at once, so that it is marked; the rest is left to
        `catch_up`: a checkout would have each judged once for each of its sources.
        """
        while changed := self.ground.take_changed():
            names: set[EntryName] = set()
            for source in changed:
                names.update(self._dependents.of(source))
            if in_burst:
                late = {n for n in names if self._known[n].judgement.verdict is not Verdict.FRESH}
                names -= late
                self._outdated |= late
            self.rejudge(names)
        if self._outdated:
            self.on_behind()

    def rejudge(self, names: Iterable[EntryName]) -> None:
        """Judge by the last looks: for marks, never for an answer."""
        for name in names:
            known = self._known.get(name)
            if known is None or known.place is Place.LEAVING:
                continue
            try:
                self._take(known, self._judge(known, self.ground.last))
            except NeedsWorker:
                # Never looked at and large: unknown until somebody asks or the hourly round.
                self._take(known, Judgement(Verdict.UNKNOWN, known.entry.versions[0]))

    def _judge(self, known: Known, look: Callable[[Source], Fingerprint]) -> Judgement:
        max_age = self.max_age if known.entry.name.kind is Kind.TOPIC else None
        stands = self._stands if self.is_lenient else None
        judgement = judge(known.entry, look, self._now(), max_age, stands)
        if judgement.verdict is Verdict.FRESH and not judgement.causes:
            return judgement
        return explain(judgement, self._explained, self.ground.last)

    def _stands(self, source: Source, remembered: Remembered, now: FilePrint) -> Standing | None:
        found = self._stood.get((remembered, now.blob))
        if found is None:
            text = self.ground.text(source, now)
            if text is None:
                return None
            if len(self._stood) >= STOOD_MAX:
                self._stood.clear()
            found = self._stood[remembered, now.blob] = standing(remembered, text)
        return found

    def be_lenient(self, is_lenient: bool) -> None:
        """Whether a file that changed still supports what cites lines of it that stand."""
        if is_lenient != self.is_lenient:
            self.is_lenient = is_lenient
            self._outdated.update(self._known)
            self.on_behind()

    def _take(self, known: Known, judgement: Judgement) -> None:
        """Make `judgement` the known one; publish it when it says something new."""
        name, before = known.entry.name, known.judgement
        if name not in self._unexplained and any(not c.settled for c in judgement.causes):
            self._unexplained.add(name)
            self.on_behind()
        if before.verdict is judgement.verdict and before.causes == judgement.causes:
            known.judgement = judgement
            return
        known.judgement = judgement
        if before.verdict is not judgement.verdict:
            known.since = None if judgement.verdict is Verdict.FRESH else self._now()
            self._unsaved[name] = known
            if judgement.verdict is Verdict.STALE:
                self.marks += 1
            elif judgement.verdict is Verdict.FRESH and before.verdict is Verdict.STALE:
                self.restores += 1
        elif before.version is None:
            return  # the first look after a start found what the store had
        self._publish(name, before.verdict, judgement)
        self._note_unwritten(name)
        self.on_changed()

    def _publish(self, name: EntryName, previous: Verdict, judgement: Judgement) -> None:
        if self._changes is not None:
            root = self.root.decode("utf-8", "surrogateescape")
            self._changes.publish(self.id, root, name, previous, judgement)

    def verdict_in_file(self, known: Known) -> tuple[Verdict, tuple[Cause, ...]]:
        """The verdict on the version that the cache file holds, which need not be the answer's."""
        version = known.version_in_file()
        judgement = known.judgement
        if version is None or version is judgement.version or version.problems:
            return judgement.verdict, judgement.causes
        look = self.ground.last
        stands = self._stands if self.is_lenient else None
        causes = compare(known.entry.name.kind, version, look, stands).causes
        explained = Judgement(verdict_of(causes), version, causes)
        return explained.verdict, explain(explained, self._explained, look).causes

    def unsaved_verdicts(self) -> list[tuple[int, str, datetime | None]]:
        """What `Store.save_verdicts` shall write, handed over once."""
        unsaved, self._unsaved = self._unsaved, {}
        return [(k.row, k.judgement.verdict.value, k.since) for k in unsaved.values()]

    # -- learning from the cache file ------------------------------------------------------------

    def ingest(self, document: CacheDocument, *, written_ns: int, by_time: bool) -> None:
        """Learn what the cache file holds.

        `written_ns`: its ctime; a source changed since then is not what its entry saw.
        `by_time`: its entries are older than amend's record, or came with a checkout; each
        one's own `ts` decides, and git is asked.
        """
        self.max_age = timedelta(days=document.max_age_days)
        fresh_news: list[EntryName] = []
        gone = []
        with self._store.transaction():
            for name, item in document.entries.items():
                if self._ingest_one(name, item, written_ns, by_time):
                    fresh_news.append(name)
            for name, known in self._known.items():
                if name not in document.entries and known.file_digest:
                    gone.append(known)
            for known in gone:
                self._left_the_file(known)
        for known in gone:
            told = known.judgement.verdict is Verdict.MISSING
            if known.entry.name not in self._known and not told:
                self._publish(known.entry.name, known.judgement.verdict, _NO_MISSING)
        self.rejudge(fresh_news)
        self.settle()

    @property
    def is_between_places(self) -> bool:
        """Whether an entry was on its way into the cache file or out of it."""
        return any(k.file_digest and k.place is not Place.FILE for k in self._known.values())

    def _ingest_one(
        self, name: EntryName, item: CacheEntry, written_ns: int, by_time: bool
    ) -> bool:
        """Whether the entry has a new version. Inside a transaction."""
        digest = payload_digest(item.payload)
        known = self._known.get(name) or self._remembered(name)
        is_news = known is None or known.file_digest != digest
        if known is not None and known.place is Place.LEAVING and is_news:
            self._remove(known, for_good=True)  # deleted, and found anew
            known = None
        if known is None or (is_news and digest not in known.digests):
            sources = item.sources
            baselines = self._baselines(known, sources, item.ts, written_ns, by_time)
            version = Version(0, sources, baselines, item.ts, item.problems)
            known = self._record(
                name, known, version, item.payload, place=Place.FILE, file_digest=digest
            )
        elif is_news:
            self._promote(known, digest)
            self._place(known, Place.FILE, digest)
        elif known.place is Place.AWAY:
            self._place(known, Place.FILE, digest)  # the eviction did not happen
        elif known.place in (Place.COMING, Place.STORE) and digest == known.digests[0]:
            self._place(known, Place.FILE, digest)
        if (known.mark, known.has_stale_field) != (item.stale, item.has_stale_field):
            known.mark, known.has_stale_field = item.stale, item.has_stale_field
            self._store.save_mark(known.row, item.stale, has_stale_field=item.has_stale_field)
            self._note_unwritten(name)
        return is_news

    def _baselines(
        self,
        known: Known | None,
        sources: Sequence[Source],
        ts: datetime | None,
        written_ns: int,
        by_time: bool,
    ) -> tuple[Fingerprint, ...]:
        """What the new version's sources looked like when it was written, as far as is known."""
        before: dict[Source, Fingerprint] = {}
        if known is not None and known.entry.versions[0].ts == ts:
            # The text was touched up, nobody explored anew: the old fingerprints still count.
            newest = known.entry.versions[0]
            before = dict(zip(newest.sources, newest.fingerprints, strict=True))
        prints = []
        for source in sources:
            if source in before:
                prints.append(before[source])
            elif by_time:
                prints.append(TO_BE_BASED)
            else:
                prints.append(self.print_at(source, written_ns))
        return tuple(prints)

    def print_at(self, source: Source, written_ns: int) -> Fingerprint:
        """What `source` looked like at `written_ns`: as now, unless it has changed since."""
        self.ground.hold((source,))
        try:
            look = self.ground.look(source)
        except NeedsWorker:
            return TO_BE_BASED
        seen = self.ground.last_look(source)
        if (
            source.kind is SourceKind.FILE
            and seen is not None
            and changed_at_ns(seen.stat) >= written_ns
        ):
            return SAME_INSTANT
        return look

    def _left_the_file(self, known: Known) -> None:
        """The file no longer holds it: by our own hand (`AWAY`, `LEAVING`) or by somebody's."""
        if known.place in (Place.FILE, Place.LEAVING):
            self._remove(known, for_good=known.place is Place.LEAVING)
        else:
            self._place(known, known.place, b"")

    # -- learning from the API -------------------------------------------------------------------

    def put(
        self,
        name: EntryName,
        version: Version,
        payload: bytes,
        place: Place,
        *,
        also: Callable[[int], None] = lambda version_id: None,
    ) -> Known:
        """Record a version written through the API, durably, and judge it.

        `also`: what else is to be recorded of the version, or nothing of it at all.
        """
        known = self._known.get(name)
        with self._store.transaction():
            if known is None:
                known = self._remembered(name)
            digest = known.file_digest if known is not None else b""
            if known is not None and known.place is Place.LEAVING:
                self._remove(known, for_good=True)
                known = None
            known = self._record(name, known, version, payload, place=place, file_digest=digest)
            also(known.entry.versions[0].id)
        self.rejudge((name,))
        self.settle()
        self.on_changed()
        return known

    # -- learning from files of their own --------------------------------------------------------

    def learn_contract(
        self, name: EntryName, payload: bytes, version: Callable[[], Version]
    ) -> None:
        """Take in a contract's document; `version` is asked for when its bytes are new."""
        self.learn_documents([Learnt(name, payload, lambda _: version())])

    def learn_documents(self, documents: Iterable[Learnt], *, durable: bool = True) -> None:
        """Take in what files of their own say, all in one transaction.

        Not `durable`: their files will say the same again, should a power failure take it back.
        """
        news = [each for each in documents if self._is_news(each)]
        if not news:
            return
        with self._store.transaction(durable=durable):
            for each in news:
                self._learn_document(each)
        self.rejudge([each.name for each in news])
        self.settle()
        if self.to_base:
            self.on_behind()  # also where no verdict has changed

    def _is_news(self, document: Learnt) -> bool:
        known = self._known.get(document.name)
        is_same = known is not None and known.digests[0] == payload_digest(document.payload)
        return document.is_said_anew or not is_same

    def _learn_document(self, document: Learnt) -> None:
        name, payload = document.name, document.payload
        digest = payload_digest(payload)
        known = self._known.get(name) or self._remembered(name)
        if known is not None and digest in known.digests and not document.is_said_anew:
            self._promote(known, digest)
            self._place(known, Place.STORE, b"")  # it may have been forgotten
            return
        version = document.version(known.entry.versions[0] if known is not None else None)
        self._record(name, known, version, payload, place=Place.STORE, file_digest=b"")

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Much is learnt, a little at a time: git is asked about all of it together, afterwards."""
        self._learners += 1
        try:
            yield
        finally:
            self._learners -= 1
            if not self._learners:
                self.to_base |= self._to_base_then
                self._to_base_then.clear()
                self.on_behind()

    def forget_contract(self, name: EntryName) -> None:
        """Its file is gone; the store remembers its versions, should it come back."""
        self.forget_documents((name,))

    def forget_documents(self, names: Iterable[EntryName]) -> None:
        """`forget_contract` for several, in one transaction."""
        gone = [known for name in names if (known := self._known.get(name)) is not None]
        if not gone:
            return
        with self._store.transaction():
            for known in gone:
                self._remove(known, for_good=False)
        for known in gone:
            self._publish(known.entry.name, known.judgement.verdict, _NO_MISSING)

    def cite(
        self, name: EntryName, version_id: int, evidence: tuple[tuple[Source, Remembered], ...]
    ) -> None:
        """Add what was cited, found out after the version was recorded."""
        self._revise({name}, lambda v: replace(v, evidence=evidence) if v.id == version_id else v)

    async def would_support(self, kind: Kind, version: Version) -> bool:
        """Whether all that a version of another worktree rests on looks the same here, now."""
        if version.problems or not version.sources:
            return False
        paths = paths_of(version)
        looks = {source: await self.ground.look_patiently(source) for source in paths}
        return not compare(kind, version, looks.__getitem__).causes

    def adopt(self, name: EntryName, version: Version, recorded: Recorded) -> Known:
        """Take over a version that was recorded in another worktree; only amend has it here."""
        known = self._known.get(name)
        place, digest = Place.STORE, b""
        with self._store.transaction():
            known = known or self._remembered(name)
            if known is not None:
                saw = version.sources, version.fingerprints
                if any((v.sources, v.fingerprints) == saw for v in known.entry.versions):
                    return known  # it is here already, and has come true again a moment ago
                place, digest = known.place, known.file_digest
            payload = recorded.payload
            known = self._record(
                name, known, version, payload, place=place, file_digest=digest, recorded=recorded
            )
        self.rejudge((name,))
        self.settle()
        return known

    def is_declined(self, name: EntryName) -> bool:
        """Whether it was deleted here, so that it shall not come from another worktree."""
        return name in self._declined

    def delete(self, known: Known) -> None:
        """Take it out of memory for good, and out of the cache file where it stands there."""
        name = known.entry.name
        with self._store.transaction():
            if known.file_digest and known.place is not Place.STORE:
                self._place(known, Place.LEAVING, known.file_digest)
            else:
                self._remove(known, for_good=True)
        self._declined.add(name)
        self._publish(name, known.judgement.verdict, _NO_MISSING)
        known.judgement = _NO_MISSING
        self.on_changed()

    def replace_in_file(self, known: Known, place: Place) -> None:
        """Note where the writer is about to bring it, before it writes."""
        if known.place is Place.LEAVING and place is not Place.LEAVING:
            self._outdated.add(known.entry.name)  # not judged while it was on its way out
            self.on_behind()
        self._place(known, place, known.file_digest)

    # -- learning from git -----------------------------------------------------------------------

    def explained(self, told: Told) -> None:
        """Git's word on these sources; `catch_up` judges by it what nobody asks about before."""
        self._explained.update(told)
        for source in told:
            self._outdated.update(self._dependents.of(source))

    def has_questions(self) -> bool:
        """Whether git may explain a cause and was not asked about it."""
        while not self._learners and self._unexplained:
            name = self._unexplained.pop()
            if self._questions(name):
                self._unexplained.add(name)
                return True
        return False

    def take_questions(self) -> AskedBy:
        """All that git may explain. What it does not answer is asked again when HEAD moves."""
        asked_by: AskedBy = {}
        while self._unexplained:
            name = self._unexplained.pop()
            for question, version_id in self._questions(name):
                asked_by.setdefault(question, []).append((name, version_id))
        self._explained.update({question.source: (question.now, None) for question in asked_by})
        return asked_by

    def _questions(self, name: EntryName) -> list[tuple[Question, int]]:
        """What git was not asked yet about the entry, each with the version it is about."""
        known = self.known(name)
        version = known.judgement.version if known is not None else None
        if known is None or version is None:
            return []
        open_specs = {cause.source for cause in known.judgement.causes if not cause.settled}
        found = []
        for source, then in zip(version.sources, version.fingerprints, strict=True):
            if source.kind is SourceKind.FILE and source.spec in open_specs:
                try:
                    now = self.ground.last(source)
                except NeedsWorker:
                    continue  # judged again once it was looked at
                told = self._explained.get(source)
                if told is None or told[0] != now:
                    found.append((Question(source, then, now), version.id))
        return found

    def head_moved(self) -> None:
        """What git said was about another HEAD; everything stale is explained again."""
        self._explained.clear()
        self.to_base |= self._unbased
        self._outdated.update(
            name for name, k in self._known.items() if k.judgement.verdict is Verdict.STALE
        )

    @property
    def is_behind(self) -> bool:
        """Whether there are marks that do not show yet what was last seen or told."""
        return bool(self._outdated or self._to_fill)

    async def catch_up(self) -> None:
        """Fill and judge what was left for later, a few at a time."""
        while self._to_fill:
            few_ids = list(itertools.islice(self._to_fill, FILLED_AT_ONCE))
            # Git can be asked again: no reason to wait for a disk.
            self._fill({id_: self._to_fill.pop(id_) for id_ in few_ids}, durable=False)
            await asyncio.sleep(0)
        while self._outdated:
            few = [self._outdated.pop() for _ in range(min(REJUDGED_AT_ONCE, len(self._outdated)))]
            self.rejudge(few)
            await asyncio.sleep(0)

    def based(self, answers: Mapping[int, _Based]) -> None:
        """Fill the fingerprints that waited for git: version id → its entry, and what they are.

        Many notes, of which there may be 10,000, are left to `catch_up`.
        """
        notes = {id_: each for id_, each in answers.items() if each[0].kind is Kind.NOTE}
        if len(notes) <= FILLED_AT_ONCE:
            self._fill(answers)
            return
        self._fill({id_: each for id_, each in answers.items() if id_ not in notes})
        self._to_fill.update(notes)
        self.on_behind()

    def _fill(self, answers: Mapping[int, _Based], *, durable: bool = True) -> None:
        def filled(version: Version) -> Version:
            _, prints = answers[version.id]
            fingerprints = tuple(
                prints.get(source, look) if _is_open(look) else look
                for source, look in zip(version.sources, version.fingerprints, strict=True)
            )
            return replace(version, fingerprints=fingerprints)

        names = {name for name, _ in answers.values()}
        self._revise(names, lambda v: filled(v) if v.id in answers else v, durable=durable)
        for name in names:
            known = self._known.get(name)
            if known is None or not _waits(known):
                self._unbased.discard(name)

    def moved(self, name: EntryName, version_id: int, source: Source, new: RelPath) -> None:
        """Follow a cited file that git says was renamed, in every version that rests on it so."""
        known = self._known.get(name)
        if known is None:
            return
        rests_on = {
            version.id: dict(zip(version.sources, version.fingerprints, strict=True)).get(source)
            for version in known.entry.versions
        }
        then = rests_on.get(version_id)
        self._revise(
            {name},
            lambda v: with_move(v, source.path, new) if then and rests_on.get(v.id) == then else v,
        )

    def _revise(
        self,
        names: Iterable[EntryName],
        edit: Callable[[Version], Version],
        *,
        durable: bool = True,
    ) -> None:
        """Replace versions by what became known of them since, all in one transaction."""
        with self._store.transaction(durable=durable):
            for name in names:
                known = self._known.get(name)
                if known is None:
                    continue
                before = known.entry.versions
                known.entry = replace(known.entry, versions=tuple(edit(v) for v in before))
                for old, new in zip(before, known.entry.versions, strict=True):
                    if new is not old:
                        self._store.update_version(new)
                self._rest_on(name, before, known.entry.versions)
        self.rejudge(names)
        self.settle()

    # -- the pieces ------------------------------------------------------------------------------

    def _record(
        self,
        name: EntryName,
        known: Known | None,
        version: Version,
        payload: bytes,
        *,
        place: Place,
        file_digest: bytes,
        recorded: Recorded | None = None,
    ) -> Known:
        """`recorded`: where and when it was, if not here and now."""
        self.revision += 1
        row = self._store.save_entry(self.id, name, place=place, file_digest=file_digest)
        self._declined.discard(name)
        at, where = self._now(), self.root
        if recorded is not None:
            at, where = datetime.fromisoformat(recorded.recorded_at), recorded.recorded_in
        version_id = self._store.add_version(
            row, version, payload, recorded_at=at, recorded_in=where
        )
        digest = payload_digest(payload)
        before: tuple[Version, ...] = ()
        digests: tuple[bytes, ...] = ()
        if known is not None:
            before, digests = known.entry.versions, known.digests
        kept = before[: VERSIONS_MAX - 1]
        self._rest_on(name, before, (version, *kept))
        version = replace(version, id=version_id, sources=self.ground.same(version.sources))
        entry = Entry(name, (version, *kept))
        digests = (digest, *digests[: VERSIONS_MAX - 1])
        if known is None:
            known = self._known[name] = Known(row, entry, digests, place, b"")
        known.entry, known.digests, known.place = entry, digests, place
        known.file_digest = _same(file_digest, digests)
        self._note_unwritten(name)
        self._note_unbased(known)
        return known

    def _remembered(self, name: EntryName) -> Known | None:
        """An entry that was taken out of the file some time ago, with its versions."""
        row = self._store.removed_entry(self.id, name)
        if row is None or not row.versions:
            return None
        return self._take_up(row)

    def _take_up(self, row: EntryRow) -> Known:
        """Bring what the store has of an entry into memory, not judged yet."""
        self.revision += 1
        entry = Entry(row.name, row.versions)
        file_digest = _same(row.file_digest, row.digests)
        known = Known(
            row.id, entry, row.digests, row.place, file_digest, row.mark, row.has_stale_field
        )
        self._known[row.name] = known
        self._note_unwritten(row.name)
        self._rest_on(row.name, (), row.versions)
        self._note_unbased(known)
        return known

    def _promote(self, known: Known, digest: bytes) -> None:
        at = known.digests.index(digest)
        if at == 0:
            return
        self.revision += 1
        versions = known.entry.versions
        version = versions[at]
        self._store.promote_version(known.row, version.id)
        known.entry = replace(known.entry, versions=(version, *versions[:at], *versions[at + 1 :]))
        known.digests = (digest, *known.digests[:at], *known.digests[at + 1 :])

    def _place(self, known: Known, place: Place, file_digest: bytes) -> None:
        if known.place is place and known.file_digest == file_digest:
            return
        known.place, known.file_digest = place, file_digest
        self._note_unwritten(known.entry.name)
        self._store.save_entry(self.id, known.entry.name, place=place, file_digest=file_digest)

    def _remove(self, known: Known, *, for_good: bool) -> None:
        """Forget it. Not `for_good`: the store remembers it, should it come back to the file."""
        name = known.entry.name
        if for_good:
            self._store.delete_entry(known.row)
        else:
            self._store.save_entry(
                self.id, name, place=Place.FILE, file_digest=b"", removed_at=self._now()
            )
        self.revision += 1
        del self._known[name]
        self.unwritten.discard(name)
        self._unsaved.pop(name, None)
        self._unexplained.discard(name)
        self._unbased.discard(name)
        self._rest_on(name, known.entry.versions, ())

    def _rest_on(
        self, name: EntryName, before: Iterable[Version], after: Iterable[Version]
    ) -> None:
        """Watch what the entry rests on after, and no longer what only `before` rested on."""
        old = {source for version in before for source in paths_of(version)}
        new = dict.fromkeys(itertools.chain.from_iterable(map(paths_of, after)))
        more = [source for source in new if source not in old] if old else new
        self.ground.hold(self._dependents.add(name, more))
        orphans = self._dependents.discard(name, [s for s in old if s not in new])
        self.ground.drop(orphans)
        for source in orphans:
            self._explained.pop(source, None)

    def _note_unwritten(self, name: EntryName) -> None:
        if name.kind in IN_CACHE_FILE:
            self.unwritten.add(name)

    def _note_unbased(self, known: Known) -> None:
        if _waits(known):
            self._unbased.add(known.entry.name)
            (self._to_base_then if self._learners else self.to_base).add(known.entry.name)


def _waits(known: Known) -> bool:
    return any(
        type(look) is NoPrint and _is_open(look)
        for version in known.entry.versions
        for look in version.fingerprints
    )


def _is_open(look: Fingerprint) -> bool:
    """Whether git shall say what was there."""
    return look == TO_BE_BASED or pending_oid(look) is not None


def _same(digest: bytes, digests: tuple[bytes, ...]) -> bytes:
    """The one object of `digests` that equals it: there may be 100,000."""
    return next((each for each in digests if each == digest), digest)


async def finish_large(memory: Memory, large: Iterable[Source]) -> None:
    """Hash in workers what `touched` could not hash on the loop, then judge what rests on it."""
    await asyncio.gather(*(memory.ground.hash_in_worker(source) for source in large))
    memory.settle()
