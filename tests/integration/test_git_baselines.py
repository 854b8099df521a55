"""Whether a file was at a time as it is now."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.edge.git import baselines as baselines_module
from amend.edge.git.head import read_head
from amend.edge.git.history import AsOf, Baseline, baseline, baselines, entries_at
from tests.integration.git_repositories import (
    FIRST_COMMIT_S,
    Repository,
    new_repository,
    random_history,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HALF_A_STEP = timedelta(seconds=30)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "r", tmp_path / "home")


def clock(repository: Repository) -> datetime:
    """The time of the latest git command."""
    return datetime.fromtimestamp(repository.clock_s, UTC)


def was(repository: Repository, ts: datetime, path: str = "a", **more: bytes) -> Baseline:
    blob = repository.blob((repository.root / path).read_bytes())
    lf_blobs = {path.encode(): more["lf"]} if more else None
    head = read_head(repository.places)
    answer = baseline(repository.places, head, {path.encode(): blob}, ts, NOW, lf_blobs=lf_blobs)
    return answer[path.encode()]


def clone(repository: Repository, into: Path, *options: str) -> Repository:
    repository.git("clone", "-q", *options, f"file://{repository.root}", str(into))
    copy = Repository(into, into.parent / "home")
    copy.clock_s = repository.clock_s
    return copy


def test_what_was_checked_out_then_decides(repository: Repository) -> None:
    repository.commit("first", a="one\n", b="b\n")
    first = clock(repository) + HALF_A_STEP
    repository.commit("second", a="two\n")
    second = clock(repository) + HALF_A_STEP
    repository.git("revert", "--no-edit", "HEAD")
    reverted = clock(repository) + HALF_A_STEP

    assert was(repository, first) is Baseline.MATCHED  # as it was, though changed in between
    assert was(repository, second) is Baseline.CHANGED
    assert was(repository, reverted) is Baseline.MATCHED
    assert was(repository, second, "b") is Baseline.MATCHED


def test_another_branch_that_was_checked_out_then_is_no_match(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    repository.git("switch", "-q", "-c", "side")
    repository.commit("on the side", a="side\n")
    on_the_side = clock(repository) + HALF_A_STEP
    repository.git("switch", "-q", "main")

    assert was(repository, on_the_side) is Baseline.CHANGED


def test_a_file_that_was_not_there_then_has_changed(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    before = clock(repository) + HALF_A_STEP
    repository.commit("second", b="two\n")

    assert was(repository, before, "b") is Baseline.CHANGED


def test_in_a_fresh_clone_the_commit_s_time_decides(repository: Repository, tmp_path: Path) -> None:
    repository.commit("first", a="one\n")
    first = clock(repository)
    repository.commit("second", b="two\n")
    second = clock(repository)
    fresh = clone(repository, tmp_path / "clone")

    assert was(fresh, first - HALF_A_STEP) is Baseline.CHANGED
    assert was(fresh, first) is Baseline.MATCHED
    assert was(fresh, first + HALF_A_STEP) is Baseline.MATCHED
    assert was(fresh, first + HALF_A_STEP, "b") is Baseline.CHANGED
    assert was(fresh, second, "b") is Baseline.MATCHED


def test_a_time_within_the_second_of_the_change_cannot_be_told(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("first", a="one\n")
    repository.commit("second", a="two\n")
    within = clock(repository) + timedelta(microseconds=500_000)
    fresh = clone(repository, tmp_path / "clone")

    assert was(repository, within) is Baseline.CANNOT_TELL
    assert was(fresh, within) is Baseline.CANNOT_TELL
    assert was(repository, clock(repository)) is Baseline.MATCHED


def test_a_modified_an_untracked_and_an_unborn_file_are_told_apart(
    repository: Repository,
) -> None:
    repository.write("a", "one\n")
    unborn = was(repository, NOW)
    repository.commit("first")
    repository.write("a", "two\n")
    repository.write("b", "three\n")
    repository.git("add", "b")

    assert unborn is Baseline.UNTRACKED
    assert was(repository, NOW) is Baseline.MODIFIED
    assert was(repository, NOW, "b") is Baseline.UNTRACKED


def test_a_file_that_git_gave_crlf_is_as_head_has_it(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    repository.write("a", "one\r\n")

    assert was(repository, NOW) is Baseline.MODIFIED
    assert was(repository, NOW, lf=repository.blob("one\n")) is Baseline.MATCHED


def test_a_time_in_the_future_tells_nothing(repository: Repository) -> None:
    repository.commit("first", a="one\n")

    assert was(repository, NOW + timedelta(minutes=4)) is Baseline.MATCHED
    assert was(repository, NOW + timedelta(minutes=6)) is Baseline.CANNOT_TELL


def test_behind_a_shallow_boundary_nothing_can_be_told(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("first", a="one\n")
    first = clock(repository)
    repository.commit("second", b="two\n")
    second = clock(repository)
    repository.commit("third", c="three\n")
    fresh = clone(repository, tmp_path / "clone", "--depth=2")

    assert was(fresh, first + HALF_A_STEP) is Baseline.CANNOT_TELL
    assert was(fresh, second) is Baseline.MATCHED
    assert was(fresh, second, "c") is Baseline.CHANGED


def test_a_reflog_with_a_gap_is_not_believed(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    first = clock(repository)
    repository.git("-c", "core.logAllRefUpdates=false", "config", "core.logAllRefUpdates", "false")
    (repository.root / ".git" / "logs" / "HEAD").rename(repository.root / "saved")
    repository.commit("not logged", a="two\n")
    (repository.root / "saved").rename(repository.root / ".git" / "logs" / "HEAD")

    # By the reflog HEAD would still be at the first commit; by time the second one is later.
    assert was(repository, first + HALF_A_STEP) is Baseline.CHANGED
    assert was(repository, NOW) is Baseline.MATCHED


def test_a_reflog_whose_clock_went_backwards_is_not_believed(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    repository.clock_s += 10_000
    repository.commit("second", a="two\n")
    repository.clock_s -= 9_000
    repository.commit("third", a="three\n")
    third = clock(repository)

    assert was(repository, third + HALF_A_STEP) is Baseline.MATCHED  # by its commit's time


def test_a_commit_of_the_reflog_that_is_gone_leaves_it_to_time(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    repository.commit("to be lost", b="lost\n")
    lost = clock(repository) + HALF_A_STEP
    oid = repository.head()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    (repository.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()

    assert was(repository, lost) is Baseline.MATCHED


def test_a_fifo_or_nonsense_for_a_reflog_is_no_wait(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    first = clock(repository)
    log = repository.root / ".git" / "logs" / "HEAD"
    log.write_bytes(b"nonsense\n\0\n" + b"0" * 40 + b"\n")
    nonsense = was(repository, first)
    log.unlink()
    os.mkfifo(log)

    assert nonsense is was(repository, first) is Baseline.MATCHED


def test_a_linked_worktree_has_its_own_reflog(repository: Repository, tmp_path: Path) -> None:
    repository.commit("first", a="one\n")
    repository.commit("second", a="two\n")
    repository.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "HEAD~1")
    linked = Repository(tmp_path / "linked", tmp_path / "home")
    linked.clock_s = repository.clock_s
    at_first = clock(linked) + HALF_A_STEP
    linked.git("switch", "-q", "--detach", "main")

    assert was(linked, at_first) is Baseline.CHANGED
    assert was(repository, at_first) is Baseline.MATCHED


def test_a_symlink_and_another_hash_cannot_be_told(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "link").symlink_to("a")
    repository.commit("first", a="one\n")
    other = new_repository(tmp_path / "sha256", tmp_path / "home", "--object-format=sha256")
    other.commit("first", a="one\n")
    head = read_head(other.places)

    answer = baseline(other.places, head, {b"a": repository.blob("one\n")}, NOW, NOW)

    assert was(repository, NOW, "link") is Baseline.CANNOT_TELL
    assert answer == {b"a": Baseline.CANNOT_TELL}


@pytest.mark.parametrize("seed", range(3))
def test_many_times_at_once_give_what_each_last_commit_says(
    repository: Repository, seed: int
) -> None:
    paths = random_history(repository, seed, 60)
    repository.git("reset", "-q", "--hard")
    places = repository.places
    (repository.root / ".git" / "logs" / "HEAD").unlink()
    head = read_head(places)
    blobs = {}
    changed_s = {}
    for path, entry in entries_at(places, "HEAD", paths).items():
        assert entry.blob is not None
        blobs[path] = entry.blob
        log = repository.git("log", "-1", "--first-parent", "-m", "--format=%ct", "--", path)
        changed_s[path] = int(log)
    times = range(FIRST_COMMIT_S - 900, FIRST_COMMIT_S + 4800, 120)
    asked = [AsOf(datetime.fromtimestamp(s, UTC), frozenset(blobs)) for s in times]

    answers = baselines(places, head, blobs, asked, NOW)

    for second, answer in zip(times, answers, strict=True):
        assert answer == {
            path: Baseline.MATCHED if changed_s[path] <= second else Baseline.CHANGED
            for path in blobs
        }


def test_each_time_of_many_is_answered_for_its_own_paths(repository: Repository) -> None:
    repository.commit("first", a="one\n", b="two\n")
    first = clock(repository) + HALF_A_STEP
    repository.commit("second", a="three\n")
    blobs = {b"a": repository.blob("three\n"), b"b": b"x" * 20, b"new": b"x" * 20}
    asked = [
        AsOf(first, frozenset({b"a", b"new"})),
        AsOf(NOW, frozenset({b"a", b"b"})),
        AsOf(NOW + timedelta(days=1), frozenset({b"a"})),
        AsOf(NOW, frozenset()),
    ]

    answers = baselines(repository.places, read_head(repository.places), blobs, asked, NOW)

    assert answers == [
        {b"a": Baseline.CHANGED, b"new": Baseline.UNTRACKED},
        {b"a": Baseline.MATCHED, b"b": Baseline.MODIFIED},
        {b"a": Baseline.CANNOT_TELL},
        {},
    ]


def test_more_history_than_there_is_time_for_cannot_be_told(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("first", a="one\n")
    first = clock(repository)
    repository.commit("second", b="two\n")
    fresh = clone(repository, tmp_path / "clone")
    monkeypatch.setattr(baselines_module, "_LINE_MAX", 1)

    assert was(fresh, first, "b") is Baseline.CHANGED
    assert was(fresh, first) is Baseline.CANNOT_TELL


def test_of_a_day_every_moment_counts(repository: Repository) -> None:
    repository.commit("first", a="one\n", b="b\n", c="one\n")
    begin = clock(repository) + HALF_A_STEP
    repository.commit("second", a="two\n", c="two\n")
    repository.commit("third", a="one\n")
    end = clock(repository) + HALF_A_STEP
    repository.commit("fourth", c="three\n")

    def all_day(path: str, begin: datetime, end: datetime) -> Baseline:
        blobs = {path.encode(): repository.blob((repository.root / path).read_bytes())}
        asked = [AsOf(begin, frozenset(blobs), end)]
        (answer,) = baselines(repository.places, read_head(repository.places), blobs, asked, NOW)
        return answer[path.encode()]

    def answers() -> list[Baseline]:
        return [all_day(path, begin, end) for path in "abc"] + [all_day("a", end, NOW)]

    by_reflog = answers()
    shutil.rmtree(repository.root / ".git/logs")
    by_time = answers()

    expected = [Baseline.CANNOT_TELL, Baseline.MATCHED, Baseline.CHANGED, Baseline.MATCHED]
    assert by_reflog == by_time == expected


def test_a_day_that_a_checkout_falls_into_was_on_both_branches(repository: Repository) -> None:
    repository.commit("first", a="one\n")
    repository.git("branch", "side")
    begin = clock(repository) + HALF_A_STEP
    repository.git("switch", "-q", "side")
    repository.commit("there", a="two\n")
    repository.git("switch", "-q", "main")
    end = clock(repository) + HALF_A_STEP

    blobs = {b"a": repository.blob("one\n")}
    asked = [AsOf(begin, frozenset(blobs), end), AsOf(begin, frozenset(blobs))]
    answers = baselines(repository.places, read_head(repository.places), blobs, asked, NOW)

    assert answers == [{b"a": Baseline.CANNOT_TELL}, {b"a": Baseline.MATCHED}]
