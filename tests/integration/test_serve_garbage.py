"""Whatever is sent, the answer is an answer: no 5xx, no hang, no bug."""

import asyncio
import random

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from amend.edge.serve.limits import Limits
from amend.edge.serve.problems import Problem, Turned, from_json_bytes, parse_request, to_json_bytes
from amend.formats.api import LookupRequest
from tests.integration.serve_fakes import ask, exchange, http, serving

# Every wait ends soon, so that a hang is the server's and not the limits'.
QUICK = Limits(header_s=0.05, body_s=0.05, idle_s=0.05, linger_s=0.01)

SEEDS = (
    http("POST", "/v1/lookup", b'{"cwd":"/w","key":"routes","kind":"topic"}'),
    http("PUT", "/v1/entries/topic/a%20b?cwd=/w", b'{"summary":"s","files":["a"]}', if_match='"x"'),
    http("GET", "/v1/changes?since=c:i1:3&cwd=/w"),
    http("POST", "/v1/verify", b'{"cwd":"/w","keys":["a","b"]}'),
    http("DELETE", "/v1/repos/r1"),
    b"POST /v1/sync HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
)

MUTANTS = 400


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


def mutant(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 20)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 20))
            case 3:
                data[at:at] = data[at : at + rng.randint(1, 60)]
            case 4:
                data[at:at] = rng.choice((b"\r\n", b"\\udcff", b"%00", b"%ff", b"{" * 50, b"\x00"))
            case _:
                del data[at:]
        data = data or bytearray(b"\n")
    return bytes(data)


async def test_mutated_requests_get_no_5xx_and_leave_the_server_well() -> None:
    rng = random.Random(20261130)
    mutants = [mutant(rng) for _ in range(MUTANTS)]
    async with serving(QUICK) as served:
        served.backend.streams_end = True
        free = asyncio.Semaphore(32)

        async def one(data: bytes, eof: bool) -> bytes:
            async with free:
                return await exchange(served.path, data, eof=eof)

        raws = await asyncio.gather(*(one(m, i % 2 == 0) for i, m in enumerate(mutants)))

        for data, raw in zip(mutants, raws, strict=True):
            assert raw == b"" or raw.startswith(b"HTTP/1."), data
            assert b"HTTP/1.1 5" not in raw, data
        assert served.bugs == []
        assert (await ask(served.path, "GET", "/healthz")).status == 200


any_text = st.text(st.characters(codec=None, exclude_categories=()) | st.characters())
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | any_text
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["cwd", "key", "question", "endpoint", "kind", "repository", "x"])


@given(st.dictionaries(fields, json_values, max_size=5))
def test_any_json_is_a_question_or_is_told_what_is_wrong(fields_sent: dict[str, object]) -> None:
    body = to_json_bytes({"cwd": "/w"} | fields_sent)
    found: LookupRequest | Problem
    try:
        found = parse_request(LookupRequest, body)
    except Turned as turned:
        found = turned.problem

    if isinstance(found, Problem):
        assert (found.status, bool(found.errors), bool(found.body())) == (422, True, True)
    else:
        assert found.model_dump(exclude_unset=True) == from_json_bytes(body)


@given(st.recursive(any_text | st.integers(-(2**53), 2**53) | st.none(), st.lists, max_leaves=5))
def test_json_survives_the_way_out_and_back_with_any_surrogate(document: object) -> None:
    assert from_json_bytes(to_json_bytes(document)) == document
