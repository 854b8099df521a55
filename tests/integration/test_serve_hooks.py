"""`POST /v1/hooks/{agent}`: the exchange of a hook's socket over HTTP."""

import asyncio
import re

import pytest
import uvloop

from tests.integration.serve_fakes import Broken, ask, exchange, http, parse_reply, serving

DOCUMENT = b'{"hook_event_name":"SessionStart"}'
HOOK = "/v1/hooks/claude"


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


# The short way, and all that goes the long one.
@pytest.mark.parametrize("target", [HOOK, f"{HOOK}?", f"{HOOK}?a=b", "/v1/hooks/%63laude"])
async def test_what_there_is_to_say_is_the_body_of_the_answer(target: str) -> None:
    async with serving() as served:
        reply = await ask(served.path, "POST", target, DOCUMENT)

        assert (reply.status, reply.body) == (200, DOCUMENT)
        assert reply.headers["content-type"] == "application/json"
        assert served.backend.calls == [("hook", "claude", DOCUMENT)]
        assert served.requests == [("POST", "/v1/hooks/{agent}", 200)]


@pytest.mark.parametrize("target", [HOOK, f"{HOOK}?"])
@pytest.mark.parametrize("body", [b"", b"garbage"])
async def test_nothing_to_say_is_an_answer_without_a_body(target: str, body: bytes) -> None:
    async with serving() as served:
        reply = await ask(served.path, "POST", target, body)

        assert (reply.status, reply.body) == (204, b"")
        assert not {"content-length", "content-type"} & set(reply.headers)
        assert served.requests == [("POST", "/v1/hooks/{agent}", 204)]


async def test_one_connection_takes_several_hooks_with_and_without_an_answer() -> None:
    silent = http("POST", HOOK, b"?").replace(b"connection: close\r\n", b"")
    told = http("POST", HOOK, DOCUMENT).replace(b"connection: close\r\n", b"")
    async with serving() as served:
        raw = await exchange(served.path, silent + told + silent + http("POST", HOOK, DOCUMENT))

        statuses = re.findall(rb"HTTP/1.1 (\d+)", raw)
        assert statuses == [b"204", b"200", b"204", b"200"]
        assert raw.count(DOCUMENT) == 2


async def test_an_agent_that_is_not_known_is_told_with_those_that_are() -> None:
    async with serving() as served:
        reply = await ask(served.path, "POST", "/v1/hooks/cloud", DOCUMENT)

        assert reply.status == 404
        assert reply.headers["content-type"] == "application/problem+json"
        assert "'cloud'" in reply.json["detail"]
        assert "claude" in reply.json["hint"]


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("GET", HOOK, {}, 405),
        ("POST", "/v1/hooks/", {}, 404),
        ("POST", "/v1/hooks/claude/x", {}, 404),
        ("POST", HOOK, {"origin": "http://evil"}, 403),
    ],
)
async def test_what_is_no_hook_is_told_as_a_problem(
    method: str, target: str, headers: dict[str, str], status: int
) -> None:
    async with serving() as served:
        reply = await ask(served.path, method, target, DOCUMENT, **headers)

        assert reply.status == status
        assert served.backend.calls == []


@pytest.mark.parametrize("target", ["/v1/hooks/bug", "/v1/hooks/Unavailable"])
async def test_what_goes_wrong_is_a_problem_as_everywhere(target: str) -> None:
    async with serving() as served:
        reply = await ask(served.path, "POST", target, DOCUMENT)

        assert reply.status in (500, 503)
        assert reply.headers["content-type"] == "application/problem+json"
        assert [type(bug) for bug in served.bugs] == [Broken] * (reply.status == 500)


async def test_a_body_over_one_mebibyte_is_refused() -> None:
    async with serving() as served:
        reply = parse_reply(await exchange(served.path, http("POST", HOOK, b"x" * ((1 << 20) + 1))))

        assert reply.status == 413
        assert served.backend.calls == []
