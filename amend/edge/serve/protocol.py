"""HTTP/1.1 on a Unix socket: uvicorn's protocol, with the limits that a daemon needs.

Adds to it: the peer's uid, before anything is read; deadlines for headers and body; limits on
headers, body and connections; every refusal as problem+json. A slow or greedy client costs itself.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from amend.edge.serve.problems import PROBLEM_JSON, Problem

_UCRED: Final = struct.Struct("3i")
# macOS has no SO_PEERCRED: LOCAL_PEERCRED (level 0, option 1) gives version and uid first.
_LOCAL_PEERCRED: Final = 1
_XUCRED: Final = struct.Struct("2I")


@dataclass(frozen=True, slots=True)
class Limits:
    """A hook's whole exchange takes milliseconds; these meet only the stuck and the hostile.

    `connections`: 20 agents with a few hooks each, twice over. `body_bytes`: a finding with a
    thousand files is 100 KB.
    """

    header_s: float = 2.0
    body_s: float = 5.0
    idle_s: float = 10.0
    header_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    connections: int = 128


@dataclass(slots=True)
class Traffic:
    """What `/metrics` tells of connections."""

    open: int = 0
    refused_peers: int = 0
    refused_full: int = 0
    timeouts: int = 0
    rejected: int = 0
    connections: set["Protocol"] = field(default_factory=set)


def peer_uid(sock: socket.socket) -> int:
    if hasattr(socket, "SO_PEERCRED"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(raw)[1])
    return int(_XUCRED.unpack(sock.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size))[1])


class Protocol(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        *,
        limits: Limits,
        traffic: Traffic,
        uid: Callable[[socket.socket], int] = peer_uid,
    ) -> None:
        super().__init__(config, server_state, {})
        self._limits = limits
        self._traffic = traffic
        self._uid = uid
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._body_bytes = 0
        self._in_body = False
        self._rejected = False
        self._peer_ok = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        try:
            known = self._uid(sock) == os.geteuid()
        except OSError:
            known = False
        if not known:
            self._traffic.refused_peers += 1
            transport.abort()
            return
        self._peer_ok = True
        self._traffic.open += 1
        self._traffic.connections.add(self)
        if self._traffic.open > self._limits.connections:
            self._traffic.refused_full += 1
            detail = f"{self._limits.connections} connections are open already"
            self._reject(Problem(503, detail, "try again; close connections that are done"))
            return
        self._wait(self._limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._peer_ok:
            self._traffic.open -= 1
            self._traffic.connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._rejected or not self._peer_ok:
            return
        if not self._in_body:
            self._header_bytes += len(data)
        super().data_received(data)
        if not self._in_body and self._header_bytes > self._limits.header_bytes:
            self._reject_headers()  # a header that never ends

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body_bytes = 0
        if self._deadline is None:
            self._wait(self._limits.header_s)

    def on_headers_complete(self) -> None:
        if sum(len(n) + len(v) for n, v in self.headers) > self._limits.header_bytes:
            self._reject_headers()
        if self._rejected:
            return
        length = next((v for n, v in self.headers if n == b"content-length"), b"0")
        if length.isdigit() and int(length) > self._limits.body_bytes:
            self._reject_body()
            return
        self._in_body = True
        self._wait(self._limits.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._rejected:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._reject_body()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_waiting()
        self._in_body = False
        self._header_bytes = 0
        if not self._rejected:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._reject(Problem(400, "the request is no HTTP/1.1", "see `amend --help` for examples"))

    def handle_websocket_upgrade(self) -> None:
        self._reject(Problem(400, "this socket speaks no WebSocket", "GET /v1/events streams"))

    def _reject_headers(self) -> None:
        self._reject(Problem(431, f"headers are larger than {self._limits.header_bytes} bytes"))

    def _reject_body(self) -> None:
        self._reject(
            Problem(413, f"the body is larger than {self._limits.body_bytes} bytes", "send less")
        )

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._traffic.timeouts += 1
        if not self._in_body and not self._header_bytes:
            self.transport.close()  # connected and said nothing
            return
        part = "body" if self._in_body else "headers"
        self._reject(Problem(408, f"the {part} did not arrive in time"))

    def _reject(self, problem: Problem) -> None:
        """Answer and close, unless an answer is under way already."""
        self._stop_waiting()
        if self._rejected:
            return
        self._rejected = True
        self._traffic.rejected += 1
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
            cycle.response_complete = True
        body = problem.body()
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            % (problem.status, b"Refused", PROBLEM_JSON, len(body))
            + body
        )
        self.transport.close()
