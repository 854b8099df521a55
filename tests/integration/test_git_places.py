"""Where a repository is found, and where it is not."""

import os
from pathlib import Path

import pytest

from amend.edge.git.history import entries_at
from amend.edge.git.places import discover, verify
from amend.edge.git.run import GitFailed
from amend.errors import Refused
from tests.integration.git_repositories import Repository, new_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "r", tmp_path / "home")
    repository.commit("first", **{"a": "one\n", "sub/b": "two\n"})
    return repository


def test_the_nearest_repository_above_is_found_through_links(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(repository.root / "sub")

    places = discover(os.fsencode(tmp_path / "link"))

    assert places is not None
    verify(places)
    root = os.fsencode(repository.root)
    assert (places.root, places.git_dir) == (root, root + b"/.git")
    assert places.common_dir == places.git_dir


def test_a_path_that_is_not_there_yet_is_in_the_repository_above_it(
    repository: Repository,
) -> None:
    places = discover(os.fsencode(repository.root / "sub" / "new" / "er"))

    assert places == repository.places


def test_a_linked_worktree_has_its_own_git_directory(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))

    places = discover(os.fsencode(tmp_path / "linked"))

    assert places is not None
    verify(places)
    assert places.root == os.fsencode(tmp_path / "linked")
    assert places.git_dir == os.fsencode(repository.root) + b"/.git/worktrees/linked"
    assert places.common_dir == os.fsencode(repository.root) + b"/.git"


def test_a_submodule_is_a_repository_of_its_own(repository: Repository, tmp_path: Path) -> None:
    inner = new_repository(repository.root / "sub" / "module", tmp_path / "home")
    inner.commit("inside", a="inside\n")
    modules = repository.root / ".git" / "modules" / "m"
    modules.parent.mkdir()
    (inner.root / ".git").rename(modules)
    (inner.root / ".git").write_text("gitdir: ../../.git/modules/m\n")
    inner.git("config", "core.worktree", "../../../sub/module")

    places = inner.places

    verify(places)
    assert places.root == os.fsencode(inner.root)
    assert places.git_dir == places.common_dir == os.fsencode(modules)


def test_names_with_newlines_and_strange_bytes_are_found(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\nb \xff:c"))
    repository = new_repository(root, tmp_path / "home")

    places = repository.places

    verify(places)
    assert places.root == os.fsencode(root)


@pytest.mark.parametrize(
    "pointer", [b"gitdir: nowhere\n", b"gitdir: \n", b"junk", b"", b"gitdir: a\0b\n"]
)
def test_a_pointer_that_leads_nowhere_is_no_worktree_of_the_repository_above(
    repository: Repository, pointer: bytes
) -> None:
    (repository.root / "sub" / ".git").write_bytes(pointer)

    assert discover(os.fsencode(repository.root / "sub")) is None


def test_a_git_directory_without_a_repository_is_passed_by(repository: Repository) -> None:
    (repository.root / "sub" / ".git").mkdir()

    assert discover(os.fsencode(repository.root / "sub")) == repository.places


def test_a_fifo_called_git_is_no_repository_and_no_wait(repository: Repository) -> None:
    os.mkfifo(repository.root / "sub" / ".git")

    assert discover(os.fsencode(repository.root / "sub")) == repository.places


def test_git_s_own_files_are_in_no_worktree(repository: Repository) -> None:
    assert discover(os.fsencode(repository.root / ".git" / "refs")) is None


def test_outside_of_any_repository_there_is_none(tmp_path: Path) -> None:
    assert discover(os.fsencode(tmp_path)) is None


def test_a_bare_repository_is_not_found(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))

    assert discover(os.fsencode(tmp_path / "bare.git")) is None


def test_a_worktree_of_a_bare_repository_is_found(repository: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repository.git("clone", "-q", "--bare", ".", str(bare))
    repository.git("-C", str(bare), "worktree", "add", "-q", str(tmp_path / "tree"), "main")

    places = Repository(tmp_path / "tree", tmp_path / "home").places

    verify(places)
    assert places.common_dir == os.fsencode(bare)
    assert b"a" in entries_at(places, "HEAD", [b"a"])


def test_a_repository_without_a_worktree_does_not_pass_verification(
    repository: Repository,
) -> None:
    repository.git("config", "core.bare", "true")

    with pytest.raises(GitFailed, match="work tree"):
        verify(repository.places)


def test_a_worktree_that_is_configured_to_be_elsewhere_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("config", "core.worktree", str(tmp_path))

    with pytest.raises(Refused, match=r"core.worktree|must be"):
        verify(repository.places)


def test_a_broken_repository_fails_verification_and_says_why(repository: Repository) -> None:
    (repository.root / ".git" / "HEAD").write_text("nonsense\n")

    with pytest.raises(GitFailed, match="not a git repository"):
        verify(repository.places)
