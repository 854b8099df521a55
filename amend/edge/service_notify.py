"""Telling systemd how the daemon is: ready, reloading, stopping, alive. Silent where nobody asked.

A message is one datagram that is never waited for; a service manager that does not read stops
nobody's work. Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

ADDRESS: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PID: Final = "WATCHDOG_PID"


class Notifier:
    """`watchdog_s`: within which time the manager wants to hear `alive` again; None: it does not
    ask."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s if address is not None else None

    def ready(self, status: str) -> None:
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """To be followed by `ready`, whatever comes of the reload."""
        # The manager takes it for the answer to its signal only with this clock's time in it.
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=stopping")

    def status(self, text: str) -> None:
        self._tell(f"STATUS={text}")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        address = self._address
        if address is None:
            return
        # A message is lines; a line end inside of a text would begin another assignment.
        message = "\n".join(" ".join(line.splitlines()) for line in lines)
        name = "\0" + address[1:] if address.startswith("@") else address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.setblocking(False)
            sock.sendto(message.encode("utf-8", "replace"), os.fsencode(name))


def take_notifier(env: Mapping[str, str]) -> Notifier:
    """What `env` says, which then is no longer in this process's environment: its children are
    not the service."""
    address = env.get(ADDRESS, "")
    watchdog_s = _watchdog_s(env)
    for name in (ADDRESS, WATCHDOG, WATCHDOG_PID):
        os.environ.pop(name, None)
    if not address.startswith(("/", "@")) or len(address) < 2:
        return Notifier()
    return Notifier(address, watchdog_s)


def _watchdog_s(env: Mapping[str, str]) -> float | None:
    """None also where the wish is for another process, or is none that can be met."""
    asked, whose = env.get(WATCHDOG, ""), env.get(WATCHDOG_PID, "")
    if whose and whose != str(os.getpid()):
        return None
    if not (asked.isascii() and asked.isdigit()) or int(asked) == 0:
        return None
    return int(asked) / 1e6
