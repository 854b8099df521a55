"""A real daemon's hook sockets: there while it runs, silent when it fails, gone when it ends."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from benchmarks.running import Daemon
from tests.conftest import Repository

AGENTS: Final = ("claude", "codex")
DOCUMENT: Final = b'{"hook_event_name":"SessionStart"}'

# What is asked here is the sockets' business, so this answers by the document alone.
ECHOING = """
import asyncio, os
from amend.daemon import run

run.SOCKET_CHECK_S = 0.01

async def exchange(agent, body):
    if b"silent" in body:
        return b""
    if b"slow" in body:
        await asyncio.sleep(0.5)
    if b"large" in body:
        return b"x" * (8 << 20)
    return b'{"%s":%s}' % (agent.encode(), body)

run.run_daemon(os.environ, exchange)
"""


def echoing(base: Path) -> Daemon:
    daemon = Daemon(base)
    daemon.command = [sys.executable, "-c", ECHOING]
    return daemon


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests that leave it well."""
    with echoing(tmp_path_factory.mktemp("shared") / "daemon") as daemon:
        yield daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One of the test's own."""
    with echoing(tmp_path / "daemon") as made:
        yield made


def hook_path(daemon: Daemon, agent: str = "claude") -> Path:
    return daemon.runtime / "hooks" / f"{agent}.sock"


def connected(path: Path, timeout_s: float = 20.0) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(timeout_s)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        raise
    return client


def told(path: Path, document: bytes = DOCUMENT, timeout_s: float = 20.0) -> bytes:
    with connected(path, timeout_s) as client:
        client.sendall(document)
        client.shutdown(socket.SHUT_WR)
        return rest_of(client)


def rest_of(client: socket.socket) -> bytes:
    received = b""
    while part := client.recv(1 << 16):
        received += part
    return received


def eventually(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def is_answering(daemon: Daemon) -> bool:
    try:
        return told(hook_path(daemon)) != b""
    except OSError:
        return False


def test_sockets_are_its_users_alone_and_answer_by_agent(shared: Daemon) -> None:
    answers = [told(hook_path(shared, agent)) for agent in AGENTS]
    modes = [hook_path(shared, agent).lstat().st_mode & 0o777 for agent in AGENTS]

    assert answers == [b'{"claude":%s}' % DOCUMENT, b'{"codex":%s}' % DOCUMENT]
    assert modes == [0o600, 0o600]
    assert hook_path(shared).parent.stat().st_mode & 0o777 == 0o700


def test_the_exchange_over_http_is_the_same(shared: Daemon) -> None:
    answer = shared.ask("POST", "/v1/hooks/codex", {"a": 1})
    silent = shared.request("POST", "/v1/hooks/codex", {"a": "silent"})
    slow = shared.request("POST", "/v1/hooks/codex", {"a": "slow"})
    unknown, problem = shared.request("POST", "/v1/hooks/cloud", {})

    assert answer == {"codex": {"a": 1}}
    assert silent == slow == (204, "")
    assert (unknown, problem["hint"]) == (404, "known are: claude, codex")


def counted(daemon: Daemon) -> dict[str, float]:
    return {
        name: value
        for name, value in daemon.metrics().items()
        if name.startswith("amend_hook") and "_seconds" not in name
    }


def test_every_exchange_and_refusal_is_counted(shared: Daemon) -> None:
    before = counted(shared)

    told(hook_path(shared))
    told(hook_path(shared), b'{"a":"silent"}')
    told(hook_path(shared, "codex"), b'{"a":"slow"}')
    shared.request("POST", "/v1/hooks/codex", {"a": 1})
    with connected(hook_path(shared)) as client, contextlib.suppress(OSError):
        client.sendall(b"[" * (2 << 20))  # it is cut while it writes
        client.recv(1)

    after = counted(shared)
    assert {name: after[name] - before[name] for name in after if after[name] > before[name]} == {
        'amend_hook_exchanges_total{agent="claude",outcome="told"}': 1,
        'amend_hook_exchanges_total{agent="claude",outcome="silent"}': 1,
        'amend_hook_exchanges_total{agent="codex",outcome="told"}': 1,
        'amend_hook_exchanges_total{agent="codex",outcome="late"}': 1,
        'amend_hook_refused_total{reason="large"}': 1,
    }


def test_an_answer_that_takes_too_long_is_the_end_of_the_stream(shared: Daemon) -> None:
    assert told(hook_path(shared), b'{"a":"slow"}') == b""
    assert told(hook_path(shared)) != b""


def test_a_daemon_that_is_stopped_accepts_and_answers_when_it_goes_on(shared: Daemon) -> None:
    os.kill(shared.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            told(hook_path(shared), timeout_s=0.05)
        waiting = connected(hook_path(shared))
        waiting.sendall(DOCUMENT)
    finally:
        os.kill(shared.pid, signal.SIGCONT)

    with waiting:
        assert rest_of(waiting) == b'{"claude":%s}' % DOCUMENT
    assert is_answering(shared)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_socket_that_is_forbidden_is_an_error_at_once(shared: Daemon) -> None:
    hook_path(shared).chmod(0)
    try:
        with pytest.raises(PermissionError):
            told(hook_path(shared))
    finally:
        hook_path(shared).chmod(0o600)

    assert is_answering(shared)


def test_removed_sockets_heal_and_only_its_own_are_gone_at_the_end(daemon: Daemon) -> None:
    shutil.rmtree(hook_path(daemon).parent)

    eventually(lambda: is_answering(daemon))
    is_ready = daemon.get("/readyz")["ok"]
    (hook_path(daemon).parent / "mine.sock").write_text("mine")
    daemon.stop()

    assert is_ready
    assert [path.name for path in hook_path(daemon).parent.iterdir()] == ["mine.sock"]


def test_a_daemon_killed_in_its_reply_ends_the_stream_and_the_next_takes_its_place(
    daemon: Daemon,
) -> None:
    with connected(hook_path(daemon)) as client:
        client.sendall(b'{"a":"large"}')
        received = client.recv(1 << 10)
        daemon.stop(kill=True)
        with contextlib.suppress(ConnectionResetError):
            received += rest_of(client)
    with pytest.raises(ConnectionRefusedError):
        told(hook_path(daemon))
    daemon.start()

    assert 0 < len(received) < 8 << 20
    assert set(received) == {ord("x")}
    assert is_answering(daemon)


def test_a_start_that_finds_somebody_at_a_hooks_socket_leaves_nothing(tmp_path: Path) -> None:
    daemon = echoing(tmp_path / "daemon")
    hook_path(daemon).parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(hook_path(daemon, "codex")))
        theirs.listen()

        with pytest.raises(RuntimeError, match="something answers there already"):
            daemon.start()

        assert [path.name for path in hook_path(daemon).parent.iterdir()] == ["codex.sock"]
    assert not daemon.socket.exists()
    daemon.close()


def test_amends_own_answer_comes_through_the_socket_and_over_http_once_a_session(
    tmp_path: Path, git: Callable[..., Repository]
) -> None:
    repository = git("shop", {"auth.py": "def login(): ...\n"})

    def exploring(session: str) -> dict[str, object]:
        prompt = "How does login check the password hash and issue session tokens?"
        given = {"description": "Session tokens", "prompt": prompt, "subagent_type": "Explore"}
        return {
            "session_id": session,
            "cwd": str(repository.root),
            "hook_event_name": "PreToolUse",
            "tool_name": "Agent",
            "tool_input": given,
            "tool_use_id": f"toolu_{session}",
        }

    with Daemon(tmp_path / "daemon") as daemon:
        daemon.add(repository.root)
        summary = "login checks the password hash and issues session tokens"
        daemon.put(repository.root, "session-tokens", ["auth.py"], summary=summary)
        path = hook_path(daemon)

        first = told(path, json.dumps(exploring("s1")).encode())
        again = told(path, json.dumps(exploring("s1")).encode())
        other = daemon.ask("POST", "/v1/hooks/claude", exploring("s2"))

        assert summary in json.loads(first)["hookSpecificOutput"]["permissionDecisionReason"]
        assert again == b""
        assert other["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert [line for line in daemon.log() if line["event.name"] == "bug"] == []
