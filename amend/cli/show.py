"""Answers as text that a person reads: verdicts, causes in plain sentences, times.

Summaries, keys, file names and commit subjects are data that somebody else wrote. `clean` takes out
of them what a terminal or a reader's eye would obey: control, bidirectional and invisible
characters.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from amend.formats.api import CauseJson, ChangeJson

COLOURS: Final = {"fresh": "green", "stale": "yellow", "unknown": "magenta", "missing": "red"}

# As `git log --oneline` shows; enough to tell commits apart in most repositories.
OID_CHARS: Final = 7

# Joiners that words of Persian or Hindi and composed emoji need; harmless on their own.
_JOINERS: Final = "\u200c\u200d"


def clean(text: str) -> str:
    """One line, without control, bidirectional and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_cleaned(character) for character in text)


def _cleaned(character: str) -> str:
    if character in "\t\n\r\x0b\x0c\u2028\u2029\x85":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf") and character not in _JOINERS:
        return ""
    return character


def paragraph(text: str, indent: str = "  ") -> str:
    """The text's lines, each clean and indented."""
    return "\n".join(f"{indent}{clean(line)}" for line in text.strip().splitlines())


def verdict_word(verdict: str) -> str:
    return click.style(f"{clean(verdict):7}", fg=COLOURS.get(verdict), bold=True)


def sentence(cause: "CauseJson") -> str:
    """One cause as a sentence: what it is about, what happened, when."""
    source = cause.get("source", "")
    said = _happened(cause)
    return clean(f"{source}: {said}" if source else said)


def _happened(cause: "CauseJson") -> str:
    kind = cause["cause"]
    detail = cause.get("detail", "")
    because = f": {detail}" if detail else ""
    match kind:
        case "edited":
            if cause.get("settled") is False:
                return "changed since"
            return "edited, not committed"
        case "committed":
            return f"committed{_in_commit(cause) or ' since'}"
        case "deleted":
            return f"{detail}, and does not now" if detail else f"deleted{_in_commit(cause)}"
        case "moved":
            return f"moved to {cause.get('moved_to', 'another path')}{_in_commit(cause)}"
        case "appeared":
            return _appeared(cause)
        case "evidence":
            return f"the cited lines changed{because}"
        case "expired":
            rest = "; all its files are still as they were" if cause.get("verified") else ""
            return f"it is too old{because}{rest}"
        case "invalid":
            pointer = cause.get("pointer", "")
            return f"{pointer or 'the entry'} breaks a rule{because}"
        case "unreadable":
            return f"cannot be read{because}"
        case "too_large":
            return f"is too large to check{because}"
        case "no_baseline":
            return detail or "nothing tells what it was like when this was written"
        case "shallow":
            return f"its commit is not in this clone{because}"
        case _:
            return f"{kind}{because}"


def _appeared(cause: "CauseJson") -> str:
    gained, lost = cause.get("gained", []), cause.get("lost", [])
    parts = [f"gained {', '.join(gained)}"] if gained else []
    if lost:
        parts.append(f"lost {', '.join(lost)}")
    if parts:
        return "; ".join(parts)
    if cause.get("source", "").startswith("!"):
        return "exists now; this rests on its absence"
    return "is something else now"


def _in_commit(cause: "CauseJson") -> str:
    commit = cause.get("commit")
    if commit is None:
        return ""
    return f" in {commit['oid'][:OID_CHARS]} '{commit['subject']}' on {commit['author_time'][:10]}"


def reasons(causes: Iterable["CauseJson"], drift: Iterable[str] = ()) -> list[str]:
    said = [sentence(cause) for cause in causes]
    return said + [
        f"{clean(spec)}: changed elsewhere than in the lines this cites" for spec in drift
    ]


def change_line(change: "ChangeJson") -> str:
    """A verdict change as a line of `amend watch`."""
    clock = clean(change["at"][11:19])
    why = "; ".join(sentence(cause) for cause in change["causes"])
    if change["refined"]:
        why = f"now known: {why}"
    elif change["previous"] == "missing":
        why = f"new{f'; {why}' if why else ''}"
    name = f"{change['kind']} {clean(change['key'])}"
    word = verdict_word("gone" if change["verdict"] == "missing" else change["verdict"])
    return f"{clock}  {word}  {name}{f'  {why}' if why else ''}"


def print_json(document: Mapping[str, Any] | list[Any]) -> None:
    """One line where a program reads, indented where a person does; ASCII, so that nothing in it
    acts on a terminal and names that are no UTF-8 survive."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(document, indent=indent))


def plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
