"""What lint may find in a memory tree: the rules, each with its reason, and their page in the docs.

Source: the seed's rules for its three kinds of file; DESIGN sections 2, 5 and 8 for the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# The longest description in the seed's own trees has 135 characters, and the next one 63. At four
# characters a token 160 are 40 tokens, a quarter of a mean note of the seed's benchmark (173). More
# than the index sync ever writes: what a person wrote may be a little longer.
DESCRIPTION_CHARACTERS_MAX: Final = 160

# The seed's rule for a dictionary: 3 tokens or more when written out, used 3 times or more.
TERM_TOKENS_MIN: Final = 3
TERM_USES_MIN: Final = 3

# Who is ahead of this machine's time zone writes tomorrow's date, and rightly so.
FUTURE_DAYS_MAX: Final = 1

# A file's name has up to 255 bytes and is to be copied from a message. A line has no limit, and so
# much of it is enough to know it again.
_NAME_CHARACTERS_MAX: Final = 255
_EXCERPT_CHARACTERS_MAX: Final = 60


class Rule(StrEnum):
    NOT_UTF8 = "not-utf8"
    CONFLICT_MARKERS = "conflict-markers"
    LEFT_ALONE = "left-alone"
    NAME_CLASH = "name-clash"

    NO_INDEX = "no-index"
    MISSING_LINE = "missing-line"
    UNLISTED_DICTIONARY = "unlisted-dictionary"
    DANGLING_LINE = "dangling-line"
    WRONG_LEVEL = "wrong-level"
    WRONG_KIND = "wrong-kind"
    DUPLICATE_LINE = "duplicate-line"
    NO_DESCRIPTION = "no-description"
    LONG_DESCRIPTION = "long-description"
    UNKNOWN_LINE = "unknown-line"

    NO_ENTRY = "no-entry"
    NO_TITLE = "no-title"
    NO_BULLETS = "no-bullets"
    HISTORY_KEPT = "history-kept"
    SEVERAL_ENTRIES = "several-entries"
    PROSE = "prose"
    BAD_DATE = "bad-date"
    FUTURE_DATE = "future-date"
    BAD_INDENTATION = "bad-indentation"
    GONE_PATH = "gone-path"

    UNUSED_TERM = "unused-term"
    RARE_TERM = "rare-term"
    SHORT_TERM = "short-term"


@dataclass(frozen=True, slots=True)
class Finding:
    """`path`: below the repository's root. `line`: from 1, and 1 where it is about the whole file.

    `is_fixable`: `--fix` mends it, by `fixed_note`, `fixed_index` or the index sync.
    """

    path: str
    line: int
    rule: Rule
    message: str
    is_fixable: bool = False


@dataclass(frozen=True, slots=True)
class _About:
    what: str
    reason: str
    mended: str = ""  # what `--fix` does


_FILES: Final[Mapping[Rule, _About]] = {
    Rule.NOT_UTF8: _About(
        "Bytes that are not UTF-8. One finding a file, at the first such line; nothing else is "
        "looked for in that file.",
        "Whoever reads the file would have to guess its letters. amend guesses none, and so "
        "leaves the file as it is.",
    ),
    Rule.CONFLICT_MARKERS: _About(
        "What git writes where a merge found two versions. One finding a conflict; nothing else "
        "is looked for in that file.",
        "A note holds the latest state only, and here are two of them. Which one holds is for a "
        "person to say, so amend leaves the file as it is.",
    ),
    Rule.LEFT_ALONE: _About(
        "A file that amend leaves alone for another reason, which the message tells: it is a "
        "symbolic link, too large, or holds a NUL byte.",
        "What cannot be kept in step must not look as if it were.",
    ),
    Rule.NAME_CLASH: _About(
        "Two names in one directory that differ only in upper and lower case, or in how their "
        "accents are encoded.",
        "There is one file for each topic. Where a filesystem takes both names for one, a "
        "checkout loses one of the two.",
    ),
}

_INDEXES: Final[Mapping[Rule, _About]] = {
    Rule.NO_INDEX: _About(
        "A directory with notes or directories in it, and without `index.aicontext`.",
        "Memory is read in two steps, first the indexes and then one note. What no index lists "
        "is found only by reading everything.",
        "the index is written",
    ),
    Rule.MISSING_LINE: _About(
        "A note or directory that the index beside it does not list.",
        "An index is kept up with every file that comes or goes; an agent that reads it takes "
        "what is not listed for something never noted, and finds it out again.",
        "the line is added, described by the note's title",
    ),
    Rule.UNLISTED_DICTIONARY: _About(
        "A dictionary that the index beside it does not list.",
        "The dictionary is to be loaded before anything that is written with its abbreviations, "
        "and only the index tells that there is one.",
        "the line is added",
    ),
    Rule.DANGLING_LINE: _About(
        "A line for something that is not there. It may be a placeholder, so amend keeps it; "
        "comment it out (`# dir: infra/ | …`) to keep it without a finding. What is there and is "
        "no note, a picture for example, may be listed.",
        "An index is kept up with every file that comes or goes, and following this line costs "
        "a reader a failed read.",
    ),
    Rule.WRONG_LEVEL: _About(
        "A line for something that is in a directory further up or down, or for the index itself.",
        "An index lists its immediate children. Every directory has an index of its own, and "
        "what one level lists twice costs tokens on every read.",
    ),
    Rule.WRONG_KIND: _About(
        "A `file:` line for a directory, a `dir:` line for a note, or a dictionary that is not "
        "listed by `dict:`.",
        "The word before the name tells a reader what to load next: one more index, one note, or "
        "the dictionary before all else.",
    ),
    Rule.DUPLICATE_LINE: _About(
        "A second line of an index for one thing, or a second meaning of one abbreviation.",
        "One thing has one line and one description, else a reader pays for both and cannot "
        "tell which one holds.",
        "a line of an index goes if it has no description, or the same one; where the "
        "descriptions differ, or in a dictionary, a person must choose",
    ),
    Rule.NO_DESCRIPTION: _About(
        "A line of an index that names something and does not describe it.",
        "A line is a name and a description. Without one the note must be loaded to know "
        "whether it is wanted.",
    ),
    Rule.LONG_DESCRIPTION: _About(
        f"A description of more than {DESCRIPTION_CHARACTERS_MAX} characters.",
        "A description is one line, and indexes are the light level: they are loaded every "
        "time, notes only when they are wanted.",
    ),
    Rule.UNKNOWN_LINE: _About(
        "A line of an index that is no `dir:`, `file:` or `dict:` line, no comment and not blank; "
        "or a line of a dictionary that is no `ABBR: phrase`.",
        "An index only lists. What else it says is loaded with it every time, and what was meant "
        "as a line and is misspelt is found by nobody.",
    ),
}

_NOTES: Final[Mapping[Rule, _About]] = {
    Rule.NO_ENTRY: _About(
        "A note without a `YYYY-MM-DD: title` line.",
        "A topic is one dated entry. Without the date nobody can tell whether it is still the "
        "latest state, and without the title its index has nothing to say of it.",
    ),
    Rule.NO_TITLE: _About(
        "A date without a title behind it.",
        "The title is what an index says of the note.",
    ),
    Rule.NO_BULLETS: _About(
        "A note with an entry and without bullets.",
        "What a note knows is in its bullets. With none it costs a read and tells no more than "
        "its index did.",
    ),
    Rule.HISTORY_KEPT: _About(
        "An entry that is older than the note's newest one. (An older entry that is another "
        "topic belongs into a note of its own: dates are all that lint compares.)",
        "A note holds the latest state; a topic that is looked at again is updated, with a new "
        "date. What was believed before costs tokens, misleads, and is in git.",
    ),
    Rule.SEVERAL_ENTRIES: _About(
        "One more entry that is not older than the others: of the same day, or without a date "
        "that can be compared.",
        "One topic has one file and one entry, so that loading a note loads nothing else.",
    ),
    Rule.PROSE: _About(
        "Lines of a note that are no entry, bullet or comment, and those that go on with a bullet. "
        "One finding a paragraph.",
        "Notes are bullets. Leaving the prose out is most of what makes them cheap to load: about "
        "two thirds by the seed's own count.",
    ),
    Rule.BAD_DATE: _About(
        "A date that is in no calendar (`2026-02-30`) or not written as `YYYY-MM-DD` "
        "(`10/04/2026`), or one without a colon behind it.",
        "Every entry is dated as YYYY-MM-DD. `10/04/2026` is a day in April to one reader and "
        "one in October to the next.",
    ),
    Rule.FUTURE_DATE: _About(
        "A date later than tomorrow. Tomorrow's is taken: it is today further east.",
        "The date says when this was the latest state, and makes every entry written until then "
        "look older than it is.",
    ),
    Rule.BAD_INDENTATION: _About(
        "A bullet that does not begin with two spaces, a hyphen and a space, or an entry that "
        "is indented.",
        "Bullets have one form and one level below their entry. Deeper ones are a second level, "
        "that most readers of the format do not know.",
        "the beginning of the line is mended, never a word; a bullet below another bullet is left, "
        "for a person to say what it belongs to",
    ),
    Rule.GONE_PATH: _About(
        "A path that a note names, as `  - files: a.py` or in backticks, and that is no longer in "
        "the repository.",
        "A note is the latest state, and it rests on the files it names. One that is gone says "
        "that the note was not looked at since.",
    ),
}

_DICTIONARIES: Final[Mapping[Rule, _About]] = {
    Rule.UNUSED_TERM: _About(
        "An abbreviation that no note and no index of the tree uses.",
        "The dictionary is loaded first, every time: a term must earn its line.",
    ),
    Rule.RARE_TERM: _About(
        f"An abbreviation that is used, but less than {TERM_USES_MIN} times in all notes and "
        "indexes together.",
        f"A term is worth a line from {TERM_USES_MIN} uses on. Below, the line costs more than the "
        "abbreviation saves.",
    ),
    Rule.SHORT_TERM: _About(
        f"An abbreviation whose phrase has less than {TERM_TOKENS_MIN} tokens.",
        f"Only phrases of {TERM_TOKENS_MIN} tokens or more are worth abbreviating: an abbreviation "
        "is one or two itself.",
    ),
}

_GROUPS: Final[Mapping[str, Mapping[Rule, _About]]] = {
    "Every file": _FILES,
    "Indexes": _INDEXES,
    "Notes": _NOTES,
    "Dictionaries": _DICTIONARIES,
}

REASONS: Final[Mapping[Rule, str]] = {
    rule: about.reason for group in _GROUPS.values() for rule, about in group.items()
}
"""Why there is this rule."""


def shown(name: str) -> str:
    """The name in backticks, on one line and without control characters."""
    return _quoted(name, _NAME_CHARACTERS_MAX)


def excerpt(raw: bytes) -> str:
    """The beginning of a line of a file, as `shown` shows names."""
    return _quoted(raw.decode(errors="replace").strip(), _EXCERPT_CHARACTERS_MAX)


def _quoted(text: str, characters_max: int) -> str:
    if len(text) > characters_max:
        text = text[: characters_max - 1].rstrip() + "…"
    printable = (
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return f"`{''.join(printable)}`"


def rules_page() -> str:
    """The page of the documentation that tells every rule and its reason."""
    return "\n".join([*_INTRODUCTION, *_sections()])


_INTRODUCTION: Final = (
    "# What `amend memory lint` finds",
    "",
    "<!-- Written by amend.core.tree_lint.rules_page; a test compares the two. -->",
    "",
    "One line a finding, `path:line: rule: message`; exit 1 when there is one. Line 1 also stands "
    "for the file as a whole. `amend memory lint --fix` mends what can be mended without choosing "
    "anybody's words; the rules below say which. Nothing is an error to the daemon: it keeps every "
    "line it does not understand.",
)


def _sections() -> Iterable[str]:
    for heading, rules in _GROUPS.items():
        yield from ("", f"## {heading}")
        for rule, about in rules.items():
            yield from ("", f"### {rule}", "", about.what, "", f"Why: {about.reason}")
            if about.mended:
                yield from ("", f"With `--fix`: {about.mended}.")
    yield ""
