"""A memory tree under random changes, in a real repository: by a person, by git, with amend away.

Three state machines do the same things. One has the tree in its own process, without a watch; one
with inotify, on a loop whose clock skips every wait; one has the real daemon, which is stopped by
signal while a burst of changes is made, or left running. `memory_tree_oracle` says what must hold.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from amend.edge.files.look import RACY_NS
from amend.errors import Refused
from benchmarks.running import Daemon
from tests.scenario.memory_tree_oracle import Oracle
from tests.scenario.memory_tree_story import (
    DIRECTORIES,
    NAMES,
    ODD_NAMES,
    TITLES,
    Amend,
    ByDaemon,
    Change,
    InProcess,
    Person,
    new_repository,
)

# Renames are what it is all about.
VERBS = (*Person(Path()).verbs, *("rename a note", "move a note", "describe") * 2)

picks = st.integers(0, 63)
changes = st.builds(
    Change,
    verb=st.sampled_from(VERBS),
    pick=picks,
    other=picks,
    name=st.sampled_from(NAMES) | st.sampled_from(NAMES + ODD_NAMES),
    directory=st.sampled_from(DIRECTORIES),
    title=st.sampled_from(TITLES),
)
bursts = st.lists(changes, min_size=1, max_size=5)


class TreeMachine(RuleBasedStateMachine):
    is_watched: ClassVar[bool] = False

    @initialize(is_exact=st.booleans())
    def begin(self, is_exact: bool) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="am-tree-"))
        self.root = self.base / "repo"
        new_repository(self.root)
        self.person = Person(self.root)
        self.oracle = Oracle()
        self.person.begin()
        self.amend = self.new_amend(is_exact)
        self.settle(at_once=False)

    def new_amend(self, is_exact: bool) -> Amend:
        return InProcess(self.base, self.root, is_watched=self.is_watched)

    def teardown(self) -> None:
        if hasattr(self, "amend"):
            self.amend.close()
            shutil.rmtree(self.base, ignore_errors=True)

    @rule(burst=bursts, at_once=st.booleans())
    def change(self, burst: list[Change], at_once: bool) -> None:
        for change in burst:
            self.person.make(change)
        self.settle(at_once=at_once)

    @rule(burst=bursts)
    def change_while_amend_is_away(self, burst: list[Change]) -> None:
        self.amend.stop()
        for change in burst:
            self.person.make(change)
        self.amend.start()
        self.settle(at_once=False, was_away=True)

    @rule(theirs=bursts, mine=bursts)
    def merge(self, theirs: list[Change], mine: list[Change]) -> None:
        """While a merge is to be resolved, amend leaves all indexes to the person."""
        self.person.switch()
        for change in theirs:
            self.person.make(change)
        self.person.switch()
        for change in mine:
            self.person.make(change)
        if self.person.begin_merge():
            left = self.person.look()
            self.amend.rest()
            with pytest.raises(Refused, match="in the middle of a merge"):
                self.amend.sync()
            assert self.person.look() == left
            self.person.abort_merge()
        self.settle(at_once=False)

    def settle(self, *, at_once: bool, was_away: bool = False) -> None:
        left = self.person.look()
        self.amend.settle(at_once=at_once)
        now = self.person.look()
        if self.amend.is_exact:
            self.oracle.check(left, now, was_away=was_away)
        else:
            self.oracle.check_loosely(left, now)
        before = self.stats()
        assert self.amend.sync() == []
        assert self.stats() == before
        assert self.amend.problems() == []
        self.amend.pause()

    def stats(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for where, _, names in os.walk(self.person.tree):
            for name in names:
                stat = os.stat(os.path.join(where, name))
                found[os.path.join(where, name)] = stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns
        return found


class WatchedMachine(TreeMachine):
    is_watched = True


_started: list[Daemon] = []


class DaemonMachine(TreeMachine):
    def new_amend(self, is_exact: bool) -> Amend:
        """One daemon for all examples: each brings a repository of its own."""
        if not _started:
            _started.append(Daemon())
            _started[0].start()
        return ByDaemon(_started[0], self.root, is_exact=is_exact)


@pytest.fixture(scope="module", autouse=True)
def _end_daemon() -> Iterator[None]:
    yield
    while _started:
        _started.pop().close()


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=12, stateful_step_count=6)

TestWatchedTree = WatchedMachine.TestCase
TestWatchedTree.settings = settings(max_examples=8, stateful_step_count=6)


def test_settles_by_daemon() -> None:
    run_state_machine_as_test(
        DaemonMachine, settings=settings(max_examples=2, stateful_step_count=6)
    )


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(TreeMachine, 1500), (WatchedMachine, 1000), (DaemonMachine, 150)],
    ids=["asked", "watched", "daemon"],
)
def test_settles_for_long(machine: type[TreeMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=20)
    )


# -- what was found by them ------------------------------------------------------------------------


@pytest.fixture
def story(tmp_path: Path) -> Iterator["Story"]:
    story = Story(tmp_path)
    yield story
    story.amend.close()


class Story:
    """A tree, its person and an amend that looks when it is told to."""

    def __init__(self, base: Path) -> None:
        root = base / "repo"
        new_repository(root)
        self.tree = root / "memory"
        self.amend = InProcess(base, root, is_watched=False)

    def note(self, path: str, title: str) -> None:
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"2026-04-10: {title}\n  - about {path}\n")

    def settle(self) -> None:
        """Until amend knows it all, and believes what the files' stats say."""
        written = max(path.stat().st_ctime_ns for path in self.tree.rglob("*"))
        while time.time_ns() <= written + RACY_NS:
            self.amend.sync()
        self.amend.sync()
        self.amend.sync()

    def describe(self, path: str, old: str, new: str) -> None:
        index = self.tree / path
        text = index.read_text()
        assert f"| {old}\n" in text
        index.write_text(text.replace(f"| {old}\n", f"| {new}\n"))

    def listed(self, path: str = "index.aicontext") -> list[str]:
        lines = (self.tree / path).read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]


def test_an_index_that_was_deleted_while_amend_was_away_is_written_again(story: Story) -> None:
    story.note("bugs/leak.aicontext", "A leak")
    story.settle()

    story.amend.stop()
    (story.tree / "bugs/index.aicontext").unlink()
    story.amend.start()
    story.amend.sync()

    assert story.listed("bugs/index.aicontext") == ["file: leak.aicontext | A leak"]


def test_a_description_that_is_given_while_its_note_moves_goes_along(story: Story) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.note("b/db.aicontext", "PostgreSQL")
    story.settle()

    story.describe("a/index.aicontext", "JWT", "by hand")
    (story.tree / "a/auth.aicontext").rename(story.tree / "b/auth.aicontext")
    story.amend.sync()

    assert "file: auth.aicontext | by hand" in story.listed("b/index.aicontext")


def test_what_is_gone_from_a_directory_that_was_renamed_is_no_longer_listed(story: Story) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.note("a/db.aicontext", "PostgreSQL")
    story.settle()

    (story.tree / "a").rename(story.tree / "b")
    (story.tree / "b/db.aicontext").unlink()
    story.amend.sync()

    assert story.listed("b/index.aicontext") == ["file: auth.aicontext | JWT"]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_note_that_is_renamed_with_its_directory_keeps_its_line(
    story: Story, is_away: bool
) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.settle()
    story.describe("a/index.aicontext", "JWT", "by hand")
    story.settle()

    if is_away:
        story.amend.stop()
    (story.tree / "a").rename(story.tree / "b")
    (story.tree / "b/auth.aicontext").rename(story.tree / "b/login.aicontext")
    if is_away:
        story.amend.start()
    story.amend.sync()

    assert story.listed("b/index.aicontext") == ["file: login.aicontext | by hand"]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_renamed_directory_is_known_by_its_index_alone(story: Story, is_away: bool) -> None:
    story.note("auth.aicontext", "JWT")
    (story.tree / "a").mkdir()
    story.settle()
    story.describe("index.aicontext", "a", "by hand")
    story.settle()

    if is_away:
        story.amend.stop()
    (story.tree / "a").rename(story.tree / "b")
    if is_away:
        story.amend.start()
    story.amend.sync()

    assert story.listed()[0] == "dir: b/ | by hand"


def test_amend_knows_its_words_again_in_a_directory_that_was_renamed(story: Story) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.note("a/db.aicontext", "PostgreSQL")
    story.settle()

    (story.tree / "a").rename(story.tree / "b")
    story.note("b/auth.aicontext", "OAuth")
    story.amend.sync()

    assert story.listed("b/index.aicontext") == [
        "file: auth.aicontext | OAuth",
        "file: db.aicontext | PostgreSQL",
    ]


def test_one_sync_is_enough_where_a_removed_line_uncovers_a_purpose(story: Story) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.settle()
    (story.tree / "a/index.aicontext").write_text("file: auth.aicontext | x\n# a/ - what for\n")
    story.settle()

    (story.tree / "a/auth.aicontext").rename(story.tree / "auth.aicontext")
    story.amend.sync()

    assert story.listed()[0] == "dir: a/ | what for"
    assert story.amend.sync() == []


def test_descriptions_wait_with_the_indexes_that_git_came_before(story: Story) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.note("b/db.aicontext", "PostgreSQL")
    story.settle()
    story.describe("a/index.aicontext", "JWT", "by hand")
    story.settle()

    (story.tree / "a/auth.aicontext").rename(story.tree / "b/auth.aicontext")
    story.amend.learn_and_be_interrupted()
    (story.tree / "a/index.aicontext").write_text("# a/ - as git has it now\n")
    story.amend.sync()

    assert "file: auth.aicontext | by hand" in story.listed("b/index.aicontext")


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_description_follows_two_renames_before_it_is_written(
    story: Story, is_moved: bool
) -> None:
    story.note("a/auth.aicontext", "JWT")
    story.note("b/db.aicontext", "PostgreSQL")
    story.settle()
    story.describe("a/index.aicontext", "JWT", "by hand")
    story.settle()
    into = story.tree / "b" if is_moved else story.tree / "a"

    (story.tree / "a/auth.aicontext").rename(into / "login.aicontext")
    story.amend.learn_and_be_interrupted()
    (into / "login.aicontext").rename(into / "session.aicontext")
    story.amend.sync()

    index = f"{into.name}/index.aicontext"
    assert "file: session.aicontext | by hand" in story.listed(index)
    assert len([line for line in story.listed("a/index.aicontext") if "hand" in line]) == (
        not is_moved
    )


def test_a_description_survives_a_merge_that_was_begun_and_given_up(story: Story) -> None:
    """In which its note was to be in two places."""
    story.note("a/auth.aicontext", "JWT")
    story.note("b/db.aicontext", "PostgreSQL")
    story.settle()
    story.describe("a/index.aicontext", "JWT", "by hand")
    story.settle()
    person, note = Person(story.tree.parent), Path("auth.aicontext")
    person.switch()
    assert not person.begin_merge()  # both have the note in one place now
    (story.tree / "a" / note).rename(story.tree / note)
    person.switch()
    (story.tree / "a" / note).rename(story.tree / "b" / note)

    assert person.begin_merge()
    story.amend.learn_and_be_interrupted()
    person.abort_merge()
    story.amend.sync()

    assert "file: auth.aicontext | by hand" in story.listed("b/index.aicontext")
