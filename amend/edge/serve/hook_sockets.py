"""One Unix socket for each agent's hooks: a JSON document in, at most one out, end of stream.

The socket is the route, so that a hook's command is one small process (`nc -N -U`) and no HTTP. A
document ends where the client shuts its sending half, or as soon as it is whole, for clients that
never do. Whatever is wrong with a client (another user's, too many, too slow, too much) is the end
of its connection without a word: an agent shows whatever its hook says.

A connection goes HEARING → ANSWERING → CLOSING. HEARING and CLOSING have a deadline, the answer has
one of its own (`hook_exchange`).
"""

import asyncio
import enum
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from amend.edge.serve.direct import Deadlines, begin
from amend.edge.serve.hook_exchange import TimelyExchange
from amend.edge.serve.limits import HookStats, Limits
from amend.edge.serve.listening import accept_on
from amend.edge.serve.peer import peer_uid
from amend.edge.serve.problems import from_json_bytes

# What an agent sends is an object; there is no need to look for another end than that of one, and
# what a client adds to it is a line end or two.
_END: Final = b"}"
_AFTER_BYTES: Final = 16

# A piece may end with a brace in the middle of a document, and each look for the end reads all of
# it again. A document of `Limits.body_bytes` in pieces of 4 KiB (256 of them, of which one in a
# hundred ends so in the JSON of transcripts) is read 1.3 times; whoever sends braces only stops
# being looked at, and is answered when it shuts its sending half.
_LOOKS: Final = 4


@dataclass(slots=True)
class _Shared:
    exchange: TimelyExchange
    limits: Limits
    stats: HookStats
    deadlines: Deadlines = field(init=False)
    open: set["Conversation"] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        shortest_s = min(self.limits.body_s, self.limits.linger_s)
        self.deadlines = Deadlines(self.open, shortest_s)


class _Stage(enum.Enum):
    HEARING = enum.auto()
    ANSWERING = enum.auto()
    CLOSING = enum.auto()


class Conversation(asyncio.Protocol):
    def __init__(
        self, agent: str, shared: _Shared, *, uid: Callable[[socket.socket], int] = peer_uid
    ) -> None:
        self._agent = agent
        self._shared = shared
        self._uid = uid
        self._transport: asyncio.Transport
        self._parts: list[bytes] = []
        self._bytes = 0
        self._looked_at_bytes = 0
        self._stage = _Stage.CLOSING
        self.due_s: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        shared = self._shared
        stats = shared.stats
        try:
            is_ours = self._uid(transport.get_extra_info("socket")) == os.geteuid()
        except OSError:
            is_ours = False
        if not is_ours:
            stats.refused_peers += 1
            transport.abort()
            return
        if stats.connections >= shared.limits.connections:
            stats.refused_full += 1
            transport.abort()
            return
        stats.connections += 1
        shared.open.add(self)
        shared.emptied.clear()
        self._stage = _Stage.HEARING
        self._set_deadline(shared.limits.body_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.due_s = None
        self._stage = _Stage.CLOSING
        self._parts.clear()
        shared = self._shared
        if self in shared.open:
            shared.stats.connections -= 1
            shared.open.remove(self)
            if not shared.open:
                shared.emptied.set()

    def data_received(self, data: bytes) -> None:
        if self._stage is not _Stage.HEARING:
            return
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > self._shared.limits.body_bytes:
            self._shared.stats.too_large += 1
            self._cut()
        elif data[-_AFTER_BYTES:].rstrip(b" \t\r\n").endswith(_END):
            body = self._body()
            if self._is_whole(body):
                self._answer(body)

    def eof_received(self) -> bool:
        """A client that has left altogether has told something all the same."""
        if self._stage is not _Stage.HEARING:
            return self._stage is _Stage.ANSWERING
        body = self._body()
        if not body.strip():
            return False  # it only looked whether somebody is there
        self._answer(body)
        return True

    def _body(self) -> bytes:
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def _is_whole(self, body: bytes) -> bool:
        self._looked_at_bytes += len(body)
        if self._looked_at_bytes > _LOOKS * self._shared.limits.body_bytes:
            return False
        try:
            from_json_bytes(body)
        except ValueError:
            return False
        return True

    def _answer(self, body: bytes) -> None:
        self._stage = _Stage.ANSWERING
        self.due_s = None
        self._parts.clear()
        shared = self._shared
        task = begin(self._tell(body), asyncio.get_running_loop())
        if task is not None:
            task.add_done_callback(shared.tasks.discard)
            shared.tasks.add(task)

    async def _tell(self, body: bytes) -> None:
        reply = await self._shared.exchange.exchange(self._agent, body)
        if self._stage is not _Stage.ANSWERING:
            return  # the client did not wait
        self._stage = _Stage.CLOSING
        if reply:
            self._transport.write(reply)
            self._set_deadline(self._shared.limits.linger_s)  # for a client that does not read
        self._transport.close()

    def _set_deadline(self, in_s: float) -> None:
        self.due_s = asyncio.get_running_loop().time() + in_s
        self._shared.deadlines.expect()

    def overdue(self) -> None:
        if self._stage is _Stage.HEARING:
            self._shared.stats.unfinished += 1
        self._cut()

    def _cut(self) -> None:
        self.due_s = None
        self._stage = _Stage.CLOSING
        self._parts.clear()
        self._transport.abort()

    def stop_hearing(self) -> None:
        if self._stage is _Stage.HEARING:
            self._cut()


class HookSockets:
    """Nothing is left running after `stop`."""

    def __init__(self, exchange: TimelyExchange, *, limits: Limits | None = None) -> None:
        self.stats = HookStats()
        self._limits = limits or Limits()
        self._shared = _Shared(exchange, self._limits, self.stats)
        self._servers: dict[str, asyncio.AbstractServer] = {}

    async def start(self, agent: str, sock: socket.socket) -> None:
        """Accept on `sock`, which listens already and is the server's to close.

        Again: accept there instead; connections that are open stay.
        """
        before = self._servers.get(agent)
        self._servers[agent] = await accept_on(
            sock, lambda: Conversation(agent, self._shared), backlog=2 * self._limits.connections
        )
        if before is not None:
            before.close()

    async def stop(self) -> None:
        """Take no more, and finish what is under way, which is soon."""
        shared = self._shared
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        for conversation in tuple(shared.open):
            conversation.stop_hearing()
        if shared.tasks:
            await asyncio.wait(tuple(shared.tasks))
        if shared.open:
            try:
                await asyncio.wait_for(shared.emptied.wait(), self._limits.linger_s)
            except TimeoutError:
                for deaf in tuple(shared.open):
                    deaf.overdue()
                await shared.emptied.wait()
        shared.deadlines.stop()
