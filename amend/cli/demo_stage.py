"""Where the demo plays: a temporary clone, private directories, a daemon of its own.

Touches nothing outside its temporary directory, which goes when the demo ends, and ends the daemon
it started by its process id. Waits for events and for the daemon, never for time to pass.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from amend.cli.client import Client, NoDaemon, Stream
from amend.edge.service import socket_path
from amend.errors import AmendError, Unavailable

if TYPE_CHECKING:
    from amend.formats.api import ChangeJson, LookupAnswer, PutAnswer

# A cold start on a slow, busy machine took 3 s; a mark takes milliseconds.
START_S: Final = 30.0
EVENT_S: Final = 10.0
STOP_S: Final = 5.0

# How long one look at a starting daemon takes: it is a wait for its early end.
GLANCE_S: Final = 0.02

# Three files that each stand on their own and that every state of this repository has.
OWN_FILES: Final = ("amend/errors.py", "amend/core/model.py", "amend/formats/times.py")

# Without a checkout at hand: a repository small enough to read.
GENERATED: Final = {
    "shop/login.py": "def login(name, password):\n    return check(name, password)\n",
    "shop/tokens.py": "LIFETIME_S = 3600\n\n\ndef issue(name):\n    return sign(name)\n",
    "shop/session.py": "def session(token):\n    return verify(token)\n",
    ".gitignore": ".agent-cache.json\n",
}


class StepFailed(AmendError):
    pass


@dataclass(frozen=True)
class Ground:
    """The repository and the three files that the finding rests on."""

    root: Path
    files: tuple[str, str, str]
    what: str


class Stage:
    def __init__(self, ground: Ground, env: dict[str, str], client: Client, ready_s: float) -> None:
        self.ground = ground
        self.client = client
        self.ready_s = ready_s
        self._env = env
        self._stream: Stream | None = None
        self._events: Iterator[Any] = iter(())
        self._synced = 0

    def git(self, *arguments: str) -> str:
        return run_git(self.ground.root, self._env, *arguments)

    def add(self) -> None:
        """Tend the repository and listen to it."""
        self.client.post("/v1/repos", {"root": str(self.ground.root)})
        self._stream = self.client.events(str(self.ground.root))
        self._events = iter(self._stream)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def put(self, key: str, summary: str) -> "PutAnswer":
        document = {"summary": summary, "files": list(self.ground.files)}
        found = self.client.put(f"/v1/entries/topic/{key}", document, cwd=str(self.ground.root))
        return cast("PutAnswer", found)

    def ask(self, key: str) -> tuple["LookupAnswer", float]:
        """The answer and the milliseconds it took."""
        started_s = time.perf_counter()
        found = self.client.post("/v1/lookup", {"cwd": str(self.ground.root), "key": key})
        return cast("LookupAnswer", found), (time.perf_counter() - started_s) * 1e3

    def sync(self) -> None:
        """Everything done before is reflected; `event` sees only what comes later."""
        self._synced = _number(self.client.post("/v1/sync")["clock"])

    def event(self, wanted: Callable[["ChangeJson"], bool], what: str) -> "ChangeJson":
        """The first change since `sync` that is wanted. Raises `StepFailed` when none comes."""
        assert self._stream is not None
        end_s = time.monotonic() + EVENT_S
        seen: list[str] = []
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                self._stream.wait_at_most(left_s)
                change = cast("ChangeJson", json.loads(next(self._events).data))
                if _number(change["clock"]) <= self._synced:
                    continue
                if wanted(change):
                    return change
                causes = "/".join(cause["cause"] for cause in change["causes"])
                seen.append(f"{change['verdict']} {causes}".strip())
        except (NoDaemon, StopIteration):
            pass
        raise StepFailed(
            f"no event within {EVENT_S:g} s said {what}; seen: {', '.join(seen) or 'none'}"
        )


def _number(clock: str) -> int:
    """Of a clock `c:<instance>:<n>`."""
    return int(clock.rpartition(":")[2])


@contextmanager
def open_stage() -> Iterator[Stage]:
    directory = Path(tempfile.mkdtemp(prefix="amend-demo-"))
    try:
        env = _environment(directory)
        ground = _clone(directory, env) or _generate(directory, env)
        with _daemon(directory, env) as (client, ready_s):
            stage = Stage(ground, env, client, ready_s)
            try:
                yield stage
            finally:
                stage.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _environment(directory: Path) -> dict[str, str]:
    """This process's environment with every place inside `directory`, and nobody's git settings."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "XDG_", "AMEND_"))
        and name not in ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID")
    }
    home = directory / "home"
    home.mkdir()
    git_config = home / ".gitconfig"
    git_config.write_text(
        "[user]\n\tname = amend demo\n\temail = demo@example.org\n"
        "[init]\n\tdefaultBranch = main\n"
        # A checkout may belong to somebody else, as in a container; it is only cloned.
        "[safe]\n\tdirectory = *\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
    return env | {
        "HOME": str(home),
        "AMEND_RUNTIME_DIR": str(directory / "run"),
        "AMEND_STATE_DIR": str(directory / "state"),
        "AMEND_CONFIG": str(directory / "config.toml"),
        "GIT_CONFIG_GLOBAL": str(git_config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def run_git(root: Path, env: dict[str, str], *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise Unavailable("there is no git on PATH", hint="install git") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        reason = said[-1] if said else f"exit {done.returncode}"
        raise Unavailable(f"git {arguments[0]}: {reason}", hint="is git 2.23 or newer?")
    return done.stdout.strip()


def _clone(directory: Path, env: dict[str, str]) -> Ground | None:
    """A clone of the checkout that this module is in; None where it is in none."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    try:
        top = run_git(checkout, env, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != checkout:
            return None  # installed somewhere inside another project
        root = directory / "clone"
        run_git(directory, env, "clone", "-q", "--no-hardlinks", str(checkout), str(root))
        head = run_git(root, env, "rev-parse", "--short", "HEAD")
        files = run_git(root, env, "ls-files", "--", *OWN_FILES).splitlines()
        if len(files) != len(OWN_FILES):
            return None
        run_git(root, env, "switch", "-q", "-c", "demo")
    except Unavailable:
        return None
    return Ground(root, OWN_FILES, f"a clone of this repository at {head}")


def _generate(directory: Path, env: dict[str, str]) -> Ground:
    root = directory / "shop"
    for path, text in GENERATED.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    run_git(root, env, "init", "-q")
    run_git(root, env, "switch", "-q", "-c", "demo")
    run_git(root, env, "add", "-A")
    run_git(root, env, "commit", "-q", "-m", "shop: log in, issue tokens, open sessions")
    login, tokens, session = (path for path in GENERATED if path.endswith(".py"))
    return Ground(root, (tokens, login, session), "a small repository made for this")


@contextmanager
def _daemon(directory: Path, env: dict[str, str]) -> Iterator[tuple[Client, float]]:
    started_s = time.perf_counter()
    log = directory / "daemon.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "amend.cli.main", "run"],
            cwd=Path(__file__).resolve().parents[2],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        client = Client(socket_path(env))
        _wait_until_ready(process, client, log)
        yield client, time.perf_counter() - started_s
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", client: Client, log: Path) -> None:
    end_s = time.monotonic() + START_S
    reason = "it never listened"
    while time.monotonic() < end_s:
        try:
            if client.get("/readyz")["ok"]:
                return
        except NoDaemon as error:
            reason = error.why.value
        except Unavailable as error:
            reason = error.message
        try:
            process.wait(GLANCE_S)
            reason = f"it ended with {process.returncode}"
            break
        except subprocess.TimeoutExpired:
            continue
    said = log.read_text(errors="replace").strip().splitlines()[-5:]
    raise StepFailed("\n".join([f"the daemon is not ready: {reason}", *said]))
