"""A watch that looks for itself: stats the wanted paths, and only these, now and then.

For filesystems that tell nobody of remote writes, and for platforms without a better way. Marks
come up to one interval late; answers do not, since every answer stats its own sources.
"""

import asyncio
import os
from typing import Final

from amend.edge.watch.interface import Key, Touched, WatchHealth

# A person who edits on the other side of a share waits about this long for a mark; 500 cited files
# then cost under 0.1 % of a core on a local disk, and as many round trips on a remote one.
INTERVAL_S: Final = 5.0

_Place = tuple[bytes, bytes]


class Polling:
    backend = "polling"

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._wanted: dict[_Place, set[Key]] = {}
        self._stats: dict[_Place, tuple[int, ...] | None] = {}
        self._roots: set[bytes] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None

    def add_root(self, root: bytes) -> None:
        self._roots.add(root)
        self._schedule()

    def drop_root(self, root: bytes) -> None:
        self._roots.discard(root)
        for place in [place for place in self._wanted if place[0] == root]:
            del self._wanted[place], self._stats[place]

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        place = (root, path)
        if place not in self._wanted:
            self._stats[place] = _stat(place)
        self._wanted.setdefault(place, set()).add(key)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        place = (root, path)
        keys = self._wanted.get(place, set())
        keys.discard(key)
        if not keys and place in self._wanted:
            del self._wanted[place], self._stats[place]

    # A directory's own stamps change with its names.
    want_names = want
    unwant_names = unwant

    def drain(self) -> set[Key]:
        """Nothing: the caller stats what it answers about."""
        return set()

    def poll(self) -> set[Key]:
        """The keys whose paths look different from when this was last called."""
        touched: set[Key] = set()
        for place, keys in self._wanted.items():
            now = _stat(place)
            if now != self._stats[place]:
                self._stats[place] = now
                touched |= keys
        return touched

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched
        self._schedule()

    def _schedule(self) -> None:
        if self._loop is not None and self._roots and self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        touched = self.poll()
        if touched:
            self._deliver(touched)
        self._schedule()

    def retry_unwatched(self) -> None:
        pass

    def health(self, root: bytes | None = None) -> WatchHealth:
        return WatchHealth(self.backend, len(self._wanted))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _stat(place: _Place) -> tuple[int, ...] | None:
    try:
        found = os.stat(b"/".join(place) if place[1] else place[0])
    except OSError:
        return None
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
    )
