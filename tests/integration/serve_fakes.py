"""A backend of fixed answers on a real Unix socket, and a client that sends what it is told.

Keys steer the fake: "bug" breaks, a name in `KINDS` raises that error, "held" waits for `release`.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from amend import errors
from amend.edge.serve.limits import Limits
from amend.edge.serve.server import ApiServer
from amend.formats import api

KINDS: Final = {
    kind.__name__: kind
    for kind in (
        errors.ConfigInvalid,
        errors.DocumentInvalid,
        errors.RequestInvalid,
        errors.NotFound,
        errors.Conflict,
        errors.StaleMatch,
        errors.Refused,
        errors.Unavailable,
    )
}

AT: Final = "2026-11-30T06:00:00Z"
CLOCK: Final = "c:i1:7"
ETAG: Final = '"v1"'
WAIT_S: Final = 10.0
AGENTS: Final = ("claude", "codex")

TERM: Final[api.TermJson] = {
    "abbreviation": "SMS",
    "phrase": "session management strategy",
    "uses": 4,
    "tokens": 3,
    "saves": 8,
    "costs": 5,
    "net": 3,
}
FINDING: Final[api.FindingJson] = {
    "path": "memory/decisions/auth.aicontext",
    "line": 3,
    "rule": "indentation",
    "message": "a bullet has two spaces before it",
    "is_fixable": True,
}


class Broken(Exception):
    """What no one expects."""


def entry(kind: api.KindName, key: str) -> api.JudgedEntryJson:
    return {
        "kind": kind,
        "key": key,
        "ts": AT,
        "summary": "routes are in src/routes",
        "files": ["src/routes/"],
        "recorded_at": AT,
        "recorded_in": "/w",
        "in_file": True,
        "verdict": "fresh",
        "causes": [],
        "drift": [],
        "versions": 1,
    }


def change(number: int) -> api.ChangeJson:
    return {
        "clock": f"c:i1:{number}",
        "at": AT,
        "repo": "r1",
        "root": "/w",
        "kind": "topic",
        "key": "routes",
        "previous": "fresh",
        "verdict": "stale",
        "causes": [{"cause": "edited", "source": "a.py"}],
        "refined": False,
    }


class FakeBackend:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.problems: list[str] = []
        self.release = asyncio.Event()
        self.history = [change(1), change(2)]
        self.live: asyncio.Queue[api.ChangeJson | None] = asyncio.Queue()
        self.streams = 0
        self.streams_end = False  # a stream ends after the history

    def _steer(self, key: str | None) -> None:
        if key == "bug":
            raise Broken("secret detail")
        if key in KINDS:
            raise KINDS[key](f"{key} it is", hint="do otherwise")

    def hello(self) -> api.HelloAnswer:
        return {
            "name": "amend",
            "version": "0.1.0",
            "protocol": {"min": 1, "max": 1},
            "instance": "i1",
            "pid": 1,
            "started_at": AT,
        }

    def status(self) -> api.StatusAnswer:
        return {
            "ready": True,
            "clock": CLOCK,
            "repos": self.repos(),
            "rss_bytes": 1,
            "uptime_s": 1.5,
            "version": "0.1.0",
            "config": None,
            "config_error": None,
        }

    def alive(self) -> api.HealthAnswer:
        return {"ok": True, "problems": []}

    def ready(self) -> api.HealthAnswer:
        return {"ok": not self.problems, "problems": self.problems}

    def metrics(self) -> str:
        return "# TYPE amend_marks counter\namend_marks 3\n"

    def repos(self) -> list[api.RepoJson]:
        return [self._repo("/w")]

    def _repo(self, root: str) -> api.RepoJson:
        return {
            "id": "r1",
            "root": root,
            "common_dir": None,
            "branch": "main",
            "head": None,
            "operation": None,
            "entries": {"fresh": 1, "stale": 0, "unknown": 0},
            "watch": {
                "backend": "inotify",
                "armed": 3,
                "unwatched": [],
                "overflows": 0,
                "rescans": 0,
                "last_event_at": None,
            },
            "cache_file": root + "/.agent-cache.json",
            "writes": "mark",
            "problems": [],
            "siblings": [],
        }

    async def add_repo(self, request: api.RepoRequest) -> api.RepoJson:
        self.calls.append(("add_repo", request.root))
        return self._repo(request.root)

    async def remove_repo(self, repo_id: str) -> None:
        self.calls.append(("remove_repo", repo_id))
        self._steer(repo_id)

    async def lookup(self, request: api.LookupRequest) -> api.LookupAnswer:
        self.calls.append(("lookup", request.cwd, request.key))
        self._steer(request.key)
        if request.key == "held":
            await self.release.wait()
        answer: api.LookupAnswer = {
            "verdict": "fresh",
            "causes": [],
            "drift": [],
            "checked_at": AT,
            "clock": CLOCK,
            "candidates": [],
        }
        if request.key == "echo":
            answer["drift"] = [request.cwd]
        return answer

    async def entries(
        self, cwd: str, kind: api.KindName | None, verdict: api.VerdictName | None
    ) -> api.EntriesAnswer:
        self.calls.append(("entries", cwd, kind, verdict))
        return {
            "entries": [entry("topic", "routes")],
            "problems": [],
            "checked_at": AT,
            "clock": CLOCK,
        }

    async def get_entry(
        self, cwd: str, kind: api.KindName, key: str
    ) -> tuple[api.JudgedEntryJson, str]:
        self.calls.append(("get_entry", cwd, kind, key))
        self._steer(key)
        return entry(kind, key), ETAG

    async def put_entry(
        self,
        cwd: str,
        kind: api.KindName,
        key: str,
        request: api.PutRequest,
        if_match: str | None,
    ) -> api.PutAnswer:
        self.calls.append(("put_entry", cwd, kind, key, request.files, if_match))
        self._steer(key)
        if if_match not in (None, "*", ETAG):
            raise errors.StaleMatch(f"{key} is another version now", hint="get it again")
        return {"entry": entry(kind, key), "etag": ETAG, "stored_in": "file", "clock": CLOCK}

    async def delete_entry(
        self, cwd: str, kind: api.KindName, key: str, if_match: str | None
    ) -> None:
        self.calls.append(("delete_entry", cwd, kind, key, if_match))
        self._steer(key)

    async def verify(self, request: api.VerifyRequest) -> api.VerifyAnswer:
        self.calls.append(("verify", request.cwd, request.keys))
        row: api.VerdictRow = {
            "kind": "topic",
            "key": "routes",
            "verdict": "fresh",
            "causes": [],
            "drift": [],
        }
        return {"entries": [row], "hashed": 1, "checked_at": AT, "clock": CLOCK}

    def changes(self, cwd: str | None, since: str) -> api.ChangesAnswer:
        return {"changes": [change(7)], "clock": CLOCK, "fresh_instance": since != CLOCK}

    async def events(
        self, cwd: str | None, last_event_id: str | None
    ) -> AsyncIterator[api.ChangeJson]:
        if cwd == "/nowhere":
            raise errors.NotFound("/nowhere is in no repository", hint="amend add")
        self.streams += 1
        try:
            seen = {"c:i1:0": 0, "c:i1:1": 1}.get(last_event_id or "", len(self.history))
            for each in self.history[seen:]:
                yield each
            while not self.streams_end and (each_live := await self.live.get()) is not None:
                if each_live["key"] == "bug":
                    raise Broken("secret detail")
                yield each_live
        finally:
            self.streams -= 1

    async def sync(self) -> api.SyncAnswer:
        return {"clock": CLOCK}

    async def read_memory(
        self, cwd: str, level: api.MemoryLevel | None, path: str | None, tree: str | None
    ) -> api.MemoryAnswer:
        self.calls.append(("read_memory", cwd, level, path, tree))
        self._steer(path)
        index: api.MemoryFileJson = {
            "path": "memory/index.aicontext",
            "kind": "index",
            "text": "dir: decisions/ | what was decided\n",
            "tokens": 9,
        }
        return {
            "files": [index],
            "tokens": 9,
            "tokens_are_estimated": True,
            "tokenizer": "estimate",
        }

    async def save_memory(self, request: api.SaveRequest) -> api.SavedAnswer:
        self.calls.append(("save_memory", request))
        self._steer(request.topic)
        return {
            "path": f"memory/{request.category}/{request.topic}.aicontext",
            "created": True,
            "indexes": ["memory/index.aicontext"],
            "title": request.title,
            "date": request.date or "2026-11-30",
            "bullets": request.bullets,
            "suggestions": [TERM],
            "tokens": 20,
            "tokens_are_estimated": True,
        }

    async def lint_memory(self, cwd: str, tree: str | None) -> api.LintAnswer:
        self.calls.append(("lint_memory", cwd, tree))
        return {"findings": [FINDING]}

    async def fix_memory(self, request: api.TreeRequest) -> api.FixAnswer:
        self.calls.append(("fix_memory", request.cwd, request.tree))
        return {"findings": [FINDING], "written": ["memory/index.aicontext"]}

    async def sync_memory(self, request: api.TreeRequest) -> api.MemorySyncAnswer:
        self.calls.append(("sync_memory", request.cwd, request.tree))
        return {"written": ["memory/index.aicontext"]}

    async def suggest_terms(self, cwd: str, tree: str | None) -> api.TermsAnswer:
        self.calls.append(("suggest_terms", cwd, tree))
        return {
            "suggestions": [TERM],
            "is_worth_it": False,
            "reason": "it would save 3 of 900 tokens",
            "share": 0.0033,
            "tokens": 900,
            "tokens_are_estimated": True,
            "tokenizer": "estimate",
        }

    async def hook(self, agent: str, body: bytes) -> bytes:
        """The body again, without a word where it is empty."""
        self.calls.append(("hook", agent, body))
        self._steer(agent)
        if agent not in AGENTS:
            raise errors.NotFound(f"there is no agent {agent!r}", hint="known are: claude")
        return body if body.startswith(b"{") else b""


@dataclass
class Served:
    path: str
    backend: FakeBackend
    server: ApiServer
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    bugs: list[Exception] = field(default_factory=list)


def listening(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen(256)
    sock.setblocking(False)
    return sock


@contextlib.asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[Served]:
    requests: list[tuple[str, str, int]] = []
    bugs: list[Exception] = []

    def on_request(method: str, route: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        requests.append((method, route, status))

    def on_bug(error: Exception) -> str:
        bugs.append(error)
        return f"id{len(bugs)}"

    limits = limits or Limits(linger_s=0.02)
    backend = FakeBackend()
    server = ApiServer(
        backend,
        version="0.1.0",
        on_request=on_request,
        on_bug=on_bug,
        agents=AGENTS,
        limits=limits,
    )
    path = Path(os.environ["XDG_RUNTIME_DIR"]) / "api.sock"  # short: it is the test's own
    await server.start(listening(path))
    try:
        yield Served(str(path), backend, server, requests, bugs)
    finally:
        await server.stop(0.2)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


def parse_reply(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (item.partition(":") for item in rest)}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(chunks(body))
    return Reply(int(line.split()[1]), headers, body)


def chunks(body: bytes) -> list[bytes]:
    """Raises `ValueError` when the last one is missing."""
    parts: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        if int(size, 16) == 0:
            return parts
        parts.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]


async def exchange(path: str, data: bytes, *, eof: bool = False) -> bytes:
    """All that comes back until the server closes."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            writer.write(data)
            if eof:
                writer.write_eof()
            await asyncio.wait_for(writer.drain(), WAIT_S)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while part := await asyncio.wait_for(reader.read(1 << 16), WAIT_S):
                got += part
        return got
    finally:
        writer.close()


def http(method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: amend", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def ask(path: str, method: str, target: str, body: bytes = b"", **headers: str) -> Reply:
    return parse_reply(await exchange(path, http(method, target, body, **headers)))


async def until(condition: Any, wait_s: float = WAIT_S) -> None:
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110  # what is waited for is often another process
            await asyncio.sleep(0.002)
