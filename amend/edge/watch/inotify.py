"""One inotify descriptor for everything, armed along the trie of wanted paths.

Only directories on the way to a wanted path are watched, so cost follows what is wanted. A name
that leaves disarms its subtree; a name that arrives is armed top-down, and reported after. The
kernel queues an event inside the writer's own system call, so draining the descriptor before an
answer gives read-your-writes on local filesystems.

Overflow, unmount, a root's parent that moves, or a bug here cost a rescan, never the reader:
everything is armed again and every key beneath is reported.

Not reported, and left to the owner's own stat: stores through a shared memory map until the file
is closed; a mount over a watched directory until the next `retry_unwatched`; writes through a hard
link that was made where nothing is watched, or that was made, written through and removed again
between two reads: the kernel tells of that name, not whose it was.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from amend.edge.watch import kernel
from amend.edge.watch.arming import Arming, Held, Rung
from amend.edge.watch.filesystems import Mount, mounts_about, read_mounts
from amend.edge.watch.interest import Node, Wish
from amend.edge.watch.interface import Key, Touched, Wanted, WatchHealth
from amend.edge.watch.wishes import Wishes


class Inotify:
    backend = "inotify"

    def __init__(
        self,
        *,
        watches_max: int | None = None,
        add_watch: kernel.AddWatch | None = None,
        read_mounts: Callable[[], tuple[Mount, ...]] = read_mounts,
    ) -> None:
        """`watches_max` None: a quarter of what the kernel allows this user. `add_watch` stands in
        for the kernel's call, in tests. `OSError`: no inotify instance is left."""
        self._kernel = kernel.Descriptor(add_watch)
        self._armed = Arming(self._kernel, watches_max)
        self._wishes = Wishes(self._armed)
        self._roots = self._wishes.interest.roots
        self._tops = self._wishes.interest.tops
        self._read_mounts = read_mounts
        self._mounts: frozenset[Mount] = frozenset()
        self._resync_due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None
        self.overflows = 0
        self.rescans = 0
        self.events = 0
        self.reader_errors = 0
        self._last_event_at: datetime | None = None

    def add_root(self, root: bytes) -> None:
        if root not in self._roots:
            self._look_at_mounts(root)
            self._wishes.add_root(root)

    def drop_root(self, root: bytes) -> None:
        if root in self._roots:
            self._wishes.drop_root(root)

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._wishes.want(root, path, key, names=False)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._wishes.want(root, path, key, names=True)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        self._wishes.unwant(root, path, key, names=False)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._wishes.unwant(root, path, key, names=True)

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        return self._wishes.interest.wanted(root)

    def drain(self) -> set[Key]:
        # What was queued before the call, and no more: a fast writer could fill it for ever.
        left = self._kernel.queued_bytes()
        while left > 0 and (buffer := self._kernel.read()) is not None:
            left -= len(buffer)
            self._take(buffer)
        wishes = self._wishes
        if self._resync_due or wishes.is_unsettled:
            self._finish()
        touched, wishes.touched = wishes.touched, set()
        return touched

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched
        loop.add_reader(self._kernel.fd, self._readable)

    def retry_unwatched(self) -> None:
        if self._look_at_mounts():
            self._resync()
        for top in list(self._tops.values()):
            before = top.wd
            armed = self._armed.watch(top, top.path or b"/", kernel.DIRECTORY_OR_LINK)
            if top.wd != before:
                self._regain(top)
            elif not armed:
                self._wishes.arm_top(top)
        for held, number in list(self._armed.unwatched.items()):
            if isinstance(held, Node) and not held.is_top:
                self._wishes.arm(held)
                if self._armed.unwatched.get(held) != number:
                    self._wishes.touch_all(held)
        self._wishes.recheck_refused()
        self._finish()
        if self._loop is not None and self._wishes.touched:
            self._loop.call_soon(self._hand_over)

    def unwatched_keys(self) -> set[Key]:
        keys: set[Key] = set()
        for wish in self._wishes.unwatched():
            keys.update(wish.keys)
            for passer in wish.passers:
                keys.update(passer.keys)
        return keys

    def health(self, root: bytes | None = None) -> WatchHealth:
        unwatched = sorted((held.path or b"/", why) for held, why in self._armed.unwatched.items())
        if root is not None:
            near = (root, root.rpartition(b"/")[0] or b"/")
            below = root + b"/"
            unwatched = [item for item in unwatched if item[0] in near or item[0].startswith(below)]
        return WatchHealth(
            self.backend,
            len(self._armed.by_wd),
            tuple(unwatched),
            self.overflows,
            self.rescans,
            self.events,
            self.reader_errors,
            self._last_event_at,
        )

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._kernel.fd)
        self._kernel.close()

    # -- reading ---------------------------------------------------------------------------------

    def _readable(self) -> None:
        """One read for each turn of the loop, which calls again while events are left."""
        buffer = self._kernel.read()
        if buffer is not None:
            self._take(buffer)
            if len(buffer) <= kernel.READ_BYTES - kernel.RECORD_BYTES_MAX:
                self._finish()  # nothing more is queued
        self._hand_over()

    def _hand_over(self) -> None:
        touched, self._wishes.touched = self._wishes.touched, set()
        if not touched:
            return
        try:
            self._deliver(touched)
        except Exception as error:
            self._wishes.touched |= touched  # with the next batch, or to the next who drains
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.reader_errors += 1
        if self._loop is not None:
            self._loop.call_exception_handler(
                {"message": "the watch's reader failed and goes on", "exception": error}
            )

    def _take(self, buffer: bytes) -> None:
        self._last_event_at = datetime.now(UTC)
        try:
            for wd, mask, name in kernel.records(buffer):
                self.events += 1
                self._event(wd, mask, name)
            self._wishes.settle()
        except Exception as error:  # a bug here must cost a rescan, never the reader
            self._resync_due = True
            self._failed(error)

    def _finish(self) -> None:
        """All that may wait until the queue is empty."""
        try:
            if self._resync_due:
                self._resync_due = False
                self._resync()
            self._wishes.settle_links()
        except Exception as error:
            self._resync_due = True
            for top in self._tops.values():
                for wish in top.wishes():
                    self._wishes.touched.update(wish.keys)
            self._failed(error)

    # -- events ----------------------------------------------------------------------------------

    def _event(self, wd: int, mask: int, name: bytes) -> None:
        if mask & kernel.OVERFLOW:
            self.overflows += 1
            self._resync()
            return
        holders = self._armed.by_wd.get(wd)
        if holders is None:
            return  # of a watch that is no longer held
        if name:
            for held in tuple(holders):
                if isinstance(held, Node):
                    self._name_changed(held, mask, name)
        elif mask & (kernel.MOVED_OR_DELETED_SELF | kernel.UNMOUNT | kernel.IGNORED):
            self._lost(wd, mask, holders)
        else:
            for held in tuple(holders):
                if isinstance(held, Wish):
                    self._wishes.touch(held, moved=bool(mask & kernel.ATTRIB))
                elif isinstance(held, Node) and held.is_top and mask & kernel.ATTRIB:
                    self._wishes.touch_all(held)  # who may read it has changed, for all below

    def _name_changed(self, node: Node, mask: int, name: bytes) -> None:
        came_or_went = mask & (kernel.GONE | kernel.CAME)
        wish = node.files.get(name)
        if wish is not None:
            self._wishes.touch(wish, moved=bool(came_or_went or mask & kernel.ATTRIB))
        if came_or_went:
            if node.names is not None:
                self._wishes.touch(node.names, moved=False)
            if mask & kernel.CAME and not mask & kernel.IS_DIRECTORY and wish is None:
                self._wishes.appeared(node, name)
        child = node.kids.get(name)
        if child is None or not (came_or_went or mask & kernel.ATTRIB):
            return
        if mask & kernel.GONE:
            self._armed.disarm_subtree(child)
        if mask & kernel.CAME or (mask & kernel.ATTRIB and child.wd is None):
            self._wishes.came(child)
        else:
            self._wishes.touch_all(child)

    def _lost(self, wd: int, mask: int, holders: set[Held]) -> None:
        """A watched thing itself was moved, deleted or unmounted, or its watch was."""
        held_now = tuple(holders)
        if mask & kernel.IGNORED:
            del self._armed.by_wd[wd]  # the kernel has dropped it already
            for held in held_now:
                held.wd = None
        for held in held_now:
            if isinstance(held, Rung):
                for top in tuple(held.tops):
                    self._regain(top)
            elif isinstance(held, Wish):
                self._wishes.touch(held, moved=True)
            elif held.parent is None:
                self._regain(held)
            elif held.parent.wd is None:
                if held.parent.is_top:  # nobody else reports what becomes of this root
                    self._regain(held.parent)
            elif mask & (kernel.IGNORED | kernel.UNMOUNT):
                # Deleted and made again before this was read, or bare again after an unmount.
                self.rescans += bool(mask & kernel.UNMOUNT)
                self._armed.disarm_subtree(held)
                self._wishes.came(held)

    # -- starting again --------------------------------------------------------------------------

    def _regain(self, top: Node) -> None:
        """The ground under a root's parent has moved: start again from the path."""
        self.rescans += 1
        self._armed.disarm_subtree(top)
        self._wishes.arm_top(top)
        self._wishes.touch_all(top)

    def _resync(self) -> None:
        """Events were lost: arm everything again and report everything."""
        self.rescans += 1
        for top in self._tops.values():
            self._wishes.arm_top(top)
            self._wishes.touch_all(top)
        self._wishes.links_suspected = True

    def _look_at_mounts(self, *more: bytes) -> bool:
        """Whether another thing than before is mounted on the way to a root or beneath one."""
        mounts = mounts_about((*self._roots, *more), self._read_mounts())
        changed = mounts != self._mounts
        self._mounts = mounts
        self._armed.remote = frozenset(mount.path for mount in mounts if mount.is_silent)
        return changed
