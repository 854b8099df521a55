"""One daemon, with real processes and real sockets."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amend.edge.service import API_SOCKET, BACKLOG, DaemonLock, OwnedSocket
from amend.errors import Conflict, Refused

# Waits for a starting signal (the end of its stdin), then is a daemon until it is told otherwise.
DAEMON = """
import os, sys
from pathlib import Path
from amend.edge.service import DaemonLock, prepare_private_dir
from amend.errors import AmendError

runtime = Path(sys.argv[1])
os.read(int(sys.argv[2]), 1)
try:
    prepare_private_dir(runtime)
    lock = DaemonLock(runtime)
    owned = lock.claim_socket(runtime / "api.sock")
except AmendError as error:
    print(f"{type(error).__name__}: {error.message}", flush=True)
    sys.exit(0)
print("daemon", flush=True)
os.read(0, 1)
owned.close()
lock.release()
"""


@pytest.fixture
def runtime() -> Path:
    """Short enough for a socket, wherever the tests run."""
    path = Path(os.environ["XDG_RUNTIME_DIR"]) / "amend"
    path.mkdir(mode=0o700)
    return path


def start(runtime: Path, gate: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(runtime), str(gate)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[gate],
    )


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        process.kill()
        process.communicate(timeout=20)


def test_twenty_starts_at_once_give_one_daemon(runtime: Path) -> None:
    gate, opener = os.pipe()
    processes = [start(runtime, gate) for _ in range(20)]
    try:
        os.close(gate)
        os.close(opener)

        said = [first_line(process) for process in processes]

        winner = processes[said.index("daemon")]
        losers = [process for process in processes if process is not winner]
        assert said.count("daemon") == 1
        assert [process.wait(20) for process in losers] == [0] * 19
        assert all(
            "another daemon is running (process" in line for line in said if line != "daemon"
        )
        assert winner.poll() is None
        connect(runtime / API_SOCKET).close()
        assert (runtime / "lock").read_text() == f"{winner.pid}\n"
        winner.communicate("", timeout=20)
        assert not (runtime / API_SOCKET).exists()
    finally:
        end(processes)


def test_what_a_killed_daemon_left_is_taken_over(runtime: Path) -> None:
    gate, opener = os.pipe()
    process = start(runtime, gate)
    try:
        os.close(gate)
        os.close(opener)
        assert first_line(process) == "daemon"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        assert (runtime / API_SOCKET).is_socket()

        lock = DaemonLock(runtime)
        owned = lock.claim_socket(runtime / API_SOCKET)

        connect(runtime / API_SOCKET).close()
        owned.close()
        lock.release()
    finally:
        end([process])


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(str(path))
    return sock


def test_a_second_lock_is_a_conflict_that_names_the_holder_until_release(runtime: Path) -> None:
    first = DaemonLock(runtime)

    with pytest.raises(Conflict, match=rf"process {os.getpid()}\)"):
        DaemonLock(runtime)

    first.release()
    DaemonLock(runtime).release()


def test_a_link_in_the_locks_place_is_not_followed(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (runtime / "lock").symlink_to(tmp_path / "precious")

    with pytest.raises(Refused, match="cannot be opened"):
        DaemonLock(runtime)

    assert (tmp_path / "precious").read_text() == "mine"


def test_a_process_id_in_the_lock_decides_nothing(runtime: Path) -> None:
    (runtime / "lock").write_text(f"{os.getppid()}\n")

    DaemonLock(runtime).release()


def test_a_live_socket_is_never_taken(runtime: Path) -> None:
    path = runtime / API_SOCKET
    lock = DaemonLock(runtime)
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen(1)

        with pytest.raises(Conflict, match="something answers there already"):
            lock.claim_socket(path)

        connect(path).close()
    lock.release()


def test_a_live_socket_whose_queue_is_full_is_never_taken(runtime: Path) -> None:
    path = runtime / API_SOCKET
    lock = DaemonLock(runtime)
    waiting = []
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen(0)
        waiting.append(connect(path))
        before = path.lstat().st_ino

        with pytest.raises(Conflict):
            lock.claim_socket(path)

        assert path.lstat().st_ino == before
        waiting.pop().close()
    lock.release()


def test_a_socket_that_speaks_otherwise_is_never_taken(runtime: Path) -> None:
    path = runtime / API_SOCKET
    lock = DaemonLock(runtime)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as foreign:
        foreign.bind(str(path))

        with pytest.raises(Conflict):
            lock.claim_socket(path)

    lock.release()


def test_a_file_in_the_sockets_place_is_left_alone(runtime: Path) -> None:
    path = runtime / API_SOCKET
    path.write_text("mine")
    lock = DaemonLock(runtime)

    with pytest.raises(Refused, match="is no socket"):
        lock.claim_socket(path)

    assert path.read_text() == "mine"
    lock.release()


def test_the_socket_is_its_owners_only_whatever_the_umask(runtime: Path) -> None:
    before = os.umask(0)
    try:
        owned = OwnedSocket(runtime / API_SOCKET)
    finally:
        os.umask(before)

    assert (runtime / API_SOCKET).stat().st_mode & 0o777 == 0o600
    owned.close()


def test_a_deleted_socket_is_missing_and_bound_again(runtime: Path) -> None:
    path = runtime / API_SOCKET
    owned = OwnedSocket(path)
    assert owned.still_ours() == "ours"
    path.unlink()
    assert owned.still_ours() == "missing"
    old = owned.sock

    owned.rebind()

    assert owned.still_ours() == "ours"
    connect(path).close()
    old.close()
    owned.close()
    assert not path.exists()


def test_a_replaced_socket_is_seen_and_outlives_us(runtime: Path) -> None:
    path = runtime / API_SOCKET
    owned = OwnedSocket(path)
    path.unlink()
    successor = OwnedSocket(path)

    assert owned.still_ours() == "replaced"
    owned.close()

    assert successor.still_ours() == "ours"
    connect(path).close()
    successor.close()


def test_binding_again_where_somebody_came_meanwhile_is_a_conflict(runtime: Path) -> None:
    path = runtime / API_SOCKET
    owned = OwnedSocket(path)
    path.unlink()
    successor = OwnedSocket(path)

    with pytest.raises(Conflict):
        owned.rebind()

    owned.close()
    successor.close()


def test_a_burst_fits_into_the_queue(runtime: Path) -> None:
    owned = OwnedSocket(runtime / API_SOCKET)

    burst = [connect(runtime / API_SOCKET) for _ in range(min(BACKLOG, 128))]

    assert len(burst) >= 128
    for sock in burst:
        sock.close()
    owned.close()


def test_a_path_that_cannot_be_bound_is_refused_with_its_reason(runtime: Path) -> None:
    with pytest.raises(Refused, match="cannot listen"):
        OwnedSocket(runtime / "gone" / API_SOCKET)
