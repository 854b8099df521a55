"""What of a memory tree is shown to whoever asks: the trees, their indexes, one note.

Only what is shown is read: of a tree with thousands of notes the indexes, or the one note that was
named. Paths are below the tree; a question may also name one below the repository's root, as
answers do. Belongs into a worker.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from amend.core.aicontext import DICTIONARY_NAME, INDEX_NAME, SUFFIX
from amend.core.model import path_bytes, path_text
from amend.daemon.memory_tree import MemoryTree
from amend.daemon.tree_reading import (
    DEPTH_MAX,
    DIRECTORIES_MAX,
    FILE_BYTES_MAX,
    TOP_DIRECTORIES_MAX,
    ReadDirectory,
    below,
    is_skipped,
    join,
    read_directory,
    read_tree,
)
from amend.daemon.worktree import Worktree
from amend.edge.files.beneath import TooLarge
from amend.edge.files.straight import Named, is_link, list_straight, read_straight
from amend.errors import AmendError, NotFound, Refused, RequestInvalid, reason_of

# Near misses worth showing to whoever mistyped a path.
NEAR_MAX: Final = 5

# Nothing is there, or nothing can be there.
_NOTHING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

_LINKED: Final = "is a symlink or lies behind one"


# -- which tree ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeAt:
    """A tree and what it is called: "memory", and "backend:memory" where it is a sibling's."""

    name: str
    tree: MemoryTree

    @property
    def root(self) -> bytes:
        return self.tree.root

    @property
    def path(self) -> bytes:
        return self.tree.path

    def shown(self, path: str) -> str:
        """A path below the tree as answers have it."""
        return join(self.name, path) if path else self.name


def trees_named(worktree: Worktree, name: str | None) -> list[TreeAt]:
    """The worktree's trees, or the one of that name. Raises `NotFound` where there is none."""
    siblings = {sibling.root: each for each, sibling in worktree.siblings.items()}
    trees = [TreeAt(_name(worktree, siblings, tree), tree) for tree in worktree.trees]
    wanted = name.rstrip("/") if name is not None else None
    found = [each for each in trees if wanted in (None, each.name)]
    if found:
        return found
    names = ", ".join(each.name for each in trees)
    raise NotFound(
        f"no memory tree is configured as {wanted!a}" if name else "no memory tree is configured",
        hint=f"there are: {names}" if names else "name one in `memory` of the configuration",
    )


def _name(worktree: Worktree, siblings: Mapping[bytes, str], tree: MemoryTree) -> str:
    path = path_text(tree.path)
    return path if tree.root == worktree.root else f"{siblings.get(tree.root, '')}:{path}"


def existing(trees: Sequence[TreeAt]) -> list[TreeAt]:
    """Those that there are. Raises `NotFound` where there is none, `Refused` for one by a link."""
    found = [tree for tree in trees if _is_there(tree)]
    if not found:
        places = ", ".join(path_text(tree.root + b"/" + tree.path) for tree in trees)
        raise NotFound(
            f"there is no memory tree at {places}: no index and no note, nor one directly below",
            hint="`amend memory save` makes one",
        )
    return found


def _is_there(tree: TreeAt) -> bool:
    """As `tree_reading.is_tree` has it, by names alone."""
    if is_link(tree.root, tree.path):
        raise Refused(
            f"{tree.name} {_LINKED}; amend goes through none",
            hint="configure the directory that it leads to",
        )
    top = _names(tree, "")
    directories = [path_text(each.name) for each in top if each.is_directory]
    return _has_notes(top) or any(
        _has_notes(_names(tree, name))
        for name in directories[:TOP_DIRECTORIES_MAX]
        if not is_skipped(name)
    )


def _names(tree: TreeAt, path: str) -> list[Named]:
    try:
        return list_straight(tree.root, below(tree.path, path)) or []
    except (OSError, TooLarge):
        return []


def _has_notes(names: Iterable[Named]) -> bool:
    texts = (path_text(each.name) for each in names if each.is_file)
    return any(name.endswith(SUFFIX) and not is_skipped(name) for name in texts)


# -- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """A file of a tree as it is now. `path`: below the tree. `problem`: why it has no data."""

    tree: TreeAt
    path: str
    data: bytes
    problem: str = ""

    @property
    def kind(self) -> Literal["dict", "index", "note"]:
        name = self.path.rpartition("/")[2]
        return "index" if name == INDEX_NAME else "dict" if name == DICTIONARY_NAME else "note"

    @property
    def shown_path(self) -> str:
        return self.tree.shown(self.path)


def read_one(tree: TreeAt, path: str) -> Read | None:
    """None where there is no file."""
    where = below(tree.path, path)
    try:
        return Read(tree, path, read_straight(tree.root, where, bytes_max=FILE_BYTES_MAX))
    except (OSError, AmendError) as error:
        if isinstance(error, OSError) and error.errno in _NOTHING:
            return Read(tree, path, b"", _LINKED) if is_link(tree.root, where) else None
        return Read(tree, path, b"", _why(error))


def indexes(tree: TreeAt, directory: str) -> Iterator[Read]:
    """The index of the directory, then those below it, by path. Reads no note."""
    waiting = [directory]
    seen = 0
    while waiting and seen < DIRECTORIES_MAX:
        path = waiting.pop()
        seen += 1
        index = read_one(tree, join(path, INDEX_NAME))
        if index is not None:
            yield index
        try:
            names = list_straight(tree.root, below(tree.path, path)) or ()
        except (OSError, TooLarge) as error:
            yield Read(tree, join(path, INDEX_NAME), b"", _why(error))
            continue
        if path.count("/") + 1 < DEPTH_MAX:
            below_it = [path_text(each.name) for each in names if each.is_directory]
            waiting += [join(path, name) for name in reversed(below_it) if not is_skipped(name)]


def with_dictionary(tree: TreeAt, files: Iterable[Read]) -> list[Read]:
    dictionary = read_one(tree, DICTIONARY_NAME)
    rest = [each for each in files if each.path != DICTIONARY_NAME]
    return rest if dictionary is None else [dictionary, *rest]


def _why(error: OSError | AmendError) -> str:
    is_linked = isinstance(error, OSError) and error.errno == errno.ELOOP
    return _LINKED if is_linked else reason_of(error)


# -- what a path names -----------------------------------------------------------------------------


def below_tree(tree: TreeAt, path: str) -> list[str]:
    """What the path may mean below the tree: itself, or itself without the tree's own name."""
    if path == tree.name:
        return [path, ""]
    rest = path.removeprefix(tree.name + "/")
    return [path, rest] if rest != path else [path]


def checked(path: str) -> str:
    """The path without slashes around it. Raises `RequestInvalid` for what leads elsewhere."""
    parts = [part for part in path.split("/") if part]
    try:
        path_bytes(path)
        is_encodable = True
    except UnicodeEncodeError:
        is_encodable = False
    if not parts or not is_encodable or any(is_skipped(part) for part in parts):
        raise RequestInvalid(
            f"path is {path!a}, must lead to a category or a note below the tree",
            hint="`amend memory show` lists what there is",
        )
    return "/".join(parts)


def directory_at(tree: TreeAt, path: str) -> str | None:
    for each in below_tree(tree, path):
        where = below(tree.path, each)
        if os.path.isdir(tree.root + b"/" + where) and not is_link(tree.root, where):
            return each
    return None


def note_at(tree: TreeAt, path: str) -> Read | None:
    """The file of that name, or of that name with the suffix."""
    for each in below_tree(tree, path):
        for name in (each, each + SUFFIX):
            if name.endswith(SUFFIX) and (found := read_one(tree, name)) is not None:
                return found
    return None


def files_of(trees: Sequence[TreeAt], level: str | None, path: str | None) -> list[Read]:
    """In the order in which they are to be read. Raises `NotFound`."""
    trees = existing(trees)
    if path is None:
        files = [each for tree in trees for each in with_dictionary(tree, indexes(tree, ""))]
        if not files:
            names = ", ".join(tree.name for tree in trees)
            raise NotFound(f"{names} has no index yet", hint="`amend memory sync` makes them")
        return files
    wanted = checked(path)
    is_named = level is None and not wanted.endswith(SUFFIX)
    for tree in trees if level == "index" or is_named else ():
        directory = directory_at(tree, wanted)
        if directory is not None:
            return with_dictionary(tree, indexes(tree, directory))
    for tree in trees if level != "index" else ():
        note = note_at(tree, wanted)
        if note is not None:
            return with_dictionary(tree, [note])
    raise _nothing_at(trees, path, wanted, level)


def _nothing_at(trees: Sequence[TreeAt], path: str, wanted: str, level: str | None) -> NotFound:
    names: list[str] = []
    for tree in trees:
        for directory in whole(tree).values():
            names += [directory.path] if directory.path and level != "note" else []
            notes = directory.notes if level != "index" else ()
            names += [join(directory.path, name.removesuffix(SUFFIX)) for name in notes]
    asked = wanted.removesuffix(SUFFIX)
    near = get_close_matches(asked, names, NEAR_MAX)
    near += [name for name in names if name.rpartition("/")[2] == asked and name not in near]
    places = ", ".join(tree.name for tree in trees)
    what = {"index": "category", "note": "note"}.get(level or "", "category or note")
    return NotFound(
        f"there is no {what} {path!a} in {places}",
        hint=f"near: {', '.join(near)}" if near else "`amend memory show` lists what there is",
    )


# -- all that a tree says --------------------------------------------------------------------------


def whole(tree: TreeAt) -> dict[str, ReadDirectory]:
    """Every directory of the tree, by its path, without what git is told to ignore.

    Of that the tree knows since it was last refreshed.
    """
    return read_tree(tree.root, tree.path, {}, time.time_ns(), ignored=tree.tree.ignored)


def some(tree: TreeAt, first: str, notes_max: int) -> list[ReadDirectory]:
    """Directories of the tree until they have `notes_max` notes: `first` and what is below it,
    then the others."""
    found: dict[str, ReadDirectory] = {}
    waiting, count = ["", first], 0
    while waiting and count < notes_max:
        path = waiting.pop()
        if path in found:
            continue
        read = read_directory(
            tree.root, tree.path, path, None, time.time_ns(), ignored=tree.tree.ignored
        )
        if read is None:
            continue
        found[path] = read
        count += len(read.notes)
        if path.count("/") + 1 < DEPTH_MAX:
            waiting += [join(path, name) for name in reversed(read.directories)]
    return list(found.values())
