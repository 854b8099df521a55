"""The watch the daemon uses: each root on the backend that its filesystem needs.

A root moves to another backend, with all that is wanted beneath it, when what is mounted there has
changed, or when inotify has an instance for amend again. Everything it wants is reported then.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator

from amend.edge.watch.filesystems import Backend, backend_for
from amend.edge.watch.fsevents import FsEvents
from amend.edge.watch.interface import Key, Touched, Wanted, Watch, WatchHealth
from amend.edge.watch.polling import INTERVAL_S, Polling


class Watcher:
    def __init__(
        self,
        *,
        watches_max: int | None = None,
        poll_interval_s: float = INTERVAL_S,
        backend_for: Callable[[bytes], Backend] = backend_for,
    ) -> None:
        """`watches_max` None: a quarter of what the kernel allows this user."""
        self._watches_max = watches_max
        self._poll_interval_s = poll_interval_s
        self._backend_for = backend_for
        self._backends: dict[tuple[Backend, int], Watch] = {}
        self._roots: dict[bytes, Watch] = {}
        self._touched: set[Key] = set()
        self._started: tuple[asyncio.AbstractEventLoop, Touched] | None = None

    def add_root(self, root: bytes) -> None:
        if root not in self._roots:
            watch = self._roots[root] = self._backend(self._backend_for(root))
            watch.add_root(root)

    def _backend(self, wanted: Backend, why: int = errno.EREMOTE) -> Watch:
        """`why` a root is polled: its filesystem is silent, or inotify refused (EMFILE)."""
        watch = self._backends.get((wanted, why))
        if watch is None:
            try:
                watch = self._open(wanted, why)
            except OSError as error:
                # No inotify instance is left for this user: slower marks, the same answers.
                return self._backend(Backend.POLLING, error.errno or errno.EMFILE)
            self._backends[wanted, why] = watch
            if self._started is not None:
                watch.start(*self._started)
        return watch

    def _open(self, wanted: Backend, why: int) -> Watch:
        if wanted is Backend.INOTIFY:
            # Its bindings can be imported on Linux only.
            from amend.edge.watch.inotify import Inotify  # noqa: PLC0415

            return Inotify(watches_max=self._watches_max)
        if wanted is Backend.FSEVENTS:
            return FsEvents()
        return Polling(interval_s=self._poll_interval_s, why=why)

    def drop_root(self, root: bytes) -> None:
        watch = self._roots.pop(root, None)
        if watch is not None:
            watch.drop_root(root)

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._roots[root].want(root, path, key)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        if root in self._roots:
            self._roots[root].unwant(root, path, key)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._roots[root].want_names(root, path, key)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        if root in self._roots:
            self._roots[root].unwant_names(root, path, key)

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        return self._roots[root].wanted(root) if root in self._roots else iter(())

    def drain(self) -> set[Key]:
        touched, self._touched = self._touched, set()
        for watch in self._backends.values():
            touched |= watch.drain()
        return touched

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._started = (loop, touched)
        for watch in self._backends.values():
            watch.start(loop, touched)

    def retry_unwatched(self) -> None:
        for root in list(self._roots):
            self._move_if_needed(root)
        for watch in self._backends.values():
            watch.retry_unwatched()
        if self._started is not None and self._touched:
            loop, deliver = self._started
            loop.call_soon(self._hand_over, deliver)

    def _move_if_needed(self, root: bytes) -> None:
        before = self._roots[root]
        after = self._backend(self._backend_for(root))
        if after is before:
            return
        wanted = list(before.wanted(root))
        before.drop_root(root)
        self._roots[root] = after
        after.add_root(root)
        for path, key, names in wanted:
            if names:
                after.want_names(root, path, key)
            else:
                after.want(root, path, key)
            self._touched.add(key)

    def _hand_over(self, deliver: Touched) -> None:
        touched, self._touched = self._touched, set()
        if touched:
            deliver(touched)

    def unwatched_keys(self) -> set[Key]:
        return set().union(*(watch.unwatched_keys() for watch in self._backends.values()))

    def health(self, root: bytes | None = None) -> WatchHealth:
        """One root's backend with that root's unwatched paths, or all of them added up."""
        if root is not None:
            watch = self._roots.get(root)
            return watch.health(root) if watch is not None else WatchHealth("none", 0)
        each = [watch.health() for watch in self._backends.values()]
        seen = [health.last_event_at for health in each if health.last_event_at is not None]
        return WatchHealth(
            "+".join(dict.fromkeys(health.backend for health in each)) or "none",
            sum(health.armed for health in each),
            tuple(item for health in each for item in health.unwatched),
            sum(health.overflows for health in each),
            sum(health.rescans for health in each),
            sum(health.events for health in each),
            sum(health.reader_errors for health in each),
            max(seen, default=None),
        )

    def close(self) -> None:
        for watch in self._backends.values():
            watch.close()
