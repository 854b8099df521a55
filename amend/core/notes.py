"""What a note says: merged with what is said anew, checked before it is saved, and what it cites.

A note's bullets are united by meaning: text that differs in case, white space, code marks, list
marks, Unicode form or final punctuation alone says the same. The seed's rule (research/landscape.md
section 1): one entry in a note, the latest date, the latest state.

What a note cites are the items of a `files:` bullet, and whatever stands in backticks and could be
a path. A date has no time of day and no zone, so it stands for every moment that somewhere was of
that day (`written_between`).
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from amend.core.aicontext import (
    DICTIONARY_NAME,
    INDEX_NAME,
    KEBAB,
    SUFFIX,
    Document,
    LineKind,
    Noted,
)
from amend.core.model import SourceKind
from amend.core.sources import parse_spec
from amend.errors import RequestInvalid

# "decisions/architecture/edge" is three; the deepest tree that was found published has two.
CATEGORY_DEPTH_MAX: Final = 8

# With the suffix well below the 255 bytes of a file name.
NAME_CHARS_MAX: Final = 100

# It becomes the note's description in an index, on one line.
TITLE_CHARS_MAX: Final = 200

# A list of some twenty paths. The seed means a dozen words, of which lint reminds.
BULLET_CHARS_MAX: Final = 1000

# What one save says; the seed extracts 3 to 5.
BULLETS_MAX: Final = 100

# Zones reach from UTC-12 to UTC+14, so a day begins 14 hours before UTC's and ends 12 after.
_BEGINS_BEFORE: Final = timedelta(hours=14)
_ENDS_AFTER: Final = timedelta(days=1, hours=12)

# So that no moment of a day is before the first or after the last that can be said.
_FIRST_DAY: Final = date(2, 1, 1)
_LAST_DAY: Final = date(9998, 12, 31)

# Names of files that are no notes.
_TAKEN: Final = frozenset(name.removesuffix(SUFFIX) for name in (INDEX_NAME, DICTIONARY_NAME))

_LIST_MARKS: Final = re.compile(r"^(?:[-*+•–]\s+)+")
_FINAL_PUNCTUATION: Final = " .,;:!…。"
_FILES: Final = re.compile(r"(?:[-*+•–]\s+)*files\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)
_FILES_MEANING: Final = "files:"

# What ends or hides a line: controls, lone surrogates, line and paragraph separators.
_UNFIT_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# What shows a line otherwise than it reads (CVE-2021-42574).
_REORDERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_IN_BACKTICKS: Final = re.compile(r"`+([^`]+)`+")
_PLACE_IN_FILE: Final = re.compile(
    r"(?::\d+(?:[:-]\d+)?|#L\d+(?:C\d+)?(?:-L?\d+(?:C\d+)?)?)$", re.ASCII
)
# Of code and commands; `(`, `[` and `@` are not among them, because routes are named so.
_NOT_IN_PATHS: Final = re.compile(r"[<>|\"'=;$&{}\\]|://|\)$|^[-~]")


# -- merging ---------------------------------------------------------------------------------------


def merged(existing: Noted | None, new: Noted, replaces: Sequence[str] = ()) -> Noted:
    """One entry: the newer date, the new title unless it is empty, the bullets of both.

    Existing bullets keep their order and their place; one that is said again takes the new wording
    there, other new ones follow. Of `files:` bullets the items are united. `replaces` drops
    existing ones, each named by its text or by the beginning of it. Raises `RequestInvalid` where
    a name fits none, or several.
    """
    said: dict[str, str] = {}
    for bullet in existing.bullets if existing is not None else ():
        _say(said, bullet)
    for meaning in {_named(name, said) for name in replaces}:
        del said[meaning]
    for bullet in new.bullets:
        _say(said, bullet)
    if existing is None:
        return Noted(new.on, new.title, tuple(said.values()))
    days = [on for on in (existing.on, new.on) if on is not None]
    return Noted(max(days, default=None), new.title or existing.title, tuple(said.values()))


def joined(entries: Sequence[Noted]) -> Noted | None:
    """Several entries of one note as one; None for none, and a single one as it is.

    The newest leads: its date, its title, its bullets and their wording. What only older ones say
    follows, newer before older, so that nothing is lost. Of entries of one day the last is the
    newest, because notes are appended to; one without a date is older than all that have one.
    """
    if len(entries) < 2:
        return entries[0] if entries else None
    in_order = sorted(enumerate(entries), key=lambda each: (each[1].on or date.min, each[0]))
    latest_first = [entry for _, entry in reversed(in_order)]
    said: dict[str, str] = {}
    for entry in latest_first:
        older: dict[str, str] = {}
        for bullet in entry.bullets:
            _say(older, bullet)
        for meaning, bullet in older.items():
            if meaning not in said or meaning == _FILES_MEANING:
                _say(said, bullet)
    title = next((entry.title for entry in latest_first if entry.title), "")
    return Noted(latest_first[0].on, title, tuple(said.values()))


def _say(said: dict[str, str], bullet: str) -> None:
    meaning = _meaning(bullet)
    if meaning == _FILES_MEANING and meaning in said:
        items = dict.fromkeys((*(_listed(said[meaning]) or ()), *(_listed(bullet) or ())))
        bullet = f"files: {', '.join(items)}"
    said[meaning] = bullet


def _meaning(bullet: str) -> str:
    """The same for texts that say the same."""
    if _listed(bullet) is not None:
        return _FILES_MEANING
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", bullet).casefold())
    text = _LIST_MARKS.sub("", " ".join(folded.replace("`", " ").split()))
    return text.rstrip(_FINAL_PUNCTUATION) or text


def _named(name: str, said: dict[str, str]) -> str:
    wanted = _meaning(name)
    if wanted and wanted in said:
        return wanted
    found = [meaning for meaning in said if wanted and meaning.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    fits = f"begins {len(found)} bullets" if found else "is no bullet of the note"
    raise RequestInvalid(
        f"replaces: {name!a} {fits}, must name one by its text or its beginning",
        hint="read the note and name the bullet as it stands there",
    )


# -- saving ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Save:
    """What shall be noted, checked: texts without white space or list marks around them."""

    category: str
    topic: str
    title: str
    bullets: tuple[str, ...]

    @property
    def path(self) -> str:
        """The note's, below the tree's root."""
        return f"{self.category}/{self.topic}{SUFFIX}"


def check_save(
    category: str,
    topic: str,
    title: str,
    bullets: Sequence[str],
    *,
    find_secret: Callable[[str], str | None],
) -> Save:
    """What shall be saved. `find_secret` names the rule that a text breaks, or None.

    An empty title passes: a note that exists keeps its own. Raises `RequestInvalid` with the
    field, the rule and what to do; a secret is never repeated.
    """
    for field, text in (("category", category), ("topic", topic)):
        _refuse_secret(field, text, find_secret)
    parts = category.split("/")
    for part in parts:
        _check_name("category", category, part)
    if len(parts) > CATEGORY_DEPTH_MAX:
        raise RequestInvalid(
            f"category has {len(parts)} levels, the most is {CATEGORY_DEPTH_MAX}",
            hint="say the rest in the topic's name",
        )
    _check_name("topic", topic, topic)
    if not 1 <= len(bullets) <= BULLETS_MAX:
        raise RequestInvalid(
            f"bullets has {len(bullets)} items, must have 1 to {BULLETS_MAX}",
            hint="say what is to be remembered, a fact to a bullet",
        )
    stripped = title.strip()
    _check_line("title", stripped, TITLE_CHARS_MAX, find_secret)
    clean = []
    for index, bullet in enumerate(bullets):
        text = _LIST_MARKS.sub("", bullet.strip())
        if not text.strip("-*+•–"):
            raise RequestInvalid(
                f"bullets/{index} is {bullet!a}, which says nothing", hint="leave it out"
            )
        _check_line(f"bullets/{index}", text, BULLET_CHARS_MAX, find_secret)
        clean.append(text)
    return Save(category, topic, stripped, tuple(clean))


def _check_name(field: str, text: str, name: str) -> None:
    if not KEBAB.fullmatch(name):
        joined_by = " (several are joined by `/`)" if field == "category" else ""
        raise RequestInvalid(
            f"{field} is {text!a}, must be kebab-case{joined_by}",
            hint="use lower-case letters, digits and single hyphens: token-rotation",
        )
    if name in _TAKEN:
        raise RequestInvalid(
            f"{field} is {text!a}, and {name}{SUFFIX} is not a note", hint="choose another name"
        )
    if len(name) > NAME_CHARS_MAX:
        raise RequestInvalid(
            f"{field} has a name of {len(name)} characters, the most is {NAME_CHARS_MAX}",
            hint="say the rest in the title",
        )


def _check_line(
    field: str, text: str, chars_max: int, find_secret: Callable[[str], str | None]
) -> None:
    _refuse_secret(field, text, find_secret)
    for char in text:
        if char in _REORDERING or unicodedata.category(char) in _UNFIT_CATEGORIES:
            raise RequestInvalid(
                f"{field} holds U+{ord(char):04X}, must be one line of text that reads as it shows",
                hint="put each fact in a bullet of its own, without line ends, tabs or controls",
            )
    if len(text) > chars_max:
        raise RequestInvalid(
            f"{field} has {len(text)} characters, the most is {chars_max}",
            hint="make several bullets of it, and leave out what can be found out again",
        )


def _refuse_secret(field: str, text: str, find_secret: Callable[[str], str | None]) -> None:
    rule = find_secret(text)
    if rule is not None:
        raise RequestInvalid(
            f"{field} looks like it holds a secret ({rule}), and notes are read by everybody",
            hint="say where the secret is kept instead",
        )


# -- what a note rests on --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Citation:
    """`path`: as written, without a place in the file. `is_listed`: in a `files:` bullet, where
    each item is a source; else it is one if it exists."""

    line: int  # 1-based
    path: str
    is_listed: bool


def citations(note: Document) -> tuple[Citation, ...]:
    """What the bullets name, each once a line, in their order.

    A line that is indented deeper than the bullet above it goes on with its words. What stands in
    backticks may be no path at all: only what certainly is none is left out.
    """
    found: dict[Citation, None] = {}
    bullet, is_listing = b"", False  # that the line above belongs to
    for number, line in enumerate(note.lines, 1):
        listed = None
        if line.kind is LineKind.BULLET:
            listed = _listed(line.text)
            bullet, is_listing = line.raw, listed is not None
        elif line.kind is not LineKind.OTHER or not bullet or _indent(line.raw) <= _indent(bullet):
            bullet = b""
            continue
        elif is_listing:
            listed = _items(line.text)
        for path in listed if listed is not None else _in_backticks(line.text):
            found[Citation(number, path, is_listing)] = None
    return tuple(found)


def cited(note: Document) -> tuple[tuple[int, str], ...]:
    """`citations` as line and path."""
    return tuple((each.line, each.path) for each in citations(note))


def _listed(bullet: str) -> list[str] | None:
    """The items of a `files:` bullet; None for any other."""
    match = _FILES.fullmatch(bullet.strip())
    return _items(match[1]) if match is not None else None


def _items(text: str) -> list[str]:
    items = (item.strip().strip("`").strip() for item in text.split(","))
    return [_PLACE_IN_FILE.sub("", item) for item in items if item]


def _in_backticks(text: str) -> list[str]:
    if "`" not in text:
        return []
    paths = (_PLACE_IN_FILE.sub("", match[1].strip()) for match in _IN_BACKTICKS.finditer(text))
    return [path for path in paths if _may_be_path(path)]


def _indent(raw: bytes) -> int:
    return len(raw[: len(raw) - len(raw.lstrip(b" \t"))].expandtabs(8))


def _may_be_path(text: str) -> bool:
    if _NOT_IN_PATHS.search(text) or any(unicodedata.category(c) == "Cc" for c in text):
        return False
    try:
        source = parse_spec(text)
    except ValueError:
        return False
    is_here = source.repository is None and bool(source.path)
    return is_here and source.kind in (SourceKind.FILE, SourceKind.LISTING)


def written_between(on: date) -> tuple[datetime, datetime]:
    """The first moment of that day anywhere on earth, and the one after its last."""
    midnight = datetime.combine(min(max(on, _FIRST_DAY), _LAST_DAY), time(), UTC)
    return midnight - _BEGINS_BEFORE, midnight + _ENDS_AFTER
