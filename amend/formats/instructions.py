"""The block in CLAUDE.md and AGENTS.md that tells agents without hooks how to use the memory.

It stands between two sentinel comments, each alone on its line. Guarantees: everything outside the
sentinels keeps its bytes; adding it twice is adding it once; added and taken out again, the file is
what it was, also without a final newline, with CRLF or with a byte order mark. A file whose
sentinels are not one pair in order is left alone.

How a file without a final newline is told from one with: the block ends as the file did.

Source: the AMEN protocol (seeds/amen.txt): ask first, skip what is stale, store what was found.
"""

import re
from dataclasses import dataclass
from typing import Final

from amend.errors import DocumentInvalid

BEGIN: Final = "<!-- amend:begin -->"
END: Final = "<!-- amend:end -->"

# Under 250 tokens (a test counts): every session of every agent pays for it.
BLOCK: Final = f"""{BEGIN}
## What is already known about this code

Findings are kept in `.agent-cache.json`, each with the files it rests on.

- Before exploring, look there for the key that fits: `amend ask "how does login work"` or \
`amend get KEY`; without the `amend` command, read that key under `topics` or `patterns`.
- An entry with a `stale` mark, or a `ts` older than `_meta.maxAgeDays` days, counts as missing: \
explore, then replace it.
- After exploring, store what was found at once, with the files it rests on: \
`amend put KEY --summary "TEXT" FILES`, or in the file: \
`"topics": {{"KEY": {{"ts": "2026-01-31T12:00:00Z", "summary": "TEXT", "files": ["src/a.py"]}}}}`.
- A summary is plain text under 300 characters: no code, no secrets.
{END}"""

_BOM: Final = rb"\xef\xbb\xbf"


def _sentinel(words: str) -> re.Pattern[bytes]:
    """Alone on its line, as Markdown has an HTML comment: at most three spaces before it."""
    text = re.escape(words.encode())
    return re.compile(rb"(?m)^(?:\A%s)?(?P<text> {0,3}%s[ \t]*)(?P<ending>\r*\n|\Z)" % (_BOM, text))


_BEGIN: Final = _sentinel(BEGIN)
_END: Final = _sentinel(END)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a block is: from `start` to before the line ending at `end`. `ending`: its lines'."""

    start: int
    end: int
    ending: bytes


def with_block(data: bytes) -> bytes:
    """The file with the block of today: in the place of an older one, else at the end.

    Raises `DocumentInvalid` where the file is to be left alone.
    """
    found = _found(data)
    if found is not None:
        return data[: found.start] + _text(found.ending) + data[found.end :]
    ending = _majority_ending(data)
    if not data:
        return _text(ending) + ending
    if data.endswith(b"\n"):
        return data + ending + _text(ending) + ending
    return data + ending + ending + _text(ending)


def without_block(data: bytes) -> bytes:
    """The file without it, and without the empty line above it. Raises as `with_block`."""
    found = _found(data)
    if found is None:
        return data
    before, after = data[: found.start], data[found.end :]
    if not after:
        return before.removesuffix(found.ending * 2)
    shorter = before.removesuffix(found.ending)
    if not shorter or shorter.endswith(b"\n"):
        before = shorter
    return before + after[after.index(b"\n") + 1 :]


def has_block(data: bytes) -> bool:
    """Whether there is one, of today or older. Raises as `with_block`."""
    return _found(data) is not None


def _found(data: bytes) -> _Found | None:
    if (nul := data.find(0)) >= 0:
        raise DocumentInvalid(
            f"holds NUL (byte {nul + 1}), must be text in UTF-8",
            hint="convert it with iconv; nothing was changed",
        )
    begins, ends = list(_BEGIN.finditer(data)), list(_END.finditer(data))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0].start() > ends[0].start():
        raise DocumentInvalid(
            f"holds {len(begins)} {BEGIN} and {len(ends)} {END},"
            " must hold one of each, in this order",
            hint="take out by hand what is left of amend's block; nothing was changed",
        )
    return _Found(begins[0].start("text"), ends[0].end("text"), begins[0]["ending"])


def _text(ending: bytes) -> bytes:
    return BLOCK.encode().replace(b"\n", ending)


def _majority_ending(data: bytes) -> bytes:
    return b"\r\n" if 2 * data.count(b"\r\n") > data.count(b"\n") else b"\n"
