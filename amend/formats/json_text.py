"""JSON text with positions, so that an edit splices and every other byte stays as it was.

The outer objects are walked by hand, member by member; values inside are decoded by the standard
library's C scanner. A comma before a closing bracket is the one liberty people take that does no
harm: only where the text is no JSON are those commas read as blanks, all in one pass, and the text
is walked once more. Everything else that is no JSON is an error with its line and column.

Guarantees: `encode(decode(data)) == data`; bytes outside the spliced spans are unchanged; time is
linear in the text; no input makes it recurse without bound, or raise anything but
`DocumentInvalid`.
"""

import itertools
import json
import json.decoder
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from amend.errors import DocumentInvalid

# A cache of 60,000 findings. Larger files are no agent's memory.
DOCUMENT_BYTES_MAX: Final = 64 << 20

# Of one member's value. No finding nests deeper than a response schema; the C scanner itself stops
# near 1,000.
DEPTH_MAX: Final = 64

BOM: Final = "\ufeff"

_BLANKS: Final = r"[\ \t\n\r]*+"
_SPACE: Final = re.compile(_BLANKS)
# What nearly every member begins and ends with, each found in one match.
_KEY: Final = re.compile(rf'"([^"\\\x00-\x1f]*+)"{_BLANKS}:{_BLANKS}')
_COMMA: Final = re.compile(rf"{_BLANKS}(,?){_BLANKS}")

# A string also where it never ends, so that no search starts again inside it: without that, and
# without possessive quantifiers, an unclosed string of escapes costs the square of its length.
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_DEPTH_TOKENS: Final = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
# Everything up to the next trailing comma, and that comma; at last, the rest. A comma that follows
# no value is an error and stays one.
_TO_COMMA: Final = re.compile(
    rf"""(
        (?: [^",\[{{:]++ | {_STRING} | [\[{{:,]{_BLANKS}, | [\[{{:] | ,(?!{_BLANKS}[\]}}]) )*+
    )(,?)""",
    re.DOTALL | re.VERBOSE,
)


class RepeatedKeys(dict[str, Any]):
    """A JSON object that names a key twice; the last one counts, as everywhere."""


class TooLarge(float):
    """A number like 1e999, which JSON allows and no float holds. Cannot be serialised."""


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object, by positions in the text. `value` of a walked object is
    an `Object`."""

    key: str
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Object:
    """An object whose members were walked: `text[start:end]` is `{…}`."""

    start: int
    end: int
    members: tuple[Member, ...]

    def get(self, key: str) -> Member | None:
        """The last member of that key."""
        return next((m for m in reversed(self.members) if m.key == key), None)

    def repeated(self) -> list[str]:
        """The keys that stand here more than once."""
        counts = Counter(member.key for member in self.members)
        return [key for key, count in counts.items() if count > 1]


def decode(data: bytes) -> str:
    """Text whose bytes that are no UTF-8 are lone surrogates. A UTF-8 byte order mark stays."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentInvalid(
            f"the document has {len(data)} bytes, at most {DOCUMENT_BYTES_MAX} are read",
            hint="prune it",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        raise DocumentInvalid("the document is UTF-16 or UTF-32", hint="save it as UTF-8")
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def walk(text: str, into: frozenset[str] = frozenset()) -> Object:
    """The document's object. Members named in `into` are walked too where they are objects."""
    try:
        return _walk_document(text, into)
    except DocumentInvalid:
        blanked = _without_trailing_commas(text)
        if blanked == text:
            raise
    return _walk_document(blanked, into)


def _without_trailing_commas(text: str) -> str:
    """The text with a blank for each, so that every position stays."""
    parts: list[str] = []
    for match in _TO_COMMA.finditer(text):
        parts += (match[1], match[2] and " ")
    return "".join(parts)


def _walk_document(text: str, into: frozenset[str]) -> Object:
    start = _space(text, 1 if text.startswith(BOM) else 0)
    if text[start : start + 1] != "{":
        _fail(text, start, "an object `{`")
    top = _walk_object(text, start, into)
    rest = _space(text, top.end)
    if rest != len(text):
        _fail(text, rest, "nothing after the object")
    return top


def _walk_object(text: str, start: int, into: frozenset[str]) -> Object:
    members = []
    at = _space(text, start + 1)
    while text[at : at + 1] != "}":
        match = _KEY.match(text, at)
        if match is not None:
            key, key_end, value_start = match[1], match.end(1) + 1, match.end()
        else:
            key, key_end, value_start = _key(text, at)
        value: Any
        if key in into and text[value_start : value_start + 1] == "{":
            value = _walk_object(text, value_start, frozenset())
            value_end = value.end
        else:
            value, value_end = _decode_value(text, value_start)
        members.append(Member(key, at, key_end, value_start, value_end, value))
        comma = _COMMA.match(text, value_end)
        assert comma is not None
        at = comma.end()
        if not comma[1] and text[at : at + 1] != "}":
            _fail(text, at, '"," or "}"')
    return Object(start, at + 1, tuple(members))


def _key(text: str, at: int) -> tuple[str, int, int]:
    """The key at `at`, where it ends, and where its value starts."""
    if text[at : at + 1] != '"':
        _fail(text, at, 'a key in double quotes or "}"')
    key, key_end = _string(text, at)
    colon = _space(text, key_end)
    if text[colon : colon + 1] != ":":
        _fail(text, colon, '":" after the key')
    return key, key_end, _space(text, colon + 1)


def _decode_value(text: str, at: int) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    try:
        value, end = _scan(text, at)
    except StopIteration as stop:
        where = stop.value if isinstance(stop.value, int) else at
        _fail(text, where, "a value")
    except json.JSONDecodeError as error:
        _fail(text, error.pos, _EXPECTED.get(error.msg, "a well-formed value"))
    except RecursionError:
        _check_depth(text, at, len(text))
        _fail(text, at, f"at most {DEPTH_MAX} levels of nesting")
    except ValueError as error:
        _fail(text, at, f"a value with numbers that can be read ({str(error)[:80]})")
    if text.count("[", at, end) + text.count("{", at, end) > DEPTH_MAX:
        _check_depth(text, at, end)
    return value, end


# The scanner's messages, in our words; the rest are strings and escapes.
_EXPECTED: Final = {
    "Expecting property name enclosed in double quotes": 'a key in double quotes or "}"',
    "Expecting ':' delimiter": '":" after the key',
    "Expecting ',' delimiter": '"," or a closing bracket',
    "Expecting value": "a value",
    "Unterminated string starting at": "a string that ends",
    "Invalid control character at": "no control character inside a string",
}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else RepeatedKeys(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else TooLarge(value)


_scanstring: Final[Any] = vars(json.decoder)["scanstring"]  # public in use, not in the stubs
_decoder: Final[Any] = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_constant=_no_constant
)
_scan: Final = _decoder.scan_once


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        key, end = _scanstring(text, at + 1, True)
        return key, end
    except json.JSONDecodeError as error:
        _fail(text, error.pos, _EXPECTED.get(error.msg, "a well-formed string"))


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _check_depth(text: str, at: int, end: int) -> None:
    depth = 0
    for token in _DEPTH_TOKENS.finditer(text, at, end):
        if token[0] in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                _fail(text, token.start(), f"at most {DEPTH_MAX} levels of nesting")
        elif token[0] in "]}":
            depth -= 1


def _fail(text: str, at: int, expected: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    found = "the end" if at >= len(text) else ascii(text[at])
    raise DocumentInvalid(
        f"line {line}, column {column}: found {found}, expected {expected}",
        hint="mend the JSON; nothing was changed",
    ) from None


# -- edits -------------------------------------------------------------------------------------


Splice = tuple[int, int, str]
"""Replace `text[start:end]` by the third."""


def splice(text: str, splices: Sequence[Splice]) -> str:
    """`text` with all of them applied; they must not overlap."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(splices):
        assert start >= at, "splices overlap"
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is laid out. `newline` None: all on one line."""

    newline: str | None
    indent: str
    colon: str = ": "

    @property
    def comma(self) -> str:
        return "," if self.colon == ":" else ", "

    @property
    def on_one_line(self) -> "Style":
        return Style(None, "", self.colon)


def style_of(text: str, target: Object) -> Style:
    """From what stands around the first member. An empty object opens in the text's line ends."""
    if not target.members:
        return Style("\r\n" if "\r\n" in text else "\n", "  ")
    first = target.members[0]
    colon = text[first.key_end : first.value_start]
    colon = colon if colon in (":", ": ", " : ") else ": "
    before = text[target.start + 1 : first.key_start]
    if "\n" not in before:
        return Style(None, "", colon)
    indent = before[before.rindex("\n") + 1 :]
    return Style("\r\n" if "\r\n" in before else "\n", indent or "  ", colon)


def edit_object(
    text: str,
    target: Object,
    style: Style,
    *,
    replace: Mapping[int, str],
    remove: frozenset[int],
    append: Sequence[tuple[str, str]],
) -> list[Splice]:
    """The splices that replace values and remove members by index, and append `(key, value)` texts.

    Appended members take over the separators of the object's last one; its trailing comma, if it
    has one, stays a trailing comma. An object left empty becomes `{}`.
    """
    members = target.members
    splices = [
        (members[i].value_start, members[i].value_end, new)
        for i, new in replace.items()
        if i not in remove
    ]
    kept = [i for i in range(len(members)) if i not in remove]
    if not kept:
        if remove or append:
            inside = _first_members(text, target, style, append) if append else ""
            splices.append((target.start + 1, target.end - 1, inside))
        return splices
    if kept[0] > 0:
        splices.append((members[0].key_start, members[kept[0]].key_start, ""))
    for before, after in itertools.pairwise(kept):
        if after > before + 1:
            splices.append((members[before].value_end, members[after - 1].value_end, ""))
    last = members[kept[-1]]
    if append or kept[-1] < len(members) - 1:
        added = _more_members(text, target, style, kept[-1], append)
        splices.append((last.value_end, members[-1].value_end, added))
    return splices


def _more_members(
    text: str, target: Object, style: Style, at: int, append: Sequence[tuple[str, str]]
) -> str:
    member = target.members[at]
    if at > 0:
        between = text[target.members[at - 1].value_end : member.key_start]
        gap = between[between.index(",") + 1 :]
    else:
        gap = text[target.start + 1 : member.key_start] or style.comma[1:]
    colon = text[member.key_end : member.value_start]
    return "".join(f",{gap}{quote(key)}{colon}{value}" for key, value in append)


def _first_members(
    text: str, target: Object, style: Style, append: Sequence[tuple[str, str]]
) -> str:
    members = [f"{quote(key)}{style.colon}{value}" for key, value in append]
    if style.newline is None:
        return style.comma.join(members)
    outer = style.newline + line_indent(text, target.start)
    return outer + style.indent + f",{outer}{style.indent}".join(members) + outer


def line_indent(text: str, at: int) -> str:
    """The white space that the line of `at` begins with."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[start:end]


def quote(text: str) -> str:
    """A JSON string; only what must be escaped is, and bytes that are no UTF-8 as `\\udcXX`."""
    return escape_surrogates(json.dumps(text, ensure_ascii=False))


def escape_surrogates(text: str) -> str:
    """JSON text whose lone surrogates are escapes, so that it can be encoded."""
    if text.isascii():
        return text
    return re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", text)


def render(value: Any, style: Style, base: str = "") -> str:
    """`value` as text in the document's style, on a line indented by `base`. An object opens where
    the document has lines; what is inside of it stays on one line each."""
    if isinstance(value, dict):
        members = [f"{quote(k)}{style.colon}{_one_line(v, style)}" for k, v in value.items()]
        return render_members(members, style, base)
    return _one_line(value, style)


def render_members(members: Sequence[str], style: Style, base: str) -> str:
    """An object of these `"key": value` texts, its `{` on a line indented by `base`."""
    if style.newline is None or not members:
        return "{" + style.comma.join(members) + "}"
    inner = style.newline + base + style.indent
    return "{" + inner + f",{inner}".join(members) + style.newline + base + "}"


def _one_line(value: Any, style: Style) -> str:
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(style.comma, style.colon)
    )
    return escape_surrogates(text)
