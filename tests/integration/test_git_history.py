"""Which commit brought it, what a commit holds: compared with git's own answers."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from amend.edge.git import commits, trees
from amend.edge.git.head import read_head
from amend.edge.git.history import changed_paths, entries_at, is_tracked, last_commits
from amend.edge.git.run import GitFailed
from tests.integration.git_repositories import (
    FIRST_COMMIT_S,
    Repository,
    new_repository,
    random_history,
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "r", tmp_path / "home")


def brought(repository: Repository, *paths: bytes) -> dict[bytes, str]:
    return {p: c.oid for p, c in last_commits(repository.places, "HEAD", paths).items()}


def git_says(repository: Repository, path: bytes) -> str:
    return repository.git("log", "-1", "--first-parent", "-m", "--format=%H", "--", path)


# -- what a commit holds -----------------------------------------------------------------------


def test_files_of_a_commit_are_found_with_mode_and_blob(repository: Repository) -> None:
    repository.write("bin/run", "#!\n")
    (repository.root / "bin" / "run").chmod(0o755)
    repository.write(b"sp ace/new\nline \xff", "odd\n")
    (repository.root / "link").symlink_to("bin/run")
    repository.commit("all kinds", **{"dir/a": "one\n"})
    wanted = [b"bin/run", b"sp ace/new\nline \xff", b"link", b"dir/a", b"dir", b"none"]

    entries = entries_at(repository.places, "HEAD", wanted)

    assert {path: (entry.mode, entry.blob) for path, entry in entries.items()} == {
        b"bin/run": (0o100755, repository.blob("#!\n")),
        b"sp ace/new\nline \xff": (0o100644, repository.blob("odd\n")),
        b"link": (0o120000, repository.blob("bin/run")),
        b"dir/a": (0o100644, repository.blob("one\n")),
    }


def test_many_paths_are_asked_in_portions_and_none_is_lost(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"d{i % 7}/f{i}": f"{i}\n" for i in range(100)}
    repository.commit("many", **files)
    monkeypatch.setattr(trees, "_PATHS_PER_COMMAND", 9)
    monkeypatch.setattr(trees, "_PATHS_BYTES_MAX", 50)

    entries = entries_at(repository.places, "HEAD", [os.fsencode(path) for path in files])

    assert len(entries) == len(files)
    assert entries[b"d0/f7"].blob == repository.blob("7\n")


def test_a_commit_that_is_not_here_is_an_error(repository: Repository) -> None:
    repository.commit("first", a="one\n")

    with pytest.raises(GitFailed):
        entries_at(repository.places, "1" * 40, [b"a"])


def test_blobs_named_by_another_hash_are_not_compared(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r", tmp_path / "home", "--object-format=sha256")
    oid = repository.commit("first", a="one\n")

    entries = entries_at(repository.places, "HEAD", [b"a"])

    assert entries[b"a"].blob is None
    assert read_head(repository.places).oid == oid
    assert brought(repository, b"a") == {b"a": oid}


def test_what_differs_between_two_commits_is_listed(repository: Repository) -> None:
    repository.write(b"\xff\n", "odd\n")
    old = repository.commit("first", a="one\n", b="two\n", c="three\n")
    (repository.root / "c").unlink()
    (repository.root / "b").rename(repository.root / "d")
    repository.write(b"\xff\n", "odder\n")
    new = repository.commit("second")

    assert changed_paths(repository.places, old, new) == {b"b", b"c", b"d", b"\xff\n"}
    assert changed_paths(repository.places, old, old) == set()
    assert changed_paths(repository.places, old, "1" * 40) is None


def test_tracked_is_what_the_index_has_as_a_file(repository: Repository) -> None:
    repository.commit("first", **{"dir/a": "one\n"})
    repository.write("untracked", "x\n")

    tracked = [is_tracked(repository.places, p) for p in (b"dir/a", b"dir", b"untracked", b"none")]

    assert tracked == [True, False, False, False]


# -- which commit brought it -------------------------------------------------------------------


def test_the_commit_is_told_with_its_author_s_time_and_subject(repository: Repository) -> None:
    oid = repository.commit("  Fix the\u2028 thing \x0c now\n\nand a body", a="one\n")

    commit = last_commits(repository.places, "HEAD", [b"a"])[b"a"]

    assert commit.oid == oid
    assert commit.subject == "Fix the\u2028 thing \x0c now"
    assert commit.authored_at.tzinfo is UTC
    assert 0 < commit.authored_at.timestamp() - FIRST_COMMIT_S < 3600


def test_a_subject_in_another_encoding_is_told(repository: Repository) -> None:
    repository.write("a", "one\n")
    repository.git("add", "a")
    repository.git("-c", "i18n.commitEncoding=latin1", "commit", "-q", "-m", b"caf\xe9")
    text = os.fsencode(repository.git("cat-file", "commit", "HEAD"))
    undeclared = text.replace(b"encoding latin1\n", b"").replace(b"caf", b"wrong ")
    odd = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=undeclared)
    repository.git("config", "i18n.logOutputEncoding", "latin1")

    declared = last_commits(repository.places, "HEAD", [b"a"])[b"a"]
    wrong = last_commits(repository.places, odd, [b"a"])[b"a"]

    assert declared.subject == "café"
    assert wrong.subject == "wrong \N{REPLACEMENT CHARACTER}"


def test_a_time_that_is_no_time_leaves_the_commit_out(repository: Repository) -> None:
    oid = repository.commit("first", a="one\n")
    text = repository.git("cat-file", "commit", oid).replace(" +0000", "999999999999999999 +0000")
    odd = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode())

    assert last_commits(repository.places, odd, [b"a"]) == {}


def test_a_merge_brings_what_its_first_parent_lacked(repository: Repository) -> None:
    root = repository.commit("root", a="one\n", kept="k\n")
    repository.git("switch", "-q", "-c", "side")
    repository.commit("on the side", b="two\n")
    repository.git("switch", "-q", "main")
    repository.commit("on main", c="three\n")
    repository.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    merge = repository.head()

    assert brought(repository, b"b", b"kept") == {b"b": merge, b"kept": root}


def test_deletion_revert_mode_and_rename_each_count(repository: Repository) -> None:
    repository.commit("root", a="one\n", b="two\n", c="three\n", d="four\n")
    (repository.root / "a").unlink()
    deleted = repository.commit("delete a")
    repository.commit("edit b", b="2\n")
    repository.git("revert", "--no-edit", "HEAD")
    reverted = repository.head()
    (repository.root / "c").chmod(0o755)
    executable = repository.commit("c can be run")
    (repository.root / "d").rename(repository.root / "e")
    renamed = repository.commit("d becomes e")
    repository.commit("unrelated", z="z\n")

    expected = {b"a": deleted, b"b": reverted, b"c": executable, b"d": renamed, b"e": renamed}
    one_by_one = {path: brought(repository, path).get(path) for path in expected}

    assert brought(repository, *expected, b"x", b"y", b"w", b"v") == expected
    assert one_by_one == expected


def test_a_directory_at_a_file_s_place_is_not_the_file(repository: Repository) -> None:
    repository.commit("root", a="a file\n")
    (repository.root / "a").unlink()
    replaced = repository.commit("now a directory", **{"a/inside": "one\n"})
    repository.commit("in the directory", **{"a/inside": "two\n"})
    fillers = [b"x%d" % i for i in range(9)]

    assert brought(repository, b"a", *fillers) == {b"a": replaced}
    assert brought(repository, b"a") in ({}, {b"a": replaced})  # alone: proven or not told
    assert brought(repository, b"a/inside")[b"a/inside"] == repository.head()


def test_a_file_named_like_a_commit_misleads_nobody(repository: Repository) -> None:
    name = "1" * 40
    oid = repository.commit("odd", **{name: "one\n"})
    repository.commit("later", z="z\n")

    assert brought(repository, name.encode(), *(b"x%d" % i for i in range(9))) == {
        name.encode(): oid
    }


def test_odd_names_are_found_both_ways(repository: Repository) -> None:
    names = [b"\xff\xfe", b"new\nline", b" sp ace ", b"*", b":(glob)**", b"-x", b'"q"', b"\\"]
    for name in names:
        repository.write(name, name)
    oid = repository.commit("odd")

    assert brought(repository, *names) == dict.fromkeys(names, oid)
    assert brought(repository, names[0], names[4]) == dict.fromkeys([names[0], names[4]], oid)


def test_the_oldest_commits_of_a_shallow_clone_brought_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    for number in range(4):
        repository.commit(f"number {number}", **{f"f{number}": "x\n"})
    shallow = tmp_path / "shallow"
    repository.git("clone", "-q", "--depth=2", f"file://{repository.root}", str(shallow))
    clone = Repository(shallow, tmp_path / "home")

    assert brought(clone, b"f0", b"f1", b"f2", b"f3") == {b"f3": repository.head()}


def test_no_time_is_no_answer(repository: Repository) -> None:
    repository.commit("root", a="one\n")

    assert last_commits(repository.places, "HEAD", [b"a"], limit_s=0.0) == {}


@pytest.mark.parametrize("seed", range(4))
def test_random_merges_give_the_same_commits_as_git_log(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    paths = random_history(repository, seed, 60)
    monkeypatch.setattr(commits, "_STEPS", (3, 7))

    expected = {path: oid for path in paths if (oid := git_says(repository, path))}
    together = brought(repository, *paths)
    monkeypatch.setattr(commits, "_FEW_PATHS", 1000)
    one_by_one = brought(repository, *paths)

    assert together == one_by_one == expected
    assert len(set(expected.values())) > 5


def test_a_time_of_day_far_from_utc_is_the_same_moment(repository: Repository) -> None:
    repository.write("a", "one\n")
    repository.git("add", "a")
    repository.git("commit", "-q", "-m", "x", "--date=2026-02-03T04:05:06+0930")

    commit = last_commits(repository.places, "HEAD", [b"a"])[b"a"]

    assert commit.authored_at == datetime(2026, 2, 2, 18, 35, 6, tzinfo=UTC)
