"""amend's log, read back: from systemd's journal, or from the file where no journal takes it.

Each line is what the daemon wrote, one JSON object; around it, in the journal, is what systemd says
about the service and what Python says before the log begins. Such lines have no object, and a
severity all the same. Nothing here is trusted: another program may have written it.
"""

import contextlib
import itertools
import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from amend.errors import Unavailable, reason_of

# Source: OpenTelemetry log data model, SeverityNumber; the journal's own are syslog's.
SEVERITIES: Final = {"debug": 5, "info": 9, "warning": 13, "error": 17}
_OF_PRIORITY: Final = (21, 21, 21, 17, 13, 10, 9, 5)

# A line of the log is cut by whoever writes it; more than this is none.
LINE_BYTES_MAX: Final = 256 << 10

# How often a file that somebody follows is looked at; a person sees no difference.
FOLLOW_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Line:
    """`document`: what the daemon wrote, or None for a line that is `text` alone."""

    text: str
    document: dict[str, Any] | None
    severity: int
    at: datetime | None


def line_of(text: str, *, severity: int = SEVERITIES["info"], at: datetime | None = None) -> Line:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Line(text, None, severity, at)
    number = document.get("severity_number")
    return Line(
        text,
        document,
        number if isinstance(number, int) else severity,
        _time(document.get("timestamp")) or at,
    )


def _time(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


# -- the journal ---------------------------------------------------------------------------------


def from_journal(
    unit: str, *, since: datetime | None, follows: bool, last: int | None
) -> Iterator[Line]:
    """Oldest first, `last` of them before it follows. Raises `Unavailable`: no journal here."""
    words = ["journalctl", "--user", "--unit", unit, "--output=json", "--all", "--quiet"]
    words += ["--no-pager", "--output-fields=MESSAGE,PRIORITY"]
    if since is not None:
        words.append(f"--since=@{int(since.timestamp())}")
    if follows:
        words += ["--follow", f"--lines={last if last is not None else 'all'}"]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise Unavailable(f"journalctl: {reason_of(error)}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        for record in process.stdout:
            line = _from_record(record)
            if line is not None:
                yield line
        if process.wait() != 0:
            said = process.stderr.read(4096).decode("utf-8", "replace").strip().splitlines()
            raise Unavailable(f"journalctl: {said[-1] if said else 'it failed'}")
    finally:
        process.kill()  # does nothing to one that has ended
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _from_record(record: bytes) -> Line | None:
    try:
        fields = json.loads(record)
        message = fields["MESSAGE"]
        if isinstance(message, list):  # bytes that are no UTF-8
            message = bytes(message).decode("utf-8", "replace")
        priority = int(fields.get("PRIORITY", 6))
        at = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError):
        return None
    severity = _OF_PRIORITY[priority] if 0 <= priority < len(_OF_PRIORITY) else 9
    return line_of(message, severity=severity, at=at) if isinstance(message, str) else None


# -- the file ------------------------------------------------------------------------------------


def from_files(
    path: Path, *, follows: bool, last: int | None, wait: Callable[[float], None]
) -> Iterator[Line]:
    """`path.N`, …, `path.1` and `path`, oldest first. Following, it notices a rotation.

    `last`: so many of what is there already; `wait` is called where nothing new is there yet.
    """
    file = _open(path)
    try:
        older = (line for each in _rotated(path) for line in _lines(each))
        present = itertools.chain(older, map(line_of, _whole_lines(file)))
        yield from present if last is None else deque(present, maxlen=last)
        while follows:
            some = [line_of(text) for text in _whole_lines(file)]
            yield from some
            if some:
                continue
            if _is_replaced(path, file):
                before, file = file, _open(path)
                before.close()
            elif os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # somebody has cut it short
            else:
                wait(FOLLOW_S)
    finally:
        file.close()


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise Unavailable(f"{path}: {reason_of(error)}") from error


def _rotated(path: Path) -> list[Path]:
    """Oldest first."""
    numbered = re.compile(re.escape(path.name) + r"\.([0-9]{1,3})")
    found = [
        (int(match[1]), path.with_name(name))
        for name in os.listdir(path.parent)
        if (match := numbered.fullmatch(name))
    ]
    return [each for _, each in sorted(found, reverse=True)]


def _lines(path: Path) -> Iterator[Line]:
    with contextlib.suppress(OSError), path.open("rb") as file:  # rotated away meanwhile
        yield from (line_of(text) for text in _whole_lines(file))


def _whole_lines(file: BinaryIO) -> Iterator[str]:
    """What is left to read; of a line that is only half there, nothing yet."""
    while line := file.readline(LINE_BYTES_MAX):
        if not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode("utf-8", "replace").rstrip("\n")


def _is_replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False  # between two names of a rotation there is none
