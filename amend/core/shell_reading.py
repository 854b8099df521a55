"""Which files a Bash command line looked into, from its text and from what it printed.

`files_read` goes by the text alone (see `shell_line`); `hits_in` takes `path:line:` from an output;
`reads_in` does both and minds what the output says of the files, as that they do not exist.

Everything here is a guess (`Read.is_guess`): a named path may be a directory, or nothing at all.
Guarantees: never raises; time is linear in the texts, which are bounded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from amend.core.explored import Read
from amend.core.shell_line import followed, joined
from amend.core.shell_words import TEXT_CHARS_MAX

# Claude Code shows 30,000 characters of an output and Codex less.
OUTPUT_CHARS_MAX: Final = 1 << 20

# A search that finds more says where nothing is; an entry cannot rest on so many lines.
HITS_MAX: Final = 1000

_COMPLAINTS_MAX: Final = 64
_HIT: Final = re.compile(r"([^:\x00-\x1f\x7f]{1,1024}):([0-9]{1,7}):")
_COMPLAINT: Final = re.compile(r"[\w.\[\] /+-]{1,80}: ")  # `cat: `, `[bat error]: `
_LETTER: Final = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    line: int


def files_read(command: str, cwd: str) -> tuple[Read, ...]:
    """The looks of a command line that is run in `cwd`, each once, in their order.

    Paths are absolute, or relative where `cwd` is "" or relative.
    """
    return tuple(dict.fromkeys(look.read for look in followed(command, cwd).looks))


def hits_in(output: str, cwd: str) -> tuple[Hit, ...]:
    """What the lines that begin with `path:line:` name, each once, at most `HITS_MAX`."""
    hits: dict[Hit, None] = {}
    for line in output[:OUTPUT_CHARS_MAX].splitlines():
        match = _HIT.match(line)
        if match is None or not int(match[2]) or not _may_be_path(match[1]):
            continue
        path = joined(cwd, match[1])
        if path is not None:
            hits[Hit(path, int(match[2]))] = None
        if len(hits) >= HITS_MAX:
            break
    return tuple(hits)


def reads_in(command: str, output: str, cwd: str, at: datetime | None) -> tuple[Read, ...]:
    """What the command line looked into, as far as its output agrees, and what the output shows.

    A path of which the output says that it does not exist has `failed`; one of which it says that
    it is a directory, or closed to the reader, was not read. A search's hits are looks at one line.
    """
    line = followed(command, cwd)
    absent, closed = _complaints(output)
    reads: dict[Read, None] = {}
    for look in line.looks:
        if _is_named(look.given, closed):
            continue
        if not _is_named(look.given, absent):
            reads[replace(look.read, at=at)] = None
        elif not look.read.is_glob:
            reads[Read(look.read.path, at=at, failed=True, is_guess=True)] = None
    for directory in line.shown_from:
        for hit in hits_in(output, directory):
            reads[Read(hit.path, hit.line, hit.line, at, is_guess=True)] = None
    return tuple(reads)


def _may_be_path(text: str) -> bool:
    """Not a time, an address, a drive letter or the beginning of a sentence."""
    if len(text) < 2 or text != text.strip() or not _LETTER.search(text):
        return False
    return "/" in text or (" " not in text and (text[0].isalpha() or text[0] in "._"))


# -- what an output says of the files ----------------------------------------------------------


def _complaints(output: str) -> tuple[list[str], list[str]]:
    """Lines that say that something does not exist, and that something cannot be read."""
    absent: list[str] = []
    closed: list[str] = []
    for line in output[:OUTPUT_CHARS_MAX].splitlines():
        if not _COMPLAINT.match(line):
            continue
        found = absent if "o such file or directory" in line else closed
        if found is closed and not any(words in line for words in _CLOSED):
            continue
        if len(found) < _COMPLAINTS_MAX and len(line) <= 2 * TEXT_CHARS_MAX:
            found.append(line)
    return absent, closed


_CLOSED: Final = ("Is a directory", "is a directory", "Permission denied", "Not a directory")


def _is_named(given: str, lines: Iterable[str]) -> bool:
    """Whether a line names the path itself, not another that it is a part of."""
    for line in lines:
        at = line.find(given)
        before, after = line[at - 1 : at] if at > 0 else "", line[at + len(given) :][:1]
        if at >= 0 and before in _BESIDE and after in _BESIDE:
            return True
    return False


_BESIDE: Final = ("", " ", ":", "'", '"', "`", "‘", "’")
