"""Git asked about one worktree's memory, in a worker, one batch at a time.

What it is asked: what versions older than amend's record rested on, what the hashes of contracts
stand for, and why sources changed. Each is asked once for what the source looks like and for what
is checked out; a HEAD that moves while git is asked makes the question new.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from amend.core.freshness import Explained
from amend.core.model import (
    EntryName,
    FilePrint,
    Fingerprint,
    Kind,
    RelPath,
    Source,
    Version,
)
from amend.core.notes import written_between
from amend.daemon.by_content import at_hash
from amend.daemon.explain import (
    AskedBy,
    Question,
    Told,
    Unbased,
    at_head,
    base_versions,
    lf_blob,
    moves_of,
    with_commits,
)
from amend.daemon.memory import TO_BE_BASED, Memory, pending_oid
from amend.edge.files.look import modified_at_ns
from amend.edge.git.head import HeadState, needs_git
from amend.edge.git.places import RepositoryPlaces
from amend.formats.contract import Reference

# At some 20 µs each: of 10,000 notes of which nobody knows what they rested on.
NAMES_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Whom git is asked about a source: `head` is its "now"."""

    places: RepositoryPlaces | None
    head: HeadState
    root: bytes
    is_worktree: bool = True  # whether "now" are the files at `root`


class Asking:
    """`where` says whom to ask about a repository's sources: None for the worktree's own."""

    def __init__(self, memory: Memory, where: Callable[[str | None], Whereabouts]) -> None:
        self._memory = memory
        self._where = where

    @property
    def has_questions(self) -> bool:
        return bool(self._memory.to_base) or self._memory.has_questions()

    async def ask(self) -> set[EntryName]:
        """Ask all there is; returns whose hashes were resolved. Raises GitFailed and Refused."""
        names, self._memory.to_base = self._memory.to_base, set()
        await self._base(names)
        resolved = await self._resolve(names)
        await self._explain()
        return resolved

    async def _base(self, names: Iterable[EntryName]) -> None:
        unbased: dict[str | None, list[Unbased]] = {}
        owners: dict[int, EntryName] = {}
        async for name in _each_in_turn(names):
            known = self._memory.known(name)
            for version in known.entry.versions if known is not None else ():
                waiting = [
                    source
                    for source, look in zip(version.sources, version.fingerprints, strict=True)
                    if look == TO_BE_BASED
                ]
                owners[version.id] = name
                for repository in dict.fromkeys(source.repository for source in waiting):
                    there = [source for source in waiting if source.repository == repository]
                    looks = tuple([await self._look(source) for source in there])
                    asked = _unbased(name, version, looks)
                    unbased.setdefault(repository, []).append(asked)
        now = datetime.now(UTC)
        for repository, asked_there in unbased.items():
            place = self._where(repository)
            based = await asyncio.to_thread(
                base_versions, place.places, place.head, place.root, asked_there, now
            )
            self._memory.based({id_: (owners[id_], prints) for id_, prints in based.items()})

    async def _resolve(self, names: Iterable[EntryName]) -> set[EntryName]:
        """What the hashes of contracts stand for: one question for each commit."""
        owners: dict[int, EntryName] = {}
        asked: dict[tuple[str | None, str], list[tuple[int, Reference]]] = {}
        async for name in _each_in_turn(names):
            known = self._memory.known(name)
            for version in known.entry.versions if known is not None else ():
                owners[version.id] = name
                for source, look in zip(version.sources, version.fingerprints, strict=True):
                    oid = pending_oid(look)
                    if oid is not None:
                        there = asked.setdefault((source.repository, oid), [])
                        there.append((version.id, Reference(source, oid)))
        told: dict[int, dict[Source, Fingerprint]] = {}
        for (repository, oid), references in asked.items():
            place = self._where(repository)
            if place.places is None:
                continue  # asked again when it is there
            wanted = [reference for _, reference in references]
            prints = await asyncio.to_thread(at_hash, place.places, oid, wanted)
            for version_id, reference in references:
                found = prints[reference]
                if isinstance(found, FilePrint):
                    found = replace(found, mode=0)  # a hash in a contract is of bytes alone
                    now = self._memory.ground.last(reference.source)
                    if isinstance(now, FilePrint) and now.blob != found.blob:
                        path = reference.source.path
                        lf = await asyncio.to_thread(lf_blob, place.root, path, now.blob)
                        if lf == found.blob:  # git wrote it with CRLF
                            found = replace(found, blob=now.blob)
                told.setdefault(version_id, {})[reference.source] = found
        if told:
            self._memory.based({id_: (owners[id_], prints) for id_, prints in told.items()})
        return {owners[id_] for id_ in told}

    async def _look(self, source: Source) -> tuple[Source, Fingerprint, int]:
        ground = self._memory.ground
        look = await ground.look_patiently(source)
        seen = ground.last_look(source)
        return source, look, modified_at_ns(seen.stat) if seen is not None else 0

    async def _explain(self) -> None:
        asked_by = self._memory.take_questions()
        for repository in dict.fromkeys(question.source.repository for question in asked_by):
            there = {q: who for q, who in asked_by.items() if q.source.repository == repository}
            await self._explain_there(repository, there)

    async def _explain_there(self, repository: str | None, asked_by: AskedBy) -> None:
        asked = list(asked_by)
        there = self._where(repository)
        places, head, root = there.places, there.head, there.root
        if repository is not None and places is not None and needs_git(places):
            return  # a sibling's reftable is not read; why it changed stays open
        if places is None:
            edited = Explained(committed=False)
            await self._take(repository, head, {q.source: (q.now, edited) for q in asked})
            return
        told = await asyncio.to_thread(at_head, places, head, root, asked)
        if not await self._take(repository, head, told):
            return
        for some in _each_path_once(asked) if there.is_worktree else ():
            moves = await asyncio.to_thread(moves_of, places, head, root, some)
            if not self._is_still(repository, head):
                return
            for question in some:
                if question.source.path in moves:
                    new = moves[question.source.path]
                    for name, version_id in asked_by[question]:
                        self._memory.moved(name, version_id, question.source, new)
        told = await asyncio.to_thread(with_commits, places, head, told)
        await self._take(repository, head, told)

    async def _take(self, repository: str | None, head: HeadState, told: Told) -> bool:
        """Give what git said to the memory, unless it was about a HEAD that is no more."""
        if self._is_still(repository, head):
            self._memory.explained(told)
            await self._memory.catch_up()
        return self._is_still(repository, head)

    def _is_still(self, repository: str | None, head: HeadState) -> bool:
        now = self._where(repository).head
        return (now.symref, now.oid) == (head.symref, head.oid)


def _unbased(
    name: EntryName, version: Version, looks: tuple[tuple[Source, Fingerprint, int], ...]
) -> Unbased:
    if name.kind is not Kind.NOTE or version.ts is None:
        return Unbased(version.id, version.ts, looks)
    begin, end = written_between(version.ts.date())  # a note has a day, not a time of it
    return Unbased(version.id, begin, looks, end)


async def _each_in_turn(names: Iterable[EntryName]) -> AsyncIterator[EntryName]:
    """Questions come in between."""
    for number, name in enumerate(names):
        if number % NAMES_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield name


def _each_path_once(asked: Iterable[Question]) -> list[list[Question]]:
    """The questions in as few lists as have no path twice: findings may have seen a file in
    different states."""
    lists: list[dict[RelPath, Question]] = []
    for question in asked:
        path = question.source.path
        free = next((each for each in lists if path not in each), None)
        if free is None:
            lists.append(free := {})
        free[path] = question
    return [list(each.values()) for each in lists]
