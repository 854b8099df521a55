"""One JSON line an event on stderr, or a readable line where a person looks; and in a file.

Guarantees: one line an event whatever its facts hold, field names of the OpenTelemetry log model,
no event and no fact that `log_events` does not have, private facts only while the level is debug,
what repeats put together (`log_floods`), and that a log nobody can read any more (stderr closed,
its reader gone, a full disk) or nobody reads (a pipe that is full) stops nobody's work. Lines that
found no room are dropped, and their number is told before the next line that does. Level, format,
file and instance can change while the daemon runs: a `Log` asks for them at every event.
"""

import json
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from amend.daemon.log_events import EVENTS, Event
from amend.daemon.log_file import LogFile
from amend.daemon.log_floods import Floods
from amend.daemon.log_traces import trace_of
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

Line = MutableMapping[str, Any]
"""What structlog hands on."""


# Of the log itself: written whatever catalogue and level it has.
_DROPPED: Final = EVENTS["log_lines_dropped"]
_FILE_FAILED: Final = EVENTS["log_file_failed"]
_FILE_RESUMED: Final = EVENTS["log_file_resumed"]
_UNKNOWN: Final = EVENTS["log_event_unknown"]


class UnknownEvent(Exception):
    """The code logs what the catalogue does not have."""


def _now() -> datetime:
    return datetime.now(UTC)


class Log:
    """Events with facts: `log.info("entries_staled", count=3, cause="committed")`."""

    def __init__(
        self,
        version: str = "",
        *,
        fd: int = 2,
        events: Mapping[str, Event] = EVENTS,
        is_strict: bool = False,
        now: Callable[[], datetime] = _now,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_strict`: raise `UnknownEvent` for what `events` does not have (tests); a daemon only
        tells that there was one."""
        self.file: LogFile | None = None
        # Something is held back: `tell_suppressed` shall be called in so many seconds.
        self.on_held: Callable[[float], None] = lambda delay_s: None
        self._version = version
        self._fd = fd
        self._events = events
        self._is_strict = is_strict
        self._now = now
        self._monotonic_s = monotonic_s
        self._floods = Floods()
        self._lines = _Lines(fd)
        self._severity_min = _SEVERITY["info"]
        self._instance = ""
        self._file_problem: str | None = None  # as it was told
        self._to_stderr: Any = None
        self._to_file: Any = None
        self.configure("info", "auto")

    def configure(self, level: str, form: str, instance: str | None = None) -> None:
        """`form`: "json", "console", or "auto": readable where the log is a terminal."""
        self._severity_min = _SEVERITY[level]
        if instance is not None:
            self._instance = instance
        readable = form == "console" or (form == "auto" and _is_terminal(self._fd))
        self._to_stderr = self._logger(
            self._lines, self._console_line if readable else self._json_line
        )

    def use_file(self, file: LogFile | None) -> None:
        """Write JSON lines into it as well from now on."""
        if self.file is not None:
            self.file.close()
        self.file, self._file_problem = file, None
        self._to_file = self._logger(file, self._json_line) if file is not None else None

    def _logger(self, lines: object, last: Callable[[object, str, Line], bytes]) -> Any:
        return structlog.wrap_logger(lines, processors=[last], wrapper_class=structlog.BoundLogger)

    @property
    def problem(self) -> str | None:
        """What is wrong with the log's file, for whoever asks how the daemon is."""
        if self.file is None or self.file.problem is None:
            return None
        return f"the log's file {self.file.path} cannot be written: {self.file.problem}"

    def is_enabled(self, level: str) -> bool:
        return _SEVERITY[level] >= self._severity_min

    def log(self, level: str, event: str, /, **facts: object) -> None:
        """`error=` takes an exception: its type and traceback become facts."""
        spec = self._events.get(event)
        if spec is None or spec.level != level or not facts.keys() <= spec.known:
            self._refuse(level, event, facts)
        elif self.is_enabled(level):
            now_s = self._monotonic_s()
            self._tell(self._floods.take_due(now_s))
            if self._floods.admits(spec, facts, now_s):
                self._write(spec, facts)
            else:
                self.on_held(self._floods.due_s - now_s)

    @property
    def due_in_s(self) -> float | None:
        """When `tell_suppressed` may have something to tell."""
        due_s = self._floods.due_s
        return None if due_s == float("inf") else max(0.0, due_s - self._monotonic_s())

    def _refuse(self, level: str, event: str, facts: Mapping[str, object]) -> None:
        if self._is_strict:
            raise UnknownEvent(f"{level} {event} with {', '.join(facts) or 'no facts'}")
        told = {"event": event}
        if self._floods.admits(_UNKNOWN, told, self._monotonic_s()):
            self._write(_UNKNOWN, told)

    def tell_suppressed(self, *, at_end: bool = False) -> None:
        """What was held back and is due, which nothing else may bring out; all of it `at_end`."""
        due = self._floods.take_all() if at_end else self._floods.take_due(self._monotonic_s())
        self._tell(due)

    def _tell(self, due: list[tuple[Event, dict[str, object]]]) -> None:
        for spec, facts in due:
            if self.is_enabled(spec.level):
                self._write(spec, facts)

    def _write(self, spec: Event, facts: Mapping[str, object]) -> None:
        # The facts travel as one value: whatever they are called, they replace nothing.
        said = self._said(spec, facts)
        at = rfc3339(self._now())
        dropped = self._lines.take_dropped()
        if dropped:
            _tell_dropped(self._to_stderr, dropped, at)
        self._to_stderr.msg(spec.name, level=spec.level, facts=said, at=at)
        if self.file is not None:
            dropped = self.file.take_dropped()
            if dropped:
                _tell_dropped(self._to_file, dropped, at)
            self._to_file.msg(spec.name, level=spec.level, facts=said, at=at)
            self._tell_of_file(self.file)

    def _tell_of_file(self, file: LogFile) -> None:
        """Once when it cannot be written, once when it can."""
        if (file.problem is None) == (self._file_problem is None):
            return
        self._file_problem = file.problem
        if file.problem is not None:
            self._write(_FILE_FAILED, {"reason": file.reason, "path": str(file.path)})
        elif self.is_enabled(_FILE_RESUMED.level):
            self._write(_FILE_RESUMED, {})

    def _said(self, spec: Event, facts: Mapping[str, object]) -> dict[str, object]:
        """What a line may say of `facts`, the exception among them told in words."""
        shows_private = self.is_enabled("debug")
        said: dict[str, object] = {}
        for name, fact in facts.items():
            if name in spec.private and not shows_private:
                continue
            if isinstance(fact, BaseException):
                said["exception.type"], said["exception.stacktrace"] = trace_of(fact)
                if shows_private:
                    said["exception.message"] = str(fact)
            else:
                said[name] = fact
        return said

    def debug(self, event: str, /, **facts: object) -> None:
        self.log("debug", event, **facts)

    def info(self, event: str, /, **facts: object) -> None:
        self.log("info", event, **facts)

    def warning(self, event: str, /, **facts: object) -> None:
        self.log("warning", event, **facts)

    def error(self, event: str, /, **facts: object) -> None:
        self.log("error", event, **facts)

    def _json_line(self, _logger: object, _method: str, event: Line) -> bytes:
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

    def _console_line(self, _logger: object, _method: str, event: Line) -> bytes:
        facts = "".join(f" {name}={_shown(fact)}" for name, fact in event["facts"].items())
        clock = event["at"][11:19]
        return f"{clock} {event['level']:7} {event['event']}{facts}".encode(
            "utf-8", "backslashreplace"
        )


def _tell_dropped(logger: Any, count: int, at: str) -> None:
    logger.msg(_DROPPED.name, level=_DROPPED.level, facts={"count": count}, at=at)


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
