"""What is wanted, kept armed: plain paths, paths behind links, files with several names.

Terms. A node is *armed* when the kernel watches its directory; its wishes are then reported by
name. A wish is *straight* when no symbolic link is on its way; else its *steps* are wishes for each
link's own name and for the name where the way ends, and it is their *passer*.

Guarantees between two calls: an unarmed node either has an armed ancestor that will report the name
on its way, or it or an ancestor is among the unwatched with the reason; what `touched` holds was
armed before it was put there, so whoever looks then sees all that happened before.
"""

import errno
import os
import stat
from collections.abc import Iterator
from typing import Final

from amend.edge.watch import kernel
from amend.edge.watch.arming import Arming
from amend.edge.watch.interest import Interest, Node, Wish
from amend.edge.watch.interface import Key
from amend.edge.watch.links import LINKS_MAX, names_on_the_way

# A way that changes while it is being armed is looked at again so often, then reported and left to
# the next drain: somebody may be retargeting links in a loop.
_LOOKS_MAX: Final = 4


class Wishes:
    def __init__(self, armed: Arming) -> None:
        self.interest = Interest()
        self.touched: set[Key] = set()
        self.links_suspected = False  # some wanted file may have got another name
        self._armed = armed
        self._to_check: dict[Wish, None] = {}

    @property
    def is_unsettled(self) -> bool:
        return bool(self._to_check) or self.links_suspected

    def want(self, root: bytes, path: bytes, key: Key, *, names: bool) -> None:
        wish, new = self.interest.wish(root, path, names=names)
        first = not wish.keys
        wish.add_key(key)
        self._arm_new(new)
        if first:
            self._to_check[wish] = None
            self.settle()

    def unwant(self, root: bytes, path: bytes, key: Key, *, names: bool) -> None:
        wish = self.interest.find(root, path, names=names)
        if wish is not None:
            wish.discard_key(key)
            self._release(wish)

    def add_root(self, root: bytes) -> None:
        self.arm_top(self.interest.add_root(root))
        self.recheck_refused()  # what a link led out to may lie beneath this root
        self.settle()

    def drop_root(self, root: bytes) -> None:
        dropped = self.interest.wishes_of(root)
        outside = {passer for wish in dropped for passer in wish.passers}.difference(dropped)
        for wish in dropped:
            wish.keys = ()
            self._set_steps(wish, ())
            self._armed.let_go(wish)
            wish.passers = ()
            self._to_check.pop(wish, None)
        for node in self.interest.drop_root(root):
            self._armed.let_go(node)
            if node.is_top:
                self._armed.drop_rungs(node)
        gone = set(dropped)
        for passer in outside:
            passer.steps = tuple(step for step in passer.steps if step not in gone)
            self._to_check[passer] = None
        self.settle()

    def unwatched(self) -> Iterator[Wish]:
        for held in self._armed.unwatched:
            yield from held.wishes() if isinstance(held, Node) else (held,)

    def recheck_refused(self) -> None:
        refused = (held for held in self._armed.unwatched if isinstance(held, Wish))
        self._to_check.update((wish, None) for wish in refused)

    # -- what the kernel told --------------------------------------------------------------------

    def touch(self, wish: Wish, *, moved: bool) -> None:
        """Report it. `moved`: what is at its path may be another thing now."""
        self.touched.update(wish.keys)
        if moved:
            self._to_check[wish] = None
        for passer in wish.passers:
            self.touched.update(passer.keys)
            if moved:
                self._to_check[passer] = None

    def touch_all(self, node: Node) -> None:
        for wish in node.wishes():
            self.touch(wish, moved=True)

    def came(self, node: Node) -> None:
        """What is at the node's path may be new: arm it and what is below, then report that."""
        self.arm(node)
        self.links_suspected = True  # names in it were made before it was watched
        self.touch_all(node)

    def appeared(self, node: Node, name: bytes) -> None:
        """An unwanted name: perhaps another one of a wanted file."""
        if not self.links_suspected:
            found = _lstat(node.path + b"/" + name)
            self.links_suspected = (
                found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1
            )

    def settle(self) -> None:
        """Check what was touched until nothing is left."""
        looks: dict[Wish, int] = {}
        later: dict[Wish, None] = {}
        while self._to_check:
            wish, _ = self._to_check.popitem()
            looks[wish] = looks.get(wish, 0) + 1
            if looks[wish] > _LOOKS_MAX:
                later[wish] = None
            elif not wish.is_idle:
                self._check(wish)
        self._to_check = later

    def settle_links(self) -> None:
        """As `settle`, and look whether a wanted file has got another name. Which one, only looking
        at all can tell: 1.5 µs for each, so this is for when the queue is empty."""
        self.settle()
        while self.links_suspected:
            self.links_suspected = False
            for top in self.interest.tops.values():
                for wish in list(top.wishes()):
                    if wish.wd is None and not wish.names and wish.node.wd is not None:
                        self._watch_file(wish, _lstat(wish.path))
            self.settle()

    # -- arming ----------------------------------------------------------------------------------

    def arm(self, node: Node) -> None:
        self._to_check.update((wish, None) for wish in self._armed.arm(node))

    def _arm_new(self, node: Node | None) -> None:
        """A node below an armed one is armed at once; else its parent's arrival arms it."""
        if node is not None and node.parent is not None and node.parent.wd is not None:
            self.arm(node)

    def arm_top(self, top: Node) -> None:
        self._armed.lay_rungs(top)
        self.arm(top)
        if top.wd is None:
            # Nothing reports the coming of a root's parent: it is tried again on a timer.
            self._armed.unwatched.setdefault(top, errno.ENOENT)

    # -- one wish --------------------------------------------------------------------------------

    def _release(self, wish: Wish) -> None:
        """Give up what nobody needs it for any more."""
        if wish.keys:
            return
        self._set_steps(wish, ())
        if wish.passers:
            return
        self._armed.let_go(wish)
        self._to_check.pop(wish, None)
        for node in self.interest.forget(wish):
            self._armed.let_go(node)

    def _check(self, wish: Wish) -> None:
        """Bring the watches in line with what the wish's path is now: a link, a file with several
        names, or plain."""
        self._armed.unwatched.pop(wish, None)
        armed = wish.node.wd is not None
        found = _lstat(wish.path) if armed else None
        self._watch_file(wish, found)
        if not wish.keys:
            return  # only a step: where it leads is its passers' business
        # An armed directory was opened without following links, and so were those above it.
        if armed and (found is None or not stat.S_ISLNK(found.st_mode)):
            self._set_steps(wish, ())
        else:
            self._follow(wish)

    def _watch_file(self, wish: Wish, found: os.stat_result | None) -> None:
        """Watch a regular file itself when it can be written through another name."""
        if found is None or wish.names or not stat.S_ISREG(found.st_mode):
            self._armed.disarm(wish)
            return
        before = wish.wd
        if found.st_nlink < 2 and before is None:
            return
        # A file that once had another name stays watched: that name's descriptors outlive it.
        if not self._armed.watch(wish, wish.path, kernel.FILE) or wish.wd == before:
            return
        if found.st_nlink < 2:
            self._armed.disarm(wish)  # not the file that had one
            return
        self.links_suspected = True
        self.touch(wish, moved=False)  # perhaps written before this watch stood

    def _follow(self, wish: Wish) -> None:
        """Watch every name on the way, until the way stays the same while that is done."""
        for _ in range(_LOOKS_MAX):
            names = self._way(wish)
            if len(names) == 1:
                self._set_steps(wish, ())
                return
            self._take_steps(wish, names)
            if self._way(wish) == names:
                return
        self.touch(wish, moved=True)

    def _way(self, wish: Wish) -> list[bytes]:
        top = wish.node
        while top.parent is not None:
            top = top.parent
        return names_on_the_way(top.path, wish.path[len(top.path) + 1 :])

    def _take_steps(self, wish: Wish, names: list[bytes]) -> None:
        if len(names) > LINKS_MAX:
            self._armed.unwatched[wish] = errno.ELOOP
        steps: dict[Wish, None] = {}
        made: list[Node | None] = []
        for at, name in enumerate(names):
            root = self.interest.root_of(name)
            if root is None:
                self._armed.unwatched[wish] = errno.EXDEV
                continue
            of_names = wish.names and at == len(names) - 1
            step, new = self.interest.wish(root, name[len(root) + 1 :], names=of_names)
            made.append(new)
            if step is not wish:
                steps[step] = None
        for step in steps:
            if step not in wish.steps:
                self._to_check[step] = None
        self._set_steps(wish, tuple(steps))
        for node in made:
            self._arm_new(node)

    def _set_steps(self, wish: Wish, steps: tuple[Wish, ...]) -> None:
        before, wish.steps = wish.steps, steps
        for step in steps:
            step.add_passer(wish)
        for step in before:
            if step not in steps:
                step.discard_passer(wish)
                self._release(step)


def _lstat(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):  # a NUL is in no name
        return None
