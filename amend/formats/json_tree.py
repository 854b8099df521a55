"""JSON a person wrote, comments and all, as a tree of positions that is edited in place.

`json_text` reads flat documents fast; this reads small deep ones whole. What is JSON is decided
there: comments are blanked first, so that every position stays, and a text that `json_text` takes
is walked again here, where nothing can be wrong with it any more.

`insertions` and `removals` are inverse to each other, which is what lets one program come and go
in a file of somebody else's:

* A member is added behind the last one, after a comment on that one's line, and ends with a comma
  only where the last one did. So the comma that goes with a member is the one behind it, or, where
  there is none, the one before.
* Into an empty container it is put right behind the bracket, and white space there says that the
  container was made for what is in it (`Node.is_opened`).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from amend.formats.json_text import BOM, Object, Splice, Style, line_indent, style_of, walk

# A string also where it never ends, so that no search starts again inside it (as in `json_text`).
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
# What opens with `/*` and never ends is no comment, and then there is no JSON either.
_COMMENT: Final = re.compile(rf"{_STRING}|(//[^\r\n]*+|/\*.*?\*/)|/\*.*+\Z", re.DOTALL)
_TOKEN: Final = re.compile(rf'{_STRING}|[\[\]{{}}:,]|[^\s\[\]{{}}:,"]+')
_NOT_A_LINE_END: Final = re.compile(r"[^\r\n]")
_SPACE: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Child:
    """An item of an array, or a member of an object. `text[start:end]` is it, key and all.
    `comma`: where the comma behind it is."""

    start: int
    end: int
    comma: int | None
    key: str | None
    value: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """A value. `scalar` is the value of what is neither object nor array; `bracket` is what those
    open with."""

    start: int
    end: int
    bracket: str
    children: tuple[Child, ...]
    scalar: Any
    is_opened: bool  # white space stands behind the bracket

    @property
    def is_object(self) -> bool:
        return self.bracket == "{"

    @property
    def is_array(self) -> bool:
        return self.bracket == "["

    def get(self, key: str) -> "Node | None":
        """The value of the last member of that key, which is the one that counts."""
        return next((c.value for c in reversed(self.children) if c.key == key), None)

    def plain(self) -> Any:
        """The value as `json.loads` gives it."""
        if self.is_object:
            return {child.key: child.value.plain() for child in self.children}
        if self.is_array:
            return [child.value.plain() for child in self.children]
        return self.scalar


@dataclass(frozen=True, slots=True)
class Tree:
    """A document. `comments` are their spans, in order."""

    text: str
    top: Node
    comments: tuple[tuple[int, int], ...]
    style: Style

    def has_comment(self, start: int, end: int) -> bool:
        return any(start <= at < end for at, _ in self.comments)


def read_tree(text: str) -> Tree:
    """Raises `DocumentInvalid`, with line and column, for what is no JSON object."""
    comments = tuple(match.span(1) for match in _COMMENT.finditer(text) if match[1] is not None)
    blanked = _blanked(text, comments)
    top = walk(blanked)
    return Tree(text, _Reader(blanked).read(top), comments, style_of(blanked, top))


def is_blank(text: str) -> bool:
    """Whether there is no document at all, not even a comment."""
    return not text.removeprefix(BOM).strip(_SPACE)


def _blanked(text: str, comments: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in comments:
        parts += (text[at:start], _NOT_A_LINE_END.sub(" ", text[start:end]))
        at = end
    return "".join((*parts, text[at:]))


class _Reader:
    """Walks a text that is known to be an object, but for commas before closing brackets."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match.span() for match in _TOKEN.finditer(text)]
        self._next = 0

    def read(self, top: Object) -> Node:
        self._next = next(i for i, (start, _) in enumerate(self._tokens) if start == top.start)
        return self._value()

    def _is(self, character: str) -> bool:
        return self._text[self._tokens[self._next][0]] == character

    def _take(self) -> tuple[int, int]:
        self._next += 1
        return self._tokens[self._next - 1]

    def _value(self) -> Node:
        start, end = self._take()
        bracket = self._text[start]
        if bracket not in "{[":
            return Node(start, end, "", (), json.loads(self._text[start:end], strict=False), False)
        children = []
        while not self._is("}" if bracket == "{" else "]"):
            children.append(self._child(has_key=bracket == "{"))
        is_opened = self._text[start + 1] in _SPACE
        return Node(start, self._take()[1], bracket, tuple(children), None, is_opened)

    def _child(self, *, has_key: bool) -> Child:
        start, end = self._tokens[self._next]
        key = None
        if has_key:
            key = json.loads(self._text[start:end])
            self._next += 2  # and the colon
        value = self._value()
        comma = self._take()[0] if self._is(",") else None
        return Child(start, value.end, comma, key, value)


# -- edits -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Where values are written: on lines of their own that begin with `margin`, or, `None`, all on
    one line."""

    style: Style
    margin: str | None

    @property
    def deeper(self) -> "Layout":
        inner = None if self.margin is None else self.margin + self.style.indent
        return Layout(self.style, inner)

    @property
    def gap(self) -> str:
        """What stands between a comma and the next value."""
        if self.margin is None:
            return self.style.comma[1:]
        return f"{self.style.newline or ''}{self.margin}"

    def container(self, bracket: str, inside: Sequence[str]) -> str:
        """`inside` between brackets, opened by white space, on a line of this layout."""
        if self.margin is None:
            return f"{bracket} {f',{self.gap}'.join(inside)}{_CLOSING[bracket]}"
        inner = self.deeper.gap
        return f"{bracket}{inner}{f',{inner}'.join(inside)}{self.gap}{_CLOSING[bracket]}"

    def value(self, value: Any) -> str:
        if self.margin is None:
            separators = (self.style.comma, self.style.colon)
            return json.dumps(value, ensure_ascii=False, separators=separators)
        text = json.dumps(
            value,
            ensure_ascii=False,
            indent=self.style.indent,
            separators=(",", self.style.colon),
        )
        return text.replace("\n", self.gap)

    def member(self, key: str, text: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}{self.style.colon}{text}"


_CLOSING: Final = {"{": "}", "[": "]"}


def layout_inside(tree: Tree, target: Node, like: Child | None = None) -> Layout:
    """How a child of a container is to be laid out: as the last one is, or the one named."""
    text, style = tree.text, tree.style
    if not target.children:
        margin = line_indent(text, target.start) + style.indent
        return Layout(style, None if style.newline is None else margin)
    last = like or target.children[-1]
    space = text[_space_before(text, last.start) : last.start]
    if "\n" in space:
        newline = "\r\n" if "\r\n" in space else "\n"
        return Layout(_with_newline(style, newline), space[space.rindex("\n") + 1 :])
    is_spread = "\n" in text[target.start : last.start]
    if not is_spread and not tree.has_comment(target.start, target.end):
        return Layout(style, None)
    # A comment may go to the line's end.
    lined = _with_newline(style, style.newline or ("\r\n" if "\r\n" in text else "\n"))
    margin = line_indent(text, last.start) + ("" if is_spread else lined.indent)
    return Layout(lined, margin)


def _with_newline(style: Style, newline: str) -> Style:
    return Style(newline, style.indent or "  ", style.colon)


def insertions(tree: Tree, target: Node, texts: Sequence[str], layout: Layout) -> list[Splice]:
    """The splices that add children behind the last one. Nothing else may be spliced there."""
    if not texts:
        return []
    if not target.children:
        at = target.start + 1
        return [(at, at, f",{layout.gap}".join(texts))]
    last = target.children[-1]
    added = layout.gap + f",{layout.gap}".join(texts)
    if last.comma is not None:
        at = _behind_comments(tree, last.comma + 1)
        return [(at, at, added + ",")]
    at = _behind_comments(tree, last.end)
    if at == last.end:
        return [(at, at, "," + added)]
    return [(last.end, last.end, ","), (at, at, added)]


def removals(tree: Tree, target: Node, indexes: frozenset[int]) -> list[Splice]:
    """The splices that take children out, each with its comma and the space before it."""
    children = target.children
    kept = [i for i in range(len(children)) if i not in indexes]
    splices: list[Splice] = []
    for i in sorted(indexes):
        child = children[i]
        start = child.start
        if kept or target.is_opened or i > 0:
            start = _space_before(tree.text, start)
        splices.append((start, child.end, ""))
        if child.comma is not None:
            splices.append((child.comma, child.comma + 1, ""))
        elif kept and (comma := children[kept[-1]].comma) is not None:
            splices.append((comma, comma + 1, ""))
    return splices


def _space_before(text: str, at: int) -> int:
    while text[at - 1] in _SPACE:
        at -= 1
    return at


def _behind_comments(tree: Tree, at: int) -> int:
    """Where the comments end that begin behind `at` on its line."""
    for start, end in tree.comments:
        if start >= at:
            if tree.text[at:start].strip(" \t"):
                break
            at = end
    return at
