"""Which hook client works on this machine, found by running it.

`nc` is three programs of one name, `timeout` is missing on macOS, and a `curl` may know no Unix
sockets. So each hook command is run as an agent would, against a server of a moment: one that
answers in two pieces, one that is not there, one that takes the question and says nothing, one that
breaks off. The commands are those of `agents.installing`, with another directory in them, whose
name needs quoting.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from amend.agents.installing import (
    Bound,
    Client,
    Target,
    api_socket,
    bounds,
    command,
    hook_socket,
)
from amend.errors import Unavailable

# How long a command may take that gets no answer: its own 0.4 s, or nc's whole second, and as much
# again for a busy machine.
LIMIT_S: Final = {Bound.ITSELF: 0.8, Bound.AGENT: 2.0}

# Longer than any limit: a client that is cut here has none.
_CUT_S: Final = 5.0

# A prompt with a file in it; more than the 64 KiB that a pipe holds.
_QUESTION: Final = json.dumps({"hook_event_name": "Canary", "prompt": "x" * 100_000}).encode()

_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")

_PROGRAMS: Final = {Client.NC: "nc", Client.CURL: "curl", Client.PYTHON: "python3"}

Talk = Callable[[socket.socket, bytes, threading.Event], None]
"""What a server does with a connection when it has heard the question; the event: it is to end."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int | None  # None: it had to be cut
    out: bytes
    err: bytes
    elapsed_s: float


def choose(target: Target, only: Client | None = None) -> Mapping[Bound, Client]:
    """The first client that works for each bound that the target's hooks need.

    Raises `Unavailable` with what is wrong with each where none does.
    """
    found = {}
    for bound in bounds(target):
        problems = []
        for client in (only,) if only is not None else tuple(Client):
            problem = why_not(target, client, bound)
            if problem is None:
                found[bound] = client
                break
            problems.append(f"{client.value}: {problem}")
        else:
            raise Unavailable(
                f"no program here can ask the daemon from a hook ({'; '.join(problems)})",
                hint="install netcat-openbsd (with `timeout` of coreutils) or curl",
            )
    return found


def why_not(target: Target, client: Client, bound: Bound) -> str | None:
    """Why a client is no good for hooks here; None: it is."""
    program = _PROGRAMS[client]
    if shutil.which(program) is None:
        return f"{program} is not installed"
    if client is Client.NC and bound is Bound.ITSELF and shutil.which("timeout") is None:
        return "timeout is not installed"
    problem = _tried(target, client, bound)
    # A machine that was busy for a moment decides nothing.
    return None if problem is None else _tried(target, client, bound)


def _tried(target: Target, client: Client, bound: Bound) -> str | None:
    speaks_http = client is Client.CURL
    checks: tuple[tuple[Talk | None, bytes, str], ...] = (
        (_answer_http if speaks_http else _answer, _reply_to(_QUESTION), "its answer is not whole"),
        (None, b"", "it is not silent when no daemon is there"),
        (_break_off_http if speaks_http else _break_off, b"", "it prints half an answer"),
        (_hang, b"", "it is not silent when the daemon hangs"),
    )
    with _directory() as runtime:
        path = api_socket(runtime) if speaks_http else hook_socket(target, runtime)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        text = command(target, client, bound, runtime)
        for talk, expected, problem in checks:
            with server(path, talk):
                ran = run(text, _QUESTION)
            if ran.code is None or ran.elapsed_s > LIMIT_S[bound]:
                return f"it waits for {ran.elapsed_s:.1f} s, at most {LIMIT_S[bound]} are bearable"
            if (ran.code, ran.out, ran.err) != (0, expected, b""):
                return problem
    return None


@contextmanager
def _directory() -> Iterator[str]:
    base = "/tmp" if os.path.isdir("/tmp") else None  # a socket's path must be short
    directory = tempfile.mkdtemp(prefix="amend-", dir=base)
    try:
        yield f"{directory}/it's a $place"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(text: str, question: bytes) -> Ran:
    """Run a hook's command as an agent does."""
    begun_s = time.monotonic()
    with subprocess.Popen(
        ["/bin/sh", "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        code: int | None
        try:
            out, err = process.communicate(question, timeout=_CUT_S)
            code = process.returncode
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            out, err, code = b"", b"", None
    return Ran(code, out, err, time.monotonic() - begun_s)


@contextmanager
def server(path: str, talk: Talk | None) -> Iterator[None]:
    """A server at `path` for a moment; None: a socket that nobody listens at."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    thread: threading.Thread | None = None
    ended = threading.Event()
    try:
        listener.bind(path)
        if talk is not None:
            listener.listen(8)
            thread = threading.Thread(target=_serve, args=(listener, talk, ended), daemon=True)
            thread.start()
        yield
    finally:
        ended.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        listener.close()
        if thread is not None:
            thread.join(_CUT_S)


def _serve(listener: socket.socket, talk: Talk, ended: threading.Event) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.settimeout(_CUT_S)
            talk(connection, _heard(connection), ended)


def _heard(connection: socket.socket) -> bytes:
    """The question, to its end; of HTTP only the body."""
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
        head, end, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if end and head.startswith(b"POST ") else None
        if length is not None and len(body) >= int(length[1]):
            return body
    return data


def _reply_to(question: bytes) -> bytes:
    """What only who has heard all of it can say, in a reply of a hook's greatest length."""
    said = {"heard": hashlib.sha256(question).hexdigest(), "context": "x" * 9_000}
    return json.dumps({"hookSpecificOutput": said}).encode()


def _answer(connection: socket.socket, question: bytes, _: threading.Event) -> None:
    reply = _reply_to(question)
    connection.sendall(reply[:1000])
    connection.sendall(reply[1000:])


def _break_off(connection: socket.socket, question: bytes, _: threading.Event) -> None:
    connection.sendall(_reply_to(question)[:1000])


def _head(length_bytes: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % length_bytes


def _answer_http(connection: socket.socket, question: bytes, _: threading.Event) -> None:
    reply = _reply_to(question)
    connection.sendall(_head(len(reply)))
    connection.sendall(reply)


def _break_off_http(connection: socket.socket, question: bytes, _: threading.Event) -> None:
    reply = _reply_to(question)
    connection.sendall(_head(len(reply)) + reply[:1000])


def _hang(connection: socket.socket, _: bytes, ended: threading.Event) -> None:
    ended.wait(_CUT_S)
