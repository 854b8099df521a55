"""What is wrong with a note."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from amend.core.aicontext import Document, Line, LineKind
from amend.core.tree_lint.rules import FUTURE_DAYS_MAX, Finding, Rule, excerpt, shown

_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

# What a person means as the date of an entry, however it is written. A year of four digits, or
# slashes, so that a line that begins with a version ("1.2.3 fixes it") is none.
_DATED: Final = re.compile(
    r"(?P<indent>[ \t]*)(?P<date>[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2})(?![0-9])"
    r"[ \t]*(?P<colon>:?)(?P<title>.*)",
    re.DOTALL,
)

# Two spaces and "- " is the only right one. "\xe2\x80\xa2" is a round one, in UTF-8.
_BULLET: Final = re.compile(rb"(?P<indent>[ \t]*)(?:[-*+]|\xe2\x80\xa2)[ \t]+(?=[^ \t\r\n])")
_BULLET_RIGHT: Final = b"  - "
_INDENT: Final = len(b"  ")

_NOT_PROSE: Final = frozenset(
    {LineKind.BLANK, LineKind.COMMENT, LineKind.CONFLICT, LineKind.ENTRY, LineKind.BULLET}
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """`on` None: what is written is no date."""

    number: int
    on: date | None
    title: str


@dataclass(frozen=True, slots=True)
class _Start:
    """A line that does not begin as it must. `right` None: a person must say how it should."""

    number: int
    kind: LineKind
    right: bytes | None


def note_findings(
    path: str,
    note: Document,
    today: date,
    exists: Callable[[str], bool | None],
    cited: Callable[[Document], Sequence[tuple[int, str]]],
) -> list[Finding]:
    """All but what keeps amend from understanding the note."""
    entries = _entries(note)
    return [
        *_whole(path, note, entries),
        *_several(path, entries),
        *_dates(path, note, entries, today),
        *_starts_found(path, note, entries),
        *_prose(path, note, entries),
        *_gone(path, note, exists, cited),
    ]


def fixed_note(document: Document) -> bytes | None:
    """The note with its bullets and entries indented as they must be; None when nothing is to mend.

    No word is changed. A bullet below another bullet stays: mending it would say that the two
    belong side by side.
    """
    if document.problem is not None:
        return None
    starts = _starts(document, _entries(document))
    right = {start.number: start.right for start in starts if start.right is not None}
    if not right:
        return None
    lines = enumerate(document.lines, 1)
    return b"".join(right.get(number, line.raw) for number, line in lines)


def _entries(note: Document) -> list[_Entry]:
    """The entries, and what is meant as one: a date in another form at the beginning of a line; in
    a note without any entry also one that is indented or without a colon."""
    has_entry = any(line.kind is LineKind.ENTRY for line in note.lines)
    entries = []
    for number, line in enumerate(note.lines, 1):
        if line.kind is LineKind.ENTRY:
            entries.append(_Entry(number, _day(line.name), line.text.strip()))
        elif line.kind is LineKind.OTHER:
            dated = _DATED.match(_text(line))
            if dated is None or (has_entry and (dated["indent"] or not dated["colon"])):
                continue
            on = _day(dated["date"]) if dated["colon"] else None
            entries.append(_Entry(number, on, dated["title"].strip()))
    return entries


def _day(written: str) -> date | None:
    if not _ISO.fullmatch(written):
        return None  # date.fromisoformat takes other forms as well
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None


def _whole(path: str, note: Document, entries: Sequence[_Entry]) -> Iterable[Finding]:
    if not entries:
        message = "no entry: begin with `YYYY-MM-DD: title`, or remove the note if it says nothing"
        yield Finding(path, 1, Rule.NO_ENTRY, message)
        return
    if not any(line.kind is LineKind.BULLET and line.text for line in note.lines):
        message = "no bullets: write what is known as `  - text` below the entry"
        yield Finding(path, entries[0].number, Rule.NO_BULLETS, message)
    for entry in entries:
        if not entry.title:
            message = "no title: write what the note says in a few words behind the date"
            yield Finding(path, entry.number, Rule.NO_TITLE, message)


def _several(path: str, entries: Sequence[_Entry]) -> Iterable[Finding]:
    """All entries but one: those with a newer one beside them are history, the others too many."""
    if len(entries) < 2:
        return
    dated = [entry for entry in entries if entry.on is not None]
    newest = max((entry.on for entry in dated if entry.on is not None), default=None)
    stays = next((entry for entry in entries if entry.on == newest), entries[0])
    for entry in entries:
        if entry is stays:
            continue
        if newest is not None and entry.on is not None and entry.on < newest:
            message = (
                f"{entry.on} is older than the entry of {newest} in line {stays.number}: "
                "keep the latest state only"
            )
            yield Finding(path, entry.number, Rule.HISTORY_KEPT, message)
        else:
            message = (
                f"one more entry beside that in line {stays.number}: merge the two, "
                "or move this topic into a note of its own"
            )
            yield Finding(path, entry.number, Rule.SEVERAL_ENTRIES, message)


def _dates(path: str, note: Document, entries: Sequence[_Entry], today: date) -> Iterable[Finding]:
    for entry in entries:
        if entry.on is None:
            line = note.lines[entry.number - 1]
            yield Finding(path, entry.number, Rule.BAD_DATE, _no_date(line))
        elif (entry.on - today).days > FUTURE_DAYS_MAX:
            message = f"{entry.on} is in the future, today is {today}: write the day it was decided"
            yield Finding(path, entry.number, Rule.FUTURE_DATE, message)


def _no_date(line: Line) -> str:
    dated = _DATED.match(_text(line))
    written = dated["date"] if dated is not None else line.name
    if _day(written) is not None:
        return f"{shown(written)} has no colon behind it: write {shown(f'{written}: title')}"
    if _ISO.fullmatch(written):
        return f"{shown(written)} is in no calendar: write the day it was decided"
    return f"{shown(written)} is not written as YYYY-MM-DD: write it so"


def _starts_found(path: str, note: Document, entries: Sequence[_Entry]) -> Iterable[Finding]:
    for start in _starts(note, entries):
        if start.kind is not LineKind.BULLET:
            message = "an entry begins with its date: remove the spaces before it"
        elif start.right is None:
            message = "a bullet below a bullet: write it as `  - text`, beside the other or in it"
        else:
            message = "a bullet begins with two spaces, a hyphen and a space: write it so"
        is_fixable = start.right is not None
        yield Finding(path, start.number, Rule.BAD_INDENTATION, message, is_fixable)


def _starts(note: Document, entries: Sequence[_Entry]) -> Iterable[_Start]:
    dates = {entry.number: entry.on for entry in entries}
    least: int | None = None  # of the bullets of this entry so far
    for number, line in enumerate(note.lines, 1):
        if number in dates:
            least = None
            stripped = line.raw.lstrip(b" \t")
            if stripped != line.raw and dates[number] is not None:
                yield _Start(number, line.kind, stripped)
        elif line.kind is LineKind.BULLET:
            bullet = _BULLET.match(line.raw)
            if bullet is None:
                continue  # without a word, or behind a byte order mark
            width = _width(line)
            is_below = width > _INDENT and least is not None and width > least
            least = width if least is None else min(least, width)
            if bullet[0] != _BULLET_RIGHT:
                right = None if is_below else _BULLET_RIGHT + line.raw[bullet.end() :]
                yield _Start(number, line.kind, right)


def _prose(path: str, note: Document, entries: Sequence[_Entry]) -> Iterable[Finding]:
    dated = {entry.number for entry in entries}
    first, count = 0, 0
    for number, line in enumerate((*note.lines, Line(LineKind.BLANK, b"")), 1):
        if line.kind not in _NOT_PROSE and number not in dated:
            first, count = (first, count + 1) if count else (number, 1)
        elif count:
            yield Finding(path, first, Rule.PROSE, _no_prose(note, first, count))
            count = 0


def _no_prose(note: Document, first: int, count: int) -> str:
    line = note.lines[first - 1]
    above = note.lines[first - 2] if first > 1 else None
    if above is not None and above.kind is LineKind.BULLET and _width(line) > _width(above):
        return f"{excerpt(line.raw)} goes on with the bullet above: a bullet is one line, join them"
    lines = "a line" if count == 1 else f"{count} lines"
    return f"{excerpt(line.raw)} is {lines} of prose: write bullets, `  - text`"


def _width(line: Line) -> int:
    """How far the line is indented, in columns."""
    return len(line.raw[: len(line.raw) - len(line.raw.lstrip(b" \t"))].expandtabs())


def _gone(
    path: str,
    note: Document,
    exists: Callable[[str], bool | None],
    cited: Callable[[Document], Sequence[tuple[int, str]]],
) -> Iterable[Finding]:
    for number, named in dict.fromkeys(cited(note)):
        if exists(named) is False:
            message = f"{shown(named)} is gone: look whether the note still holds, and correct it"
            yield Finding(path, number, Rule.GONE_PATH, message)


def _text(line: Line) -> str:
    return line.raw.decode(errors="replace").rstrip()
