"""Judge an entry: its versions against what its sources look like now.

The rule (DESIGN section 4): a version is supported when every source matches its fingerprint. The
newest supported version answers; when none is, the newest one does, stale or unknown, with causes.
A note is the text that is in its file, so of a note the newest version alone can answer.

Guarantees: no entry is fresh with a source that was not looked at, that could not be looked at, or
that has no fingerprint; `look` is asked about a version's sources only when no newer version is
supported. Knows nothing of git: `explain` adds what git said about a change, later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from amend.core.evidence import Remembered, Standing
from amend.core.model import (
    UNKNOWN_CAUSES,
    AbsentPrint,
    Cause,
    CauseKind,
    Commit,
    Entry,
    FilePrint,
    Fingerprint,
    Judgement,
    Kind,
    ListingPrint,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
    Verdict,
    Version,
    path_text,
)

Look = Callable[[Source], Fingerprint]

Stands = Callable[[Source, Remembered, FilePrint], Standing | None]
"""What became of cited lines in the file of that print; None: nobody could look."""

# A cause lists names so that a person recognises the change; a directory that was emptied
# needs no thousand of them. 20 fits a screen.
NAMES_IN_CAUSE_MAX: Final = 20

# Of a cited line: a minified file is one.
LINE_IN_CAUSE_BYTES_MAX: Final = 500

# What a person says needs no file: fresh for as long as it is there.
_MAY_REST_ON_NOTHING: Final = frozenset({Kind.PATTERN, Kind.NOTE})


@dataclass(frozen=True, slots=True)
class Explained:
    """What git says of a path's present state: whether HEAD has it, and which commit brought it."""

    committed: bool
    commit: Commit | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """Why a version is not supported, and which of its files changed without that."""

    causes: tuple[Cause, ...]
    drift: tuple[str, ...] = ()


def judge(
    entry: Entry,
    look: Look,
    now: datetime,
    max_age: timedelta | None,
    stands: Stands | None = None,
) -> Judgement:
    """The verdict on `entry` now. `max_age` None: it never expires. `stands` None: any byte of a
    source counts, whatever was cited of it."""
    newest = entry.versions[0]
    if newest.problems:
        causes = tuple(
            Cause(CauseKind.INVALID, detail=p.rule, pointer=p.pointer) for p in newest.problems
        )
        return Judgement(Verdict.STALE, newest, causes)
    first: tuple[Cause, ...] = ()
    drift: tuple[str, ...] = ()
    may_answer = entry.versions[:1] if entry.name.kind is Kind.NOTE else entry.versions
    for version in may_answer:
        compared = compare(entry.name.kind, version, look, stands, all_of_them=version is newest)
        causes = compared.causes
        if all(cause.kind is CauseKind.MOVED for cause in causes) and not version.problems:
            if _expired(version, now, max_age):
                expired = Cause(CauseKind.EXPIRED, detail=_age(version, max_age), verified=True)
                return Judgement(Verdict.STALE, version, (expired, *causes), compared.drift)
            return Judgement(Verdict.FRESH, version, causes, compared.drift)
        if version is newest:
            first, drift = causes, compared.drift
    if _expired(newest, now, max_age):
        first = (*first, Cause(CauseKind.EXPIRED, detail=_age(newest, max_age)))
    return Judgement(verdict_of(first), newest, first, drift)


def verdict_of(causes: tuple[Cause, ...]) -> Verdict:
    """What the causes of an unsupported version amount to: one known difference makes it stale."""
    kinds = {cause.kind for cause in causes} - {CauseKind.MOVED}
    if not kinds:
        return Verdict.FRESH
    return Verdict.UNKNOWN if kinds <= UNKNOWN_CAUSES else Verdict.STALE


def compare(
    kind: Kind,
    version: Version,
    look: Look,
    stands: Stands | None = None,
    *,
    all_of_them: bool = True,
) -> Compared:
    """The reasons why `version` is not supported now, in the order of its sources; those up to the
    first that counts where that is enough.

    Causes of kind `moved` do not count against it. Expiry is not looked at.
    """
    if not version.sources and kind not in _MAY_REST_ON_NOTHING:
        nothing = Cause(CauseKind.NO_BASELINE, detail="names no files, so nothing can be checked")
        return Compared((nothing,))
    causes: list[Cause] = []
    drift: list[str] = []
    for source, then in zip(version.sources, version.fingerprints, strict=True):
        now = look(source)
        if then is now and type(now) is FilePrint and source.kind is SourceKind.FILE:
            continue  # the common case: prints are shared, so one look costs one comparison
        cause = _difference(source, then, now)
        if cause is not None and cause.kind is CauseKind.DELETED:
            cause = _followed(source, then, version, look) or cause
        if cause is None:
            continue
        fallen = None
        if cause.kind is CauseKind.EDITED and isinstance(now, FilePrint) and stands is not None:
            fallen = _fallen(source, now, version, stands)
        if fallen == []:
            drift.append(cause.source)
            continue
        causes += [cause, *(fallen or ())]
        if not all_of_them and cause.kind is not CauseKind.MOVED:
            break
    return Compared(tuple(causes), tuple(drift))


def _fallen(source: Source, now: FilePrint, version: Version, stands: Stands) -> list[Cause] | None:
    """A cause for each cited line of the source that stands no more; None: none was cited."""
    cited = [remembered for cites, remembered in version.evidence if cites == source]
    if not cited:
        return None
    causes = []
    for remembered in cited:
        standing = stands(source, remembered, now)
        if standing is None or not standing.stands:
            causes.append(_fell(source, remembered, standing))
    return causes


def _fell(source: Source, remembered: Remembered, standing: Standing | None) -> Cause:
    why = standing.why if standing is not None else "the file could not be read to find it"
    kind = standing.kind.value if standing is not None else "not found"
    return Cause(
        CauseKind.EVIDENCE,
        source.spec,
        f"line {remembered.start} {kind}" + (f": {why}" if why else ""),
        gained=_lines(standing.nearest) if standing is not None else (),
        lost=_lines(remembered.lines),
    )


def _lines(lines: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(
        line[:LINE_IN_CAUSE_BYTES_MAX].decode("utf-8", "replace")
        for line in lines[:NAMES_IN_CAUSE_MAX]
    )


def _difference(source: Source, then: Fingerprint, now: Fingerprint) -> Cause | None:
    spec = source.spec
    if isinstance(now, NoPrint):
        return Cause(now.reason, spec, now.detail)
    if source.kind is SourceKind.ABSENT:
        return None if isinstance(now, AbsentPrint) else Cause(CauseKind.APPEARED, spec)
    if isinstance(then, NoPrint):
        return Cause(then.reason, spec, then.detail)
    if isinstance(now, AbsentPrint):
        never = isinstance(then, AbsentPrint)
        detail = "did not exist when it was recorded" if never else ""
        return Cause(CauseKind.DELETED, spec, detail, settled=never)
    if then == now:
        return None
    if isinstance(then, FilePrint) and isinstance(now, FilePrint):
        if then.mode == 0 and then.blob == now.blob:
            return None
        return Cause(CauseKind.EDITED, spec, settled=False)
    if isinstance(then, ListingPrint) and isinstance(now, ListingPrint):
        before, after = set(then.names.split(b"\0")), set(now.names.split(b"\0"))
        return Cause(
            CauseKind.APPEARED, spec, gained=_names(after - before), lost=_names(before - after)
        )
    return Cause(CauseKind.APPEARED, spec)


def _names(names: set[bytes]) -> tuple[str, ...]:
    return tuple(path_text(name) for name in sorted(names - {b""})[:NAMES_IN_CAUSE_MAX])


def _followed(source: Source, then: Fingerprint, version: Version, look: Look) -> Cause | None:
    """The cause `moved` when the source's bytes stand where git says they went."""
    for old, new in version.moves:
        if old == source.path and source.kind is SourceKind.FILE:
            there = look(Source(SourceKind.FILE, new, source.repository))
            is_same = isinstance(then, FilePrint) and isinstance(there, FilePrint)
            if is_same and _difference(source, then, there) is None:
                return Cause(CauseKind.MOVED, source.spec, moved_to=path_text(new))
    return None


def _expired(version: Version, now: datetime, max_age: timedelta | None) -> bool:
    return max_age is not None and version.ts is not None and now - version.ts > max_age


def _age(version: Version, max_age: timedelta | None) -> str:
    assert version.ts is not None
    assert max_age is not None
    return f"written {version.ts:%Y-%m-%d}, older than {max_age / timedelta(days=1):g} days"


def explain(
    judgement: Judgement, known: Mapping[Source, tuple[Fingerprint, Explained | None]], look: Look
) -> Judgement:
    """The same judgement with `edited` and `deleted` settled where git has been asked.

    `known` maps a source to what it looked like when git was asked and what git said; an answer
    about another look than the present one does not count. None: it had nothing to say.
    """
    if all(cause.settled for cause in judgement.causes):
        return judgement
    by_spec = {source.spec: source for source in (judgement.version or _NOTHING).sources}
    causes = []
    for cause in judgement.causes:
        source = by_spec.get(cause.source)
        told = known.get(source) if source is not None and not cause.settled else None
        said = told[1] if told is not None else None
        if source is None or told is None or said is None or told[0] != look(source):
            causes.append(cause)
            continue
        committed, commit = said.committed, said.commit
        kind = cause.kind
        if committed and kind is CauseKind.EDITED:
            kind = CauseKind.COMMITTED
        causes.append(replace(cause, kind=kind, commit=commit, settled=True))
    return replace(judgement, causes=tuple(causes))


_NOTHING: Final = Version(0, (), (), None)


def paths_of(version: Version) -> tuple[Source, ...]:
    """Every source that can change the verdict on `version`: its own and where they moved."""
    if not version.moves:
        return version.sources
    moved = tuple(
        Source(SourceKind.FILE, new, source.repository)
        for old, new in version.moves
        for source in version.sources
        if source.path == old and source.kind is SourceKind.FILE
    )
    return version.sources + moved


def with_move(version: Version, old: RelPath, new: RelPath) -> Version:
    """The version with `old` followed to `new`, instead of to where it led before."""
    kept = tuple(pair for pair in version.moves if pair[0] != old)
    return replace(version, moves=(*kept, (old, new)))
