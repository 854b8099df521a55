"""A question to the daemon over its Unix socket, and the answer or the reason why there is none.

Small on purpose: `amend get` runs before an agent explores. Imports no model and no framework.
Every wait has an end, and no answer is believed that another user's process could have given.

An amend that is not the daemon's version asks it like any other. Only where the daemon does not
take a question is it asked what it speaks, and the error says what that explains. `GET /v1/hello`
stays as it is in every protocol.
"""

import errno
import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

from amend.errors import (
    AmendError,
    Conflict,
    NotFound,
    Refused,
    RequestInvalid,
    StaleMatch,
    Unavailable,
)

# A live daemon's kernel accepts at once; 0.3 s covers a machine that is swapping.
CONNECT_S: Final = 0.3

# Re-hashing a thousand cited files takes a second; whoever needs longer is not answering.
ANSWER_S: Final = 10.0

# The stream sends a comment every 15 s; three missed ones mean that nobody is there.
SILENCE_S: Final = 45.0

# 100,000 entries with long summaries are 60 MB as JSON.
ANSWER_BYTES_MAX: Final = 256 << 20

# The protocols that this client can speak; a test holds them to the daemon's of the same version.
SPOKEN_MIN: Final = 1
SPOKEN_MAX: Final = 1

# What a daemon of another version may say of a question that one of this version would take: no
# JSON that it knows, no such route or method, a field too few or too many.
_NOT_TAKEN: Final = frozenset({400, 405, 422})
_NO_ROUTE: Final = (404, ": not found")

_KINDS: Final[Mapping[int, type[AmendError]]] = {
    400: RequestInvalid,
    403: Refused,
    404: NotFound,
    405: RequestInvalid,
    409: Conflict,
    412: StaleMatch,
    413: RequestInvalid,
    422: RequestInvalid,
}


class Why(Enum):
    """Why no daemon answers."""

    ABSENT = "there is no socket"
    REFUSED = "nobody listens at the socket"
    SANDBOXED = "this process may not use the socket"
    FOREIGN = "the socket belongs to another user"
    HUNG = "it takes the question and gives no answer"
    GONE = "it went away while answering"


_HINTS: Final = {
    Why.ABSENT: "start it with `amend run`",
    Why.REFUSED: "it was killed; start it again with `amend run`",
    Why.SANDBOXED: "allow the sandbox to connect to it, or run the command outside",
    Why.FOREIGN: "set AMEND_RUNTIME_DIR to a directory of your own",
    Why.HUNG: "look at its log; end it and start it again with `amend run`",
    Why.GONE: "try again; look at its log when it happens twice",
}

_TOGETHER: Final = "`amend service restart`, or end it and `amend run`, starts the installed one"

_BY_ERRNO: Final = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ECONNREFUSED: Why.REFUSED,
    errno.ENOTSOCK: Why.REFUSED,
    errno.EPERM: Why.SANDBOXED,
    errno.EACCES: Why.SANDBOXED,
    errno.EAFNOSUPPORT: Why.SANDBOXED,  # seccomp without Unix sockets
    errno.EAGAIN: Why.HUNG,  # its backlog is full
    errno.ETIMEDOUT: Why.HUNG,
}


class NoDaemon(Unavailable):
    def __init__(self, path: str, why: Why) -> None:
        super().__init__(f"no daemon answers at {path}: {why.value}", hint=_HINTS[why])
        self.why = why


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: a verdict change. `id` is its clock."""

    id: str
    data: str


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, answer_s: float) -> None:
        super().__init__("amend")
        self._path = path
        self._answer_s = answer_s
        # http.client lets go of its own reference when an answer is to end with the connection.
        self.kept: socket.socket | None = None

    def connect(self) -> None:
        if os.lstat(self._path).st_uid != os.geteuid():
            raise NoDaemon(self._path, Why.FOREIGN)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_S)
            sock.connect(self._path)
            sock.settimeout(self._answer_s)
        except BaseException:
            sock.close()
            raise
        self.sock = self.kept = sock


class Client:
    def __init__(self, path: str | os.PathLike[str], *, answer_s: float = ANSWER_S) -> None:
        self.path = os.fspath(path)
        self._answer_s = answer_s

    def get(self, route: str, **query: str | None) -> Any:
        return self._ask("GET", _with_query(route, query), None)

    def post(self, route: str, document: Mapping[str, Any] | None = None) -> Any:
        return self._ask("POST", route, document or {})

    def put(self, route: str, document: Mapping[str, Any], **query: str | None) -> Any:
        return self._ask("PUT", _with_query(route, query), document)

    def delete(self, route: str, **query: str | None) -> None:
        self._ask("DELETE", _with_query(route, query), None)

    def events(self, cwd: str | None = None, last_event_id: str | None = None) -> "Stream":
        """Verdict changes from now on: when this returns the daemon is listening for them."""
        headers = {"accept": "text/event-stream"}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        connection = _Connection(self.path, self._answer_s)
        try:
            route = _with_query("/v1/events", {"cwd": cwd})
            response = self._exchange(connection, "GET", route, None, headers)
            if response.status != 200:
                raise self._problem(response, response.read(ANSWER_BYTES_MAX))
        except BaseException:
            connection.close()
            raise
        return Stream(self.path, connection, response)

    def _ask(self, method: str, route: str, document: Mapping[str, Any] | None) -> Any:
        connection = _Connection(self.path, self._answer_s)
        try:
            # ASCII: a path that is no UTF-8 travels as \udcXX.
            body = None if document is None else json.dumps(document).encode("ascii")
            headers = {} if body is None else {"content-type": "application/json"}
            response = self._exchange(connection, method, route, body, headers)
            data = self._read(response)
        finally:
            connection.close()
        if response.status >= 300:
            raise self._problem(response, data)
        if response.status == 204:
            return None
        if not data:
            raise NoDaemon(self.path, Why.GONE)
        try:
            return json.loads(data)
        except ValueError:
            raise self._no_amend("its answer is no JSON") from None

    def _exchange(
        self,
        connection: _Connection,
        method: str,
        route: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        try:
            connection.connect()
        except TimeoutError:
            raise NoDaemon(self.path, Why.HUNG) from None
        except OSError as error:
            raise NoDaemon(self.path, _BY_ERRNO.get(error.errno or 0, Why.REFUSED)) from error
        try:
            connection.request(method, route, body, headers)
            return connection.getresponse()
        except TimeoutError:
            raise NoDaemon(self.path, Why.HUNG) from None
        except http.client.RemoteDisconnected:
            raise NoDaemon(self.path, Why.GONE) from None
        except http.client.HTTPException:
            raise self._no_amend("its answer is no HTTP") from None
        except OSError as error:
            raise NoDaemon(self.path, Why.GONE) from error

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            data = response.read(ANSWER_BYTES_MAX + 1)
        except TimeoutError:
            raise NoDaemon(self.path, Why.HUNG) from None
        except (http.client.HTTPException, OSError):
            raise NoDaemon(self.path, Why.GONE) from None
        if len(data) > ANSWER_BYTES_MAX:
            raise self._no_amend(f"its answer is over {ANSWER_BYTES_MAX} bytes")
        if response.length:  # bytes that were promised and did not come; `read` does not say so
            raise NoDaemon(self.path, Why.GONE)
        return data

    def _no_amend(self, reason: str) -> Unavailable:
        return Unavailable(
            f"what listens at {self.path} is no amend daemon: {reason}",
            hint="end it, or set AMEND_RUNTIME_DIR to another directory",
        )

    def _problem(self, response: http.client.HTTPResponse, data: bytes) -> AmendError:
        """The daemon's problem+json as the error that it was there."""
        try:
            problem = json.loads(data)
            detail, hint = str(problem["detail"]), str(problem.get("hint", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._no_amend(f"it says {response.status} and no reason")
        error = _KINDS.get(response.status, Unavailable)(detail, hint=hint)
        status, ending = _NO_ROUTE
        if response.status in _NOT_TAKEN or (response.status == status and detail.endswith(ending)):
            return self._explained(error)
        return error

    def _explained(self, error: AmendError) -> AmendError:
        """`error`, or what it comes from where the daemon is another version than this."""
        from amend.edge.service import package_version  # noqa: PLC0415  # only once it matters

        try:
            theirs, least, most = self._hello()
        except (AmendError, OSError, ValueError, KeyError, TypeError):
            return error
        ours = package_version()
        if most >= SPOKEN_MIN and least <= SPOKEN_MAX:
            if theirs == ours:
                return error
            hint = f"the daemon is amend {theirs} and this is {ours}: {_TOGETHER}"
            return type(error)(error.message, hint=f"{error.hint}; {hint}" if error.hint else hint)
        return Unavailable(
            f"the daemon at {self.path} is amend {theirs} and speaks {_protocols(least, most)}, "
            f"this is amend {ours} and speaks {_protocols(SPOKEN_MIN, SPOKEN_MAX)}",
            hint=_TOGETHER if most < SPOKEN_MIN else "upgrade this amend, or use the daemon's own",
        )

    def _hello(self) -> tuple[str, int, int]:
        """The daemon's version and the protocols it speaks. Raises for what is no such answer."""
        connection = _Connection(self.path, self._answer_s)
        try:
            response = self._exchange(connection, "GET", "/v1/hello", None, {})
            said = json.loads(self._read(response))
        finally:
            connection.close()
        spoken = said["protocol"]
        return str(said["version"]), int(spoken["min"]), int(spoken["max"])


class Stream:
    """Events as they come. Iterating ends when the daemon ends it or has gone."""

    def __init__(
        self, path: str, connection: _Connection, response: http.client.HTTPResponse
    ) -> None:
        self._path = path
        self._connection = connection
        self._response = response
        self.wait_at_most(SILENCE_S)

    def wait_at_most(self, seconds: float) -> None:
        """From now on `NoDaemon` (hung) is raised when nothing at all came for so long."""
        assert self._connection.kept is not None
        self._connection.kept.settimeout(seconds)

    def __iter__(self) -> Iterator[Event]:
        identity, data = "", []
        while True:
            try:
                line = self._response.readline().decode("utf-8", "replace").rstrip("\r\n")
            except TimeoutError:
                raise NoDaemon(self._path, Why.HUNG) from None
            except (http.client.HTTPException, OSError, ValueError):
                return
            if self._response.isclosed():
                return
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "id":
                identity = value
            elif field == "data":
                data.append(value)
            elif not line and data:
                yield Event(identity, "\n".join(data))
                data = []

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _protocols(least: int, most: int) -> str:
    return f"protocol {least}" if least == most else f"protocols {least} to {most}"


def entry_route(kind: str, key: str) -> str:
    return f"/v1/entries/{kind}/{quote(key, safe='')}"


def _with_query(route: str, query: Mapping[str, str | None]) -> str:
    pairs = [
        f"{name}={quote(os.fsencode(value), safe='/')}"
        for name, value in query.items()
        if value is not None
    ]
    return f"{route}?{'&'.join(pairs)}" if pairs else route
