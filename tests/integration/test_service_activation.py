"""Sockets bound by somebody else: systemd's own tool starts a real daemon at the first question."""

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import CDLL, CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_void_p, cast, sizeof
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amend.edge.service import API_SOCKET, DaemonLock, prepare_private_dir
from amend.edge.service_activation import from_launchd
from amend.errors import Refused
from benchmarks.running import ROOT, Daemon, UnixConnection
from tests.conftest import Repository

ACTIVATE = shutil.which("systemd-socket-activate")
needs_systemd = pytest.mark.skipif(ACTIVATE is None, reason="no systemd-socket-activate here")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")

WAIT_S = 30.0
HOOKS = ("hooks/claude.sock", "hooks/codex.sock")

# What is measured is said in the README and by `benchmarks`; a busy machine is slow in all of it,
# so these are ratios with room.
COLD_IMPORTS_MAX = 8.0
WARM_SHARE_MAX = 0.25


def eventually(condition: Callable[[], Any]) -> Any:
    until_s = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < until_s, condition
        time.sleep(0.005)
    return value


@contextlib.contextmanager
def activated(
    daemon: Daemon, paths: Sequence[str] = (API_SOCKET, *HOOKS)
) -> Iterator[subprocess.Popen[bytes]]:
    """systemd's sockets at `paths`; `daemon` is started in their process by the first client."""
    assert ACTIVATE is not None
    for directory in (daemon.runtime, daemon.runtime / "hooks"):
        directory.mkdir(mode=0o700, exist_ok=True)
    sockets = [f"--listen={daemon.runtime / path}" for path in paths]
    # It hands on what it is told to only.
    variables = [f"--setenv={name}={value}" for name, value in daemon.env.items()]
    names = [f"--fdname={':'.join('amend' for _ in paths)}"]
    with open(daemon.log_path, "ab") as log:
        process = subprocess.Popen(
            [ACTIVATE, *sockets, *variables, *names, *daemon.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        for path in paths:
            said = f"Listening on {daemon.runtime / path} as"
            eventually(lambda said=said: said in daemon.log_path.read_text())
            (daemon.runtime / path).chmod(0o600)  # a unit says SocketMode, this tool has 0644
        yield process
    finally:
        process.terminate()
        process.wait(WAIT_S)


def thousand_entries(repo: Repository) -> None:
    files = [f"src/f{number:03}.py" for number in range(500)]
    repo.commit("code", {file: f"{file}\n" for file in files} | {".gitignore": ".agent-cache.json"})
    # git knows seconds: of the next one it is certain, once that has come.
    after_s = int(time.time()) + 1
    while time.time() < after_s:
        time.sleep(0.01)
    stamp = datetime.fromtimestamp(after_s, UTC).isoformat()
    topics = {
        f"topic{number}": {
            "ts": stamp,
            "summary": f"about {number}",
            "files": [files[(number * 7 + step) % len(files)] for step in range(8)],
        }
        for number in range(1000)
    }
    repo.write(".agent-cache.json", json.dumps({"topics": topics}))


def asked(daemon: Daemon, root: Path, connection: UnixConnection) -> tuple[float, dict[str, Any]]:
    """The seconds it took, and the answer."""
    body = json.dumps({"cwd": str(root), "key": "topic7"})
    began_s = time.perf_counter()
    connection.request("POST", "/v1/lookup", body, {"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    return time.perf_counter() - began_s, answer


def import_s() -> float:
    began_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import amend.daemon.run"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return time.perf_counter() - began_s


@needs_systemd
def test_the_first_question_starts_a_daemon_with_1000_entries_and_is_answered(
    tmp_path: Path, git: Callable[..., Repository], record_property: Callable[[str, object], None]
) -> None:
    repo = git("shop")
    thousand_entries(repo)
    daemon = Daemon(tmp_path / "base", config=f'[[repo]]\nroot = "{repo.root}"\n')
    with daemon:
        daemon.sync()  # what is in the store from now on

        daemon.stop()
        imported_s = import_s()
        with activated(daemon) as process:
            connection = UnixConnection(daemon.socket)
            cold_s, cold = asked(daemon, repo.root, connection)
            warm = [asked(daemon, repo.root, connection) for _ in range(20)]
            pid = daemon.get("/v1/hello")["pid"]
            connection.close()
        left = sorted(path.name for path in daemon.runtime.rglob("*.sock"))

    warm_s = sorted(seconds for seconds, _ in warm)[10]
    for name, seconds in (("import", imported_s), ("cold", cold_s), ("next", warm[0][0])):
        record_property(name, seconds)
    print(f"import {imported_s:.3f} s, cold {cold_s:.3f} s, next {warm[0][0] * 1e3:.2f} ms")
    assert [(answer["verdict"], answer["causes"]) for answer in (cold, warm[0][1])] == [
        ("fresh", []),
        ("fresh", []),
    ]
    assert pid == process.pid
    assert cold_s <= COLD_IMPORTS_MAX * imported_s
    assert warm_s <= WARM_SHARE_MAX * cold_s
    # They are systemd's, and wait for the next one.
    assert left == ["api.sock", "claude.sock", "codex.sock"]


@needs_systemd
def test_a_hook_starts_it_too_and_what_nobody_has_bound_amend_binds(tmp_path: Path) -> None:
    with Daemon(tmp_path / "base") as daemon:
        daemon.stop()
        with activated(daemon, (HOOKS[0],)):
            with socket.socket(socket.AF_UNIX) as hook:
                hook.settimeout(WAIT_S)
                hook.connect(str(daemon.runtime / HOOKS[0]))
                hook.sendall(b'{"hook_event_name": "Canary", "session_id": "x", "cwd": "/"}')
                reply = hook.recv(100)
            ready = daemon.get("/readyz")
            bound = [(daemon.runtime / path).exists() for path in (API_SOCKET, *HOOKS)]
            daemon._hang_up()
        left = [(daemon.runtime / path).exists() for path in (API_SOCKET, *HOOKS)]

    assert reply == b""
    assert ready["ok"]
    assert bound == [True, True, True]
    assert left == [False, True, False]


@needs_systemd
def test_a_socket_that_is_none_of_amends_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    with Daemon(tmp_path / "base") as daemon:
        daemon.stop()
        with (
            activated(daemon, (API_SOCKET, "other.sock")) as process,
            socket.socket(socket.AF_UNIX) as client,
        ):
            client.connect(str(daemon.socket))
            code = process.wait(WAIT_S)
        log = daemon.log_path.read_text()

    assert code == 1
    assert "other.sock, where amend has none" in log


@needs_systemd
def test_a_second_daemon_is_refused_though_it_was_passed_the_sockets(tmp_path: Path) -> None:
    with Daemon(tmp_path / "base") as daemon:
        # systemd takes the path away from the daemon that was started by hand.
        daemon.socket.unlink()
        with (
            activated(daemon, (API_SOCKET,)) as process,
            socket.socket(socket.AF_UNIX) as client,
        ):
            client.connect(str(daemon.socket))
            code = process.wait(WAIT_S)
        log, pid = daemon.log_path.read_text(), daemon.pid

    assert code == 1
    assert f"another daemon is running (process {pid})" in log


# -- what is taken and what is not -----------------------------------------------------------------

CHILD = """
import json, os, socket, sys
from amend.edge.service_activation import take_passed
from amend.errors import Refused
fd, pid, count, names = sys.argv[1:]
if fd != "3":
    os.dup2(int(fd), 3)
os.environ["LISTEN_PID"] = str(os.getpid()) if pid == "own" else pid
os.environ["LISTEN_FDS"] = count
os.environ["LISTEN_FDNAMES"] = names
try:
    taken = take_passed(os.environ, ("claude",))
    said = [[p.name, str(p.path), os.get_inheritable(p.sock.fileno())] for p in taken]
except Refused as error:
    said = error.message
try:
    os.fstat(3)
    is_open = True
except OSError:
    is_open = False
left = [name for name in os.environ if name.startswith("LISTEN_")]
print(json.dumps([said, is_open, left]))
"""


def taken(fd: int, *, pid: str = "own", count: str = "1", names: str = "api") -> list[Any]:
    """What came back or was told, whether descriptor 3 is open, which variables are left."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(fd), pid, count, names],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        pass_fds=[fd],
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def runtime() -> Path:
    path = Path(os.environ["AMEND_RUNTIME_DIR"])
    prepare_private_dir(path)
    return path


def listening(path: Path, mode: int = 0o600) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    path.chmod(mode)
    sock.listen()
    return sock


@needs_linux
@pytest.mark.parametrize(
    ("names", "name"), [("api", "api"), ("", ""), ("a:b", "unknown")], ids=["one", "none", "two"]
)
def test_a_listening_unix_socket_is_taken_by_its_path(runtime: Path, names: str, name: str) -> None:
    with listening(runtime / API_SOCKET) as sock:
        said = taken(sock.fileno(), names=names)

    assert said == [[[name, str(runtime / API_SOCKET), False]], True, []]


@needs_linux
@pytest.mark.parametrize("pid", ["1", "", "x"])
def test_what_is_meant_for_another_process_is_left_alone(runtime: Path, pid: str) -> None:
    with listening(runtime / API_SOCKET) as sock:
        said = taken(sock.fileno(), pid=pid)

    assert said == [[], True, []]


def _datagram(runtime: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(runtime / API_SOCKET))
    return sock


def _deaf(runtime: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(runtime / API_SOCKET))
    return sock


def _inet(runtime: Path) -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def _abstract(runtime: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"\0amend-test-{os.getpid()}")
    sock.listen()
    return sock


@needs_linux
@pytest.mark.parametrize("make", [_datagram, _deaf, _inet, _abstract])
def test_another_kind_of_socket_is_refused_and_closed(
    runtime: Path, make: Callable[[Path], socket.socket]
) -> None:
    with make(runtime) as sock:
        said, is_open, left = taken(sock.fileno())

    assert said == "the passed descriptor 3 (api) is no Unix stream socket that listens"
    assert (is_open, left) == (False, [])


@needs_linux
@pytest.mark.parametrize("count", ["", "-1", "x", "65", "99999999999999999999"])
def test_a_count_that_is_none_is_refused(tmp_path: Path, count: str) -> None:
    with (tmp_path / "file").open("w") as file:
        said, _, left = taken(file.fileno(), count=count)

    assert said == f"LISTEN_FDS is {count!r}, must be a number up to 64"
    assert left == []


@needs_linux
def test_a_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert taken(file.fileno())[:2] == ["the passed descriptor 3 (api) is no socket", False]


def test_a_passed_socket_stays_at_its_path_when_it_is_let_go(runtime: Path) -> None:
    lock = DaemonLock(runtime)
    passed = listening(runtime / API_SOCKET)

    owned = lock.claim_socket(runtime / API_SOCKET, passed)
    taken_as_it_was = owned.sock is passed
    owned.close()
    lock.release()

    assert taken_as_it_was
    assert (runtime / API_SOCKET).is_socket()


@pytest.mark.parametrize("mode", [0o660, 0o666, 0o700, 0o000])
def test_a_passed_socket_that_others_may_use_is_refused(runtime: Path, mode: int) -> None:
    lock = DaemonLock(runtime)

    with (
        listening(runtime / API_SOCKET, mode) as passed,
        pytest.raises(Refused, match=f"has mode {mode:04o}, must be 0600"),
    ):
        lock.claim_socket(runtime / API_SOCKET, passed)
    lock.release()


@pytest.mark.parametrize("left", [None, "dead"])
def test_a_passed_socket_that_nobody_can_reach_is_bound_anew(
    runtime: Path, left: str | None
) -> None:
    lock = DaemonLock(runtime)
    path = runtime / API_SOCKET
    passed = listening(path)
    path.unlink()
    if left is not None:  # what a daemon left that had bound the path itself, and was killed
        listening(path).close()

    owned = lock.claim_socket(path, passed)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    is_closed = passed.fileno() == -1
    owned.close()
    lock.release()

    assert is_closed
    assert not path.exists()  # amend's own now, and removed by it


def test_a_passed_socket_whose_path_goes_later_heals_like_any_other(runtime: Path) -> None:
    lock = DaemonLock(runtime)
    path = runtime / API_SOCKET
    passed = listening(path)
    owned = lock.claim_socket(path, passed)
    path.unlink()

    healed = lock.reclaim(owned)
    state = owned.still_ours()
    owned.close()
    passed.close()
    lock.release()

    assert healed is not passed
    assert state == "ours"
    assert not path.exists()


# -- launchd ---------------------------------------------------------------------------------------


class Launchd:
    """A stand-in for the system's library, with the same binary interface; no Mac needed."""

    def __init__(self, sockets: dict[bytes, list[int]], number: int = 0) -> None:
        libc = CDLL(None)
        malloc = libc.malloc
        malloc.restype, malloc.argtypes = c_void_p, [c_size_t]
        self.freed = 0

        def activate(name: bytes, fds: Any, count: Any) -> int:
            if number:
                return number
            if name not in sockets:
                return errno.ENOENT
            some = sockets[name]
            memory = cast(malloc(sizeof(c_int) * max(1, len(some))), POINTER(c_int))
            for index, fd in enumerate(some):
                memory[index] = fd
            fds[0] = memory
            count[0] = len(some)
            return 0

        def free(pointer: int) -> None:
            self.freed += 1
            libc.free(c_void_p(pointer))

        prototype = CFUNCTYPE(c_int, c_char_p, POINTER(POINTER(c_int)), POINTER(c_size_t))
        self.launch_activate_socket = prototype(activate)
        self.free = CFUNCTYPE(None, c_void_p)(free)


def test_launchd_is_asked_for_each_name_and_its_list_is_freed() -> None:
    library = Launchd({b"api": [7], b"hooks-claude": [8, 9]})

    got = list(from_launchd(library, ("api", "hooks-claude", "hooks-codex")))

    assert got == [("api", 7), ("hooks-claude", 8), ("hooks-claude", 9)]
    assert library.freed == 2


def test_without_launchd_there_is_nothing_to_take() -> None:
    assert list(from_launchd(Launchd({}, errno.ESRCH), ("api",))) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.EALREADY, "handed out its socket api already"), (errno.EINVAL, "Invalid argument")],
)
def test_what_launchd_refuses_is_told(number: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        list(from_launchd(Launchd({}, number), ("api",)))
