"""macOS: one FSEvents stream for each root, through watchdog's binding.

A stream reports paths, late and sometimes in bulk: a flag that says events were dropped or that a
directory must be scanned touches everything wanted beneath it. Silence proves nothing here, so the
owner's stat stays the authority. Tested through a fake stream; not yet run on a Mac.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from amend.edge.watch.interface import Key, Touched, WatchHealth

# kFSEventStreamEventFlag…: MustScanSubDirs, UserDropped, KernelDropped, EventIdsWrapped,
# RootChanged, Mount, Unmount. Source: FSEvents.h.
_RESCAN_FLAGS: Final = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80
_IS_DIRECTORY: Final = 0x00020000

Event = tuple[bytes, int]
"""A path and its flags."""


class Stream(Protocol):
    def stop(self) -> None: ...


OpenStream = Callable[[bytes, Callable[[Sequence[Event]], None]], Stream]
"""Opens a stream for a root; it calls back from a thread of its own."""


class FsEvents:
    backend = "fsevents"

    def __init__(self, *, open_stream: OpenStream | None = None) -> None:
        self._open_stream = open_stream if open_stream is not None else _NativeStream
        self._streams: dict[bytes, Stream] = {}
        self._wanted: dict[bytes, set[Key]] = {}
        self._names: dict[bytes, set[Key]] = {}
        self._arrived: list[Event] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None
        self.events = 0
        self.overflows = 0
        self._last_event_at: datetime | None = None

    def add_root(self, root: bytes) -> None:
        if root not in self._streams:
            self._streams[root] = self._open_stream(root, self._from_thread)

    def drop_root(self, root: bytes) -> None:
        stream = self._streams.pop(root, None)
        if stream is not None:
            stream.stop()
        below = root + b"/"
        for wanted in (self._wanted, self._names):
            for path in [path for path in wanted if path == root or path.startswith(below)]:
                del wanted[path]

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._wanted.setdefault(_joined(root, path), set()).add(key)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        _discard(self._wanted, _joined(root, path), key)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._names.setdefault(_joined(root, path), set()).add(key)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        _discard(self._names, _joined(root, path), key)

    def drain(self) -> set[Key]:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        touched: set[Key] = set()
        for path, flags in arrived:
            touched |= self._touched_by(path.rstrip(b"/"), flags)
        return touched

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched

    def _from_thread(self, events: Sequence[Event]) -> None:
        with self._lock:
            self._arrived.extend(events)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        touched = self.drain()
        if touched:
            self._deliver(touched)

    def _touched_by(self, path: bytes, flags: int) -> set[Key]:
        self.events += 1
        self._last_event_at = datetime.now(UTC)
        touched = set(self._wanted.get(path, ()))
        touched |= self._names.get(path, set())
        touched |= self._names.get(path.rpartition(b"/")[0], set())
        if flags & _RESCAN_FLAGS:
            self.overflows += 1
        if flags & (_RESCAN_FLAGS | _IS_DIRECTORY):
            below = path + b"/"
            for wanted in (self._wanted, self._names):
                for there, keys in wanted.items():
                    if there.startswith(below):
                        touched |= keys
        return touched

    def retry_unwatched(self) -> None:
        pass

    def health(self, root: bytes | None = None) -> WatchHealth:
        return WatchHealth(
            self.backend,
            len(self._streams),
            overflows=self.overflows,
            rescans=self.overflows,
            events=self.events,
            last_event_at=self._last_event_at,
        )

    def close(self) -> None:
        for stream in self._streams.values():
            stream.stop()


def _joined(root: bytes, path: bytes) -> bytes:
    return root + b"/" + path if path else root


def _discard(wanted: dict[bytes, set[Key]], path: bytes, key: Key) -> None:
    keys = wanted.get(path)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del wanted[path]


class _NativeStream:
    """watchdog's C extension, which exists on macOS only."""

    def __init__(self, root: bytes, arrived: Callable[[Sequence[Event]], None]) -> None:
        import _watchdog_fsevents  # type: ignore[import-not-found]  # noqa: PLC0415

        self._native: Any = _watchdog_fsevents

        def called(paths: Any, _inodes: Any, flags: Any, _ids: Any) -> None:
            arrived(
                [
                    (path.encode("utf-8", "surrogateescape"), int(flag))
                    for path, flag in zip(paths, flags, strict=True)
                ]
            )

        self._native.add_watch(self, self, called, [root.decode("utf-8", "surrogateescape")])
        self._thread = threading.Thread(
            target=self._native.read_events, args=(self,), name="fsevents", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._native.remove_watch(self)
        self._native.stop(self)
