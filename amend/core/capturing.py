"""What an exploration found → what is stored of it: its key, a summary, and what it rests on.

Of every file the looks at it become one `Seen`: since when nothing of the file may have changed,
and which of its lines were looked at, where it was not looked at as a whole. What a file was when
it was looked at is told by times alone (`print_when_read`): the answer is the present print where
the file has not changed since, and None, never a guess, where it has.

Guarantees: no text raises; time is linear in the texts, of which a bounded beginning is read; a
source counts as seen no later than at the first look that still matters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final, Protocol

from amend.core.evidence import LINES_MAX, CitedLines
from amend.core.explored import Read
from amend.core.model import CauseKind, EntryName, FilePrint, Fingerprint, Kind, NoPrint, Source

# Issue 5: less than 300 characters.
SUMMARY_CHARS_MAX: Final = 299
KEY_CHARS_MAX: Final = 60

# An entry that rests on more is stale for ever; a search's hits alone may be a thousand.
SOURCES_MAX: Final = 200

# What is cited of one file in more pieces is cited as a whole: each costs up to 4 KB of memory.
RANGES_MAX: Final = 20

# A summary stands at the beginning; a longer one is no summary.
_SUMMARISED_CHARS: Final = 8_000

# As Claude Code cuts what it shows of an answer; paths named further on are not looked for.
_MENTIONS_CHARS: Final = 100_000
_MENTIONS_MAX: Final = 500
_PATH_CHARS_MAX: Final = 1_000

# Asked of git or of a person and no part of what a finding is about.
_KEY_ASKED_CHARS: Final = 300

CANNOT_TELL: Final = NoPrint(CauseKind.NO_BASELINE, "nobody noted when it was read")


# -- the key ---------------------------------------------------------------------------------------

# What tasks begin with, whatever they are about.
_LEADING: Final = frozenset(
    {"a", "about", "all", "an", "analyse", "analyze", "are", "check", "determine", "do", "does"}
    | {"examine", "explain", "explore", "figure", "find", "for", "get", "how", "identify", "in"}
    | {"into", "inspect", "investigate", "is", "learn", "list", "locate", "look", "map", "me"}
    | {"of", "on", "out", "please", "read", "research", "review", "scout", "search", "show"}
    | {"study", "survey", "tell", "the", "this", "to", "trace", "understand", "what", "where"}
    | {"which", "why"}
)
_NO_WORD: Final = re.compile(r"[\W_]+")
_NAMELESS: Final = "exploration"


def key_for(task: str, is_taken: Callable[[str], bool]) -> str:
    """A kebab-case key that says what the task is about, and that is not taken."""
    base = slug(task)
    key, count = base, 1
    while is_taken(key):
        count += 1
        key = f"{base[: KEY_CHARS_MAX - len(str(count)) - 1].rstrip('-')}-{count}"
    return key


def slug(task: str) -> str:
    """The task's words in kebab-case, without those that any task begins with."""
    folded = unicodedata.normalize("NFKC", task[:_KEY_ASKED_CHARS]).casefold()
    words = [word for word in _NO_WORD.split(folded) if word]
    at = next((n for n, word in enumerate(words) if word not in _LEADING), 0)
    text = ""
    for word in words[at:]:
        longer = f"{text}-{word}" if text else word
        if len(longer) > KEY_CHARS_MAX:
            break
        text = longer
    text = text or "".join(words[at : at + 1])[:KEY_CHARS_MAX]
    return text if text.isprintable() and text else _NAMELESS


class Ranked(Protocol):
    """An entry that a question may be about; see `core.matching`."""

    @property
    def name(self) -> EntryName: ...
    @property
    def is_confident(self) -> bool: ...
    @property
    def is_clear(self) -> bool: ...


def entry_for(task: str, ranked: Sequence[Ranked]) -> EntryName | None:
    """The topic that the finding belongs into, None for one of its own.

    A confident match, or one that is clear and has the very key that the task would get: a task
    that is set anew in other words shall not pile up entries beside the one that went stale.
    """
    for each in ranked[:1]:
        is_its_own = each.is_clear and each.name.key == slug(task)
        if each.name.kind is Kind.TOPIC and (each.is_confident or is_its_own):
            return each.name
    return None


# -- the summary -----------------------------------------------------------------------------------

_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")
_PASSED_OVER: Final = re.compile(r"\s*(?:#{1,6}(?:\s|$)|\||<!--|[-=*_]{3,}\s*$)")
_ITEM: Final = re.compile(r"\s*(?:[-*+•–]|[0-9]{1,3}[.)])\s+")
_QUOTED: Final = re.compile(r"\s*(?:>\s?)+")
_LINK: Final = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,1000}\)")
_EMPHASIS: Final = re.compile(r"(?<![\w/*.])\*{1,3}(?=[^\s*])([^*\n]{1,300})\*{1,3}(?![\w/*])")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。])[\"')\]]?\s+")


def summary_of(answer: str) -> str:
    """The first sentences of the answer as plain text on one line; "" where it says nothing."""
    pieces = _pieces(answer[:_SUMMARISED_CHARS])
    said = [piece for piece in pieces if not piece.endswith(":")] or pieces
    text = ""
    for piece in said:
        for sentence in _SENTENCE_END.split(piece):
            longer = f"{text}{_joint(text)}{sentence}"
            if len(longer) > SUMMARY_CHARS_MAX:
                return text or _cut(longer)
            text = longer
    return text or _cut(_plain(answer[:_SUMMARISED_CHARS]))


def _joint(text: str) -> str:
    if not text:
        return ""
    return " " if text.endswith((".", "!", "?", "…", "。", ":", ";", ",")) else ". "


def _cut(text: str) -> str:
    if len(text) <= SUMMARY_CHARS_MAX:
        return text
    head = text[: SUMMARY_CHARS_MAX - 1]
    return f"{head.rpartition(' ')[0] or head}…"


def _pieces(text: str) -> list[str]:
    """Paragraphs and items of lists, each on one line, without markdown."""
    pieces: list[str] = []
    open_lines: list[str] = []
    is_code = False

    def close() -> None:
        piece = _plain(" ".join(open_lines))
        open_lines.clear()
        if piece:
            pieces.append(piece)

    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
            close()
        elif is_code:
            continue
        elif not line.strip() or _PASSED_OVER.match(line):
            close()
        elif item := _ITEM.match(line):
            close()
            open_lines.append(line[item.end() :])
        else:
            open_lines.append(_QUOTED.sub("", line, count=1))
    close()
    return pieces


def _plain(text: str) -> str:
    """On one line, without marks of markdown and without what controls a screen."""
    text = _EMPHASIS.sub(r"\1", _LINK.sub(r"\1", text)).replace("`", "")
    shown = (" " if unicodedata.category(c) in _UNSHOWN else c for c in text)
    return " ".join("".join(shown).split())


_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


# -- paths that an answer names --------------------------------------------------------------------

_BETWEEN: Final = re.compile(r"[\s`'\"<>|,;{}*]+|\]\(")
_PLACE_IN_FILE: Final = re.compile(
    r"(?::[0-9]{1,9}(?:[:-][0-9]{1,9})?:?|#L[0-9]{1,9}(?:-L?[0-9]{1,9})?)$"
)
_EXTENSION: Final = re.compile(r"\w\.[A-Za-z0-9_]{1,12}")


def mentioned(answer: str) -> tuple[str, ...]:
    """What the answer names and could be paths of files, each once. Most of it may not exist."""
    found: dict[str, None] = {}
    for token in _BETWEEN.split(answer[:_MENTIONS_CHARS]):
        path = _trimmed(token)
        if _may_name_file(path):
            found[path] = None
            if len(found) == _MENTIONS_MAX:
                break
    return tuple(found)


def _may_name_file(path: str) -> bool:
    if not 2 < len(path) <= _PATH_CHARS_MAX or "://" in path or path.endswith("/"):
        return False
    return "/" in path or _EXTENSION.fullmatch(path[path.rfind(".") - 1 :]) is not None


def _trimmed(token: str) -> str:
    """Without what a sentence puts around a path."""
    for _ in range(3):
        token = token.rstrip(".:!?…")
        if token[:1] + token[-1:] in ("()", "[]"):
            token = token[1:-1]
        for opening, closing in ("()", "[]"):
            if token.count(opening) < token.count(closing):
                token = token.removesuffix(closing)
            elif token.count(opening) > token.count(closing):
                token = token.removeprefix(opening)
    return _PLACE_IN_FILE.sub("", token)


# -- what it rests on ------------------------------------------------------------------------------


class Nearness(IntEnum):
    """How sure it is that the finding rests on it; the first come first."""

    READ = 0
    OPENED = 1  # by a command line
    FOUND = 2  # a line of a search's output
    MENTIONED = 3  # in the answer alone


@dataclass(frozen=True, slots=True)
class Sight:
    """A look at `source`. `through`: the root of the exploration's own worktree that it was looked
    at in, b"" for the source's own."""

    source: Source
    read: Read
    through: bytes = b""
    is_mention: bool = False

    @property
    def nearness(self) -> Nearness:
        if self.is_mention:
            return Nearness.MENTIONED
        if not self.read.is_guess:
            return Nearness.READ
        is_hit = self.read.start is not None and self.read.start == self.read.end
        return Nearness.FOUND if is_hit else Nearness.OPENED

    @property
    def is_whole(self) -> bool:
        return self.read.start is None and self.read.end is None


@dataclass(frozen=True, slots=True)
class Seen:
    """All looks at one source.

    `at`: nothing of it may have changed since. `ranges`: the lines that were looked at, counted
    from 1, an end None for the file's; () for all of them. `throughs`: see `Sight.through`.
    """

    source: Source
    at: datetime | None
    ranges: tuple[tuple[int, int | None], ...]
    nearness: Nearness
    throughs: frozenset[bytes]


def seen_in(sights: Iterable[Sight], began_at: datetime | None) -> list[Seen]:
    """One for each source, at most `SOURCES_MAX`, what was read before what was mentioned.

    A look without a time counts as at the beginning.
    """
    by_source: dict[Source, list[Sight]] = {}
    for sight in sights:
        by_source.setdefault(sight.source, []).append(sight)
    seen = [_seen(source, looks, began_at) for source, looks in by_source.items()]
    return sorted(seen, key=lambda each: each.nearness)[:SOURCES_MAX]


def _seen(source: Source, sights: Sequence[Sight], began_at: datetime | None) -> Seen:
    nearness = min(sight.nearness for sight in sights)
    if nearness < Nearness.MENTIONED:
        # A file that was looked into and is named besides: the naming says nothing more.
        sights = [sight for sight in sights if not sight.is_mention]
    moments = [(sight.read.at or began_at, sight) for sight in sights]
    whole = [at for at, sight in moments if sight.is_whole]
    if whole:
        # The last look at all of it is what the answer was written by.
        at = None if None in whole else max(each for each in whole if each is not None)
    else:
        times = [at for at, _ in moments]
        at = None if None in times else min(each for each in times if each is not None)
    ranges: tuple[tuple[int, int | None], ...] = ()
    if not whole:
        ranges = tuple(dict.fromkeys((s.read.start or 1, s.read.end) for s in sights))
    return Seen(source, at, ranges, nearness, frozenset(s.through for s in sights))


def print_when_read(now: Fingerprint, changed_ns: int, read_ns: int | None) -> Fingerprint | None:
    """What a file was when it was read; None where it has changed since.

    `now` and `changed_ns` (its ctime) are of one look; `read_ns`: no later than the reading. Both
    by this machine's clock.
    """
    if isinstance(now, NoPrint):
        return now
    if read_ns is None:
        return CANNOT_TELL
    return now if isinstance(now, FilePrint) and changed_ns < read_ns else None


def cited_lines(ranges: Iterable[tuple[int, int | None]], count: int) -> tuple[CitedLines, ...]:
    """The lines of a file of `count` that stand for what was looked at of it.

    () where nothing less than the whole file does: all of it was looked at, or more than can be
    found again, or lines that it does not have.
    """
    cited: list[CitedLines] = []
    for start, end in sorted((start, count if end is None else end) for start, end in ranges):
        last = min(end, count)
        if start > last:
            return ()
        # What touches is one: a line that comes in between is between two that were read.
        if cited and start <= cited[-1].end + 1:
            cited[-1] = CitedLines(cited[-1].start, max(cited[-1].end, last))
        else:
            cited.append(CitedLines(start, last))
    if len(cited) > RANGES_MAX or any(c.end - c.start >= LINES_MAX for c in cited):
        return ()
    is_whole = len(cited) == 1 and (cited[0].start, cited[0].end) == (1, count)
    return () if is_whole else tuple(cited)


# -- worktrees of explorations ---------------------------------------------------------------------

# Claude Code makes one for a subagent on request and removes it with the subagent.
_AGENTS_WORKTREE: Final = re.compile(rb"/\.claude/worktrees/agent-[^/]+(?=/|\Z)")


def own_path(path: bytes) -> tuple[bytes, bytes]:
    """The absolute path in the repository itself, and the root of the exploration's own worktree
    that it was in, b"" for none."""
    ends = [found.end() for found in _AGENTS_WORKTREE.finditer(path)]
    return (_AGENTS_WORKTREE.sub(b"", path), path[: ends[-1]]) if ends else (path, b"")
