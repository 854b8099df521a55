"""The trie of wanted paths: what it holds, and what it gives back when something is forgotten."""

from amend.edge.watch.interest import Interest
from amend.edge.watch.interface import Wanted

ROOT = b"/src/shop"


def interest(*roots: bytes) -> Interest:
    it = Interest()
    for root in roots or (ROOT,):
        it.add_root(root)
    return it


def test_a_root_hangs_from_its_parent() -> None:
    it = interest()

    node = it.roots[ROOT]

    assert node.path == ROOT
    assert node.parent is not None
    assert node.parent.path == b"/src"
    assert node.parent.is_top


def test_sibling_roots_share_their_parent() -> None:
    it = interest(b"/src/a", b"/src/b")

    assert list(it.tops) == [b"/src"]
    assert it.roots[b"/src/a"].parent is it.roots[b"/src/b"].parent


def test_a_root_directly_below_the_file_systems_root_has_it_as_parent() -> None:
    it = interest(b"/repo")

    assert it.tops[b""].path == b""
    assert it.roots[b"/repo"].path == b"/repo"


def test_wanting_a_path_makes_a_node_for_each_directory_on_its_way() -> None:
    it = interest()

    wish, new = it.wish(ROOT, b"a/b/f", names=False)

    assert wish.path == b"/src/shop/a/b/f"
    assert wish.node.path == b"/src/shop/a/b"
    assert new is not None
    assert new.path == b"/src/shop/a"


def test_a_second_path_below_the_same_directories_makes_no_node() -> None:
    it = interest()
    it.wish(ROOT, b"a/b/f", names=False)

    wish, new = it.wish(ROOT, b"a/b/g", names=False)

    assert new is None
    assert wish.path == b"/src/shop/a/b/g"


def test_the_names_in_a_directory_are_wanted_at_its_own_node() -> None:
    it = interest()

    wish, _ = it.wish(ROOT, b"a", names=True)

    assert wish.path == b"/src/shop/a"
    assert it.find(ROOT, b"a", names=True) is wish
    assert it.find(ROOT, b"a", names=False) is None


def test_the_root_itself_can_be_wanted_both_ways() -> None:
    it = interest()

    names, _ = it.wish(ROOT, b"", names=True)
    itself, _ = it.wish(ROOT, b"", names=False)

    assert names.path == ROOT
    assert itself.path == ROOT
    assert itself.node is it.tops[b"/src"]


def test_forgetting_the_last_wish_gives_back_its_nodes_deepest_first() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"a/b/f", names=False)
    a = it.roots[ROOT].kids[b"a"]
    b = a.kids[b"b"]

    gone = it.forget(wish)

    assert gone == [b, a]
    assert not it.roots[ROOT].kids


def test_forgetting_keeps_the_directories_that_others_need() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"a/b/f", names=False)
    other, _ = it.wish(ROOT, b"a/g", names=False)

    gone = it.forget(wish)

    assert [node.name for node in gone] == [b"b"]
    assert it.find(ROOT, b"a/g", names=False) is other


def test_forgetting_keeps_the_directory_whose_names_are_wanted() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"a/f", names=False)
    names, _ = it.wish(ROOT, b"a", names=True)

    gone = it.forget(wish)

    assert gone == []
    assert it.find(ROOT, b"a", names=True) is names


def test_forgetting_the_last_wish_keeps_the_root() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"f", names=False)

    gone = it.forget(wish)

    assert gone == []
    assert ROOT in it.roots


def test_forgetting_a_wish_twice_leaves_its_successor_alone() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"a/f", names=False)
    it.forget(wish)
    successor, _ = it.wish(ROOT, b"a/f", names=False)

    it.forget(wish)

    assert it.find(ROOT, b"a/f", names=False) is successor


def test_dropping_the_last_root_of_a_parent_gives_the_parent_back_too() -> None:
    it = interest(b"/src/a", b"/src/b")
    it.wish(b"/src/a", b"x/f", names=False)
    it.wish(b"/src/a", b"", names=False)
    top = it.tops[b"/src"]

    first = it.drop_root(b"/src/a")
    second = it.drop_root(b"/src/b")

    assert {node.name for node in first} == {b"a", b"x"}
    assert top not in first
    assert top in second
    assert not it.tops
    assert not top.files


def test_the_deepest_root_above_a_path_is_its_root() -> None:
    it = interest(b"/src", b"/src/shop")

    assert it.root_of(b"/src/shop/a/f") == b"/src/shop"
    assert it.root_of(b"/src/shop") == b"/src/shop"
    assert it.root_of(b"/src/shopping") == b"/src"
    assert it.root_of(b"/elsewhere/f") is None


def test_wanted_lists_every_key_of_every_path_once() -> None:
    it = interest()
    it.wish(ROOT, b"a/f", names=False)[0].add_key("one")
    it.wish(ROOT, b"a/f", names=False)[0].add_key("two")
    it.wish(ROOT, b"a", names=True)[0].add_key("one")
    it.wish(ROOT, b"", names=False)[0].add_key("three")

    wanted = sorted(it.wanted(ROOT))

    assert wanted == [
        Wanted(b"", "three", False),
        Wanted(b"a", "one", True),
        Wanted(b"a/f", "one", False),
        Wanted(b"a/f", "two", False),
    ]


def test_a_path_can_have_very_many_keys() -> None:
    it = interest()
    wish, _ = it.wish(ROOT, b"README", names=False)

    for number in range(100):
        wish.add_key(number)
        wish.add_key(number)
    for number in range(99):
        wish.discard_key(number)
    wish.discard_key("never added")

    assert list(wish.keys) == [99]


def test_subtree_lists_parents_before_their_children() -> None:
    it = interest()
    for path in (b"a/b/f", b"a/c/f", b"d/f"):
        it.wish(ROOT, path, names=False)

    nodes = list(it.roots[ROOT].subtree())

    assert len(nodes) == 5
    assert all(node.parent in nodes[:at] for at, node in enumerate(nodes) if at)
