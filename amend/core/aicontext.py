"""The files of a memory tree as values: indexes, notes and dictionaries, line by line.

A file is its lines, each with the very bytes it has, so that what is not understood is kept.
Source: the seed's file formats, research/landscape.md section 1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

SUFFIX: Final = ".aicontext"
INDEX_NAME: Final = "index.aicontext"
DICTIONARY_NAME: Final = "dict.aicontext"

# A category or topic as a name: what a person types, and every filesystem takes.
KEBAB: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class LineKind(StrEnum):
    BLANK = "blank"
    COMMENT = "comment"  # "# anything": also a heading, and a line that is commented out
    DIRECTORY = "dir"  # "dir: name/ | description"
    FILE = "file"  # "file: name.aicontext | description"
    DICTIONARY = "dict"  # "dict: dict.aicontext | description"
    ENTRY = "entry"  # "YYYY-MM-DD: title"
    BULLET = "bullet"  # "  - text"
    TERM = "term"  # "ABBR: phrase"
    CONFLICT = "conflict"  # what git writes where a merge found two versions
    OTHER = "other"


LISTS: Final = frozenset({LineKind.DIRECTORY, LineKind.FILE, LineKind.DICTIONARY})
"""Lines of an index that say what is in its directory."""


@dataclass(frozen=True, slots=True)
class Line:
    """`raw`: the whole line with its ending; joined, a file's lines are the file.

    `name`: what is listed, a directory without its final `/`; of an entry its date as written; of a
    term its abbreviation. `text`: description, title, bullet, phrase or a comment's words.
    """

    kind: LineKind
    raw: bytes
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """`problem`: why amend leaves the file alone; its lines are understood as far as possible."""

    lines: tuple[Line, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """What a note says: its entry. `on` None: the date is none."""

    on: date | None
    title: str
    bullets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Child:
    """What is in a directory of the tree, as its index lists it.

    `kind` is one of `LISTS`; `title` what it says of itself: a note's first title, the purpose in a
    directory's own index; "" where it says nothing.
    """

    kind: LineKind
    name: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Directory:
    """One directory of a tree. `path`: below the tree's root, "" for the root itself.

    `children` and `notes` (by file name) are what is on disk; `index` None: there is none.
    """

    path: str
    index: Document | None
    children: tuple[Child, ...]
    notes: Mapping[str, Document]
    dictionary: Document | None = None


# -- edits of an index -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddLine:
    kind: LineKind
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class DropLine:
    kind: LineKind
    name: str


@dataclass(frozen=True, slots=True)
class RenameLine:
    """Its description and its place stay."""

    kind: LineKind
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class DescribeLine:
    kind: LineKind
    name: str
    text: str


LineEdit = AddLine | DropLine | RenameLine | DescribeLine
