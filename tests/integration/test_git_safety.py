"""What git is given, what amend does with one that hangs or lies, and whose repositories it asks.

`test_git_run` has the rest, on the functions alone.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amend.edge.git import run
from amend.edge.git.run import INDEX, LIMIT_S, TREE, GitFailed, GitTimedOut, git_path, run_git
from benchmarks.running import Daemon
from tests.integration.canaries import make_hostile
from tests.integration.canary_daemon import (
    STALL_S,
    Neighbour,
    children,
    include_a_fifo,
    is_running,
    recorded_daemon,
)
from tests.integration.git_repositories import Repository, new_repository
from tests.integration.test_daemon import eventually

# Of one command, where several in a row are to hang.
SHORT_S = 0.3

SOMEBODY = 12345

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "repo", tmp_path)
    repository.commit("begin", **{"a.py": "one\n", "b.py": "two\n"})
    repository.commit("go on", **{"a.py": "two\n"})
    return repository


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


# -- the process -------------------------------------------------------------------------------

# Stands in for git, and tells what it was given.
TELLING = """#!{python}
import json, os, sys
print(json.dumps({{
    "argv": sys.argv,
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "leads": os.getsid(0) == os.getpgid(0) == os.getpid(),
    "pipes": sum(os.path.exists(f"/proc/self/fd/{{fd}}")
                 and os.readlink(f"/proc/self/fd/{{fd}}").startswith(("pipe:", "socket:"))
                 for fd in os.listdir("/proc/self/fd")),
}}))
"""


def told(repository: Repository, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = directory / "telling"
    fake.write_text(TELLING.format(python=sys.executable))
    fake.chmod(0o755)
    monkeypatch.setattr(run, "git_path", lambda: str(fake))
    return json.loads(run_git(os.fsencode(repository.root), INDEX))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_git_gets_this_environment_and_these_options_and_nothing_else(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD_X", "a variable of the daemon's")

    facts = told(repository, tmp_path, monkeypatch)

    root = str(repository.root)
    assert facts["env"] == {
        "PATH": "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin",
        "HOME": os.environ["HOME"],
        "LANG": "C",
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(repository.root.parent),
    }
    words = facts["argv"][1:]
    settings = {words[i + 1] for i, word in enumerate(words) if word == "-c"}
    assert settings >= {
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.pager=cat",
        "safe.bareRepository=explicit",
        "protocol.allow=never",
    }
    assert {"--no-optional-locks", "--no-pager", "--literal-pathspecs"} <= set(words)
    assert words[-5:] == ["-C", root, "ls-files", "-s", "-z"]
    assert (facts["cwd"], facts["stdin"], facts["leads"]) == ("/", "/dev/null", True)
    assert facts["pipes"] == 3  # its output, its complaints and its lifeline


def test_git_is_started_by_an_absolute_path_and_given_five_seconds() -> None:
    assert os.path.isabs(git_path())
    assert LIMIT_S == 5.0


def test_what_takes_too_long_is_killed_with_all_that_it_started(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    fake = tmp_path / "sleeping"
    fake.write_text(f"#!/bin/sh\nsleep 60 &\necho $$ $! > {pids}\nwait\n")
    fake.chmod(0o755)
    monkeypatch.setattr(run, "git_path", lambda: str(fake))

    with pytest.raises(GitTimedOut):
        run_git(os.fsencode(repository.root), INDEX, limit_s=SHORT_S)

    for pid in map(int, pids.read_text().split()):
        eventually(lambda pid=pid: not is_running(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ties it")
def test_what_git_leaves_behind_is_killed_too(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    fake = tmp_path / "leaving"
    fake.write_text(f"#!/bin/sh\nsleep 60 > /dev/null 2>&1 &\necho $! > {left}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(run, "git_path", lambda: str(fake))

    run_git(os.fsencode(repository.root), INDEX)

    eventually(lambda: not is_running(int(left.read_text())))


def test_without_the_hardening_amends_own_questions_would_fire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = make_hostile(tmp_path / "hostile")
    root = hostile.repository.places.root
    kept = {name: os.environ[name] for name in ("PATH", "HOME")}

    def ask() -> set[str]:
        run_git(root, INDEX)
        with pytest.raises(GitFailed):
            run_git(root, TREE, ["HEAD~2:lost"])
        return hostile.fired()

    hardened = ask()
    monkeypatch.setattr(run, "_OPTIONS", ())
    monkeypatch.setattr(run, "_environment", lambda _: kept)
    unhardened = ask()

    assert hardened == set()
    assert unhardened == {"fsmonitor", "promisor"}


# -- a git that hangs or lies ------------------------------------------------------------------


def test_a_git_that_hangs_costs_its_repository_its_answers_and_no_other(
    repository: Repository, tmp_path: Path
) -> None:
    with (
        recorded_daemon(tmp_path, limit_s=SHORT_S) as daemon,
        Neighbour(daemon, tmp_path) as neighbour,
    ):
        daemon.add(repository.root)
        daemon.put(repository.root, "auth", ["a.py"])
        daemon.sync()
        include_a_fifo(repository)
        repository.write("a.py", "three\n")

        daemon.sync()
        answer = daemon.lookup(repository.root, "auth")
        (problem,) = problems(daemon, repository.root)

        assert (answer["verdict"], answer["causes"][0]["cause"]) == ("stale", "edited")
        assert problem == f"git could not list the files of a commit within {SHORT_S} s"
        assert children(daemon.pid) == []
    assert set(neighbour.answers) == {"fresh"}
    assert neighbour.slowest_s < STALL_S


def test_adding_a_repository_whose_git_hangs_keeps_nobody_waiting(
    repository: Repository, tmp_path: Path
) -> None:
    limit_s = 1.5
    include_a_fifo(repository)
    with (
        recorded_daemon(tmp_path, limit_s) as daemon,
        Neighbour(daemon, tmp_path) as neighbour,
    ):
        status, problem = daemon.request("POST", "/v1/repos", {"root": str(repository.root)})

    why = f"git could not say where the repository is within {limit_s} s"
    assert (status, problem["detail"]) == (503, why)
    assert neighbour.slowest_s < limit_s - 0.5


def test_a_head_that_git_has_to_read_and_hangs_over_keeps_nobody_waiting(
    repository: Repository, tmp_path: Path
) -> None:
    with (
        recorded_daemon(tmp_path, limit_s=0.1) as daemon,
        Neighbour(daemon, tmp_path) as neighbour,
    ):
        daemon.add(repository.root)
        include_a_fifo(repository)

        (repository.root / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
        daemon.sync()

    assert neighbour.slowest_s < 1  # it is asked twelve times


def problems(daemon: Daemon, root: Path) -> list[str]:
    rows = {row["root"]: row["problems"] for row in daemon.get("/v1/repos")}
    found: list[str] = rows[str(root)]
    return found


def test_a_repository_whose_worktree_is_elsewhere_is_refused_with_a_reason(
    daemon: Daemon, repository: Repository, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repository.git("config", "core.worktree", str(elsewhere))

    status, problem = daemon.request("POST", "/v1/repos", {"root": str(repository.root)})

    assert (status, is_tended(daemon, repository.root)) == (403, False)
    assert f"--show-toplevel says {elsewhere}" in problem["detail"]
    assert repository.git("rev-parse", "--show-toplevel") == str(elsewhere)  # git obeys it


def test_a_worktree_that_is_moved_elsewhere_later_leads_no_answer_astray(
    daemon: Daemon, repository: Repository, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.py").write_text("elsewhere\n")
    daemon.add(repository.root)
    daemon.put(repository.root, "auth", ["a.py"])
    daemon.put(repository.root, "moved", ["b.py"])
    repository.git("config", "core.worktree", str(elsewhere))
    before = daemon.lookup(repository.root, "auth")

    repository.write("a.py", "three\n")
    (repository.root / "b.py").rename(repository.root / "c.py")
    daemon.sync()
    after = daemon.lookup(repository.root, "auth")
    moved = daemon.lookup(repository.root, "moved")

    assert before["verdict"] == "fresh"
    assert (after["verdict"], after["causes"][0]["cause"]) == ("stale", "edited")
    assert moved["causes"][0]["cause"] == "moved"


# -- whose it is -------------------------------------------------------------------------------


def is_tended(daemon: Daemon, root: Path) -> bool:
    return str(root) in {row["root"] for row in daemon.get("/v1/repos")}


@as_root
@pytest.mark.parametrize("part", [".", ".git"])
def test_a_repository_of_somebody_else_is_refused_with_a_reason(
    daemon: Daemon, repository: Repository, part: str
) -> None:
    os.chown(repository.root / part, SOMEBODY, -1)

    status, problem = daemon.request("POST", "/v1/repos", {"root": str(repository.root)})

    assert (status, is_tended(daemon, repository.root)) == (403, False)
    assert f"belongs to user {SOMEBODY}, must be yours (0)" in problem["detail"]
    assert problem["hint"] == "a repository's configuration can run programs, so add only your own"


@as_root
def test_a_worktree_of_somebody_elses_repository_is_refused(
    daemon: Daemon, repository: Repository, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "-q", str(linked))
    os.chown(repository.root / ".git", SOMEBODY, -1)

    status, problem = daemon.request("POST", "/v1/repos", {"root": str(linked)})

    assert (status, is_tended(daemon, linked)) == (403, False)
    assert f"{repository.root / '.git'} belongs to user {SOMEBODY}" in problem["detail"]


@as_root
def test_the_command_line_refuses_it_with_and_without_a_daemon(
    daemon: Daemon, repository: Repository, tmp_path: Path
) -> None:
    os.chown(repository.root, SOMEBODY, -1)
    nowhere = daemon.env | {"AMEND_RUNTIME_DIR": str(tmp_path / "run")}

    for word, env in (("add", daemon.env), ("ls", nowhere)):
        done = subprocess.run(
            [sys.executable, "-m", "amend.cli.main", word],
            env=env,
            cwd=repository.root,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 1
        assert f"belongs to user {SOMEBODY}, must be yours (0)" in done.stderr


@as_root
def test_a_repository_that_is_given_away_later_is_asked_nothing_more(
    repository: Repository, tmp_path: Path
) -> None:
    with recorded_daemon(tmp_path) as daemon:
        daemon.add(repository.root)
        daemon.put(repository.root, "auth", ["a.py"])
        daemon.sync()
        asked = (tmp_path / "asked").read_text()
        os.chown(repository.root, SOMEBODY, -1)

        repository.write("a.py", "three\n")
        daemon.sync()
        answer = daemon.lookup(repository.root, "auth")
        (problem,) = problems(daemon, repository.root)

    assert answer["verdict"] == "stale"
    assert f"belongs to user {SOMEBODY}" in problem
    assert (tmp_path / "asked").read_text() == asked
