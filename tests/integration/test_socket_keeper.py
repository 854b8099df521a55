"""Whatever becomes of the runtime directory, the daemon goes on and can be reached again."""

import errno
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.daemon.logs import Log
from amend.daemon.socket_keeper import SocketKeeper
from amend.edge import service
from amend.edge.service import API_SOCKET, DaemonLock, OwnedSocket, prepare_private_dir
from benchmarks.running import Daemon


class Kept:
    """A keeper with all that it holds, and what it told."""

    def __init__(self, runtime: Path, log_path: Path) -> None:
        self.runtime = runtime
        self.path = runtime / API_SOCKET
        prepare_private_dir(runtime)
        self.lock = DaemonLock(runtime)
        self.owned = self.lock.claim_socket(self.path)
        self.accepting = [self.owned.sock]
        self.problems: list[str] = []
        self._log_path = log_path
        self._log_file = log_path.open("wb")
        log = Log(fd=self._log_file.fileno())
        self.keeper = SocketKeeper(self.lock, self.owned, self._accept, self.problems, log)

    async def _accept(self, sock: socket.socket) -> None:
        self.accepting.append(sock)

    def logged(self) -> str:
        return self._log_path.read_text()

    def is_reached(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.path))
        self.accepting[-1].accept()[0].close()
        return self.path.lstat().st_mode & 0o777 == 0o600

    def close(self) -> None:
        self.owned.close()
        for sock in self.accepting:
            sock.close()
        self.lock.release()
        self._log_file.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(Path(os.environ["AMEND_RUNTIME_DIR"]), tmp_path / "log")
    yield made
    made.close()


async def test_nothing_happens_while_the_socket_is_where_it_was_bound(kept: Kept) -> None:
    assert await kept.keeper.check()

    assert len(kept.accepting) == 1
    assert (kept.problems, kept.logged()) == ([], "")


async def test_a_removed_directory_is_made_again_closed_to_others_and_locked(kept: Kept) -> None:
    shutil.rmtree(kept.runtime)

    assert await kept.keeper.check()

    assert kept.is_reached()
    assert kept.runtime.stat().st_mode & 0o777 == 0o700
    with pytest.raises(service.Conflict, match="another daemon is running"):
        DaemonLock(kept.runtime)
    assert kept.logged().count("socket_rebound") == 1


def _file(runtime: Path) -> None:
    runtime.write_text("mine")


def _link_to_a_file(runtime: Path) -> None:
    runtime.with_name("there").write_text("mine")
    runtime.symlink_to("there")


def _link_to_a_directory(runtime: Path) -> None:
    runtime.with_name("there").mkdir(mode=0o700)
    runtime.symlink_to("there")


def _link_to_nothing(runtime: Path) -> None:
    runtime.symlink_to("nowhere")


def _directory_with_a_file_for_a_socket(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / API_SOCKET).write_text("mine")


def _directory_with_a_link_for_a_lock(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "lock").symlink_to("/dev/null")


def _open_directory_with_other_things(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o777)
    (runtime / "notes").write_text("mine")


def _directory_of_another_user(runtime: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    runtime.mkdir(mode=0o700)
    os.chown(runtime, 65534, 65534)


@pytest.mark.parametrize(
    "replace",
    [
        _file,
        _link_to_a_file,
        _link_to_a_directory,
        _link_to_nothing,
        _directory_with_a_file_for_a_socket,
        _directory_with_a_link_for_a_lock,
        _open_directory_with_other_things,
        _directory_of_another_user,
    ],
)
async def test_what_is_not_safe_in_its_place_is_left_and_told_once_until_it_is_gone(
    kept: Kept, replace: Callable[[Path], None]
) -> None:
    shutil.rmtree(kept.runtime)
    replace(kept.runtime)
    before = _listing(kept.runtime.parent)

    first = await kept.keeper.check()
    told = list(kept.problems)
    second = await kept.keeper.check()

    assert (first, second) == (True, True)
    assert kept.problems == told
    assert [str(kept.runtime) in problem for problem in told] == [True]
    assert kept.logged().count("socket_unreachable") == kept.logged().count("\n") == 1
    assert _listing(kept.runtime.parent) == before

    _remove(kept.runtime)
    assert await kept.keeper.check()
    assert kept.is_reached()
    assert kept.problems == []


def _listing(directory: Path) -> set[str]:
    """All there is but the lock, which may be held again already."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")} - {"amend/lock"}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize("name", ["mkdir", "open", "lstat", "listdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
async def test_a_disk_that_refuses_is_told_and_tried_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    shutil.rmtree(kept.runtime)
    if name == "listdir":  # asked only of a directory that others may read
        kept.runtime.mkdir(mode=0o755)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, refuse)
        assert await kept.keeper.check()
        assert len(kept.problems) == 1

    assert await kept.keeper.check()
    assert kept.is_reached()
    assert kept.problems == []


async def test_a_lock_that_cannot_be_written_is_held_all_the_same(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(kept.runtime)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    monkeypatch.setattr(os, "ftruncate", refuse)

    assert await kept.keeper.check()

    assert kept.is_reached()


async def test_another_daemon_that_serves_there_ends_this_one(kept: Kept) -> None:
    shutil.rmtree(kept.runtime)
    prepare_private_dir(kept.runtime)
    other = DaemonLock(kept.runtime)
    theirs = other.claim_socket(kept.path)

    goes_on = await kept.keeper.check()

    assert not goes_on
    assert "socket_replaced" in kept.logged()
    assert theirs.still_ours() == "ours"
    theirs.close()
    other.release()


async def test_another_daemon_that_only_starts_is_waited_for(kept: Kept) -> None:
    shutil.rmtree(kept.runtime)
    prepare_private_dir(kept.runtime)
    other = DaemonLock(kept.runtime)

    assert await kept.keeper.check()
    assert "another daemon is running" in kept.problems[0]
    other.release()

    assert await kept.keeper.check()
    assert kept.is_reached()


async def test_what_a_dead_daemon_left_there_is_replaced(kept: Kept) -> None:
    shutil.rmtree(kept.runtime)
    prepare_private_dir(kept.runtime)
    dead = OwnedSocket(kept.path)
    dead.sock.close()

    assert await kept.keeper.check()

    assert kept.is_reached()


async def test_a_socket_out_of_sight_is_told_until_it_is_seen_again(kept: Kept) -> None:
    aside = kept.runtime.with_name("aside")
    kept.runtime.rename(aside)
    kept.runtime.write_text("mine")

    assert await kept.keeper.check()
    assert len(kept.problems) == 1
    kept.runtime.unlink()
    aside.rename(kept.runtime)
    assert await kept.keeper.check()

    assert kept.problems == []
    assert len(kept.accepting) == 1
    assert "socket_reachable" in kept.logged()


# A running daemon looks every ten seconds.
IMPATIENT = """
import os
from amend.daemon import run
run.SOCKET_CHECK_S = 0.01
run.run_daemon(os.environ)
"""


def test_a_running_daemon_survives_the_loss_of_its_directory(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.command = [sys.executable, "-c", IMPATIENT]
    with daemon:
        before = daemon.get("/v1/hello")
        shutil.rmtree(daemon.runtime)
        over_the_old_connection = daemon.get("/v1/hello")
        daemon._hang_up()

        over_a_new_one = eventually_answered(daemon)

        assert before == over_the_old_connection == over_a_new_one
        assert daemon.get("/readyz") == {"ok": True, "problems": []}
        daemon.stop()
        assert not daemon.socket.exists()


def eventually_answered(daemon: Daemon) -> object:
    until_s = time.monotonic() + 20
    while True:
        try:
            return daemon.get("/v1/hello")
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.01)
