"""The door of the HTTP socket, and its hot paths: lookups and hooks answered without a framework.

A question is asked before every exploration and measured against a C server, so it pays for
parsing, the answer and serialising, and nothing more: mostly the protocol calls `lookup` and `hook`
themselves, and what is unusual about a request (queued behind another, a query string) brings it
here as any other. All else goes on to the app. Errors look exactly like everybody else's. Every
request is told to `on_request` once, every bug to `on_bug`.
"""

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from amend.edge.serve.direct import Answer
from amend.edge.serve.problems import (
    PROBLEM_JSON,
    OnBug,
    Problem,
    bug_problem,
    parse_request,
    problem_of,
    to_json_bytes,
)
from amend.edge.serve.protocol import CUT, GONE, NO_CONTENT, NO_ROUTE, OnRequest
from amend.formats.api import Backend, LookupRequest

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOKUP: Final = "/v1/lookup"
HOOK: Final = "/v1/hooks/{agent}"

_BROWSER: Final = Problem(
    403, "the request has an Origin: it comes from a browser", "use amend, curl or nc"
)

# No name in a path has one, and the framework's patterns end a path at a line end: "k\n" is "k".
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_CONTROLLED: Final = Problem(
    422, "the path holds a control character", "keys are lines of text; check the quoting"
)


class Gone(Exception):
    """The client left before it had sent its request."""


class Front:
    def __init__(self, app: App, backend: Backend, *, on_request: OnRequest, on_bug: OnBug) -> None:
        self._app = app
        self._backend = backend
        self._on_request = on_request
        self._on_bug = on_bug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started_s = time.perf_counter()
        status, route = GONE, NO_ROUTE
        try:
            # Whole before anything is answered: a client that still writes would not read.
            body = await read_body(receive)
            if any(name == b"origin" for name, _ in scope["headers"]):
                status = await _send_problem(send, _BROWSER)
            elif scope["path"] == LOOKUP and scope["method"] == "POST":
                route = LOOKUP
                status, kind, answer = await self.lookup(body)
                await _send_whole(send, status, kind, answer)
            elif _CONTROL.search(scope["path"]):
                status = await _send_problem(send, _CONTROLLED)
            else:
                status = await self._pass_on(scope, replay(body, receive), send)
                route = getattr(scope.get("route"), "path", NO_ROUTE)
        except Gone:
            status = GONE
        finally:
            status = scope.get(CUT, status)
            self._on_request(scope["method"], route, status, time.perf_counter() - started_s)

    async def lookup(self, body: bytes) -> Answer:
        """The whole of the hot path between the bytes in and the bytes out."""
        try:
            answer = await self._backend.lookup(parse_request(LookupRequest, body))
            return 200, b"application/json", to_json_bytes(answer)
        except Exception as error:
            return self._gone_wrong(error)

    async def hook(self, agent: str, body: bytes) -> Answer:
        try:
            reply = await self._backend.hook(agent, body)
        except Exception as error:
            return self._gone_wrong(error)
        return (200, b"application/json", reply) if reply else (NO_CONTENT, b"", b"")

    def _gone_wrong(self, error: Exception) -> Answer:
        problem = problem_of(error) or bug_problem(self._on_bug(error))
        return problem.status, PROBLEM_JSON, problem.body()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> int:
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._app(scope, receive, noting)
        return status or GONE


class Catcher:
    """What a route raises and no handler knows, made a problem: a middleware of the app.

    Inside the framework's own catcher, which would answer and then raise it all the same.
    """

    def __init__(self, app: App, on_bug: OnBug) -> None:
        self._app = app
        self._on_bug = on_bug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:
            problem = bug_problem(self._on_bug(error))
            if started:
                raise  # half an answer is out; only a cut connection says that it is no whole one
            await _send_problem(send, problem)


async def read_body(receive: Receive) -> bytes:
    """Bounded by the protocol. Raises `Gone`."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        if not message.get("more_body", False) and not parts:
            return bytes(message.get("body", b""))
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """What the app receives: the body, then whatever else there is to hear."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return first.pop() if first else await receive()

    return received


async def _send_problem(send: Send, problem: Problem) -> int:
    await _send_whole(send, problem.status, PROBLEM_JSON, problem.body())
    return problem.status


async def _send_whole(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
