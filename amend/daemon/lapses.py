"""What nobody tells the daemon: that the machine slept, that its clock was set, that its watch is
deaf or has lost its ground.

Looked for on a timer that runs anyway; it wakes the machine no more often. None of it makes an
answer wrong, for each looks at its sources. But marks rest on the watch, which hears nothing of
what another machine did to a shared disk meanwhile, and on the age of entries. So after a lapse
everything is to be looked at again, and what cannot be watched is tried again each 50 s.

Sleep and clock steps are told from clocks that stand still for different things, so one set far
ahead or back is no sleep, and a sleep no step.
"""

import contextlib
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from amend.daemon.logs import Log
from amend.daemon.tending import Tending
from amend.edge.watch.interface import Watch

# A sleep is seconds at least; less is what passes between reading one clock and the next.
SLEPT_S: Final = 1.0

# A clock that is only corrected gains 1 s in a tick at the most (chrony slews by up to a tenth);
# one that is set is set by more. It is also the margin that FAT's times need.
STEPPED_S: Final = 2.0

# A tick is 10 s. After five of them what could not be watched is tried again: a lost watch is
# noticed within 60 s. One that nothing was mounted over is lost only by an event, which is told.
WATCH_CHECK_TICKS: Final = 5

# An event may come between the loop's look at its descriptors and ours; not each time.
DEAF_TICKS: Final = 3


@dataclass(frozen=True, slots=True)
class Clocks:
    """`awake_s` stands still while the machine sleeps, `passed_s` never; `wall_s` may be set."""

    awake_s: float
    passed_s: float
    wall_s: float


def read_clocks() -> Clocks:
    if sys.platform == "darwin":
        awake, passed = time.CLOCK_UPTIME_RAW, time.CLOCK_MONOTONIC
    elif sys.platform == "linux":
        awake, passed = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
    else:  # no sleep is seen there, only that the wall clock has gone on
        awake = passed = time.CLOCK_MONOTONIC
    return Clocks(time.clock_gettime(awake), time.clock_gettime(passed), time.time())


@dataclass(frozen=True, slots=True)
class Lapse:
    """How long the machine slept, and by how much its clock was set (back: negative); 0: neither
    long enough to tell."""

    slept_s: float
    stepped_s: float


def lapse_between(before: Clocks, now: Clocks) -> Lapse | None:
    passed_s = now.passed_s - before.passed_s
    slept_s = passed_s - (now.awake_s - before.awake_s)
    stepped_s = (now.wall_s - before.wall_s) - passed_s
    lapse = Lapse(
        slept_s if slept_s >= SLEPT_S else 0.0,
        stepped_s if abs(stepped_s) >= STEPPED_S else 0.0,
    )
    return lapse if lapse.slept_s or lapse.stepped_s else None


class MountTable:
    """Whether anything was mounted or unmounted since it was last asked; Linux tells, by poll(2)
    on the table. Source: proc(5), /proc/pid/mounts."""

    def __init__(self, path: str = "/proc/self/mountinfo") -> None:
        self._poll: select.poll | None = None
        with contextlib.suppress(OSError):
            self._file = open(path, "rb")  # noqa: SIM115  # for as long as the daemon runs
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLPRI | select.POLLERR)

    def has_changed(self) -> bool:
        return self._poll is not None and bool(self._poll.poll(0))

    def close(self) -> None:
        if self._poll is not None:
            self._poll = None
            self._file.close()


class Lapses:
    """Told of each tick. `on_lapse`: everything is to be looked at again, soon."""

    def __init__(
        self,
        tending: Tending,
        log: Log,
        on_lapse: Callable[[], None],
        *,
        listens: bool = True,
        read: Callable[[], Clocks] = read_clocks,
    ) -> None:
        """`listens`: nobody else tests whether the watch hears. Two would hide it from each other:
        what one takes in by itself, the other takes for proof."""
        self._tending = tending
        self._log = log
        self._on_lapse = on_lapse
        self._listens = listens
        self._read = read
        self._before = read()
        self._mounts = MountTable()
        self._ticks = 0
        self._events = 0
        self._unheard = 0

    def tick(self) -> None:
        before, self._before = self._before, self._read()
        lapse = lapse_between(before, self._before)
        if lapse is not None:
            if lapse.slept_s:
                self._log.info("machine_slept", slept_s=round(lapse.slept_s, 1))
            if lapse.stepped_s:
                self._log.warning("clock_set", by_s=round(lapse.stepped_s, 1))
            self._on_lapse()
        watch = self._tending.watch
        if watch is None:
            return
        self._ticks += 1
        is_due = self._ticks % WATCH_CHECK_TICKS == 0 and bool(watch.health().unwatched)
        if self._mounts.has_changed() or is_due:
            watch.retry_unwatched()
        if self._listens:
            self._listen(watch)

    def _listen(self, watch: Watch) -> None:
        """Take in what a reader that works would have taken in already."""
        events = watch.health().events
        is_heard = events != self._events
        self._tending.drain()
        self._events = watch.health().events
        if is_heard:
            self._unheard = 0
        elif self._events != events:
            self._unheard += 1
            if self._unheard == DEAF_TICKS:
                self._log.error("watch_deaf")

    def close(self) -> None:
        self._mounts.close()
