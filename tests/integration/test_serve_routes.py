"""Every route over a real socket, and every error as problem+json."""

import asyncio
import re
from typing import Any

import orjson
import pytest
import uvloop

from tests.integration.serve_fakes import (
    AT,
    CLOCK,
    ETAG,
    FINDING,
    KINDS,
    Broken,
    Served,
    ask,
    change,
    entry,
    exchange,
    http,
    parse_reply,
    serving,
    until,
)

LOOKUP = b'{"cwd":"/w","key":"routes"}'
PUT = b'{"summary":"s","files":["a.py"]}'
SAVE = b'{"cwd":"/w","category":"c","topic":"t","title":"x","bullets":["a"]}'


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


GOLDEN: list[tuple[str, str, bytes, int, Any]] = [
    (
        "GET",
        "/v1/hello",
        b"",
        200,
        {
            "name": "amend",
            "version": "0.1.0",
            "protocol": {"min": 1, "max": 1},
            "instance": "i1",
            "pid": 1,
            "started_at": AT,
        },
    ),
    (
        "POST",
        "/v1/lookup",
        LOOKUP,
        200,
        {
            "verdict": "fresh",
            "causes": [],
            "drift": [],
            "checked_at": AT,
            "clock": CLOCK,
            "candidates": [],
        },
    ),
    (
        "GET",
        "/v1/entries?cwd=/w&kind=topic&verdict=fresh",
        b"",
        200,
        {"entries": [entry("topic", "routes")], "problems": [], "checked_at": AT, "clock": CLOCK},
    ),
    ("GET", "/v1/entries/topic/routes?cwd=/w", b"", 200, entry("topic", "routes")),
    ("GET", "/v1/entries/pattern/a/b%20c?cwd=/w", b"", 200, entry("pattern", "a/b c")),
    (
        "PUT",
        "/v1/entries/topic/routes?cwd=/w",
        PUT,
        200,
        {"entry": entry("topic", "routes"), "etag": ETAG, "stored_in": "file", "clock": CLOCK},
    ),
    ("DELETE", "/v1/entries/topic/routes?cwd=/w", b"", 204, None),
    (
        "POST",
        "/v1/verify",
        b'{"cwd":"/w"}',
        200,
        {
            "entries": [
                {"kind": "topic", "key": "routes", "verdict": "fresh", "causes": [], "drift": []}
            ],
            "hashed": 1,
            "checked_at": AT,
            "clock": CLOCK,
        },
    ),
    (
        "GET",
        "/v1/changes?since=c:old:1",
        b"",
        200,
        {"changes": [change(7)], "clock": CLOCK, "fresh_instance": True},
    ),
    ("POST", "/v1/sync", b"", 200, {"clock": CLOCK}),
    ("GET", "/v1/memory/lint?cwd=/w", b"", 200, {"findings": [FINDING]}),
    (
        "POST",
        "/v1/memory/fix",
        b'{"cwd":"/w"}',
        200,
        {"findings": [FINDING], "written": ["memory/index.aicontext"]},
    ),
    ("POST", "/v1/memory/sync", b'{"cwd":"/w"}', 200, {"written": ["memory/index.aicontext"]}),
    ("DELETE", "/v1/repos/r1", b"", 204, None),
    ("GET", "/healthz", b"", 200, {"ok": True, "problems": []}),
    ("GET", "/readyz", b"", 200, {"ok": True, "problems": []}),
]


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "document"), GOLDEN, ids=lambda v: str(v)[:40]
)
async def test_a_route_answers_what_the_backend_says(
    method: str, target: str, body: bytes, status: int, document: Any
) -> None:
    async with serving() as served:
        reply = await ask(served.path, method, target, body)

        assert reply.status == status
        assert (reply.json if reply.body else None) == document
        if reply.body:
            assert reply.headers["content-type"] == "application/json"


async def test_repositories_are_listed_added_and_told_with_their_status() -> None:
    async with serving() as served:
        listed = await ask(served.path, "GET", "/v1/repos")
        added = await ask(served.path, "POST", "/v1/repos", b'{"root":"/x"}')
        status = await ask(served.path, "GET", "/v1/status")

        assert listed.json == served.backend.repos()
        assert (added.status, added.json["root"]) == (201, "/x")
        assert status.json == served.backend.status()


async def test_metrics_are_text_and_openapi_describes_every_route() -> None:
    async with serving() as served:
        metrics = await ask(served.path, "GET", "/metrics")
        openapi = await ask(served.path, "GET", "/openapi.json")

        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert metrics.body.endswith(b"amend_marks 3\n")
        paths = openapi.json["paths"]
        assert set(paths["/v1/entries/{kind}/{key}"]) == {"get", "put", "delete"}
        assert "cwd" in str(paths["/v1/lookup"]["post"]["requestBody"])
        assert {"/v1/events", "/v1/changes", "/v1/sync", "/v1/verify", "/readyz"} <= set(paths)
        assert {"/v1/memory", "/v1/memory/save", "/v1/memory/lint", "/v1/memory/fix"} <= set(paths)


async def test_an_entry_carries_its_etag_and_if_match_reaches_the_backend() -> None:
    target = "/v1/entries/topic/routes?cwd=/w"
    async with serving() as served:
        got = await ask(served.path, "GET", target)
        kept = await ask(served.path, "PUT", target, PUT, if_match=ETAG)
        lost = await ask(served.path, "PUT", target, PUT, if_match='"v0"')

        assert got.headers["etag"] == kept.headers["etag"] == ETAG
        assert (lost.status, lost.json["title"]) == (412, "Precondition Failed")
        assert [call[-1] for call in served.backend.calls[1:]] == [ETAG, '"v0"']


async def test_readyz_says_503_with_the_problems() -> None:
    async with serving() as served:
        served.backend.problems = ["/w is gone"]

        reply = await ask(served.path, "GET", "/readyz")

        assert reply.headers["content-type"] == "application/problem+json"
        assert (reply.status, reply.json["status"]) == (503, 503)
        assert (reply.json["ok"], reply.json["problems"]) == (False, ["/w is gone"])


def assert_problem(served: Served, raw: bytes, status: int) -> Any:
    reply = parse_reply(raw)
    assert reply.status == status, raw
    assert reply.headers["content-type"] == "application/problem+json"
    assert set(reply.json) - {"errors"} == {"type", "title", "status", "detail", "hint"}
    assert reply.json["status"] == status
    assert b"Traceback" not in raw
    assert b"secret detail" not in raw
    return reply.json


STATUS = {
    "ConfigInvalid": 422,
    "DocumentInvalid": 422,
    "RequestInvalid": 422,
    "NotFound": 404,
    "Conflict": 409,
    "StaleMatch": 412,
    "Refused": 403,
    "Unavailable": 503,
}


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_each_kind_of_error_has_its_status_on_the_hot_path_and_off_it(kind: str) -> None:
    body = orjson.dumps({"cwd": "/w", "key": kind})
    async with serving() as served:
        hot = await exchange(served.path, http("POST", "/v1/lookup", body))
        other = await exchange(served.path, http("GET", f"/v1/entries/topic/{kind}?cwd=/w"))

        assert assert_problem(served, hot, STATUS[kind])["hint"] == "do otherwise"
        assert parse_reply(hot) == parse_reply(other)
        assert served.bugs == []


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/lookup", b'{"cwd":"/w","key":"bug"}'),
        ("GET", "/v1/entries/topic/bug?cwd=/w", b""),
        ("DELETE", "/v1/repos/bug", b""),
    ],
)
async def test_a_bug_is_told_once_and_shows_the_client_an_id(
    method: str, target: str, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving() as served:
        raw = await exchange(served.path, http(method, target, body))

        problem = assert_problem(served, raw, 500)
        assert "id1" in problem["detail"]
        assert [type(bug) for bug in served.bugs] == [Broken]
        assert [status for _, _, status in served.requests] == [500]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "pointer"),
    [
        ("POST", "/v1/lookup", b"{", 400, None),
        ("POST", "/v1/lookup", b"", 400, None),
        ("POST", "/v1/lookup", b'{"cwd":NaN}', 400, None),
        ("POST", "/v1/lookup", b"\xef\xbb\xbf{}", 400, None),
        ("POST", "/v1/lookup", b'{"a":"\\udcff","cwd":NaN}', 400, None),
        ("POST", "/v1/lookup", b'{"a":"\\udcff","b":' + b"[" * 99999, 400, None),
        ("POST", "/v1/lookup", b"[]", 422, ""),
        ("POST", "/v1/lookup", b"{}", 422, "/cwd"),
        ("POST", "/v1/lookup", b'{"cwd":"relative"}', 422, "/cwd"),
        ("POST", "/v1/lookup", b'{"cwd":"/w","a/b~c":1}', 422, "/a~1b~0c"),
        ("POST", "/v1/lookup", b'{"cwd":"/\\ud800"}', 422, "/cwd"),
        ("POST", "/v1/verify", b'{"cwd":"/w","keys":["a",""]}', 422, "/keys/1"),
        ("POST", "/v1/verify", b"{]", 400, None),
        ("POST", "/v1/repos", b'{"root":"x"}', 422, "/root"),
        ("PUT", "/v1/entries/topic/k?cwd=/w", b'{"files":[]}', 422, "/summary"),
        ("PUT", "/v1/entries/odd/k?cwd=/w", PUT, 422, "/path/kind"),
        ("GET", "/v1/memory", b"", 422, "/query/cwd"),
        ("GET", "/v1/memory?cwd=/w&level=deep", b"", 422, "/query/level"),
        ("GET", "/v1/memory?cwd=/w&path=", b"", 422, "/query/path"),
        ("GET", "/v1/memory?cwd=/w&path=a%00b", b"", 422, "/query/path"),
        ("POST", "/v1/memory/save", SAVE.replace(b'["a"]', b"[]"), 422, "/bullets"),
        ("POST", "/v1/memory/save", SAVE.replace(b"cwd", b"cwx"), 422, "/cwd"),
        ("POST", "/v1/memory/save", SAVE[:-1] + b',"date":"1.2.2026"}', 422, "/date"),
        ("POST", "/v1/memory/fix", b'{"cwd":"/w","tree":""}', 422, "/tree"),
        ("GET", "/v1/entries/topic/k", b"", 422, "/query/cwd"),
        ("GET", "/v1/entries/topic/k%0a?cwd=/w", b"", 422, None),
        ("GET", "/v1/entries/topic/?cwd=/w", b"", 422, "/path/key"),
        ("GET", "/v1/entries?cwd=w", b"", 422, "/query/cwd"),
        ("GET", "/v1/changes", b"", 422, "/query/since"),
        ("GET", "/nothing", b"", 404, None),
        ("GET", "/v1/hello/", b"", 404, None),
        ("PATCH", "/v1/lookup", b"", 405, None),
    ],
)
async def test_a_wrong_request_is_told_where_and_why(
    method: str, target: str, body: bytes, status: int, pointer: str | None
) -> None:
    headers = {} if body else {"content_length": "0"}
    async with serving() as served:
        raw = await exchange(served.path, http(method, target, body, **headers))

        problem = assert_problem(served, raw, status)
        if pointer is not None:
            assert pointer in [each["pointer"] for each in problem["errors"]]
            assert all(set(each) == {"pointer", "rule"} for each in problem["errors"])
        if status in (404, 405):
            assert "/openapi.json" in problem["hint"]
        assert served.bugs == []


async def test_a_method_that_a_path_has_not_is_told_which_it_has() -> None:
    async with serving() as served:
        reply = await ask(served.path, "POST", "/v1/entries/topic/routes", b"{}")

        assert (reply.status, reply.headers["allow"]) == (405, "DELETE, GET, PUT")


async def test_a_browser_is_refused_everywhere() -> None:
    async with serving() as served:
        hot = await exchange(
            served.path, http("POST", "/v1/lookup", LOOKUP, origin="http://localhost")
        )
        other = await exchange(served.path, http("GET", "/v1/hello", origin="null"))

        assert_problem(served, hot, 403)
        assert_problem(served, other, 403)
        assert served.backend.calls == []


async def test_a_path_that_is_no_utf8_is_taken_and_given_back() -> None:
    raw = rb'{"cwd":"/w/\udcff","key":"echo"}'
    async with serving() as served:
        hot = await ask(served.path, "POST", "/v1/lookup", raw)
        put = await ask(
            served.path,
            "PUT",
            "/v1/entries/topic/k?cwd=/w/%ff",
            rb'{"summary":"s","files":["\udc80.py"]}',
        )

        assert rb'"drift":["/w/\udcff"]' in hot.body
        assert put.status == 200
        assert served.backend.calls[0] == ("lookup", "/w/\udcff", "echo")
        assert served.backend.calls[1][1] == "/w/\udcff"
        assert served.backend.calls[1][4] == ["\udc80.py"]


async def test_what_is_asked_about_memory_reaches_the_backend_as_it_was_sent() -> None:
    target = "/v1/memory?cwd=/w%ff&level=note&path=caf%e9/n%C3%BC&tree=x%fe"
    async with serving() as served:
        read = await ask(served.path, "GET", target)
        saved = await ask(served.path, "POST", "/v1/memory/save", SAVE)
        terms = await ask(served.path, "GET", "/v1/memory/dict?cwd=/w&tree=notes")

        assert [read.status, saved.status, terms.status] == [200, 200, 200]
        asked, request, (_, *rest) = served.backend.calls
        assert asked == ("read_memory", "/w\udcff", "note", "caf\udce9/n\u00fc", "x\udcfe")
        assert (request[1].bullets, request[1].replaces, request[1].date) == (["a"], [], None)
        assert rest == ["/w", "notes"]
        assert saved.json["created"] is True
        assert terms.json["is_worth_it"] is False


async def test_one_connection_takes_many_requests_also_all_at_once() -> None:
    one = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(LOOKUP), LOOKUP)
    async with serving() as served:
        raw = await exchange(served.path, one * 5 + http("GET", "/healthz"))

        assert raw.count(b"HTTP/1.1 200 OK") == 6
        assert len(served.requests) == 6


@pytest.mark.parametrize("body", [LOOKUP, b"{", b'{"cwd":"/w","key":"NotFound"}'])
async def test_the_short_way_and_the_long_way_answer_alike(body: bytes) -> None:
    plain = http("POST", "/v1/lookup", body)
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ways = [
        http("POST", "/v1/lookup?x=1", body),
        http("POST", "/v1/lookup", body, expect="100-continue"),
        plain.replace(b"HTTP/1.1", b"HTTP/1.0"),
        http("POST", "/v1/lookup", transfer_encoding="chunked") + chunk,
        http("POST", "/v1/lookup?x=1", transfer_encoding="chunked") + chunk,
    ]
    async with serving() as served:
        short = await exchange(served.path, plain)
        raws = [await exchange(served.path, way) for way in ways]

        status = parse_reply(short).status
        for raw in raws:
            assert raw.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n") == short
        assert served.requests == [("POST", "/v1/lookup", status)] * 6


async def test_answers_come_in_the_order_of_their_questions() -> None:
    asked = [
        b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        for body in (b'{"cwd":"/w","key":"held"}', LOOKUP)
    ]
    async with serving() as served:
        raw = asyncio.create_task(exchange(served.path, b"".join(asked) + http("GET", "/nothing")))
        await until(lambda: served.backend.calls)
        served.backend.release.set()

        codes = re.findall(rb"HTTP/1.1 (\d+)", await raw)

        assert codes == [b"200", b"200", b"404"]
        assert [call[2] for call in served.backend.calls] == ["held", "routes"]


async def test_a_client_that_leaves_before_its_answer_is_told_as_such() -> None:
    held = http("POST", "/v1/lookup", b'{"cwd":"/w","key":"held"}')
    async with serving() as served:
        _, writer = await asyncio.open_unix_connection(served.path)
        writer.write(held)
        await until(lambda: served.backend.calls)
        writer.transport.abort()
        await until(lambda: served.server.stats.connections == 0)

        served.backend.release.set()
        await until(lambda: served.requests)

        assert served.requests == [("POST", "/v1/lookup", 499)]
        assert served.bugs == []


async def test_a_client_that_closes_its_sending_half_gets_its_answer() -> None:
    keep_alive = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 27\r\n\r\n" + LOOKUP
    async with serving() as served:
        hot = await exchange(served.path, keep_alive, eof=True)
        other = await exchange(served.path, b"GET /v1/hello HTTP/1.1\r\n\r\n", eof=True)
        half = await exchange(served.path, keep_alive[:-3], eof=True)

        assert parse_reply(hot).json["verdict"] == "fresh"
        assert parse_reply(other).json["name"] == "amend"
        assert_problem(served, half, 400)


async def test_asking_for_an_upgrade_gets_the_plain_answer_and_the_end() -> None:
    asking = b"GET /healthz HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with serving() as served:
        raw = await exchange(served.path, asking)

        assert parse_reply(raw).json == {"ok": True, "problems": []}


async def test_requests_are_told_by_route_and_not_by_path() -> None:
    async with serving() as served:
        await ask(served.path, "POST", "/v1/lookup", LOOKUP)
        await ask(served.path, "GET", "/v1/entries/topic/routes?cwd=/w")
        await ask(served.path, "GET", "/nothing")
        await exchange(served.path, b"nonsense\r\n\r\n")

        assert served.requests == [
            ("POST", "/v1/lookup", 200),
            ("GET", "/v1/entries/{kind}/{key:path}", 200),
            ("GET", "-", 404),
            ("-", "-", 400),
        ]


async def test_stopping_finishes_what_is_under_way() -> None:
    async with serving() as served:
        held = asyncio.create_task(
            ask(served.path, "POST", "/v1/lookup", b'{"cwd":"/w","key":"held"}')
        )
        await until(lambda: served.backend.calls)

        stopping = asyncio.create_task(served.server.stop(5))
        await asyncio.sleep(0)
        served.backend.release.set()

        assert (await held).status == 200
        await stopping


async def test_stopping_cuts_what_does_not_finish_with_a_problem() -> None:
    async with serving() as served:
        held = asyncio.create_task(
            exchange(served.path, http("POST", "/v1/lookup", b'{"cwd":"/w","key":"held"}'))
        )
        await until(lambda: served.backend.calls)

        await served.server.stop(0.05)

        assert_problem(served, await held, 503)
        assert served.server.stats.connections == 0
        assert served.requests == [("POST", "/v1/lookup", 503)]
