"""Serve a backend on a listening Unix socket that somebody else has bound.

asyncio and uvloop steal a live socket when they bind a path themselves, so they never do here.
Nothing is left running after `stop`.
"""

import asyncio
import functools
import socket
from collections.abc import Iterable
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from amend.edge.serve.direct import DirectRoute
from amend.edge.serve.hot import HOOK, LOOKUP, Front
from amend.edge.serve.limits import Limits, Stats
from amend.edge.serve.listening import accept_on
from amend.edge.serve.problems import OnBug, Problem
from amend.edge.serve.protocol import OnRequest, Protocol, Shared
from amend.edge.serve.routes import build_app
from amend.formats.api import Backend

# What is being answered gets this long at a stop; the end of a login session allows more.
DRAIN_S: Final = 2.0

# Connections that were cut get this long to take their last bytes.
CUT_S: Final = 0.25

_STOPPING: Final = Problem(503, "amend is stopping", "ask again when it is back")


class ApiServer:
    """`on_request` hears of each request once, `on_bug` of each exception that is nobody's fault
    but ours. `agents`: whose hooks are answered directly; the backend alone decides which are."""

    def __init__(
        self,
        backend: Backend,
        *,
        version: str,
        on_request: OnRequest,
        on_bug: OnBug,
        agents: Iterable[str] = (),
        limits: Limits | None = None,
    ) -> None:
        self.stats = Stats()
        self._limits = limits or Limits()
        self._stopping = asyncio.Event()
        self._state = ServerState()
        app = build_app(
            backend, version, limits=self._limits, stopping=self._stopping, on_bug=on_bug
        )
        self.app = Front(app, backend, on_request=on_request, on_bug=on_bug)
        direct = {LOOKUP.encode(): DirectRoute(LOOKUP, self.app.lookup)}
        for agent in agents:
            answer = functools.partial(self.app.hook, agent)
            direct[HOOK.format(agent=agent).encode()] = DirectRoute(HOOK, answer)
        self._shared = Shared(self._limits, self.stats, on_request, direct)
        self._config = uvicorn.Config(
            self.app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
        )
        self._config.load()
        self._server: asyncio.AbstractServer | None = None

    async def start(self, sock: socket.socket) -> None:
        """Accept on `sock`, which listens already and is the server's to close.

        Again: accept there instead; connections that are open stay.
        """
        before = self._server
        self._server = await accept_on(
            sock,
            lambda: Protocol(self._config, self._state, self._shared),
            backlog=2 * self._limits.connections,
        )
        if before is not None:
            before.close()

    async def stop(self, deadline_s: float = DRAIN_S) -> None:
        """Take no more, end event streams, finish what is under way, then cut."""
        if self._server is None:
            return
        shared = self._shared
        self._server.close()
        self._server = None
        self._stopping.set()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=deadline_s)
        for left in list(shared.open):
            if not left.transport.is_closing():  # it was idle, and nobody waits
                left.reject(_STOPPING)
                left.transport.close()
        cut = list(self._state.tasks)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        if shared.open:
            try:
                await asyncio.wait_for(shared.emptied.wait(), CUT_S)
            except TimeoutError:
                for deaf in list(shared.open):
                    deaf.transport.abort()
                await shared.emptied.wait()
        shared.deadlines.stop()
