"""What is checked out, after each thing that git can do to it, and whether a watch would notice."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amend.edge.git import head as head_module
from amend.edge.git.head import (
    HeadState,
    is_locked,
    is_reftable,
    read_head,
    signal_paths,
    worktrees_dir,
)
from amend.edge.git.places import RepositoryPlaces, discover
from tests.integration.git_repositories import Repository, new_repository

Seen = dict[tuple[bytes, bytes], object]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "r", tmp_path / "home")
    repository.commit("first", a="one\n")
    return repository


def seen(places: RepositoryPlaces) -> Seen:
    """What a watch of the signals sees: each name's file, size and times."""
    facts: Seen = {}
    for root, path in signal_paths(places, read_head(places)):
        try:
            about = os.lstat(root + b"/" + path)
            facts[root, path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        except OSError:
            facts[root, path] = None
    return facts


def conflict(repository: Repository) -> tuple[str, str]:
    """Two branches that cannot be merged; the first is checked out."""
    repository.git("switch", "-q", "-c", "theirs")
    theirs = repository.commit("theirs", a="theirs\n")
    repository.git("switch", "-q", "main")
    return repository.commit("ours", a="ours\n"), theirs


def test_a_branch_a_detached_head_and_packed_refs_are_read(repository: Repository) -> None:
    oid = repository.head()
    on_branch = read_head(repository.places)
    repository.git("pack-refs", "--all")
    repository.git("gc", "-q")
    packed = read_head(repository.places)
    repository.git("switch", "-q", "--detach")
    detached = read_head(repository.places)

    assert on_branch == packed == HeadState("refs/heads/main", oid, None)
    assert detached == HeadState(None, oid, None)
    assert on_branch.branch == "main"
    assert detached.branch is None


def test_a_branch_without_a_commit_has_no_id(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r", tmp_path / "home")

    assert read_head(repository.places) == HeadState("refs/heads/main", None, None)


def test_odd_branch_names_are_read_loose_and_packed(repository: Repository) -> None:
    name = "feature/ü/é.x-y"
    repository.git("switch", "-q", "-c", name)
    loose = read_head(repository.places)
    repository.git("pack-refs", "--all")
    repository.git("branch", name + "-longer")
    packed = read_head(repository.places)

    assert loose == packed == HeadState(f"refs/heads/{name}", repository.head(), None)


def test_a_packed_refs_that_is_too_large_to_read_is_left_to_git(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("pack-refs", "--all")
    monkeypatch.setattr(head_module, "_PACKED_BYTES_MAX", 10)

    assert read_head(repository.places).oid == repository.head()


def test_a_linked_worktree_has_its_own_head_and_shares_the_branches(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    linked = Repository(tmp_path / "linked", tmp_path / "home")
    oid = linked.commit("in the linked one", a="two\n")

    assert read_head(linked.places) == HeadState("refs/heads/other", oid, None)
    assert read_head(repository.places) == HeadState("refs/heads/main", repository.head(), None)
    assert os.listdir(worktrees_dir(repository.places)) == [b"linked"]


@pytest.mark.parametrize(
    "text",
    [
        b"ref: ../../../../etc/passwd\n",
        b"ref: refs/../../../../etc/passwd\n",
        b"ref: /etc/passwd\n",
        b"ref: refs/heads/\n",
        b"ref: refs/heads/a\0b\n",
        b"\xff\xfe",
        b"",
        b"0123\n",
    ],
)
def test_a_head_that_makes_no_sense_is_none(repository: Repository, text: bytes) -> None:
    (repository.root / ".git" / "HEAD").write_bytes(text)

    assert read_head(repository.places).oid is None


def test_refs_that_point_at_each_other_end(repository: Repository) -> None:
    refs = repository.root / ".git" / "refs" / "heads"
    (refs / "main").write_text("ref: refs/heads/other\n")
    (refs / "other").write_text("ref: refs/heads/main\n")

    assert read_head(repository.places) == HeadState("refs/heads/main", None, None)


def test_a_head_that_is_a_symlink_names_its_branch(repository: Repository) -> None:
    head = repository.root / ".git" / "HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")

    assert read_head(repository.places) == HeadState("refs/heads/main", repository.head(), None)


def test_a_fifo_for_a_head_is_no_wait(repository: Repository) -> None:
    places = repository.places
    (repository.root / ".git" / "HEAD").unlink()
    os.mkfifo(repository.root / ".git" / "HEAD")

    assert read_head(places) == HeadState(None, None, None)


def test_the_operation_in_progress_is_named(repository: Repository) -> None:
    _, theirs = conflict(repository)
    operations = []
    for begin, end in (
        (("merge", "theirs"), ("merge", "--abort")),
        (("rebase", "theirs"), ("rebase", "--abort")),
        (("rebase", "--apply", "theirs"), ("rebase", "--abort")),
        (("cherry-pick", theirs), ("cherry-pick", "--abort")),
        (("revert", "HEAD~1"), ("revert", "--abort")),
        (("bisect", "start"), ("bisect", "reset")),
    ):
        repository.git(*begin, fails=True)
        operations.append(read_head(repository.places).operation)
        repository.git(*end)
        assert read_head(repository.places).operation is None
    repository.write("../patch", repository.git("format-patch", "-1", "--stdout", "theirs"))
    repository.git("am", "-q", "../patch", fails=True)
    operations.append(read_head(repository.places).operation)

    assert operations == ["merge", "rebase", "rebase", "cherry-pick", "revert", "bisect", "am"]


def test_between_two_picks_the_operation_goes_on(repository: Repository) -> None:
    conflict(repository)
    repository.git("switch", "-q", "theirs")
    repository.commit("more of theirs", a="more\n")
    repository.git("switch", "-q", "main")
    repository.git("cherry-pick", "main..theirs", fails=True)
    repository.commit("resolved by hand", a="resolved\n")

    assert read_head(repository.places).operation == "cherry-pick"


def test_the_index_lock_is_seen(repository: Repository) -> None:
    places = repository.places
    (repository.root / ".git" / "index.lock").touch()
    locked = is_locked(places)
    (repository.root / ".git" / "index.lock").unlink()

    assert (locked, is_locked(places)) == (True, False)


def steps(repository: Repository) -> list[Callable[[], object]]:
    """Everything that moves HEAD, the branch or the operation, in a usual order."""
    git = repository.git
    return [
        lambda: repository.commit("more", a="two\n"),
        lambda: git("commit", "-q", "--amend", "-m", "better"),
        lambda: git("switch", "-q", "-c", "feature/x"),
        lambda: repository.commit("on a branch", b="b\n"),
        lambda: git("update-ref", "refs/heads/feature/x", "HEAD~1"),
        lambda: git("reset", "-q", "--hard"),
        lambda: git("switch", "-q", "--detach", "main"),
        lambda: git("switch", "-q", "main"),
        lambda: git("merge", "-q", "--no-ff", "feature/x"),
        lambda: git("pack-refs", "--all"),
        lambda: git("reset", "-q", "--hard", "HEAD~1"),
        lambda: git("branch", "-m", "main", "trunk"),
        lambda: git("symbolic-ref", "HEAD", "refs/heads/new"),
        lambda: git("symbolic-ref", "HEAD", "refs/heads/trunk"),
        lambda: git("cherry-pick", "-n", "trunk@{1}", fails=True),
        lambda: git("reset", "-q", "--hard"),
        lambda: git("revert", "-n", "HEAD"),
        lambda: git("revert", "--abort"),
        lambda: git("bisect", "start"),
        lambda: git("bisect", "reset"),
        lambda: git("update-ref", "-d", "refs/heads/trunk"),
    ]


def test_every_change_of_the_state_touches_a_signal(repository: Repository) -> None:
    places = repository.places
    changes = 0
    for number, step in enumerate(steps(repository)):
        state, before = read_head(places), seen(places)
        signals = signal_paths(places, state)

        step()

        if read_head(places) != state:
            changes += 1
            after = {key: value for key, value in seen(places).items() if key in signals}
            assert any(after.get(key) != value for key, value in before.items()), number
    assert changes >= 14


def test_a_linked_worktree_notices_its_branch_being_moved_from_elsewhere(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    linked = discover(os.fsencode(tmp_path / "linked"))
    assert linked is not None
    repository.commit("more", a="two\n")
    state, before = read_head(linked), seen(linked)

    repository.git("update-ref", "refs/heads/other", "main")

    assert read_head(linked) != state
    assert seen(linked) != before


@pytest.mark.parametrize("branch", ["plain", "team/x"])
def test_the_signals_lie_in_at_most_seven_directories(
    repository: Repository, tmp_path: Path, branch: str
) -> None:
    repository.git("worktree", "add", "-q", "-b", branch, str(tmp_path / "linked"))
    linked = discover(os.fsencode(tmp_path / "linked"))
    assert linked is not None

    for places in (repository.places, linked):
        directories = set()
        for root, path in signal_paths(places, read_head(places)):
            full = root + b"/" + path
            while (full := os.path.dirname(full)) != os.path.dirname(root):
                if os.path.isdir(full) and full != places.root:
                    directories.add(full)
        assert len(directories) <= 7, directories


def test_a_reftable_is_left_to_git(repository: Repository) -> None:
    done = repository.git("init", "-q", "--ref-format=reftable", "../t", fails=True)
    if done or not (repository.root.parent / "t" / ".git").exists():
        pytest.skip("this git knows no reftable")
    table = Repository(repository.root.parent / "t", repository.root.parent / "home")
    oid = table.commit("first", a="one\n")

    assert is_reftable(table.places)
    assert read_head(table.places).oid == oid


def test_the_head_of_a_reftable_sends_the_question_to_git(repository: Repository) -> None:
    assert not is_reftable(repository.places)
    (repository.root / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")

    assert is_reftable(repository.places)
    assert read_head(repository.places) == HeadState(None, None, None)
    assert repository.places.tally.timeouts == 0
