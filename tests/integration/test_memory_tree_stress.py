"""Agents that never pause and an amend that never waits: nothing is lost, nothing is torn, and two
amends that write the same trees come to rest."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from amend.daemon import tree_indexes
from amend.daemon.line_file import LineFile
from amend.daemon.memory_tree import MemoryTree
from amend.edge.git.places import discover
from amend.edge.store import Store
from amend.edge.watch.watcher import Watcher
from tests.conftest import Repository
from tests.integration.memory_tree_stress import INDEX, Outcome, open_tree, run, touched
from tests.scenario.memory_tree_story import SkippingLoop

# More than amend waits for anything, on a loop that skips every wait.
LONG_S = 120.0


def assert_nothing_lost(outcome: Outcome) -> None:
    assert outcome.wrong == [], outcome
    assert outcome.beside == [], outcome
    assert outcome.amend["unmerged"] == 0, outcome
    assert (outcome.amend["failures"], outcome.amend["problems"]) == ([], []), outcome


def assert_nothing_torn(outcome: Outcome) -> None:
    """To whoever reads while an agent writes by rename."""
    reader = outcome.reader
    assert (reader["torn"], reader["cut"], reader["missing"]) == (0, 0, 0), outcome
    assert outcome.writer["torn"] == 0, outcome
    assert reader["reads"] > 0


def test_no_write_by_rename_is_lost_and_no_reader_sees_a_torn_index(tmp_path: Path) -> None:
    outcome = run(tmp_path, "rename", 2000)

    assert_nothing_lost(outcome)
    assert_nothing_torn(outcome)
    assert outcome.amend["writes"] > 0


def test_no_write_in_place_is_lost(tmp_path: Path) -> None:
    outcome = run(tmp_path, "inplace", 300)

    assert_nothing_lost(outcome)
    assert outcome.amend["writes"] > 0


def test_no_write_is_lost_while_amend_is_killed_again_and_again(tmp_path: Path) -> None:
    outcome = run(tmp_path, "rename", 300, kill_every_s=1.5)

    assert_nothing_lost(outcome)
    assert_nothing_torn(outcome)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kill_every_s", [None, 2.0])
@pytest.mark.parametrize(("mode", "writes"), [("rename", 20_000), ("inplace", 5_000)])
def test_no_write_of_thousands_is_lost(
    tmp_path: Path, mode: str, writes: int, kill_every_s: float | None
) -> None:
    outcome = run(tmp_path, mode, writes, kill_every_s=kill_every_s, seed=1, timeout_s=3000.0)

    assert_nothing_lost(outcome)
    if mode == "rename":
        assert_nothing_torn(outcome)


@pytest.mark.parametrize("step", ["exchanged", "hidden"])
def test_what_was_written_while_amend_was_killed_is_put_back(tmp_path: Path, step: str) -> None:
    tree = tmp_path / "repo/memory"
    tree.mkdir(parents=True)
    (tree / "auth.aicontext").write_text("2026-04-10: JWT\n  - a bullet\n")
    (tree / INDEX).write_text("# memory/ - all\n")
    command = [sys.executable, "-m", "tests.integration.memory_tree_stress", "killed"]
    subprocess.run([*command, str(tmp_path), step], cwd=Path(__file__).parents[2], check=True)
    assert "in between" not in (tree / INDEX).read_text()

    loop, store = SkippingLoop(), Store(tmp_path / "store.db")
    memory = open_tree(tmp_path, tmp_path / "repo", None, store)
    loop.run_until_complete(memory.sync())
    loop.run_until_complete(asyncio.sleep(LONG_S))

    assert "# in between\n" in (tree / INDEX).read_text()
    assert "file: auth.aicontext | JWT\n" in (tree / INDEX).read_text()
    memory.stop()
    store.close()
    loop.close()


# -- two amends ------------------------------------------------------------------------------------


class Counted(LineFile):
    """`all`: every one that was made, with the root that it is below."""

    all: ClassVar[list[tuple[bytes, LineFile]]] = []

    def __init__(self, root: bytes, path: bytes, **more: Any) -> None:
        super().__init__(root, path, **more)
        self.all.append((root, self))


class Amends:
    """Each with a store and a watch of its own, all on one loop that skips every wait."""

    def __init__(self, base: Path) -> None:
        self._base = base
        Counted.all.clear()
        self._loop = SkippingLoop()
        self._started: list[tuple[MemoryTree, Watcher, Store]] = []

    def start(self, root: Path) -> None:
        store, watch = Store(self._base / f"store{len(self._started)}.db"), Watcher()
        watch.add_root(os.fsencode(root))
        tree = MemoryTree(
            os.fsencode(root),
            b"memory",
            places=discover(os.fsencode(root)),
            store=store,
            watch=watch,
            retain_dir=os.fsencode(self._base / f"retained{len(self._started)}"),
        )
        watch.start(self._loop, touched)
        self._loop.call_soon(tree.start, self._loop)
        self._started.append((tree, watch, store))

    def settle(self) -> dict[str, int]:
        """How often an index has been written so far, by the name of the checkout."""
        self._loop.run_until_complete(asyncio.sleep(LONG_S))
        counts = {Path(os.fsdecode(tree.root)).name: 0 for tree, _, _ in self._started}
        for root, file in Counted.all:
            counts[Path(os.fsdecode(root)).name] += file.shared.writes
        return counts

    def stop(self) -> None:
        for tree, watch, store in self._started:
            tree.stop()
            watch.close()
            self._loop.run_until_complete(asyncio.sleep(0))
            store.close()
        self._loop.close()


@pytest.fixture
def amends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Amends]:
    monkeypatch.setattr(tree_indexes, "LineFile", Counted)
    amends = Amends(tmp_path)
    yield amends
    amends.stop()


def test_two_amends_on_two_checkouts_write_each_index_once(
    amends: Amends, git: Callable[..., Repository]
) -> None:
    one = git("one", {"memory/index.aicontext": "# memory/ - all\n"})
    one("worktree", "add", "-q", "-b", "other", "../two")
    two = Repository(one.root.parent / "two")
    for checkout in (one, two):
        amends.start(checkout.root)
    assert amends.settle() == {"one": 0, "two": 0}

    one.write("memory/bugs/leak.aicontext", "2026-04-10: A leak\n  - a bullet\n")
    assert amends.settle() == {"one": 2, "two": 0}  # a new index, and the line in the root's
    one.commit("a leak")
    two("merge", "-q", "main")

    assert amends.settle() == {"one": 2, "two": 0}
    assert two("status", "--porcelain") == ""
    two.write("memory/bugs/leak.aicontext", "2026-04-11: Two leaks\n  - a bullet\n")
    assert amends.settle() == {"one": 2, "two": 1}
    two.commit("two leaks")
    one("merge", "-q", "other")
    assert amends.settle() == {"one": 2, "two": 1}
    assert one("status", "--porcelain") == ""


def test_two_amends_on_one_checkout_come_to_rest(
    amends: Amends, git: Callable[..., Repository]
) -> None:
    repository = git("repo", {"memory/index.aicontext": "# memory/ - all\n"})
    for _ in range(2):
        amends.start(repository.root)
    amends.settle()

    repository.write("memory/bugs/leak.aicontext", "2026-04-10: A leak\n  - a bullet\n")
    amends.settle()
    repository.write("memory/bugs/leak.aicontext", "2026-04-11: Two leaks\n  - a bullet\n")
    (repository.root / "memory/bugs").rename(repository.root / "memory/found")
    writes = amends.settle()

    assert amends.settle() == writes
    assert writes["repo"] <= 12
    index = (repository.root / "memory/index.aicontext").read_text()
    assert [line for line in index.splitlines() if "/ |" in line] == ["dir: found/ | bugs"]
