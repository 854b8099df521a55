"""The wanted paths as a trie: a node for each directory on the way, a wish for each path.

A root hangs from a node for its parent directory, so that the root's own coming and going is an
event like any other. Every root has its own trie below that; a nested root's nodes and those of
the root around it may stand for the same directory. Pure data: knows no kernel, only where a watch
descriptor would be noted.
"""

from collections.abc import Collection, Iterator
from typing import Final, TypeVar

from amend.edge.watch.interface import Key, Wanted

# A tuple of one key takes 48 bytes, a set 216. Nearly every path has one key; from here on the
# set's constant-time look-up is worth its memory.
_TUPLE_MAX: Final = 8

_T = TypeVar("_T")


class Wish:
    """One wanted path and who wants it.

    `keys` are the owner's. `steps` are the wishes whose names lead to what this path means, when a
    link is on the way; `passers` are the wishes that this one is a step of. `wd` is the kernel's
    watch on the file itself, for one that has or had several hard links.
    """

    __slots__ = ("keys", "name", "names", "node", "passers", "steps", "wd")

    def __init__(self, node: "Node", name: bytes, names: bool) -> None:
        self.node = node  # the directory the path stands in, or is (names)
        self.name = name
        self.names = names
        self.keys: Collection[Key] = ()
        self.steps: tuple[Wish, ...] = ()
        self.passers: Collection[Wish] = ()
        self.wd: int | None = None

    @property
    def path(self) -> bytes:
        return self.node.path if self.names else self.node.path + b"/" + self.name

    @property
    def is_idle(self) -> bool:
        return not self.keys and not self.passers

    def add_key(self, key: Key) -> None:
        self.keys = _with(self.keys, key)

    def discard_key(self, key: Key) -> None:
        self.keys = _without(self.keys, key)

    def add_passer(self, wish: "Wish") -> None:
        self.passers = _with(self.passers, wish)

    def discard_passer(self, wish: "Wish") -> None:
        self.passers = _without(self.passers, wish)


class Node:
    """A directory on the way to a wish. `wd`: the kernel's watch on it, None when it has none."""

    __slots__ = ("files", "kids", "name", "names", "parent", "wd")

    def __init__(self, name: bytes, parent: "Node | None") -> None:
        self.name = name
        self.parent = parent
        self.kids: dict[bytes, Node] = {}
        self.files: dict[bytes, Wish] = {}
        self.names: Wish | None = None
        self.wd: int | None = None

    @property
    def path(self) -> bytes:
        """Absolute; b"" for the file system's own root."""
        parts = []
        node: Node | None = self
        while node is not None:
            parts.append(node.name)
            node = node.parent
        return b"/".join(reversed(parts))

    @property
    def is_top(self) -> bool:
        """The parent of roots; its name is its whole path."""
        return self.parent is None

    def subtree(self) -> Iterator["Node"]:
        """This node and those below, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.kids.values())

    def own_wishes(self) -> Iterator[Wish]:
        yield from self.files.values()
        if self.names is not None:
            yield self.names

    def wishes(self) -> Iterator[Wish]:
        """Every wish at or below this node."""
        for node in self.subtree():
            yield from node.own_wishes()


class Interest:
    def __init__(self) -> None:
        self.roots: dict[bytes, Node] = {}
        self.tops: dict[bytes, Node] = {}  # parent directory → its node

    def add_root(self, root: bytes) -> Node:
        """The node of the root's parent."""
        parent, _, name = root.rpartition(b"/")
        top = self.tops.get(parent)
        if top is None:
            top = self.tops[parent] = Node(parent, None)
        if root not in self.roots:
            self.roots[root] = top.kids[name] = Node(name, top)
        return top

    def root_of(self, path: bytes) -> bytes | None:
        """The deepest root that `path` is or is beneath."""
        while path:
            if path in self.roots:
                return path
            path = path.rpartition(b"/")[0]
        return None

    def wish(self, root: bytes, path: bytes, *, names: bool) -> tuple[Wish, Node | None]:
        """The wish for a path, made when it is not there, and the topmost node made for it."""
        way, leaf = _way(self.roots[root], path, names=names)
        node, new = way[0], None
        for part in way[1]:
            child = node.kids.get(part)
            if child is None:
                child = node.kids[part] = Node(part, node)
                new = new or child
            node = child
        if names:
            if node.names is None:
                node.names = Wish(node, b"", names=True)
            return node.names, new
        wish = node.files.get(leaf)
        if wish is None:
            wish = node.files[leaf] = Wish(node, leaf, names=False)
        return wish, new

    def find(self, root: bytes, path: bytes, *, names: bool) -> Wish | None:
        if root not in self.roots:
            return None
        way, leaf = _way(self.roots[root], path, names=names)
        node: Node | None = way[0]
        for part in way[1]:
            node = node.kids.get(part) if node is not None else None
        if node is None:
            return None
        return node.names if names else node.files.get(leaf)

    def wanted(self, root: bytes) -> Iterator[Wanted]:
        for wish in self.wishes_of(root):
            path = wish.path[len(root) + 1 :]
            for key in wish.keys:
                yield Wanted(path, key, wish.names)

    def wishes_of(self, root: bytes) -> list[Wish]:
        """Those beneath the root, and the one for the root itself."""
        node = self.roots[root]
        assert node.parent is not None
        own = node.parent.files.get(node.name)
        return [*node.wishes(), *([own] if own is not None else [])]

    def forget(self, wish: Wish) -> list[Node]:
        """Take the wish out; the nodes that lead nowhere any more, deepest first."""
        node = wish.node
        if wish.names:
            if node.names is wish:
                node.names = None
        elif node.files.get(wish.name) is wish:
            del node.files[wish.name]
        return self._prune(node)

    def drop_root(self, root: bytes) -> list[Node]:
        """The nodes that go with it, its parent's too when no other root hangs there."""
        node = self.roots.pop(root)
        gone = list(node.subtree())
        top = node.parent
        assert top is not None
        del top.kids[node.name]
        top.files.pop(node.name, None)
        if not top.kids:
            del self.tops[top.name]
            gone.append(top)
        return gone

    def _prune(self, node: Node) -> list[Node]:
        gone = []
        # A root and its parent stay until the root is dropped.
        while node.parent is not None and not node.parent.is_top:
            if node.files or node.kids or node.names:
                break
            if node.parent.kids.get(node.name) is node:
                del node.parent.kids[node.name]
                gone.append(node)
            node = node.parent
        return gone


def _way(root: Node, path: bytes, *, names: bool) -> tuple[tuple[Node, list[bytes]], bytes]:
    """Where to start, the directories to pass, and the name that is wanted in the last one."""
    if not path:
        if names:
            return (root, []), b""
        assert root.parent is not None
        return (root.parent, []), root.name  # the root itself is a name in its parent
    parts = path.split(b"/")
    if names:
        return (root, parts), b""
    return (root, parts[:-1]), parts[-1]


def _with(things: Collection[_T], thing: _T) -> Collection[_T]:
    if thing in things:
        return things
    if isinstance(things, set):
        things.add(thing)
        return things
    more = (*things, thing)
    return more if len(more) <= _TUPLE_MAX else set(more)


def _without(things: Collection[_T], thing: _T) -> Collection[_T]:
    if isinstance(things, set):
        things.discard(thing)
        return things
    return tuple(other for other in things if other != thing)
