"""What the page of `amend ui` may ask of the daemon: a list of routes that only read.

Answers go through as they are; a daemon that is not there is a problem like any other (503, with
how to start it). Event streams are passed on byte by byte and end when either end does.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote

from amend.cli.client import ANSWER_S, SILENCE_S, Client, NoDaemon, Why
from amend.edge.serve.problems import PROBLEM_JSON, problem_of, to_json_bytes
from amend.errors import AmendError, NotFound

EVENTS: Final = "v1/events"

# By a pattern of the path: what may be asked along with it.
_ROUTES: Final = tuple(
    (re.compile(pattern), names)
    for pattern, names in (
        (r"v1/(hello|status)", ()),
        (r"v1/activity", ("cwd", "since")),
        (r"v1/entries", ("cwd",)),
        (r"v1/entries/(topic|pattern|contract|note)/[A-Za-z0-9_.~%-]{1,2400}", ("cwd",)),
        (r"v1/memory", ("cwd", "path", "tree", "level")),
    )
)


# One change is some hundred bytes; a thousand causes with long paths are less than this.
_CHUNK_BYTES_MAX: Final = 1 << 20

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


async def answer(client: Client, path: str, query: str) -> Answer:
    """The daemon's, or a problem: nothing is raised that a page would have to show."""
    try:
        asked = _allowed(path, query)
        document = await asyncio.to_thread(client.get, f"/{path}", **asked)
    except AmendError as error:
        return problem(error)
    return 200, "application/json", to_json_bytes(document)


def problem(error: AmendError) -> Answer:
    found = problem_of(error)
    assert found is not None
    return found.status, PROBLEM_JSON.decode(), found.body()


def _allowed(path: str, query: str) -> dict[str, str]:
    """What is asked along with the path. Raises `NotFound` for what the page has no need of."""
    names = next((names for pattern, names in _ROUTES if pattern.fullmatch(path)), None)
    if names is None:
        raise NotFound("the page may not ask for this", hint="ask the daemon's own socket")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return {name: value for name, value in pairs if name in names}


async def events(
    socket_path: str, last_event_id: str | None
) -> tuple[AsyncIterator[bytes], asyncio.StreamWriter]:
    """The stream of all verdict changes, as bytes; closing the writer ends it.

    Raises `NoDaemon` where there is none.
    """
    try:
        if os.lstat(socket_path).st_uid != os.geteuid():
            raise NoDaemon(socket_path, Why.FOREIGN)
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(socket_path, limit=_CHUNK_BYTES_MAX)
    except (OSError, TimeoutError):
        raise NoDaemon(socket_path, Why.REFUSED) from None
    try:
        writer.write(_question(last_event_id))
        async with asyncio.timeout(ANSWER_S):
            head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 ") or b"chunked" not in head.lower():
            raise NoDaemon(socket_path, Why.GONE)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        raise NoDaemon(socket_path, Why.GONE) from None
    except BaseException:
        writer.close()
        raise
    return _chunks(reader), writer


def _question(last_event_id: str | None) -> bytes:
    headers: Mapping[str, str] = {"host": "amend", "accept": "text/event-stream"}
    lines = [f"GET /{EVENTS} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if last_event_id is not None:
        # Whatever a page sends, it is one line of letters here.
        lines.append(f"last-event-id: {quote(last_event_id[:200], safe=':')}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Ends with the stream, however that ends: whoever listens asks again."""
    try:
        while True:
            async with asyncio.timeout(SILENCE_S):
                size = int(await reader.readuntil(b"\r\n"), 16)
                chunk = await reader.readexactly(size + 2)
            if size == 0:
                return
            yield chunk[:-2]
    except (
        OSError,
        ValueError,
        TimeoutError,
        asyncio.IncompleteReadError,
        asyncio.LimitOverrunError,
    ):
        return
