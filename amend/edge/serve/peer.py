"""Who is at the other end of a Unix socket, by the kernel's word."""

import select
import socket
import struct
from typing import Final

_UCRED: Final = struct.Struct("3i")
# macOS has no SO_PEERCRED: LOCAL_PEERCRED (level 0, option 1) gives version and uid first.
_LOCAL_PEERCRED: Final = 1
_XUCRED: Final = struct.Struct("2I")


def peer_uid(sock: socket.socket) -> int:
    """The effective uid with which the other end connected. Raises `OSError`."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(raw)[1])
    return int(_XUCRED.unpack(sock.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size))[1])


def has_left(sock: socket.socket) -> bool:
    """Whether the other end is closed altogether; on Linux, a half-closed one does not hang up.

    Elsewhere such a client may be noticed only by the next write.
    """
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
