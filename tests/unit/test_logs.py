"""The log: one line an event, whatever the facts hold and whoever reads."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amend.daemon.log_events import Event, Fact
from amend.daemon.log_traces import PLACES_MAX, bug_id, trace_of
from amend.daemon.logs import TEXT_CHARS_MAX, Log, UnknownEvent


def event(name: str, level: str, *facts: str, private: str = "", window_s: float = 0) -> Event:
    told = tuple(Fact(fact, str, "", private=fact in private.split()) for fact in facts)
    return Event(name, level, "", told, window_s)


# What these tests say; `test_log_events` has the daemon's.
EVENTS = {
    each.name: each
    for each in (
        event("entries_staled", "warning", "count", "cause"),
        *(event(name, "debug") for name in ("before", "between", "hidden")),
        *(event(name, "info", "n") for name in ("counted", "first", "second", "dropped", "last")),
        event("daemon_ready", "info", "repos", "socket"),
        event("odd", "info", *("fact", "timestamp", "at", "facts", "event", "level")),
        event("seen", "info", "path"),
        event("long", "info", "text"),
        event("secretive", "info", "count", "root", private="root"),
        event("bug", "error", "error"),
    )
}


def logging_to(pipe: "Pipe", version: str = "", level: str = "info") -> Log:
    log = Log(version, fd=pipe.write_fd, events=EVENTS, is_strict=True)
    log.configure(level, "auto")
    return log


class Pipe:
    """A log's reader."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)

    def text(self, bytes_max: int = 1 << 20) -> str:
        try:
            return os.read(self.read_fd, bytes_max).decode()
        except BlockingIOError:
            return ""

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


class SocketPair(Pipe):
    """As systemd gives a service for its stderr."""

    def __init__(self) -> None:
        reader, writer = socket.socketpair()
        self.read_fd, self.write_fd = reader.detach(), writer.detach()
        os.set_blocking(self.read_fd, False)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.read_fd)
    os.close(made.write_fd)


@pytest.fixture(params=[Pipe, SocketPair])
def unread(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    """Where nobody reads until the test does."""
    made = request.param()
    yield made
    os.close(made.read_fd)
    os.close(made.write_fd)


def test_an_event_is_one_json_line_in_the_words_of_opentelemetry(pipe: Pipe) -> None:
    log = logging_to(pipe, "0.1.0")
    log.configure("info", "json", "abc123")

    log.warning("entries_staled", count=3, cause="committed")

    (event,) = pipe.events()
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "severity_text": "WARNING",
        "severity_number": 13,
        "event.name": "entries_staled",
        "service.name": "amend",
        "service.version": "0.1.0",
        "service.instance.id": "abc123",
        "process.pid": os.getpid(),
        "count": 3,
        "cause": "committed",
    }


def test_the_level_changes_at_run_time_for_a_log_already_handed_out(pipe: Pipe) -> None:
    log = logging_to(pipe)
    debug = log.debug

    debug("before")
    log.configure("debug", "json")
    debug("between")
    log.configure("error", "json")
    debug("hidden")

    assert [event["event.name"] for event in pipe.events()] == ["between"]


def test_the_format_changes_at_run_time(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.configure("info", "console")
    log.info("daemon_ready", repos=2, socket="/run/a b")

    assert pipe.text().partition(" ")[2] == "info    daemon_ready repos=2 socket='/run/a b'\n"


def test_a_pipe_is_no_terminal_so_auto_gives_json(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.info("daemon_ready")

    assert pipe.events()[0]["event.name"] == "daemon_ready"


@pytest.mark.parametrize(
    "fact",
    [
        "caf\udce9.py",
        b"caf\xe9.py",
        2**80,
        float("nan"),
        {"nested": ["\udcff"]},
        {1: 2, (3,): 4},
        object(),
        "two\nlines\x1b[31m\u202e",
        "x" * (TEXT_CHARS_MAX * 4),
        None,
    ],
)
@pytest.mark.parametrize("form", ["json", "console"])
def test_any_fact_gives_exactly_one_line(pipe: Pipe, form: str, fact: object) -> None:
    log = logging_to(pipe)
    log.configure("info", form)

    log.info("odd", fact=fact)

    line, end, rest = pipe.text().partition("\n")
    assert "odd" in line
    assert (end, rest) == ("\n", "")
    assert len(line) < TEXT_CHARS_MAX * 2
    assert form == "json" or line.isprintable()


def test_a_path_that_is_no_utf8_can_be_read_back(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.info("seen", path=b"caf\xe9.py")

    assert os.fsencode(pipe.events()[0]["path"]) == b"caf\xe9.py"


def test_a_fact_named_like_a_field_of_the_line_replaces_nothing(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.info("odd", timestamp="mine", at="here", facts="few", event="e", level="l")

    (event,) = pipe.events()
    assert event["fact.timestamp"] == "mine"
    assert [event[name] for name in ("at", "facts", "event", "level")] == ["here", "few", "e", "l"]
    assert event["timestamp"] != "mine"


def raised() -> Exception:
    try:
        try:
            open("/nowhere/of/mine")  # noqa: SIM115
        except OSError as error:
            raise KeyError("what somebody said") from error
    except KeyError as error:
        return error


def test_an_error_is_told_by_its_kind_and_the_places_in_code_alone(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.error("bug", error=raised())

    (told,) = pipe.events()
    assert told["exception.type"] == "KeyError"
    assert re.fullmatch(
        r"KeyError\n  unit/test_logs.py:\d+ in raised\n"
        r"from: FileNotFoundError\(ENOENT\)\n  unit/test_logs.py:\d+ in raised",
        told["exception.stacktrace"],
    )
    assert "somebody" not in json.dumps(told)
    assert "mine" not in json.dumps(told)


def test_while_the_level_is_debug_an_error_is_told_with_its_message(pipe: Pipe) -> None:
    log = logging_to(pipe, level="debug")

    log.error("bug", error=raised())

    assert pipe.events()[0]["exception.message"] == "'what somebody said'"


def test_private_facts_are_told_while_the_level_is_debug_and_not_before(pipe: Pipe) -> None:
    log = logging_to(pipe)

    log.info("secretive", count=1, root="/home/ada/shop")
    log.configure("debug", "json")
    log.info("secretive", count=2, root="/home/ada/shop")

    first, second = pipe.events()
    assert (first["count"], "root" in first) == (1, False)
    assert (second["count"], second["root"]) == (2, "/home/ada/shop")


@pytest.mark.parametrize(
    ("level", "name", "facts"),
    [("info", "never_heard_of", {}), ("error", "seen", {}), ("info", "seen", {"summary": "mine"})],
)
def test_what_the_catalogue_does_not_have_is_refused(
    pipe: Pipe, level: str, name: str, facts: dict[str, str]
) -> None:
    strict, daemons = logging_to(pipe), Log(fd=pipe.write_fd, events=EVENTS)

    with pytest.raises(UnknownEvent):
        strict.log(level, name, **facts)
    daemons.log(level, name, **facts)

    (told,) = pipe.events()
    assert (told["event.name"], told["event"]) == ("log_event_unknown", name)
    assert "mine" not in json.dumps(told)


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise ValueError


def test_a_deep_recursion_is_told_by_its_two_ends(pipe: Pipe) -> None:
    log = logging_to(pipe)

    try:
        deep(500)
    except ValueError as error:
        log.error("bug", error=error)

    trace = pipe.events()[0]["exception.stacktrace"].splitlines()
    assert len(trace) == PLACES_MAX + 2
    assert trace[1].endswith("in test_a_deep_recursion_is_told_by_its_two_ends")
    assert f"  … {502 - PLACES_MAX} more" in trace


def test_the_same_mistake_has_the_same_id_and_another_one_another() -> None:
    first, again = raised(), raised()

    assert bug_id(first) == bug_id(again)
    assert bug_id(first) != bug_id(ValueError())


def test_parts_of_a_group_and_circles_of_causes_are_told_once() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    group = ExceptionGroup("both", [one, two])

    kind, trace = trace_of(group)

    assert kind == "ExceptionGroup"
    assert trace == "ExceptionGroup\npart: ValueError\npart: KeyError"


def _closed() -> int:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    os.close(write_fd)
    return write_fd


def _unread() -> int:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    return write_fd


@pytest.mark.parametrize("make", [_closed, _unread, lambda: os.open("/dev/full", os.O_WRONLY)])
def test_a_log_that_nobody_can_read_stops_nobody(make: Callable[[], int]) -> None:
    if make not in (_closed, _unread) and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    log = Log(fd=make(), events=EVENTS)

    log.info("daemon_ready")


def test_logging_does_not_import_rich() -> None:
    code = "import sys, amend.daemon.logs; print(sorted(m for m in sys.modules if m[:4] == 'rich'))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


# More than a pipe (64 KiB) or a socket (about 200 KiB, as the kernel counts) takes.
MANY = 5000


def read_all(reader: Pipe) -> list[dict[str, Any]]:
    text = ""
    while more := reader.text():
        text += more
    return [json.loads(line) for line in text.splitlines()]


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event.name"] for event in events]


def test_lines_that_nobody_reads_are_dropped_and_counted_once_there_is_room(unread: Pipe) -> None:
    log = logging_to(unread)

    for n in range(MANY):
        log.info("counted", n=n)
    before = read_all(unread)
    log.info("last")
    after = read_all(unread)

    assert [event["n"] for event in before] == list(range(len(before)))
    assert 0 < len(before) < MANY
    assert names(after) == ["log_lines_dropped", "last"]
    assert after[0]["count"] == MANY - len(before)
    assert after[0]["severity_text"] == "WARNING"


def test_a_second_loss_is_counted_by_itself(unread: Pipe) -> None:
    log = logging_to(unread)
    for _ in range(MANY):
        log.info("first")
    read_all(unread)

    for _ in range(MANY):
        log.info("second")
    kept = names(read_all(unread))
    log.info("last")
    after = read_all(unread)

    assert kept.count("log_lines_dropped") == 1
    assert after[0]["count"] == MANY - kept.count("second")


def test_a_line_that_was_begun_is_ended_before_another_begins(unread: Pipe) -> None:
    log = logging_to(unread)
    long = "x" * TEXT_CHARS_MAX

    for _ in range(MANY):
        log.info("long", text=long)
    text = unread.text()
    log.info("last")
    text += "".join(iter(unread.text, ""))

    events = [json.loads(line) for line in text.splitlines()]
    assert names(events)[-2:] == ["log_lines_dropped", "last"]
    assert {event["text"] for event in events[:-2]} == {long}
    assert events[-2]["count"] == MANY - len(events[:-2])


def test_room_for_less_than_a_begun_line_ends_nothing(pipe: Pipe) -> None:
    log = logging_to(pipe)
    for _ in range(MANY):
        log.info("long", text="x" * TEXT_CHARS_MAX)

    text = pipe.text(4096)
    log.info("dropped")
    text += "".join(iter(pipe.text, ""))
    log.info("last")
    text += "".join(iter(pipe.text, ""))

    events = [json.loads(line) for line in text.splitlines()]
    assert "dropped" not in names(events)
    assert events[-2]["count"] == MANY + 1 - len(events[:-2])


def test_a_level_that_hides_warnings_does_not_hide_a_loss(unread: Pipe) -> None:
    log = logging_to(unread)
    log.configure("error", "json")
    for _ in range(MANY):
        log.error("bug")
    read_all(unread)

    log.debug("hidden")
    hidden = read_all(unread)
    log.error("bug")

    assert hidden == []
    assert names(read_all(unread)) == ["log_lines_dropped", "bug"]


def test_a_change_of_format_forgets_no_loss(unread: Pipe) -> None:
    log = logging_to(unread)
    for _ in range(MANY):
        log.info("first")
    lost = MANY - len(read_all(unread))

    log.configure("info", "console")
    log.info("last")

    assert f"log_lines_dropped count={lost}\n" in unread.text()


def test_the_descriptor_stays_as_whoever_shares_it_knows_it(unread: Pipe) -> None:
    log = logging_to(unread)

    log.info("daemon_ready")

    assert os.get_blocking(unread.write_fd)


def test_a_file_takes_everything(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        log = Log(fd=file.fileno(), events=EVENTS)

        for _ in range(MANY):
            log.info("counted")

    assert path.read_text().count("\n") == MANY
