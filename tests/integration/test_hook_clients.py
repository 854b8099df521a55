"""Every form of a hook's command against every kind of server: silent, bounded, and 0."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from amend.agents.installing import (
    TARGETS,
    Bound,
    Client,
    Target,
    api_socket,
    command,
    hook_socket,
)
from amend.cli.hooks_canary import LIMIT_S, Ran, Talk, choose, run, server, why_not
from amend.errors import Unavailable

CLAUDE, CODEX = TARGETS["claude"], TARGETS["codex"]
QUESTION = b'{"hook_event_name": "SessionStart", "cwd": "/"}'
REPLY = b'{"hookSpecificOutput": {"additionalContext": "' + b"x" * 8_000 + b'"}}'
_PROGRAMS = {Client.NC: "nc", Client.CURL: "curl", Client.PYTHON: "python3"}


def _is_missing(client: Client) -> bool:
    return shutil.which(_PROGRAMS[client]) is None or (
        client is Client.NC and shutil.which("timeout") is None
    )


FORMS = [
    pytest.param(
        target,
        client,
        bound,
        id=f"{target.name}-{client.value}-{bound.value}",
        marks=pytest.mark.skipif(
            _is_missing(client), reason=f"{_PROGRAMS[client]} is not on this machine"
        ),
    )
    for target, client, bound in [
        *((CLAUDE, client, bound) for client in Client for bound in Bound),
        *((CODEX, client, Bound.ITSELF) for client in Client),
    ]
]
forms = pytest.mark.parametrize(("target", "client", "bound"), FORMS)


@pytest.fixture
def runtime() -> Iterator[str]:
    """With a name that a shell would take apart."""
    base = tempfile.mkdtemp(prefix="amend-", dir="/tmp")
    yield f'{base}/it\'s "a" $place; #'
    shutil.rmtree(base)


def path_of(target: Target, client: Client, runtime: str) -> str:
    path = api_socket(runtime) if client is Client.CURL else hook_socket(target, runtime)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return path


def asked(target: Target, client: Client, bound: Bound, runtime: str, talk: Talk | None) -> Ran:
    with server(path_of(target, client, runtime), talk):
        return run(command(target, client, bound, runtime), QUESTION)


def saying(said: bytes, client: Client, *, length: int | None = None) -> Talk:
    """A server that says it, as HTTP where the client speaks that."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (length or len(said))

    def talk(connection: socket.socket, _: bytes, __: threading.Event) -> None:
        connection.sendall((head if client is Client.CURL else b"") + said)

    return talk


def hanging(connection: socket.socket, _: bytes, ended: threading.Event) -> None:
    ended.wait(10)


def assert_silent(ran: Ran, bound: Bound) -> None:
    assert (ran.code, ran.out, ran.err) == (0, b"", b"")
    assert ran.elapsed_s < LIMIT_S[bound]


@forms
def test_a_live_server_is_heard(target: Target, client: Client, bound: Bound, runtime: str) -> None:
    ran = asked(target, client, bound, runtime, saying(REPLY, client))

    assert (ran.code, ran.out, ran.err) == (0, REPLY, b"")


@forms
def test_no_answer_is_no_output(target: Target, client: Client, bound: Bound, runtime: str) -> None:
    assert_silent(asked(target, client, bound, runtime, saying(b"", client)), bound)


@forms
def test_a_dead_socket_and_none_are_silent(
    target: Target, client: Client, bound: Bound, runtime: str
) -> None:
    assert_silent(asked(target, client, bound, runtime, None), bound)

    os.unlink(path_of(target, client, runtime))
    assert_silent(run(command(target, client, bound, runtime), QUESTION), bound)


def test_a_hung_server_is_left_in_time(runtime: str) -> None:
    """All forms at once, since each waits."""

    def hung(form: tuple[int, Target, Client, Bound]) -> Ran:
        number, target, client, bound = form
        return asked(target, client, bound, f"{runtime}{number}", hanging)

    found = [
        (number, target, client, bound)
        for number, (target, client, bound) in enumerate(form.values for form in FORMS)
        if not _is_missing(client)
    ]
    with ThreadPoolExecutor(len(found)) as pool:
        for (_, _, _, bound), ran in zip(found, pool.map(hung, found), strict=True):
            assert_silent(ran, bound)


@forms
@pytest.mark.parametrize("said_bytes", [1, 40, len(REPLY) - 2])
def test_a_reply_that_breaks_off_is_not_printed(
    target: Target, client: Client, bound: Bound, runtime: str, said_bytes: int
) -> None:
    talk = saying(REPLY[:said_bytes], client, length=len(REPLY))

    assert_silent(asked(target, client, bound, runtime, talk), bound)


@forms
@pytest.mark.parametrize("garbage", [b"\x00\xff" * 99, b"<html>{}</html>", b"[1]", b"Error: {x"])
def test_garbage_is_not_printed(
    target: Target, client: Client, bound: Bound, runtime: str, garbage: bytes
) -> None:
    assert_silent(asked(target, client, bound, runtime, saying(garbage, client)), bound)


@pytest.mark.skipif(_is_missing(Client.CURL), reason="curl is not on this machine")
@pytest.mark.parametrize(
    "said",
    [
        b"\x00" * 200,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/9.9 200 OK\r\n\r\n{}",
    ],
)
def test_an_error_or_another_protocol_is_silent(said: bytes, runtime: str) -> None:
    talk = saying(said, Client.NC)

    assert_silent(asked(CLAUDE, Client.CURL, Bound.AGENT, runtime, talk), Bound.AGENT)


@forms
def test_a_socket_of_somebody_else_is_silent(
    target: Target, client: Client, bound: Bound, runtime: str
) -> None:
    """Sandboxes forbid the same way: connecting fails, with EACCES here and EPERM there."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    path = path_of(target, client, runtime)
    os.chmod(os.path.dirname(runtime), 0o755)
    with server(path, saying(REPLY, client)):
        os.chmod(path, 0o600)
        done = subprocess.run(
            ["/bin/sh", "-c", command(target, client, bound, runtime)],
            input=QUESTION,
            capture_output=True,
            check=False,
            user=65534,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            timeout=5,
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextmanager
def only(*names: str, **programs: str) -> Iterator[None]:
    """A PATH with these programs alone: real ones by name, others by what they do."""
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="amend-", dir="/tmp") as directory:
        for name in ("sh", *names):
            found = sys.executable if name == "python3" else shutil.which(name)
            if found is None:
                pytest.skip(f"{name} is not on this machine")
            Path(directory, name).symlink_to(found)
        for name, script in programs.items():
            Path(directory, name).write_text(f"#!/bin/sh\n{script}\n")
            Path(directory, name).chmod(0o755)
        os.environ["PATH"] = directory
        try:
            yield
        finally:
            os.environ["PATH"] = before


@forms
def test_a_missing_program_is_silent(
    target: Target, client: Client, bound: Bound, runtime: str
) -> None:
    text = command(target, client, bound, runtime)

    with only():
        assert_silent(run(text, QUESTION), bound)


# -- which one is chosen -----------------------------------------------------------------------


def test_nc_is_chosen_where_it_works() -> None:
    with only("nc", "timeout", "curl", "python3"):
        assert choose(CODEX) == {Bound.ITSELF: Client.NC}


@pytest.mark.parametrize(
    "nc",
    [
        'echo "nc: invalid option -- U" >&2; exit 1',  # the traditional one
        "cat >/dev/null; printf '{}'",  # prints something of its own
        "exit 0",
    ],
)
def test_an_nc_that_does_not_work_is_not_chosen(nc: str) -> None:
    with only("curl", "timeout", "cat", nc=nc):
        assert choose(CODEX) == {Bound.ITSELF: Client.CURL}


def test_without_timeout_nc_is_chosen_only_where_the_agent_cuts() -> None:
    with only("nc", "curl"):
        assert choose(CLAUDE) == {Bound.AGENT: Client.NC, Bound.ITSELF: Client.CURL}


def test_python_is_the_last_resort() -> None:
    with only("python3", curl="exit 2"):
        assert choose(CODEX) == {Bound.ITSELF: Client.PYTHON}


def test_a_client_that_waits_too_long_is_no_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMIT_S, Bound.ITSELF, 0.1)

    with only("sleep", "nc", timeout="sleep 0.2"):
        said = why_not(CODEX, Client.NC, Bound.ITSELF)

    assert said is not None
    assert said.startswith("it waits for")


def test_where_nothing_works_each_is_told_why() -> None:
    with only(nc="exit 1"), pytest.raises(Unavailable) as error:
        choose(CODEX)

    assert error.value.message == (
        "no program here can ask the daemon from a hook (nc: timeout is not installed; "
        "curl: curl is not installed; python: python3 is not installed)"
    )


def test_a_client_that_is_asked_for_is_tried_and_no_other() -> None:
    with only("curl", nc="exit 1"):
        assert choose(CODEX, Client.CURL) == {Bound.ITSELF: Client.CURL}
        with pytest.raises(Unavailable):
            choose(CODEX, Client.NC)
