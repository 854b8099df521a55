"""HTTP/1.1 on a Unix socket: uvicorn's protocol, with the limits that a daemon needs.

Adds to it: the peer's uid, before anything is read; deadlines for headers and body; limits on
headers, body and connections; clients that close their sending half; every refusal as
problem+json. A slow or greedy client costs itself. Knows nothing of routes.

A request goes IDLE → HEAD at its first byte → BODY at the end of its headers → IDLE at its own end.
HEAD and BODY have a deadline, IDLE has one on a new connection; on a used one uvicorn's own timer
counts from the last answer.
"""

import asyncio
import enum
import logging
import os
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from amend.edge.serve.problems import PROBLEM_JSON, Problem

OnRequest = Callable[[str, str, int, float], None]
"""Told once of each request: method, route, status, seconds."""

# Under this key a scope holds the status with which the protocol cut its request off.
CUT: Final = "amend.cut"

# The route that `on_request` hears for what never came to be a request.
NO_ROUTE: Final = "-"

_UCRED: Final = struct.Struct("3i")
# macOS has no SO_PEERCRED: LOCAL_PEERCRED (level 0, option 1) gives version and uid first.
_LOCAL_PEERCRED: Final = 1
_XUCRED: Final = struct.Struct("2I")


@dataclass(frozen=True, slots=True)
class Limits:
    """A hook's whole exchange takes milliseconds; these meet only the stuck and the hostile.

    `connections`: 20 agents with a few hooks each, twice over. `body_bytes`: a finding with a
    thousand files is 100 KB. `quiet_s`: an event stream says that it lives at least so often; a
    client that is gone is noticed by a write that fails, and 15 s is what browsers count on too.
    `linger_s`: closing with unread bytes breaks a client's writing before it has read why; a second
    is a guess at how long it goes on writing.
    """

    header_s: float = 2.0
    body_s: float = 5.0
    idle_s: float = 10.0
    quiet_s: float = 15.0
    linger_s: float = 1.0
    header_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    connections: int = 128


@dataclass(slots=True)
class Stats:
    """What `/metrics` tells of connections: open ones, and how many came to each bad end."""

    connections: int = 0
    refused_peers: int = 0  # of another user
    refused_full: int = 0  # beyond `Limits.connections`
    timeouts: int = 0
    rejected: int = 0  # answered by the protocol, not by a route; timeouts included


@dataclass(slots=True)
class Shared:
    """What the connections of one server have in common."""

    limits: Limits
    stats: Stats
    on_request: OnRequest
    open: set["Protocol"] = field(default_factory=set)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)


class Phase(enum.Enum):
    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


def peer_uid(sock: socket.socket) -> int:
    """The effective uid with which the other end connected. Raises `OSError`."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(raw)[1])
    return int(_XUCRED.unpack(sock.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size))[1])


def silent_logger() -> logging.Logger:
    """uvicorn logs tracebacks and bad requests; here `on_bug` and `on_request` tell of them."""
    logger = logging.Logger("amend.serve", level=logging.CRITICAL + 1)
    logger.addHandler(logging.NullHandler())
    return logger


class Protocol(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        shared: Shared,
        *,
        uid: Callable[[socket.socket], int] = peer_uid,
    ) -> None:
        super().__init__(config, server_state, {})
        self.logger = silent_logger()
        self.access_log = False
        self.timeout_keep_alive = shared.limits.idle_s  # type: ignore[assignment]
        self._shared = shared
        self._limits = shared.limits
        self._uid = uid
        self._phase = Phase.IDLE
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._began_s = 0.0
        self._peer_ok = False
        self._over = False  # nothing further is read or answered on this connection

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        try:
            self._peer_ok = self._uid(transport.get_extra_info("socket")) == os.geteuid()
        except OSError:
            self._peer_ok = False
        stats = self._shared.stats
        if not self._peer_ok:
            stats.refused_peers += 1
            transport.abort()
            return
        stats.connections += 1
        self._shared.open.add(self)
        self._shared.emptied.clear()
        self._began_s = self.loop.time()
        if stats.connections > self._limits.connections:
            stats.refused_full += 1
            detail = f"{self._limits.connections} connections are open already"
            self.reject(Problem(503, detail, "try again; close connections that are done"))
            return
        self._wait(self._limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._unset_keepalive_if_required()
        if self._peer_ok:
            self._shared.stats.connections -= 1
            self._shared.open.discard(self)
            if not self._shared.open:
                self._shared.emptied.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over or not self._peer_ok:
            return
        before = self._phase
        if before is Phase.IDLE:
            if not data.strip(b"\r\n"):
                return  # empty lines between requests are nothing, and put off no deadline
            if self._deadline is None:
                self._wait(self._limits.header_s)
        super().data_received(data)
        if self._phase is Phase.HEAD and before is not Phase.BODY:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._reject_head()  # headers that do not end

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client may close its sending half and still wait for the answer (`nc -N`)."""
        if self._over or not self._peer_ok:
            return False
        if self._phase is not Phase.IDLE:
            self.reject(Problem(400, "the request ended before its end", "send all of it"))
            return False
        if not self._answering() or _has_left(self.transport):
            return False
        self.cycle.keep_alive = False
        return True

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # The parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase = Phase.HEAD
        self._head_bytes = self._body_bytes = 0
        self._began_s = self.loop.time()
        if self._deadline is None:
            self._wait(self._limits.header_s)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is Phase.HEAD:  # trailers of a chunked body have no use here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url)
        length = b"0"
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"content-length":
                length = value
        if size > self._limits.header_bytes:
            self._reject_head()
        elif length.isdigit() and int(length) > self._limits.body_bytes:
            self._reject_body()
        if self._over:
            return
        super().on_headers_complete()
        self._phase = Phase.BODY
        self._wait(self._limits.body_s)

    def on_body(self, body: bytes) -> None:
        if self._over:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._reject_body()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._over:
            return
        self._stop_waiting()
        self._phase = Phase.IDLE
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked; the parser reads no more after it."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    # Refusals.

    def send_400_response(self, msg: str) -> None:
        self.reject(Problem(400, "the request is no HTTP/1.1", "GET /openapi.json over HTTP/1.1"))

    def _reject_head(self) -> None:
        limit = self._limits.header_bytes
        self.reject(Problem(431, f"the headers are larger than {limit} bytes", "send less"))

    def _reject_body(self) -> None:
        limit = self._limits.body_bytes
        self.reject(Problem(413, f"the body is larger than {limit} bytes", "send less"))

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._shared.stats.timeouts += 1
        if self._phase is Phase.IDLE:
            self._over = True
            self.transport.close()  # connected and said nothing
            return
        part = "body" if self._phase is Phase.BODY else "headers"
        self.reject(Problem(408, f"the {part} did not arrive in time", "send it at once"))

    def reject(self, problem: Problem) -> None:
        """Answer and close; only close where an answer is under way or has been given already."""
        if self._over:
            return
        self._over = True
        self._shared.stats.rejected += 1
        self._stop_waiting()
        self._unset_keepalive_if_required()
        # A second cycle waits behind one that may be half written.
        mute = bool(self.pipeline)
        if self._answering():
            cycle: Any = self.cycle
            mute = mute or cycle.response_started
            cycle.scope[CUT] = problem.status
            cycle.disconnected = True
            cycle.message_event.set()
            self.flow.resume_writing()
        else:
            mute = mute or self._phase is Phase.BODY  # answered before its body had come
            seconds = self.loop.time() - self._began_s
            self._shared.on_request("-", NO_ROUTE, problem.status, seconds)
        if mute:
            self.transport.close()
            return
        self.transport.write(_answer(problem))
        if self._shared.stats.connections > 2 * self._limits.connections:
            self.transport.close()
            return
        self.flow.resume_reading()
        self._deadline = self.loop.call_later(self._limits.linger_s, self.transport.close)


def _has_left(transport: asyncio.Transport) -> bool:
    """Whether the other end is closed altogether; on Linux, a half-closed one does not hang up.

    Elsewhere such a client may be noticed only by the next write.
    """
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _answer(problem: Problem) -> bytes:
    body = problem.body()
    return b"%scontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
        STATUS_LINE[problem.status],
        PROBLEM_JSON,
        len(body),
        body,
    )
