"""Endpoints of an API: does what was asked lie within what a contract describes?

A path's segments are literals, parameters, or catch-alls, in the notations that routers use:

    :id  :id(\\d+)  {id}  {id:int}  <id>  <int:id>  [id]     one segment that is not empty
    *  *rest  {*rest}  {rest...}  {rest:path}  <path:rest>  [...rest]  :rest+    one segment or more
    **  :rest*  [[...rest]]                                  any number of segments

Parameters may be part of a segment (`{id}.json`, `{base}...{head}`). Names and types of parameters
do not count. Literals are compared as they are written, methods without regard to case.

Guarantees: every endpoint covers itself; a parameter covers no empty segment and no `/`; a literal
covers nothing but itself, in particular no parameter. Time is at worst the product of the two
numbers of segments.
"""

import re
from dataclasses import dataclass
from typing import Final

# Longer than what servers take for a request line (8 KB) is no endpoint, and time is bounded.
ENDPOINT_CHARS_MAX: Final = 2000

# `GET /items/42`, `/items/42`, `GET https://example.org/items/42`.
_QUESTION: Final = re.compile(r"\s*(?:([A-Za-z]+)\s+)?((?:[A-Za-z][A-Za-z0-9+.-]*:/)?/\S*)\s*")
_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
# `{id?}` is a parameter that may be left out.
_QUERY: Final = re.compile(r"(?:\?(?!\})|#).*", re.DOTALL)

_ANY_NUMBER: Final = re.compile(r"\*\*|:\w+\*|\[\[\.\.\.[^\]]+\]\]")
_ONE_OR_MORE: Final = re.compile(
    r"\*[\w-]*|\{\*[^{}]*\}|\{[^{}]+(?:\.\.\.|:path)\}|<path:[^<>]+>|\[\.\.\.[^\]]+\]|:\w+\+"
)
# A colon inside a word (`/items:batch`) is a literal.
_PARAMETER: Final = re.compile(
    r"(?:\A|(?<=[-.~])):\w+(?:\([^()]*\))?|\{[^{}]+\}|<[^<>]+>|\[[^\[\]]+\]"
)

# Stands for a question's parameter where a text is wanted: no path holds it, so no literal is it.
_HOLE: Final = "\0"


@dataclass(frozen=True, slots=True)
class Segment:
    """The literals around its parameters: `("items",)`, `("", "")` for `:id`, `("", ".json")`."""

    literals: tuple[str, ...]

    def covers(self, text: str) -> bool:
        if len(self.literals) == 1:
            return text == self.literals[0]
        first, *middle, last = self.literals
        if not text.startswith(first):
            return False
        at = len(first)
        for literal in middle:
            # The first place leaves the most to what follows, so no other one need be tried.
            found = text.find(literal, at + 1)
            if found < 0:
                return False
            at = found + len(literal)
        return len(text) - len(last) > at and text.endswith(last)


@dataclass(frozen=True, slots=True)
class CatchAll:
    """`least` segments or more."""

    least: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`method` in capitals, None: any. `path` as it was written."""

    method: str | None
    path: str
    parts: tuple[Segment | CatchAll, ...]

    def __str__(self) -> str:
        return f"{self.method} {self.path}" if self.method else self.path


def endpoint(method: str | None, path: str) -> Endpoint:
    """Without regard to scheme and host, query string, fragment and slashes at the end.

    Raises `ValueError` with the broken rule.
    """
    if len(path) > ENDPOINT_CHARS_MAX:
        raise ValueError(f"is longer than {ENDPOINT_CHARS_MAX} characters")
    if _HOLE in path:
        raise ValueError("holds a NUL")
    bare = _QUERY.sub("", _HOST.sub("", path, count=1)).removeprefix("/").rstrip("/")
    parts = tuple(_part(text) for text in bare.split("/")) if bare else ()
    return Endpoint((method or "").strip().upper() or None, path, parts)


def asked(question: str) -> Endpoint | None:
    """The endpoint a question like `GET /items/42` names; None when it names none."""
    match = _QUESTION.fullmatch(question)
    if match is None:
        return None
    try:
        return endpoint(match[1], match[2])
    except ValueError:
        return None


def covers(described: Endpoint, question: Endpoint) -> bool:
    """Whether all that `question` may stand for is described. A missing method is any method."""
    if described.method and question.method and described.method != question.method:
        return False
    texts = [
        None if isinstance(part, CatchAll) else _HOLE.join(part.literals) for part in question.parts
    ]
    reached = {0}  # how many segments of the question may be used up
    for part in described.parts:
        if isinstance(part, CatchAll):
            reached = set(range(min(reached) + part.least, len(texts) + 1))
        else:
            reached = {
                at + 1
                for at in reached
                if at < len(texts) and (text := texts[at]) is not None and part.covers(text)
            }
        if not reached:
            return False
    return len(texts) in reached


def distance(described: Endpoint) -> tuple[tuple[int, ...], bool]:
    """Less is closer, among endpoints that cover the same question: from the left, a literal is
    closer than a segment with a parameter in it, that than a parameter, that than a catch-all;
    then one that names its method."""
    return tuple(_looseness(part) for part in described.parts), described.method is None


def _looseness(part: Segment | CatchAll) -> int:
    if isinstance(part, CatchAll):
        return 4 - part.least
    if len(part.literals) == 1:
        return 0
    return 1 if any(part.literals) else 2


def _part(text: str) -> Segment | CatchAll:
    if _ANY_NUMBER.fullmatch(text):
        return CatchAll(0)
    if _ONE_OR_MORE.fullmatch(text):
        return CatchAll(1)
    return Segment(tuple(_PARAMETER.split(text)))
