"""The client: each way in which no daemon answers is told apart, and each has an end."""

import contextlib
import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amend.cli.client import Client, NoDaemon, Why, entry_route
from amend.edge.service import socket_path
from amend.errors import (
    AmendError,
    Conflict,
    NotFound,
    Refused,
    RequestInvalid,
    StaleMatch,
    Unavailable,
)
from tests.integration.cli_fakes import fake_daemon


@pytest.fixture
def path() -> Path:
    found = socket_path(os.environ)
    found.parent.mkdir(parents=True)
    return found


@contextmanager
def speaking(path: Path, data: bytes | None) -> Iterator[None]:
    """Listens; sends `data` to whoever connects and ends, or says nothing at all for None."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen()
        if data is not None:

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(data)

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join)
        yield


def why(path: Path, *, answer_s: float = 10.0) -> Why:
    with pytest.raises(NoDaemon) as caught:
        Client(path, answer_s=answer_s).get("/v1/hello")
    assert caught.value.hint
    assert str(path) in caught.value.message
    return caught.value.why


def test_no_socket_is_told(path: Path) -> None:
    assert why(path) is Why.ABSENT


def test_no_runtime_directory_is_told_the_same() -> None:
    assert why(socket_path(os.environ)) is Why.ABSENT


def test_a_socket_that_a_killed_daemon_left_is_told(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    assert why(path) is Why.REFUSED


def test_a_file_in_the_sockets_place_is_told(path: Path) -> None:
    path.write_text("no socket")

    assert why(path) is Why.REFUSED


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_sandbox_is_told(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class Sandboxed(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("amend.cli.client.socket.socket", Sandboxed)
    path.touch()

    assert why(path) is Why.SANDBOXED


def test_another_users_socket_is_never_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with speaking(path, None):
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

        assert why(path) is Why.FOREIGN


def test_a_daemon_that_hangs_is_left_after_the_deadline(path: Path) -> None:
    with speaking(path, None):
        assert why(path, answer_s=0.05) is Why.HUNG


def test_a_daemon_that_hangs_in_the_middle_of_its_answer_is_left(path: Path) -> None:
    with fake_daemon() as fake:
        release = threading.Event()

        def answer(_: object) -> tuple[int, object]:
            release.wait(10)
            return 200, {}

        fake.answers["GET /v1/hello"] = answer

        assert why(path, answer_s=0.05) is Why.HUNG

        release.set()


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", b"HTTP/1.1 200 OK\r\n"]
)
def test_a_daemon_that_dies_while_answering_is_told(path: Path, data: bytes) -> None:
    with speaking(path, data):
        assert why(path) is Why.GONE


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 500 Oops\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 404 Gone\r\ncontent-length: 2\r\n\r\n[]",
    ],
)
def test_something_else_at_the_socket_is_told(path: Path, data: bytes) -> None:
    with speaking(path, data), pytest.raises(Unavailable, match="no amend daemon"):
        Client(path).get("/v1/hello")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestInvalid),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (412, StaleMatch),
        (422, RequestInvalid),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
def test_a_problem_is_the_error_that_it_was(status: int, kind: type[AmendError]) -> None:
    with fake_daemon() as fake:
        fake.answers["GET /v1/hello"] = (status, {"detail": "no such thing", "hint": "look"})

        with pytest.raises(AmendError) as caught:
            Client(fake.path).get("/v1/hello")

    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("no such thing", "look")


def test_a_path_that_is_no_utf8_arrives_as_it_is() -> None:
    cwd = os.fsdecode(b"/caf\xe9/a b&c=d")
    with fake_daemon() as fake:
        fake.answers["GET /v1/entries"] = (200, {"entries": []})
        fake.answers["POST /v1/lookup"] = (200, {})

        Client(fake.path).get("/v1/entries", cwd=cwd, kind=None)
        Client(fake.path).post("/v1/lookup", {"cwd": cwd})

    assert [asked.query for asked in fake.asked] == [{"cwd": cwd}, {}]
    assert fake.asked[1].body == {"cwd": cwd}


def test_a_key_with_a_slash_stays_one_key() -> None:
    assert entry_route("topic", "a/b c?d") == "/v1/entries/topic/a%2Fb%20c%3Fd"


def test_events_are_read_across_lines_comments_and_several_data_lines() -> None:
    with fake_daemon() as fake:
        fake.streams.append(
            b": amend\n\nid: c:1:1\nevent: verdict\ndata: {}\n\n: still here\n\n"
            b"id: c:1:2\ndata:one\ndata: two\n\n"
        )

        with Client(fake.path).events("/r", "c:1:0") as stream:
            events = [(event.id, event.data) for event in stream]

    assert events == [("c:1:1", "{}"), ("c:1:2", "one\ntwo")]


def test_a_refused_stream_is_the_daemons_error() -> None:
    with fake_daemon() as fake:
        fake.answers["GET /v1/events"] = (404, {"detail": "not tended", "hint": "add it"})

        with pytest.raises(NotFound, match="not tended"):
            Client(fake.path).events("/r")


def test_a_silent_stream_is_left_after_its_deadline(path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: amend\n\n"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    held: list[socket.socket] = []

    def serve() -> None:
        connection, _ = listener.accept()
        held.append(connection)
        connection.recv(65536)
        connection.sendall(head)

    thread = threading.Thread(target=serve)
    thread.start()
    with Client(path).events() as stream:
        stream.wait_at_most(0.05)

        with pytest.raises(NoDaemon) as caught:
            list(stream)

    assert caught.value.why is Why.HUNG
    thread.join()
    for each in (*held, listener):
        each.close()


def test_what_is_sent_is_ascii_json(path: Path) -> None:
    with fake_daemon() as fake:
        fake.answers["POST /v1/verify"] = lambda asked: (200, asked.body)

        answer = Client(fake.path).post("/v1/verify", {"keys": ["ключ", "\udcff"]})

    assert answer == {"keys": ["ключ", "\udcff"]}
    assert json.dumps(answer).isascii()
