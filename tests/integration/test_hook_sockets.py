"""A hook's socket: one document in, at most one out, end of stream, whoever the client is."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from amend.edge.serve.hook_exchange import Tally, TimelyExchange
from amend.edge.serve.hook_sockets import Conversation, HookSockets
from amend.edge.serve.limits import HookStats, Limits
from tests.integration.serve_fakes import exchange, listening, until
from tests.integration.test_serve_limits import NOBODY, connect_as

DOCUMENT = b'{"hook_event_name":"PreToolUse","prompt":"where is \\"{auth}\\"?"}'
REPLY = b'{"continue":true}'

# Short enough for a test, long enough that nothing else is met by a slow machine.
QUICK = Limits(body_s=0.2, linger_s=0.2)


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # type: ignore[no-any-return, unused-ignore]


@dataclass
class Served:
    directory: Path
    sockets: HookSockets
    timely: TimelyExchange
    release: asyncio.Event = field(default_factory=asyncio.Event)
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    reply: bytes = REPLY
    bugs: list[Exception] = field(default_factory=list)

    def path(self, agent: str = "claude") -> str:
        return str(self.directory / f"{agent}.sock")

    @property
    def stats(self) -> HookStats:
        return self.sockets.stats

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.heard]


@contextlib.asynccontextmanager
async def serving(limits: Limits | None = None, answer_s: float = 10.0) -> AsyncIterator[Served]:
    """Two agents; what says "held" waits for `release`, what says "bug" breaks."""

    async def answer(agent: str, body: bytes) -> bytes:
        served.heard.append((agent, body))
        if b"bug" in body:
            raise ValueError("secret")
        if b"held" in body:
            await served.release.wait()
        return b"" if b"silent" in body else served.reply

    def on_bug(error: Exception) -> str:
        served.bugs.append(error)
        return "id"

    agents = ("claude", "codex")
    timely = TimelyExchange(answer, agents, on_bug=on_bug, answer_s=answer_s)
    sockets = HookSockets(timely, limits=limits)
    served = Served(Path(os.environ["XDG_RUNTIME_DIR"]), sockets, timely)
    for agent in agents:
        await sockets.start(agent, listening(Path(served.path(agent))))
    try:
        yield served
    finally:
        served.release.set()
        await sockets.stop()
        await timely.stop(1)


async def run(command: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(stdin), 20)
    assert process.returncode is not None
    return process.returncode, out, err


# -- the exchange --------------------------------------------------------------------------------


async def test_a_document_is_answered_when_the_client_has_shut_its_half() -> None:
    async with serving() as served:
        reply = await exchange(served.path(), DOCUMENT, eof=True)

        assert reply == REPLY
        assert served.heard == [("claude", DOCUMENT)]
        assert served.timely.tallies == {"claude": Tally(told=1), "codex": Tally()}


async def test_a_document_is_answered_when_it_is_whole_though_the_client_shuts_nothing() -> None:
    async with serving() as served:
        reply = await exchange(served.path("codex"), DOCUMENT + b" \r\n")

        assert reply == REPLY
        assert served.heard == [("codex", DOCUMENT + b" \r\n")]


async def test_nothing_to_say_is_the_end_of_the_stream_alone() -> None:
    async with serving() as served:
        reply = await exchange(served.path(), b'{"a":"silent"}', eof=True)

        assert reply == b""
        assert served.timely.tallies["claude"] == Tally(silent=1)


async def test_a_reply_larger_than_the_kernel_takes_at_once_arrives_whole() -> None:
    async with serving() as served:
        served.reply = b"x" * (1 << 20)

        assert await exchange(served.path(), DOCUMENT) == served.reply


# Braces wherever they hurt: at the ends of pieces, in strings, after escapes.
texts = st.text(alphabet='{}"\\ a\n', max_size=12)
documents = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


async def test_a_document_in_pieces_is_heard_whole_and_once() -> None:
    async with serving() as served:

        async def send(body: bytes, pieces: list[int], eof: bool) -> bytes:
            reader, writer = await asyncio.open_unix_connection(served.path())
            for size in pieces:
                piece, body = body[:size], body[size:]
                writer.write(piece)
                await asyncio.sleep(0)
            writer.write(body)
            if eof:
                writer.write_eof()
            reply = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return reply

        loop = asyncio.get_running_loop()

        @settings(max_examples=60)
        @given(
            st.dictionaries(texts, documents, max_size=3),
            st.lists(st.integers(1, 8)),
            st.booleans(),
        )
        def sent(document: dict[str, object], pieces: list[int], eof: bool) -> None:
            body = orjson.dumps(document)
            served.heard.clear()

            reply = asyncio.run_coroutine_threadsafe(send(body, pieces, eof), loop).result(20)

            assert reply == REPLY
            assert served.bodies == [body]

        await asyncio.to_thread(sent)


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff\xfe", b'{"a":', b"[1]", b"}" * 100, b'{"a":1}}'],
)
async def test_garbage_is_handed_on_at_the_end_of_the_stream(garbage: bytes) -> None:
    async with serving() as served:
        await exchange(served.path(), garbage, eof=True)

        assert served.bodies == [garbage]
        assert served.bugs == []


@pytest.mark.parametrize("said", [b"", b"\n"])
async def test_a_client_that_only_looks_whether_somebody_is_there_asks_nothing(said: bytes) -> None:
    async with serving() as served:
        reply = await exchange(served.path(), said, eof=True)

        assert reply == b""
        assert served.heard == []
        assert served.stats == HookStats()


async def test_what_comes_after_the_document_gets_no_second_answer() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_unix_connection(served.path())
        writer.write(b'{"a":"held"}')
        await until(lambda: served.heard)
        writer.write(DOCUMENT)
        writer.write_eof()
        served.release.set()

        assert await reader.read() == REPLY
        assert served.bodies == [b'{"a":"held"}']
        writer.close()


async def test_a_bug_is_told_to_the_log_and_not_to_the_agent() -> None:
    async with serving() as served:
        assert await exchange(served.path(), b'{"a":"bug"}') == b""
        assert [str(bug) for bug in served.bugs] == ["secret"]
        assert await exchange(served.path(), DOCUMENT) == REPLY


# -- time ----------------------------------------------------------------------------------------


async def test_an_answer_that_takes_too_long_is_none_and_its_work_goes_on() -> None:
    async with serving(answer_s=0.02) as served:
        reply = await exchange(served.path(), b'{"a":"held"}', eof=True)

        assert reply == b""
        assert served.timely.tallies["claude"] == Tally(late=1)
        assert await exchange(served.path(), DOCUMENT) == REPLY


@pytest.mark.parametrize("said", [b"", b'{"a":', b"}" * 10, b"[1]"])
async def test_a_document_that_does_not_come_is_not_waited_for(said: bytes) -> None:
    async with serving(QUICK) as served:
        reply = await exchange(served.path(), said)

        assert reply == b""
        assert served.heard == []
        assert served.stats == HookStats(unfinished=1)


async def test_a_client_that_reads_nothing_is_cut() -> None:
    async with serving(QUICK) as served:
        served.reply = b"x" * (8 << 20)
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(served.path())
            deaf.sendall(DOCUMENT)
            await until(lambda: served.heard)

            await until(lambda: served.stats.connections == 0)


async def test_a_client_that_leaves_at_once_has_told_something_all_the_same() -> None:
    async with serving() as served:
        with socket.socket(socket.AF_UNIX) as leaving:
            leaving.connect(served.path())
            leaving.sendall(DOCUMENT)

        await until(lambda: served.heard and served.stats.connections == 0)
        assert served.bodies == [DOCUMENT]


async def test_a_client_that_leaves_before_its_answer_is_no_bug() -> None:
    async with serving() as served:
        _, writer = await asyncio.open_unix_connection(served.path())
        writer.write(b'{"a":"held"}')
        await until(lambda: served.heard)
        writer.transport.abort()
        served.release.set()
        await until(lambda: served.stats.connections == 0)

        assert await exchange(served.path(), DOCUMENT) == REPLY
        assert served.bugs == []


# -- how much, how many, who ---------------------------------------------------------------------


async def test_a_document_of_one_mebibyte_is_heard() -> None:
    body = orjson.dumps({"a": "ü{}" * 200_000}).ljust(1 << 20)
    async with serving() as served:
        assert await exchange(served.path(), body, eof=True) == REPLY
        assert served.bodies == [body]


async def test_a_document_over_one_mebibyte_is_cut_off_while_it_is_sent() -> None:
    async with serving() as served:
        reply = await exchange(served.path(), b'{"a":"' + b"x" * (1 << 20), eof=True)

        assert reply == b""
        assert served.heard == []
        await until(lambda: served.stats == HookStats(too_large=1))


async def test_a_megabyte_of_braces_costs_no_time_of_others() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_unix_connection(served.path())
        for _ in range(1000):
            writer.write(b"[" * 1023 + b"}")
            await writer.drain()

        async with asyncio.timeout(2):  # it would take minutes to read all anew each time
            assert await exchange(served.path(), DOCUMENT) == REPLY
        writer.transport.abort()
        await reader.read()


async def test_connections_beyond_the_limit_are_closed_and_the_others_are_served() -> None:
    async with serving(Limits(connections=2, body_s=30)) as served:
        held = [
            await asyncio.open_unix_connection(served.path(name)) for name in ("claude", "codex")
        ]
        await until(lambda: served.stats.connections == 2)

        reader, writer = await asyncio.open_unix_connection(served.path())

        assert await asyncio.wait_for(reader.read(), 10) == b""
        assert served.stats.refused_full == 1
        writer.close()
        for reader, writer in held:
            writer.write(DOCUMENT)
            assert await asyncio.wait_for(reader.read(), 10) == REPLY
            writer.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused_before_a_byte_is_read() -> None:
    async with serving() as served:
        os.chmod(served.directory, 0o755)
        os.chmod(served.path(), 0o666)

        child = connect_as(NOBODY, served.path())
        await until(lambda: served.stats.refused_peers == 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert served.heard == []
        assert served.stats.connections == 0


class Unasked(asyncio.Transport):
    """Counts how often it was cut."""

    def __init__(self) -> None:
        super().__init__()
        self.aborts = 0

    def abort(self) -> None:
        self.aborts += 1


async def test_a_peer_that_the_kernel_says_nothing_about_is_refused() -> None:
    def unknown(_: socket.socket) -> int:
        raise OSError("no such option")

    async with serving() as served:
        transport = Unasked()
        conversation = Conversation("claude", served.sockets._shared, uid=unknown)

        conversation.connection_made(transport)
        conversation.data_received(DOCUMENT)

        assert (transport.aborts, served.heard) == (1, [])
        assert served.stats == HookStats(refused_peers=1)


async def test_two_hundred_clients_at_once_are_all_answered() -> None:
    async with serving(Limits(connections=300)) as served:
        bodies = [orjson.dumps({"n": n}) for n in range(200)]

        replies = await asyncio.gather(*(exchange(served.path(), body) for body in bodies))

        assert replies == [REPLY] * 200
        assert sorted(served.bodies) == sorted(bodies)
        assert served.timely.tallies["claude"] == Tally(told=200)


# -- accepting and stopping ----------------------------------------------------------------------


async def test_accepting_elsewhere_keeps_the_connections_that_are_open() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_unix_connection(served.path())
        writer.write(b'{"a":"held"}')
        await until(lambda: served.heard)
        os.unlink(served.path())

        await served.sockets.start("claude", listening(Path(served.path())))

        assert await exchange(served.path(), DOCUMENT) == REPLY
        served.release.set()
        assert await reader.read() == REPLY
        writer.close()


async def test_a_stop_answers_what_it_has_heard_and_leaves_the_rest() -> None:
    async with serving() as served:
        asked = await asyncio.open_unix_connection(served.path())
        asked[1].write(b'{"a":"held"}')
        half = await asyncio.open_unix_connection(served.path())
        half[1].write(b'{"a":')
        await until(lambda: served.heard and served.stats.connections == 2)

        stopping = asyncio.create_task(served.sockets.stop())
        assert await asyncio.wait_for(half[0].read(), 10) == b""
        served.release.set()
        await asyncio.wait_for(stopping, 10)

        assert await asyncio.wait_for(asked[0].read(), 10) == REPLY
        assert served.stats.connections == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_unix_connection(served.path())
        for _, writer in (asked, half):
            writer.close()


# -- clients -------------------------------------------------------------------------------------

needs_nc = pytest.mark.skipif(shutil.which("nc") is None, reason="there is no nc")

PYTHON = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read())
s.shutdown(socket.SHUT_WR)
while part := s.recv(65536):
    sys.stdout.buffer.write(part)
"""


@needs_nc
@pytest.mark.parametrize("options", [["-N", "-U"], ["-U"], ["-N", "-w", "1", "-U"]])
async def test_netcat_is_answered_with_and_without_shutting_its_half(options: list[str]) -> None:
    async with serving() as served:
        done = await run(["nc", *options, served.path()], DOCUMENT)

        assert done == (0, REPLY, b"")
        assert served.bodies == [DOCUMENT]


async def test_a_python_client_is_answered() -> None:
    async with serving() as served:
        done = await run(["python3", "-I", "-S", "-c", PYTHON, served.path()], DOCUMENT)

        assert done == (0, REPLY, b"")
