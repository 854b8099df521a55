"""Follows a Bash command line as a shell would, without running it, to the files it looks into.

Follows directories through `cd`, variables through assignments and `for` loops over known words,
pipes (`cat f | sed -n '1,9p'` sees nine lines), commands in commands, and `bash -c`. Looks are the
files that the commands of `shell_commands` are given, and `< file`. What is written, what another
revision holds (`git show REV:path`) and what an unknown command is given is none. An unquoted
pattern, and `find … -name '*.py' -exec cat`, come as a pattern (`Read.is_glob`); what only a
running shell could know (`$(…)`, `$1`, `~`) is left out.

Where it cannot tell which branch is taken, it takes all, and every `cd` succeeds.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from amend.core.explored import Read
from amend.core.shell_commands import ALL, Args, Window, looked_at, names_in
from amend.core.shell_words import TEXT_CHARS_MAX, Text, Token, Word, texts_of, tokens_of

# Command lines with scripts in them reach some KiB; what is behind this much is not looked at.
COMMAND_CHARS_MAX: Final = 32 << 10

# Files of one command line; a loop over more is no reading.
READS_MAX: Final = 256

# Changes of directory in one line; who makes more goes through a list.
_MOVES_MAX: Final = 100

_SHELL_DEPTH_MAX: Final = 3  # `bash -c "bash -c …"`

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")

_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_KEYWORDS: Final = names_in("if then elif else do while until ! { time")

# Commands that run the command behind them: their options with a value, and how many words of
# their own stand before it.
_WRAPPERS: Final[dict[str, tuple[str, int]]] = {
    "sudo": ("ugpChrtT", 0),
    "doas": ("u", 0),
    "env": ("uCS", 0),
    "nice": ("n", 0),
    "ionice": ("cnp", 0),
    "timeout": ("ks", 1),
    "gtimeout": ("ks", 1),
    "stdbuf": ("ioe", 0),
    "nohup": ("", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("a", 0),
    "setsid": ("", 0),
}
_XARGS_VALUES: Final = "IiLnPsdEa"

# They print no `path:line:` of a file that they looked into.
_QUIET: Final = names_in(
    "cd pushd popd echo printf ls pwd true false test [ [[ mkdir rm cp mv touch which type file "
    "stat du tree export set find sleep date"
)
_REDIRECTIONS: Final = names_in("< > >> >| &> &>> >& <& <> << <<- <<<")


@dataclass(frozen=True, slots=True)
class Look:
    """`given`: the path as it is written in the command line."""

    read: Read
    given: str


@dataclass(slots=True)
class _Stage:
    """One command of a pipeline."""

    words: list[Word] = field(default_factory=list)
    inputs: list[Word] = field(default_factory=list)


def followed(command: str, cwd: str) -> "Line":
    """What came of a command line that is run in `cwd`."""
    line = Line(cwd)
    line.follow(tokens_of(command[:COMMAND_CHARS_MAX]))
    return line


class Line:
    """Goes through a command line once; `looks` and `shown_from` are what came of it.

    `shown_from`: the directories that paths in its output are relative to, where it may show any.
    """

    def __init__(self, cwd: str, depth: int = 0) -> None:
        self.looks: list[Look] = []
        self.shown_from: dict[str, None] = {}
        self._cwd: str | None = cwd
        self._before: str | None = None
        self._moves = 0
        self._values: dict[str, tuple[Text, ...]] = {}
        self._depth = depth

    def follow(self, tokens: Sequence[Token]) -> None:
        outer: list[str | None] = []
        stages = [_Stage()]
        sign = ""
        for token in tokens:
            if isinstance(token, Word):
                self._place(token, sign, stages[-1])
                sign = ""
                continue
            sign = token.text
            if sign in _REDIRECTIONS:
                continue
            if sign in ("|", "|&"):
                stages.append(_Stage())
            elif sign != "\n" or stages[-1].words or len(stages) == 1:
                self._run(stages)
                stages = [_Stage()]
                if sign == "(":
                    outer.append(self._cwd)
                elif sign == ")" and outer:
                    self._cwd = outer.pop()
        self._run(stages)

    def _place(self, word: Word, sign: str, stage: _Stage) -> None:
        for nested in word.nested:
            cwd, shown = self._cwd, dict(self.shown_from)
            self.follow(nested)
            self._cwd, self.shown_from = cwd, shown
        if sign == "<":
            stage.inputs.append(word)
        elif sign not in _REDIRECTIONS:
            stage.words.append(word)

    def _run(self, stages: list[_Stage]) -> None:
        lines: list[Look] = []  # what the stage before prints, when that is lines of one file
        found: tuple[Text, ...] = ()  # what the stage before prints, when that is names
        for stage in stages:
            words = self._without_assignments(stage.words)
            inputs = [text for word in stage.inputs for text in texts_of(word, self._texts())]
            if words and self._is_loop(words):
                self._add(inputs, ALL)
                continue
            args = self._args(words)
            name = _name(args)
            if name == "cd" and len(stages) == 1:
                self._change_directory(args[1:])
                continue
            if name in ("[[", "test", "["):
                continue
            if name == "find":
                found = self._found_by(args[1:])
                lines = []
                continue
            if name == "xargs":
                args = [*_without_options(args[1:], _XARGS_VALUES), *found]
                name = _name(args)
            lines = self._command(name, args[1:], inputs, lines)
            found = ()

    def _command(self, name: str, args: Args, inputs: list[Text], before: list[Look]) -> list[Look]:
        """What it prints, when that is lines of one file."""
        if name in _SHELLS:
            self._inner(args)
            self._add(inputs, ALL)
            return []
        looked = looked_at(name, args)
        if looked is None:
            self._add(inputs, ALL)
            self._may_show(name, args)
            return []
        if looked.searches:
            self._shows_from_here()
        files = looked.files or tuple(inputs)
        if not files:
            return self._narrowed(before, looked.windows)
        begun = len(self.looks)
        for window in looked.windows or (ALL,):
            self._add(files, window)
        is_one = len(files) == 1 and len(looked.windows) == 1
        return self.looks[begun:] if is_one else []

    def _narrowed(self, before: list[Look], windows: tuple[Window, ...]) -> list[Look]:
        """The looks before this stage, now at the lines that it lets through."""
        if len(before) != 1 or not windows:
            return []
        look = before[0]
        self.looks.remove(look)
        begun = len(self.looks)
        for window in windows:
            start, end = _composed((look.read.start or 1, look.read.end), window)
            self.looks.append(replace(look, read=_ranged(look.read, (start, end))))
        return self.looks[begun:] if len(windows) == 1 else []

    def _add(self, texts: Iterable[Text], window: Window) -> None:
        for text in texts:
            if len(self.looks) >= READS_MAX or (
                self._cwd is None and not text.text.startswith("/")
            ):
                continue
            path = joined(self._cwd or "", text.text)
            if path is not None and text.text.rpartition("/")[2] not in ("", ".", ".."):
                read = Read(path, is_guess=True, is_glob=text.is_glob)
                self.looks.append(Look(_ranged(read, window), text.text))

    def _without_assignments(self, words: list[Word]) -> list[Word]:
        """The words from the command on; what stands before it is remembered."""
        for index, word in enumerate(words):
            first = word.parts[0]
            match = _ASSIGNMENT.match(first.text)
            if match is not None:
                rest = replace(first, text=first.text[match.end() :])
                value = replace(word, parts=(rest, *word.parts[1:]))
                self._values[match[1]] = texts_of(value, self._texts())
            elif len(word.parts) > 1 or first.text not in _KEYWORDS:
                return words[index:]
        return []

    def _texts(self) -> dict[str, tuple[Text, ...]]:
        self._values["PWD"] = () if self._cwd is None else (Text(self._cwd),)
        return self._values

    def _is_loop(self, words: list[Word]) -> bool:
        """`for NAME in …` gives the name its values; `done` and its like are no commands."""
        texts = [word.parts[0].text if len(word.parts) == 1 else "" for word in words[:3]]
        if texts[0] in ("for", "select") and len(texts) > 1:
            values = [text for word in words[3:] for text in texts_of(word, self._texts())]
            self._values[texts[1]] = tuple(values[:READS_MAX]) if texts[2:] == ["in"] else ()
            return True
        return texts[0] in ("done", "fi", "esac", "}", "case", "function", "read")

    def _args(self, words: list[Word]) -> list[Text | None]:
        """The words' texts, without the commands that only run another one."""
        args: list[Text | None] = []
        for word in words:
            texts = texts_of(word, self._texts())
            args.extend(texts if texts else (None,))
            if len(args) > READS_MAX:
                break
        while (wrapper := _WRAPPERS.get(_name(args))) is not None:
            short, own = wrapper
            args = _without_options(args[1:], short)[own:]
            while args and args[0] and _ASSIGNMENT.match(args[0].text):
                args = args[1:]
        return args

    def _change_directory(self, args: Args) -> None:
        target = next((arg for arg in args if arg is None or arg.text not in ("--", "-P")), None)
        before = self._cwd
        self._moves += 1
        if target is None or target.is_glob or self._moves > _MOVES_MAX:
            self._cwd = None
        elif target.text == "-":
            self._cwd = self._before
        elif target.text.startswith("/") or self._cwd is not None:
            self._cwd = joined(self._cwd or "", target.text) or self._cwd
        self._before = before

    def _found_by(self, args: Args) -> tuple[Text, ...]:
        """The files that `find` finds, as patterns; a command that it runs on them is followed."""
        texts = [arg.text if arg else "" for arg in args]
        begun = next((i for i, text in enumerate(texts) if text.startswith(("-", "(", "!"))), 0)
        roots = texts[:begun] or ["."]
        options = list(pairwise(texts))
        names = [value for option, value in options if option in ("-name", "-iname")]
        depth_is_one = ("-maxdepth", "1") in options
        between = "" if depth_is_one else "**/"
        found = tuple(
            Text(f"{root.rstrip('/')}/{between}{name}" if root != "." else between + name, True)
            for root in roots
            for name in names
        )[:READS_MAX]
        for index, text in enumerate(texts):
            if text in ("-exec", "-execdir"):
                run = [arg for arg in args[index + 1 :] if arg and arg.text not in ("{}", ";", "+")]
                ends = next((i for i, arg in enumerate(run) if arg.text.startswith("-exec")), None)
                self._command(_name(run), [*run[1:ends], *found], [], [])
        return found

    def _inner(self, args: Args) -> None:
        """The script of `bash -c SCRIPT`."""
        for index, arg in enumerate(args):
            if arg is None or not arg.text.startswith("-"):
                return
            if "c" in arg.text and not arg.text.startswith("--"):
                script = args[index + 1] if index + 1 < len(args) else None
                if script is not None and self._cwd is not None and self._depth < _SHELL_DEPTH_MAX:
                    inner = Line(self._cwd, self._depth + 1)
                    inner.follow(tokens_of(script.text))
                    self.looks.extend(inner.looks[: READS_MAX - len(self.looks)])
                    self.shown_from.update(inner.shown_from)
                return

    def _may_show(self, name: str, args: Args) -> None:
        """An unknown command may print `path:line:`, as compilers do; of git, only `grep` does."""
        if name == "git" and not any(arg and arg.text == "grep" for arg in args[:4]):
            return
        if name and name not in _QUIET:
            self._shows_from_here()

    def _shows_from_here(self) -> None:
        if self._cwd is not None and len(self.shown_from) < 4:
            self.shown_from[self._cwd] = None


def joined(cwd: str, path: str) -> str | None:
    """`path` as seen from `cwd`, without `.`, and without `..` where a name stands before it.

    None for what is no file to be read: a device, an empty or an impossible name.
    """
    if not path or "\0" in path or len(path) > TEXT_CHARS_MAX:
        return None
    whole = path if path.startswith("/") or not cwd else f"{cwd}/{path}"
    names: list[str] = []
    for name in whole.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", ".", "..") or (name == ".." and not whole.startswith("/")):
            names.append(name)
    text = "/".join(names)
    if whole.startswith("/"):
        text = f"/{text}"
    return None if not names or text.startswith(("/dev/", "/proc/", "/sys/")) else text


def _name(args: Args) -> str:
    return args[0].text.rpartition("/")[2] if args and args[0] else ""


def _without_options(args: Args, short: str) -> list[Text | None]:
    """From the first operand on."""
    index = 0
    while index < len(args):
        arg = args[index]
        if arg is None or not arg.text.startswith("-"):
            break
        index += 2 if len(arg.text) == 2 and arg.text[1] in short else 1
    return list(args[index:])


def _composed(lines: Window, window: Window) -> Window:
    """The lines of a file that `window` leaves of its `lines`; where it leaves none, `lines`."""
    start = lines[0] + window[0] - 1
    ends = [end for end in (lines[1], lines[0] + window[1] - 1 if window[1] else None) if end]
    end = min(ends) if ends else None
    return lines if end is not None and start > end else (start, end)


def _ranged(read: Read, window: Window) -> Read:
    return (
        replace(read, start=None, end=None)
        if window == ALL
        else replace(read, start=window[0], end=window[1])
    )
