"""Watching runs nobody's code, on a repository that names a program wherever git takes one."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amend.edge.git.run import ALLOWED
from tests.integration.canaries import CANARIES, Canary, Hostile, copy_hostile, make_hostile
from tests.integration.canary_daemon import (
    STALL_S,
    Neighbour,
    children,
    include_a_fifo,
    is_running,
    is_tied,
    recorded_daemon,
    write_older_entries,
)
from tests.integration.git_repositories import new_repository
from tests.integration.test_daemon import eventually


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    return make_hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return make_hostile(tmp_path / "hostile")


# -- the control -------------------------------------------------------------------------------


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_plain_git_sets_the_canary_off(original: Hostile, tmp_path: Path, canary: Canary) -> None:
    hostile = copy_hostile(original, tmp_path / "copy")

    hostile.provoke(canary)

    assert (canary.name in hostile.fired()) is not bool(canary.cannot)
    if canary.cannot:
        pytest.skip(f"it cannot fire: {canary.cannot}")


# -- every question of git ---------------------------------------------------------------------


def test_a_working_day_in_a_hostile_repository_fires_nothing(
    hostile: Hostile, tmp_path: Path
) -> None:
    write_older_entries(hostile.root)
    with recorded_daemon(tmp_path) as daemon, Neighbour(daemon, tmp_path) as neighbour:
        daemon.add(hostile.root)
        for key, files in (
            ("edited", ["x0.py"]),
            ("walked", [f"x{i}.py" for i in range(10)]),
            ("deleted", ["b.py"]),
            ("moved", ["e.py"]),
            ("moved-and-committed", ["src/c.py"]),
            ("embedded", ["vendor/bare/config", "HEAD"]),
        ):
            daemon.put(hostile.root, key, files)
        said = {}

        for moment, happens in working_day(hostile):
            happens()
            daemon.sync()
            said[moment] = {
                key: (row["verdict"], *(cause["cause"] for cause in row["causes"]))
                for key, row in daemon.entries(hostile.root).items()
            }

        assert hostile.fired() == set()
        assert said["edit"]["edited"] == ("stale", "edited")
        assert said["commit"]["edited"] == ("stale", "committed")
        assert said["delete"]["deleted"] == ("stale", "deleted")
        assert said["move"]["moved"] == ("fresh", "moved")
        assert said["commit the moves"]["moved-and-committed"] == ("fresh", "moved")
        assert said["switch back"]["walked"] == ("stale", *["committed"] * 10)
        asked = set((tmp_path / "asked").read_text().splitlines())
        assert asked == {" ".join(command.words) for command in ALLOWED}
    assert set(neighbour.answers) == {"fresh"}
    assert neighbour.slowest_s < STALL_S


def working_day(hostile: Hostile) -> Iterator[tuple[str, Callable[[], Any]]]:
    repository, git_dir = hostile.repository, hostile.root / ".git"

    def write(text: str, *paths: str) -> Callable[[], None]:
        return lambda: [repository.write(path, text) for path in paths] and None

    def git(*arguments: str) -> Callable[[], str]:
        return lambda: repository.git(*arguments)

    every = [f"x{i}.py" for i in range(10)]
    yield "note", write("2026-11-30: a title\n  - a bullet\n", "memory/note.aicontext")
    yield "edit", write("edited\n", *every)
    yield "commit", git("commit", "-qam", "edit all")
    yield "delete", (hostile.root / "b.py").unlink
    yield "move", lambda: (hostile.root / "e.py").rename(hostile.root / "f.py")
    yield "move by git", git("mv", "src/c.py", "src/moved.py")
    yield "commit the moves", lambda: repository.commit("move")
    yield "touch", lambda: [os.utime(hostile.root / path, (1, 1)) for path in every]
    yield "switch", git("switch", "-qc", "other")
    yield "change there", lambda: repository.commit("there", **{"a.py": "there\n"})
    yield "switch back", git("switch", "-q", "main")
    yield "change here", lambda: repository.commit("here", **{"a.py": "here\n"})
    yield "conflict", lambda: repository.git("merge", "-q", "other", fails=True)
    yield "abort", git("merge", "--abort")
    yield (
        "unset the hooks' path",
        lambda: hostile.config.write_text(
            hostile.config.read_text().replace("hooksPath", "noHooksPath")
        ),
    )
    yield "amend", git("commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    yield "stash", lambda: (write("to stash\n", "a.py")(), repository.git("stash", "-q"))
    yield "pop", lambda: repository.git("stash", "pop", "-q")
    yield "reset", git("reset", "-q", "--hard", "HEAD~1")
    yield "detach", git("checkout", "-q", "--detach")
    yield "pack", git("pack-refs", "--all")
    yield "attach", git("switch", "-q", "main")

    def pack_too_many() -> None:
        packed = git_dir / "packed-refs"
        many = "".join(f"{head} refs/tags/{i:0200}\n" for i in range(1 << 15))
        packed.write_text(f"# pack-refs with: sorted\n{head} refs/heads/main\n{many}")
        (git_dir / "refs" / "heads" / "main").unlink(missing_ok=True)

    head = repository.head()
    yield "too many refs", pack_too_many
    yield "a reftable's HEAD", lambda: (git_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
    yield "lose the repository", lambda: git_dir.rename(hostile.root / "was.git")


# -- what hangs --------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere git ends at its next write")
@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_a_git_that_hangs_ends_with_the_daemon(tmp_path: Path, kill: bool) -> None:
    repository = new_repository(tmp_path / "repo", tmp_path)
    repository.commit("begin", **{"a.py": "one\n"})
    with recorded_daemon(tmp_path, limit_s=60.0) as daemon:
        daemon.add(repository.root)
        daemon.put(repository.root, "auth", ["a.py"])
        daemon.sync()
        include_a_fifo(repository)
        repository.write("a.py", "two\n")
        (hanging,) = eventually(lambda: children(daemon.pid))
        eventually(lambda: is_tied(hanging))

        daemon.stop(kill=kill)

        eventually(lambda: not is_running(hanging))
