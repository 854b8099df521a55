"""A watch that looks for itself: stats the wanted paths, and only these, now and then.

For filesystems that tell nobody of remote writes, for platforms without a better way, and for users
whose inotify instances are used up. Marks come up to one interval late; answers do not, since every
answer stats its own sources. Every key counts as unwatched.

The looking is done in a thread of its own, which gets a list of paths and hands back what it saw: a
server that hangs must not hang the loop.
"""

import asyncio
import errno
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from amend.edge.watch.interface import Key, Touched, Wanted, WatchHealth

# A person who edits on the other side of a share waits about this long for a mark; 500 cited files
# then cost under 0.1 % of a core on a local disk, and as many round trips on a remote one.
INTERVAL_S: Final = 5.0

# FAT and some network servers keep times to 2 s: a path that changed less long ago may change once
# more and look the same.
RACY_NS: Final = 2_000_000_000

# A look that takes longer is reported: the server hangs. A guess at what a slow one never needs.
STALLED_S: Final = 30.0

_Place = tuple[bytes, bytes, bool]
"""Root, path beneath it, whether the names in it are wanted."""

_Look = tuple[object, ...] | None


class Polling:
    backend = "polling"

    def __init__(self, *, interval_s: float = INTERVAL_S, why: int = errno.EREMOTE) -> None:
        """`why`: the errno under which its roots are listed as unwatched."""
        self._interval_s = interval_s
        self._why = why
        self._wanted: dict[_Place, set[Key]] = {}
        self._looks: dict[_Place, _Look] = {}
        self._unsettled: set[_Place] = set()
        self._roots: set[bytes] = set()
        self._touched: set[Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looking_since_s: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None
        self._closed = False
        self.events = 0
        self.reader_errors = 0
        self._last_event_at: datetime | None = None

    def add_root(self, root: bytes) -> None:
        self._roots.add(root)
        self._schedule()

    def drop_root(self, root: bytes) -> None:
        self._roots.discard(root)
        for place in [place for place in self._wanted if place[0] == root]:
            self._forget(place)

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._want((root, path, False), key)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._want((root, path, True), key)

    def _want(self, place: _Place, key: Key) -> None:
        if place not in self._wanted:
            self._note(place, _look(place))
        self._wanted.setdefault(place, set()).add(key)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant((root, path, False), key)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant((root, path, True), key)

    def _unwant(self, place: _Place, key: Key) -> None:
        keys = self._wanted.get(place)
        if keys is not None:
            keys.discard(key)
            if not keys:
                self._forget(place)

    def _forget(self, place: _Place) -> None:
        del self._wanted[place], self._looks[place]
        self._unsettled.discard(place)

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        for (of, path, names), keys in self._wanted.items():
            if of == root:
                for key in keys:
                    yield Wanted(path, key, names)

    def drain(self) -> set[Key]:
        """Only what the last looks found: the caller stats what it answers about."""
        touched, self._touched = self._touched, set()
        return touched

    def poll(self) -> None:
        """Look at everything now; `drain` has the result."""
        places = tuple(self._wanted)
        self._compare(places, [_look(place) for place in places])

    def _compare(self, places: Sequence[_Place], looks: Sequence[_Look]) -> None:
        for place, look in zip(places, looks, strict=True):
            keys = self._wanted.get(place)
            if keys is None:
                continue  # unwanted meanwhile
            changed = look != self._looks[place]
            if changed or place in self._unsettled:
                self._touched |= keys
                self.events += changed
                self._last_event_at = datetime.now(UTC)
                self._unsettled.discard(place)
            if changed:
                self._note(place, look)

    def _note(self, place: _Place, look: _Look) -> None:
        self._looks[place] = look
        if look is not None and _is_racy(look):
            self._unsettled.add(place)  # reported once more by the next look

    # -- the loop's side -------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched
        self._schedule()

    def _schedule(self) -> None:
        idle = self._timer is None and self._looking_since_s is None
        if self._loop is not None and self._roots and idle and not self._closed:
            self._timer = self._loop.call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        loop = self._loop
        assert loop is not None
        places = tuple(self._wanted)
        self._looking_since_s = time.monotonic()

        def look() -> None:
            looks = [_look(place) for place in places]
            try:
                loop.call_soon_threadsafe(self._looked, places, looks)
            except RuntimeError:
                return  # the loop was closed meanwhile: nobody waits for this any more

        threading.Thread(target=look, name="amend-polling", daemon=True).start()

    def _looked(self, places: Sequence[_Place], looks: Sequence[_Look]) -> None:
        self._looking_since_s = None
        if self._closed:
            return
        self._schedule()
        self._compare(places, looks)
        if touched := self.drain():
            try:
                self._deliver(touched)
            except Exception:
                self.reader_errors += 1
                self._touched |= touched
                raise  # to the loop's exception handler; the next look is scheduled already

    def retry_unwatched(self) -> None:
        """Nothing: the `Watcher` moves a root that something better can watch by now."""

    def unwatched_keys(self) -> set[Key]:
        return set().union(*self._wanted.values())

    def health(self, root: bytes | None = None) -> WatchHealth:
        since_s = self._looking_since_s
        stalled = since_s is not None and time.monotonic() - since_s > STALLED_S
        number = errno.ETIMEDOUT if stalled else self._why
        return WatchHealth(
            self.backend,
            len(self._wanted),
            tuple((each, number) for each in sorted(self._roots) if root in (None, each)),
            events=self.events,
            reader_errors=self.reader_errors,
            last_event_at=self._last_event_at,
        )

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()


def _look(place: _Place) -> _Look:
    """What the path is and what it leads to; None for nothing."""
    root, path, names = place
    name = root + b"/" + path if path else root
    try:
        own = os.lstat(name)
    except (OSError, ValueError):  # a NUL is in no name
        return None
    if not stat.S_ISLNK(own.st_mode):
        return _stamp(own, names=names)
    try:
        end = _stamp(os.stat(name), names=names)
    except OSError as error:
        end = (error.errno,)
    return (*_stamp(own, names=False), *end)


def _stamp(found: os.stat_result, *, names: bool) -> tuple[object, ...]:
    """The times come first. A directory's own change with its names, which only some want."""
    kind = (found.st_dev, found.st_ino, found.st_mode)
    if stat.S_ISDIR(found.st_mode) and not names:
        return (0, 0, *kind)
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, *kind)


def _is_racy(look: tuple[object, ...]) -> bool:
    changed_ns = look[0]
    assert isinstance(changed_ns, int)
    return time.time_ns() - changed_ns < RACY_NS
