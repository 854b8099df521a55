"""One memory tree: its indexes kept in step with its directories, its notes known.

Once changes have settled the directories concerned are read again in a worker, what left and came
is paired, and each index that says something else than `core.index_sync` wants is written by
`LineFile`. Nothing is written while git is in the middle of an operation.

Guarantees: an index is written only when that changes its lines; a description that a person wrote
goes along when its note is renamed or moved; reading again what amend has written changes nothing.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from amend.core.aicontext import INDEX_NAME, LISTS, SUFFIX, Noted
from amend.core.model import path_text
from amend.core.notes import joined, merged
from amend.daemon.lock_wait import LockWait
from amend.daemon.notes import Notes
from amend.daemon.tree_indexes import Indexes
from amend.daemon.tree_reading import (
    DEPTH_MAX,
    FILE_BYTES_MAX,
    ReadDirectory,
    ReadFile,
    below,
    counting,
    files_in,
    is_tree,
    join,
    read_tree,
)
from amend.edge.files.look import changed_at_ns
from amend.edge.files.straight import is_link, make_directories, read_straight
from amend.edge.git.head import NO_HEAD, HeadState, is_locked, needs_git, read_head
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.run import GitFailed
from amend.edge.git.trees import ignored_below
from amend.edge.store import Store
from amend.edge.store_trees import NoteRow
from amend.edge.watch.interface import Watch
from amend.errors import AmendError, DocumentInvalid, Refused, reason_of
from amend.formats.aicontext import (
    note_bytes,
    noted,
    parse_index,
    parse_note,
    replace_entries,
)

# DESIGN section 8: an agent that writes a note, then its index, is done by then.
SETTLE_S: Final = 0.3
SETTLE_S_MAX: Final = 3.0

NO_LINKS: Final = "amend writes through none: save where the link leads to"

# So many notes are learnt at once, at some 100 µs each; questions come in between.
LEARNT_AT_ONCE: Final = 16

# So many rows are saved at once, at some 10 µs each.
SAVED_AT_ONCE: Final = 100

# How soon to look again whether git is done.
GIT_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class TreeKey:
    """What the watch gives back for a directory of a tree and the files in it."""

    tree: "MemoryTree"
    directory: str


@dataclass(frozen=True, slots=True)
class Saved:
    """`path` and `indexes`: root-relative, what was written; `entry`: what the note says now."""

    path: str
    created: bool
    indexes: tuple[str, ...]
    entry: Noted


class MemoryTree:
    def __init__(
        self,
        root: bytes,
        path: bytes,
        *,
        places: RepositoryPlaces | None,
        store: Store,
        watch: Watch | None,
        retain_dir: bytes | None,
    ) -> None:
        """`path`: below `root`."""
        repository = places.common_dir if places is not None else root
        self.root = root
        self.path = path
        self._places = places
        self._store = store
        self._watch = watch
        self._notes: Notes | None = None
        self._key_of: Callable[[str], str] = str
        self._head: HeadState = NO_HEAD  # when it was last read
        self._read: dict[str, ReadDirectory] = {}
        self._traced: Mapping[str, ReadDirectory] = {}  # as it was when git was last at rest
        self._counts: set[str] = set()
        self._is_first = True
        self._is_known = False  # as a memory tree, whatever its top shows: amend saved into it
        self._dirty: set[str] | None = None  # to be read again; None: everything
        self._indexes = Indexes(
            root, path, repository=repository, store=store, retain_dir=retain_dir
        )
        self._keys: dict[str, TreeKey] = {}
        self._wanted: dict[str, frozenset[bytes]] = {}
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked_since_s: float | None = None
        self._lock_wait = LockWait(self._is_locked)
        self._problem: str | None = None
        self.ignored: frozenset[bytes] = frozenset()  # root-relative
        self.on_failed: Callable[[bytes, BaseException], None] = lambda root, error: None

    # -- living ----------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep it in step from now on, by itself."""
        self._loop = loop
        if self._watch is not None:
            self._watch.want_names(self.root, self.path, self._key(""))
        self._dirty = None
        self._timer = loop.call_soon(self._due)  # what is written from now on is written today

    def teach(self, notes: Notes, key_of: Callable[[str], str]) -> None:
        """Let `notes` learn of every note from now on, by the key of its path below the tree."""
        if self._notes is None:
            self._notes, self._key_of, self._is_first = notes, key_of, True
            self.touched_everywhere()

    def touched(self, directory: str) -> None:
        """The watch saw something in that directory."""
        self._look_again_at(directory)
        self._indexes.noticed(directory)
        self._ask()

    def _look_again_at(self, *directories: str) -> None:
        if self._dirty is not None:
            self._dirty.update(directories)

    def touched_everywhere(self) -> None:
        """Trust nothing that was read before."""
        self._dirty = None
        self._ask()

    def resume(self) -> None:
        """git may be done with what it was in the middle of."""
        if self._dirty or self._dirty is None or self._indexes.behind:
            self._ask()

    @property
    def is_settled(self) -> bool:
        """Whether all that was seen is learnt; indexes may still be to write."""
        return self._dirty == set() and not self._lock.locked()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._indexes.close()

    def disarm(self) -> None:
        """Stop watching anything for it."""
        assert self._watch is not None
        self._watch.unwant_names(self.root, self.path, self._key(""))
        for directory in list(self._wanted):
            self._want(directory, None)

    def _key(self, directory: str) -> TreeKey:
        return self._keys.setdefault(directory, TreeKey(self, directory))

    def _ask(self) -> None:
        """Bring it in step once nothing has changed for a while."""
        if self._loop is None:
            return
        now_s = self._loop.time()
        if self._asked_since_s is None:
            self._asked_since_s = now_s
        due_s = min(now_s + SETTLE_S, self._asked_since_s + SETTLE_S_MAX)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._due)

    def _due(self) -> None:
        assert self._loop is not None
        self._timer = None
        if self._task is not None and not self._task.done():
            self._timer = self._loop.call_later(GIT_POLL_S, self._due)
            return
        if self._lock_wait.lasts(self._loop.time()):
            self._timer = self._loop.call_later(GIT_POLL_S, self._due)
            return
        self._asked_since_s = None
        self._task = self._loop.create_task(self._in_background())
        self._task.add_done_callback(self._ended)

    def _is_locked(self) -> bool:
        return self._places is not None and is_locked(self._places)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_failed(self.root, error)

    def operation(self) -> str | None:
        """What git is in the middle of in the tree's repository."""
        return self._read_head().operation

    def _read_head(self) -> HeadState:
        if self._places is None or needs_git(self._places):
            return NO_HEAD
        return read_head(self._places)

    async def _in_background(self) -> None:
        async with self._lock:
            await self._learn()
            if self.operation() is None:  # else `resume` comes when it has ended
                await self._write_in_background()

    async def _write_in_background(self) -> None:
        """Until git begins something: what it makes of the tree is to be read first."""
        was_locked = self._is_locked()  # one that a crash left

        def goes_on() -> bool:
            return was_locked or not self._is_locked()

        await self._indexes.write(self._read, self._counts, patiently=False, goes_on=goes_on)
        if self._indexes.behind:
            self._ask()

    # -- for who asks ----------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Learn what has changed, without writing anything."""
        async with self._lock:
            await self._learn()

    async def sync(self) -> tuple[str, ...]:
        """Bring every index in step now; the root-relative paths of those that were written.

        Raises `Refused` while git is in the middle of an operation.
        """
        operation = self.operation()
        if operation is not None:
            raise Refused(
                f"git is in the middle of a {operation}; indexes are not written",
                hint="finish or abort it first",
            )
        async with self._lock:
            if self._watch is None:
                self._dirty = None
            written: list[str] = []
            for _ in range(DEPTH_MAX):
                await self._learn()
                some = await self._indexes.write(self._read, self._counts, patiently=True)
                if not some:
                    break
                written += some
                # Without a line above it a comment may say what its directory is for.
                self._look_again_at(*map(self._directory_of, some))
        return tuple(dict.fromkeys(written))

    async def save(
        self, category: str, topic: str, entry: Noted, replaces: Sequence[str] = ()
    ) -> Saved:
        """Write the entry into its note, merged with what that says, and the indexes after it.

        Names are checked by the caller (`core.notes.check_save`). Raises `AmendError`.
        """
        path = join(category, topic + SUFFIX)
        said: list[Noted] = []

        def planned(present: bytes | None) -> bytes | None:
            new, whole = _with_entry(self._root_relative(path), present, entry, replaces)
            said.append(whole)
            return new

        async with self._lock:
            where = below(self.path, path)
            if is_link(self.root, where):
                raise Refused(f"{path_text(where)} is a symlink or lies behind one", hint=NO_LINKS)
            try:
                present: bytes | None = read_straight(self.root, where, bytes_max=FILE_BYTES_MAX)
            except FileNotFoundError:
                present = None
            except OSError as error:
                raise Refused(f"{path_text(where)}: {reason_of(error)}") from error
            planned(present)  # what is wrong with the request is told before anything is written
            make_directories(self.root, below(self.path, category))
            await self._indexes.write_one(path, planned)
            self._is_known = True
            self._look_again_at("", *_with_ancestors(category))
            await self._learn()
            if self._notes is not None:
                data = read_straight(self.root, where, bytes_max=FILE_BYTES_MAX)
                self._notes.saved(self._key_of(path), data)
            indexes: tuple[str, ...] = ()
            if self.operation() is None:
                indexes = await self._indexes.write(
                    self._read, self._counts, patiently=self._watch is None
                )
        return Saved(path_text(where), present is None, indexes, said[-1])

    async def write(self, path: str, wanted: Callable[[bytes | None], bytes | None]) -> None:
        """Bring one file of the tree to what `wanted` makes of it (see `SharedFile`'s `plan`)."""
        async with self._lock:
            await self._indexes.write_one(path, wanted)

    @property
    def writes(self) -> int:
        """How often a file of it was written."""
        return self._indexes.writes

    def root_lines(self) -> tuple[str, ...]:
        """The lines of the tree's own index that list something, as they were last read."""
        top = self._read.get("")
        if top is None or top.index is None or top.index.data is None:
            return ()
        lines = parse_index(top.index.data).lines
        return tuple(path_text(line.raw).strip() for line in lines if line.kind in LISTS)

    def problems(self) -> list[str]:
        found = [self._problem, *self._indexes.problems()]
        for path, read in self._read.items():
            if read.problem:
                found.append(f"{self._root_relative(path)}: {read.problem}")
            if read.index is not None and read.index.problem:
                found.append(f"{self._root_relative(join(path, INDEX_NAME))}: {read.index.problem}")
        return list(dict.fromkeys(problem for problem in found if problem))

    def _directory_of(self, root_relative: str) -> str:
        """Below the tree."""
        return root_relative.removeprefix(path_text(self.path) + "/").rpartition("/")[0]

    def _root_relative(self, path: str) -> str:
        return path_text(below(self.path, path))

    # -- learning --------------------------------------------------------------------------------

    async def _learn(self) -> None:
        """Read what was touched, until nothing was touched meanwhile."""
        while self._dirty is None or self._dirty:
            dirty, self._dirty = self._dirty, set()
            before = self._read if not self._is_first else self._remembered()
            self._problem = None
            try:
                found = await asyncio.to_thread(self._read_again, before, time.time_ns(), dirty)
            except Refused as error:
                self._problem, found = error.message, {}
            except OSError as error:
                self._problem = f"{path_text(self.path)}: {reason_of(error)}"
                return
            with _kept() if self._is_first else contextlib.nullcontext():
                await self._take(before, found)

    def _read_again(
        self, before: Mapping[str, ReadDirectory], now_ns: int, touched: set[str] | None
    ) -> dict[str, ReadDirectory]:
        """`read_tree`, without what git is told to ignore; asked where there are new names.

        In a tree that is ignored as a whole nothing is: it is somebody's own.
        """
        found = read_tree(
            self.root,
            self.path,
            before,
            now_ns,
            touched=touched,
            ignored=self.ignored,
            is_known=self._is_known,
        )
        changed = {path: read for path, read in found.items() if read is not before.get(path)}
        known = {path: before[path] for path in changed if path in before}
        there = files_in(changed, self.path)
        is_asked = touched is None or not there <= files_in(known, self.path)
        if self._places is None or not found or not is_asked:
            return found
        try:
            ignored = ignored_below(self._places, self.path)
        except GitFailed as error:
            self._problem = error.message
            return found
        if ignored and ignored >= files_in(found, self.path) | self.ignored:
            ignored = set()
        if ignored != self.ignored:
            self.ignored = frozenset(ignored)
            found = read_tree(
                self.root,
                self.path,
                found,
                now_ns,
                ignored=self.ignored,
                is_known=self._is_known,
            )
        return found

    def _remembered(self) -> dict[str, ReadDirectory]:
        """Notes and indexes as amend last saw them, as far as the store has them."""
        files: dict[str, dict[str, ReadFile]] = {}
        for path, row in self._store.trees.notes(self.root, self.path).items():
            directory, _, name = path.rpartition("/")
            files.setdefault(directory, {})[name] = ReadFile(
                row.stat, False, row.blob, row.title, None
            )
        indexes = {path: here.pop(INDEX_NAME, None) for path, here in files.items()}
        return {
            path: ReadDirectory(path, notes, (), indexes[path], None, False)
            for path, notes in files.items()
        }

    async def _take(
        self, before: Mapping[str, ReadDirectory], found: dict[str, ReadDirectory]
    ) -> None:
        """Make what was read the known state, and note what follows from it."""
        known = {*before, *found}
        # What indexes said is not remembered: at first each may differ from what it was.
        changed = {p for p in known if self._is_first or before.get(p) != found.get(p)}
        old, new = _notes_in(before, changed), _notes_in(found, changed)
        lost = {path: note for path, note in old.items() if path not in new}
        others = {path: note for path, note in new.items() if note is not old.get(path)}
        counts = counting(found) if self._is_known or is_tree(found) else set()
        titles = {
            path
            for path in changed
            if (path in counts) != (path in self._counts)
            or _purpose(before.get(path)) != _purpose(found.get(path))
        }
        self._indexes.behind |= {path for path in changed if path in counts}
        self._indexes.behind |= {path.rpartition("/")[0] for path in titles if path} & counts
        if self._is_first:
            self._traced = before
        if self.operation() is None:  # half of a merge is no place that notes went to
            self._trace(found)
        if self._notes is not None:
            await self._tell(found, lost, others)
        were, are = _indexes_in(before, changed), _indexes_in(found, changed)
        rows = {path: _row(note) for path, note in others.items()}
        rows |= {path: _index_row(are[path]) for path in are if are[path] is not were.get(path)}
        await self._save([*lost, *(path for path in were if path not in are)], rows)
        for path in changed & found.keys():
            notes = found[path].notes
            if any(each.data is not None for each in notes.values()):
                notes = {name: replace(each, data=None) for name, each in notes.items()}
                found[path] = replace(found[path], notes=notes)
            await asyncio.sleep(0)
        self._read, self._counts = found, counts
        await self._arm(changed)
        self._is_first = False

    def _trace(self, found: Mapping[str, ReadDirectory]) -> None:
        """Let descriptions follow what was renamed or moved since this was last called."""
        before, self._traced = self._traced, found
        changed = {p for p in {*before, *found} if before.get(p) is not found.get(p)}
        old, new = _notes_in(before, changed), _notes_in(found, changed)
        lost = {path: note for path, note in old.items() if path not in new}
        if lost or before.keys() - found.keys():
            gained = {path: note for path, note in new.items() if path not in old}
            self._indexes.trace(before, found, lost, gained)

    async def _save(self, lost: Sequence[str], rows: Mapping[str, NoteRow]) -> None:
        """Remember what was there, once notes are learnt: what is not saved is read again."""
        for some in _each(list(rows), SAVED_AT_ONCE):
            with self._store.transaction(durable=False):
                there = {path: rows[path] for path in some}
                self._store.trees.save_notes(self.root, self.path, (), there)
            await asyncio.sleep(0)
        for some in _each(lost, SAVED_AT_ONCE):
            with self._store.transaction(durable=False):
                self._store.trees.save_notes(self.root, self.path, some, {})
            await asyncio.sleep(0)

    async def _tell(
        self,
        found: Mapping[str, ReadDirectory],
        lost: Iterable[str],
        others: Mapping[str, ReadFile],
    ) -> None:
        """Let entries follow the notes."""
        assert self._notes is not None
        # What comes with another HEAD was not written now, nor what git is just writing.
        head, is_locked_now = self._read_head(), self._is_locked()
        was_away = self._is_first or head != self._head or is_locked_now
        self._head = head
        for some in _each(list(lost), SAVED_AT_ONCE):
            self._notes.forget(*map(self._key_of, some))
            await asyncio.sleep(0)
        said = {path: note.data for path, note in others.items() if note.data is not None}
        if self._is_first:
            unread = [path for path, note in _notes_in(found, found).items() if note.data is None]
            unknown = [path for path in unread if not self._notes.knows(self._key_of(path))]
            said |= await asyncio.to_thread(self._bytes_of, unknown)
        with self._notes.learning():
            for some in _each(list(said), LEARNT_AT_ONCE):
                self._notes.learn_all(
                    {self._key_of(path): said[path] for path in some},
                    {self._key_of(path): changed_at_ns(others[path].stat) for path in some}
                    if not was_away
                    else {},
                )
                await asyncio.sleep(0)

    def _bytes_of(self, paths: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for path in paths:
            with contextlib.suppress(OSError, AmendError):
                found[path] = read_straight(
                    self.root, below(self.path, path), bytes_max=FILE_BYTES_MAX
                )
        return found

    async def _arm(self, changed: Iterable[str]) -> None:
        for path in changed:
            await asyncio.sleep(0)
            read = self._read.get(path)
            if read is None:
                self._want(path, None)
                continue
            names = [*read.notes]
            names += [INDEX_NAME] if read.index is not None else []
            is_new = self._want(path, {below(self.path, join(path, name)) for name in names})
            if is_new and self._dirty is not None:
                self._dirty.add(path)  # it may have changed before it was watched

    def _want(self, directory: str, paths: Iterable[bytes] | None) -> bool:
        """Watch these files of the directory, None: not even that. Whether there are new ones."""
        if self._watch is None:
            return False
        key = self._key(directory)
        before = self._wanted.get(directory)
        after = frozenset(paths or ())
        if paths is None:
            self._wanted.pop(directory, None)
        else:
            self._wanted[directory] = after
        if directory and (before is None) != (paths is None):
            change = self._watch.want_names if before is None else self._watch.unwant_names
            change(self.root, below(self.path, directory), key)
        for path in after - (before or frozenset()):
            self._watch.want(self.root, path, key)
        for path in (before or frozenset()) - after:
            self._watch.unwant(self.root, path, key)
        return paths is not None and (before is None or bool(after - before))


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    """What is brought in meanwhile stays, and is never looked through for garbage: that held the
    loop for up to 200 ms."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _each(paths: Sequence[str], at_once: int) -> Iterator[Sequence[str]]:
    return (paths[at : at + at_once] for at in range(0, len(paths), at_once))


def _purpose(read: ReadDirectory | None) -> str:
    return read.index.title if read is not None and read.index is not None else ""


def _row(note: ReadFile) -> NoteRow:
    return NoteRow(b"" if note.racy else note.stat, note.blob, note.title)


def _index_row(index: ReadFile) -> NoteRow:
    """By what it says it is known again where its directory went; it is always read."""
    return NoteRow(b"", index.blob, index.title)


def _notes_in(read: Mapping[str, ReadDirectory], directories: Iterable[str]) -> dict[str, ReadFile]:
    """By path below the tree."""
    return {
        join(path, name): note
        for path in directories
        if path in read
        for name, note in read[path].notes.items()
    }


def _indexes_in(
    read: Mapping[str, ReadDirectory], directories: Iterable[str]
) -> dict[str, ReadFile]:
    """By path below the tree."""
    found = ((path, read[path].index) for path in directories if path in read)
    return {join(path, INDEX_NAME): index for path, index in found if index is not None}


def _with_ancestors(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts) + 1)]


def _with_entry(
    path: str, present: bytes | None, entry: Noted, replaces: Sequence[str]
) -> tuple[bytes | None, Noted]:
    """The note with the entry merged in, None for as it is, and what it says then."""
    if present is None:
        whole = merged(None, entry, replaces)
        return note_bytes(whole), whole
    document = parse_note(present)
    if document.problem is not None:
        raise DocumentInvalid(f"{path}: {document.problem}", hint="mend it by hand, then save")
    whole = merged(joined(noted(document)), entry, replaces)
    new = replace_entries(document, whole)
    return (None if new == present else new), whole
