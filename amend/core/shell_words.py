"""A shell's command line → its words and signs, as far as they can be known without running it.

A word is what is certain of it (`Part`): quoted text, text in which `*`, `?`, `{,}` and `~` still
mean something, a variable's name, or what cannot be known. Commands inside `$(…)`, backticks and
`<(…)` are tokens of their own, kept with the word that they stand in. Comments and the bodies of
here-documents are left out.

Guarantees: never raises, whatever the text; time is linear in it. What is no valid shell comes to
some tokens, nobody promises which.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

# A command in a command in a command is as deep as people write; what is deeper is left out.
DEPTH_MAX: Final = 6

# PATH_MAX on Linux: what is longer names no file.
TEXT_CHARS_MAX: Final = 4096

# Files that one word with braces, or a loop over a list, stands for. Agents look at a few.
TEXTS_MAX: Final = 32

# Of a word that names a file; more only multiplies the work.
PARTS_MAX: Final = 64
_BRACES_MAX: Final = 8

_SIGN: Final = re.compile(r"&>>|<<<|<<-|&>|<<|>>|>\||>&|<&|<>|&&|\|\||\|&|;;&|;;|;&|[;&|\n()<>]")
_PLAIN: Final = re.compile(r"[^\s\\'\"$`;&|()<>]+")
_IN_DOUBLE: Final = re.compile(r'[^"\\$`]+')
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class PartKind(Enum):
    QUOTED = "quoted"
    PLAIN = "plain"
    NAME = "name"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    kind: PartKind


@dataclass(frozen=True, slots=True)
class Word:
    parts: tuple[Part, ...]
    nested: tuple[tuple["Token", ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """An operator, as it is written; "\\n" for the end of a line."""

    text: str


Token = Word | Sign


@dataclass(frozen=True, slots=True)
class Text:
    """What a word comes to. `is_glob`: unless a file has this very name, it is a pattern."""

    text: str
    is_glob: bool = False


def tokens_of(command: str) -> tuple[Token, ...]:
    """The words and signs of a command line, in their order."""
    return tuple(_Scanner(command).tokens("", 0))


def texts_of(word: Word, values: Mapping[str, tuple[Text, ...]]) -> tuple[Text, ...]:
    """What the word comes to, several for braces and for a variable of several values.

    Empty when that is not known. At most `TEXTS_MAX`.
    """
    if len(word.parts) > PARTS_MAX:
        return ()
    found = [Text("")]
    for index, part in enumerate(word.parts):
        if part.kind is PartKind.UNKNOWN:
            return ()
        if part.kind is PartKind.PLAIN and not index and part.text.startswith("~"):
            return ()
        if part.kind is PartKind.NAME:
            ends = values.get(part.text, ())
        elif part.kind is PartKind.QUOTED:
            ends = (Text(part.text),)
        else:
            ends = tuple(Text(text, "*" in text or "?" in text) for text in _braces(part.text))
        found = [Text(a.text + b.text, a.is_glob or b.is_glob) for a in found for b in ends]
        found = [text for text in found[:TEXTS_MAX] if len(text.text) <= TEXT_CHARS_MAX]
    return tuple(found)


def _braces(text: str) -> list[str]:
    """`a{b,c}` → `ab`, `ac`; braces in braces stand for themselves, and so do too many."""
    found, done, at, groups = [""], 0, 0, 0
    while (close := text.find("}", at)) >= 0 and groups < _BRACES_MAX:
        opened = text.rfind("{", at, close)
        at = close + 1
        choices = text[opened + 1 : close].split(",") if opened >= 0 else []
        if len(choices) > 1:
            between = text[done:opened]
            found = [begun + between + choice for begun in found for choice in choices[:TEXTS_MAX]]
            found = [begun for begun in found[:TEXTS_MAX] if len(begun) <= TEXT_CHARS_MAX]
            done, groups = at, groups + 1
    return [begun + text[done:] for begun in found]


class _Scanner:
    """Reads the text from left to right, once; `tokens` calls itself for commands in commands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parts: list[Part] = []
        self._nested: list[tuple[Token, ...]] = []

    def tokens(self, until: str, depth: int) -> list[Token]:
        """Up to the `until` that closes them, or to the end."""
        outer, self._parts, self._nested = (self._parts, self._nested), [], []
        found: list[Token] = []
        bodies: list[tuple[str, bool]] = []
        opened = 0
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char in " \t\r":
                self._end_word(found, bodies)
                self._at += 1
            elif char == "`" and until == "`":
                self._at += 1
                break
            elif char == "#" and not self._parts:
                end = text.find("\n", self._at)
                self._at = end if end >= 0 else len(text)
            elif sign := _SIGN.match(text, self._at):
                if sign[0] == ")" and until == ")" and not opened:
                    self._at += 1
                    break
                if sign[0] in "<>" and text.startswith("(", self._at + 1):
                    self._at += 2
                    self._substitute(")", depth)
                    continue
                opened += {"(": 1, ")": -1}.get(sign[0], 0)
                self._sign(sign[0], found, bodies)
            else:
                self._word_part(char, depth)
        self._end_word(found, bodies)
        self._parts, self._nested = outer
        return found

    def _sign(self, sign: str, found: list[Token], bodies: list[tuple[str, bool]]) -> None:
        is_descriptor = sign[0] in "<>" and len(self._parts) == 1 and self._parts[0].text.isdigit()
        if is_descriptor:
            self._parts = []  # the 2 of `2>`
        self._end_word(found, bodies)
        self._at += len(sign)
        found.append(Sign(sign))
        if sign == "\n":
            for delimiter, is_indented in bodies:
                self._skip_body(delimiter, is_indented)
            bodies.clear()

    def _end_word(self, found: list[Token], bodies: list[tuple[str, bool]]) -> None:
        if not self._parts:
            return
        word = Word(tuple(self._parts), tuple(self._nested))
        self._parts, self._nested = [], []
        before = found[-1] if found else None
        if isinstance(before, Sign) and before.text in ("<<", "<<-"):
            bodies.append(("".join(part.text for part in word.parts), before.text == "<<-"))
        found.append(word)

    def _skip_body(self, delimiter: str, is_indented: bool) -> None:
        text = self._text
        while self._at < len(text):
            end = text.find("\n", self._at)
            end = end if end >= 0 else len(text)
            line = text[self._at : end]
            self._at = end + 1
            if (line.lstrip("\t") if is_indented else line) == delimiter:
                return
        self._at = len(text)

    def _word_part(self, char: str, depth: int) -> None:
        text = self._text
        if char == "\\":
            if not text.startswith("\n", self._at + 1):
                self._add(text[self._at + 1 : self._at + 2], PartKind.QUOTED)
            self._at += 2
        elif char == "'":
            self._single()
        elif char == '"':
            self._double(depth)
        elif char == "$":
            self._dollar(depth, is_quoted=False)
        elif char == "`":
            self._at += 1
            self._substitute("`", depth)
        elif plain := _PLAIN.match(text, self._at):
            self._add(plain[0], PartKind.PLAIN)
            self._at = plain.end()
        else:  # a blank that is neither space, tab nor line end
            self._add(char, PartKind.QUOTED)
            self._at += 1

    def _add(self, text: str, kind: PartKind) -> None:
        self._parts.append(Part(text, kind))

    def _substitute(self, until: str, depth: int) -> None:
        self._add("", PartKind.UNKNOWN)
        if depth >= DEPTH_MAX:
            self._at = len(self._text)
            return
        nested = self.tokens(until, depth + 1)
        self._nested.append(tuple(nested))

    def _single(self) -> None:
        end = self._text.find("'", self._at + 1)
        end = end if end >= 0 else len(self._text)
        self._add(self._text[self._at + 1 : end], PartKind.QUOTED)
        self._at = end + 1

    def _double(self, depth: int) -> None:
        text = self._text
        self._at += 1
        self._add("", PartKind.QUOTED)  # "" is a word too
        while self._at < len(text):
            char = text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\":
                escaped = text[self._at + 1 : self._at + 2]
                kept = "" if escaped in '$`"\\\n' else "\\"
                self._add(kept + escaped.strip("\n"), PartKind.QUOTED)
                self._at += 2
            elif char == "$":
                self._dollar(depth, is_quoted=True)
            elif char == "`":
                self._at += 1
                self._substitute("`", depth)
            elif run := _IN_DOUBLE.match(text, self._at):
                self._add(run[0], PartKind.QUOTED)
                self._at = run.end()

    def _dollar(self, depth: int, *, is_quoted: bool) -> None:
        text, at = self._text, self._at
        following = text[at + 1 : at + 2]
        if text.startswith("((", at + 1):
            self._skip_sum()
        elif following == "(":
            self._at += 2
            self._substitute(")", depth)
        elif following == "{":
            end = text.find("}", at)
            end = end if end >= 0 else len(text)
            name = text[at + 2 : end]
            is_name = _NAME.fullmatch(name) is not None
            self._add(name, PartKind.NAME if is_name else PartKind.UNKNOWN)
            self._at = end + 1
        elif name_match := _NAME.match(text, at + 1):
            self._add(name_match[0], PartKind.NAME)
            self._at = name_match.end()
        elif following == "'" and not is_quoted:
            self._at += 1
            self._single_with_escapes()
        elif following and following in "0123456789@*#?$!-":
            self._add("", PartKind.UNKNOWN)
            self._at += 2
        else:
            self._add("$", PartKind.QUOTED)
            self._at += 1

    def _skip_sum(self) -> None:
        """Past `$((…))`."""
        self._add("", PartKind.UNKNOWN)
        opened = 0
        for at in range(self._at + 1, len(self._text)):
            opened += {"(": 1, ")": -1}.get(self._text[at], 0)
            if not opened:
                self._at = at + 1
                return
        self._at = len(self._text)

    def _single_with_escapes(self) -> None:
        """Past `$'…'`: known where nothing is escaped."""
        at = self._at + 1
        while at < len(self._text) and self._text[at] != "'":
            at += 2 if self._text[at] == "\\" else 1
        inside = self._text[self._at + 1 : at]
        self._add(inside, PartKind.UNKNOWN if "\\" in inside else PartKind.QUOTED)
        self._at = at + 1
