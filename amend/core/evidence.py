"""Remember cited lines by their content; find them again when the text around them changed.

What is remembered (`Remembered`): the lines' exact bytes; a digest of everything above and of
everything below them; on either side the nearest lines that are one of a kind in the text (their
*neighbour*); a digest of the block they stand in; and how often the same lines stand in such a
block, and anywhere in the text.

They stand, in place or moved, only where the bytes are the same, the block is the same, and the
place is certain. It is certain in three ways:

1. everything above is as it was, and they come next;
2. everything below is as it was, and they come just before it;
3. a neighbour that was one of a kind, and still is, touches them as it did; or both neighbours
   are there in their order, and the lines stand between them once.

Where two readings are possible they do not stand. So also when fewer identical lines are left in
such a block than there were (for 3: in the whole text): nobody can tell which of them went.

Guarantees: no lines are said to stand where one byte of them is missing, blanks and carriage
returns included, or where their block (see `nesting`) is another one. A text that is only to be
had by an edit of the cited lines does not have them standing; lines taken out and put back beside
a neighbour do. Time is linear in the text.

Does not see what changed beside the lines, as a `return` above them: `drift` says that something
did.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from amend.core.nesting import Text, digest

# Source files that people and agents cite lines of are below 1 MiB; what is larger is generated,
# and searching 4 MiB took 0.2 to 0.4 s on two busy cores.
TEXT_BYTES_MAX: Final = 4 << 20

# Five screens: whoever cites more means the file, and a cause carries the lines.
LINES_MAX: Final = 200
LINES_BYTES_MAX: Final = 16 << 10

# The more lines a neighbour has, the more edits nearby take it away. 8 lines that stand twice are
# a copied block, and then the next ones are likely copied too.
NEIGHBOUR_LINES_MAX: Final = 8
NEIGHBOUR_BYTES_MAX: Final = 2 << 10

# Lines that stand more often (`}` in a large file) are evidence of nothing.
TWINS_MAX: Final = 1000

# Where nothing tells what became of the lines, this many around their old place are compared.
NEAR_LINES_MAX: Final = 1000

# Of one line that a cause shows; a minified file is one line.
SHOWN_BYTES_MAX: Final = 500

_WORDS: Final = re.compile(rb"\w+")

WHY_BLOCK: Final = "the lines are as they were, but what they stand in is not"
WHY_UNSURE: Final = "the same lines stand there, but which of them were meant cannot be told"
WHY_TOO_LARGE: Final = "the file is now too large to find them in"


@dataclass(frozen=True, slots=True)
class CitedLines:
    """Lines `start` to `end`, counted from 1, both included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CitedQuote:
    """The lines that hold `text`, which begins and ends anywhere in a line."""

    text: str


Cited = CitedLines | CitedQuote
"""What an author wrote: `{line}` is `CitedLines(line, line)`."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """All of the text on one side of the cited lines: how many bytes, and their digest."""

    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Remembered:
    """Cited lines as they were when the version was recorded. At most 24 KiB in all.

    `lines` have no line ends. `before` and `after` are whole lines with their ends, b"" where no
    few lines on that side are one of a kind.
    """

    start: int  # counted from 1
    lines: tuple[bytes, ...]
    above: Stretch
    below: Stretch
    before: bytes
    after: bytes
    block: bytes
    twins: int  # how many times the lines stood in such a block, these included
    copies: int  # and in the whole text


class StandingKind(StrEnum):
    UNCHANGED = "unchanged"
    MOVED = "moved"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of cited lines.

    Lines `start` to `end` of the new text, counted from 1, are where they stand, or where what is
    nearest to them does; both 0 when nothing is. `nearest`: those lines when they do not stand, at
    most as many as were cited, each cut at `SHOWN_BYTES_MAX`. `why` says in words what differs
    when the lines do not.
    """

    kind: StandingKind
    start: int = 0
    end: int = 0
    nearest: tuple[bytes, ...] = ()
    why: str = ""

    @property
    def stands(self) -> bool:
        return self.kind in (StandingKind.UNCHANGED, StandingKind.MOVED)


def remember(data: bytes, cited: Cited) -> Remembered:
    """The lines of `data` that `cited` names. Raises `ValueError` with the broken rule when it
    names none, more than one place, or what could not be found again."""
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"is in a file of more than {TEXT_BYTES_MAX} bytes")
    text = Text(data)
    first, end = _named(text, cited)
    lines = tuple(text.lines[first:end])
    run = _run(lines)
    if len(lines) > LINES_MAX or len(run) > LINES_BYTES_MAX:
        raise ValueError(f"names more than {LINES_MAX} lines or {LINES_BYTES_MAX} bytes")
    if not run.strip():
        raise ValueError("names blank lines only")
    places = list(islice(text.places(run), TWINS_MAX + 1))
    if len(places) > TWINS_MAX:
        raise ValueError(f"names lines that stand in the file more than {TWINS_MAX} times")
    block = text.block(first, lines)
    before, after = text.lines[:first], text.lines[end:]
    return Remembered(
        start=first + 1,
        lines=lines,
        above=_stretch(_run(before)),
        below=_stretch(_run(after)),
        before=_neighbour(text, [before[-n:] for n in range(1, NEIGHBOUR_LINES_MAX + 1)]),
        after=_neighbour(text, [after[:n] for n in range(1, NEIGHBOUR_LINES_MAX + 1)]),
        block=block,
        twins=sum(text.block(text.line_at(place), lines) == block for place in places),
        copies=len(places),
    )


def standing(remembered: Remembered, data: bytes) -> Standing:
    """What became of the remembered lines in `data`, the file's present bytes."""
    if len(data) > TEXT_BYTES_MAX:
        return Standing(StandingKind.CHANGED, why=WHY_TOO_LARGE)
    text = Text(data)
    place = _certain_place(remembered, text)
    if place is None:
        return _nearest(remembered, text)
    start = text.line_at(place) + 1
    kind = StandingKind.UNCHANGED if start == remembered.start else StandingKind.MOVED
    return Standing(kind, start, start + len(remembered.lines) - 1)


def to_json(remembered: Remembered) -> dict[str, Any]:
    """A JSON object of texts and numbers; each byte is the character of its number, so that any
    bytes make a valid text."""
    return {
        "start": remembered.start,
        "lines": [line.decode("latin-1") for line in remembered.lines],
        "above": [remembered.above.size, remembered.above.digest.hex()],
        "below": [remembered.below.size, remembered.below.digest.hex()],
        "before": remembered.before.decode("latin-1"),
        "after": remembered.after.decode("latin-1"),
        "block": remembered.block.hex(),
        "twins": remembered.twins,
        "copies": remembered.copies,
    }


def from_json(value: Any) -> Remembered:
    """The inverse of `to_json`. Raises `ValueError` for anything that `to_json` does not give."""
    try:
        remembered = Remembered(
            start=value["start"],
            lines=tuple(line.encode("latin-1") for line in value["lines"]),
            above=Stretch(value["above"][0], bytes.fromhex(value["above"][1])),
            below=Stretch(value["below"][0], bytes.fromhex(value["below"][1])),
            before=value["before"].encode("latin-1"),
            after=value["after"].encode("latin-1"),
            block=bytes.fromhex(value["block"]),
            twins=value["twins"],
            copies=value["copies"],
        )
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError("is no remembered evidence") from None
    counts = (remembered.start, remembered.twins, remembered.copies)
    numbers = (*counts, remembered.above.size, remembered.below.size)
    if any(type(number) is not int for number in numbers) or to_json(remembered) != value:
        raise ValueError("is no remembered evidence")
    return remembered


def _named(text: Text, cited: Cited) -> tuple[int, int]:
    """The half-open range of lines, counted from 0."""
    if isinstance(cited, CitedLines):
        if not 1 <= cited.start <= cited.end:
            raise ValueError(f"names lines {cited.start} to {cited.end}, which is no range")
        if cited.end > len(text.lines):
            raise ValueError(f"names line {cited.end} of a file of {len(text.lines)} lines")
        return cited.start - 1, cited.end
    try:
        quote = cited.text.strip("\r\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("quotes what is not in the file") from None
    if not quote.strip():
        raise ValueError("quotes nothing")
    if quote not in text.padded:
        quote = quote.replace(b"\n", b"\r\n")  # JSON says "\n" of a file with any line ends
    spans = set()
    for at in (text.padded.find(quote), text.padded.rfind(quote)):
        if at < 0:
            raise ValueError("quotes what is not in the file")
        spans.add((text.line_at(at) - 1, text.line_at(at + len(quote))))
    if len(spans) > 1:
        raise ValueError("quotes what is in the file more than once")
    return spans.pop()


def _run(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _stretch(data: bytes) -> Stretch:
    return Stretch(len(data), digest(data))


def _neighbour(text: Text, nearest: Sequence[Sequence[bytes]]) -> bytes:
    for lines in nearest:
        run = _run(lines)
        if len(run) > NEIGHBOUR_BYTES_MAX:
            break
        if run.strip() and text.only_place(run) is not None:
            return run
    return b""


def _certain_place(remembered: Remembered, text: Text) -> int | None:
    run = _run(remembered.lines)
    copies = list(islice(text.places(run), TWINS_MAX))
    if not _enough_twins(remembered, text, copies):
        return None
    in_place = _below_all(remembered, text)
    if in_place in copies:
        return in_place  # what makes up the block is above, and as it was
    places = set()
    all_below = _above_all(remembered, text)
    if all_below is not None:
        places.add(all_below - len(run))
    if len(copies) >= remembered.copies:
        places |= _beside_neighbours(remembered, text, len(run))
    certain = [
        place
        for place in places.intersection(copies)
        if text.block(text.line_at(place), remembered.lines) == remembered.block
    ]
    return certain[0] if len(certain) == 1 else None


def _enough_twins(remembered: Remembered, text: Text, copies: Sequence[int]) -> bool:
    if remembered.twins == 1 or len(copies) < remembered.twins:
        return len(copies) >= remembered.twins
    blocks = (text.block(text.line_at(place), remembered.lines) for place in copies)
    return sum(block == remembered.block for block in blocks) >= remembered.twins


def _beside_neighbours(remembered: Remembered, text: Text, size: int) -> set[int]:
    """Where the lines, `size` bytes, touch a neighbour as they did, or are alone between both."""
    places = set()
    before, after = text.only_place(remembered.before), text.only_place(remembered.after)
    behind = None if before is None else before + len(remembered.before)
    if behind is not None:
        places.add(behind)
    if after is not None:
        places.add(after - size)
    if behind is not None and after is not None:
        between = list(islice(text.places(_run(remembered.lines), behind, after), 2))
        if len(between) == 1:
            places.add(between[0])
    return places


def _below_all(remembered: Remembered, text: Text) -> int | None:
    """The place right below everything that was above, if all that is as it was."""
    size = remembered.above.size
    intact = digest(text.padded[1 : 1 + size]) == remembered.above.digest
    return size if intact else None


def _above_all(remembered: Remembered, text: Text) -> int | None:
    """The place right above everything that was below, if all that is as it was."""
    at = len(text.padded) - 1 - remembered.below.size
    intact = at >= 0 and digest(text.padded[at + 1 :]) == remembered.below.digest
    return at if intact and text.padded[at : at + 1] == b"\n" else None


def _nearest(remembered: Remembered, text: Text) -> Standing:
    """What is nearest to lines that do not stand: the same lines in other surroundings, or where
    they were the line that shares the most words with them."""
    lines = remembered.lines
    first, end, sure = _region(remembered, text)
    if sure and first == end:
        return Standing(StandingKind.GONE)
    lines_at = [text.line_at(place) for place in islice(text.places(_run(lines)), TWINS_MAX)]
    if sure:
        lines_at = [at for at in lines_at if first <= at < end]
    if lines_at:
        at = min(lines_at, key=lambda line: abs(line + 1 - remembered.start))
        in_block = text.block(at, lines) == remembered.block
        return _changed(remembered, text, at, WHY_UNSURE if in_block else WHY_BLOCK)

    worded = (n for n, line in enumerate(lines) if _WORDS.search(line))
    offset = next(worded, 0)
    words = set(_WORDS.findall(lines[offset]))
    best, shared = first + offset, 0
    for at in range(first, min(end, first + NEAR_LINES_MAX)):
        found = len(words.intersection(_WORDS.findall(text.lines[at][:SHOWN_BYTES_MAX])))
        if found > shared:
            best, shared = at, found
    if sure or (words and 2 * shared >= len(words)):
        return _changed(remembered, text, max(first, best - offset), "")
    return Standing(StandingKind.GONE)


def _region(remembered: Remembered, text: Text) -> tuple[int, int, bool]:
    """The half-open range of lines to look for what became of the cited ones, and whether it is
    sure to be there."""
    before, after = text.only_place(remembered.before), text.only_place(remembered.after)
    low = _below_all(remembered, text) if before is None else before + len(remembered.before)
    high = _above_all(remembered, text) if after is None else after
    if low is not None and high is not None and low <= high:
        return text.line_at(low), text.line_at(high), True
    if low is not None:
        first = text.line_at(low)
    elif high is not None:
        first = max(0, text.line_at(high) - NEAR_LINES_MAX)
    else:
        first = max(0, remembered.start - NEAR_LINES_MAX // 2)
    return first, min(first + NEAR_LINES_MAX, len(text.lines)), False


def _changed(remembered: Remembered, text: Text, at: int, why: str) -> Standing:
    lines = text.lines[at : at + len(remembered.lines)]
    shown = tuple(line[:SHOWN_BYTES_MAX] for line in lines)
    return Standing(StandingKind.CHANGED, at + 1, at + len(lines), shown, why)
