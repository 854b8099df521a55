"""The server behind `amend ui`: the page's own files, and the daemon's answers, on loopback.

Everything goes through `Guard` first. The page may load nothing but what is served here, run no
script but its own files, and be framed by nobody; nothing of it is kept by the browser.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import resources
from types import FrameType
from typing import Any, Final

import uvicorn

from amend.cli import ui_daemon
from amend.cli.client import Client
from amend.cli.ui_guard import HOST, Guard, Refusal, Welcome
from amend.daemon.workers import Workers
from amend.errors import AmendError, Conflict, Unavailable, reason_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# By the path below the page: the file in `amend.ui`, and what it is.
_FILES: Final = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        name: (name, "text/javascript; charset=utf-8")
        for name in ("page.js", "show.js", "plots.js", "text.js")
    },
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)

_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

# A browser holds six connections to a host; a page left open in each of some windows.
STREAMS_MAX: Final = 16
CONNECTIONS_MAX: Final = 64

# What is being answered when somebody leaves is for nobody any more.
_STOP_S: Final = 1


class Page:
    """An ASGI app. `stopping` ends its event streams."""

    def __init__(self, guard: Guard, client: Client, stopping: asyncio.Event) -> None:
        self._guard = guard
        self._client = client
        self._stopping = stopping
        self._streams = 0
        folder = resources.files("amend.ui")
        self._files = {
            path: (kind, folder.joinpath(name).read_bytes())
            for path, (name, kind) in _FILES.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name.decode("latin-1"), v.decode("latin-1")) for name, v in scope["headers"]]
        query = scope["query_string"].decode("latin-1")
        peer = scope.get("client")
        # As it was sent: a key's own "%2F" is not a path's "/".
        path = scope["raw_path"].decode("latin-1")
        judged = self._guard.judge(scope["method"], path, query, headers, peer and peer[1])
        match judged:
            case Refusal():
                text = f"amend: {judged.why}\n{judged.hint}\n"
                await _send(send, judged.status, "text/plain; charset=utf-8", text.encode())
            case Welcome():
                await _send(
                    send, 303, "text/plain", b"", location=judged.path, cookie=judged.cookie
                )
            case ui_daemon.EVENTS:
                await self._pass_events_on(dict(headers).get("last-event-id"), receive, send)
            case _ if judged in self._files:
                await _send(send, 200, *self._files[judged])
            case _:
                await _send(send, *await ui_daemon.answer(self._client, judged, query))

    async def _pass_events_on(self, last: str | None, receive: Receive, send: Send) -> None:
        try:
            if self._streams >= STREAMS_MAX:
                raise Unavailable(
                    f"{STREAMS_MAX} pages are open already", hint="close some of them"
                )
            stream, writer = await ui_daemon.events(self._client.path, last)
        except AmendError as error:
            await _send(send, *ui_daemon.problem(error))
            return
        self._streams += 1
        gone = asyncio.create_task(_until_gone(receive))
        stopped = asyncio.create_task(self._stopping.wait())
        passing = asyncio.create_task(_pass_on(stream, send))
        try:
            await asyncio.wait((gone, stopped, passing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams -= 1
            writer.close()
            for task in (gone, stopped, passing):
                task.cancel()
            await asyncio.gather(gone, stopped, passing, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pass_on(stream: Any, send: Send) -> None:
    await send(_start(200, "text/event-stream"))
    async for piece in stream:
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(
    send: Send,
    status: int,
    kind: str,
    body: bytes,
    *,
    location: str | None = None,
    cookie: str | None = None,
) -> None:
    more = {"location": location, "set-cookie": cookie, "content-length": str(len(body))}
    await send(_start(status, kind, **{name: v for name, v in more.items() if v is not None}))
    await send({"type": "http.response.body", "body": body})


def _start(status: int, kind: str, **more: str) -> dict[str, Any]:
    headers = {**_HEADERS, "content-type": kind, **more}
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


class _Server(uvicorn.Server):
    """Tells `stopping` of a signal, so that event streams end and nothing is waited for."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._is_stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._is_stopping.set()
        super().handle_exit(sig, frame)


def listen(port: int) -> socket.socket:
    """A socket on loopback; `port` 0 takes any that is free. Raises `Conflict` for one in use."""
    try:
        return socket.create_server((HOST, port), backlog=64)
    except OSError as error:
        raise Conflict(
            f"port {port} of {HOST} cannot be used: {reason_of(error)}",
            hint="leave --port out for a free one",
        ) from None


async def serve(
    sock: socket.socket, guard: Guard, client: Client, *, started: Callable[[], None]
) -> None:
    """Until a signal says stop. `started` is called when the link works."""
    # A question to a daemon that hangs is not waited for at the end.
    asyncio.get_running_loop().set_default_executor(Workers())
    stopping = asyncio.Event()
    config = uvicorn.Config(
        Page(guard, client, stopping),
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = _Server(config, stopping)
    started()
    await server.serve([sock])
