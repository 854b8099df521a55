"""The indexes of one memory tree as files: what each should say, written when it says otherwise.

`core.index_sync` decides by what is in a directory and by what the store remembers of it; here it
is asked, told where renamed notes have been, and its edits are brought into the files.

Guarantees: what was renamed or moved is described in its new index before the old line goes; what
amend derived is remembered before it is written.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from amend.core.aicontext import INDEX_NAME, LISTS, Child, Document, LineKind
from amend.core.index_sync import (
    NoteThere,
    Origin,
    Plan,
    derived_description,
    pair_moves,
    plan,
)
from amend.core.model import path_bytes, path_text
from amend.daemon.line_file import LineFile
from amend.daemon.tree_reading import ReadDirectory, ReadFile, below, children, join
from amend.edge.files.retained import held_in, tag_of, target_beside
from amend.edge.store import Store
from amend.errors import AmendError, DocumentInvalid
from amend.formats.aicontext import apply, new_index, parse_index

# Each waits for the disk twice, which takes it no longer for a few than for one.
WRITTEN_AT_ONCE: Final = 4

# An index that a person is typing into is written once they pause; DESIGN section 8.
QUIET_S: Final = 0.3


class Indexes:
    def __init__(
        self,
        root: bytes,
        path: bytes,
        *,
        repository: bytes,
        store: Store,
        retain_dir: bytes | None,
    ) -> None:
        """`repository`: whose worktrees share what is remembered (see `TreeRecords`)."""
        self.writes = 0
        self.behind: set[str] = set()  # directories whose index may have to be written
        self._root = root
        self._path = path
        self._repository = repository
        self._store = store
        self._retain_dir = retain_dir
        self._read: Mapping[str, ReadDirectory] = {}
        self._counts: Set[str] = frozenset()
        self._origins: dict[tuple[str, LineKind, str], Origin] = {}
        self._files: dict[str, LineFile] = {}  # by path below the tree
        self._is_first = True

    def noticed(self, directory: str) -> None:
        """Something in the directory was touched."""
        where = below(self._path, directory)
        for file in self._files.values():
            if file.directory == where:
                file.noticed()

    def problems(self) -> list[str]:
        return [problem for file in self._files.values() if (problem := file.problem)]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    async def write_one(self, path: str, wanted: Callable[[bytes | None], bytes | None]) -> None:
        """Bring one file of the tree to what `wanted` makes of it. Raises `AmendError`."""
        file = self._files.pop(path, None)
        if file is None:
            file = self._line_file(path, wanted, quiet_s=0.0)
        planned_before, file.plan = file.plan, wanted
        self._files[path] = file
        file.request()
        try:
            await file.written()
            self.writes += 1
        finally:
            file.plan = planned_before

    # -- what was renamed ------------------------------------------------------------------------

    def trace(
        self,
        before: Mapping[str, ReadDirectory],
        found: Mapping[str, ReadDirectory],
        lost: Mapping[str, ReadFile],
        gained: Mapping[str, ReadFile],
    ) -> None:
        """Note where what came has been before, with the words that its old line had.

        `lost`, `gained`: the notes that are in one of both only.
        """
        moves = pair_moves(_there(lost), _there(gained))
        moved = _directory_moves(before, found, moves)
        self._remember_moved(moved)
        for old, new in moves.items():
            self._came(LineKind.FILE, old, new, moved, (found, before))
        for old, new in moved.items():
            self._came(LineKind.DIRECTORY, old, new, moved, (found, before))

    def _remember_moved(self, moved: Mapping[str, str]) -> None:
        """What was seen in a directory was seen in what became of it: its index went along."""
        with self._store.transaction(durable=False):
            for old, new in moved.items():
                known = self._store.trees.lines(self._repository, self._path, old)
                rows = [(name, text) for name, texts in known.items() for text in ("", *texts)]
                self._store.trees.add_lines(self._repository, self._path, new, rows)

    def _came(
        self,
        kind: LineKind,
        old: str,
        new: str,
        moved: Mapping[str, str],
        looks: tuple[Mapping[str, ReadDirectory], Mapping[str, ReadDirectory]],
    ) -> None:
        """`moved`: of directories; `looks`: the tree now, and before."""
        found, before = looks
        directory, _, name = old.rpartition("/")
        into, _, new_name = new.rpartition("/")
        went = moved.get(directory, directory)
        # What the old line says now counts; an index that is gone had it before.
        indexes = (found.get(directory), found.get(went), before.get(directory))
        said = (_said_of(read, name) for read in indexes if read is not None)
        text = next((each for each in said if each is not None), None)
        derived = text is not None and text in self._described(directory, kind, name)
        # It may have come under the old name only just, and still be listed under the one before.
        earlier = self._origins.pop((directory, kind, name), None)
        if earlier is not None and text is None:
            text, derived = earlier.description, earlier.derived
        if earlier is not None and earlier.name is not None:
            name = earlier.name
        is_there = name in found[into].notes or name in found[into].directories
        stayed = into in (directory, went) and not is_there
        self._origins[into, kind, new_name] = Origin(name if stayed else None, text, derived)

    def _described(self, directory: str, kind: LineKind, name: str) -> set[str]:
        known = self._store.trees.lines(self._repository, self._path, directory)
        return known.get(_listed(kind, name), set())

    # -- writing indexes -------------------------------------------------------------------------

    async def write(
        self,
        read: Mapping[str, ReadDirectory],
        counts: Set[str],
        *,
        patiently: bool,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> tuple[str, ...]:
        """Write each index that is out of step; the root-relative paths of those that were.

        Questions come in between. Those that are left once it no longer `goes_on` stay behind. One
        that somebody is typing into is written later, for which this waits if `patiently`; what
        cannot be written is among the problems, and tried again.
        """
        self._read, self._counts = read, counts
        if self._is_first:
            self._is_first = False
            await self._take_up_leftovers()
        asked: list[tuple[LineFile, int]] = []
        gaining = self.behind & {directory for directory, _, _ in self._origins}
        # What came is described before the line that it was described by goes.
        for directories in (sorted(gaining), sorted(self.behind - gaining)):
            for at in range(0, len(directories), WRITTEN_AT_ONCE):
                if not goes_on():
                    break
                some = directories[at : at + WRITTEN_AT_ONCE]
                self.behind.difference_update(some)
                for found in await asyncio.gather(*map(self._bring_in_step, some)):
                    asked += found
        written = []
        for file, writes in asked:
            if patiently:
                with contextlib.suppress(AmendError):  # it is among the problems
                    await file.written()
            self.writes += file.shared.writes - writes
            if file.shared.writes > writes:
                written.append(path_text(file.path))
        unwritten = {path.rpartition("/")[0] for path, f in self._files.items() if not f.is_written}
        unwritten |= self.behind
        self._origins = {key: o for key, o in self._origins.items() if key[0] in unwritten}
        for path, file in list(self._files.items()):
            if file.is_idle and file.is_written:
                del self._files[path]
        return tuple(written)

    async def _bring_in_step(self, directory: str) -> list[tuple[LineFile, int]]:
        """Write the index if it is out of step: its file, and how often that was written before."""
        if directory not in self._counts:
            return []
        index = self._read[directory].index
        present = index.data if index is not None else None
        try:
            new = self._planned(directory, present)
        except DocumentInvalid:
            self._index_file(directory).request()  # it knows how long to wait, and what to report
            return []
        if new is None:
            await asyncio.sleep(0)
            return []
        file = self._index_file(directory)
        writes = file.shared.writes
        await file.request_away(present, new)
        return [(file, writes)]

    async def _take_up_leftovers(self) -> None:
        """What an amend that was killed, or stopped, had displaced may be somebody's last words."""
        for path in await asyncio.to_thread(self._left_behind, self._read):
            directory, _, name = path.rpartition("/")
            file = self._files.get(path)
            if file is None and name == INDEX_NAME:
                file = self._index_file(directory)
            elif file is None:
                file = self._files[path] = self._line_file(path, lambda _: None, quiet_s=0.0)
            file.noticed()

    def _left_behind(self, read: Mapping[str, ReadDirectory]) -> list[str]:
        """The files of the tree of which there are displaced versions."""
        held: set[bytes] = set()
        if self._retain_dir is not None:
            for part in _names_in(self._retain_dir):
                held |= held_in(self._retain_dir + b"/" + part)
        found: list[str] = []
        for path, each in read.items():
            where = self._root + b"/" + below(self._path, path)
            beside = {path_text(target_beside(name)) for name in _names_in(where)} - {""}
            for name in (INDEX_NAME, *each.notes):
                target = where + b"/" + path_bytes(name)
                if name in beside or (held and tag_of(target) in held):
                    found.append(join(path, name))
        return found

    def _index_file(self, directory: str) -> LineFile:
        path = join(directory, INDEX_NAME)
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._line_file(
                path, lambda present: self._planned(directory, present), quiet_s=QUIET_S
            )
        return file

    def _line_file(
        self, path: str, wanted: Callable[[bytes | None], bytes | None], quiet_s: float
    ) -> LineFile:
        where = below(self._path, path)
        return LineFile(
            self._root,
            where,
            plan=wanted,
            retain_dir=_part_of(self._retain_dir, self._root + b"/" + where),
            quiet_s=quiet_s,
        )

    def _planned(self, directory: str, present: bytes | None) -> bytes | None:
        """What the index should be, None for as it is."""
        if directory not in self._counts:
            return None
        document = parse_index(present) if present is not None else None
        if document is not None and document.problem is not None:
            raise DocumentInvalid(document.problem, hint="mend it by hand")
        here = children(self._read, self._counts, directory)
        wanted = self._plan(directory, document, here)
        if document is None:
            purpose = directory.rpartition("/")[2] or path_text(self._path).rpartition("/")[2]
            return new_index(purpose, _purpose_words(purpose), wanted.edits)
        return apply(document, wanted.edits) if wanted.edits else None

    def _plan(self, directory: str, index: Document | None, here: Sequence[Child]) -> Plan:
        known = self._store.trees.lines(self._repository, self._path, directory)
        derivable = {_listed(each.kind, each.name): derived_description(each) for each in here}

        def was_seen(kind: LineKind, name: str) -> bool:
            return _listed(kind, name) in known

        def is_derived(kind: LineKind, name: str, text: str) -> bool:
            # A description that equals what amend would derive may as well be its own: the store
            # can be lost, and another checkout's amend wrote some.
            listed = _listed(kind, name)
            return text in known.get(listed, ()) or text == derivable.get(listed)

        came_from = {
            (kind, name): origin
            for (into, kind, name), origin in self._origins.items()
            if into == directory
        }
        wanted = plan(index, here, was_seen=was_seen, is_derived=is_derived, came_from=came_from)
        rows = [(_listed(each.kind, each.name), "") for each in here]
        rows += [(_listed(kind, name), text) for kind, name, text in wanted.derived]
        news = [
            (name, text)
            for name, text in rows
            if name not in known or (text and text not in known[name])
        ]
        if news:
            with self._store.transaction(durable=False):
                self._store.trees.add_lines(self._repository, self._path, directory, news)
        return wanted


def _names_in(directory: bytes) -> list[bytes]:
    try:
        return os.listdir(directory)
    except OSError:
        return []  # gone, or not to be read, which is told elsewhere


def _part_of(retain_dir: bytes | None, target: bytes) -> bytes | None:
    """Where what is displaced of one target is kept, with a few others: each write looks through
    all that is there, and 500 indexes leave 2,500 versions."""
    if retain_dir is None:
        return None
    return retain_dir + b"/" + tag_of(target)[:2]


def _said_of(read: ReadDirectory, name: str) -> str | None:
    """How the directory's index describes it, None where it does not list it."""
    if read.index is None or read.index.data is None:
        return None
    lines = parse_index(read.index.data).lines
    said = [line.text for line in lines if line.kind in LISTS and line.name == name]
    return next((each for each in said if each), said[0] if said else None)


def _listed(kind: LineKind, name: str) -> str:
    """A directory and a file may have one name at different times."""
    return name + "/" if kind is LineKind.DIRECTORY else name


def _purpose_words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")


def _there(notes: Mapping[str, ReadFile]) -> list[NoteThere]:
    return [NoteThere(path, note.blob, note.title) for path, note in notes.items()]


def _indexes_only_in(
    read: Mapping[str, ReadDirectory], other: Mapping[str, ReadDirectory]
) -> list[NoteThere]:
    return [
        NoteThere(join(path, INDEX_NAME), each.index.blob, "")
        for path, each in read.items()
        if path not in other and each.index is not None
    ]


def _directory_moves(
    before: Mapping[str, ReadDirectory],
    found: Mapping[str, ReadDirectory],
    moves: Mapping[str, str],
) -> dict[str, str]:
    """Directories that are gone, and where most of their files went, those under the same names
    counting double: notes, and indexes that nobody has changed."""
    votes: dict[tuple[str, str], int] = {}
    indexes = pair_moves(_indexes_only_in(before, found), _indexes_only_in(found, before))
    for old, new in [*moves.items(), *indexes.items()]:
        old_path, _, old_name = old.rpartition("/")
        new_path, _, new_name = new.rpartition("/")
        weight = 1 + (old_name == new_name)
        while old_path and new_path:
            if old_path not in found and new_path not in before:
                votes[old_path, new_path] = votes.get((old_path, new_path), 0) + weight
            old_path, _, old_name = old_path.rpartition("/")
            new_path, _, new_name = new_path.rpartition("/")
            if old_name != new_name:
                break
    best: dict[str, str] = {}
    for (old, new), _ in sorted(votes.items(), key=lambda item: item[1]):
        best[old] = new
    return best
