"""What the service manager is told, message by message, and when it has not asked."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.edge.service_notify import Notifier, take_notifier


@pytest.fixture
def heard() -> Iterator[Callable[[], str]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address())
        manager.settimeout(10)
        yield lambda: manager.recv(1000).decode()


def address() -> str:
    return os.environ["XDG_RUNTIME_DIR"] + "/notify"


def test_each_state_is_one_message(heard: Callable[[], str]) -> None:
    notifier = Notifier(address())

    notifier.ready("all is well")
    notifier.status("1")
    notifier.alive()
    notifier.stopping()

    said = [heard() for _ in range(4)]
    assert said == ["READY=1\nSTATUS=all is well", "STATUS=1", "WATCHDOG=1", said[3]]
    assert said[3].startswith("STOPPING=1\n")


def test_a_reload_carries_the_time_of_the_managers_clock(heard: Callable[[], str]) -> None:
    before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000

    Notifier(address()).reloading()

    first, second = heard().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) >= before_us


def test_a_line_end_in_a_text_assigns_nothing(heard: Callable[[], str]) -> None:
    Notifier(address()).ready("bad config\nMAINPID=1\rFDSTORE=1")

    assert heard() == "READY=1\nSTATUS=bad config MAINPID=1 FDSTORE=1"


@pytest.mark.parametrize("where", ["/nonexistent/notify", "@amend-nobody", "vsock:2:3", "/", ""])
def test_telling_nobody_is_no_error(where: str) -> None:
    take_notifier({"NOTIFY_SOCKET": where}).ready("well")


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("300000000", "own", 300.0),
        ("300000000", "", 300.0),
        ("300000000", "1", None),
        ("0", "own", None),
        ("", "own", None),
        ("-5", "own", None),
        ("x", "own", None),
    ],
)
def test_the_watchdogs_wish_is_heard_where_it_is_for_this_process(
    usec: str, pid: str, expected: float | None
) -> None:
    whose = str(os.getpid()) if pid == "own" else pid
    env = {"NOTIFY_SOCKET": "/x/y", "WATCHDOG_USEC": usec, "WATCHDOG_PID": whose}

    assert take_notifier(env).watchdog_s == expected


def test_without_a_socket_there_is_no_watchdog() -> None:
    assert take_notifier({"WATCHDOG_USEC": "5"}).watchdog_s is None


def test_children_hear_nothing_of_the_manager(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, "1")

    take_notifier(os.environ)

    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys()
