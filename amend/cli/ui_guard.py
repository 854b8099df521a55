"""Who may see the page of `amend ui`: the browser that was given the link, and nobody else.

The link's token works once and is exchanged for a cookie that no script reads and no other site
sends. The page lives below a path that nobody can guess, and the cookie is for that path: browsers
send cookies to every port of a host, but not to a path that a stranger's server does not have.
A request must name this host (a foreign name that resolves here does not), come from this page,
only read, and be made by a process of the same user.
"""

import os
import secrets
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

HOST: Final = "127.0.0.1"

_COOKIE: Final = "amend"

# 256 bits are beyond guessing; the path only has to be unknown to other local servers.
_TOKEN_BYTES: Final = 32
_PATH_BYTES: Final = 16

_AGAIN: Final = "run `amend ui` again for a new link"


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """The token was right: go to `path` with this `Set-Cookie`."""

    path: str
    cookie: str


class Guard:
    def __init__(self, port: int) -> None:
        self.host = f"{HOST}:{port}"
        self.base = f"/{secrets.token_urlsafe(_PATH_BYTES)}/"
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._session = secrets.token_urlsafe(_TOKEN_BYTES)
        self._is_used = False

    @property
    def link(self) -> str:
        return f"http://{self.host}/?token={self._token}"

    def judge(
        self,
        method: str,
        path: str,
        query: str,
        headers: Iterable[tuple[str, str]],
        peer_port: int | None,
    ) -> Refusal | Welcome | str:
        """What of the page is asked for, as a path below it; or why nothing is given."""
        sent: dict[str, list[str]] = {}
        for name, value in headers:
            sent.setdefault(name.lower(), []).append(value)
        refused = self._stranger(method, sent, peer_port)
        if refused is not None:
            return refused
        if path == "/":
            return self._greeted(query)
        if not path.startswith(self.base) or not self._has_session(sent.get("cookie", [])):
            return Refusal(403, "this page is for the browser that the link was for", _AGAIN)
        return path.removeprefix(self.base)

    def _stranger(
        self, method: str, sent: dict[str, list[str]], peer_port: int | None
    ) -> Refusal | None:
        if sent.get("host") != [self.host]:
            return Refusal(403, "the request names another host", "open the link as it was printed")
        if sent.get("origin", [f"http://{self.host}"]) != [f"http://{self.host}"]:
            return Refusal(403, "the request comes from another page", _AGAIN)
        if sent.get("sec-fetch-site", ["none"])[-1] not in ("none", "same-origin"):
            return Refusal(403, "the request comes from another site", "open the link by itself")
        if method != "GET":
            return Refusal(405, f"{method[:20]} is not answered: the page only reads", "GET it")
        if not is_own_peer(peer_port, int(self.host.rpartition(":")[2])):
            return Refusal(403, "the request comes from another user's process", _AGAIN)
        return None

    def _greeted(self, query: str) -> Refusal | Welcome:
        given = parse_qs(query).get("token", [])
        is_right = len(given) == 1 and secrets.compare_digest(
            given[0].encode("utf-8", "replace"), self._token.encode()
        )
        if not is_right:
            return Refusal(403, "the token is missing or wrong", "open the link as it was printed")
        if self._is_used:
            return Refusal(403, "this link has been opened before, and it works once", _AGAIN)
        self._is_used = True
        attributes = f"Path={self.base}; HttpOnly; SameSite=Strict"
        return Welcome(self.base, f"{_COOKIE}={self._session}; {attributes}")

    def _has_session(self, cookies: list[str]) -> bool:
        try:
            found = SimpleCookie("; ".join(cookies)).get(_COOKIE)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(
            found.value.encode("utf-8", "replace"), self._session.encode()
        )


def is_own_peer(peer_port: int | None, port: int, table: str = "/proc/net/tcp") -> bool:
    """Whether the other end is a process of this user, or root's, by the kernel's table.

    True where there is no table or nothing in it: the token is what guards, this is a second lock.
    root is let in since it can be kept out of nothing, and relays of virtual machines run as it.
    """
    if peer_port is None:
        return True
    theirs, mine = _endpoint(peer_port), _endpoint(port)
    try:
        with open(table, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return True
    uids = [int(row[7]) for row in rows[1:] if row[1:3] == [theirs, mine]]
    return all(uid in (os.geteuid(), 0) for uid in uids)


def _endpoint(port: int) -> str:
    """As the table has it: the address's bytes read as a number of this machine's order."""
    (address,) = struct.unpack("=I", socket.inet_aton(HOST))
    return f"{address:08X}:{port:04X}"
