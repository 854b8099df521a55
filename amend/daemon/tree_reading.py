"""A memory tree as it is on disk: which directories count, and what is in each.

Names that begin with a dot, those of editors' and amend's own temporary files, and what git is told
to ignore are not looked at. A directory counts when it has an index or a note, when one below it
counts, or when it is empty, so that somebody is about to write into it; one that holds only other
files is none of amend's. Links are not followed.

Reads the disk and nothing else; belongs into a worker for more than a few directories.
"""

import time
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Final

from amend.core.aicontext import (
    DICTIONARY_NAME,
    INDEX_NAME,
    SUFFIX,
    Child,
    Directory,
    Document,
    LineKind,
)
from amend.core.model import path_bytes, path_text
from amend.edge.files.beneath import TooLarge
from amend.edge.files.look import RACY_NS, blob_hash, changed_at_ns, stat_key
from amend.edge.files.straight import is_link, list_straight, read_straight
from amend.errors import AmendError, Refused, reason_of
from amend.formats.aicontext import (
    parse_dictionary,
    parse_index,
    parse_note,
    purpose_of,
    title_of,
)

# The seed means notes of some bullets; a megabyte is a mistake, and is told of.
FILE_BYTES_MAX: Final = 1 << 20

# Twenty times the largest tree that issue 4 asks for; deeper or wider is no memory that is read.
DIRECTORIES_MAX: Final = 10_000
DEPTH_MAX: Final = 16

# A worker that reads file after file lets go of the interpreter for microseconds at a time, too
# short for the loop to wake up and take it, for up to 5 ms; an answer looks at 8 sources, and may
# lose it at each. So the worker sleeps now and then, 0.1 ms in fact: 10 files are 0.3 ms of work.
PAUSE_S: Final = 0.00005
FILES_A_PAUSE: Final = 10

# A directory that happens to be called memory may hold a million files; a tree shows at its top.
TOP_DIRECTORIES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A note, index or dictionary as last read; `data` None: it cannot be, or was let go of.

    `problem`: why it cannot be read, or why an index is not understood.
    """

    stat: bytes
    racy: bool
    blob: bytes
    title: str  # of a note its first title, of an index its purpose
    data: bytes | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReadDirectory:
    """One directory as last read, by file name. `index` and `dictionary` are not in `notes`."""

    path: str  # below the tree
    notes: Mapping[str, ReadFile]
    directories: tuple[str, ...]  # below it, whether they count or not
    index: ReadFile | None
    dictionary: ReadFile | None
    has_others: bool  # it holds files that are none of the tree's
    problem: str = ""


def is_skipped(name: str) -> bool:
    return name.startswith((".", "#")) or name.endswith("~")


def read_directory(
    root: bytes,
    tree: bytes,
    path: str,
    before: ReadDirectory | None,
    now_ns: int,
    *,
    ignored: Set[bytes] = frozenset(),
) -> ReadDirectory | None:
    """What is in the directory now; None where there is none. Files as in `before` are not read
    again. `now_ns`: the time before this was called. `ignored`: root-relative."""
    where = below(tree, path)
    try:
        names = list_straight(root, where)
    except (OSError, TooLarge) as error:
        return ReadDirectory(path, {}, (), None, None, True, reason_of(error))
    if names is None:
        return None
    known: dict[str, ReadFile] = dict(before.notes) if before is not None else {}
    if before is not None and before.index is not None:
        known[INDEX_NAME] = before.index
    if before is not None and before.dictionary is not None:
        known[DICTIONARY_NAME] = before.dictionary
    files: dict[str, ReadFile] = {}
    directories: list[str] = []
    has_others = False
    for number, each in enumerate(names):
        if number % FILES_A_PAUSE == 0:
            time.sleep(PAUSE_S)
        name = path_text(each.name)
        if is_skipped(name):
            continue
        if each.is_directory:
            directories.append(name)
        elif where + b"/" + each.name in ignored:
            has_others = True
        elif each.is_file and name.endswith(SUFFIX):
            files[name] = _read(root, where + b"/" + each.name, name, known.get(name), now_ns)
        else:
            has_others = True
    index, dictionary = files.pop(INDEX_NAME, None), files.pop(DICTIONARY_NAME, None)
    return ReadDirectory(path, files, tuple(directories), index, dictionary, has_others)


def _read(root: bytes, path: bytes, name: str, before: ReadFile | None, now_ns: int) -> ReadFile:
    stat = stat_key(root, path)
    if before is not None and before.stat == stat and not before.racy:
        return before
    racy = now_ns - changed_at_ns(stat) < RACY_NS
    try:
        data = read_straight(root, path, bytes_max=FILE_BYTES_MAX)
    except (OSError, AmendError) as error:
        return ReadFile(stat, racy, b"", "", None, reason_of(error))
    if name != INDEX_NAME:
        return ReadFile(stat, racy, blob_hash(data), title_of(data), data)
    index = parse_index(data)
    return ReadFile(stat, racy, blob_hash(data), purpose_of(index), data, index.problem or "")


def read_tree(
    root: bytes,
    tree: bytes,
    before: Mapping[str, ReadDirectory],
    now_ns: int,
    *,
    touched: Collection[str] | None = None,
    ignored: Set[bytes] = frozenset(),
    is_known: bool = False,
) -> dict[str, ReadDirectory]:
    """Every directory of the tree by path, `""` the root; empty where there is none.

    Of what is no memory tree only the top is read. `touched`: all others are as in `before`.
    `ignored`: root-relative paths of files that are not looked at. `is_known`: it is one, whatever
    its top shows.
    Raises `Refused` for a tree that a symlink leads to, or one too large.
    """
    if is_link(root, tree):
        raise Refused(
            f"{path_text(tree)} is a symlink or lies behind one; amend writes through none",
            hint="configure the directory that it leads to",
        )
    found = dict(before) if touched is not None else {}
    waiting = list(touched) if touched is not None else [""]
    if touched is None or not (is_known or is_tree(before)):
        found = _top(root, tree, before, now_ns, ignored=ignored)
        is_one = is_tree(found) or (is_known and bool(found))
        waiting = [join("", name) for name in found[""].directories] if is_one else []
    while waiting:
        path = waiting.pop()
        known = found.get(path) or before.get(path)
        read = read_directory(root, tree, path, known, now_ns, ignored=ignored)
        _forget_below(found, path, kept=read.directories if read is not None else ())
        if read is None:
            found.pop(path, None)
            continue
        found[path] = read
        if len(found) > DIRECTORIES_MAX:
            raise Refused(f"{path_text(tree)} has more than {DIRECTORIES_MAX} directories")
        if path.count("/") + 1 < DEPTH_MAX:
            below_it = [join(path, name) for name in read.directories]
            waiting += below_it if touched is None else [p for p in below_it if p not in found]
    return found


def _top(
    root: bytes,
    tree: bytes,
    before: Mapping[str, ReadDirectory],
    now_ns: int,
    *,
    ignored: Set[bytes],
) -> dict[str, ReadDirectory]:
    """The tree's root and some of what is directly below: enough to tell a memory tree."""
    top = read_directory(root, tree, "", before.get(""), now_ns, ignored=ignored)
    if top is None:
        return {}
    found = {"": top}
    for name in top.directories[:TOP_DIRECTORIES_MAX]:
        read = read_directory(root, tree, name, before.get(name), now_ns, ignored=ignored)
        if read is not None:
            found[name] = read
    return found


def _forget_below(found: dict[str, ReadDirectory], path: str, *, kept: Collection[str]) -> None:
    """Take out what was in the directory and is no longer."""
    here = found.get(path)
    for name in here.directories if here is not None else ():
        if name not in kept and join(path, name) in found:
            _forget_below(found, join(path, name), kept=())
            del found[join(path, name)]


def is_tree(found: Mapping[str, ReadDirectory]) -> bool:
    """Whether what is there is a memory tree at all, and not a directory that has its name."""
    top = found.get("")
    return top is not None and (
        top.index is not None
        or any(each.notes or each.index for each in found.values() if "/" not in each.path)
    )


def files_in(found: Mapping[str, ReadDirectory], root_relative: bytes) -> set[bytes]:
    """Every note, index and dictionary, by path from the repository's root."""
    return {
        below(root_relative, join(read.path, name))
        for read in found.values()
        for name in (
            *read.notes,
            *([INDEX_NAME] if read.index is not None else ()),
            *([DICTIONARY_NAME] if read.dictionary is not None else ()),
        )
    }


def counting(found: Mapping[str, ReadDirectory]) -> set[str]:
    """The paths of the directories that count."""
    counts: set[str] = set()
    for path in sorted(found, key=lambda path: path.count("/") + bool(path), reverse=True):
        here = found[path]
        below_counts = any(join(path, name) in counts for name in here.directories)
        is_empty = not (here.has_others or here.directories)
        if here.index is not None or here.notes or below_counts or is_empty:
            counts.add(path)
    return counts


def children(found: Mapping[str, ReadDirectory], counts: Set[str], path: str) -> list[Child]:
    """What the index of `path` shall list."""
    here = found[path]
    listed = [
        Child(LineKind.DIRECTORY, name, _title(found[join(path, name)].index))
        for name in here.directories
        if join(path, name) in counts
    ]
    listed += [Child(LineKind.FILE, name, note.title) for name, note in here.notes.items()]
    if here.dictionary is not None:
        listed.append(Child(LineKind.DICTIONARY, DICTIONARY_NAME))
    return listed


def parsed(found: Mapping[str, ReadDirectory]) -> list[Directory]:
    """The directories that count, with every file parsed, sorted by path."""
    counts = counting(found)
    return [
        Directory(
            path,
            _document(found[path].index, parse_index),
            tuple(children(found, counts, path)),
            {
                name: _document(note, parse_note) or Document((), note.problem)
                for name, note in found[path].notes.items()
            },
            _document(found[path].dictionary, parse_dictionary),
        )
        for path in sorted(counts)
    ]


def _document(read: ReadFile | None, parse: Callable[[bytes], Document]) -> Document | None:
    if read is None:
        return None
    return parse(read.data) if read.data is not None else Document((), read.problem)


def _title(index: ReadFile | None) -> str:
    return index.title if index is not None else ""


def below(tree: bytes, path: str) -> bytes:
    return tree + b"/" + path_bytes(path) if path else tree


def join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
