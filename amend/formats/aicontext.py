"""Files of a memory tree (Lean-Mnemo): parsed line by line, and edited without a stray byte.

It is no YAML: whatever a line says, its bytes are kept, and `render(parse(data)) == data` for all
data. Lines end at "\\n"; a "\\r" before it belongs to the ending. What is understood is lenient
(spaces and tabs around ":" and "|", either case of `dir`, `file` and `dict`), what is written is
the seed's own form.

A file that is not UTF-8, holds NUL or holds conflict markers has a `problem`; its lines are
understood as far as possible, and every function here that would change it raises
`DocumentInvalid`.

Source: the seed (seeds/lean-mnemo.txt) and its published files (research/landscape.md section 1).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from enum import Enum, auto
from typing import Final

from amend.core.aicontext import (
    LISTS,
    AddLine,
    DescribeLine,
    Document,
    DropLine,
    Line,
    LineEdit,
    LineKind,
    Noted,
    RenameLine,
)
from amend.errors import DocumentInvalid

BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = " \t\r\v\f"
_SPACE_BYTES: Final = _SPACE.encode()

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")

# Seven of them, as git writes and as `git diff --check` finds them.
_MARKER: Final = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?![^ \t\r])")
_LISTED: Final = re.compile(r"[ \t]*(dir|file|dict)[ \t]*:", re.IGNORECASE | re.ASCII)

# A date that is none ("2026-13-01", "2026/1/2") is still meant as one; what looks like one inside a
# line, or indented, is what a person wrote about it.
_DATE: Final = r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}"
_ENTRY: Final = re.compile(rf"({_DATE})[ \t]*:")
_FIRST_ENTRY: Final = re.compile(
    rb"^(?:\xef\xbb\xbf)*" + _DATE.encode() + rb"[ \t]*:([^\n]*)", re.MULTILINE
)
_BULLET: Final = re.compile(r"[ \t]*[-*+•](?![^ \t])")
_TERM: Final = re.compile(r"[ \t]*([^ \t:#*+•-][^:]*):")

_PURPOSE: Final = re.compile(r"[^/]*(?:/[^/]+)*?/[ \t]*(?:--?|[\u2013\u2014]|:)[ \t]+(.*)")
_PURPOSE_OF_TITLE: Final = re.compile(r".*?[ \t](?:--?|[\u2013\u2014])[ \t]+(.*)")

# What would end a line, or steer a terminal, where a description is shown.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


# -- reading ---------------------------------------------------------------------------------------


def parse_index(data: bytes) -> Document:
    return _parse(data, _index_line)


def parse_note(data: bytes) -> Document:
    return _parse(data, _note_line)


def parse_dictionary(data: bytes) -> Document:
    return _parse(data, _dictionary_line)


def render(document: Document) -> bytes:
    return b"".join(line.raw for line in document.lines)


def title_of(data: bytes) -> str:
    """The title of a note's first entry, "" when there is none; read no further than to it."""
    found = _FIRST_ENTRY.search(data)
    return "" if found is None else found[1].decode("utf-8", "replace").strip(_SPACE)


def purpose_of(index: Document) -> str:
    """What a heading says the directory is for, "" when none does.

    A heading is a comment above everything that is listed: `# name/ - purpose`, or, as the first
    words of the file, also `# Any title - purpose`.
    """
    first = True
    for line in index.lines:
        if line.kind in LISTS:
            break
        if line.kind is LineKind.COMMENT and not _LISTED.match(line.text):
            said = _PURPOSE.fullmatch(line.text)
            if said is None and first:
                said = _PURPOSE_OF_TITLE.fullmatch(line.text)
            if said is not None:
                return said[1]
        first = first and line.kind is LineKind.BLANK
    return ""


def noted(note: Document) -> tuple[Noted, ...]:
    """The entries of a note in the order of the file.

    A line that is indented deeper than the bullet above it goes on with its words. Nested bullets
    are bullets; one without words is none. Bullets above the first entry belong to none.
    """
    entries: list[tuple[Line, list[list[str]]]] = []
    for line, role in zip(note.lines, _roles(note.lines), strict=True):
        if role is _Role.ENTRY:
            entries.append((line, []))
        elif role is _Role.BULLET:
            entries[-1][1].append([line.text])
        elif role is _Role.CONTINUATION:
            entries[-1][1][-1].append(line.text)
    return tuple(
        Noted(_date(line.name), line.text, tuple(filter(None, map(_words, bullets))))
        for line, bullets in entries
    )


def _words(parts: list[str]) -> str:
    return " ".join(parts).strip(_SPACE)


def can_list(kind: LineKind, name: str) -> bool:
    """Whether an index can have a line for that name: one which, read back, says the same."""
    if kind not in LISTS or _CONTROL.search(name) or _SURROGATE.search(name):
        return False
    if "/" in name or name != name.strip(_SPACE):
        return False
    line = _index_line(_list_text(kind, name, ""), b"")
    return (line.kind, line.name) == (kind, name)


def one_line(text: str) -> str:
    """The text as a description, title or bullet: one line, without control characters."""
    return _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text)).strip(_SPACE)


# -- writing ---------------------------------------------------------------------------------------


def apply(index: Document, edits: Sequence[LineEdit]) -> bytes:
    """The index with the edits made, in their order; every other line keeps its bytes and place.

    One line a name: adding a name that is listed, or renaming to one, keeps the line that is there.
    Of several lines for one name all are dropped or renamed, and the first is described. What is
    not listed cannot be dropped, renamed or described, and a name no line can say (`can_list`) is
    not listed. Raises `DocumentInvalid` where the index has a problem.
    """
    _refuse_problem(index)
    bom, original = without_bom(index.lines)
    lines, added = _edited(original, edits)
    ending = majority_ending(original)
    new: list[Line] = []
    for kind in (LineKind.DICTIONARY, LineKind.DIRECTORY, LineKind.FILE):
        texts = {name: text for (of, name), text in added.items() if of is kind}
        if texts:
            lines = _with_added(lines, kind, texts, ending, new)
    return bom + _joined(lines, new, original, ending)


def new_index(path: str, purpose: str, edits: Sequence[LineEdit]) -> bytes:
    """An index for a directory without one. `path` ends in the directory's name."""
    name = one_line(path.rstrip("/").rpartition("/")[2])
    heading = one_line(f"# {name}/ - {one_line(purpose)}" if one_line(purpose) else f"# {name}/")
    return apply(parse_index(f"{heading}\n".encode()), edits)


def note_bytes(entry: Noted) -> bytes:
    """A note with one entry, which must have a date."""
    return b"".join(line.raw for line in _entry_lines(entry, b"\n"))


def replace_entries(note: Document, entry: Noted) -> bytes:
    """The note with that single entry in the place of its first; a note without one ends with it.

    What belongs to no entry stays, except blank lines between parts of entries that give way.
    Raises `DocumentInvalid` where the note has a problem.
    """
    _refuse_problem(note)
    bom, original = without_bom(note.lines)
    ending = majority_ending(original)
    new = _entry_lines(entry, ending)
    roles = _roles(original)
    if _Role.ENTRY not in roles:
        gap = [] if not original or original[-1].kind is LineKind.BLANK else [_blank(ending)]
        return bom + _joined([*original, *gap, *new], [*gap, *new], original, ending)
    first = roles.index(_Role.ENTRY)
    rest = roles[first + 1 :]
    own = rest[: rest.index(_Role.ENTRY)] if _Role.ENTRY in rest else rest
    bullets = first + 1 + own.index(_Role.BULLET) if _Role.BULLET in own else None
    separators = _separators(original, roles, (first, bullets))
    lines: list[Line] = []
    for at, line in enumerate(original):
        if at == first:
            lines += new[:1] if bullets is not None else new
        elif at == bullets:
            lines += new[1:]
        elif roles[at] is None and at not in separators:
            under = lines[-1] if at > first else None
            if under and under.kind is LineKind.BULLET and _indent(line) > _indent(under):
                new.append(_blank(ending))  # or the line would be read as more of the bullet
                lines.append(new[-1])
            lines.append(line)
    return bom + _joined(lines, new, original, ending)


# -- lines -----------------------------------------------------------------------------------------


def _parse(data: bytes, understood: Callable[[str, bytes], Line]) -> Document:
    lines: list[Line] = []
    for found in _LINE.finditer(data):
        raw = found[0]
        text = without_marks(raw).decode("utf-8", "replace").rstrip(_SPACE + "\n")
        if not text:
            line = Line(LineKind.BLANK, raw)
        elif text.lstrip(_SPACE).startswith("#"):
            line = Line(LineKind.COMMENT, raw, text=text.lstrip(_SPACE).lstrip("#").strip(_SPACE))
        elif _MARKER.match(text):
            line = Line(LineKind.CONFLICT, raw, text=text)
        else:
            line = understood(text, raw)
        lines.append(line)
    return Document(tuple(lines), _problem(data, lines))


def _problem(data: bytes, lines: Iterable[Line]) -> str | None:
    """Why the file is to be left alone. Bytes and lines are counted from 1."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start + 1})"
    if (nul := data.find(0)) >= 0:
        return f"holds NUL (byte {nul + 1})"
    for number, line in enumerate(lines, 1):
        if line.kind is LineKind.CONFLICT:
            return f"holds conflict markers (line {number})"
    return None


def _index_line(text: str, raw: bytes) -> Line:
    listed = _LISTED.match(text)
    if listed is not None:
        kind = LineKind(listed[1].lower())
        name, _, description = text[listed.end() :].partition("|")
        name = name.strip(_SPACE)
        if kind is LineKind.DIRECTORY:
            name = name.removesuffix("/")
        if name:
            return Line(kind, raw, name, description.strip(_SPACE))
    return Line(LineKind.OTHER, raw, text=text.strip(_SPACE))


def _note_line(text: str, raw: bytes) -> Line:
    if entry := _ENTRY.match(text):
        return Line(LineKind.ENTRY, raw, entry[1], text[entry.end() :].strip(_SPACE))
    if bullet := _BULLET.match(text):
        return Line(LineKind.BULLET, raw, text=text[bullet.end() :].strip(_SPACE))
    return Line(LineKind.OTHER, raw, text=text.strip(_SPACE))


def _dictionary_line(text: str, raw: bytes) -> Line:
    if term := _TERM.match(text):
        phrase = text[term.end() :].strip(_SPACE)
        return Line(LineKind.TERM, raw, term[1].strip(_SPACE), phrase)
    return Line(LineKind.OTHER, raw, text=text.strip(_SPACE))


class _Role(Enum):
    """What a line is to the entry it belongs to."""

    ENTRY = auto()
    BULLET = auto()
    CONTINUATION = auto()


def _roles(lines: Sequence[Line]) -> list[_Role | None]:
    """For each line its role; None: it belongs to no entry."""
    roles: list[_Role | None] = []
    bullet_indent: int | None = None  # of the bullet that the line above belongs to
    seen = False
    for line in lines:
        role: _Role | None = None
        if line.kind is LineKind.ENTRY:
            role, seen, bullet_indent = _Role.ENTRY, True, None
        elif line.kind is LineKind.BULLET and seen:
            role, bullet_indent = _Role.BULLET, _indent(line)
        elif (
            line.kind is LineKind.OTHER
            and bullet_indent is not None
            and _indent(line) > bullet_indent
        ):
            role = _Role.CONTINUATION
        else:
            bullet_indent = None
        roles.append(role)
    return roles


def _indent(line: Line) -> int:
    raw = without_marks(line.raw)
    return len(raw[: len(raw) - len(raw.lstrip(b" \t"))].expandtabs(8))


def _date(written: str) -> date | None:
    if len(written) != len("YYYY-MM-DD") or written[4] != "-" or written[7] != "-":
        return None
    try:
        return date(int(written[:4]), int(written[5:7]), int(written[8:]))
    except ValueError:
        return None


def _separators(
    lines: Sequence[Line], roles: Sequence[_Role | None], kept: Collection[int | None]
) -> set[int]:
    """The blank lines between two lines of entries of which the second goes."""
    separators: set[int] = set()
    blank: list[int] = []
    above: _Role | None = None
    for at, line in enumerate(lines):
        if line.kind is LineKind.BLANK:
            blank.append(at)
            continue
        if above is not None and roles[at] is not None and at not in kept:
            separators.update(blank)
        above, blank = roles[at], []
    return separators


# -- editing ---------------------------------------------------------------------------------------


def _refuse_problem(document: Document) -> None:
    if document.problem is not None:
        raise DocumentInvalid(
            f"the file {document.problem}", hint="mend the file; nothing was changed"
        )


def _edited(
    original: Sequence[Line], edits: Sequence[LineEdit]
) -> tuple[list[Line], dict[tuple[LineKind, str], str]]:
    """The lines with everything but additions done, and the descriptions of what is to be added."""
    lines: list[Line | None] = list(original)
    listed: dict[tuple[LineKind, str], list[int]] = {}
    for at, line in enumerate(original):
        if line.kind in LISTS:
            listed.setdefault((line.kind, line.name), []).append(at)
    added: dict[tuple[LineKind, str], str] = {}
    for edit in edits:
        key = edit.kind, edit.name
        if isinstance(edit, AddLine):
            if key not in listed and key not in added and can_list(*key):
                added[key] = one_line(edit.text)
            continue
        if isinstance(edit, DescribeLine):
            if key in added:
                added[key] = one_line(edit.text)
            elif key in listed:
                at = listed[key][0]
                lines[at] = _described(lines[at], one_line(edit.text))
            continue
        places, pending = listed.pop(key, []), added.pop(key, None)
        renamed = (edit.kind, edit.new) if isinstance(edit, RenameLine) else key
        stays = renamed not in listed and renamed not in added and can_list(*renamed)
        if isinstance(edit, DropLine) or not stays:
            for at in places:
                lines[at] = None
        elif places:
            for at in places:
                lines[at] = _renamed(lines[at], renamed[1])
            listed[renamed] = places
        elif pending is not None:
            added[renamed] = pending
    return [line for line in lines if line is not None], added


def _described(line: Line | None, text: str) -> Line | None:
    if line is None:
        return None
    body, ending = split_ending(line.raw)
    left, bar, right = body.partition(b"|")
    if not bar:
        left = left.rstrip(_SPACE_BYTES) + b" "
    gap = right[: len(right) - len(right.lstrip(_SPACE_BYTES))] if right.strip() else b" "
    raw = left + b"|" + (gap + text.encode() if text else b"") + ending
    return replace(line, raw=raw, text=text)


def _renamed(line: Line | None, new: str) -> Line | None:
    if line is None:
        return None
    body, ending = split_ending(line.raw)
    kind, colon, rest = body.partition(b":")
    cell, bar, description = rest.partition(b"|")
    old = cell.strip(_SPACE_BYTES)
    slash = "/" if line.kind is LineKind.DIRECTORY and old.endswith(b"/") else ""
    before, _, after = cell.partition(old)
    cell = before + f"{new}{slash}".encode() + after
    return replace(line, raw=kind + colon + cell + bar + description + ending, name=new)


def _with_added(
    lines: list[Line], kind: LineKind, texts: dict[str, str], ending: bytes, new: list[Line]
) -> list[Line]:
    """The lines and those of one kind that are added, which are appended to `new` too.

    Among its kind: by name where these are sorted, else after the last. The first of its kind gets
    a place of its own between blank lines.
    """
    places = [at for at, line in enumerate(lines) if line.kind is kind]
    if not places:
        at = _place_of_first(lines, kind)
        made = [_list_line(kind, name, texts[name], ending) for name in sorted(texts)]
        # A comment right above, with something below it already, is the heading of a file that
        # has no blank line there.
        if at and lines[at - 1].kind not in (
            {LineKind.BLANK, LineKind.COMMENT} if at < len(lines) else {LineKind.BLANK}
        ):
            made.insert(0, _blank(ending))
        if at < len(lines) and lines[at].kind is not LineKind.BLANK:
            made.append(_blank(ending))
        new += made
        return [*lines[:at], *made, *lines[at:]]
    names = [lines[at].name for at in places]
    is_sorted = names == sorted(names)
    inserted: dict[int, list[Line]] = {}
    for name in sorted(texts) if is_sorted else texts:
        before = bisect_right(names, name) if is_sorted else len(names)
        # After its predecessor, so that a comment above the next line stays with that.
        at = places[before - 1] + 1 if before else places[0]
        like = lines[places[max(before - 1, 0)]].raw
        like_ending = split_ending(like)[1] if like.endswith(b"\n") else ending
        line = _list_line(kind, name, texts[name], like_ending)
        inserted.setdefault(at, []).append(line)
        new.append(line)
    result: list[Line] = []
    for at, line in enumerate(lines):
        result += inserted.get(at, ())
        result.append(line)
    return result + inserted.get(len(lines), [])


def _place_of_first(lines: Sequence[Line], kind: LineKind) -> int:
    """Where the first line of its kind goes: the seed's order is directories, then files; the
    dictionary is to be read first."""
    below = {
        LineKind.DICTIONARY: (LineKind.DIRECTORY, LineKind.FILE),
        LineKind.DIRECTORY: (LineKind.FILE,),
    }.get(kind, ())
    for at, line in enumerate(lines):
        if line.kind in below:
            return _with_comments_above(lines, at)
    for above in (LineKind.DIRECTORY, LineKind.DICTIONARY):
        last = max((at for at, line in enumerate(lines) if line.kind is above), default=None)
        if last is not None:
            after = last + 1
            is_blank = after < len(lines) and lines[after].kind is LineKind.BLANK
            return after + 1 if is_blank else after
    return len(lines)


def _with_comments_above(lines: Sequence[Line], at: int) -> int:
    """The first of the comments right above a line; those that begin the file are its heading."""
    first = at
    while first and lines[first - 1].kind is LineKind.COMMENT:
        first -= 1
    return first or at


def _list_text(kind: LineKind, name: str, text: str) -> str:
    slash = "/" if kind is LineKind.DIRECTORY else ""
    return f"{kind}: {name}{slash} | {text}" if text else f"{kind}: {name}{slash}"


def _list_line(kind: LineKind, name: str, text: str, ending: bytes) -> Line:
    return Line(kind, _list_text(kind, name, text).encode() + ending, name, text)


def _entry_lines(entry: Noted, ending: bytes) -> list[Line]:
    if entry.on is None:
        raise ValueError("an entry is written with its date")
    on, title = entry.on.isoformat(), one_line(entry.title)
    lines = [Line(LineKind.ENTRY, f"{on}: {title}".rstrip(" ").encode() + ending, on, title)]
    for bullet in filter(None, map(one_line, entry.bullets)):
        lines.append(Line(LineKind.BULLET, f"  - {bullet}".encode() + ending, text=bullet))
    return lines


def _blank(ending: bytes) -> Line:
    return Line(LineKind.BLANK, ending)


def without_marks(raw: bytes) -> bytes:
    """A line without byte order marks: files that were put together have them in the middle."""
    while raw.startswith(BOM):
        raw = raw.removeprefix(BOM)
    return raw


def split_ending(raw: bytes) -> tuple[bytes, bytes]:
    body = raw.removesuffix(b"\n").rstrip(b"\r")
    return body, raw[len(body) :]


def majority_ending(lines: Iterable[Line]) -> bytes:
    endings = [line.raw.endswith(b"\r\n") for line in lines if line.raw.endswith(b"\n")]
    return b"\r\n" if 2 * sum(endings) > len(endings) else b"\n"


def without_bom(lines: Sequence[Line]) -> tuple[bytes, tuple[Line, ...]]:
    if not lines or not lines[0].raw.startswith(BOM):
        return b"", tuple(lines)
    first = replace(lines[0], raw=lines[0].raw.removeprefix(BOM))
    return BOM, (first, *lines[1:]) if first.raw else tuple(lines[1:])


def _joined(
    lines: Sequence[Line], new: Sequence[Line], original: Sequence[Line], ending: bytes
) -> bytes:
    """The bytes: each line ends, except the last where the original's did not."""
    raws = [
        line.raw if line.raw.endswith(b"\n") else _ended(line.raw, ending) for line in lines[:-1]
    ]
    if lines:
        last = lines[-1].raw
        is_new = any(line is lines[-1] for line in new)
        unended = bool(original) and not original[-1].raw.endswith(b"\n")
        raws.append(split_ending(last)[0] if is_new and unended else last)
    return b"".join(raws)


def _ended(raw: bytes, ending: bytes) -> bytes:
    return raw + (b"\n" if raw.endswith(b"\r") else ending)
