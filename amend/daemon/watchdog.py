"""Tells the service manager that amend lives, each time only after proof that it does.

The ping comes from the loop, so one that is stuck does not ping. Before each, a file of amend's own
is written and must come back through the watch: a daemon that hears of no change would mark nothing
and still answer. Without that there is no ping and a log line, the test is made again, and in the
end the manager starts amend anew.

Where the test itself cannot be made (a full disk, no watch left for this user, a filesystem that
tells of nothing) it says nothing about the watch, and a new start would heal nothing: then the loop
alone is proof, and the log says so once.
"""

import asyncio
import os
from pathlib import Path
from typing import Final

from amend.daemon.logs import Log
from amend.daemon.tending import ConfigKey
from amend.edge.service_notify import Notifier
from amend.edge.watch.interface import Watch

# Two levels down: the parent of a watched root is watched as well, and the store's own writes in
# the state directory must not wake the daemon.
ROOT: Final = "watchdog/seen"
NAME: Final = b"last"


class Watchdog:
    def __init__(
        self, watch: Watch, notifier: Notifier, state: Path, interval_s: float, log: Log
    ) -> None:
        """Pings each `interval_s`, half of what the manager waits."""
        self._watch = watch
        self._notifier = notifier
        self._interval_s = interval_s
        self._log = log
        self._root = os.fsencode(os.path.realpath(state / ROOT))
        self._was_seen = asyncio.Event()
        self._key = ConfigKey(self._was_seen.set)
        self._problem: str | None = None
        self._is_withheld = False

    async def run(self) -> None:
        self._arm()
        while True:
            await asyncio.sleep(self._interval_s)
            # A half of what is left until the manager gives up: time for one more test.
            while not await self._is_alive(self._interval_s / 2):
                if not self._is_withheld:
                    self._log.error("watchdog_withheld", waited_s=self._interval_s / 2)
                    self._is_withheld = True
                self._watch.retry_unwatched()
            if self._is_withheld:
                self._log.info("watchdog_resumed")
                self._is_withheld = False
            self._notifier.alive()

    def _arm(self) -> None:
        try:
            os.makedirs(self._root, 0o700, exist_ok=True)
        except OSError as error:
            self._tell_untested(error.strerror or str(error))
            return
        self._watch.add_root(self._root)
        self._watch.want(self._root, NAME, self._key)

    async def _is_alive(self, wait_s: float) -> bool:
        self._was_seen.clear()
        try:
            self._write()
        except OSError as error:
            self._tell_untested(error.strerror or str(error))
            return True
        if self._key in self._watch.unwatched_keys():
            self._tell_untested("its directory cannot be watched")
            return True
        self._problem = None
        try:
            async with asyncio.timeout(wait_s):
                await self._was_seen.wait()
        except TimeoutError:
            return False
        return True

    def _write(self) -> None:
        path = os.path.join(self._root, NAME)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:  # somebody tidied up
            os.makedirs(self._root, 0o700, exist_ok=True)
            fd = os.open(path, flags, 0o600)
        try:
            os.pwrite(fd, b"amend writes this and must be told of it by its own watch\n", 0)
        finally:
            os.close(fd)

    def _tell_untested(self, reason: str) -> None:
        if reason != self._problem:
            self._log.warning("watchdog_untested", reason=reason)
            self._problem = reason
