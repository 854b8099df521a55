"""Branches and worktrees: memory follows a repository wherever it is checked out."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_daemon import eventually, make_repo, topic_in_file


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Iterator[Path]:
    root = make_repo(tmp_path / "repo")
    tended = daemon.add(root)
    yield root
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def roots(daemon: Daemon) -> set[str]:
    return {each["root"] for each in daemon.get("/v1/repos")}


def test_a_worktree_is_tended_once_it_is_added_and_no_longer_once_it_is_removed(
    daemon: Daemon, repo: Path
) -> None:
    first, second = repo.with_name("first"), repo / ".claude/worktrees/second"

    git(repo, "worktree", "add", "-q", str(first))
    git(repo, "worktree", "add", "-q", str(second))
    eventually(lambda: roots(daemon) == {str(repo), str(first), str(second)})

    git(repo, "worktree", "remove", "--force", str(second))
    eventually(lambda: roots(daemon) == {str(repo), str(first)})
    git(repo, "worktree", "remove", "--force", str(first))  # the last one
    eventually(lambda: roots(daemon) == {str(repo)})
    git(repo, "worktree", "add", "-q", "--force", str(first), "first")
    eventually(lambda: roots(daemon) == {str(repo), str(first)})
    shutil.rmtree(first)
    git(repo, "worktree", "prune")
    eventually(lambda: roots(daemon) == {str(repo)})


def test_worktrees_that_were_there_come_and_go_with_the_repository(
    daemon: Daemon, tmp_path: Path
) -> None:
    root, beside = make_repo(tmp_path / "main"), tmp_path / "beside"
    git(root, "worktree", "add", "-q", str(beside))

    tended = daemon.add(root)
    eventually(lambda: roots(daemon) == {str(root), str(beside)})
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")

    assert roots(daemon) == set()


def test_a_worktree_that_somebody_removed_from_amend_stays_removed(
    daemon: Daemon, repo: Path
) -> None:
    beside = repo.with_name("beside")
    git(repo, "worktree", "add", "-q", str(beside))
    eventually(lambda: str(beside) in roots(daemon))
    tended = next(each for each in daemon.get("/v1/repos") if each["root"] == str(beside))

    daemon.request("DELETE", f"/v1/repos/{tended['id']}")
    daemon.sync()

    assert roots(daemon) == {str(repo)}


def test_a_question_inside_a_nested_worktree_is_about_its_own_files(
    daemon: Daemon, repo: Path
) -> None:
    nested = repo / ".claude/worktrees/agent"
    daemon.put(repo, "auth", ["a.py"])
    git(repo, "worktree", "add", "-q", str(nested))
    (nested / "a.py").write_text("edited in the worktree\n")

    answer = daemon.lookup(nested / "src", "auth")

    assert answer["verdict"] == "missing"
    assert daemon.lookup(repo / "src", "auth")["verdict"] == "fresh"


def test_a_finding_serves_another_worktree_and_says_where_it_was_made(
    daemon: Daemon, repo: Path
) -> None:
    daemon.put(repo, "auth", ["a.py", "src/c.py"])
    beside = repo.with_name("beside")
    git(repo, "worktree", "add", "-q", str(beside))
    daemon.sync()

    answer = daemon.lookup(beside, "auth")

    assert answer["verdict"] == "fresh"
    assert answer["entry"]["recorded_in"] == str(repo)
    assert answer["entry"]["in_file"] is False
    assert topic_in_file(beside, "auth") is None

    (repo / "a.py").write_text("edited in the first\n")
    assert daemon.lookup(beside, "auth")["verdict"] == "fresh"
    (beside / "a.py").write_text("edited in the second\n")
    assert daemon.lookup(beside, "auth")["verdict"] == "stale"


def test_a_worktree_is_served_by_the_version_that_is_true_there(daemon: Daemon, repo: Path) -> None:
    git(repo, "switch", "-qc", "other")
    (repo / "a.py").write_text("on the other branch\n")
    git(repo, "commit", "-qam", "other")
    daemon.put(repo, "auth", ["a.py"], summary="on other")
    git(repo, "switch", "-q", "main")
    daemon.put(repo, "auth", ["a.py"], summary="on main")
    beside = repo.with_name("beside")
    git(repo, "worktree", "add", "-q", str(beside), "other")
    daemon.sync()

    assert daemon.lookup(beside, "auth")["entry"]["summary"] == "on other"
    assert daemon.lookup(repo, "auth")["entry"]["summary"] == "on main"
    git(beside, "switch", "-q", "--detach", "main")
    assert daemon.lookup(beside, "auth")["entry"]["summary"] == "on main"


def test_what_was_deleted_in_a_worktree_does_not_come_back_from_another(
    daemon: Daemon, repo: Path
) -> None:
    daemon.put(repo, "auth", ["a.py"])
    beside = repo.with_name("beside")
    git(repo, "worktree", "add", "-q", str(beside))
    daemon.sync()
    assert daemon.lookup(beside, "auth")["verdict"] == "fresh"

    daemon.request("DELETE", f"/v1/entries/topic/auth?cwd={beside}")

    assert daemon.lookup(beside, "auth")["verdict"] == "missing"
    assert daemon.lookup(repo, "auth")["verdict"] == "fresh"
