"""One JSON line an event on stderr, or a readable line where a person looks.

Guarantees: one line an event whatever its facts hold, field names of the OpenTelemetry log model,
and that a log nobody can read any more (stderr closed, its reader gone) or nobody reads (a pipe
that is full) stops nobody's work. Lines that a full pipe does not take are dropped, and their
number is told before the next line it does take. Level, format and instance can change while the
daemon runs: a `Log` asks for them at every event.
"""

import io
import json
import os
import select
import stat
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from amend.formats.times import rfc3339


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """The module cannot be imported inside, unless it already was."""
    known = name in sys.modules
    if not known:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if not known:
            del sys.modules[name]


# structlog imports rich where it is installed, for tracebacks that amend never prints: measured at
# 4 MiB and 80 ms of the daemon's start.
with _hidden("rich"):
    import structlog

# Source: OpenTelemetry log data model, SeverityNumber.
_SEVERITY: Final = {"debug": 5, "info": 9, "warning": 13, "error": 17}

# A traceback of a deep recursion is 100 KB; what matters is at its two ends.
TEXT_CHARS_MAX: Final = 8192

Event = MutableMapping[str, Any]


class Log:
    """Events with facts: `log.info("entries_staled", count=3, cause="committed")`."""

    def __init__(self, version: str = "", *, fd: int = 2) -> None:
        self._version = version
        self._fd = fd
        self._lines = _Lines(fd)
        self._severity_min = _SEVERITY["info"]
        self._instance = ""
        self._logger: Any = None
        self.configure("info", "auto")

    def configure(self, level: str, form: str, instance: str | None = None) -> None:
        """`form`: "json", "console", or "auto": readable where the log is a terminal."""
        self._severity_min = _SEVERITY[level]
        if instance is not None:
            self._instance = instance
        readable = form == "console" or (form == "auto" and _is_terminal(self._fd))
        self._logger = structlog.wrap_logger(
            self._lines,
            processors=[_with_error, self._console_line if readable else self._json_line],
            wrapper_class=structlog.BoundLogger,
        )

    def is_enabled(self, level: str) -> bool:
        return _SEVERITY[level] >= self._severity_min

    def log(self, level: str, event: str, /, **facts: object) -> None:
        """`error=` takes an exception: its type, message and traceback become facts."""
        if self.is_enabled(level):
            dropped = self._lines.take_dropped()
            if dropped:
                self._write("warning", "log_lines_dropped", {"count": dropped})
            self._write(level, event, facts)

    def _write(self, level: str, event: str, facts: dict[str, object]) -> None:
        # The facts travel as one value: whatever they are called, they replace nothing.
        self._logger.msg(event, level=level, facts=facts, at=rfc3339(datetime.now(UTC)))

    def debug(self, event: str, /, **facts: object) -> None:
        self.log("debug", event, **facts)

    def info(self, event: str, /, **facts: object) -> None:
        self.log("info", event, **facts)

    def warning(self, event: str, /, **facts: object) -> None:
        self.log("warning", event, **facts)

    def error(self, event: str, /, **facts: object) -> None:
        self.log("error", event, **facts)

    def _json_line(self, _logger: object, _method: str, event: Event) -> bytes:
        level = event["level"]
        line: dict[str, object] = {
            "timestamp": event["at"],
            "severity_text": level.upper(),
            "severity_number": _SEVERITY[level],
            "event.name": event["event"],
            "service.name": "amend",
            "service.version": self._version,
            "service.instance.id": self._instance,
            "process.pid": os.getpid(),
        }
        for name, fact in event["facts"].items():
            line[f"fact.{name}" if name in line else name] = _plain(fact)
        try:
            return orjson.dumps(line, default=repr)
        except (orjson.JSONEncodeError, RecursionError):
            # A path that is no UTF-8, a number beyond 64 bits. ASCII can say both.
            return json.dumps(line, default=repr, skipkeys=True).encode("ascii")

    def _console_line(self, _logger: object, _method: str, event: Event) -> bytes:
        facts = "".join(f" {name}={_shown(fact)}" for name, fact in event["facts"].items())
        clock = event["at"][11:19]
        return f"{clock} {event['level']:7} {event['event']}{facts}".encode(
            "utf-8", "backslashreplace"
        )


class _Lines:
    """Where structlog's lines end: whole lines on a descriptor, in order.

    A pipe or socket whose reader has stopped is never waited for: a line that finds no room is
    dropped, the rest of one that was begun goes before the next. The descriptor stays blocking,
    since its other holders (a terminal's shell among them) would get that changed as well; so one
    of them could still fill the last room between the look and the write.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ready = _readiness(fd)
        self._rest = memoryview(b"")
        self._dropped = 0

    def msg(self, line: bytes) -> None:
        if self._has_room():
            self._rest = memoryview(line + b"\n")
            self._send()
        else:
            self._dropped += 1

    def take_dropped(self) -> int:
        """How many lines were dropped, once there is room to say so; then they are forgotten."""
        if not self._dropped or not self._has_room():
            return 0
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _has_room(self) -> bool:
        self._send()
        return not self._rest and self._is_ready()

    def _send(self) -> None:
        while self._rest and self._is_ready():
            # A pipe that is ready takes this many bytes without blocking.
            some = self._rest if self._ready is None else self._rest[: select.PIPE_BUF]
            try:
                self._rest = self._rest[os.write(self._fd, some) :]
            except OSError:
                # A reader that has gone, a full disk, a closed stderr: nowhere left to say so.
                self._rest = memoryview(b"")

    def _is_ready(self) -> bool:
        return self._ready is None or bool(self._ready.poll(0))


def _readiness(fd: int) -> "select.poll | None":
    """Tells whether a pipe or socket has room; None for what takes all (a file, a terminal)."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    ready = select.poll()
    ready.register(fd, select.POLLOUT)
    return ready


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _with_error(_logger: object, _method: str, event: Event) -> Event:
    error = event["facts"].get("error")
    if isinstance(error, BaseException):
        text = io.StringIO()
        traceback.print_exception(error, file=text)
        event["facts"] = {name: f for name, f in event["facts"].items() if name != "error"} | {
            "exception.type": type(error).__qualname__,
            "exception.message": str(error),
            "exception.stacktrace": text.getvalue(),
        }
    return event


def _plain(fact: object) -> object:
    if isinstance(fact, bytes):  # a path
        return _cut(os.fsdecode(fact))
    return _cut(fact) if isinstance(fact, str) else fact


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]} … {text[-half:]}"


def _shown(fact: object) -> str:
    plain = _plain(fact)
    if isinstance(plain, str):
        return plain if plain.isprintable() and plain and " " not in plain else ascii(plain)
    return str(plain) if isinstance(plain, int | float | None) else ascii(plain)
