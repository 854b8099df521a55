"""The hot path: `POST /v1/lookup` answered without a framework; all else goes on to the app.

A question is asked before every exploration and measured against a C server, so it pays for
parsing, the answer and serialising, and nothing more. Errors look exactly like everybody else's.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from pydantic import ValidationError

from amend.edge.serve.problems import (
    PROBLEM_JSON,
    Problem,
    from_json,
    invalid_request,
    problem_of,
    to_json,
)
from amend.formats.api import Backend, LookupRequest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
OnRequest = Callable[[str, str, int, float], None]
OnBug = Callable[[Exception], str]
"""Told of a bug; gives the id that goes to the client."""

LOOKUP: Final = "/v1/lookup"


class Front:
    def __init__(self, app: App, backend: Backend, on_request: OnRequest, on_bug: OnBug) -> None:
        self._app = app
        self._backend = backend
        self._on_request = on_request
        self._on_bug = on_bug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started_s = time.perf_counter()
        if any(name == b"origin" for name, _ in scope["headers"]):
            problem = Problem(403, "a browser's request", "nothing in a browser has business here")
            await _answer(send, problem.status, problem.body(), PROBLEM_JSON)
            return
        if scope["path"] != LOOKUP or scope["method"] != "POST":
            await self._pass_on(scope, receive, send, started_s)
            return
        status, body = await self._lookup(receive)
        kind = b"application/json" if status == 200 else PROBLEM_JSON
        await _answer(send, status, body, kind)
        self._on_request("POST", LOOKUP, status, time.perf_counter() - started_s)

    async def _lookup(self, receive: Receive) -> tuple[int, bytes]:
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return 400, b""
            body += message.get("body", b"")
            more = message.get("more_body", False)
        try:
            document = from_json(body)
        except ValueError:
            problem = Problem(400, "the body is no JSON", "send one JSON object")
            return problem.status, problem.body()
        try:
            return 200, to_json(await self._backend.lookup(LookupRequest.model_validate(document)))
        except ValidationError as error:
            problem = invalid_request(error)
        except Exception as error:
            problem = problem_of(error) or bug_problem(self._on_bug(error))
        return problem.status, problem.body()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, started_s: float) -> None:
        status = 500

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._on_request(scope["method"], route, status, time.perf_counter() - started_s)


def bug_problem(bug_id: str) -> Problem:
    return Problem(
        500, f"amend made a mistake ({bug_id})", "see the log of that id; please report it"
    )


async def _answer(send: Send, status: int, body: bytes, kind: bytes) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", kind), (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})
