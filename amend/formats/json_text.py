"""JSON text with positions, so that an edit splices and every other byte stays as it was.

The outer objects are walked by hand, member by member; values inside are decoded by the standard
library's C scanner, and by a tolerant parser only where that one fails over a trailing comma, the
one liberty people take that does no harm. Everything else that is no JSON is an error with its line
and column.

Guarantees: `encode(decode(data)) == data`; bytes outside the spliced spans are unchanged; no input
makes it recurse without bound, hang, or raise anything but `DocumentInvalid`.
"""

import itertools
import json
import json.decoder
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from amend.errors import DocumentInvalid

# A cache of 60,000 findings. Larger files are no agent's memory.
DOCUMENT_BYTES_MAX: Final = 64 << 20

# No finding nests deeper than a response schema; the C scanner itself stops near 1,000.
DEPTH_MAX: Final = 64

BOM: Final = "\ufeff"

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DEPTH_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class RepeatedKeys(dict[str, Any]):
    """A JSON object that names a key twice; the last one counts, as everywhere."""


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


def decode(data: bytes) -> str:
    """Text whose bytes that are no UTF-8 are lone surrogates. A UTF-8 byte order mark stays."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentInvalid(
            f"the document has {len(data)} bytes, at most {DOCUMENT_BYTES_MAX} are read",
            hint="prune it",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentInvalid("the document is UTF-16", hint="save it as UTF-8")
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def walk(text: str, into: frozenset[str] = frozenset()) -> Object:
    """The document's object. Members named in `into` are walked too where they are objects."""
    start = _space(text, 1 if text.startswith(BOM) else 0)
    if text[start : start + 1] != "{":
        _fail(text, start, "an object `{`")
    top = _walk_object(text, start, into)
    rest = _space(text, top.end)
    if rest != len(text):
        _fail(text, rest, "nothing after the object")
    return top


def walk_at(text: str, start: int) -> Object:
    """The object whose `{` is at `start`; its values are decoded."""
    return _walk_object(text, start, frozenset())


def _walk_object(text: str, start: int, into: frozenset[str]) -> Object:
    members = []
    at = _space(text, start + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            _fail(text, at, 'a key in double quotes or "}"')
        key_start = at
        key, key_end = _string(text, at)
        at = _space(text, key_end)
        if text[at : at + 1] != ":":
            _fail(text, at, '":" after the key')
        value_start = _space(text, at + 1)
        value: Any
        if key in into and text[value_start : value_start + 1] == "{":
            value = _walk_object(text, value_start, frozenset())
            value_end = value.end
        else:
            value, value_end = decode_value(text, value_start)
        members.append(Member(key, key_start, key_end, value_start, value_end, value))
        at = _space(text, value_end)
        if text[at : at + 1] == ",":
            at = _space(text, at + 1)
        elif text[at : at + 1] != "}":
            _fail(text, at, '"," or "}"')
    return Object(start, at + 1, tuple(members))


def decode_value(text: str, at: int) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    try:
        value, end = _scan(text, at)
    except (StopIteration, ValueError, RecursionError):
        value, end = _tolerant(text, at, 0)
    if text.count("[", at, end) + text.count("{", at, end) > DEPTH_MAX:
        _check_depth(text, at, end)
    return value, end


def _tolerant(text: str, at: int, depth: int) -> tuple[Any, int]:
    """As the C scanner, but a comma may stand before a closing bracket."""
    if depth > DEPTH_MAX:
        _fail(text, at, f"at most {DEPTH_MAX} levels of nesting")
    opening = text[at : at + 1]
    if opening == "{":
        pairs = []
        at = _space(text, at + 1)
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                _fail(text, at, 'a key in double quotes or "}"')
            key, at = _string(text, at)
            at = _space(text, at)
            if text[at : at + 1] != ":":
                _fail(text, at, '":" after the key')
            value, at = _tolerant(text, _space(text, at + 1), depth + 1)
            pairs.append((key, value))
            at = _separator(text, at, "}")
        return _object(pairs), at + 1
    if opening == "[":
        items = []
        at = _space(text, at + 1)
        while text[at : at + 1] != "]":
            value, at = _tolerant(text, at, depth + 1)
            items.append(value)
            at = _separator(text, at, "]")
        return items, at + 1
    try:
        value, end = _scan(text, at)
        return value, end
    except StopIteration:
        _fail(text, at, "a value")
    except json.JSONDecodeError as error:
        _fail(text, error.pos, "a well-formed value")
    except ValueError:
        _fail(text, at, "a number of sensible length")


def _separator(text: str, at: int, closing: str) -> int:
    at = _space(text, at)
    if text[at : at + 1] == ",":
        return _space(text, at + 1)
    if text[at : at + 1] != closing:
        _fail(text, at, f'"," or "{closing}"')
    return at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else RepeatedKeys(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_scanstring: Final[Any] = vars(json.decoder)["scanstring"]  # public in use, not in the stubs
_decoder: Final[Any] = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
_scan: Final = _decoder.scan_once


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        key, end = _scanstring(text, at + 1, True)
        return key, end
    except json.JSONDecodeError as error:
        _fail(text, error.pos, "a well-formed string")


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
    )


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


def edit_object(
    text: str,
    target: Object,
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
            inside = _first_members(text, target, append) if append else ""
            splices.append((target.start + 1, target.end - 1, inside))
        return splices
    if kept[0] > 0:
        splices.append((members[0].key_start, members[kept[0]].key_start, ""))
    for before, after in itertools.pairwise(kept):
        if after > before + 1:
            splices.append((members[before].value_end, members[after - 1].value_end, ""))
    last = members[kept[-1]]
    if append or kept[-1] < len(members) - 1:
        added = _more_members(text, target, kept[-1], append)
        splices.append((last.value_end, members[-1].value_end, added))
    return splices


def _more_members(text: str, target: Object, at: int, append: Sequence[tuple[str, str]]) -> str:
    member = target.members[at]
    if at > 0:
        between = text[target.members[at - 1].value_end : member.key_start]
        gap = between[between.index(",") + 1 :]
    else:
        gap = text[target.start + 1 : member.key_start] or " "
    colon = text[member.key_end : member.value_start]
    return "".join(f",{gap}{quote(key)}{colon}{value}" for key, value in append)


def _first_members(text: str, target: Object, append: Sequence[tuple[str, str]]) -> str:
    style = style_of(text)
    members = [f"{quote(key)}: {value}" for key, value in append]
    if style.newline is None:
        return ", ".join(members)
    outer = style.newline + line_indent(text, target.start)
    return outer + style.indent + f",{outer}{style.indent}".join(members) + outer


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is laid out. `newline` None: all on one line."""

    newline: str | None
    indent: str


def style_of(text: str) -> Style:
    """From the first line break and what stands before the first member."""
    opening = text.find("{")
    match = re.compile(r"[ \t]*(\r?\n)([ \t]*)").match(text, opening + 1)
    if match is not None and text[match.end() : match.end() + 1] == '"':
        return Style(match[1], match[2] or "  ")
    if opening >= 0 and text[_space(text, opening + 1) :].lstrip().startswith("}"):
        return Style("\r\n" if "\r\n" in text else "\n", "  ")  # an empty object opens properly
    return Style(None, "")


def line_indent(text: str, at: int) -> str:
    """The white space that the line of `at` begins with."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[start:end]


def quote(text: str) -> str:
    """A JSON string; only what must be escaped is, and bytes that are no UTF-8 as `\\udcXX`."""
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isascii():
        return quoted
    return re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", quoted)


def render(value: Any, style: Style, base: str, depth: int = 0) -> str:
    """`value` as text in the document's style: objects open, lists of scalars stay on one line."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{', '.join(render(item, style, base, depth + 1) for item in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value, allow_nan=False)
    members = [
        f"{quote(key)}: {render(item, style, base + style.indent, depth + 1)}"
        for key, item in value.items()
    ]
    if style.newline is None or depth > 0 or not members:
        return "{" + ", ".join(members) + "}"
    inner = style.newline + base + style.indent
    return "{" + inner + f",{inner}".join(members) + style.newline + base + "}"
