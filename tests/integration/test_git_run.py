"""git started on repositories that would rather run something, hang, or be somebody else."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from amend.edge.git import run
from amend.edge.git.head import read_head
from amend.edge.git.history import (
    baseline,
    changed_paths,
    entries_at,
    find_move,
    is_tracked,
    last_commits,
)
from amend.edge.git.places import RepositoryPlaces, discover, verify
from amend.edge.git.run import BRANCH, TREE, Command, GitFailed, GitTimedOut, git_path, run_git
from amend.errors import Refused
from tests.integration.git_repositories import Repository, new_repository

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "r", tmp_path / "home")
    repository.commit("first", a="one\n", b="two\n")
    repository.commit("second", a="three\n")
    return repository


def ask_everything(repository: Repository) -> None:
    """Every function that starts git, on every way it can take."""
    places = repository.places
    verify(places)
    head = read_head(places)
    assert head.oid is not None
    paths = [b"a", b"b", *(b"x%d" % i for i in range(10))]
    entries_at(places, head.oid, paths)
    last_commits(places, head.oid, paths)
    last_commits(places, head.oid, [b"a"])
    changed_paths(places, f"{head.oid}^", head.oid)
    is_tracked(places, b"a")
    baseline(places, head, {b"a": repository.blob("three\n")}, NOW, NOW)
    for path in (b"b", b"gone"):
        find_move(
            places,
            head.oid,
            path,
            repository.blob("two\n"),
            hash_path=lambda _: None,
            list_directory=lambda _: [],
        )


def set_canaries(repository: Repository, directory: Path) -> Path:
    """Configure everything that git can be made to run; whatever runs leaves a file."""
    fired = directory / "fired"
    script = directory / "canary"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> {fired}\ncat\n')
    script.chmod(0o755)
    hooks = directory / "hooks"
    hooks.mkdir()
    (repository.root / ".git" / "hooks").mkdir()
    (repository.root / ".git" / "info").mkdir()
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc", "post-checkout"):
        (hooks / hook).symlink_to(script)
        (repository.root / ".git" / "hooks" / hook).symlink_to(script)
    for name in (
        *("core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "core.editor"),
        *("diff.external", "diff.canary.textconv", "diff.canary.command"),
        *("filter.canary.clean", "filter.canary.smudge", "filter.canary.process"),
        *("credential.helper", "gpg.program", "pager.rev-list", "pager.diff-tree"),
        *("uploadpack.packObjectsHook", "remote.origin.uploadpack", "interactive.diffFilter"),
    ):
        repository.git("config", name, str(script))
    repository.git("config", "core.hooksPath", str(hooks))
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "protocol.ext.allow", "always")
    (repository.root / ".git" / "info" / "attributes").write_text("* filter=canary diff=canary\n")
    return fired


def test_nothing_that_a_repository_configures_is_ever_run(
    repository: Repository, tmp_path: Path
) -> None:
    fired = set_canaries(repository, tmp_path)
    os.utime(repository.root / "a", (1, 1))  # makes git want to look into the file again

    ask_everything(repository)

    assert not fired.exists(), fired.read_text()
    repository.git("status", fails=True)
    assert fired.exists(), "the canaries are alive"


def test_a_missing_object_of_a_partial_clone_is_not_fetched(
    repository: Repository, tmp_path: Path
) -> None:
    fired = set_canaries(repository, tmp_path)
    head = repository.head()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    for name, value in (
        ("remote.origin.url", f"ext::{tmp_path / 'canary'} %S"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "tree:0"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    ):
        repository.git("config", name, value)
    (repository.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    fired.unlink(missing_ok=True)

    with pytest.raises(GitFailed):
        entries_at(repository.places, head, [b"a"])
    found = last_commits(repository.places, head, [b"a", *(b"x%d" % i for i in range(10))])

    assert found == {}
    assert not fired.exists(), fired.read_text()


def test_asking_leaves_the_git_directory_as_it_was(repository: Repository) -> None:
    def facts() -> dict[str, tuple[int, int, int, int]]:
        found = {}
        for directory, _, names in os.walk(repository.root / ".git"):
            for path in [directory, *(os.path.join(directory, name) for name in names)]:
                about = os.lstat(path)
                found[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        return found

    os.utime(repository.root / "a", (1, 1))
    repository.head()
    before = facts()

    ask_everything(repository)

    # `hash-object` and `rev-parse` of the test itself write nothing either.
    assert facts() == before


def test_a_surrounding_git_changes_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_repository(tmp_path / "other", tmp_path / "home")
    other.commit("of another", a="another\n")
    fired = tmp_path / "fired"
    for name, value in (
        ("GIT_DIR", str(other.root / ".git")),
        ("GIT_WORK_TREE", str(other.root)),
        ("GIT_INDEX_FILE", str(tmp_path / "no-index")),
        ("GIT_OBJECT_DIRECTORY", str(other.root / ".git" / "objects")),
        ("GIT_EXTERNAL_DIFF", f"touch {fired}"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.worktree"),
        ("GIT_CONFIG_VALUE_0", str(other.root)),
        ("GIT_TRACE", str(fired)),
        ("GIT_PREFIX", "sub/"),
        ("GIT_PYTHON_TRACE", "full"),
    ):
        monkeypatch.setenv(name, value)

    ask_everything(repository)
    entries = entries_at(repository.places, "HEAD", [b"a"])

    assert entries[b"a"].blob == repository.blob("three\n")
    assert is_tracked(repository.places, b"a")
    assert not fired.exists()


def test_an_include_that_hangs_is_a_time_out_and_leaves_no_process(
    repository: Repository, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    repository.git("config", "include.path", str(fifo))
    places = repository.places
    began_s = time.monotonic()

    with pytest.raises(GitTimedOut, match="list the files of a commit within"):
        entries_at(places, "HEAD", [b"a"], limit_s=0.3)
    found = last_commits(places, "HEAD", [b"a", *(b"x%d" % i for i in range(9))], limit_s=0.3)

    assert found == {}
    assert time.monotonic() - began_s < 3
    assert places.tally.timeouts >= 2
    with pytest.raises(OSError, match="No such device"):  # nobody has the other end open
        os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)


def test_more_output_than_is_of_use_is_cut_off(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "OUTPUT_BYTES_MAX", 10)

    with pytest.raises(GitFailed, match="more than 10 bytes"):
        entries_at(repository.places, "HEAD", [b"a", b"b"])


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (Command(("status",), frozenset(), "say what changed"), []),
        (TREE, ["--format=%(path)", "HEAD"]),
        (BRANCH, ["refs/heads/main"]),
    ],
)
def test_a_command_that_is_not_listed_is_a_bug(
    repository: Repository, command: Command, arguments: list[str]
) -> None:
    with pytest.raises(AssertionError):
        run_git(os.fsencode(repository.root), command, arguments)


def test_a_name_that_looks_like_an_option_is_refused(repository: Repository) -> None:
    with pytest.raises(GitFailed, match="names no commit"):
        entries_at(repository.places, "--name-only", [b"a"])


def test_a_repository_of_somebody_else_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = repository.places
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(Refused, match="must be yours"):
        discover(places.root)
    with pytest.raises(Refused, match="must be yours"):
        entries_at(places, "HEAD", [b"a"])


def test_git_does_not_answer_for_a_repository_around_the_one_that_is_gone(
    repository: Repository,
) -> None:
    inner = new_repository(repository.root / "inner", repository.root)
    inner.commit("inside", a="inside\n")
    places = inner.places
    (inner.root / ".git").rename(inner.root / "gone")

    with pytest.raises(GitFailed):
        entries_at(places, "HEAD", [b"a"])


def test_an_error_says_what_was_asked_and_what_git_said(repository: Repository) -> None:
    with pytest.raises(GitFailed) as raised:
        entries_at(repository.places, "0" * 40, [b"a"])

    assert raised.value.message.startswith("git could not list the files of a commit: fatal: ")
    assert raised.value.said.startswith("fatal: ")
    assert raised.value.hint


def test_many_odd_paths_pass_through_the_command_line(repository: Repository) -> None:
    odd = [b"~", b"$HOME", b"a=b", b"[", b"-x", b":(top)x", b"\xff\xfe", b"*", b"a\nb", b" ", b"\\"]
    for path in odd:
        repository.write(path, path)
    repository.commit("odd")
    no_paths = [b"", b"with\0nul", b"/etc/passwd", b"../r/a", b"./a", b"a//b", b"a/"]
    many = [*odd, *(b"dir/" * 20 + b"%d" % i for i in range(3000)), *no_paths]

    entries = entries_at(repository.places, "HEAD", many)

    assert {path: entry.blob for path, entry in entries.items()} == {
        path: repository.blob(path) for path in odd
    }


def test_without_git_it_can_be_imported_and_says_so_later(tmp_path: Path) -> None:
    program = (
        "import os; before = dict(os.environ)\n"
        "from amend.edge.git import run\n"
        "assert dict(os.environ) == before\n"
        "run._SANE_PATH = '/nonexistent'\n"
        "try: run.git_path()\n"
        "except run.GitFailed as error: print(error.message)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": f"relative:{tmp_path}", "HOME": str(tmp_path), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "no git command was found\n"
    assert done.stderr == ""


def test_git_is_taken_from_the_system_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "git"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    git_path.cache_clear()

    found = git_path()

    git_path.cache_clear()
    assert found != str(planted)


def test_places_compare_by_where_they_are(repository: Repository) -> None:
    one, other = repository.places, repository.places
    one.tally.commands += 1

    assert one == other
    assert isinstance(one, RepositoryPlaces)
