"""Accepting on a Unix socket that somebody else has bound: its path is not the server's to remove.

From Python 3.13 on a loop removes it when the server closes, also that of a service manager and
that of a daemon which hands over.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

_LEAVE: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


async def accept_on(
    sock: socket.socket, protocol: Callable[[], asyncio.Protocol], *, backlog: int
) -> asyncio.AbstractServer:
    """The server that takes connections from now on; closing it closes `sock`, and no more."""
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(protocol, sock=sock, backlog=backlog, **_LEAVE)
