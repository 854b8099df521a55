"""What a line stands under: a digest of its block, told by indentation and by no grammar.

The block of a line is every line above that it is indented under (its function, its class, the
conditions between), each with what belongs to it: the decorators above, the `if` of an `else`, the
rest of a signature that fills several lines. Further a `[section]` line, and whatever block
comment, long string or `#if` is open there. Comments and blank lines are no part of it, nor are
the statements beside the line.

Guarantees: a block's digest depends on nothing below the line; time is linear in the text. Being
no grammar it errs, but for the same lines in the same way.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Final

# A signature or a chain of branches that goes on for longer is cut; a guess.
STATEMENT_LINES_MAX: Final = 100

_TAB_COLUMNS: Final = 8  # as Python's own tokenizer counts, when tabs and spaces are mixed

# A line that goes on with what stands above it at the same indentation.
_GOES_ON: Final = re.compile(
    rb"\s*(?:[)\]}]|(?:else|elif|elsif|elseif|except|catch|finally|rescue|ensure)\b"
    rb"|(?:then|do)\s*$|(?:public|private|protected)\s*:)"
)
_ENDS_LIST: Final = re.compile(rb"\s*[)\]]")
_DECORATES: Final = re.compile(rb"\s*(?:@[\w.]+\s*(?:\(|$)|#!?\[|\[.*\]\s*$)")
# Not `#[…]`, an attribute, nor `#main {`, a style's selector.
_COMMENT: Final = re.compile(rb"\s*(?:#(?!!?\[|.*\{\s*$)|//|/\*|\*|--|<!--|;)")
_SECTION: Final = re.compile(rb"\[{1,2}[^\w\[\]]*+\w[^\[\]]*+\]{1,2}\s*+")

# Quoted text is passed over: a bracket in it opens nothing. A quote that does not end after 200
# characters begins none, which also keeps the search linear.
_BRACKETS: Final = re.compile(rb"\"(?:\\.|[^\"\\]){0,200}+\"|'(?:\\.|[^'\\]){0,200}+'|[()\[\]{}]")

# `/*` counts at the start of a word only, because `src/*.ts` is a path; `# if` is more often a
# comment than a condition.
_FENCES: Final = re.compile(
    rb"/\*(?<![^\s;,(){]/\*)|\*/|<!--(?<![^\s;,(){]<!--)|-->|\"\"\"|'''"
    rb"|#(?:if|ifdef|ifndef|elif|else|endif)\b"
)


def digest(data: bytes) -> bytes:
    """16 bytes: enough against chance, and nobody gains by a collision in a file of their own."""
    return blake2b(data, digest_size=16).digest()


class Text:
    """A text as lines, and what each of them stands under.

    A *place* is before a line: the offset, in `padded`, of the line end before it. Lines are
    counted from 0 here. The last one needs no end.
    """

    __slots__ = ("_nesting", "_places", "lines", "padded")

    def __init__(self, data: bytes) -> None:
        self.padded = b"\n" + data
        if not self.padded.endswith(b"\n"):
            self.padded += b"\n"
        self.lines = self.padded[1:].split(b"\n")[:-1]
        self._places = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self._nesting: _Nesting | None = None

    def line_at(self, place: int) -> int:
        return bisect_left(self._places, place)

    def places(self, run: bytes, low: int = 0, high: int | None = None) -> Iterator[int]:
        """Where `run`, whole lines, stands from the place `low` to `high`."""
        end = len(self.padded) if high is None else high + 1
        at = self.padded.find(b"\n" + run, low, end)
        while at >= 0:
            yield at
            at = self.padded.find(b"\n" + run, at + 1, end)

    def only_place(self, run: bytes) -> int | None:
        """Where `run` stands, if it is one of a kind; None for b""."""
        found = list(islice(self.places(run), 2)) if run else []
        return found[0] if len(found) == 1 else None

    def block(self, at: int, lines: Sequence[bytes]) -> bytes:
        """A digest of what `lines`, which stand at line `at`, stand under."""
        if self._nesting is None:
            self._nesting = _Nesting(self.lines)
        filled = next((n for n, line in enumerate(lines) if line.strip()), 0)
        return self._nesting.block(at + filled)


class _Nesting:
    """The blocks of a text's lines. Lines have no line ends and are counted from 0.

    `_parents`: the nearest line above that is indented less; `_siblings`: the nearest that is
    indented as much, where it comes first; -1 for none. Blank lines and comments are neither.
    """

    __slots__ = ("_ends", "_fences", "_lines", "_parents", "_siblings", "_silent", "_under")

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._fences = _fences(lines)
        self._parents: list[int] = []
        self._siblings: list[int] = []
        self._silent = bytearray(len(lines))
        self._ends: dict[int, int] = {}
        self._under: dict[tuple[int, bool], bytes] = {}
        above: list[int] = []
        columns: list[int] = []  # strictly rising, parallel to `above`
        for at, line in enumerate(lines):
            column = _column(line)
            depth = bisect_left(columns, column)
            beside = depth < len(columns) and columns[depth] == column
            self._parents.append(above[depth - 1] if depth else -1)
            self._siblings.append(above[depth] if beside else -1)
            if not line or line.isspace() or _COMMENT.match(line):
                self._silent[at] = True
                continue
            above[depth:] = [at]
            columns[depth:] = [column]

    def block(self, at: int) -> bytes:
        """A digest, equal for two lines when they stand under the same lines."""
        return digest(self._fences[at] + self._chain(at) + self._beginning(at))

    def _chain(self, at: int) -> bytes:
        """A digest of the statements that line `at` is indented under."""
        path = []
        chain = b""
        while (parent := self._parents[at]) >= 0:
            whole = self._statement_end(parent) <= at  # else `at` is an item in its brackets
            if (parent, whole) in self._under:
                chain = self._under[parent, whole]
                break
            path.append((parent, whole))
            at = parent
        for parent, whole in reversed(path):
            end = self._statement_end(parent) if whole else parent + 1
            own = self._joined(range(parent, end))
            chain = self._under[parent, whole] = digest(chain + self._beginning(parent) + own)
        return chain

    def _beginning(self, at: int) -> bytes:
        """A digest of the lines above line `at` that belong to its statement."""
        taken: list[int] = []
        for _ in range(STATEMENT_LINES_MAX):
            up = self._siblings[at]
            if up < 0:
                break
            end = min(self._statement_end(up), at)
            if not self._goes_on(at, end - 1) and not self._decorates(up):
                break
            if _ENDS_LIST.match(self._lines[at]) and at - up <= STATEMENT_LINES_MAX:
                end = at
            taken.extend(range(up, end))
            at = up
        return digest(self._joined(taken))

    def _goes_on(self, at: int, before: int) -> bool:
        line = self._lines[at]
        if line.lstrip().startswith(b"{"):  # alone below its signature, or an item of a list
            return self._lines[before].rstrip()[-1:] not in b",;{}(["
        return _GOES_ON.match(line) is not None

    def _decorates(self, at: int) -> bool:
        opener = self._siblings[at]
        if opener >= 0 and _ENDS_LIST.match(self._lines[at]):
            at = opener
        return _DECORATES.match(self._lines[at]) is not None

    def _statement_end(self, at: int) -> int:
        """Behind the line where the round and square brackets close that are open at the end of
        line `at`; behind `at` itself when none is, or when that is far off."""
        if at not in self._ends:
            self._ends[at] = at + 1
            brackets: list[bytes] = []
            for below in range(at, min(at + STATEMENT_LINES_MAX, len(self._lines))):
                for token in _BRACKETS.findall(self._lines[below]):
                    if token in b"([{":
                        brackets.append(token)
                    elif token in b")]}" and brackets:
                        brackets.pop()
                if not brackets or brackets[-1] == b"{":
                    self._ends[at] = below + 1
                    break
        return self._ends[at]

    def _joined(self, numbers: Iterable[int]) -> bytes:
        return b"\n".join(self._lines[at] for at in numbers if not self._silent[at])


def _column(line: bytes) -> int:
    """How far the line is indented; -1 for a `[section]`, so that all lines are under it."""
    indentation = line[: len(line) - len(line.lstrip(b" \t"))]
    if not indentation:
        return -1 if _SECTION.fullmatch(line) else 0
    return len(indentation.expandtabs(_TAB_COLUMNS) if b"\t" in indentation else indentation)


def _fences(lines: Sequence[bytes]) -> list[bytes]:
    """For each line what is open where it begins: a block comment, long strings, `#if`s."""
    comment, odd = b"", {b'"""': False, b"'''": False}
    conditions = [b""]  # each a digest of itself and those around it
    states = []
    state = bytes(odd.values())
    for line in lines:
        states.append(state)
        tokens = _FENCES.findall(line)
        for token in tokens:
            if token in odd:
                odd[token] = not odd[token]
            elif not token.startswith(b"#"):
                comment = token if token in (b"/*", b"<!--") else b""
            elif not line.lstrip().startswith(token):
                continue
            elif token.startswith(b"#if"):
                conditions.append(digest(conditions[-1] + line))
            elif len(conditions) > 1:
                inner = conditions.pop()
                if token != b"#endif":
                    conditions.append(digest(inner + line))
        if tokens:
            state = comment + bytes(odd.values()) + conditions[-1]
    return states
