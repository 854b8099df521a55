"""Keeps the API's socket where clients look for it.

The runtime directory can be removed, replaced, closed or full while the daemon runs: cleaners of
temporary directories do that, and so do people. What may be healed is made again under the rules of
a start; what may not is left alone, told once, and looked at again. A daemon ends over this only
where another one has come to answer.
"""

import socket
from collections.abc import Awaitable, Callable

from amend.daemon.logs import Log
from amend.edge.service import DaemonLock, OwnedSocket
from amend.errors import AmendError, Conflict


class SocketKeeper:
    def __init__(
        self,
        lock: DaemonLock,
        owned: OwnedSocket,
        accept: Callable[[socket.socket], Awaitable[None]],
        unready: list[str],
        log: Log,
    ) -> None:
        """`accept` takes connections from a new socket on; `unready` is where a problem stands
        for as long as there is one."""
        self._lock = lock
        self._owned = owned
        self._accept = accept
        self._unready = unready
        self._log = log
        self._problem: str | None = None

    async def check(self) -> bool:
        """Look once. False: another daemon answers there, and two would contradict each other."""
        state = self._owned.still_ours()
        if state == "ours":
            if self._problem is not None:
                self._tell(None)
                self._log.info("socket_reachable", socket=str(self._owned.path))
            return True
        try:
            sock = self._lock.reclaim(self._owned)
        except (AmendError, OSError) as error:
            if isinstance(error, Conflict) and state == "replaced":
                self._log.error("socket_replaced", socket=str(self._owned.path), reason=str(error))
                return False
            self._tell(str(error))
            return True
        self._tell(None)
        self._log.warning("socket_rebound", socket=str(self._owned.path))
        await self._accept(sock)
        return True

    def _tell(self, problem: str | None) -> None:
        """Stands among what is not ready, and in the log once."""
        if problem == self._problem:
            return
        if self._problem is not None:
            self._unready.remove(self._problem)
        self._problem = problem
        if problem is not None:
            self._unready.append(problem)
            self._log.error("socket_unreachable", socket=str(self._owned.path), reason=problem)
