"""The wanted paths as a trie: a node for each directory on the way, a wish for each path.

A root hangs from a node for its parent directory, so that the root's own coming and going is an
event like any other. Pure data: knows no kernel, only where a watch descriptor would be noted.
"""

from collections.abc import Iterator

from amend.edge.watch.interface import Key


class Wish:
    """One wanted path and who wants it.

    `keys` hold the owner's keys, and other wishes that lead here through a link. `follows` are the
    wishes that stand in for this one because a link is on its way. `wd` is a watch on the file
    itself, for one with several hard links.
    """

    __slots__ = ("follows", "keys", "name", "names", "node", "wd")

    def __init__(self, node: "Node", name: bytes, names: bool) -> None:
        self.node = node  # the directory the path stands in, or is (names)
        self.name = name
        self.names = names
        self.keys: set[Key] = set()
        self.follows: tuple[Wish, ...] = ()
        self.wd: int | None = None

    @property
    def path(self) -> bytes:
        return self.node.path if self.names else self.node.path + b"/" + self.name


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
        parts = []
        node: Node | None = self
        while node is not None:
            parts.append(node.name)
            node = node.parent
        return b"/".join(reversed(parts))

    def subtree(self) -> Iterator["Node"]:
        """This node and those below, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.kids.values())

    def wishes(self) -> Iterator[Wish]:
        """Every wish at or below this node."""
        for node in self.subtree():
            yield from node.files.values()
            if node.names is not None:
                yield node.names


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
        node = self.roots[root]
        parts = path.split(b"/") if path else []
        new: Node | None = None
        for part in parts if names else parts[:-1]:
            child = node.kids.get(part)
            if child is None:
                child = node.kids[part] = Node(part, node)
                new = new or child
            node = child
        if names:
            if node.names is None:
                node.names = Wish(node, b"", names=True)
            return node.names, new
        leaf = parts[-1]
        wish = node.files.get(leaf)
        if wish is None:
            wish = node.files[leaf] = Wish(node, leaf, names=False)
        return wish, new

    def find(self, root: bytes, path: bytes, *, names: bool) -> Wish | None:
        node = self.roots.get(root)
        parts = path.split(b"/") if path else []
        for part in parts if names else parts[:-1]:
            node = node.kids.get(part) if node is not None else None
        if node is None:
            return None
        return node.names if names else node.files.get(parts[-1])

    def forget(self, wish: Wish) -> list[Node]:
        """Take the wish out; the nodes that lead nowhere any more, deepest first."""
        node = wish.node
        if wish.names:
            node.names = None
        else:
            node.files.pop(wish.name, None)
        return self._prune(node)

    def drop_root(self, root: bytes) -> list[Node]:
        """The nodes that go with it, its parent's too when no other root hangs there."""
        node = self.roots.pop(root, None)
        if node is None:
            return []
        gone = list(node.subtree())
        top = node.parent
        assert top is not None
        top.kids.pop(node.name, None)
        if not top.kids:
            self.tops.pop(top.name, None)
            gone.append(top)
        return gone

    def _prune(self, node: Node) -> list[Node]:
        gone = []
        kept = self.roots.values()
        while node.parent is not None and not (node.files or node.kids or node.names):
            if any(node is root for root in kept):
                break
            node.parent.kids.pop(node.name, None)
            gone.append(node)
            node = node.parent
        return gone
