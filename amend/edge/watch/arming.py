"""Which kernel watch stands for which node, file or rung, and what could not be watched.

A *rung* is a directory above a root's parent, watched for its own fate alone: when one moves, every
path below means something else.

One directory may be held by several nodes (nested roots, mounts of one place at two); it has one
kernel watch as long as anyone holds it. `unwatched` gives the errno for each node and file that the
kernel refused, or that it would never report on.
"""

import errno
from typing import Final

from amend.edge.watch import kernel
from amend.edge.watch.interest import Node, Wish

# Nothing is there, or something that is no directory: its coming will be reported.
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Rung:
    __slots__ = ("path", "tops", "wd")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.tops: set[Node] = set()  # the roots' parents below
        self.wd: int | None = None


Held = Node | Wish | Rung


class Arming:
    def __init__(self, descriptor: kernel.Descriptor, watches_max: int | None) -> None:
        self._kernel = descriptor
        self._watches_max = watches_max if watches_max is not None else kernel.watches_max_here()
        self._rungs: dict[bytes, Rung] = {}
        self.remote: frozenset[bytes] = frozenset()  # mount points of silent filesystems
        self.by_wd: dict[int, set[Held]] = {}
        self.unwatched: dict[Node | Wish, int] = {}

    def watch(self, held: Node | Wish, path: bytes, mask: int) -> bool:
        """Whether the kernel watches `path` for `held` now."""
        number = self._try(held, path, mask)
        self.unwatched.pop(held, None)
        if number == 0:
            return True
        self.disarm(held)
        if number not in _ABSENT:
            self.unwatched[held] = number
        return False

    def _try(self, held: Held, path: bytes, mask: int) -> int:
        """The errno, 0 for success."""
        if path in self.remote:
            return errno.EREMOTE
        if held.wd is None and len(self.by_wd) >= self._watches_max:
            return errno.ENOSPC
        wd = self._kernel.add(path, mask)
        if wd < 0:
            return -wd
        if held.wd != wd:
            self.disarm(held)
            held.wd = wd
            self.by_wd.setdefault(wd, set()).add(held)
        return 0

    def arm(self, start: Node) -> list[Wish]:
        """Attach `start` and every node below that exists, parents first. The wishes in those that
        could not be reached."""
        unreached: list[Wish] = []
        stack = [start]
        while stack:
            node = stack.pop()
            mask = kernel.DIRECTORY_OR_LINK if node.is_top else kernel.DIRECTORY
            armed = self.watch(node, node.path or b"/", mask)
            # A root is worth watching even where its parent may not be read.
            if armed or (node.is_top and node in self.unwatched):
                stack.extend(node.kids.values())
                continue
            for below in node.subtree():
                if below is not node:
                    self.let_go(below)
                unreached.extend(below.own_wishes())
        return unreached

    def disarm(self, held: Held) -> None:
        wd, held.wd = held.wd, None
        if wd is None:
            return
        holders = self.by_wd.get(wd)
        if holders is not None:
            holders.discard(held)
            if not holders:
                del self.by_wd[wd]
                self._kernel.remove(wd)

    def let_go(self, held: Node | Wish) -> None:
        self.disarm(held)
        self.unwatched.pop(held, None)

    def disarm_subtree(self, top: Node) -> None:
        for node in top.subtree():
            self.let_go(node)
            for wish in node.files.values():
                self.disarm(wish)

    def lay_rungs(self, top: Node) -> None:
        """A help against rare moves, no ground of any key: where refused, it is left out."""
        path = top.path.rpartition(b"/")[0]
        while path:
            rung = self._rungs.get(path)
            if rung is None:
                rung = self._rungs[path] = Rung(path)
            rung.tops.add(top)
            if self._try(rung, path, kernel.OWN_FATE) != 0:
                self.disarm(rung)
            path = path.rpartition(b"/")[0]

    def drop_rungs(self, top: Node) -> None:
        for rung in list(self._rungs.values()):
            rung.tops.discard(top)
            if not rung.tops:
                self.disarm(rung)
                del self._rungs[rung.path]
