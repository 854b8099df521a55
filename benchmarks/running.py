"""A real daemon in a process of its own, with private places, and a client to ask it.

Used by the benchmarks and by the integration tests.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

ROOT: Final = Path(__file__).resolve().parent.parent

# A cold start of the interpreter and its libraries on a busy two-core machine.
START_S: Final = 30.0
ANSWER_S: Final = 30.0

# A stop lets what is being answered take 2 s.
STOP_S: Final = 20.0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float = ANSWER_S) -> None:
        super().__init__("amend", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Daemon:
    """`with Daemon() as daemon: daemon.get("/v1/status")`."""

    def __init__(self, base: Path | None = None, config: str = "") -> None:
        """`base`: where its state is kept; a restart with the same one finds it again."""
        self._temporary = None if base is not None else tempfile.TemporaryDirectory(prefix="am-")
        self.base = base if base is not None else Path(self._temporary.name)  # type: ignore[union-attr]
        # A socket path holds 107 bytes, fewer than pytest's own directories.
        self._runtime = tempfile.TemporaryDirectory(prefix="am-", dir="/tmp")
        self.runtime = Path(self._runtime.name) / "run"
        self.socket = self.runtime / "api.sock"
        self.log_path = self.base / "daemon.log"
        (self.base / "home").mkdir(parents=True, exist_ok=True)
        (self.base / "config.toml").write_text(config)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "AMEND_", "XDG_"))}
        self.env = {
            **kept,
            "HOME": str(self.base / "home"),
            "AMEND_RUNTIME_DIR": str(self.runtime),
            "AMEND_STATE_DIR": str(self.base / "state"),
            "AMEND_CONFIG": str(self.base / "config.toml"),
            "PYTHONPATH": str(ROOT),
        }
        self.command = [sys.executable, "-m", "amend.cli.main", "run"]
        self.process: subprocess.Popen[bytes] | None = None
        self._connection: UnixConnection | None = None

    def __enter__(self) -> "Daemon":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.stop()
        finally:
            self._runtime.cleanup()
            if self._temporary is not None:
                self._temporary.cleanup()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, wait_s: float = START_S) -> None:
        """Return when it is ready. Where this raises, no process is left."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
            )
        try:
            self._wait_until_ready(self.process, time.monotonic() + wait_s)
        except BaseException:
            self.stop(kill=True)
            raise

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", until_s: float) -> None:
        while True:
            try:
                if self.get("/readyz")["ok"]:
                    return
            except (OSError, http.client.HTTPException):
                pass  # not listening yet
            if process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError(f"the daemon did not start:\n{self.log_path.read_text()}")
            time.sleep(0.01)

    def stop(self, *, kill: bool = False) -> None:
        """Return when it has ended; one that does not end in time is killed, and that raises."""
        self._hang_up()
        if self.process is None:
            return
        process, self.process = self.process, None
        (process.kill if kill else process.terminate)()
        try:
            process.wait(STOP_S)
        finally:
            process.kill()  # does nothing to one that has ended
            process.wait()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- asking ----------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and document (text where it is no JSON)."""
        is_kept = self._connection is not None
        try:
            return self._exchange(method, path, body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not is_kept:
                raise
            return self._exchange(method, path, body)  # closed while idle; ask once more

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self._connection is None:
            self._connection = UnixConnection(self.socket)
        payload = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json"} if payload is not None else {}
        try:
            self._connection.request(method, path, payload, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except BaseException:
            self._hang_up()  # a late answer must not be taken for the next question's
            raise
        kind = answer.headers.get_content_type()
        return answer.status, json.loads(text) if text and kind.endswith("json") else text.decode()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, document = self.request(method, path, body)
        if status >= 300 and path != "/readyz":
            raise RuntimeError(f"{method} {path}: {status} {document}")
        return document

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, body)

    def add(self, root: Path) -> Any:
        return self.post("/v1/repos", {"root": str(root)})

    def put(self, root: Path, key: str, files: list[str], **more: Any) -> Any:
        kind = more.pop("kind", "topic")
        body = {"summary": f"about {key}", "files": files, **more}
        return self.ask("PUT", f"/v1/entries/{kind}/{quote(key)}?cwd={quote(str(root))}", body)

    def lookup(self, root: Path, key: str) -> Any:
        return self.post("/v1/lookup", {"cwd": str(root), "key": key})

    def entries(self, root: Path) -> dict[str, Any]:
        rows = self.get(f"/v1/entries?cwd={quote(str(root))}")["entries"]
        return {row["key"]: row for row in rows}

    def sync(self) -> Any:
        return self.post("/v1/sync")

    def metrics(self) -> dict[str, float]:
        lines = self.get("/metrics").splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def events(self, root: Path | None = None) -> Iterator[dict[str, Any]]:
        """Verdict changes, from the moment this is first advanced; the first item is {}."""
        connection = UnixConnection(self.socket)
        query = f"?cwd={quote(str(root))}" if root is not None else ""
        connection.request("GET", f"/v1/events{query}")
        stream = connection.getresponse()
        try:
            stream.readline()
            yield {}
            while line := stream.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]


def git(root: Path, *arguments: str, check: bool = True) -> str:
    """Run git with a private configuration; its output."""
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.invalid",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.invalid",
    }
    done = subprocess.run(
        ["git", "-C", str(root), "-c", "core.hooksPath=/dev/null", *arguments],
        env=env,
        capture_output=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"git {arguments}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode("utf-8", "surrogateescape")
