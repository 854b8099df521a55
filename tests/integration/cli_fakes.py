"""A stand-in for the daemon on a real Unix socket: answers as told, and notes what was asked."""

import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from amend.edge.service import socket_path

Answer = tuple[int, Any]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any


@dataclass
class Fake:
    """`answers` maps "METHOD /path" to (status, document), or to a function of the question."""

    path: Path
    answers: dict[str, Answer | Callable[[Asked], Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    # What /v1/events sends on each connection before it ends.
    streams: list[bytes] = field(default_factory=list)
    on_no_stream_left: Callable[[], None] | None = None


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    fake: Fake


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"

    def _answer(self) -> None:
        fake = self.server.fake
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        query = dict(parse_qsl(parts.query, errors="surrogateescape"))
        asked = Asked(self.command, unquote(parts.path), query, body)
        fake.asked.append(asked)
        if parts.path == "/v1/events" and fake.streams:
            self._stream(fake.streams.pop(0))
            return
        found = fake.answers.get(f"{asked.method} {asked.path}")
        if found is None:
            if parts.path == "/v1/events" and fake.on_no_stream_left is not None:
                fake.on_no_stream_left()
            found = (404, {"detail": f"{asked.method} {asked.path}: Not Found", "hint": "none"})
        status, document = found(asked) if callable(found) else found
        data = b"" if document is None else json.dumps(document).encode()
        kind = "application/json" if status < 400 else "application/problem+json"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))

    do_GET = do_POST = do_PUT = do_DELETE = _answer


@contextmanager
def fake_daemon() -> Iterator[Fake]:
    """Listens where the command line looks for the daemon in this environment."""
    path = socket_path(os.environ)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _Server(str(path), _Handler) as server:
        server.fake = Fake(path)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.fake
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "topic",
        "key": "auth",
        "ts": "2026-11-29T12:00:00Z",
        "summary": "login goes through src/auth.ts",
        "files": ["src/auth.ts", "src/routes/"],
        "recorded_at": "2026-11-29T12:00:00Z",
        "recorded_in": "/r",
        "in_file": True,
        **changes,
    }


def judged(verdict: str = "fresh", causes: Any = (), **changes: Any) -> dict[str, Any]:
    return entry(**changes) | {
        "verdict": verdict,
        "causes": list(causes),
        "drift": [],
        "versions": 1,
    }


def lookup(verdict: str, causes: Any = (), **changes: Any) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "entry": entry(),
        "causes": list(causes),
        "drift": [],
        "checked_at": "2026-11-30T12:00:00Z",
        "clock": "c:1:1",
        "candidates": [],
        **changes,
    }


def repo(root: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": "r1",
        "root": root,
        "common_dir": f"{root}/.git",
        "branch": "main",
        "head": "1a2b3c4d",
        "operation": None,
        "entries": {"fresh": 2, "stale": 1, "unknown": 0},
        "watch": {
            "backend": "inotify",
            "armed": 9,
            "unwatched": [],
            "overflows": 0,
            "rescans": 0,
            "last_event_at": None,
        },
        "cache_file": f"{root}/.agent-cache.json",
        "writes": "mark",
        "problems": [],
        "siblings": [],
        **changes,
    }


def change(**changes: Any) -> dict[str, Any]:
    return {
        "clock": "c:1:2",
        "at": "2026-11-30T12:03:04.500Z",
        "repo": "r1",
        "root": "/r",
        "kind": "topic",
        "key": "auth",
        "previous": "fresh",
        "verdict": "stale",
        "causes": [{"cause": "edited", "source": "src/auth.ts"}],
        "refined": False,
        **changes,
    }
