"""Whatever becomes of the runtime directory, the daemon goes on and can be reached again."""

import errno
import itertools
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.daemon.logs import Log
from amend.daemon.socket_keeper import KeptSocket, SocketKeeper
from amend.edge import service
from amend.edge.service import (
    API_SOCKET,
    DaemonLock,
    OwnedSocket,
    hook_socket_path,
    prepare_private_dir,
)
from benchmarks.running import Daemon


class Kept:
    """A keeper of an API's and a hook's socket with all that it holds, and what it told."""

    def __init__(self, runtime: Path, log_path: Path) -> None:
        self.runtime = runtime
        self.path = runtime / API_SOCKET
        prepare_private_dir(runtime)
        self.lock = DaemonLock(runtime)
        self.hook_path = hook_socket_path(runtime, "claude")
        self.accepting: dict[Path, list[socket.socket]] = {}
        self.problems: list[str] = []
        self._log_path = log_path
        self._log_file = log_path.open("wb")
        log = Log(fd=self._log_file.fileno())
        self.sockets = [self._claimed(self.path), self._claimed(self.hook_path)]
        self.keeper = SocketKeeper(self.lock, self.sockets, self.problems, log)

    def _claimed(self, path: Path) -> KeptSocket:
        owned = self.lock.claim_socket(path)
        accepting = self.accepting[path] = [owned.sock]

        async def accept(sock: socket.socket) -> None:
            accepting.append(sock)

        return KeptSocket(owned, accept)

    def logged(self) -> str:
        return self._log_path.read_text()

    def is_reached(self) -> bool:
        for path, accepting in self.accepting.items():
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            accepting[-1].accept()[0].close()
        modes = {path.lstat().st_mode & 0o777 for path in self.accepting}
        return modes == {0o600} and self.hook_path.parent.stat().st_mode & 0o777 == 0o700

    def accepted_anew(self) -> list[int]:
        """How often, on each socket."""
        return [len(accepting) - 1 for accepting in self.accepting.values()]

    def close(self) -> None:
        for kept in self.sockets:
            kept.owned.close()
        for sock in itertools.chain(*self.accepting.values()):
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

    assert kept.accepted_anew() == [0, 0]
    assert (kept.problems, kept.logged()) == ([], "")


async def test_a_removed_directory_is_made_again_closed_to_others_and_locked(kept: Kept) -> None:
    shutil.rmtree(kept.runtime)

    assert await kept.keeper.check()

    assert kept.is_reached()
    assert kept.runtime.stat().st_mode & 0o777 == 0o700
    with pytest.raises(service.Conflict, match="another daemon is running"):
        DaemonLock(kept.runtime)
    assert kept.logged().count("socket_rebound") == 2


async def test_only_the_socket_that_is_gone_is_made_anew(kept: Kept) -> None:
    shutil.rmtree(kept.hook_path.parent)

    assert await kept.keeper.check()

    assert kept.is_reached()
    assert kept.accepted_anew() == [0, 1]


async def test_a_hooks_directory_that_was_opened_to_others_is_closed_again(kept: Kept) -> None:
    kept.hook_path.unlink()
    (kept.hook_path.parent / "codex.sock").touch()
    kept.hook_path.parent.chmod(0o755)

    assert await kept.keeper.check()

    assert kept.is_reached()


async def test_who_takes_a_hooks_socket_is_no_daemon_and_is_told_of(kept: Kept) -> None:
    kept.hook_path.unlink()
    theirs = OwnedSocket(kept.hook_path)

    assert await kept.keeper.check()

    assert len(kept.problems) == 1
    assert str(kept.hook_path) in kept.problems[0]
    assert kept.accepted_anew() == [0, 0]
    theirs.close()
    assert await kept.keeper.check()
    assert kept.is_reached()
    assert kept.problems == []


async def test_two_sockets_with_two_problems_have_both_told(kept: Kept) -> None:
    for path in (kept.path, kept.hook_path):
        path.unlink()
        path.write_text("mine")

    assert await kept.keeper.check()
    told = len(kept.problems)
    kept.hook_path.unlink()
    assert await kept.keeper.check()

    assert told == 2
    assert len(kept.problems) == 1
    assert str(kept.path) in kept.problems[0]


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
    assert kept.logged().count("socket_unreachable") == 1
    assert _listing(kept.runtime.parent) == before

    _remove(kept.runtime)
    assert await kept.keeper.check()
    assert kept.is_reached()
    assert kept.problems == []


def _listing(directory: Path) -> set[str]:
    """All there is but the lock, which may be held again already, and the hooks' sockets."""
    ours = {"amend/lock", "amend/hooks", "amend/hooks/claude.sock"}
    return {str(path.relative_to(directory)) for path in directory.rglob("*")} - ours


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
    assert kept.accepted_anew() == [0, 0]
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
