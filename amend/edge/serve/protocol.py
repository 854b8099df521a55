"""HTTP/1.1 on a Unix socket: uvicorn's protocol, with the limits that a daemon needs.

Adds to it: the peer's uid, before anything is read; deadlines for headers and body; limits on
headers, body and connections; clients that close their sending half; every refusal as
problem+json. A slow or greedy client costs itself. Knows nothing of routes.

A request goes IDLE → HEAD at its first byte → BODY at the end of its headers → IDLE at its own end.
HEAD and BODY have a deadline, and IDLE unless an answer is under way.
"""

import asyncio
import enum
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from amend.edge.serve.direct import Deadlines, Direct, DirectRoute, begin
from amend.edge.serve.limits import Limits, Stats
from amend.edge.serve.peer import has_left, peer_uid
from amend.edge.serve.problems import PROBLEM_JSON, Problem

OnRequest = Callable[[str, str, int, float], None]
"""Told once of each request: method, route, status, seconds."""

# Under this key a scope holds the status with which the protocol cut its request off.
CUT: Final = "amend.cut"

# What nginx writes for a client that left before its answer; no such client sees it.
GONE: Final = 499

NO_CONTENT: Final = 204

# The route that `on_request` hears for what never came to be a request.
NO_ROUTE: Final = "-"

# A chunk of one byte is six on the wire; nobody sends a body so, and eight times is room enough for
# extensions and trailers.
RAW_FACTOR: Final = 8


@dataclass(slots=True)
class Shared:
    """What the connections of one server have in common."""

    limits: Limits
    stats: Stats
    on_request: OnRequest
    direct: Mapping[bytes, DirectRoute]  # by URL
    logger: logging.Logger = field(init=False)
    deadlines: Deadlines = field(init=False)
    open: set["Protocol"] = field(default_factory=set)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.logger = _silent_logger()
        limits = self.limits
        shortest_s = min(limits.header_s, limits.body_s, limits.idle_s, limits.linger_s)
        self.deadlines = Deadlines(self.open, shortest_s)


class Phase(enum.Enum):
    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


def _silent_logger() -> logging.Logger:
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
        self.logger = shared.logger
        self.access_log = False
        self._shared = shared
        self._limits = shared.limits
        self._uid = uid
        self._phase = Phase.IDLE
        self.due_s: float | None = None
        self._head_bytes = 0  # an upper bound: all that came while the head did
        self._raw_bytes = 0
        self._body_bytes = 0
        self._began_s = 0.0
        self._peer_ok = False
        self._served = False  # a request has been answered on this connection
        self._over = False  # nothing further is read or answered on this connection

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # Not uvicorn's, which asks for addresses that a Unix socket has not.
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self.scheme = "http"
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
        self._began_s = time.perf_counter()
        if stats.connections > self._limits.connections:
            stats.refused_full += 1
            detail = f"{self._limits.connections} connections are open already"
            self.reject(Problem(503, detail, "try again; close connections that are done"))
            return
        self.due_s = self.loop.time() + self._limits.header_s
        self._shared.deadlines.expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.due_s = None
        if self._peer_ok:
            self._shared.stats.connections -= 1
            self._shared.open.discard(self)
            if not self._shared.open:
                self._shared.emptied.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over or not self._peer_ok:
            return
        if self._phase is Phase.BODY:
            self._raw_bytes += len(data)
            if self._raw_bytes > RAW_FACTOR * self._limits.body_bytes:
                self._reject_body()
                return
        elif self._phase is Phase.IDLE and not data.strip(b"\r\n"):
            return  # empty lines between requests are nothing, and put off no deadline
        else:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._phase is Phase.HEAD and self._head_bytes > self._limits.header_bytes:
            self._reject_head()  # headers that do not end

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client may close its sending half and still wait for the answer (`nc -N`)."""
        if self._over or not self._peer_ok:
            return False
        if self._phase is not Phase.IDLE:
            self.reject(Problem(400, "the request ended before its end", "send all of it"))
            return False
        if not self._answering() or has_left(self.transport.get_extra_info("socket")):
            return False
        self.cycle.keep_alive = False
        return True

    # The parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase = Phase.HEAD
        self._began_s = time.perf_counter()
        self.due_s = self.loop.time() + self._limits.header_s
        self._shared.deadlines.expect()

    def on_headers_complete(self) -> None:
        limit = self._limits.header_bytes
        if self._head_bytes > limit and self._head_size() > limit:
            self._reject_head()
            return
        plain = not self._answering() and not self.expect_100_continue
        for name, value in self.headers:
            if name == b"content-length" and int(value) > self._limits.body_bytes:
                self._reject_body()
                return
            if name == b"origin":
                plain = False  # refused further in
        parser = self.parser
        direct = self._shared.direct.get(self.url) if plain else None
        if direct is not None and parser.get_method() == b"POST":
            keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
            keep_alive = keep_alive and not parser.should_upgrade()
            self.cycle = Direct(direct, keep_alive)  # type: ignore[assignment]
        else:
            super().on_headers_complete()
        self.headers = []  # the trailers of a chunked body go there, and nowhere from there
        self._phase = Phase.BODY
        self._body_bytes = self._raw_bytes = 0
        self.due_s = self.loop.time() + self._limits.body_s

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        if self._over:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._reject_body()
            return
        cycle: Any = self.cycle
        if isinstance(cycle, Direct):
            cycle.parts.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._over:
            return
        self._phase = Phase.IDLE
        self._head_bytes = 0
        self.due_s = None
        cycle: Any = self.cycle
        if isinstance(cycle, Direct):
            task = begin(self._answer(cycle), self.loop)
            if task is not None:
                task.add_done_callback(self.tasks.discard)
                self.tasks.add(task)
        else:
            super().on_message_complete()

    async def _answer(self, direct: Direct) -> None:
        status, kind, body = GONE, b"", b""
        try:
            status, kind, body = await direct.answer(b"".join(direct.parts))
            if self.flow.write_paused:
                await self.flow.drain()
        finally:
            status = direct.scope.get(CUT, GONE if direct.disconnected else status)
            seconds = time.perf_counter() - self._began_s
            self._shared.on_request("POST", direct.route, status, seconds)
        if direct.disconnected:
            return
        direct.response_complete = True
        self.transport.write(whole(status, kind, body, keep_alive=direct.keep_alive))
        if not direct.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Instead of uvicorn's, which starts a timer each time."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._phase is Phase.IDLE:
            self._served = True
            self.due_s = self.loop.time() + self._limits.idle_s
            self._shared.deadlines.expect()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

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

    def overdue(self) -> None:
        if self._over or (self._served and self._phase is Phase.IDLE):
            self.due_s = None
            self.transport.close()  # the ordinary end of a connection that is kept alive
        else:
            self._too_slow()

    def _too_slow(self) -> None:
        self.due_s = None
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
        self.due_s = None
        # A second cycle waits behind one that may be half written.
        mute = bool(self.pipeline)
        cycle: Any = self.cycle
        in_body = self._phase is Phase.BODY
        if self._answering() and not (in_body and isinstance(cycle, Direct)):
            # Its task is under way and tells of it.
            mute = mute or cycle.response_started
            cycle.scope[CUT] = problem.status
            cycle.disconnected = True
            cycle.message_event.set()
            self.flow.resume_writing()
        else:
            mute = mute or (in_body and cycle.response_complete)
            seconds = time.perf_counter() - self._began_s
            self._shared.on_request("-", NO_ROUTE, problem.status, seconds)
        if mute:
            self.transport.close()
            return
        self.transport.write(whole(problem.status, PROBLEM_JSON, problem.body(), keep_alive=False))
        if self._shared.stats.connections > 2 * self._limits.connections:
            self.transport.close()
            return
        self.flow.resume_reading()
        self.due_s = self.loop.time() + self._limits.linger_s
        self._shared.deadlines.expect()


def whole(status: int, kind: bytes, body: bytes, *, keep_alive: bool) -> bytes:
    """The bytes of an answer."""
    close = b"" if keep_alive else b"connection: close\r\n"
    if status == NO_CONTENT:  # which has no length either; Source: RFC 9110, 8.6
        return b"%s%s\r\n" % (STATUS_LINE[status], close)
    return b"%scontent-type: %s\r\ncontent-length: %d\r\n%s\r\n%s" % (
        STATUS_LINE[status],
        kind,
        len(body),
        close,
        body,
    )
