"""Where amend lives on a machine, and how there is one daemon and no second.

Directories: `runtime_dir` for the lock and sockets, `state_dir` for the store; both 0700 and yours.
One daemon: a `flock` held for life, never a process id. Under it a socket is probed, then bound, and
afterwards only ever removed by the inode that was bound.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from amend.errors import ConfigInvalid, Conflict, Refused

# What fits into sockaddr_un with its NUL: measured on Linux, documented on macOS.
SOCKET_PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107

API_SOCKET: Final = "api.sock"

# A burst of hooks at a session's start; the kernel caps it at somaxconn.
BACKLOG: Final = 256

# A live daemon accepts at once; one that is stopped (SIGSTOP) still completes a connect.
PROBE_S: Final = 1.0


def home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or os.path.expanduser("~"))


def state_dir(env: Mapping[str, str]) -> Path:
    if chosen := env.get("AMEND_STATE_DIR"):
        return Path(chosen).absolute()
    if base := env.get("XDG_STATE_HOME"):
        return Path(base) / "amend"
    return home(env) / ".local/state/amend"


def config_path(env: Mapping[str, str]) -> Path:
    if chosen := env.get("AMEND_CONFIG"):
        return Path(chosen).absolute()
    if base := env.get("XDG_CONFIG_HOME"):
        return Path(base) / "amend/config.toml"
    return home(env) / ".config/amend/config.toml"


def runtime_dir(env: Mapping[str, str]) -> Path:
    """Daemon and clients resolve it alike. Raises `ConfigInvalid` when a chosen one is too long."""
    if chosen := env.get("AMEND_RUNTIME_DIR"):
        path = Path(chosen).absolute()
        if _fits(path):
            return path
        raise ConfigInvalid(
            f"AMEND_RUNTIME_DIR is {path}: a socket in it would have a path of "
            f"{_length(path)} bytes, at most {SOCKET_PATH_BYTES_MAX} work",
            hint="choose a shorter directory, for example /tmp/amend-$UID",
        )
    base = env.get("XDG_RUNTIME_DIR")
    path = Path(base) / "amend" if base and _is_private(base) else state_dir(env) / "run"
    return path if _fits(path) else Path(f"/tmp/amend-{os.geteuid()}")


def socket_path(env: Mapping[str, str]) -> Path:
    return runtime_dir(env) / API_SOCKET


def _length(directory: Path) -> int:
    return len(os.fsencode(directory / API_SOCKET))


def _fits(directory: Path) -> bool:
    return _length(directory) <= SOCKET_PATH_BYTES_MAX


def _is_private(path: str) -> bool:
    """WSL and containers hand out directories that are somebody else's, or everybody's."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    )


def prepare_private_dir(path: Path) -> None:
    """Make it, or check that it is yours alone. Raises `Refused`; never touches a parent's mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = os.lstat(path)
    except OSError as error:
        raise Refused(
            f"{path}: cannot be made: {error.strerror}",
            hint="set AMEND_RUNTIME_DIR and AMEND_STATE_DIR to directories you own",
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is no directory", hint="remove it, or choose another place")
    if found.st_uid != os.geteuid():
        raise Refused(
            f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
            hint="it may be left from `sudo amend`; remove it as its owner",
        )
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)


def scrub_environment() -> None:
    """Forget what a surrounding git (a hook) told its children: it is about another repository."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]


class OwnedSocket:
    """A listening socket and the inode that was bound for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sock = self._bind()

    def _bind(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            sock.bind(os.fsencode(self.path))
        except BaseException:
            sock.close()
            raise
        finally:
            os.umask(before)
        sock.listen(BACKLOG)
        sock.setblocking(False)
        found = os.lstat(self.path)
        self._inode = (found.st_dev, found.st_ino)
        return sock

    def still_ours(self) -> Literal["ours", "missing", "replaced"]:
        try:
            found = os.lstat(self.path)
        except OSError:
            return "missing"
        return "ours" if (found.st_dev, found.st_ino) == self._inode else "replaced"

    def bind_again(self) -> socket.socket:
        """After `missing`: a new listening socket; the old one is the caller's to close."""
        self.sock = self._bind()
        return self.sock

    def close(self) -> None:
        """Remove the path if it is still the one that was bound here."""
        if self.still_ours() == "ours":
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.sock.close()


class DaemonLock:
    """The right to be the daemon. Held until `release`, or until the process ends."""

    def __init__(self, runtime: Path) -> None:
        """Raises `Conflict` when another daemon holds it."""
        self._fd = os.open(runtime / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise Refused(
                    f"{runtime}/lock cannot be locked: {error.strerror}",
                    hint="put AMEND_RUNTIME_DIR on a local filesystem",
                ) from error
            raise Conflict(
                f"another daemon is running (process {holder or 'unknown'})",
                hint="`amend status` asks it",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)  # for people; never read to decide

    def claim_socket(self, path: Path) -> OwnedSocket:
        """Bind `path`, removing what a dead daemon left. Raises `Conflict` when somebody answers."""
        if os.path.lexists(path):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(PROBE_S)
                try:
                    probe.connect(os.fsencode(path))
                except OSError:
                    pass
                else:
                    raise Conflict(
                        f"{path}: something answers there already",
                        hint="it is no daemon of this runtime directory; stop it or move it",
                    )
            os.unlink(path)
        return OwnedSocket(path)

    def release(self) -> None:
        os.close(self._fd)


def sd_notify(message: str, env: Mapping[str, str]) -> None:
    """Tell systemd, where it listens. Source: sd_notify(3)."""
    address = env.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.sendto(message.encode(), name)
