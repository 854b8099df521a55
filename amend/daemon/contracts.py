"""One worktree's contracts: read when their files come, change or go, and found by what is asked.

Each file below `.agent-cache.d` (the patterns are configurable) is an entry of kind `contract`,
which only its own file and amend's store hold: amend writes no contract. What a hash in it stands
for is found at once where it is that of the file's present bytes, and by git otherwise.

Guarantees: a document that cannot be parsed is told of and takes nothing away; `refresh` has looked
at every name and stat when something was touched, or when nothing is watched.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from amend.core.endpoint import asked, covers, distance
from amend.core.evidence import CitedLines, CitedQuote, Remembered, remember
from amend.core.model import (
    CauseKind,
    EntryName,
    FilePrint,
    Fingerprint,
    Kind,
    ListingPrint,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
    Version,
    path_bytes,
    path_text,
)
from amend.daemon.ground import NeedsWorker
from amend.daemon.memory import Memory, pending
from amend.edge.files.beneath import read_file
from amend.edge.files.look import look_at_glob, stat_key
from amend.edge.watch.interface import Key, Watch
from amend.errors import AmendError
from amend.formats.contract import (
    DOCUMENT_BYTES_MAX,
    Contract,
    Reference,
    name_of,
    parse,
)

# One that is not the default is the configuration's; a thousand endpoints are a large service.
PATTERNS: Final = (b".agent-cache.d/**/*.json",)


@dataclass(frozen=True, slots=True)
class _Held:
    stat: bytes
    contract: Contract | None  # None: it cannot be parsed


class Contracts:
    def __init__(self, memory: Memory, watch: Watch | None, key: Key) -> None:
        self.patterns: Sequence[bytes] = PATTERNS  # see `look_for`
        self._memory = memory
        self._watch = watch
        self._key = key
        self._held: dict[bytes, _Held] = {}
        self._problems: dict[bytes, str] = {}
        self._directories: set[bytes] = set()
        self._is_dirty = True
        self._is_first = True

    def look_for(self, patterns: Sequence[bytes]) -> None:
        """Where contracts are, from now on."""
        if tuple(patterns) != tuple(self.patterns):
            self.patterns = tuple(patterns)
            self._is_dirty = True

    def noticed(self) -> None:
        self._is_dirty = True

    def problems(self) -> list[str]:
        return [text for _, text in sorted(self._problems.items())]

    def refresh(self) -> None:
        """Learn what has come, changed and gone since this was last called."""
        if not self._is_dirty and self._watch is not None:
            return
        self._is_dirty = False
        found = self._names()
        for path in self._held.keys() - found:
            self._forget(path)
        for path in sorted(found):
            stat = stat_key(self._memory.root, path)
            held = self._held.get(path)
            if held is None or held.stat != stat:
                self._learn(path, stat)
        if self._is_first:
            self._is_first = False
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Contracts that the store has and no file: they went while nobody looked."""
        there = {name_of(path) for path in self._held}
        for name in self._memory.names():
            if name.kind is Kind.CONTRACT and name not in there:
                self._memory.forget_contract(name)

    def _names(self) -> set[bytes]:
        names: set[bytes] = set()
        directories: set[bytes] = set()
        for pattern in self.patterns:
            look, reached = look_at_glob(self._memory.root, pattern, now_ns=time.time_ns())
            directories.update(reached)
            if isinstance(look.fingerprint, ListingPrint):
                names.update(look.fingerprint.names.split(b"\0"))
        if self._watch is not None:
            for directory in directories - self._directories:
                self._watch.want_names(self._memory.root, directory, self._key)
                self._is_dirty = True  # a name may have come before it was watched
            for directory in self._directories - directories:
                self._watch.unwant_names(self._memory.root, directory, self._key)
            self._directories = directories
        return names - {b""}

    def disarm(self) -> None:
        if self._watch is not None:
            for directory in self._directories:
                self._watch.unwant_names(self._memory.root, directory, self._key)
            for path in self._held:
                self._watch.unwant(self._memory.root, path, self._key)
        self._directories.clear()

    def _learn(self, path: bytes, stat: bytes) -> None:
        before = self._held.get(path)
        if before is None and self._watch is not None:
            self._watch.want(self._memory.root, path, self._key)
        try:
            data = read_file(self._memory.root, path, bytes_max=DOCUMENT_BYTES_MAX)
            contract = parse(data, path)
        except (AmendError, OSError) as error:
            self._problems[path] = f"{path_text(path)}: {getattr(error, 'message', error)}"
            kept = before.contract if before is not None else None
            self._held[path] = _Held(stat, kept)
            return
        self._problems.pop(path, None)
        self._held[path] = _Held(stat, contract)
        self._memory.learn_contract(contract.name, data, lambda: self._version(contract))

    def _forget(self, path: bytes) -> None:
        held = self._held.pop(path)
        self._problems.pop(path, None)
        if self._watch is not None:
            self._watch.unwant(self._memory.root, path, self._key)
        if held.contract is not None:
            self._problems.pop(_evidence_key(held.contract.name), None)
            self._memory.forget_contract(held.contract.name)

    def _version(self, contract: Contract) -> Version:
        prints: dict[Source, Fingerprint] = {}
        for reference in contract.references:
            prints[reference.source] = self._print(reference)
        sources = (*prints, *(Source(SourceKind.URL, _url(url)) for url in contract.urls))
        looks = [prints.get(source, NoPrint(CauseKind.UNREADABLE)) for source in sources]
        return Version(
            0,
            sources,
            tuple(looks),
            contract.generated_at,
            contract.problems,
            evidence=tuple(self._evidence(contract, prints)),
        )

    def _print(self, reference: Reference) -> Fingerprint:
        ground = self._memory.ground
        ground.hold((reference.source,))
        try:
            now = ground.look(reference.source)
        except NeedsWorker:
            return pending(reference.oid)
        if isinstance(now, FilePrint) and now.blob.hex() == reference.oid:
            return FilePrint(now.blob, 0)
        return pending(reference.oid)

    def _evidence(
        self, contract: Contract, prints: Mapping[Source, Fingerprint]
    ) -> list[tuple[Source, Remembered]]:
        """What is cited of files that are as the contract says; no other text is at hand.

        Of a file with a citation that cannot be remembered, nothing is: any byte of it counts.
        """
        evidence: list[tuple[Source, Remembered]] = []
        refused: set[Source] = set()
        self._problems.pop(_evidence_key(contract.name), None)
        for each in contract.evidence:
            then = prints.get(each.source)
            if not isinstance(then, FilePrint):
                continue
            text = self._memory.ground.text(each.source, then)
            if text is None:
                continue
            lines = CitedLines(*each.lines) if each.lines is not None else None
            try:
                remembered = remember(text, lines or CitedQuote(each.quote or ""))
                evidence.append((each.source, remembered))
            except ValueError as error:
                refused.add(each.source)
                self._problems[_evidence_key(contract.name)] = (
                    f"evidence of {each.source.spec} cannot be found again: {error}"
                )
        return [(source, remembered) for source, remembered in evidence if source not in refused]

    def cite(self, names: Iterable[EntryName]) -> None:
        """Remember the evidence of contracts of which git has just said what they rest on."""
        contracts = {h.contract.name: h.contract for h in self._held.values() if h.contract}
        for name in names:
            known, contract = self._memory.known(name), contracts.get(name)
            if known is None or contract is None or known.entry.versions[0].evidence:
                continue
            newest = known.entry.versions[0]
            prints = dict(zip(newest.sources, newest.fingerprints, strict=True))
            evidence = tuple(self._evidence(contract, prints))
            if evidence:
                self._memory.cite(name, newest.id, evidence)

    # -- finding ---------------------------------------------------------------------------------

    def named(self, key: str, repository: str | None) -> EntryName | None:
        """The contract that has `key` among its keys."""
        return self._best(lambda contract: key in contract.keys, repository)

    def describing(self, question: str, repository: str | None) -> EntryName | None:
        """The contract whose endpoint covers the one asked for, the closest where several do."""
        wanted = asked(question)
        if wanted is None:
            return None
        return self._best(
            lambda c: c.endpoint is not None and covers(c.endpoint, wanted), repository
        )

    def _best(self, fits: Callable[[Contract], bool], repository: str | None) -> EntryName | None:
        found = [
            held.contract
            for held in self._held.values()
            if held.contract is not None
            and fits(held.contract)
            and (repository is None or held.contract.repository == repository)
        ]
        if not found:
            return None
        return min(found, key=_closeness).name


def _evidence_key(name: EntryName) -> bytes:
    """Not a path, under which what is wrong with the whole document stands."""
    return b"\0" + path_bytes(name.key)


def _closeness(contract: Contract) -> tuple[object, ...]:
    near = distance(contract.endpoint) if contract.endpoint is not None else ((), False)
    return (near, contract.name.key)


def _url(url: str) -> RelPath:
    return RelPath(url.encode("utf-8", "surrogateescape"))
