"""Where a cited file went, when that can be proven."""

import os
from pathlib import Path

import pytest

from amend.edge.git import moves
from amend.edge.git.history import find_move, find_moves
from tests.integration.git_repositories import Repository, new_repository

TEXT = "the cited text\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "r", tmp_path / "home")
    repository.commit("root", **{"d/a": TEXT, "d/other": "other\n", "empty": ""})
    return repository


def hash_path(repository: Repository, path: bytes) -> bytes | None:
    try:
        return repository.blob((repository.root / os.fsdecode(path)).read_bytes())
    except OSError:
        return None


def list_directory(repository: Repository, path: bytes) -> list[bytes]:
    directory = os.path.join(os.fsencode(repository.root), path)
    try:
        return [e.name + (b"/" if e.is_dir() else b"") for e in os.scandir(directory)]
    except OSError:
        return []


def moved(repository: Repository, path: bytes = b"d/a", text: str = TEXT) -> bytes | None:
    return find_move(
        repository.places,
        repository.head(),
        path,
        repository.blob(text),
        hash_path=lambda path: hash_path(repository, path),
        list_directory=lambda path: list_directory(repository, path),
    )


def rename(repository: Repository, old: str, new: str) -> None:
    target = repository.root / new
    target.parent.mkdir(parents=True, exist_ok=True)
    (repository.root / old).rename(target)


# -- not committed yet -------------------------------------------------------------------------


def test_a_git_mv_anywhere_is_found(repository: Repository) -> None:
    (repository.root / "far").mkdir()
    repository.git("mv", "d/a", "far/b")

    assert moved(repository) == b"far/b"


def test_a_rename_in_the_directory_is_found_before_git_is_told(repository: Repository) -> None:
    rename(repository, "d/a", "d/b \udcff")

    assert moved(repository) == b"d/b \xff"


def test_a_rename_of_an_edited_file_is_found_by_what_is_there_now(repository: Repository) -> None:
    repository.write("d/a", "edited\n")
    repository.git("mv", "d/a", "d/b")

    assert moved(repository, text="edited\n") == b"d/b"


def test_a_rename_out_of_the_directory_that_git_does_not_know_is_not_guessed(
    repository: Repository,
) -> None:
    rename(repository, "d/a", "far/b")

    assert moved(repository) is None


def test_of_two_equal_new_files_none_is_taken(repository: Repository) -> None:
    repository.git("mv", "d/a", "d/b")
    repository.write("d/c", TEXT)

    assert moved(repository) is None


def test_a_copy_that_was_there_before_is_no_move(repository: Repository) -> None:
    repository.commit("a copy", **{"d/copy": TEXT})
    (repository.root / "d" / "a").unlink()

    assert moved(repository) is None


def test_a_file_that_was_overwritten_by_the_rename_is_not_new(repository: Repository) -> None:
    rename(repository, "d/a", "d/other")

    assert moved(repository) is None


def test_a_staged_new_place_that_was_deleted_again_is_none(repository: Repository) -> None:
    repository.git("mv", "d/a", "d/b")
    (repository.root / "d" / "b").unlink()

    assert moved(repository) is None


def test_an_empty_file_never_moved(repository: Repository) -> None:
    repository.git("mv", "empty", "void")

    assert moved(repository, b"empty", "") is None


def test_a_symlink_whose_target_reads_like_the_file_is_none(repository: Repository) -> None:
    repository.commit("one line", v="1.0")
    (repository.root / "v").unlink()
    (repository.root / "d" / "link").symlink_to("1.0")
    repository.git("add", "-A")

    assert moved(repository, b"v", "1.0") is None


def test_among_more_new_files_than_are_hashed_none_is_taken(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "_NEIGHBOURS_MAX", 2)
    repository.git("mv", "d/a", "d/b")
    for number in range(2):
        repository.write(f"d/new{number}", f"{number}\n")

    assert moved(repository) is None


def test_without_a_commit_nothing_has_moved(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "unborn", tmp_path / "home")

    found = find_move(
        repository.places,
        None,
        b"a",
        b"x" * 20,
        hash_path=lambda _: None,
        list_directory=lambda _: [],
    )

    assert found is None


# -- committed ---------------------------------------------------------------------------------


def test_a_committed_rename_is_found_however_long_ago(repository: Repository) -> None:
    rename(repository, "d/a", "far/b")
    repository.commit("rename")
    for number in range(3):
        repository.commit(f"later {number}", **{"d/other": f"{number}\n"})

    assert moved(repository) == b"far/b"


def test_a_rename_that_came_with_a_merge_is_found(repository: Repository) -> None:
    repository.git("switch", "-q", "-c", "side")
    rename(repository, "d/a", "far/b")
    repository.commit("rename")
    repository.git("switch", "-q", "main")
    repository.commit("meanwhile", z="z\n")
    repository.git("merge", "-q", "--no-ff", "-m", "merged", "side")

    assert moved(repository) == b"far/b"


def test_a_file_that_was_moved_on_is_followed_committed_or_not(repository: Repository) -> None:
    rename(repository, "d/a", "e/b")
    repository.commit("once")
    rename(repository, "e/b", "f/c")
    repository.commit("twice")
    committed = moved(repository)
    repository.git("mv", "f/c", "f/d")
    staged = moved(repository)

    assert (committed, staged) == (b"f/c", b"f/d")


def test_a_copy_added_by_another_commit_than_the_deletion_is_no_move(
    repository: Repository,
) -> None:
    repository.commit("copy first", b=TEXT)
    (repository.root / "d" / "a").unlink()
    repository.commit("delete later")

    assert moved(repository) is None


def test_a_commit_that_added_two_copies_moved_it_to_neither(repository: Repository) -> None:
    (repository.root / "d" / "a").unlink()
    repository.commit("two copies", b=TEXT, c=TEXT)

    assert moved(repository) is None


def test_a_later_copy_of_the_moved_file_confuses_nobody(repository: Repository) -> None:
    rename(repository, "d/a", "b")
    repository.commit("rename")
    repository.commit("copy", c=TEXT)

    assert moved(repository) == b"b"


def test_a_rename_with_an_edit_in_the_same_commit_is_no_move(repository: Repository) -> None:
    rename(repository, "d/a", "b")
    repository.commit("rename and edit", b="edited\n")

    assert moved(repository) is None


def test_an_older_state_that_reappears_elsewhere_is_no_move(repository: Repository) -> None:
    repository.commit("edit", **{"d/a": "second\n"})
    (repository.root / "d" / "a").unlink()
    repository.commit("the first state, elsewhere", b=TEXT)

    assert moved(repository) is None


def test_a_file_that_was_deleted_or_never_there_has_not_moved(repository: Repository) -> None:
    (repository.root / "d" / "a").unlink()
    repository.commit("delete")

    assert moved(repository) is None
    assert moved(repository, b"never") is None


def test_many_are_found_in_one_go(repository: Repository) -> None:
    repository.commit("more", **{f"m/{n}": f"{n}\n" for n in range(20)})
    for number in range(10):
        rename(repository, f"m/{number}", f"n/{number}")
    repository.commit("rename ten")
    for number in range(10, 20):
        rename(repository, f"m/{number}", f"m/x{number}")
    places = repository.places
    gone = {b"m/%d" % n: repository.blob(f"{n}\n") for n in range(20)}
    before = places.tally.commands

    found = find_moves(
        places,
        repository.head(),
        gone,
        hash_path=lambda path: hash_path(repository, path),
        list_directory=lambda path: list_directory(repository, path),
    )

    expected = {b"m/%d" % n: b"n/%d" % n for n in range(10)}
    assert found == expected | {b"m/%d" % n: b"m/x%d" % n for n in range(10, 20)}
    assert places.tally.commands - before <= 10


def test_without_time_nothing_is_found_and_nothing_raised(repository: Repository) -> None:
    repository.git("mv", "d/a", "d/b")
    repository.commit("rename", **{"e/x": "x\n"})
    (repository.root / "e" / "x").unlink()
    places = repository.places
    gone = {b"d/a": repository.blob(TEXT), b"e/x": repository.blob("x\n")}

    found = find_moves(
        places,
        repository.head(),
        gone,
        hash_path=lambda path: hash_path(repository, path),
        list_directory=lambda path: list_directory(repository, path),
    )
    nothing = find_moves(
        places,
        repository.head(),
        gone,
        hash_path=lambda path: hash_path(repository, path),
        list_directory=lambda path: list_directory(repository, path),
        limit_s=0.0,
    )

    assert found == {b"d/a": b"d/b"}
    assert nothing == {}
