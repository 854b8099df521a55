"""Which files a command looks into, and which lines of them it shows.

Knows the commands by which agents read: `cat`, `head`, `sed -n`, `grep` and their like. Options
are told from files by what each command's own manual says of its options; a command that is not
known looks into nothing. A command that writes what it names (`sed -i`, `sort -o`) reads nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from amend.core.shell_words import Text

# None is a word that only a shell could know; it keeps its place among the others.
Args = Sequence[Text | None]
Window = tuple[int, int | None]
"""The first line, counted from 1, and the last; None for the end of the file."""

ALL: Final[Window] = (1, None)

# Of a script whose lines are told; longer ones are programs.
_SCRIPT_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """`windows`: the lines of the files, or of what is piped in, that it prints as they are and in
    their order; empty when it prints something else. `searches`: it names the files it prints."""

    files: tuple[Text, ...] = ()
    windows: tuple[Window, ...] = ()
    searches: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line's options, each with its value, and the rest."""

    options: tuple[tuple[str, Text | None], ...]
    operands: tuple[Text | None, ...]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str | None]:
        return [value.text if value else None for name, value in self.options if name in names]


@dataclass(frozen=True, slots=True)
class Command:
    """`short`, `long`: the options that take a value; `scripted_by`: those that spare the first
    operand, which is no file otherwise. `writes`: with one of these it reads nothing."""

    short: str = ""
    long: frozenset[str] = frozenset()
    windows: Callable[[Parsed], tuple[Window, ...]] | None = None
    is_scripted: bool = False
    scripted_by: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    searches: bool = False
    files_max: int | None = None


def looked_at(name: str, args: Args) -> Looked | None:
    """What the command reads; None when it is none of those that are known to read."""
    if name in _PYTHON:
        texts = [arg.text if arg else "" for arg in args[:2]]
        if texts != ["-m", "json.tool"]:
            return None
        name, args = "json.tool", args[2:]
    command = _COMMANDS.get(name)
    if command is None:
        return None
    parsed = parse(args, command)
    if parsed.has(*command.writes):
        return Looked()
    operands = parsed.operands
    if command.is_scripted and not parsed.has(*command.scripted_by):
        operands = operands[1:]
    if name in _AWKS:
        operands = tuple(o for o in operands if o and not _ASSIGNMENT.match(o.text))
    if name in _PAGERS:
        operands = tuple(o for o in operands if o and not o.text.startswith("+"))
    windows = command.windows(parsed) if command.windows else ()
    files = [operand for operand in operands if operand and operand.text not in ("", "-")]
    if len(files) > 1 and name in _COUNTING_ON:
        windows = ()
    return Looked(tuple(files[: command.files_max]), windows, command.searches)


def parse(args: Args, command: Command) -> Parsed:
    """Options and operands, in any order, as GNU's `getopt` takes them apart."""
    options: list[tuple[str, Text | None]] = []
    operands: list[Text | None] = []
    rest = iter(args)
    for arg in rest:
        if arg is None or not arg.text.startswith("-") or arg.text == "-":
            operands.append(arg)
        elif arg.text == "--":
            operands.extend(rest)
        elif arg.text.startswith("--"):
            name, has_value, value = arg.text[2:].partition("=")
            takes_next = not has_value and name in command.long
            options.append((name, next(rest, None) if takes_next else Text(value)))
            if name in _TWO_VALUES:
                next(rest, None)
        else:
            options.extend(_cluster(arg.text[1:], command.short, rest))
    return Parsed(tuple(options), tuple(operands))


def _cluster(
    letters: str, short: str, rest: Iterator[Text | None]
) -> list[tuple[str, Text | None]]:
    """`nA3` → `n`, and `A` with its value; `20` → the old form of `n 20`."""
    if letters.isdigit():
        return [("n", Text(letters))]
    found: list[tuple[str, Text | None]] = []
    for index, letter in enumerate(letters):
        if letter in short:
            value = letters[index + 1 :]
            found.append((letter, Text(value) if value else next(rest, None)))
            break
        found.append((letter, Text("")))
    return found


# -- which lines -------------------------------------------------------------------------------


def _all(_: Parsed) -> tuple[Window, ...]:
    return (ALL,)


def _head(parsed: Parsed) -> tuple[Window, ...]:
    if parsed.has("c", "bytes"):
        return ()
    counts = parsed.values("n", "lines") or ["10"]
    last = _number(counts[-1])
    return ((1, last),) if last else ()


def _tail(parsed: Parsed) -> tuple[Window, ...]:
    counts = parsed.values("n", "lines")
    if parsed.has("c", "bytes") or not counts or not (counts[-1] or "").startswith("+"):
        return ()
    first = _number((counts[-1] or "")[1:])
    return ((first, None),) if first else ()


def _sed(parsed: Parsed) -> tuple[Window, ...]:
    scripts = parsed.values("e", "expression")
    if not scripts:
        operand = parsed.operands[0] if parsed.operands else None
        scripts = [operand.text if operand else None]
    script = ";".join("x" if one is None else one for one in scripts)
    if len(script) > _SCRIPT_CHARS_MAX:
        return ()
    pieces = [piece.strip() for piece in script.replace("\n", ";").split(";") if piece.strip()]
    if not parsed.has("n", "quiet", "silent"):
        stop = _SED_QUIT.fullmatch(pieces[0]) if len(pieces) == 1 else None
        return ((1, int(stop[1])),) if stop else ()
    windows: list[Window] = []
    for piece in pieces:
        if _SED_QUIT.fullmatch(piece):
            continue
        match = _SED_PRINT.fullmatch(piece)
        if match is None or not int(match[1]):
            return ()
        first, last = int(match[1]), match[2] or match[1]
        if last == "$":
            windows.append((first, None))
        else:
            until = first + int(last[1:]) if last.startswith("+") else int(last)
            windows.append((first, max(first, until)))
    return tuple(windows)


def _awk(parsed: Parsed) -> tuple[Window, ...]:
    first = parsed.operands[0] if parsed.operands else None
    if parsed.has("f", "file") or first is None or len(first.text) > _SCRIPT_CHARS_MAX:
        return ()
    script = first.text.strip()
    match = _AWK_BETWEEN.fullmatch(script)
    if match:
        start = int(match[2]) + (match[1] == ">")
        end = int(match[4]) - (match[3] == "<")
        return ((start, end),) if 0 < start <= end else ()
    match = _AWK_FROM_TO.fullmatch(script)
    if match and 0 < int(match[1]) <= int(match[2]):
        return ((int(match[1]), int(match[2])),)
    return ()


def _bat(parsed: Parsed) -> tuple[Window, ...]:
    windows: list[Window] = []
    for value in parsed.values("r", "line-range"):
        first, colon, last = (value or "").partition(":")
        start, end = _number(first or "1"), _number(last) if last else None
        if not start or not colon or (last and not end):
            return ()
        windows.append((start, end))
    return tuple(windows) or (ALL,)


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SED_PRINT: Final = re.compile(r"([0-9]{1,9})(?: ?, ?(\+?[0-9]{1,9}|\$))? ?p")
_SED_QUIT: Final = re.compile(r"([0-9]{1,9}) ?q")
_AWK_BETWEEN: Final = re.compile(
    r"F?NR ?(>=?) ?([0-9]{1,9}) ?&& ?F?NR ?(<=?) ?([0-9]{1,9}) ?(?:\{ ?print[^{}]*\})?"
)
_AWK_FROM_TO: Final = re.compile(
    r"F?NR ?== ?([0-9]{1,9}) ?, ?F?NR ?== ?([0-9]{1,9}) ?(?:\{ ?print[^{}]*\})?"
)


# -- the commands ------------------------------------------------------------------------------


def names_in(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


_TWO_VALUES: Final = frozenset(("arg", "argjson", "slurpfile", "rawfile"))  # of jq
_AWKS: Final = frozenset(("awk", "gawk", "mawk", "nawk"))
_COUNTING_ON: Final = _AWKS | {"sed", "gsed"}  # from one file to the next
_PAGERS: Final = frozenset(("less", "more", "most"))
_PYTHON: Final = frozenset(("python", "python3"))

_LESS: Final = Command("PpxyzbhjkoOtT", windows=_all)
_BAT: Final = Command(
    "lrHm",
    names_in(
        "language line-range highlight-line theme style color paging wrap tabs map-syntax "
        "terminal-width file-name decorations pager"
    ),
    _bat,
)
_GREP: Final = Command(
    "efABCmdD",
    names_in(
        "regexp file after-context before-context context max-count include exclude exclude-dir "
        "label devices directories binary-files"
    ),
    is_scripted=True,
    scripted_by=("e", "f", "regexp", "file"),
    searches=True,
)
_RG: Final = Command(
    "efgtTABCmjMErd",
    names_in(
        "regexp file glob iglob type type-not after-context before-context context max-count "
        "threads max-columns encoding replace max-depth sort sortr ignore-file color colors engine "
        "context-separator field-match-separator path-separator pre pre-glob max-filesize"
    ),
    is_scripted=True,
    scripted_by=("e", "f", "regexp", "file"),
    writes=("files", "type-list"),  # names of files only
    searches=True,
)
_AWK: Final = Command(
    "Fvfeil",
    frozenset(("field-separator", "assign", "file", "source", "include")),
    _awk,
    is_scripted=True,
    scripted_by=("f", "file", "e", "source"),
)
_SED: Final = Command(
    "efl",
    frozenset(("expression", "file", "line-length")),
    _sed,
    is_scripted=True,
    scripted_by=("e", "f", "expression", "file"),
    writes=("i", "in-place"),
)
_JQ: Final = Command(
    "fL",
    frozenset(("from-file", "indent", *_TWO_VALUES)),
    is_scripted=True,
    scripted_by=("f", "from-file"),
)
_SUM: Final = Command()
_COMMANDS: Final[dict[str, Command]] = {
    "cat": Command(windows=_all),
    "nl": Command("bdfhilnsvw", windows=_all),
    "less": _LESS,
    "more": _LESS,
    "most": _LESS,
    "bat": _BAT,
    "batcat": _BAT,
    "head": Command("nc", frozenset(("lines", "bytes")), _head),
    "tail": Command("ncs", frozenset(("lines", "bytes", "pid", "sleep-interval")), _tail),
    "tac": Command("s"),
    "wc": Command(),
    "xxd": Command("lsgcobnR", files_max=1),
    "od": Command("AjNtwS"),
    "hexdump": Command("efns"),
    "hd": Command("efns"),
    "strings": Command("netT"),
    "sort": Command(
        "kotST", frozenset(("key", "field-separator", "output")), writes=("o", "output")
    ),
    "uniq": Command("fsw", files_max=1),
    "cut": Command("bcdf", frozenset(("delimiter", "fields", "bytes", "characters"))),
    "column": Command("cstoNRTHW"),
    "fold": Command("w"),
    "fmt": Command("w"),
    "rev": Command(),
    "expand": Command("t"),
    "paste": Command("d"),
    "join": Command("12aejotv"),
    "comm": Command(),
    "cmp": Command("in"),
    "diff": Command("UCIWFxLS", frozenset(("label", "exclude", "unified", "width"))),
    "colordiff": Command("UCIWFxLS", frozenset(("label", "exclude", "unified", "width"))),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "shasum": Command("a"),
    "cksum": _SUM,
    "base64": Command("w"),
    "zcat": Command(),
    "gzcat": Command(),
    "xzcat": Command(),
    "bzcat": Command(),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "zgrep": _GREP,
    "ggrep": _GREP,
    "rg": _RG,
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
    "sed": _SED,
    "gsed": _SED,
    "jq": _JQ,
    "yq": _JQ,
    "json.tool": Command(long=frozenset(("indent",)), files_max=1),
}
