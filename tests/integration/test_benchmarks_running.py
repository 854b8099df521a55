"""The daemon that benchmarks and tests start: it never outlives a failure to start or to stop."""

import socket
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.running import Daemon, UnixConnection

# Neither ready nor ended, and deaf to a polite request to end.
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


def test_a_start_that_takes_too_long_leaves_no_process(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.command = [sys.executable, "-c", DEAF]

    with pytest.raises(RuntimeError, match="did not start"):
        daemon.start(wait_s=0)

    assert daemon.process is None
    daemon.close()


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", config="[policy]\non_stail = 1\n")

    with pytest.raises(RuntimeError, match="on_stail"), daemon:
        pytest.fail("it cannot have started")

    assert daemon.process is None
    assert not daemon.runtime.parent.exists()


def test_after_a_time_out_the_next_question_gets_its_own_answer(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.runtime.mkdir()
    heard = []

    def serve(listening: socket.socket) -> None:
        deaf, _ = listening.accept()
        with deaf, listening.accept()[0] as hearing:
            heard.append(hearing.recv(1000).partition(b" HTTP")[0])
            hearing.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(daemon.socket))
        listening.listen()
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        daemon._connection = UnixConnection(daemon.socket, timeout_s=0.05)
        with pytest.raises(TimeoutError):
            daemon.get("/first")

        answer = daemon.get("/second")

        server.join(20)
    assert (answer, heard) == ("ok", [b"GET /second"])
    daemon.close()


def test_a_daemon_that_hangs_up_at_once_is_asked_no_more_than_once(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.runtime.mkdir()
    accepted = []

    def serve(listening: socket.socket) -> None:
        while True:
            with listening.accept()[0] as connection:
                accepted.append(1)
                if not connection.recv(1000):
                    return

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(daemon.socket))
        listening.listen()
        server = threading.Thread(target=serve, args=(listening,))
        server.start()

        with pytest.raises(ConnectionError):
            daemon.get("/healthz")

        asked = len(accepted)
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(daemon.socket))
            last.shutdown(socket.SHUT_WR)
            server.join(20)
    assert asked == 1
    daemon.close()
