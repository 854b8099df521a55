"""A real daemon under a stand-in for the service manager: what it tells, and when it stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.running import Daemon
from tests.conftest import Repository

# Far beyond what anything here takes; only a broken daemon meets it.
WAIT_S = 30.0

# A ping each 0.2 s. A busy machine is late, never early: all that is asserted of pings is that they
# come, or that none comes in `SILENCE_S`, which is many times as long.
WATCHDOG_USEC = 400_000
SILENCE_S = 1.0

# A daemon whose hooks freeze the loop (until the pipe's writer has gone) or its watch.
FREEZABLE = """
import json, os
from amend.daemon.run import run_daemon
from amend.edge.watch.inotify import Inotify

began = []
start = Inotify.start

def started(self, loop, touched):
    began.append((self, loop, touched))
    start(self, loop, touched)

Inotify.start = started

async def exchange(agent, body):
    what = json.loads(body)["freeze"]
    if what == "loop":
        with open(os.environ["PIPE"]) as pipe:
            pipe.read()
    for watch, loop, touched in began:
        if what == "watch":
            loop.remove_reader(watch._kernel.fd)
        elif what == "nothing":
            start(watch, loop, touched)
    return b"{}"

run_daemon(os.environ, exchange)
"""


class ServiceManager:
    """The socket of a service manager that hears what one daemon tells it."""

    def __init__(self, base: Path) -> None:
        self.path = base / "notify"
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(self.path))

    def heard(self, within_s: float = WAIT_S) -> dict[str, str] | None:
        """The next message; None when none came."""
        self.sock.settimeout(within_s)
        try:
            text = self.sock.recv(4096).decode()
        except (TimeoutError, BlockingIOError):
            return None
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def next_with(self, name: str) -> dict[str, str]:
        while (message := self.heard()) is not None:
            if name in message:
                return message
        raise AssertionError(f"{name} was never told")

    def pending(self) -> list[dict[str, str]]:
        return [*iter(lambda: self.heard(0), None)]

    def all_within(self, seconds: float) -> list[dict[str, str]]:
        until_s = time.monotonic() + seconds
        heard = []
        while (left_s := until_s - time.monotonic()) > 0:
            message = self.heard(left_s)
            if message is not None:
                heard.append(message)
        return heard


@pytest.fixture
def manager() -> Iterator[ServiceManager]:
    made = ServiceManager(Path(os.environ["XDG_RUNTIME_DIR"]))
    yield made
    made.sock.close()


@contextmanager
def managed(daemon: Daemon, manager: ServiceManager, **env: str) -> Iterator[subprocess.Popen]:
    """`daemon` started by `manager`. Nobody waits for it; whoever does hears it tell."""
    with open(daemon.log_path, "ab") as log:
        daemon.process = subprocess.Popen(
            daemon.command,
            env={**daemon.env, "NOTIFY_SOCKET": str(manager.path), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield daemon.process
    finally:
        daemon.close()


def ask(daemon: Daemon, document: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_S)
        client.connect(str(daemon.runtime / "hooks/claude.sock"))
        client.sendall(document)
        return client.recv(100)


def test_it_says_ready_when_queries_work_and_not_before(
    tmp_path: Path, manager: ServiceManager, git: Callable[..., Repository]
) -> None:
    repo = git("shop", {"a.py": "one\n", ".gitignore": ".agent-cache.json\n"})
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    entry = {"ts": stamp, "summary": "in a.py", "files": ["a.py"]}
    repo.write(".agent-cache.json", json.dumps({"topics": {"auth": entry}}))
    daemon = Daemon(tmp_path / "base")
    config = daemon.base / "config.toml"
    config.unlink()
    os.mkfifo(config)  # the daemon cannot start before somebody has written its configuration

    with managed(daemon, manager) as process:
        with config.open("w") as pipe:  # returns when the daemon reads
            early = manager.heard(0)
            is_bound = daemon.socket.exists()
            pipe.write(f'[[repo]]\nroot = "{repo.root}"\n')
        ready = manager.heard()
        answer = daemon.lookup(repo.root, "auth")
        process.send_signal(signal.SIGTERM)
        stopping = manager.heard()

    assert (early, is_bound) == (None, False)
    assert ready == {"READY": "1", "STATUS": "worktrees: 1, entries: 1"}
    assert answer["entry"]["summary"] == "in a.py"
    assert stopping is not None
    assert stopping["STOPPING"] == "1"


def test_a_reload_is_told_with_its_time_and_what_is_wrong(
    tmp_path: Path, manager: ServiceManager
) -> None:
    daemon = Daemon(tmp_path / "base", config='[daemon]\nlog_level = "info"\n')
    config = daemon.base / "config.toml"

    with managed(daemon, manager) as process:
        manager.next_with("READY")
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        process.send_signal(signal.SIGHUP)
        told = [manager.heard(), manager.heard()]
        config.write_text('[daemon]\nlog_level = "loud"\n')
        again = [manager.next_with("RELOADING"), manager.next_with("READY")]
        while "log_level" not in again[-1]["STATUS"]:  # an editor's save may be told as two
            again.append(manager.next_with("READY"))
        watchdog = [m for m in (*told, *again, *manager.pending()) if m and "WATCHDOG" in m]

    assert told[0] is not None
    assert told[0]["RELOADING"] == "1"
    assert int(told[0]["MONOTONIC_USEC"]) >= before_us
    assert told[1] == {"READY": "1", "STATUS": "worktrees: 0, entries: 0"}
    assert "must be" in again[-1]["STATUS"]
    assert watchdog == []  # nobody asked for it


def test_pings_stop_while_the_loop_is_frozen_and_while_the_watch_is(
    tmp_path: Path, manager: ServiceManager
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    daemon = Daemon(tmp_path / "base")
    daemon.command = [sys.executable, "-c", FREEZABLE]

    with managed(daemon, manager, WATCHDOG_USEC=str(WATCHDOG_USEC), PIPE=str(pipe)):
        manager.next_with("READY")
        manager.next_with("WATCHDOG")
        with socket.socket(socket.AF_UNIX) as hook:
            hook.connect(str(daemon.runtime / "hooks/claude.sock"))
            hook.sendall(b'{"freeze": "loop"}')
            with pipe.open("w"):  # returns when the loop waits for what is written
                manager.pending()
                with_frozen_loop = manager.all_within(SILENCE_S)
        after_loop = manager.next_with("WATCHDOG")

        ask(daemon, b'{"freeze": "watch"}')
        with_frozen_watch = manager.all_within(SILENCE_S)
        ask(daemon, b'{"freeze": "nothing"}')
        after_watch = manager.next_with("WATCHDOG")

    events = [line["event.name"] for line in daemon.log()]
    assert with_frozen_loop == []
    assert after_loop == {"WATCHDOG": "1"}
    # What was under way when the watch froze may have been proven already.
    assert len(with_frozen_watch) <= 1
    assert after_watch == {"WATCHDOG": "1"}
    # A busy machine may be late by itself as well, and says so likewise.
    assert events.count("watchdog_withheld") == events.count("watchdog_resumed") >= 1


def test_pings_go_on_when_the_file_of_the_self_test_is_tidied_away(
    tmp_path: Path, manager: ServiceManager
) -> None:
    daemon = Daemon(tmp_path / "base")

    with managed(daemon, manager, WATCHDOG_USEC=str(WATCHDOG_USEC)):
        manager.next_with("WATCHDOG")
        for path in (daemon.base / "state/watchdog/seen/last", daemon.base / "state/watchdog/seen"):
            (path.rmdir if path.is_dir() else path.unlink)()
        manager.pending()
        pings = [manager.next_with("WATCHDOG") for _ in range(3)]

    assert pings == [{"WATCHDOG": "1"}] * 3
