"""What amend asks of a watch, whichever way it learns of changes.

A watch is a hint that makes marks early; it is never the proof. It may report too much, and what it
cannot watch it names, so that the owner looks for itself.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

Key = Hashable
"""Opaque: what the owner wants to be told back."""

Touched = Callable[[set[Key]], None]


class Wanted(NamedTuple):
    """One `want` or (`names`) `want_names` in force beneath a root."""

    path: bytes
    key: Key
    names: bool


@dataclass(frozen=True, slots=True)
class WatchHealth:
    """`armed`: kernel watches, streams or polled paths. `unwatched`: (absolute path, errno) each.

    `rescans` counts the times when everything beneath a root was reported because events were
    lost, for whatever reason; `overflows` those where the kernel said so.
    """

    backend: str
    armed: int
    unwatched: tuple[tuple[bytes, int], ...] = ()
    overflows: int = 0
    rescans: int = 0
    events: int = 0
    reader_errors: int = 0
    last_event_at: datetime | None = None


class Watch(Protocol):
    """Paths are bytes: `root` absolute without a trailing slash, `path` relative to it, without
    empty, `.` or `..` components; b"" is the root itself.

    A key may be wanted at many paths, and a path by many keys.
    """

    def add_root(self, root: bytes) -> None:
        """Watch beneath `root` from now on; also its own coming and going. Idempotent."""
        ...

    def drop_root(self, root: bytes) -> None:
        """Forget the root and everything wanted through it."""
        ...

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        """From its return on, `key` is touched by any change of what `path` leads to: content,
        mode, coming and going, a replaced ancestor, a link on the way. Nothing need be there."""
        ...

    def unwant(self, root: bytes, path: bytes, key: Key) -> None: ...

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        """`key` is touched by a name coming or going in this directory, and by the directory's own
        coming and going; not by edits of the files in it."""
        ...

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None: ...

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        """Everything wanted through `root`, so that another watch can take it over."""
        ...

    def drain(self) -> set[Key]:
        """The keys touched by everything the kernel has queued until now, and those seen before
        but not delivered yet. With inotify that is every write that returned before the call."""
        ...

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        """Deliver touched keys to `touched` on the loop from now on, once for each batch."""
        ...

    def retry_unwatched(self) -> None:
        """Try again what could not be watched, and notice what was mounted; for a timer."""
        ...

    def unwatched_keys(self) -> set[Key]:
        """Keys whose changes may go unreported: their silence says nothing."""
        ...

    def health(self, root: bytes | None = None) -> WatchHealth:
        """Of the whole watch, or with `unwatched` limited to one root's."""
        ...

    def close(self) -> None: ...
