"""Asking over a Unix socket with as little between the clock and the kernel as Python allows.

`Asker` sends bytes that were made beforehand and reads one HTTP answer; `Subscriber` follows
`/v1/events`; `EchoServer` is the C server that a lookup is compared with. The client's own cost is
in both sides of a ratio, which flatters the slower one a little: about 5 µs of each figure.
"""

import json
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from benchmarks.measure import timed_us
from benchmarks.running import Daemon

SOURCE: Final = Path(__file__).resolve().parent / "echo_server.c"

# Longer than any answer takes; a benchmark that hangs is worse than one that fails.
ANSWER_S: Final = 30.0

_READ_BYTES: Final = 1 << 16


def request(method: str, target: str, body: Any = None) -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {target} HTTP/1.1\r\nhost: amend\r\n"
    if body is not None:
        head += f"content-type: application/json\r\ncontent-length: {len(payload)}\r\n"
    return head.encode() + b"\r\n" + payload


def lookup(root: Path, key: str) -> bytes:
    return request("POST", "/v1/lookup", {"cwd": str(root), "key": key})


class Asker:
    """One connection, kept alive."""

    def __init__(self, path: Path) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(ANSWER_S)
        self._sock.connect(str(path))

    def ask(self, message: bytes) -> bytes:
        """The whole answer, head and body. It must carry a content-length."""
        self._sock.sendall(message)
        answer = self._sock.recv(_READ_BYTES)
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._more()
        at = answer.lower().index(b"content-length:", 0, end) + len(b"content-length:")
        whole_bytes = end + 4 + int(answer[at : answer.index(b"\r\n", at)])
        while len(answer) < whole_bytes:
            answer += self._more()
        return answer

    def _more(self) -> bytes:
        piece = self._sock.recv(_READ_BYTES)
        if not piece:
            raise RuntimeError("the server closed in the middle of an answer")
        return piece

    def close(self) -> None:
        self._sock.close()


def ask_once(path: Path, message: bytes) -> bytes:
    """A connection of its own for one question."""
    asker = Asker(path)
    try:
        return asker.ask(message)
    finally:
        asker.close()


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def asked_us(asker: Asker, messages: Sequence[bytes]) -> list[float]:
    return [timed_us(lambda m=message: asker.ask(m)) for message in messages]  # type: ignore[misc]


def asked_anew_us(path: Path, messages: Sequence[bytes]) -> list[float]:
    return [timed_us(lambda m=message: ask_once(path, m)) for message in messages]  # type: ignore[misc]


class Subscriber:
    """Verdict changes with the moment they arrived (`time.perf_counter_ns`)."""

    def __init__(self, daemon: Daemon, root: Path) -> None:
        self._buffer = b""
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(ANSWER_S)
        self._sock.connect(str(daemon.socket))
        self._sock.sendall(request("GET", f"/v1/events?cwd={quote(str(root))}"))
        while b": amend\n\n" not in self._buffer:  # from here on, nothing is missed
            self._buffer += self._sock.recv(_READ_BYTES)
        self._buffer = b""

    def fileno(self) -> int:
        return self._sock.fileno()

    def arrived(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """What one read brings. The chunks' own framing stands between events, never inside."""
        piece = self._sock.recv(_READ_BYTES)
        at_ns = time.perf_counter_ns()
        if not piece:
            raise RuntimeError("the daemon ended the event stream")
        *whole, self._buffer = (self._buffer + piece).split(b"\n\n")
        for event in whole:
            _, found, data = event.partition(b"data: ")
            if found:
                yield at_ns, json.loads(data)

    def wait_for(self, key: str, verdict: str, *, settled: bool = False) -> int:
        """When `key` was told to have `verdict`; with `settled`, with every cause explained."""
        while True:
            for at_ns, change in self.arrived():
                if change["key"] != key or change["verdict"] != verdict:
                    continue
                if not settled or all(cause.get("settled", True) for cause in change["causes"]):
                    return at_ns

    def close(self) -> None:
        self._sock.close()


def follow(
    subscriber: Subscriber, pid: int, wanted: dict[str, str], deadline_s: float
) -> tuple[int, int]:
    """When process `pid` (a child, not reaped here) ended, and when the last of `wanted` was told.

    `wanted`: key → verdict; what is told later replaces what was told before.
    """
    ended_ns = last_ns = 0
    told: dict[str, str] = {}
    right = 0
    until_s = time.monotonic() + deadline_s
    handle = os.pidfd_open(pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            selector.register(subscriber, selectors.EVENT_READ)
            while not ended_ns or right < len(wanted):
                if time.monotonic() > until_s:
                    raise RuntimeError(f"{len(wanted) - right} verdicts did not come")
                for key, _ in selector.select(1.0):
                    if key.fd == handle:
                        ended_ns = time.perf_counter_ns()
                        selector.unregister(handle)
                        continue
                    for at_ns, change in subscriber.arrived():
                        name = change["key"]
                        right -= told.get(name) == wanted.get(name)
                        told[name] = change["verdict"]
                        if told[name] == wanted.get(name):
                            right += 1
                            if not change["refined"]:
                                last_ns = at_ns
    finally:
        os.close(handle)
    return ended_ns, last_ns


class EchoServer:
    """`with EchoServer(answer) as server`: the C server, compiled on the spot."""

    def __init__(self, answer: bytes) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="am-", dir="/tmp")
        base = Path(self._directory.name)
        self.socket = base / "echo.sock"
        (base / "answer").write_bytes(answer)
        program = base / "echo_server"
        subprocess.run([compiler(), "-O2", "-o", str(program), str(SOURCE)], check=True)
        self._process = subprocess.Popen(
            [str(program), str(self.socket), str(base / "answer")], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the C server did not start")

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "EchoServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._directory.cleanup()


def compiler() -> str:
    """The C compiler, "" where there is none."""
    return os.environ.get("CC") or shutil.which("cc") or ""
