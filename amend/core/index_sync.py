"""What an index should say, given what is in its directory: the edits, or none.

Guarantees: every child that a line can name is listed; what a person wrote (descriptions, order,
comments, placeholders for what amend never saw) stays; the plan for a planned index is empty.
An index with a problem gets no edit.

What counts as a child's line. Names in a directory are unique, so a line lists the child that has
its name, exactly, and a final `/` says nothing. A line of another kind (`file: dict.aicontext`, a
`file:` line for a directory) counts as well: it is a person's, stays as it is and is lint's to
report. Only where a note was once seen whose name a directory has now, or the other way round, is
the line the former child's and goes with it. Names with a path inside and `index.aicontext`
list nothing.

Edits are to be applied in their order, each to every line of its kind and name.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from amend.core.aicontext import (
    INDEX_NAME,
    LISTS,
    SUFFIX,
    AddLine,
    Child,
    DescribeLine,
    Document,
    DropLine,
    Line,
    LineEdit,
    LineKind,
    RenameLine,
)

# The descriptions in the seed's examples have up to 39 characters. Thrice that is a guess: an index
# is read before everything else, and titles may be sentences.
DESCRIPTION_CHARS_MAX: Final = 120

# The seed: "load first when reading memory files".
DICTIONARY_TITLE: Final = "abbreviations, load first"

# Joiners that words of Persian or Hindi and composed emoji need; harmless on their own.
_JOINERS: Final = "\u200c\u200d"

# As the seed's root index has them; adding in this order makes the same tree give the same index.
_ORDER: Final = (LineKind.DICTIONARY, LineKind.DIRECTORY, LineKind.FILE)

Described = tuple[LineKind, str, str]
"""Kind and name of a child, and a description of it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a child was before. `name`: its old one, None where it was in another directory.

    `description`: what its old line said, None where it had none; `derived`: amend had made it up.
    """

    name: str | None
    description: str | None
    derived: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`derived`: the descriptions in the resulting index that are amend's own.

    They are to be remembered beside those known already: a branch switch brings old ones back.
    """

    edits: tuple[LineEdit, ...] = ()
    derived: tuple[Described, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteThere:
    """A note that left or came. `path`: below the tree's root; `blob`: the hash of its content,
    empty where that is not known; `title`: "" where it has none."""

    path: str
    blob: bytes
    title: str


# -- words -----------------------------------------------------------------------------------------


def can_be_listed(name: str) -> bool:
    """Whether a line that names it would be read as naming it."""
    if not name or name != name.strip() or "|" in name or "/" in name:
        return False
    # Nearly all are printable, which is told a hundred times as fast.
    return name.isprintable() or not any(
        unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name
    )


def derived_description(child: Child) -> str:
    """One clean line of at most `DESCRIPTION_CHARS_MAX` characters, never empty."""
    return _shortened(_one_line(child.title)) or default_title(child.kind, child.name)


def default_title(kind: LineKind, name: str) -> str:
    """What describes a child that says nothing of itself: the words of its name."""
    if kind is LineKind.DICTIONARY:
        return DICTIONARY_TITLE
    stem = name.removesuffix(SUFFIX)
    words = _one_line(stem.replace("-", " ").replace("_", " "))
    return _shortened(words or _one_line(stem)) or "untitled"


def _one_line(text: str) -> str:
    """Runs of white space become one space; control, bidirectional and invisible characters go."""
    if not text.isprintable():
        text = "".join(c for c in text if c.isspace() or c in _JOINERS or not _is_control(c))
    return " ".join(text.split())


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs")


def _shortened(text: str) -> str:
    """Cut at a word's end, with an ellipsis, so that lint never reports what amend wrote."""
    if len(text) <= DESCRIPTION_CHARS_MAX:
        return text
    room = DESCRIPTION_CHARS_MAX - 1
    end = text.rfind(" ", 0, room + 1)
    if end < room // 2:
        end = room  # one long word, or text without spaces
    return text[:end].rstrip(" ,;:-") + "…"


# -- the plan --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    describe: list[LineEdit] = field(default_factory=list)
    rename: list[LineEdit] = field(default_factory=list)
    add: list[LineEdit] = field(default_factory=list)
    drop: list[LineEdit] = field(default_factory=list)
    derived: list[Described] = field(default_factory=list)

    def plan(self) -> Plan:
        # A line is described by its old name, and added while its neighbours are still there.
        edits = self.describe + self.rename + self.add + self.drop
        return Plan(tuple(edits), tuple(dict.fromkeys(self.derived)))


def plan(
    index: Document | None,
    children: Sequence[Child],
    *,
    was_seen: Callable[[LineKind, str], bool],
    is_derived: Callable[[LineKind, str, str], bool],
    came_from: Mapping[tuple[LineKind, str], Origin],
) -> Plan:
    """The edits that bring the index of one directory in step with its children.

    `index` None: there is none. `children`: names are unique; the dictionary has its own kind.
    `was_seen`: whether such a child was ever seen in this directory. `is_derived`: whether amend
    made up this very description. `came_from`: for children that were renamed or moved here; one
    whose old name is still there is taken for new.
    """
    draft = _Draft()
    lines = _lists(index)

    def is_ours(line: Line) -> bool:
        return bool(line.text) and is_derived(line.kind, _listed(line), line.text)

    if index is not None and index.problem is not None:
        _remember(draft, lines, is_ours)
        return draft.plan()

    here = {child.name: child for child in children if child.name != INDEX_NAME}
    standing, leaving = _parted(lines, here, was_seen)
    gone_names = set()
    for child in sorted(here.values(), key=lambda child: (_ORDER.index(child.kind), child.name)):
        origin = came_from.get((child.kind, child.name))
        if origin is not None and origin.name in here:
            origin = None
        if origin is not None:
            gone_names.add(origin.name)
        if child.name in standing:
            _describe(draft, child, standing[child.name], is_ours)
        elif can_be_listed(child.name):
            _give_line(draft, child, origin, leaving, is_ours)
    for (of, written), gone in leaving.items():
        name = _listed(gone[0])
        if name in gone_names or any(was_seen(kind, name) for kind in _ORDER):
            draft.drop.append(DropLine(of, written))
        else:
            _remember(draft, gone, is_ours)
    return draft.plan()


def _lists(index: Document | None) -> list[Line]:
    """The lines that can list a child."""
    listing = [line for line in index.lines if line.kind in LISTS] if index else []
    return [line for line in listing if "/" not in _listed(line) and _listed(line) != INDEX_NAME]


def _listed(line: Line) -> str:
    return line.name.removesuffix("/")


def _is_directory(it: Line | Child) -> bool:
    return it.kind is LineKind.DIRECTORY


def _parted(
    lines: Iterable[Line],
    here: Mapping[str, Child],
    was_seen: Callable[[LineKind, str], bool],
) -> tuple[dict[str, list[Line]], dict[tuple[LineKind, str], list[Line]]]:
    """The lines of each child that is here, and the others by kind and name."""
    standing = defaultdict(list)
    leaving = defaultdict(list)
    for line in lines:
        name = _listed(line)
        child = here.get(name)
        # A dictionary is a file too: only a directory and a file take each other's place.
        other = child is not None and _is_directory(line) != _is_directory(child)
        if child is not None and not (other and was_seen(line.kind, name)):
            standing[name].append(line)
        else:
            leaving[line.kind, line.name].append(line)
    return standing, leaving


def _give_line(
    draft: _Draft,
    child: Child,
    origin: Origin | None,
    leaving: dict[tuple[LineKind, str], list[Line]],
    is_ours: Callable[[Line], bool],
) -> None:
    """Give a child its line: the one it had under its old name, else a new one."""

    def was_ours(line: Line) -> bool:
        # The line may say something else than its origin: a person was there in the meantime.
        same = origin is not None and origin.derived and origin.description == line.text
        return bool(line.text) and (same or is_ours(line))

    old = leaving.pop((child.kind, origin.name), []) if origin and origin.name else []
    if old:
        _describe(draft, child, old, was_ours)
        draft.rename.append(RenameLine(child.kind, old[0].name, child.name))
    elif origin is not None and origin.description is not None and not origin.derived:
        draft.add.append(AddLine(child.kind, child.name, origin.description))
    else:
        text = derived_description(child)
        draft.add.append(AddLine(child.kind, child.name, text))
        draft.derived.append((child.kind, child.name, text))


def _describe(
    draft: _Draft, child: Child, lines: Sequence[Line], is_ours: Callable[[Line], bool]
) -> None:
    """Derive its description again where it is ours and the title is another one."""
    wanted = derived_description(child)
    for line in lines:
        if not is_ours(line):
            continue
        text = line.text
        # Of two lines an edit cannot name one, and which of them is right is a person's to say.
        if len(lines) == 1 and text != wanted:
            text = wanted
            draft.describe.append(DescribeLine(line.kind, line.name, text))
        draft.derived.append((line.kind, child.name, text))


def _remember(draft: _Draft, lines: Iterable[Line], is_ours: Callable[[Line], bool]) -> None:
    draft.derived += [(line.kind, _listed(line), line.text) for line in lines if is_ours(line)]


# -- moves -----------------------------------------------------------------------------------------


def pair_moves(lost: Sequence[NoteThere], gained: Sequence[NoteThere]) -> dict[str, str]:
    """Old path → new path, for the notes of which it is certain where they went.

    The same content first: among several equal ones those with the same file name, then those in
    the same directory, then the one that is left on either side. Then the same title, where just
    one on either side has it.
    """
    moves: dict[str, str] = {}
    for old, new in _alike(lost, gained, lambda note: note.blob):
        moves.update(_same_content(old, new))
    moves.update(_only_pairs(*_unpaired(lost, gained, moves), lambda note: note.title))
    return {note.path: moves[note.path] for note in lost if note.path in moves}


_Feature = Callable[[NoteThere], str | bytes]


def _alike(
    lost: Iterable[NoteThere], gained: Iterable[NoteThere], feature: _Feature
) -> list[tuple[list[NoteThere], list[NoteThere]]]:
    """Those of both sides that share a feature, which is not empty."""
    sides: dict[str | bytes, tuple[list[NoteThere], list[NoteThere]]] = {}
    for side, notes in enumerate((lost, gained)):
        for note in notes:
            sides.setdefault(feature(note), ([], []))[side].append(note)
    return [both for shared, both in sides.items() if shared and all(both)]


def _only_pairs(
    lost: Iterable[NoteThere], gained: Iterable[NoteThere], feature: _Feature
) -> dict[str, str]:
    """Those that share a feature which no other note on their own side has."""
    both = _alike(lost, gained, feature)
    return {old[0].path: new[0].path for old, new in both if len(old) == len(new) == 1}


def _same_content(lost: Sequence[NoteThere], gained: Sequence[NoteThere]) -> dict[str, str]:
    moves = _only_pairs(lost, gained, _file_name)
    lost, gained = _unpaired(lost, gained, moves)
    # Where several claim one by its file name, the directory of another claims nothing.
    claimed = {_file_name(note) for note in lost} & {_file_name(note) for note in gained}
    beside = _only_pairs(lost, gained, _directory)
    unclaimed = {note.path for note in [*lost, *gained] if _file_name(note) not in claimed}
    moves |= {old: new for old, new in beside.items() if {old, new} <= unclaimed}
    lost, gained = _unpaired(lost, gained, moves)
    if len(lost) == len(gained) == 1:
        moves[lost[0].path] = gained[0].path
    return moves


def _unpaired(
    lost: Sequence[NoteThere], gained: Sequence[NoteThere], moves: Mapping[str, str]
) -> tuple[list[NoteThere], list[NoteThere]]:
    came = set(moves.values())
    return (
        [note for note in lost if note.path not in moves],
        [note for note in gained if note.path not in came],
    )


def _file_name(note: NoteThere) -> str:
    return note.path.rpartition("/")[2]


def _directory(note: NoteThere) -> str:
    # Never empty, which would be no feature: the root is a directory like the others.
    return "/" + note.path.rpartition("/")[0]
