"""Symbolic links on the way to a wanted path, and second names of wanted files."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import inotify_add_watch

from amend.edge.watch.inotify import Inotify
from amend.edge.watch.interface import Key
from amend.edge.watch.links import LINKS_MAX, names_on_the_way


class Tree:
    """A root under inotify, in a directory that may hold others."""

    def __init__(self, base: Path, **options: Any) -> None:
        self.base = base
        self.path = base / "repo"
        self.path.mkdir()
        self.watch = Inotify(**options)
        self.root = self.add_root("repo")

    def add_root(self, name: str) -> bytes:
        root = os.fsencode(self.base / name)
        os.makedirs(root, exist_ok=True)
        self.watch.add_root(root)
        return root

    def want(self, path: str, key: Key) -> None:
        self.watch.want(self.root, path.encode(), key)

    def write(self, path: str, text: str = "text") -> Path:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def link(self, path: str, target: str) -> None:
        """Make the link, or lead it elsewhere at one stroke."""
        new = self.path / "new-link"
        new.symlink_to(target)
        new.rename(self.path / path)

    def touched(self) -> set[Key]:
        return self.watch.drain()

    def unwatched(self) -> dict[str, str]:
        return {
            os.path.relpath(os.fsdecode(path), self.path): errno.errorcode[number]
            for path, number in self.watch.health(self.root).unwatched
        }


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    it = Tree(tmp_path.resolve())
    yield it
    it.watch.close()


# -- symbolic links --------------------------------------------------------------------------------


def test_a_wanted_link_is_touched_through_its_target_and_by_its_own_name(tree: Tree) -> None:
    tree.write("real", "text")
    tree.link("link", "real")
    tree.want("link", "link")
    tree.touched()

    tree.write("real", "edited")
    edited = tree.touched()
    (tree.path / "link").unlink()
    removed = tree.touched()
    tree.write("real", "edited again")

    assert edited == {"link"}
    assert removed == {"link"}
    assert tree.touched() == set()


def test_every_link_of_a_chain_is_watched(tree: Tree) -> None:
    tree.write("v1/f")
    tree.write("v2/f")
    tree.link("c", "v1")
    tree.link("b", "c")
    tree.link("a", "b")
    tree.want("a/f", "f")
    tree.touched()

    tree.write("v1/f", "edited")
    edited = tree.touched()
    tree.link("c", "v2")
    middle = tree.touched()
    tree.write("v2/f", "edited")
    end = tree.touched()
    tree.link("a", "v1")
    first = tree.touched()

    assert edited == middle == end == first == {"f"}


def test_a_target_that_is_left_behind_falls_silent_and_gives_its_watches_back(tree: Tree) -> None:
    tree.write("v1/deep/f")
    tree.write("v2/f")
    tree.link("current", "v1/deep")
    tree.want("current/f", "f")
    tree.touched()

    tree.link("current", "v2")
    tree.touched()
    armed = tree.watch.health().armed
    tree.write("v1/deep/f", "edited where it is not wanted")
    silent = tree.touched()
    tree.link("current", "v1/deep")
    tree.touched()

    assert silent == set()
    assert tree.watch.health().armed == armed + 1


def test_a_dangling_link_is_touched_when_its_target_comes(tree: Tree) -> None:
    tree.link("link", "not/there/yet")
    tree.want("link", "link")
    tree.touched()

    tree.write("not/there/yet")
    came = tree.touched()
    tree.write("not/there/yet", "edited")

    assert came == {"link"}
    assert tree.touched() == {"link"}


def test_a_directory_that_is_replaced_by_a_link_is_followed(tree: Tree) -> None:
    # facebook/watchman, test_fishy: mv foo bar; ln -s bar foo
    tree.write("foo/f")
    tree.want("foo/f", "f")
    tree.touched()

    (tree.path / "foo").rename(tree.path / "bar")
    (tree.path / "foo").symlink_to("bar")
    replaced = tree.touched()
    tree.write("bar/f", "edited")

    assert replaced == {"f"}
    assert tree.touched() == {"f"}


def test_a_link_that_is_replaced_by_a_directory_is_no_longer_followed(tree: Tree) -> None:
    tree.write("bar/f")
    tree.link("foo", "bar")
    tree.want("foo/f", "f")
    tree.touched()

    (tree.path / "foo").unlink()
    tree.write("foo/f", "own")
    replaced = tree.touched()
    tree.write("bar/f", "edited where it is not wanted")
    silent = tree.touched()
    tree.write("foo/f", "edited")

    assert replaced == {"f"}
    assert silent == set()
    assert tree.touched() == {"f"}


def test_the_names_in_a_directory_behind_a_link_are_watched(tree: Tree) -> None:
    tree.write("v1/f")
    tree.link("current", "v1")
    tree.watch.want_names(tree.root, b"current", "names")
    tree.touched()

    tree.write("v1/f", "an edit changes no name")
    edited = tree.touched()
    tree.write("v1/g")
    came = tree.touched()
    tree.link("current", "v1")

    assert edited == set()
    assert came == {"names"}
    assert tree.touched() == {"names"}


def test_a_link_that_is_led_elsewhere_before_its_directory_is_armed_is_followed(
    tmp_path: Path,
) -> None:
    targets = ["../v2"]

    def add_watch(fd: int, path: bytes, mask: int) -> int:
        if path.endswith(b"/deep") and targets:
            it.link("deep/link", targets.pop())
        return inotify_add_watch(fd, path, mask)

    it = Tree(tmp_path.resolve(), add_watch=add_watch)
    for path in ("v1/f", "v2/f", "deep/other"):
        it.write(path)
    it.link("deep/link", "../v1")
    it.link("current", "deep/link")
    it.touched()
    it.want("current/f", "f")

    it.write("v2/f", "edited")
    touched = it.touched()
    it.watch.close()

    assert targets == []
    assert touched == {"f"}


def test_a_link_that_is_led_elsewhere_without_end_holds_up_no_drain(tmp_path: Path) -> None:
    turns = iter(range(1000))

    def add_watch(fd: int, path: bytes, mask: int) -> int:
        if path.rpartition(b"/v")[2].isdigit():
            it.link("current", f"v{next(turns)}")
        return inotify_add_watch(fd, path, mask)

    it = Tree(tmp_path.resolve(), add_watch=add_watch)
    for number in range(100):
        it.write(f"v{number}/f")
    it.link("current", "v99")
    it.want("current/f", "f")

    first, second = it.touched(), it.touched()
    it.watch.close()

    assert first == second == {"f"}


def test_links_may_lead_up_and_be_absolute(tree: Tree) -> None:
    tree.write("shared/f")
    (tree.path / "a").mkdir()
    tree.link("a/up", "../shared")
    tree.link("absolute", str(tree.path / "a/up"))
    tree.want("absolute/f", "f")
    tree.touched()

    tree.write("shared/f", "edited")

    assert tree.touched() == {"f"}
    assert tree.unwatched() == {}


def test_a_link_into_another_root_is_followed(tree: Tree) -> None:
    tree.add_root("sibling")
    (tree.base / "sibling/f").write_text("text")
    tree.link("link", "../sibling/f")
    tree.want("link", "link")
    tree.touched()

    (tree.base / "sibling/f").write_text("edited")

    assert tree.touched() == {"link"}


def test_a_link_out_of_all_roots_is_listed_as_unwatched_with_its_keys(tree: Tree) -> None:
    (tree.base / "outside").write_text("text")
    tree.link("link", "../outside")
    tree.want("link", "out")
    tree.want("plain", "in")
    tree.touched()

    (tree.base / "outside").write_text("edited where amend does not look")

    assert tree.touched() == set()
    assert tree.unwatched() == {"link": "EXDEV"}
    assert tree.watch.unwatched_keys() == {"out"}


def test_a_link_that_comes_back_inside_is_no_longer_unwatched(tree: Tree) -> None:
    tree.write("inside")
    tree.link("link", "../outside")
    tree.want("link", "link")

    tree.link("link", "inside")
    retargeted = tree.touched()
    tree.write("inside", "edited")

    assert retargeted == {"link"}
    assert tree.unwatched() == {}
    assert tree.touched() == {"link"}


def test_a_root_that_is_added_later_makes_a_link_into_it_watched(tree: Tree) -> None:
    (tree.base / "sibling").mkdir()
    tree.link("link", "../sibling/f")
    tree.want("link", "link")
    before = tree.unwatched()

    tree.add_root("sibling")
    (tree.base / "sibling/f").write_text("text")

    assert before == {"link": "EXDEV"}
    assert tree.touched() == {"link"}
    assert tree.unwatched() == {}


def test_a_root_that_is_dropped_makes_a_link_into_it_unwatched(tree: Tree) -> None:
    sibling = tree.add_root("sibling")
    tree.link("link", "../sibling/f")
    tree.want("link", "link")
    tree.touched()

    tree.watch.drop_root(sibling)
    (tree.base / "sibling/f").write_text("text")

    assert tree.touched() == set()
    assert tree.unwatched() == {"link": "EXDEV"}


def test_links_in_a_circle_are_listed_and_seen_when_they_open(tree: Tree) -> None:
    tree.link("a", "b")
    tree.link("b", "a")
    tree.write("real")
    tree.want("a", "a")
    closed = tree.unwatched()

    tree.link("b", "real")
    opened = tree.touched()
    tree.write("real", "edited")

    assert closed == {"a": "ELOOP"}
    assert opened == {"a"}
    assert tree.touched() == {"a"}
    assert tree.unwatched() == {}


def test_a_root_that_is_itself_a_link_is_followed_into_another_root(tmp_path: Path) -> None:
    tree = Tree(tmp_path.resolve())
    (tree.base / "alias").symlink_to("repo")
    alias = os.fsencode(tree.base / "alias")
    tree.watch.add_root(alias)
    tree.watch.want(alias, b"f", "f")
    tree.touched()

    tree.write("f")
    touched = tree.touched()
    tree.watch.close()

    assert touched == {"f"}


def test_giving_up_a_path_behind_links_gives_all_its_watches_back(tree: Tree) -> None:
    tree.write("x/y/f")
    tree.write("z/keep")
    tree.link("z/link", "../x/y")
    before = tree.watch.health().armed
    tree.want("z/link/f", "f")

    tree.watch.unwant(tree.root, b"z/link/f", "f")

    assert tree.watch.health().armed == before


def test_one_target_can_be_a_step_of_many_and_wanted_itself(tree: Tree) -> None:
    f = tree.write("real/f")
    for number in range(20):
        tree.link(f"l{number}", "real")
        tree.want(f"l{number}/f", number)
    tree.want("real/f", "itself")
    tree.touched()

    f.write_text("edited")
    all_of_them = tree.touched()
    for number in range(19):
        tree.watch.unwant(tree.root, b"l%d/f" % number, number)
    tree.watch.unwant(tree.root, b"real/f", "itself")
    f.write_text("edited again")

    assert all_of_them == {"itself", *range(20)}
    assert tree.touched() == {19}


def test_a_way_without_links_is_its_own_end(tmp_path: Path) -> None:
    base = os.fsencode(tmp_path.resolve())

    assert names_on_the_way(base, b"a/b") == [base + b"/a/b"]


def test_a_way_ends_where_nothing_is_there(tmp_path: Path) -> None:
    base = os.fsencode(tmp_path.resolve())
    (tmp_path / "link").symlink_to("gone/./x/../y")

    assert names_on_the_way(base, b"link/f") == [base + b"/link", base + b"/gone/x"]


def test_a_way_of_more_links_than_the_kernel_follows_has_no_end(tmp_path: Path) -> None:
    base = os.fsencode(tmp_path.resolve())
    (tmp_path / "l0").write_text("end")
    for number in range(LINKS_MAX + 1):
        (tmp_path / f"l{number + 1}").symlink_to(f"l{number}")

    followed = names_on_the_way(base, b"l%d" % LINKS_MAX)
    refused = names_on_the_way(base, b"l%d" % (LINKS_MAX + 1))

    assert (tmp_path / f"l{LINKS_MAX}").read_text() == "end"
    assert followed[-1] == base + b"/l0"
    assert base + b"/l0" not in refused
    assert len(refused) == LINKS_MAX + 1


# -- hard links ------------------------------------------------------------------------------------


def test_a_write_through_another_name_is_seen(tree: Tree) -> None:
    f = tree.write("src/a")
    (tree.base / "outside").hardlink_to(f)
    tree.want("src/a", "a")
    tree.touched()

    (tree.base / "outside").write_text("edited")

    assert tree.touched() == {"a"}


def test_a_second_name_made_later_in_a_watched_directory_is_noticed(tree: Tree) -> None:
    f = tree.write("src/a")
    tree.write("lib/b")
    tree.want("src/a", "a")
    tree.want("lib/b", "b")
    tree.touched()

    (tree.path / "lib/other").hardlink_to(f)
    tree.touched()
    (tree.path / "lib/other").write_text("edited")

    assert tree.touched() == {"a"}


def test_a_write_between_the_link_and_its_noticing_is_reported(tree: Tree) -> None:
    f = tree.write("src/a")
    tree.want("src/a", "a")
    tree.touched()

    (tree.path / "src/other").hardlink_to(f)
    (tree.path / "src/other").write_text("edited before the watch stood")

    assert tree.touched() == {"a"}


def test_a_second_name_in_a_directory_that_comes_with_it_is_noticed(tree: Tree) -> None:
    f = tree.write("src/a")
    tree.want("src/a", "a")
    tree.want("new/wanted", "new")
    tree.touched()

    (tree.path / "new").mkdir()
    (tree.path / "new/other").hardlink_to(f)
    tree.touched()
    (tree.path / "new/other").write_text("edited")

    assert tree.touched() == {"a"}


def test_two_wanted_names_of_one_file_touch_both(tree: Tree) -> None:
    f = tree.write("a")
    (tree.path / "b").hardlink_to(f)
    tree.want("a", "a")
    tree.want("b", "b")
    tree.touched()

    f.write_text("edited")

    assert tree.touched() == {"a", "b"}


def test_a_wanted_name_that_is_linked_before_it_is_wanted_touches_the_older_one(
    tree: Tree,
) -> None:
    f = tree.write("a")
    tree.want("a", "a")
    tree.touched()
    (tree.path / "unwatched").mkdir()
    (tree.path / "unwatched/b").hardlink_to(f)

    tree.want("unwatched/b", "b")
    tree.touched()
    (tree.path / "unwatched/b").write_text("edited")

    assert tree.touched() == {"a", "b"}


def test_a_descriptor_opened_through_a_name_that_is_gone_is_still_noticed(tree: Tree) -> None:
    f = tree.write("a")
    other = tree.path / "other"
    other.hardlink_to(f)
    tree.want("a", "a")
    tree.touched()
    fd = os.open(other, os.O_WRONLY)
    other.unlink()
    tree.touched()

    os.write(fd, b"edited")
    touched = tree.touched()
    os.close(fd)

    assert touched == {"a"}


def test_a_file_that_is_unlinked_and_linked_again_is_seen_through_an_old_descriptor(
    tree: Tree,
) -> None:
    f = tree.write("a")
    tree.want("a", "a")
    fd = os.open(f, os.O_WRONLY)
    aside = tree.path / "aside"
    aside.hardlink_to(f)
    f.unlink()
    aside.rename(f)
    tree.touched()

    os.write(fd, b"edited")
    touched = tree.touched()
    os.close(fd)

    assert touched == {"a"}


def test_the_watch_on_a_file_ends_when_another_file_takes_its_name(tree: Tree) -> None:
    f = tree.write("a")
    (tree.base / "outside").hardlink_to(f)
    before = tree.watch.health().armed
    tree.want("a", "a")
    with_file = tree.watch.health().armed
    tree.touched()

    new = tree.write("new")
    new.rename(f)
    replaced = tree.touched()
    (tree.base / "outside").write_text("edited where it is not wanted")

    assert with_file == before + 1
    assert replaced == {"a"}
    assert tree.touched() == set()
    assert tree.watch.health().armed == before


def test_a_target_behind_a_link_with_several_names_is_watched_itself(tree: Tree) -> None:
    f = tree.write("real")
    (tree.base / "outside").hardlink_to(f)
    tree.link("link", "real")
    tree.touched()
    tree.want("link", "link")

    (tree.base / "outside").write_text("edited")

    assert tree.touched() == {"link"}
