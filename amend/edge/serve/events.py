"""Server-sent events: one per verdict change, a comment when there was none for a while.

A stream ends cleanly when the backend's ends or the server stops, at once when the client leaves.
Its tasks end with it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from amend.edge.serve.problems import Problem, problem_of, to_json_bytes
from amend.formats.api import ChangeJson

MEDIA_TYPE: Final = "text/event-stream"

_HEADERS: Final = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]


class EventStream(Response):
    """Made by `open`, so that what is wrong from the start is an answer and not an event."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        stream: AsyncIterator[ChangeJson],
        upcoming: asyncio.Task[ChangeJson | None],
        stopping: asyncio.Event,
        quiet_s: float,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._upcoming = upcoming
        self._stopping = stopping
        self._quiet_s = quiet_s

    @classmethod
    async def open(
        cls, stream: AsyncIterator[ChangeJson], stopping: asyncio.Event, quiet_s: float
    ) -> "EventStream":
        """Raises what the stream raises before it first waits: no such repository."""
        upcoming = _next(stream)
        await asyncio.sleep(0)
        if upcoming.done() and (error := upcoming.exception()) is not None:
            raise error
        return cls(stream, upcoming, stopping, quiet_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_until_gone(receive))
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _write(send, b": amend\n\n")
            while not gone.done():
                await asyncio.wait(
                    (self._upcoming, gone, stopped),
                    timeout=self._quiet_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._upcoming.done():
                    if not await self._tell(send):
                        break
                elif stopped.done():
                    break
                elif not gone.done():
                    await _write(send, b": still here\n\n")
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._end(gone, stopped)

    async def _tell(self, send: Send) -> bool:
        """Send what has come. False at the stream's end."""
        error = self._upcoming.exception()
        if isinstance(error, Exception):
            problem = problem_of(error)
            if problem is None:
                raise error
            await _write(send, _problem_event(problem))
            return False
        change = self._upcoming.result()
        if change is None:
            return False
        self._upcoming = _next(self._stream)
        clock = change["clock"].encode()
        await _write(send, b"id: %s\nevent: verdict\ndata: %s\n\n" % (clock, to_json_bytes(change)))
        return True

    async def _end(self, *tasks: "asyncio.Future[Any]") -> None:
        for task in (self._upcoming, *tasks):
            task.cancel()
        await asyncio.gather(self._upcoming, *tasks, return_exceptions=True)
        close = getattr(self._stream, "aclose", None)  # a generator has one
        if close is not None:
            await close()


def _problem_event(problem: Problem) -> bytes:
    return b"event: problem\ndata: %s\n\n" % problem.body()


def _next(stream: AsyncIterator[ChangeJson]) -> asyncio.Task[ChangeJson | None]:
    async def one() -> ChangeJson | None:
        return await anext(stream, None)

    return asyncio.create_task(one())


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
