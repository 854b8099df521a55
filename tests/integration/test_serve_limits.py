"""Who is let in, for how long, and how much they may send."""

import asyncio
import contextlib
import os
import re
import socket
from pathlib import Path

import pytest
import uvloop

from amend.edge.serve.limits import Limits
from amend.edge.serve.peer import peer_uid
from tests.integration.serve_fakes import (
    ask,
    exchange,
    http,
    listening,
    parse_reply,
    serving,
    until,
)

NOBODY = 65534
LOOKUP = b'{"cwd":"/w","key":"routes"}'
HEAD = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 27\r\n"

# Short enough for a test, long enough that the other limits are not met by a slow machine.
QUICK = Limits(header_s=0.2, body_s=0.3, idle_s=0.2, linger_s=0.02)


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


async def dribble(path: str, first: bytes, drop: bytes) -> tuple[bytes, float]:
    """Send `first`, then `drop` again and again until the server has had enough."""
    reader, writer = await asyncio.open_unix_connection(path)
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    got = bytearray()

    async def read() -> None:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(1 << 16):
                got.extend(part)

    writer.write(first)
    reading = asyncio.create_task(read())
    try:
        async with asyncio.timeout(10):
            while not reading.done():
                writer.write(drop)
                await asyncio.wait((reading,), timeout=0.02)
        return bytes(got), loop.time() - started_s
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("first", "drop", "part"),
    [
        (b"GET /", b"x", "headers"),
        (b"GET / HTTP/1.1\r\n", b"x", "headers"),
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n", "headers"),
        (HEAD + b"\r\n", b" ", "body"),
        (b"PUT /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n", "body"),
    ],
)
async def test_a_request_that_dribbles_in_is_cut(first: bytes, drop: bytes, part: str) -> None:
    async with serving(QUICK) as served:
        # 27 bytes of body at one in 20 ms take longer than its deadline.
        raw, took_s = await dribble(served.path, first, drop)

        assert took_s < 5
        assert served.server.stats.timeouts == 1
        if raw:  # the client may have noticed the end before it read why
            assert part in parse_reply(raw).json["detail"]
        await until(lambda: served.server.stats.connections == 0)


@pytest.mark.parametrize("said", [b"", b"\r\n", b"\r\n\r\n\r\n"])
async def test_a_connection_that_asks_nothing_is_closed_without_a_word(said: bytes) -> None:
    async with serving(QUICK) as served:
        raw = await exchange(served.path, said)

        assert raw == b""
        assert served.server.stats.timeouts == 1


async def test_empty_lines_put_off_no_deadline() -> None:
    async with serving(QUICK) as served:
        _, fresh_s = await dribble(served.path, b"", b"\r\n")
        raw, used_s = await dribble(served.path, HEAD + b"\r\n" + LOOKUP, b"\r\n")

        assert fresh_s < 5
        assert used_s < 5
        assert b"200 OK" in raw


async def test_a_used_connection_is_closed_when_idle() -> None:
    async with serving(QUICK) as served:
        raw = await exchange(served.path, HEAD + b"\r\n" + LOOKUP)

        assert parse_reply(raw).status == 200
        assert served.server.stats.timeouts == 0


async def test_a_slow_answer_is_nobodys_fault_and_is_not_cut() -> None:
    async with serving(QUICK) as served:
        held = asyncio.create_task(
            ask(served.path, "POST", "/v1/lookup", b'{"cwd":"/w","key":"held"}')
        )
        await until(lambda: served.backend.calls)
        assert await exchange(served.path, b"") == b""  # by now the limits of `held` are over too
        assert await exchange(served.path, HEAD + b"\r\n") != b""
        served.backend.release.set()

        assert (await held).status == 200


async def test_the_129th_connection_is_told_so_and_the_others_are_served() -> None:
    limits = Limits(linger_s=0.02, header_s=30)
    async with serving(limits) as served:
        held = [await asyncio.open_unix_connection(served.path) for _ in range(128)]
        await until(lambda: served.server.stats.connections == 128)

        raw = await exchange(served.path, http("GET", "/healthz"))

        reply = parse_reply(raw)
        assert (reply.status, reply.json["title"]) == (503, "Service Unavailable")
        assert reply.headers["content-type"] == "application/problem+json"
        assert served.server.stats.refused_full == 1
        reader, writer = held[0]
        writer.write(http("GET", "/healthz"))
        assert b"200 OK" in await asyncio.wait_for(reader.read(), 10)
        for _, each in held:
            each.close()
        await until(lambda: served.server.stats.connections == 0)
        assert (await ask(served.path, "GET", "/healthz")).status == 200


BIG = (1 << 20) + 1


def chunked(target: bytes, size: int) -> bytes:
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = b"POST %s HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n" % target
    return head + part * -(-size // 0x10000) + b"0\r\n\r\n"


@pytest.mark.parametrize("target", ["/v1/lookup", "/v1/verify", "/nothing"])
@pytest.mark.parametrize("how", ["length", "chunks"])
async def test_a_body_over_one_mebibyte_is_refused_while_it_is_sent(target: str, how: str) -> None:
    data = (
        http("POST", target, b"x" * BIG)
        if how == "length"
        else chunked(target.encode(), BIG + 0x10000)
    )
    async with serving(Limits(linger_s=0.3)) as served:
        reply = parse_reply(await exchange(served.path, data))

        assert reply.status == 413
        assert [status for _, _, status in served.requests] == [413]
        assert reply.headers["content-type"] == "application/problem+json"
        assert served.backend.calls == []


async def test_a_body_of_one_mebibyte_is_read() -> None:
    body = b'{"cwd":"/w","key":"routes"}'.ljust(1 << 20)
    async with serving() as served:
        whole = await ask(served.path, "POST", "/v1/lookup", body)
        in_chunks = parse_reply(await exchange(served.path, chunked(b"/v1/lookup", 1 << 20)))

        assert whole.status == 200
        assert in_chunks.status == 400  # read, and found to be no JSON


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\na: " + b"x" * 17000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 9000 + b"\r\n",
        b"GET /healthz?" + b"x" * 17000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\na: " + b"x" * 300_000,
    ],
)
async def test_headers_over_16_kibibytes_are_refused(head: bytes) -> None:
    async with serving() as served:
        reply = parse_reply(await exchange(served.path, head))

        assert reply.status == 431
        assert reply.headers["content-type"] == "application/problem+json"


async def test_trailers_of_a_chunked_body_are_dropped() -> None:
    head = b"POST /v1/lookup HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    trailers = b"origin: http://evil\r\n" + b"a: b\r\n" * 2000
    async with serving() as served:
        raw = await exchange(
            served.path, head + b"1b\r\n" + LOOKUP + b"\r\n0\r\n" + trailers + b"\r\n"
        )

        assert parse_reply(raw).status == 200


async def test_what_comes_after_the_answer_gets_no_second_one() -> None:
    unread = http("POST", "/nothing", b"x") + b"x" * 1000 + http("GET", "/healthz")
    async with serving(QUICK) as served:
        raw = await exchange(served.path, unread)

        assert [reply[-3:] for reply in re.findall(rb"HTTP/1.1 \d+", raw)] == [b"404"]


async def test_garbage_after_a_request_under_way_breaks_no_answer_in_two() -> None:
    held = b'{"cwd":"/w","key":"held"}'
    request = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(held), held)
    async with serving() as served:
        raw = await exchange(served.path, request + b"garbage\r\n\r\n")

        assert len(re.findall(rb"HTTP/1.1 \d+", raw)) <= 1
        await until(lambda: served.server.stats.connections == 0)


async def test_a_client_that_leaves_is_no_bug() -> None:
    async with serving() as served:
        for part in (HEAD[:10], HEAD + b"\r\n" + LOOKUP[:5], http("PUT", "/v1/verify", b"{")[:-1]):
            _, writer = await asyncio.open_unix_connection(served.path)
            writer.write(part)
            await writer.drain()
            writer.transport.abort()
        await until(lambda: served.server.stats.connections == 0)

        assert served.bugs == []
        assert (await ask(served.path, "GET", "/healthz")).status == 200


def connect_as(uid: int, path: str) -> int:
    """In a child that gives up its user for good: 0 when the server closed without reading."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(10)
                sock.connect(path)
                try:
                    sock.sendall(http("GET", "/healthz"))
                    code = 0 if sock.recv(1000) == b"" else 1
                except (BrokenPipeError, ConnectionResetError):
                    code = 0
        finally:
            os._exit(code)
    return child


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused_even_where_the_modes_let_them_in() -> None:
    async with serving() as served:
        os.chmod(os.path.dirname(served.path), 0o755)
        os.chmod(served.path, 0o666)

        child = connect_as(NOBODY, served.path)
        await until(lambda: served.server.stats.refused_peers == 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert served.requests == []
        assert served.server.stats.connections == 0
        assert (await ask(served.path, "GET", "/healthz")).status == 200


def test_a_peer_is_known_by_the_kernels_word() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert peer_uid(here) == os.geteuid()


async def test_accepting_elsewhere_keeps_the_connections_that_are_open() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_unix_connection(served.path)
        writer.write(HEAD + b"\r\n" + LOOKUP)
        await reader.readuntil(b"candidates")
        os.unlink(served.path)

        await served.server.start(listening(Path(served.path)))

        assert (await ask(served.path, "GET", "/healthz")).status == 200
        writer.write(http("GET", "/healthz"))
        assert b"200 OK" in await asyncio.wait_for(reader.read(), 10)
        writer.close()
