"""The event stream: what it says, where it resumes, and that it ends."""

import asyncio
from collections.abc import Awaitable, Callable

import orjson
import pytest
import uvloop

from amend.edge.serve.limits import Limits
from tests.integration.serve_fakes import (
    Broken,
    ask,
    change,
    chunks,
    exchange,
    http,
    serving,
    until,
)


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


async def stream(
    path: str,
) -> tuple[
    Callable[[bytes], Awaitable[bytes]], Callable[[], Awaitable[bytes]], asyncio.StreamWriter
]:
    """An open stream: read until some bytes, read until the end, and what to close."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(http("GET", "/v1/events"))

    async def read_until(end: bytes) -> bytes:
        return await asyncio.wait_for(reader.readuntil(end), 10)

    async def read_all() -> bytes:
        return await asyncio.wait_for(reader.read(), 10)

    return read_until, read_all, writer


def event(number: int) -> bytes:
    data = orjson.dumps(change(number))
    return b"id: c:i1:%d\nevent: verdict\ndata: %s\n\n" % (number, data)


async def test_a_change_arrives_as_one_event() -> None:
    async with serving() as served:
        read_until, _, writer = await stream(served.path)
        head = await read_until(b"\r\n\r\n")
        await read_until(b": amend\n\n")
        served.backend.live.put_nowait(change(3))

        raw = await read_until(b"\n\n")

        assert b"content-type: text/event-stream\r\n" in head
        assert raw.endswith(event(3))
        writer.close()


async def test_a_stream_resumes_after_the_last_event_that_was_seen() -> None:
    async with serving() as served:
        served.backend.streams_end = True

        raw = await exchange(served.path, http("GET", "/v1/events", last_event_id="c:i1:1"))

        assert b"".join(chunks(raw.partition(b"\r\n\r\n")[2])) == b": amend\n\n" + event(2)


async def test_a_quiet_stream_says_that_it_lives() -> None:
    async with serving(Limits(quiet_s=0.02)) as served:
        read_until, _, writer = await stream(served.path)

        await read_until(b": still here\n\n")
        await read_until(b": still here\n\n")

        served.backend.live.put_nowait(change(3))
        await read_until(event(3))
        writer.close()


async def test_streams_end_whole_and_at_once_when_the_server_stops() -> None:
    async with serving() as served:
        opened = [await stream(served.path) for _ in range(3)]
        for read_until, _, _ in opened:
            await read_until(b": amend\n\n")
        loop = asyncio.get_running_loop()
        started_s = loop.time()

        await served.server.stop(30)

        assert loop.time() - started_s < 10
        for _, read_all, writer in opened:
            assert (await read_all()).endswith(b"0\r\n\r\n")
            writer.close()
        assert served.backend.streams == 0
        assert served.bugs == []


async def test_a_client_that_leaves_frees_its_stream() -> None:
    async with serving() as served:
        read_until, _, writer = await stream(served.path)
        await read_until(b": amend\n\n")
        assert served.backend.streams == 1

        writer.transport.abort()

        await until(lambda: served.backend.streams == 0)
        assert served.bugs == []


async def test_a_client_that_reads_nothing_is_cut_at_the_stop() -> None:
    async with serving() as served:
        _, _, writer = await stream(served.path)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: served.backend.streams == 1)
        for _ in range(4000):
            served.backend.live.put_nowait(change(3))
        await until(lambda: served.backend.live.qsize() < 4000)

        await served.server.stop(0.1)

        assert served.server.stats.connections == 0
        assert served.backend.streams == 0
        writer.transport.abort()


async def test_a_stream_for_no_repository_is_a_problem_and_no_stream() -> None:
    async with serving() as served:
        reply = await ask(served.path, "GET", "/v1/events?cwd=/nowhere")

        assert (reply.status, reply.json["hint"]) == (404, "amend add")


async def test_a_bug_in_a_stream_cuts_it_visibly() -> None:
    async with serving() as served:
        read_until, read_all, writer = await stream(served.path)
        await read_until(b": amend\n\n")
        served.backend.live.put_nowait({**change(3), "key": "bug"})

        rest = await read_all()

        assert not rest.endswith(b"0\r\n\r\n")
        assert [type(bug) for bug in served.bugs] == [Broken]
        writer.close()
