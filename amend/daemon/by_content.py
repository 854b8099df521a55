"""Judge a contract by content, from files and git alone, as one question without a daemon.

A hash in a contract stands for bytes: those of the blob that it names, or those that the commit
that it names had at the path. They are compared with the bytes at the place that counts as "now".
So rebase, squash, revert and cherry-pick change nothing.

Guarantees: fresh only where every referenced file was looked at in this call and has these bytes; a
hash that is nothing in this clone is unknown (`shallow`), never fresh. Reads, starts git, writes
nothing. Evidence is not searched: any byte counts.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from amend.core.freshness import Explained, explain, judge, verdict_of
from amend.core.model import (
    ABSENT,
    GIT_MODE_FILE,
    Cause,
    CauseKind,
    Entry,
    FilePrint,
    Fingerprint,
    Judgement,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
    Verdict,
    Version,
)
from amend.daemon.explain import Question, Told, at_head, moves_of, with_commits
from amend.daemon.siblings import Commit, Sibling
from amend.edge.files.look import look_at_file
from amend.edge.git.history import TreeEntry, entries_at
from amend.edge.git.places import RepositoryPlaces, ask
from amend.edge.git.run import LIMIT_S, RESOLVE, GitFailed, GitTimedOut
from amend.formats.contract import Contract, Reference

_SYMLINK_MODE: Final = 0o120000

# Hexadecimal digits of a SHA-1, in which amend names blobs.
_SHA1_DIGITS: Final = 40

# As `git log --oneline` shows.
_OID_CHARS: Final = 7

Repositories = Mapping[str | None, Sibling]
"""By the name that sources have for them; None is the one the contract lies in."""


def judged(contract: Contract, repositories: Repositories, now: datetime) -> Judgement:
    """The verdict on the contract at this moment, and every cause."""
    if contract.problems:
        version = Version(0, (), (), contract.generated_at, contract.problems)
        return judge(Entry(contract.name, (version,)), _unseen, now, None)
    sources = tuple(reference.source for reference in contract.references)
    looks = _Looks(repositories)
    looks.take(sources)
    then = _then(contract.references, repositories, looks)
    version = Version(0, sources, then, contract.generated_at)
    judgement = judge(Entry(contract.name, (version,)), looks, now, None)
    if any(not cause.settled for cause in judgement.causes):
        told, moves = _told(judgement, repositories, looks)
        if moves:
            version = replace(version, moves=moves)
            judgement = judge(Entry(contract.name, (version,)), looks, now, None)
        judgement = explain(judgement, told, looks)
    return _with_urls(judgement, contract.urls)


def _unseen(source: Source) -> Fingerprint:
    raise AssertionError(f"{source.spec} is of no account where the document is broken")


def _with_urls(judgement: Judgement, urls: Iterable[str]) -> Judgement:
    said = "is on the network, where amend does not look"
    unasked = tuple(Cause(CauseKind.UNREADABLE, url, said) for url in urls)
    causes = (*judgement.causes, *unasked)
    stale = judgement.verdict is Verdict.STALE
    return replace(judgement, causes=causes, verdict=Verdict.STALE if stale else verdict_of(causes))


# -- now -----------------------------------------------------------------------------------------


class _Looks:
    """What each source is now, looked at once."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._prints: dict[Source, Fingerprint] = {}

    def __call__(self, source: Source) -> Fingerprint:
        if source not in self._prints:
            self.take([source])
        return self._prints[source]

    def take(self, sources: Sequence[Source]) -> None:
        for repository in {source.repository for source in sources}:
            mine = [source for source in sources if source.repository == repository]
            sibling = self._repositories.get(repository)
            if sibling is None:
                unnamed = NoPrint(CauseKind.UNREADABLE, f"no sibling is called {repository}")
                self._prints.update(dict.fromkeys(mine, unnamed))
            else:
                self._prints.update(prints_now(sibling, mine))


def prints_now(sibling: Sibling, sources: Sequence[Source]) -> dict[Source, Fingerprint]:
    """What each file is at the place that is "now" for its repository."""
    place = sibling.now()
    if isinstance(place, NoPrint):
        return dict.fromkeys(sources, place)
    if isinstance(place, Commit):
        try:
            entries = entries_at(place.places, place.oid, [source.path for source in sources])
        except GitFailed as error:
            return dict.fromkeys(sources, NoPrint(CauseKind.UNREADABLE, error.message))
        return {source: _print_of(entries.get(source.path)) for source in sources}
    looks = {}
    for source in sources:
        look = look_at_file(place, source.path, now_ns=time.time_ns())
        assert look is not None, "no size is left to a worker"
        looks[source] = look.fingerprint
    return looks


def _print_of(entry: TreeEntry | None) -> Fingerprint:
    if entry is None:
        return ABSENT
    if entry.mode == _SYMLINK_MODE:
        return NoPrint(CauseKind.UNREADABLE, "is a symlink in that commit")
    if entry.blob is None:
        return NoPrint(CauseKind.UNREADABLE, "its repository names files by SHA-256")
    return FilePrint(entry.blob, entry.mode)


# -- then ----------------------------------------------------------------------------------------


def _then(
    references: Sequence[Reference], repositories: Repositories, looks: _Looks
) -> tuple[Fingerprint, ...]:
    """What each hash stands for, parallel to the references; git is asked once for each commit."""
    found: dict[Reference, Fingerprint] = {}
    by_commit: dict[tuple[str | None, str], list[Reference]] = {}
    for reference in references:
        now = looks(reference.source)
        if isinstance(now, FilePrint) and now.blob.hex() == reference.oid:
            found[reference] = now
        elif isinstance(now, NoPrint):
            found[reference] = now  # no answer, whatever was there
        else:
            key = (reference.source.repository, reference.oid)
            by_commit.setdefault(key, []).append(reference)
    for (repository, oid), asked in by_commit.items():
        places = repositories[repository].places
        assert places is not None, "what cannot be asked has no look either"
        found |= at_hash(places, oid, asked)
    # Content counts, and a mode does not.
    return tuple(_in_mode(found[each], looks(each.source)) for each in references)


def at_hash(
    places: RepositoryPlaces, oid: str, references: Sequence[Reference]
) -> dict[Reference, Fingerprint]:
    try:
        entries = entries_at(places, oid, [each.source.path for each in references])
    except GitTimedOut as error:
        return dict.fromkeys(references, NoPrint(CauseKind.UNREADABLE, error.message))
    except GitFailed:
        return dict.fromkeys(references, _no_commit(places, oid))
    return {each: _print_of(entries.get(each.source.path)) for each in references}


def _no_commit(places: RepositoryPlaces, oid: str) -> Fingerprint:
    """The blob that the hash names, or that it names nothing here."""
    try:
        ask(places, RESOLVE, [f"{oid}^{{blob}}"], until_s=time.monotonic() + LIMIT_S)
    except GitFailed:
        said = f"{oid[:_OID_CHARS]} is neither a commit nor a blob of it"
        return NoPrint(CauseKind.SHALLOW, said)
    if len(oid) != _SHA1_DIGITS:
        return NoPrint(CauseKind.UNREADABLE, "its repository names files by SHA-256")
    return FilePrint(bytes.fromhex(oid), GIT_MODE_FILE)


def _in_mode(then: Fingerprint, now: Fingerprint) -> Fingerprint:
    if isinstance(then, FilePrint) and isinstance(now, FilePrint):
        return replace(then, mode=now.mode)
    return then


# -- why -----------------------------------------------------------------------------------------


def _told(
    judgement: Judgement, repositories: Repositories, looks: _Looks
) -> tuple[Told, tuple[tuple[RelPath, RelPath], ...]]:
    """What git says of the differences, and where deleted files went. What it cannot say is left
    out."""
    version = judgement.version
    assert version is not None
    unsettled = {cause.source for cause in judgement.causes if not cause.settled}
    told: Told = {}
    moves: dict[RelPath, RelPath] = {}
    asked: dict[str | None, list[Question]] = {}
    for source, then in zip(version.sources, version.fingerprints, strict=True):
        if source.spec in unsettled and source.kind is SourceKind.FILE:
            asked.setdefault(source.repository, []).append(Question(source, then, looks(source)))
    for repository, questions in asked.items():
        sibling = repositories[repository]
        places = sibling.places
        assert places is not None, "nothing can differ where nothing can be looked at"
        try:
            if sibling.is_worktree:
                found = at_head(places, sibling.head, sibling.root, questions)
                moves |= moves_of(places, sibling.head, sibling.root, questions)
            else:
                found = {q.source: (q.now, Explained(committed=True)) for q in questions}
            told |= found | with_commits(places, sibling.head, found)
        except GitFailed:
            continue
    return told, tuple(moves.items())
