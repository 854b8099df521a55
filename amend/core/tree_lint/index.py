"""What is wrong with an index, beside what is in its directory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from unicodedata import normalize

from amend.core.aicontext import (
    INDEX_NAME,
    LISTS,
    SUFFIX,
    Child,
    Directory,
    Document,
    Line,
    LineKind,
)
from amend.core.index_sync import can_be_listed
from amend.core.tree_lint.rules import DESCRIPTION_CHARACTERS_MAX, Finding, Rule, excerpt, shown

_UNDERSTOOD: Final = LISTS | {LineKind.BLANK, LineKind.COMMENT, LineKind.CONFLICT}

_WORDS: Final = {
    LineKind.DIRECTORY: "a directory",
    LineKind.FILE: "a note",
    LineKind.DICTIONARY: "the dictionary",
}


def folded(name: str) -> str:
    """What two names share that a filesystem may take for one."""
    return normalize("NFC", normalize("NFC", name).casefold())


class Elsewhere:
    """Where in the tree a name is, for a line whose directory does not have it."""

    def __init__(self, directories: Sequence[Directory]) -> None:
        self._holders: dict[str, list[str]] = {}
        for directory in directories:
            for child in directory.children:
                self._holders.setdefault(child.name, []).append(directory.path)

    def holder(self, path: str, name: str) -> str | None:
        """The directory above or below `path` that has `name`; None when none has."""
        for holder in self._holders.get(name, ()):
            if holder != path and (_is_below(path, holder) or _is_below(holder, path)):
                return holder
        return None


def index_findings(
    path: str,
    directory: Directory,
    elsewhere: Elsewhere,
    exists: Callable[[str], bool | None],
) -> list[Finding]:
    """All but what keeps amend from understanding the index."""

    def is_there(name: str) -> bool:
        return exists(f"{path.removesuffix(INDEX_NAME)}{name}") is True

    assert directory.index is not None
    children = {child.name: child for child in directory.children}
    twice = _twice(directory.index)
    findings = []
    listed = set()
    for number, line in enumerate(directory.index.lines, 1):
        if line.kind in LISTS:
            listed.add(_listed(line))
            if number in twice:
                findings.append(_duplicate(path, number, directory.index, twice[number]))
                continue
            place = _misplaced(line, directory, children, elsewhere, is_there)
            findings += [Finding(path, number, rule, message) for rule, message in place]
            described = _description(line)
            findings += [Finding(path, number, rule, message) for rule, message in described]
        elif line.kind not in _UNDERSTOOD:
            text = excerpt(line.raw)
            message = f"{text} lists nothing: write `file: name{SUFFIX} | description` or `# text`"
            findings.append(Finding(path, number, Rule.UNKNOWN_LINE, message))
    missing = [child for child in directory.children if child.name not in listed]
    return findings + [_missing(path, child) for child in missing]


def fixed_index(directory: Directory) -> bytes | None:
    """The index without lines that say again what another one says; None when there are none.

    Of several lines for one thing the first that has a description stays. Lines whose descriptions
    differ all stay: somebody wrote them. What is missing is for the index sync to add.
    """
    index = directory.index
    if index is None or index.problem is not None:
        return None
    gone = {number for number, kept in _twice(index).items() if _says_nothing(index, number, kept)}
    if not gone:
        return None
    return b"".join(line.raw for number, line in enumerate(index.lines, 1) if number not in gone)


def _twice(index: Document) -> Mapping[int, int]:
    """The lines that are one too many, each with the line that stays."""
    same: dict[tuple[LineKind, str], list[int]] = {}
    for number, line in enumerate(index.lines, 1):
        if line.kind in LISTS:
            same.setdefault((line.kind, _listed(line)), []).append(number)
    twice = {}
    for numbers in same.values():
        described = [number for number in numbers if index.lines[number - 1].text.strip()]
        kept = (described or numbers)[0]
        twice.update({number: kept for number in numbers if number != kept})
    return twice


def _says_nothing(index: Document, number: int, kept: int) -> bool:
    text = index.lines[number - 1].text.strip()
    return text in ("", index.lines[kept - 1].text.strip())


def _duplicate(path: str, number: int, index: Document, kept: int) -> Finding:
    is_fixable = _says_nothing(index, number, kept)
    what = "remove this one" if is_fixable else "keep one line with one description"
    written = shown(_written(index.lines[number - 1]))
    message = f"{written} is listed in line {kept} too: {what}"
    return Finding(path, number, Rule.DUPLICATE_LINE, message, is_fixable)


def _misplaced(
    line: Line,
    directory: Directory,
    children: Mapping[str, Child],
    elsewhere: Elsewhere,
    is_there: Callable[[str], bool],
) -> Iterable[tuple[Rule, str]]:
    """What is wrong with what the line names, at most one thing."""
    name, written = _listed(line), shown(_written(line))
    child = children.get(name)
    if child is not None:
        if child.kind is not line.kind:
            yield Rule.WRONG_KIND, f"{written} is {_WORDS[child.kind]}: write {_line_for(child)}"
    elif name == INDEX_NAME:
        message = f"{written} is the index, which lists only what is beside it: remove the line"
        yield Rule.WRONG_LEVEL, message
    elif "/" in name or name in ("", ".", ".."):
        last = name.rpartition("/")[2]
        is_here = name == f"./{last}" and last in children
        todo = f"write {shown(last)}" if is_here else "list it in the index beside it"
        message = f"{written} is a path, and an index lists its immediate children only: {todo}"
        yield Rule.WRONG_LEVEL, message
    elif not is_there(name):  # what is there and no note may be listed as well
        yield _absent(name, written, directory, elsewhere)


def _absent(
    name: str, written: str, directory: Directory, elsewhere: Elsewhere
) -> tuple[Rule, str]:
    holder = elsewhere.holder(directory.path, name)
    if holder is not None:
        where = f"in {shown(holder)}" if holder else "at the root of the tree"
        message = f"{written} is {where}, and an index lists its immediate children only: list it "
        return Rule.WRONG_LEVEL, message + "there"
    alike = _alike(name, directory)
    if alike is not None:
        return Rule.DANGLING_LINE, f"there is no {written}: write {_line_for(alike)}"
    message = f"there is no {written}: remove the line, or comment it out if it is a placeholder"
    return Rule.DANGLING_LINE, message


def _alike(name: str, directory: Directory) -> Child | None:
    """A child that the line may have meant: another case, another accent, or no suffix."""
    wanted = {folded(name), folded(name + SUFFIX)}
    return next((child for child in directory.children if folded(child.name) in wanted), None)


def _description(line: Line) -> Iterable[tuple[Rule, str]]:
    text = line.text.strip()
    if not text:
        message = f"{shown(_written(line))} has no description: write `| what it is about` behind"
        yield Rule.NO_DESCRIPTION, message
    elif len(text) > DESCRIPTION_CHARACTERS_MAX:
        message = (
            f"a description of {len(text)} characters, at most {DESCRIPTION_CHARACTERS_MAX} belong "
            "into an index: shorten it"
        )
        yield Rule.LONG_DESCRIPTION, message


def _missing(path: str, child: Child) -> Finding:
    name = shown(_name(child.kind, child.name))
    if not can_be_listed(child.name):
        message = f"{name} is not listed, and no line can name it: rename it"
        return Finding(path, 1, Rule.MISSING_LINE, message)
    if child.kind is LineKind.DICTIONARY:
        message = f"{name} is not listed, so nobody loads it first: add {_line_for(child)}"
        return Finding(path, 1, Rule.UNLISTED_DICTIONARY, message, is_fixable=True)
    message = f"{name} is not listed: add {_line_for(child)} with a description"
    return Finding(path, 1, Rule.MISSING_LINE, message, is_fixable=True)


def _line_for(child: Child) -> str:
    return shown(f"{child.kind}: {_name(child.kind, child.name)}")


def _listed(line: Line) -> str:
    return line.name.removesuffix("/")


def _written(line: Line) -> str:
    return _name(line.kind, _listed(line))


def _name(kind: LineKind, name: str) -> str:
    return f"{name}/" if kind is LineKind.DIRECTORY else name


def _is_below(path: str, other: str) -> bool:
    return other == "" or path.startswith(f"{other}/")
