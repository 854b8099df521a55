"""An amend is installed over the one that runs: nobody is refused, nothing is lost."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import uvloop

from amend.daemon import run
from amend.daemon.handover import Listening
from amend.edge.serve.listening import accept_on
from amend.edge.store import SCHEMA_VERSION, Store
from amend.errors import Refused
from benchmarks.running import Daemon
from tests.agent_exchanges import ClaudePlace
from tests.conftest import Repository
from tests.integration.agent_driver import Ran, handlers, run_hook
from tests.integration.serve_fakes import until
from tests.integration.wheels import Place, build, checkout, with_next_schema

OLD: Final = "100.1"
NEW: Final = "100.2"

# Between one question and the next, so that the machine does something else as well.
BREATH_S: Final = 0.01

# A hook's own budget cuts it far earlier; only a broken daemon meets this.
WAIT_S: Final = 60.0


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("built")
    old = checkout(base / OLD, OLD)
    new = with_next_schema(checkout(base / NEW, NEW))
    return {OLD: build(old, "wheel"), NEW: build(new, "wheel")}


def installed(base: Path, place: Place) -> Daemon:
    """A daemon of what is installed there, not of this checkout."""
    daemon = Daemon(base)
    del daemon.env["PYTHONPATH"]
    daemon.command = [str(place.amend), "run"]
    return daemon


class Traffic:
    """Somebody's agent: hooks by both ways, and connections, until told to end."""

    def __init__(self, daemon: Daemon, settings: Path, root: Path, home: Path) -> None:
        place = ClaudePlace(session="s", directory=str(root), projects=str(home))
        self._document = place.session_start("startup")
        documents = (self._document, place.prompt("Where is the login?"))
        self._commands = [
            # Its own end, not the earlier one that the agent would make: that leaves no trace.
            (replace(handler, timeout_s=WAIT_S), document)
            for document in documents
            for handler in handlers(settings, document)
        ]
        self._env, self._root = {**daemon.env, "HOME": str(home)}, root
        self._daemon = daemon
        self._done = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._hook, self._post)]
        self.hooks: list[Ran] = []
        self.posted: list[int] = []
        self.refused = 0

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _hook(self) -> None:
        for handler, document in itertools.cycle(self._commands):
            if self._done.is_set():
                return
            self.hooks.append(run_hook(handler, document, env=self._env, cwd=self._root))

    def _post(self) -> None:
        """A question each, by a connection of its own."""
        body = json.dumps(self._document).encode()
        head = b"POST /v1/hooks/claude HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        request = head + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        while not self._done.wait(BREATH_S):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(WAIT_S)
                try:
                    client.connect(str(self._daemon.socket))
                except (ConnectionRefusedError, FileNotFoundError):
                    self.refused += 1
                    continue
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    client.sendall(request)
                    answer = client.recv(100)
                    self.posted.append(int(answer.split(b" ")[1]) if answer else 0)


@pytest.fixture
def place(tmp_path: Path, wheels: dict[str, Path]) -> Place:
    made = Place(tmp_path / "venv")
    made.install(wheels[OLD])
    return made


@pytest.fixture
def repo(git: Callable[..., Repository]) -> Repository:
    return git("shop", {"a.py": "one\n", ".gitignore": ".agent-cache.json\n"})


def hook_settings(daemon: Daemon, place: Place, home: Path) -> Path:
    """Written by `amend hooks install`; through nc where that can be had."""
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    words = [str(place.amend), "hooks", "install", "claude"]
    env = {**daemon.env, "HOME": str(home)}
    subprocess.run(words, env=env, cwd=home, check=True, capture_output=True)
    return settings


def events(daemon: Daemon) -> list[str]:
    return [line["event.name"] for line in daemon.log()]


async def test_an_upgrade_while_it_runs_refuses_nobody_and_loses_nothing(
    tmp_path: Path, wheels: dict[str, Path], place: Place, repo: Repository
) -> None:
    with installed(tmp_path / "daemon", place) as daemon:
        daemon.add(repo.root)
        daemon.put(repo.root, "auth", ["a.py"])
        before = daemon.get("/v1/hello")
        settings = hook_settings(daemon, place, tmp_path / "home")

        with Traffic(daemon, settings, repo.root, tmp_path / "home") as traffic:
            place.install(wheels[NEW])
            await until(lambda: daemon.get("/v1/hello")["version"] == NEW, WAIT_S)
            told = len(traffic.posted)
            await until(lambda: len(traffic.posted) > told)

        after = daemon.get("/v1/hello")
        answer = daemon.lookup(repo.root, "auth")
        daemon.stop()
        left = [*daemon.runtime.rglob("*.sock")]

    assert (before["version"], after["version"]) == (OLD, NEW)
    assert after["pid"] == before["pid"]
    assert after["instance"] != before["instance"]
    assert (answer["verdict"], answer["entry"]["summary"]) == ("fresh", "about auth")

    assert {(ran.code, ran.err) for ran in traffic.hooks} == {(0, b"")}
    assert max(ran.elapsed_s for ran in traffic.hooks) < WAIT_S / 2
    assert set(traffic.posted) <= {200, 204, 0}  # 0: it was under way when the old one let go
    assert traffic.refused == 0

    backup = daemon.base / f"state/amend.db.schema-{SCHEMA_VERSION}"
    with contextlib.closing(sqlite3.connect(backup)) as db:
        kept = db.execute("SELECT key FROM entries").fetchall()
    assert kept == [("auth",)]
    assert events(daemon).count("daemon_ready") == 2
    assert left == []  # the next one removes at its end what the first one had bound
    with pytest.raises(Refused, match="written by a newer amend") as too_old:
        Store(str(daemon.base / "state/amend.db"))
    assert "upgrade amend" in too_old.value.hint


@pytest.mark.soak
async def test_an_older_amend_that_could_not_read_the_store_is_not_handed_over_to(
    tmp_path: Path, wheels: dict[str, Path], repo: Repository
) -> None:
    place = Place(tmp_path / "venv")
    place.install(wheels[NEW])

    with installed(tmp_path / "daemon", place) as daemon:
        place.install(wheels[OLD])
        await until(lambda: "upgrade_unusable" in events(daemon), WAIT_S)
        version = daemon.get("/v1/hello")["version"]

    assert version == NEW
    assert events(daemon).count("daemon_ready") == 1


# -- handing over, from near -----------------------------------------------------------------------

# Binds two sockets; the one that it becomes tells what it was given.
BECOMING = """
import json, os, socket, sys
from pathlib import Path
from amend.daemon.handover import Inherited, become_next, keep_listening, told_by_manager
from amend.edge.service_activation import Passed, take_passed

told = told_by_manager(os.environ)
passed = take_passed(os.environ, ())
if not passed:
    made = []
    for name in ("api", "hooks"):
        sock = socket.socket(socket.AF_UNIX)
        path = Path(sys.argv[1]) / name
        sock.bind(str(path))
        sock.listen()
        made.append((path, sock))
    print(os.getpid(), flush=True)
    managers = [Passed("managers", *made[1])]
    become_next(keep_listening(made, managers), told)
said = [[each.name, each.path.name] for each in passed]
Inherited(passed).remove()
left = sorted(os.listdir(sys.argv[1]))
print(json.dumps([os.getpid(), said, told, left, sys.argv[2:]]))
"""


def test_the_next_one_has_the_same_process_sockets_manager_and_arguments(tmp_path: Path) -> None:
    sockets = Path(os.environ["XDG_RUNTIME_DIR"])
    manager = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "5"}

    done = subprocess.run(
        [sys.executable, "-c", BECOMING, str(sockets), "more"],
        env={**os.environ, **manager},
        capture_output=True,
        check=True,
        text=True,
    )

    pid, then = done.stdout.splitlines()
    mine, managers = ["amend-own", "api"], ["managers", "hooks"]
    # What it bound itself it removes; what the manager has bound stays.
    assert json.loads(then) == [int(pid), [mine, managers], manager, ["hooks"], ["more"]]


def test_where_nothing_can_be_run_any_more_no_socket_is_left(tmp_path: Path) -> None:
    sockets = Path(os.environ["XDG_RUNTIME_DIR"])
    gone = tmp_path / "python"
    broken = BECOMING.replace("told = told_by", f"sys.executable = '{gone}'; told = told_by")

    done = subprocess.run(
        [sys.executable, "-c", broken, str(sockets)], capture_output=True, check=False
    )

    assert done.returncode == os.EX_TEMPFAIL  # a service manager starts it again
    assert f"amend: error: {gone}: No such file" in done.stderr.decode()
    assert os.listdir(sockets) == ["hooks"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_server_that_closes_leaves_the_path_of_its_socket(run: Callable[..., None]) -> None:
    """Loops of Python 3.13 and later remove it unless they are told not to."""
    path = Path(os.environ["XDG_RUNTIME_DIR"]) / "s"

    async def serve_and_close() -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        sock.listen()
        server = await accept_on(sock, asyncio.Protocol, backlog=1)
        server.close()
        await asyncio.sleep(0)

    run(serve_and_close())

    assert path.exists()


class Became(Exception):
    """Instead of the exec."""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_who_is_told_to_stop_while_handing_over_stops(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    def become(listening: list[Listening], told: dict[str, str]) -> None:
        raise Became([each.name for each in listening])

    async def hand_over(daemon: run.Daemon) -> None:
        running = asyncio.get_running_loop().create_task(daemon.run())
        await until((daemon.runtime / "api.sock").exists)
        daemon._hands_over = True
        daemon._stop.set()
        if is_stopped:
            daemon._end()
        await running

    monkeypatch.setattr(run, "become_next", become)
    daemon = run.Daemon(os.environ)

    expected = contextlib.nullcontext() if is_stopped else pytest.raises(Became)
    with expected as became:
        uvloop.run(hand_over(daemon))

    assert (daemon.runtime / "api.sock").exists() == (not is_stopped)
    if became is not None:
        assert became.value.args[0] == ["amend-own"] * 3
