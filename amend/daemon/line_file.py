"""One file of lines that amend writes beside others: an index, or a note being saved.

`SharedFile` with the loop's clock: asked to write, it writes as soon as the file has been quiet,
and goes on looking at what it displaced for as long as that may change.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from amend.edge.files.look import changed_at_ns, stat_key
from amend.edge.files.shared import SharedFile
from amend.errors import Refused, Unavailable
from amend.formats.line_merge import merge

# A request that waits for a write gives up: the file keeps changing, or the disk is full.
WRITTEN_S: Final = 5.0
_POLL_S: Final = 0.005


class LineFile:
    def __init__(
        self,
        root: bytes,
        path: bytes,
        *,
        plan: Callable[[bytes | None], bytes | None],
        retain_dir: bytes | None,
        quiet_s: float,
    ) -> None:
        """`plan` as `SharedFile`'s. Needs a running loop."""
        self.path = path
        self.directory = path.rpartition(b"/")[0]
        self.plan = plan
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_away = False  # a worker has `shared`
        self._is_closed = False
        self._then: Callable[[], None] | None = None  # to be done once it is back
        self._quiet_s = quiet_s
        self._stepped_s = self._loop.time()
        self._prepared: Callable[[bytes | None], bytes | None] | None = None
        self.shared = SharedFile(
            root,
            path,
            retain_dir=retain_dir,
            plan=self._planned,
            merge=merge,
            journal=lambda _: None,  # what is displaced is kept
            quiet_s=quiet_s,
        )
        self.shared.recover_leftovers()
        # Quiet since its last change, as the file says.
        age_s = (time.time_ns() - changed_at_ns(stat_key(root, path))) / 1e9
        self.shared.noticed(self._loop.time() - max(0.0, age_s))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do or to look at, and what was written is not just now."""
        return self._timer is None and self._loop.time() > self._stepped_s + self._quiet_s

    @property
    def is_written(self) -> bool:
        """Whether nothing that was requested is still to be written."""
        return not self.shared.is_wanted

    def noticed(self) -> None:
        """Something touched the file."""
        if self._is_away:
            self._then = self._then or self.noticed
            return
        self.shared.noticed(self._loop.time())
        self._schedule(0.0)

    def request(self) -> None:
        """`plan` would change something: write as soon as the file is quiet, now if it is."""
        if self._is_away:
            self._then = self.request
            return
        self.shared.request(self._loop.time())
        self._step()

    async def request_away(self, present: bytes | None, new: bytes) -> None:
        """`request`, where `plan` makes `new` of what is there, with a worker waiting for the disk.

        `plan` itself is asked on the loop: should the file not be `present` any more, afterwards.
        """
        if self._is_away:
            self.request()
            return
        is_other = False

        def prepared(found: bytes | None) -> bytes | None:
            nonlocal is_other
            is_other = found != present
            return None if is_other else new

        now_s = self._stepped_s = self._loop.time()
        self.shared.request(now_s)
        self._is_away, self._prepared = True, prepared
        stepping = self._loop.run_in_executor(None, self.shared.step, now_s)
        stepping.add_done_callback(self._is_back)
        due_s = await asyncio.shield(stepping)  # whoever is cancelled, the worker goes on
        if is_other:
            self.request()
        elif due_s is not None and (self._timer is None or self._timer.when() > due_s):
            self._schedule(max(0.0, due_s - self._loop.time()))

    def _is_back(self, _: "asyncio.Future[float | None]") -> None:
        self._is_away, self._prepared = False, None
        then, self._then = self._then, None
        if self._is_closed:
            self.shared.close()
        elif then is not None:
            then()

    async def written(self) -> None:
        """Return when what was requested is in the file.

        Raises `Refused` where it may not be written, `Unavailable` where it could not be in time.
        """
        until_s = self._loop.time() + WRITTEN_S
        while not self.is_written:
            if self.shared.blocked:
                raise Refused(f"{self.path.decode(errors='replace')}: {self.shared.blocked}")
            if self._loop.time() > until_s:
                why = self.shared.last_error or "it keeps changing"
                raise Unavailable(
                    f"{self.path.decode(errors='replace')}: could not be written: {why}",
                    hint="it is tried again by itself",
                )
            await asyncio.sleep(_POLL_S)

    @property
    def problem(self) -> str | None:
        said = self.shared.blocked or self.shared.last_error
        return f"{self.path.decode(errors='replace')}: {said}" if said else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_closed = True
        if not self._is_away:
            self.shared.close()

    def _planned(self, present: bytes | None) -> bytes | None:
        return (self._prepared or self.plan)(present)

    def _schedule(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._step)

    def _step(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_away:
            self._then = self._then or self._step
            return
        now_s = self._stepped_s = self._loop.time()
        due_s = self.shared.step(now_s)
        if due_s is not None:
            self._schedule(max(0.0, due_s - now_s))
