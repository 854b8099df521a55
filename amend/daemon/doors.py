"""Every socket of the daemon: the API's and one for each agent's hooks.

They are claimed together before anybody is served, under the lock, and removed together: those that
were bound here, no others.
"""

import contextlib
import functools
from collections.abc import Iterable
from pathlib import Path

from amend.daemon.logs import Log
from amend.daemon.socket_keeper import Accept, KeptSocket, SocketKeeper
from amend.edge.serve.hook_sockets import HookSockets
from amend.edge.serve.server import DRAIN_S, ApiServer
from amend.edge.service import API_SOCKET, DaemonLock, hook_socket_path


class Doors:
    def __init__(
        self,
        lock: DaemonLock,
        runtime: Path,
        agents: Iterable[str],
        api: ApiServer,
        hooks: HookSockets,
    ) -> None:
        """Raises `Conflict` or `Refused`, and then nothing is left behind."""
        self._lock = lock
        self._api = api
        self._hooks = hooks
        with contextlib.ExitStack() as claimed:

            def claim(path: Path, accept: Accept) -> KeptSocket:
                owned = lock.claim_socket(path)
                claimed.callback(owned.close)
                return KeptSocket(owned, accept)

            self._sockets = [claim(runtime / API_SOCKET, api.start)]
            for agent in agents:
                accept = functools.partial(hooks.start, agent)
                self._sockets.append(claim(hook_socket_path(runtime, agent), accept))
            self._claimed = claimed.pop_all()

    @property
    def api_socket(self) -> Path:
        return self._sockets[0].owned.path

    async def open(self) -> None:
        for kept in self._sockets:
            await kept.accept(kept.owned.sock)

    def keeper(self, unready: list[str], log: Log) -> SocketKeeper:
        return SocketKeeper(self._lock, self._sockets, unready, log)

    def remove(self) -> None:
        """Nobody finds them any more; who has come is still served."""
        self._claimed.close()

    async def stop(self) -> None:
        await self._hooks.stop()
        await self._api.stop(DRAIN_S)
