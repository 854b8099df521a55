"""One daemon hands over to another in the same process: nobody is refused in between.

After everything is written and closed the process becomes the new daemon (execve): its id stays,
so a service manager sees a reload and no end, and has nothing to restart. The sockets stay open and
listen; who comes meanwhile waits in their queue, and the new daemon finds them as it finds those of
a service manager (LISTEN_FDS). The lock goes in the moment of the exec; another daemon that took it
then would find the sockets answering, and leave.

What the old one had bound itself is marked in its name, and the new one's to remove at its end.
"""

import fcntl
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from amend.edge.service_activation import FIRST_FD, Passed
from amend.edge.service_notify import ADDRESS, WATCHDOG, WATCHDOG_PID

# What a descriptor is called that no service manager has: nobody's unit has such a name.
OWN: Final = "amend-own"

# Above every descriptor that is passed on.
_ASIDE_FD: Final = 64


@dataclass(frozen=True, slots=True)
class Listening:
    """`name` is the manager's, or `OWN`. `fd` stays open whatever becomes of the socket."""

    name: str
    path: Path
    fd: int


def told_by_manager(env: Mapping[str, str]) -> dict[str, str]:
    """What a service manager has said in `env` that the next daemon must hear as well. To be taken
    before anything takes it out."""
    return {name: env[name] for name in (ADDRESS, WATCHDOG, WATCHDOG_PID) if name in env}


def keep_listening(
    sockets: Iterable[tuple[Path, socket.socket]], passed: Sequence[Passed]
) -> list[Listening]:
    """These, kept open from now on, by the names that `passed` has for those that it has."""
    kept = []
    for path, sock in sockets:
        name = next((each.name for each in passed if each.sock is sock), OWN)
        kept.append(Listening(name, path, fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, _ASIDE_FD)))
    return kept


def become_next(listening: Sequence[Listening], told: Mapping[str, str]) -> NoReturn:
    """Run the command that this process was started with, anew. Does not return; where nothing can
    be run, ends the process as a failure."""
    env = {**os.environ, **told}
    env["LISTEN_PID"] = str(os.getpid())
    env["LISTEN_FDS"] = str(len(listening))
    env["LISTEN_FDNAMES"] = ":".join(each.name for each in listening)
    try:
        for number, each in enumerate(listening, FIRST_FD):
            os.dup2(each.fd, number, inheritable=True)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)
    except OSError as error:
        # The loop's own descriptors may be overwritten by now: nothing can go on here.
        os.write(2, f"amend: error: {sys.executable}: {error.strerror}\n".encode())
        for each in listening:
            if each.name == OWN:
                os.unlink(each.path)
        os._exit(os.EX_TEMPFAIL)


class Inherited:
    """The sockets that the daemon before this one had bound: to be removed as one's own."""

    def __init__(self, passed: Iterable[Passed]) -> None:
        self._inodes = {each.path: _inode(each.path) for each in passed if each.name == OWN}

    def remove(self) -> None:
        """Those that are still the same. Before the lock goes."""
        for path, inode in self._inodes.items():
            if inode is not None and _inode(path) == inode:
                os.unlink(path)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
