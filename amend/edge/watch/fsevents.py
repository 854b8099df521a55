"""macOS: one FSEvents stream for each root, through watchdog's emitter.

A stream reports paths, late and sometimes in bulk: a flag that says events were dropped or that a
directory must be scanned touches everything wanted beneath it. Silence proves nothing here, so
every key counts as unwatched and the owner's stat stays the authority. Tested through a fake
stream; not yet run on a Mac.

FSEvents names real paths, so wanted ones are translated: through the root's real path, and through
the links on the way, which are looked at again whenever one of them is touched.
"""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from amend.edge.watch.interface import Key, Touched, Wanted, WatchHealth
from amend.edge.watch.links import names_on_the_way

# kFSEventStreamEventFlag…: MustScanSubDirs, UserDropped, KernelDropped, EventIdsWrapped,
# RootChanged, Mount, Unmount. Source: FSEvents.h.
DROPPED: Final = 0x1 | 0x2 | 0x4 | 0x8
ROOT_CHANGED: Final = 0x20
_MOUNTS: Final = 0x40 | 0x80
# ItemCreated, ItemRemoved, ItemRenamed, ItemIsDir.
CREATED: Final = 0x100
REMOVED: Final = 0x200
RENAMED: Final = 0x800
IS_DIRECTORY: Final = 0x20000

_RESCAN: Final = DROPPED | ROOT_CHANGED | _MOUNTS
_CAME_OR_WENT: Final = CREATED | REMOVED | RENAMED

# No stream was asked about; a root whose stream could not be opened is tried again on the timer.
_NO_STREAM: Final = errno.EIO

Event = tuple[bytes, int]
"""An absolute real path and its flags."""

Arrived = Callable[[Sequence[Event]], None]


class Stream(Protocol):
    def stop(self) -> None: ...


OpenStream = Callable[[bytes, Arrived], Stream]
"""Opens a stream for a real path; it calls back from a thread of its own. `OSError`: it cannot."""


class _Place(NamedTuple):
    root: bytes
    path: bytes
    names: bool


class FsEvents:
    backend = "fsevents"

    def __init__(self, *, open_stream: OpenStream | None = None) -> None:
        self._open_stream = open_stream if open_stream is not None else _open_native_stream
        self._streams: dict[bytes, Stream | None] = {}  # root → its stream, None: could not open
        self._wanted: dict[_Place, set[Key]] = {}
        self._ways: dict[_Place, tuple[bytes, ...]] = {}
        self._at: dict[bytes, set[_Place]] = {}  # real name on a place's way → the place
        self._touched: set[Key] = set()
        self._arrived: list[Event] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None
        self.events = 0
        self.overflows = 0
        self.rescans = 0
        self.reader_errors = 0
        self._last_event_at: datetime | None = None

    def add_root(self, root: bytes) -> None:
        if root not in self._streams:
            self._streams[root] = self._opened(root)

    def _opened(self, root: bytes) -> Stream | None:
        try:
            return self._open_stream(os.path.realpath(root), self._from_thread)
        except (OSError, RuntimeError):
            return None  # listed in health, tried again

    def drop_root(self, root: bytes) -> None:
        stream = self._streams.pop(root, None)
        if stream is not None:
            stream.stop()
        for place in [place for place in self._wanted if place.root == root]:
            self._forget(place)

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._want(_Place(root, path, False), key)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._want(_Place(root, path, True), key)

    def _want(self, place: _Place, key: Key) -> None:
        if place not in self._wanted:
            self._wanted[place] = set()
            self._find_way(place)
        self._wanted[place].add(key)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant(_Place(root, path, False), key)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant(_Place(root, path, True), key)

    def _unwant(self, place: _Place, key: Key) -> None:
        keys = self._wanted.get(place)
        if keys is not None:
            keys.discard(key)
            if not keys:
                self._forget(place)

    def _forget(self, place: _Place) -> None:
        del self._wanted[place]
        self._leave(place)

    def _leave(self, place: _Place) -> None:
        for name in self._ways.pop(place, ()):
            at = self._at.get(name)
            if at is not None:
                at.discard(place)
                if not at:
                    del self._at[name]

    def _find_way(self, place: _Place) -> None:
        self._leave(place)
        real = os.path.realpath(place.root)
        self._ways[place] = tuple(names_on_the_way(real, place.path))
        for name in self._ways[place]:
            self._at.setdefault(name, set()).add(place)

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        for place, keys in self._wanted.items():
            if place.root == root:
                for key in keys:
                    yield Wanted(place.path, key, place.names)

    # -- events ----------------------------------------------------------------------------------

    def drain(self) -> set[Key]:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for path, flags in arrived:
            try:
                self._event(path.rstrip(b"/"), flags)
            except Exception:
                self.reader_errors += 1
                self._rescan(b"")
        touched, self._touched = self._touched, set()
        return touched

    def _event(self, path: bytes, flags: int) -> None:
        self.events += 1
        self._last_event_at = datetime.now(UTC)
        if flags & ROOT_CHANGED:
            self._reopen(path)
        if flags & DROPPED:
            self.overflows += 1
        if flags & _RESCAN:
            self._rescan(path)
            return
        came_or_went = bool(flags & _CAME_OR_WENT)
        for place in tuple(self._at.get(path, ())):
            self._touch(place)
        if came_or_went:
            for place in tuple(self._at.get(path.rpartition(b"/")[0], ())):
                if place.names:
                    self._touch(place)
        if flags & IS_DIRECTORY:
            self._touch_beneath(path)

    def _touch(self, place: _Place) -> None:
        self._touched |= self._wanted[place]
        self._find_way(place)

    def _touch_beneath(self, path: bytes) -> None:
        below = path + b"/"
        for name in [name for name in self._at if name.startswith(below)]:
            for place in tuple(self._at.get(name, ())):
                self._touch(place)

    def _rescan(self, path: bytes) -> None:
        """Events were lost somewhere at or beneath `path`; b"" or "/": anywhere."""
        self.rescans += 1
        for place in tuple(self._at.get(path, ())):
            self._touch(place)
        self._touch_beneath(path)

    def _reopen(self, path: bytes) -> None:
        """A stream follows its directory, not the path: a root that moved needs another one."""
        for root in [root for root in self._streams if os.path.realpath(root) == path]:
            stream = self._streams[root]
            if stream is not None:
                stream.stop()
            self._streams[root] = self._opened(root)

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched

    def _from_thread(self, events: Sequence[Event]) -> None:
        with self._lock:
            self._arrived.extend(events)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        if touched := self.drain():
            try:
                self._deliver(touched)
            except Exception:
                self.reader_errors += 1
                self._touched |= touched
                raise  # to the loop's exception handler

    def retry_unwatched(self) -> None:
        for root, stream in self._streams.items():
            if stream is None:
                self._streams[root] = self._opened(root)
                if self._streams[root] is not None:
                    self._rescan(os.path.realpath(root))

    def unwatched_keys(self) -> set[Key]:
        return set().union(*self._wanted.values())

    def health(self, root: bytes | None = None) -> WatchHealth:
        streams = {at: it for at, it in self._streams.items() if root in (None, at)}
        return WatchHealth(
            self.backend,
            sum(stream is not None for stream in streams.values()),
            tuple((at, _NO_STREAM) for at, stream in sorted(streams.items()) if stream is None),
            overflows=self.overflows,
            rescans=self.rescans,
            events=self.events,
            reader_errors=self.reader_errors,
            last_event_at=self._last_event_at,
        )

    def close(self) -> None:
        for stream in self._streams.values():
            if stream is not None:
                stream.stop()


def _open_native_stream(root: bytes, arrived: Arrived) -> Stream:
    """watchdog's emitter thread and its stream, without its interpretation of the events, which
    leaves out the flags for dropped ones."""
    # The extension behind these exists on macOS only.
    from watchdog.observers.api import EventQueue, ObservedWatch  # noqa: PLC0415
    from watchdog.observers.fsevents import FSEventsEmitter  # noqa: PLC0415

    class Emitter(FSEventsEmitter):  # type: ignore[misc, unused-ignore]
        def events_callback(
            self, paths: list[Any], inodes: list[int], flags: list[int], ids: list[int]
        ) -> None:
            arrived([(os.fsencode(path), flag) for path, flag in zip(paths, flags, strict=True)])

    watch = ObservedWatch(os.fsdecode(root), recursive=True)
    emitter = Emitter(EventQueue(), watch)
    emitter.start()
    return emitter
