"""One inotify descriptor for everything, armed along the trie of wanted paths.

Only directories on the way to a wanted path are watched, so cost follows what is wanted. A name
that leaves disarms its subtree; a name that arrives is armed top-down, then reported. The kernel
queues an event inside the writer's own system call, so draining the descriptor before an answer
gives read-your-writes on local filesystems.

Guarantees: a wanted path whose directory is armed is never changed unreported; overflow, unmount
and a lost root report everything beneath; nothing ends the reader. Not reported, and left to the
owner's own stat: stores through a shared memory map until the file is closed, and a mount put over
a watched directory.
"""

import asyncio
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from watchdog.observers.inotify_c import (
    InotifyConstants as Bits,
)
from watchdog.observers.inotify_c import (
    WatchDescriptor,
    inotify_add_watch,
    inotify_rm_watch,
)

from amend.edge.watch.interest import Interest, Node, Wish
from amend.edge.watch.interface import Key, Touched, WatchHealth
from amend.edge.watch.links import names_on_the_way

_CONTENT: Final = Bits.IN_MODIFY | Bits.IN_ATTRIB | Bits.IN_CLOSE_WRITE
_SELF: Final = Bits.IN_DELETE_SELF | Bits.IN_MOVE_SELF
_GONE: Final = Bits.IN_DELETE | Bits.IN_MOVED_FROM
_CAME: Final = Bits.IN_CREATE | Bits.IN_MOVED_TO

# One mask for all, never opens or reads: two masks on one inode would replace each other, and
# amend's own reading would wake it for ever.
_DIRECTORY: Final = (
    _CONTENT | _SELF | _GONE | _CAME | Bits.IN_ONLYDIR | Bits.IN_DONT_FOLLOW | Bits.IN_EXCL_UNLINK
)
_FILE: Final = _CONTENT | _SELF | Bits.IN_DONT_FOLLOW

_HEADER: Final = struct.Struct("iIII")

# About 2,000 events: the loop gets its turn between two reads, and one costs it some 2 ms.
READ_BYTES: Final = 64 << 10

# The user's limit is shared with editors and build tools; amend takes at most a quarter.
WATCHES_SHARE: Final = 4
WATCHES_WITHOUT_LIMIT: Final = 100_000


def watches_max_here() -> int:
    try:
        with open("/proc/sys/fs/inotify/max_user_watches") as file:
            return int(file.read()) // WATCHES_SHARE
    except (OSError, ValueError):
        return WATCHES_WITHOUT_LIMIT


def open_inotify() -> int:
    """A descriptor that neither blocks nor is inherited. `OSError` EMFILE: no instance left."""
    init = ctypes.CDLL(None, use_errno=True).inotify_init1
    fd = init(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)


class Inotify:
    backend = "inotify"

    def __init__(
        self,
        *,
        watches_max: int | None = None,
        add_watch: Callable[[int, bytes, int], int] = inotify_add_watch,
    ) -> None:
        """`add_watch` is the kernel's call; tests put refusals in its place."""
        self._fd = open_inotify()
        self._add_watch = add_watch
        self._watches_max = watches_max if watches_max is not None else watches_max_here()
        self._interest = Interest()
        self._by_wd: dict[int, set[Node | Wish]] = {}
        self._unwatched: dict[Node | Wish, int] = {}
        self._touched: set[Key] = set()
        self._to_check: dict[Wish, None] = {}
        self._links_suspected = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Touched = lambda keys: None
        self.overflows = 0
        self.rescans = 0
        self.events = 0
        self.reader_errors = 0
        self._last_event_at: datetime | None = None

    # -- the interface ---------------------------------------------------------------------------

    def add_root(self, root: bytes) -> None:
        if root not in self._interest.roots:
            self._arm(self._interest.add_root(root))

    def drop_root(self, root: bytes) -> None:
        node = self._interest.roots.get(root)
        if node is None:
            return
        for wish in list(node.wishes()):
            self._unfollow(wish)
            self._disarm(wish)
        for gone in self._interest.drop_root(root):
            self._disarm(gone)

    def want(self, root: bytes, path: bytes, key: Key) -> None:
        self._want(root, path, key, names=False)

    def want_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._want(root, path, key, names=True)

    def unwant(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant(self._interest.find(root, path, names=False), key)

    def unwant_names(self, root: bytes, path: bytes, key: Key) -> None:
        self._unwant(self._interest.find(root, path, names=True), key)

    def drain(self) -> set[Key]:
        while (buffer := self._read()) is not None:
            self._events(buffer)
        touched, self._touched = self._touched, set()
        return touched

    def start(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        self._loop, self._deliver = loop, touched
        loop.add_reader(self._fd, self._readable)

    def retry_unwatched(self) -> None:
        for held in list(self._unwatched):
            if isinstance(held, Node):
                self._arm(held)
                if held.wd is not None:
                    self._touch_all(held)
            else:
                self._check(held)
        self._settle()

    def health(self, root: bytes | None = None) -> WatchHealth:
        below = root + b"/" if root is not None else b""
        paths = ((held.path, number) for held, number in self._unwatched.items())
        return WatchHealth(
            self.backend,
            len(self._by_wd),
            tuple(
                (path, number)
                for path, number in sorted(paths)
                if root is None or path == root or path.startswith(below)
            ),
            self.overflows,
            self.rescans,
            self.events,
            self.reader_errors,
            self._last_event_at,
        )

    def unwatched_keys(self) -> set[Key]:
        """Keys whose changes may go unreported."""
        keys: set[Key] = set()
        for held in self._unwatched:
            for wish in held.wishes() if isinstance(held, Node) else (held,):
                keys |= _owners(wish)
        return keys

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    # -- wishes ----------------------------------------------------------------------------------

    def _want(self, root: bytes, path: bytes, key: Key, *, names: bool) -> Wish:
        wish, new = self._interest.wish(root, path, names=names)
        first = not wish.keys
        wish.keys.add(key)
        if new is not None and new.parent is not None and new.parent.wd is not None:
            self._arm(new)  # its parent is armed, so nothing slips in between
        if first:
            self._check(wish)
            self._settle()
        return wish

    def _unwant(self, wish: Wish | None, key: Key) -> None:
        if wish is None:
            return
        wish.keys.discard(key)
        if wish.keys:
            return
        self._unfollow(wish)
        self._disarm(wish)
        self._to_check.pop(wish, None)
        for gone in self._interest.forget(wish):
            self._disarm(gone)

    def _unfollow(self, wish: Wish) -> None:
        follows, wish.follows = wish.follows, ()
        for other in follows:
            self._unwant(other, wish)

    def _check(self, wish: Wish) -> None:
        """See whether the path is a link, lies behind one, or has several hard links."""
        self._unwatched.pop(wish, None)
        try:
            found = os.lstat(wish.path)
        except OSError:
            found = None
        # An armed directory was opened without following links, and so were those above it.
        straight = wish.node.wd is not None
        if straight and (found is None or not stat.S_ISLNK(found.st_mode)):
            self._unfollow(wish)
        elif found is not None or not straight:
            self._follow(wish)
        if wish.names or found is None or not straight:
            self._disarm(wish)
        elif stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            if wish.wd is None:
                self._links_suspected = True  # another wanted name may lead to the same file
            self._watch_file(wish)
        else:
            self._disarm(wish)

    def _follow(self, wish: Wish) -> None:
        root = self._root_of(wish.node)
        path = wish.path
        names = names_on_the_way(root, path[len(root) + 1 :])
        if len(names) == 1:
            self._unfollow(wish)
            return
        follows = []
        for name in names:
            beneath = self._interest.root_of(name)
            last = name is names[-1]
            if beneath is None or (name == beneath and not (last and wish.names)):
                self._unwatched[wish] = errno.EXDEV
                continue
            inner = name[len(beneath) + 1 :]
            other, _ = self._interest.wish(beneath, inner, names=wish.names and last)
            if other is not wish and other not in follows:
                follows.append(other)
        old, wish.follows = wish.follows, tuple(follows)
        for other in follows:
            if wish in other.keys:
                continue
            other.keys.add(wish)
            self._arm_up(other.node)
            if other.wd is None and not other.follows:
                self._to_check[other] = None
        for other in old:
            if other not in follows:
                self._unwant(other, wish)

    def _root_of(self, node: Node) -> bytes:
        """The root whose trie the node is in: a nested root has its own."""
        while node.parent is not None and node.parent.parent is not None:
            node = node.parent
        return node.path

    def _watch_file(self, wish: Wish) -> None:
        wd = self._kernel_watch(wish, wish.path, _FILE)
        if wd is None:
            return
        if wish.wd is not None and wish.wd != wd:
            self._disarm(wish)
        if wish.wd is None:
            wish.wd = wd
            self._by_wd.setdefault(wd, set()).add(wish)
            self._touch(wish)  # written through another name before this watch stood

    def _touch(self, wish: Wish, seen: frozenset[Wish] = frozenset()) -> None:
        if wish in seen:
            return
        for key in wish.keys:
            if isinstance(key, Wish):
                self._to_check[key] = None
                self._touch(key, seen | {wish})
            else:
                self._touched.add(key)

    def _touch_all(self, node: Node) -> None:
        for wish in node.wishes():
            self._to_check[wish] = None
            self._touch(wish)

    def _settle(self) -> None:
        """Check what was touched until nothing is left; each at most thrice, so loops end."""
        checked: dict[Wish, int] = {}
        while self._to_check or self._links_suspected:
            while self._to_check:
                wish, _ = self._to_check.popitem()
                checked[wish] = checked.get(wish, 0) + 1
                if wish.keys and checked[wish] <= 3:
                    self._check(wish)
            if self._links_suspected:
                self._links_suspected = False
                self._look_for_links()

    def _look_for_links(self) -> None:
        """A hard link was made in a watched directory; to whichever wanted file."""
        for top in self._interest.tops.values():
            for wish in list(top.wishes()):
                if wish.names or wish.wd is not None or wish.node.wd is None:
                    continue
                try:
                    found = os.lstat(wish.path)
                except OSError:
                    continue
                if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                    self._watch_file(wish)

    # -- the kernel side -------------------------------------------------------------------------

    def _kernel_watch(self, held: Node | Wish, path: bytes, mask: int) -> int | None:
        if len(self._by_wd) >= self._watches_max and (held.wd is None):
            self._unwatched[held] = errno.ENOSPC
            return None
        wd = self._add_watch(self._fd, path, mask)
        if wd >= 0:
            self._unwatched.pop(held, None)
            return wd
        number = ctypes.get_errno()
        if number not in (errno.ENOENT, errno.ENOTDIR):
            self._unwatched[held] = number
        return None

    def _arm(self, start: Node) -> None:
        """Attach `start` and every node below that exists, parents first."""
        stack = [start]
        while stack:
            node = stack.pop()
            wd = self._kernel_watch(node, node.path or b"/", _DIRECTORY)
            if wd is None:
                number = self._unwatched.get(node)
                for below in node.subtree():
                    self._disarm(below)
                    for wish in below.files.values():
                        self._to_check[wish] = None
                    if below.names is not None:
                        self._to_check[below.names] = None
                if number is not None:
                    self._unwatched[node] = number
                continue
            if node.wd is not None and node.wd != wd:
                self._disarm(node)
            node.wd = wd
            self._by_wd.setdefault(wd, set()).add(node)
            stack.extend(node.kids.values())

    def _arm_up(self, node: Node) -> None:
        """Arm a node that was made below ones that may not be armed themselves."""
        topmost = node
        while topmost.wd is None and topmost.parent is not None:
            if topmost.parent.wd is not None:
                break
            topmost = topmost.parent
        if topmost.wd is None:
            self._arm(topmost)

    def _disarm(self, held: Node | Wish) -> None:
        wd, held.wd = held.wd, None
        self._unwatched.pop(held, None)
        if wd is None:
            return
        holders = self._by_wd.get(wd)
        if holders is not None:
            holders.discard(held)
            if not holders:
                del self._by_wd[wd]
                inotify_rm_watch(self._fd, WatchDescriptor(wd))

    def _disarm_subtree(self, top: Node) -> None:
        for node in top.subtree():
            self._disarm(node)
            for wish in node.files.values():
                self._disarm(wish)

    # -- events ----------------------------------------------------------------------------------

    def _read(self) -> bytes | None:
        while True:
            try:
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return None
            except InterruptedError:
                continue

    def _readable(self) -> None:
        """One read for each turn of the loop; it is called again while events are left."""
        buffer = self._read()
        if buffer is not None:
            self._events(buffer)
        if self._touched:
            touched, self._touched = self._touched, set()
            self._deliver(touched)

    def _events(self, buffer: bytes) -> None:
        self._last_event_at = datetime.now(UTC)
        at, end = 0, len(buffer)
        try:
            while at < end:
                wd, mask, _, length = _HEADER.unpack_from(buffer, at)
                at += _HEADER.size
                name = buffer[at : at + length].rstrip(b"\0") if length else b""
                at += length
                self.events += 1
                self._event(wd, mask, name)
            self._settle()
        except Exception:  # a bug here must cost a rescan, never the reader
            self.reader_errors += 1
            self._resync()

    def _event(self, wd: int, mask: int, name: bytes) -> None:
        if mask & Bits.IN_Q_OVERFLOW:
            self.overflows += 1
            self._resync()
            return
        holders = self._by_wd.get(wd)
        if holders is None:
            return  # of a watch that is no longer held
        if mask & (Bits.IN_IGNORED | Bits.IN_UNMOUNT | _SELF) and not name:
            self._lost(wd, mask, holders)
            return
        for held in list(holders):
            if isinstance(held, Wish):
                self._touch(held)
            elif name:
                self._name_changed(held, mask, name)

    def _name_changed(self, node: Node, mask: int, name: bytes) -> None:
        wish = node.files.get(name)
        if wish is not None:
            self._touch(wish)
            if mask & (_GONE | _CAME | Bits.IN_ATTRIB):
                self._to_check[wish] = None
        if mask & (_GONE | _CAME):
            if node.names is not None:
                self._touch(node.names)
            if mask & Bits.IN_CREATE and not mask & Bits.IN_ISDIR and wish is None:
                self._suspect_link(node, name)
        child = node.kids.get(name)
        if child is None:
            return
        if mask & _GONE:
            self._disarm_subtree(child)
            self._touch_all(child)
        if mask & _CAME or (mask & Bits.IN_ATTRIB and child.wd is None):
            self._arm(child)  # arm, then report: what happened before is seen by who looks
            self._touch_all(child)

    def _suspect_link(self, node: Node, name: bytes) -> None:
        if self._links_suspected:
            return
        try:
            found = os.lstat(node.path + b"/" + name)
        except OSError:
            return
        self._links_suspected = stat.S_ISREG(found.st_mode) and found.st_nlink > 1

    def _lost(self, wd: int, mask: int, holders: set[Node | Wish]) -> None:
        """A watched thing itself went away, or was unmounted, or moved."""
        ignored = bool(mask & Bits.IN_IGNORED)
        if ignored:
            self._by_wd.pop(wd, None)  # the kernel has dropped it already
        for held in list(holders):
            if ignored:
                held.wd = None
            if isinstance(held, Wish):
                self._touch(held)
                self._to_check[held] = None
            elif held.parent is None or mask & Bits.IN_UNMOUNT:
                self.rescans += 1
                self._disarm_subtree(held)
                self._arm(held)
                if held.wd is None:
                    self._unwatched[held] = errno.ENOENT
                self._touch_all(held)
            elif ignored and held.parent.wd is not None:
                self._arm(held)  # deleted and made again before this was read
                self._touch_all(held)

    def _resync(self) -> None:
        """Events were lost: arm everything again and report everything."""
        self.rescans += 1
        for top in self._interest.tops.values():
            self._arm(top)
            self._touch_all(top)
        self._settle()


def _owners(wish: Wish, seen: frozenset[Wish] = frozenset()) -> set[Key]:
    keys: set[Key] = set()
    for key in wish.keys:
        if not isinstance(key, Wish):
            keys.add(key)
        elif key not in seen:
            keys |= _owners(key, seen | {wish})
    return keys
