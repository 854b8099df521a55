"""What the fuzz of git operations found, each reduced to the fewest steps that show it."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from amend.core.model import EntryName, Kind, Place, Source, SourceKind, Version
from amend.daemon import asking as asking_module
from amend.daemon.answers import Answers
from amend.daemon.memory import Memory
from amend.daemon.tending import Options, Tending
from amend.edge.files import look as look_module
from amend.edge.files.look import Look, look_at_glob, look_at_listing
from amend.edge.store import Store
from amend.formats import api
from amend.formats.agent_cache import pattern_payload
from benchmarks.running import Daemon
from tests.integration.git_repositories import Repository, new_repository
from tests.integration.git_truth import Truth, told_causes


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "main", tmp_path / "home")
    repository.write(".git/info/exclude", ".agent-cache.json\n")
    repository.commit("begin", **{"a.py": "one\n", "b.py": "other\n"})
    return repository


# -- looks -----------------------------------------------------------------------------------------


def after_failing(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do `then` between the first open that fails and what comes next."""
    original = look_module.open_beneath
    waiting = [then]

    def open_beneath(*arguments: Any) -> int:
        try:
            return original(*arguments)
        except (FileNotFoundError, NotADirectoryError):
            if waiting:
                waiting.pop()()
            raise

    monkeypatch.setattr(look_module, "open_beneath", open_beneath)


def is_right_or_looked_at_again(first: Look, second: Look) -> bool:
    """A look is believed for as long as its stat stays, unless it is racy."""
    return first.fingerprint == second.fingerprint or first.stat != second.stat or first.racy


def test_a_directory_that_comes_while_a_glob_is_matched_is_not_overlooked_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def come() -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib/a.py").touch()

    after_failing(monkeypatch, come)
    first, _ = look_at_glob(os.fsencode(tmp_path), b"lib/*.py", now_ns=sys.maxsize)
    second, _ = look_at_glob(os.fsencode(tmp_path), b"lib/*.py", now_ns=sys.maxsize)

    assert is_right_or_looked_at_again(first, second)


def test_a_file_that_becomes_a_directory_while_it_is_listed_is_not_overlooked_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").touch()

    def become() -> None:
        (tmp_path / "lib").unlink()
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib/a.py").touch()

    after_failing(monkeypatch, become)
    first = look_at_listing(os.fsencode(tmp_path), b"lib", now_ns=sys.maxsize)
    second = look_at_listing(os.fsencode(tmp_path), b"lib", now_ns=sys.maxsize)

    assert is_right_or_looked_at_again(first, second)


# -- git's word ------------------------------------------------------------------------------------


async def test_the_commit_is_told_also_when_a_rebase_ends_while_git_is_asked(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    marker = repository.root / ".git/rebase-merge"
    original = asking_module.with_commits

    def with_commits(*arguments: Any) -> Any:
        told = original(*arguments)
        if marker.exists():
            marker.rmdir()
            refreshed = asyncio.run_coroutine_threadsafe(refresh(), loop)
            refreshed.result()
        return told

    async def refresh() -> None:
        worktree.refresh_head()

    monkeypatch.setattr(asking_module, "with_commits", with_commits)
    with closing(Store(":memory:")) as store:
        tending = Tending(store, None, None, Options(), inline_bytes_max=None)
        worktree = tending.add(os.fsencode(repository.root))
        name, source = EntryName(Kind.PATTERN, "k"), Source(SourceKind.FILE, b"a.py")
        version = Version(0, (source,), (worktree.memory.ground.look(source),), None)
        known = worktree.memory.put(name, version, b"{}", Place.STORE)
        repository.commit("change", **{"a.py": "two\n"})
        marker.mkdir()
        worktree.refresh_head()
        await worktree.memory.answer(known)

        while not worktree.settled:
            await worktree.ask_git()

        assert [cause.commit is not None for cause in known.judgement.causes] == [True]


async def test_what_is_edited_while_git_is_asked_about_another_source_is_asked_as_well(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    original = asking_module.at_head

    def at_head(*arguments: Any) -> Any:
        told = original(*arguments)
        repository.write("b.py", "edited meanwhile\n")
        asyncio.run_coroutine_threadsafe(touch(), loop).result()
        return told

    async def touch() -> None:
        worktree.memory.touched(sources)

    sources = tuple(Source(SourceKind.FILE, path) for path in (b"a.py", b"b.py"))
    with closing(Store(":memory:")) as store:
        tending = Tending(store, None, None, Options(), inline_bytes_max=None)
        worktree = tending.add(os.fsencode(repository.root))
        looks = tuple(worktree.memory.ground.look(source) for source in sources)
        name = EntryName(Kind.PATTERN, "k")
        known = worktree.memory.put(name, Version(0, sources, looks, None), b"{}", Place.STORE)
        repository.write("a.py", "edited\n")
        worktree.memory.touched(sources)
        monkeypatch.setattr(asking_module, "at_head", at_head)

        while not worktree.settled:
            await worktree.ask_git()

        assert [cause.settled for cause in known.judgement.causes] == [True, True]


async def test_what_is_recorded_again_is_asked_about_again(repository: Repository) -> None:
    source = Source(SourceKind.FILE, b"a.py")
    with closing(Store(":memory:")) as store:
        tending = Tending(store, None, None, Options(), inline_bytes_max=None)
        worktree = tending.add(os.fsencode(repository.root))
        look = worktree.memory.ground.look(source)
        name = EntryName(Kind.PATTERN, "k")
        told = []
        for payload in (b"{}", b"[]"):
            known = worktree.memory.put(
                name, Version(0, (source,), (look,), None), payload, Place.STORE
            )
            repository.write("a.py", "edited\n")
            worktree.memory.touched([source])
            while not worktree.settled:
                await worktree.ask_git()
            told.append([cause.settled for cause in known.judgement.causes])
            worktree.memory.delete(known)
            repository.write("a.py", "one\n")

        assert told == [[True], [True]]


def test_a_file_is_followed_for_each_state_that_findings_saw_it_in(
    daemon: Daemon, repository: Repository
) -> None:
    truth = Truth(repository)
    repo = daemon.add(repository.root)["id"]
    daemon.put(repository.root, "older", ["a.py"])
    truth.record("older", ["a.py"])
    repository.commit("change", **{"a.py": "two\n"})
    daemon.put(repository.root, "newer", ["a.py"])
    truth.record("newer", ["a.py"])
    daemon.sync()

    os.rename(repository.root / "a.py", repository.root / "two.py")
    repository.write("one.py", "one\n")
    daemon.sync()
    rows = daemon.entries(repository.root)
    daemon.request("DELETE", f"/v1/repos/{repo}")

    told = {key: told_causes(rows[key]) for key in truth.findings}
    assert told == {key: truth.causes(versions[0]) for key, versions in truth.findings.items()}


# -- worktrees -------------------------------------------------------------------------------------


def test_a_finding_that_was_followed_in_one_worktree_can_be_asked_for_in_another(
    daemon: Daemon, repository: Repository
) -> None:
    linked = Repository(repository.root.parent / "linked", repository.root.parent / "home")
    repository.git("worktree", "add", "-q", "-b", "linked", str(linked.root))
    repo = daemon.add(repository.root)["id"]
    daemon.put(repository.root, "k", ["a.py"])
    repository.git("mv", "a.py", "c.py")
    daemon.sync()

    (linked.root / "a.py").unlink()
    question = {"cwd": str(linked.root), "key": "k"}
    status, answer = daemon.request("POST", "/v1/lookup", question)
    daemon.request("DELETE", f"/v1/repos/{repo}")

    assert status == 200
    assert answer["verdict"] != "fresh"


async def test_a_finding_that_comes_back_while_it_is_looked_for_elsewhere_is_not_taken_twice(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = repository.root.parent / "linked"
    repository.git("worktree", "add", "-q", "-b", "linked", str(linked))
    original = Memory.would_support

    async def would_support(self: Memory, kind: Kind, version: Version) -> bool:
        (linked / "a.py").write_text("one\n")  # as when git is done with a checkout
        return await original(self, kind, version)

    with closing(Store(":memory:")) as store:
        tending = Tending(store, None, None, Options(), inline_bytes_max=None)
        main, other = (tending.add(os.fsencode(root)) for root in (repository.root, linked))
        answers = Answers(tending, "0")
        question = api.LookupRequest(cwd=str(linked), key="k")
        name, source = EntryName(Kind.PATTERN, "k"), Source(SourceKind.FILE, b"a.py")
        version = Version(0, (source,), (main.memory.ground.look(source),), None)
        main.memory.put(name, version, pattern_payload("about k", ["a.py"]), Place.STORE)
        taken = await answers.lookup(question)
        (linked / "a.py").write_text("two\n")
        monkeypatch.setattr(Memory, "would_support", would_support)

        await answers.lookup(question)

        known = other.memory.known(name)
        assert taken["verdict"] == "fresh"
        assert known is not None
        assert len(known.entry.versions) == 1
