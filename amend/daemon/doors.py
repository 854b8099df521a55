"""Every socket of the daemon: the API's and one for each agent's hooks.

They are claimed together before anybody is served, under the lock, and removed together: those that
were bound here, no others. What a service manager has bound already and passed on is taken under
the same rules, by its path; what it has not is bound here.
"""

import contextlib
import functools
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from amend.daemon.logs import Log
from amend.daemon.socket_keeper import Accept, KeptSocket, SocketKeeper
from amend.edge.serve.hook_sockets import HookSockets
from amend.edge.serve.server import DRAIN_S, ApiServer
from amend.edge.service import API_SOCKET, DaemonLock, hook_socket_path
from amend.edge.service_activation import Passed
from amend.errors import Refused


class Doors:
    def __init__(
        self,
        lock: DaemonLock,
        runtime: Path,
        agents: Iterable[str],
        api: ApiServer,
        hooks: HookSockets,
        *,
        passed: Sequence[Passed] = (),
    ) -> None:
        """Raises `Conflict` or `Refused`, and then nothing is left behind."""
        self._lock = lock
        self._api = api
        self._hooks = hooks
        agents = tuple(agents)
        with contextlib.ExitStack() as claimed:
            for each in passed:
                claimed.callback(each.sock.close)
            paths = (runtime / API_SOCKET, *(hook_socket_path(runtime, a) for a in agents))
            at_path = _by_path(passed, paths)

            def claim(path: Path, accept: Accept) -> KeptSocket:
                owned = lock.claim_socket(path, at_path.get(path))
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

    @property
    def listening(self) -> list[tuple[Path, socket.socket]]:
        return [(kept.owned.path, kept.owned.sock) for kept in self._sockets]

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


def _by_path(passed: Iterable[Passed], paths: Iterable[Path]) -> dict[Path, socket.socket]:
    """Each passed socket by the one of `paths` that it is bound at. Raises `Refused` where it is
    at none of them: it would be listened at and never answered."""
    known = {_resolved(path): path for path in paths}
    found: dict[Path, socket.socket] = {}
    for each in passed:
        path = known.get(_resolved(each.path))
        if path is None:
            raise Refused(
                f"the passed socket {each.name} is at {each.path}, where amend has none",
                hint=f"its sockets are {', '.join(str(path) for path in known.values())}; "
                "`amend service install` writes them anew",
            )
        if path in found:
            raise Refused(f"two passed sockets are at {path}", hint="let one unit listen there")
        found[path] = each.sock
    return found


def _resolved(path: Path) -> str:
    """Of the same socket always the same, through whichever links it is named."""
    return os.path.join(os.path.realpath(path.parent), path.name)
