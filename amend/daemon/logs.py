"""One JSON line an event on stderr, or a readable line where a person looks.

Guarantees: one line an event whatever its facts hold, field names of the OpenTelemetry log model,
and that a log nobody can read any more (stderr closed, its reader gone) stops nobody's work. Level,
format and instance can change while the daemon runs: a `Log` asks for them at every event.
"""

import io
import json
import os
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
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
            _Lines(self._fd),
            processors=[_with_error, self._console_line if readable else self._json_line],
            wrapper_class=structlog.BoundLogger,
        )

    def is_enabled(self, level: str) -> bool:
        return _SEVERITY[level] >= self._severity_min

    def log(self, level: str, event: str, /, **facts: object) -> None:
        """`error=` takes an exception: its type, message and traceback become facts."""
        if self.is_enabled(level):
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
    """Where structlog's lines end: whole lines on a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def msg(self, line: bytes) -> None:
        # A reader that has gone, a full disk, a closed stderr: there is nowhere left to say so.
        with suppress(OSError):
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[os.write(self._fd, rest) :]


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
