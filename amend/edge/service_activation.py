"""Sockets that a service manager has bound and listens on already, handed over at the start.

systemd passes descriptors from 3 on (LISTEN_FDS; sd_listen_fds(3)), launchd gives them when asked
by name (launch_activate_socket(3)). What comes back is known to be a listening Unix stream socket;
where it is bound, and whether that is a place of amend's, is for whoever holds the lock.

A name is a label. One systemd socket unit has one name for all its sockets, so what a socket is
for is told by its path alone.
"""

import contextlib
import ctypes
import errno
import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amend.errors import Refused

# Source: SD_LISTEN_FDS_START of sd-daemon.h.
FIRST_FD: Final = 3

# Who is handed more than this is not amend: it has a socket for itself and one for each agent.
SOCKETS_MAX: Final = 64

API_NAME: Final = "api"

_VARIABLES: Final = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID")


def hook_name(agent: str) -> str:
    """What the socket of an agent's hooks is called in a property list."""
    return f"hooks-{agent}"


@dataclass(frozen=True, slots=True)
class Passed:
    name: str
    path: Path
    sock: socket.socket


def take_passed(env: Mapping[str, str], agents: Iterable[str]) -> list[Passed]:
    """The sockets that whoever started this process has passed; none where nobody did.

    They are this process's from now on, and its children hear nothing of them. Raises `Refused`
    for what is no listening Unix stream socket; then all are closed.
    """
    try:
        fds = list(_from_systemd(env))
    finally:
        for name in _VARIABLES:
            os.environ.pop(name, None)
    if not fds and sys.platform == "darwin":
        library = ctypes.CDLL(None)
        fds = list(from_launchd(library, (API_NAME, *map(hook_name, agents))))
    taken: list[Passed] = []
    try:
        for name, fd in fds:
            taken.append(_checked(name, fd))
    except BaseException:
        for each in taken:
            each.sock.close()
        for _, fd in fds[len(taken) :]:
            with contextlib.suppress(OSError):
                os.close(fd)
        raise
    return taken


def _from_systemd(env: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    if env.get("LISTEN_PID") != str(os.getpid()):
        return  # meant for a parent that did not clean up, or for nobody
    text = env.get("LISTEN_FDS", "")
    if not (text.isascii() and text.isdigit()) or int(text) > SOCKETS_MAX:
        raise Refused(
            f"LISTEN_FDS is {text!r}, must be a number up to {SOCKETS_MAX}",
            hint="the service manager sets it; unset it to start by hand",
        )
    count = int(text)
    names = env.get("LISTEN_FDNAMES", "").split(":")
    if len(names) != count:
        names = ["unknown"] * count  # as sd_listen_fds_with_names calls those without names
    for offset, name in enumerate(names):
        yield name, FIRST_FD + offset


def from_launchd(library: Any, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The sockets that launchd has for this job under `names`; none where it has not started it.

    `library` has `launch_activate_socket` and `free`, as the system's own has.
    """
    activate, free = library.launch_activate_socket, library.free
    activate.restype = ctypes.c_int
    free.restype = None
    free.argtypes = [ctypes.c_void_p]
    for name in names:
        fds, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
        number = activate(name.encode(), ctypes.byref(fds), ctypes.byref(count))
        if number in (errno.ESRCH, errno.ENOENT):
            continue  # not started by launchd; or its property list has no such socket
        if number == errno.EALREADY:
            raise Refused(f"launchd has handed out its socket {name} already")
        if number != 0:
            raise Refused(f"launchd does not hand out its socket {name}: {os.strerror(number)}")
        got = fds[: count.value]
        free(fds)
        yield from ((name, fd) for fd in got)


def _checked(name: str, fd: int) -> Passed:
    said = f"the passed descriptor {fd} ({name})"
    hint = "amend.socket and `amend service install` have the right ones"
    try:
        os.set_inheritable(fd, False)
        is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError as error:
        raise Refused(f"{said} cannot be used: {error.strerror}", hint=hint) from error
    if not is_socket:
        raise Refused(f"{said} is no socket", hint=hint)
    sock = socket.socket(fileno=fd)
    path = _listening_at(sock)
    if path is None:
        sock.detach()  # the descriptor is closed with those that come after it
        raise Refused(f"{said} is no Unix stream socket that listens", hint=hint)
    return Passed(name, path, sock)


def _listening_at(sock: socket.socket) -> Path | None:
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        return None
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    where = sock.getsockname()
    # An abstract one is bytes on Linux, and has no mode that keeps others out.
    return Path(where) if isinstance(where, str) and where.startswith("/") else None
