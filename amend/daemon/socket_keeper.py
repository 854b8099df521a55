"""Keeps the sockets where clients look for them: the API's and those of hooks.

The runtime directory can be removed, replaced, closed or full while the daemon runs: cleaners of
temporary directories do that, and so do people. What may be healed is made again under the rules of
a start; what may not is left alone, told once, and looked at again. A daemon ends over this only
where another one has come to answer.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from amend.daemon.logs import Log
from amend.edge.service import DaemonLock, OwnedSocket
from amend.errors import AmendError, Conflict

Accept = Callable[[socket.socket], Awaitable[None]]
"""Takes connections from a new socket on."""


@dataclass(slots=True)
class KeptSocket:
    owned: OwnedSocket
    accept: Accept
    problem: str | None = None


class SocketKeeper:
    def __init__(
        self, lock: DaemonLock, sockets: Sequence[KeptSocket], unready: list[str], log: Log
    ) -> None:
        """The first of `sockets` is the API's: who answers there is a daemon. `unready` is where a
        problem stands for as long as there is one."""
        self._lock = lock
        self._sockets = tuple(sockets)
        self._unready = unready
        self._log = log

    async def check(self) -> bool:
        """Look once. False: another daemon answers there, and two would contradict each other."""
        for kept in self._sockets:
            if not await self._check(kept, may_end=kept is self._sockets[0]):
                return False
        return True

    async def _check(self, kept: KeptSocket, *, may_end: bool) -> bool:
        owned = kept.owned
        state = owned.still_ours()
        if state == "ours":
            if kept.problem is not None:
                self._tell(kept, None)
                self._log.info("socket_reachable", socket=owned.path.name, path=str(owned.path))
            return True
        try:
            sock = self._lock.reclaim(owned)
        except (AmendError, OSError) as error:
            if may_end and isinstance(error, Conflict) and state == "replaced":
                self._log.error(
                    "socket_replaced",
                    socket=owned.path.name,
                    path=str(owned.path),
                    reason=str(error),
                )
                return False
            self._tell(kept, str(error))
            return True
        self._tell(kept, None)
        self._log.warning("socket_rebound", socket=owned.path.name, path=str(owned.path))
        await kept.accept(sock)
        return True

    def _tell(self, kept: KeptSocket, problem: str | None) -> None:
        """Stands among what is not ready once, whichever sockets have it, and in the log once."""
        if problem == kept.problem:
            return
        before, kept.problem = kept.problem, problem
        others = [each.problem for each in self._sockets if each is not kept]
        if before is not None and before not in others:
            self._unready.remove(before)
        if problem is not None and problem not in others:
            self._unready.append(problem)
            self._log.error(
                "socket_unreachable",
                socket=kept.owned.path.name,
                path=str(kept.owned.path),
                reason=problem,
            )
