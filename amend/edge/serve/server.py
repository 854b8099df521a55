"""Serve a backend on a listening Unix socket that somebody else has bound.

asyncio and uvloop steal a live socket when they bind a path themselves, so they never do here.
"""

import asyncio
import socket
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from amend.edge.serve.hot import Front, OnBug, OnRequest
from amend.edge.serve.protocol import Limits, Protocol, Traffic
from amend.edge.serve.routes import build_app
from amend.formats.api import Backend

# What is being answered gets this long at a stop; a login session's end allows more.
DRAIN_S: Final = 2.0


class ApiServer:
    def __init__(
        self,
        backend: Backend,
        *,
        version: str,
        on_request: OnRequest,
        on_bug: OnBug,
        limits: Limits | None = None,
    ) -> None:
        self.traffic = Traffic()
        self._limits = limits or Limits()
        self.app = Front(build_app(backend, version, on_bug), backend, on_request, on_bug)
        self._config = uvicorn.Config(
            self.app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=int(self._limits.idle_s),
        )
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.AbstractServer | None = None

    async def start(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: Protocol(self._config, self._state, limits=self._limits, traffic=self.traffic),
            sock=sock,
            backlog=self._limits.connections,
        )

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no more, finish what is under way, then cut."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=drain_s)
        for task in list(self._state.tasks):
            task.cancel()
        for open_one in list(self.traffic.connections):
            open_one.transport.abort()
