"""Where amend lives on a machine, and how there is one daemon and no second.

Directories: `runtime_dir` for the lock and sockets, `state_dir` for the store; both 0700 and yours.
One daemon: a `flock` held for life, never a process id. Under it a socket is probed, then bound,
and afterwards only ever removed by the inode that was bound. Paths come from the environment that
is handed in, so daemon and clients resolve them alike.
"""

import contextlib
import errno
import fcntl
import os
import pwd
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
LOCK: Final = "lock"

# The directory of the hooks' sockets, and how long an agent's name may be in it: no directory may
# turn out to be too long when an agent is added, and no agent is called by more than a dozen.
HOOKS: Final = "hooks"
AGENT_BYTES_MAX: Final = 12
_LONGEST_SOCKET: Final = f"{HOOKS}/{'x' * AGENT_BYTES_MAX}.sock"

# A burst of hooks at a session's start, twice the connections served at once; the kernel caps it
# at somaxconn.
BACKLOG: Final = 256

# A live daemon's kernel accepts at once, even when the daemon itself is stopped (SIGSTOP).
PROBE_S: Final = 1.0

# How a connect fails when nobody listens any more. Every other way may be somebody alive: a full
# backlog is EAGAIN.
_NOBODY: Final = frozenset({errno.ECONNREFUSED, errno.ENOENT})

# What shows that a directory is amend's own, together with names that begin with "amend.".
_OWN_NAMES: Final = frozenset({LOCK, API_SOCKET, HOOKS, "run"})

# git's own, and the Perl path it sets for its scripts.
_FOREIGN_PREFIXES: Final = ("GIT_", "GITPERLLIB")


def home(env: Mapping[str, str]) -> Path:
    chosen = env.get("HOME", "")
    return Path(chosen if chosen.startswith("/") else pwd.getpwuid(os.geteuid()).pw_dir)


def state_dir(env: Mapping[str, str]) -> Path:
    if chosen := env.get("AMEND_STATE_DIR"):
        return _absolute("AMEND_STATE_DIR", chosen)
    return (_xdg(env, "XDG_STATE_HOME") or home(env) / ".local/state") / "amend"


def config_path(env: Mapping[str, str]) -> Path:
    if chosen := env.get("AMEND_CONFIG"):
        return _absolute("AMEND_CONFIG", chosen)
    return (_xdg(env, "XDG_CONFIG_HOME") or home(env) / ".config") / "amend/config.toml"


def runtime_dir(env: Mapping[str, str]) -> Path:
    """Daemon and clients resolve it alike. Raises `ConfigInvalid` when a chosen one is too long."""
    if chosen := env.get("AMEND_RUNTIME_DIR"):
        path = _absolute("AMEND_RUNTIME_DIR", chosen)
        if _fits(path):
            return path
        raise ConfigInvalid(
            f"AMEND_RUNTIME_DIR is {path}: a hook's socket in it would have a path of "
            f"{_length(path)} bytes, at most {SOCKET_PATH_BYTES_MAX} work",
            hint=f"choose a shorter directory, for example {_short_dir()}",
        )
    base = _xdg(env, "XDG_RUNTIME_DIR")
    if base is not None and _is_private(base):
        path = base / "amend"
    else:
        path = home(env) / ".local/state/amend/run"
    return path if _fits(path) else _short_dir()


def socket_path(env: Mapping[str, str]) -> Path:
    return runtime_dir(env) / API_SOCKET


def hook_socket_path(runtime: Path, agent: str) -> Path:
    """Raises `ValueError` for a name that is no agent's: empty, too long, or no word."""
    if not agent.isidentifier() or len(os.fsencode(agent)) > AGENT_BYTES_MAX:
        raise ValueError(f"{agent!r} is no agent's name")
    return runtime / HOOKS / f"{agent}.sock"


def _absolute(name: str, chosen: str) -> Path:
    if not chosen.startswith("/"):
        raise ConfigInvalid(
            f"{name} is {chosen!r}, must be an absolute path",
            hint="a relative one would mean another place in every directory",
        )
    return Path(chosen)


def _xdg(env: Mapping[str, str], name: str) -> Path | None:
    """None when unset or relative, which the XDG base directory specification says to ignore."""
    base = env.get(name, "")
    return Path(base) if base.startswith("/") else None


def _short_dir() -> Path:
    return Path(f"/tmp/amend-{os.geteuid()}")


def _length(directory: Path) -> int:
    """Of the longest path of a socket in it."""
    return len(os.fsencode(directory / _LONGEST_SOCKET))


def _fits(directory: Path) -> bool:
    return _length(directory) <= SOCKET_PATH_BYTES_MAX


def _is_private(path: Path) -> bool:
    """WSL and containers hand out directories that are somebody else's, or everybody's."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    )


def prepare_private_dir(path: Path, *, is_amends: bool = False) -> None:
    """Make it, or check that it is yours alone. Raises `Refused`; never touches a parent's mode.

    `is_amends`: nobody has chosen it, so it is closed to others whatever is in it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _make_private(path, fd, is_amends=is_amends)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.lexists(path):
            raise Refused(
                f"{path} is no directory of its own (a link or a file)",
                hint="remove it, or choose another place",
            ) from None
        raise Refused(
            f"{path} cannot be made or opened: {error.strerror}",
            hint="set AMEND_RUNTIME_DIR and AMEND_STATE_DIR to directories you own",
        ) from error


def _make_private(path: Path, fd: int, *, is_amends: bool) -> None:
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        raise Refused(
            f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
            hint="it may be left from `sudo amend`; remove it as its owner",
        )
    if not found.st_mode & 0o077:
        return
    # A directory that a person chose and keeps other things in has its mode for a reason.
    names = [] if is_amends else os.listdir(fd)
    if names and not any(name in _OWN_NAMES or name.startswith("amend.") for name in names):
        raise Refused(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, must be closed to others",
            hint=f"`chmod 700 {path}`, or choose a directory for amend alone",
        )
    os.fchmod(fd, 0o700)


def scrub_environment() -> None:
    """Forget what a surrounding git (a hook) told its children: it is about another repository."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN_PREFIXES)]:
        del os.environ[name]


class OwnedSocket:
    """A listening socket, and the inode that was bound for it.

    The kernel keeps that inode while the socket is open, so nobody else can get its number.
    """

    def __init__(self, path: Path, passed: socket.socket | None = None) -> None:
        """Bound here; or `passed`, bound there by a service manager whose path it stays.

        Raises `Conflict` when something is at the path, `Refused` when others may use it.
        """
        self.path = path
        self._is_passed = passed is not None
        self.sock = self._bind() if passed is None else self._adopt(passed)

    def _adopt(self, sock: socket.socket) -> socket.socket:
        try:
            found = os.lstat(self.path)
        except OSError as error:
            raise Refused(f"{self.path} cannot be looked at: {error.strerror}") from error
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISSOCK(found.st_mode):
            raise Refused(f"{self.path} is not the socket that was passed")
        if found.st_uid != os.geteuid():
            raise Refused(
                f"{self.path} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
                hint="let your own service manager make it, not the system's",
            )
        if mode != 0o600:
            raise Refused(
                f"{self.path} has mode {mode:04o}, must be 0600",
                hint="SocketMode=0600 for systemd, SockPathMode 384 for launchd",
            )
        sock.setblocking(False)
        self._inode = (found.st_dev, found.st_ino)
        return sock

    def _bind(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(os.fsencode(self.path))
            # Nobody can connect before `listen`, so there is no moment of a wider mode; a umask
            # would be every thread's.
            os.chmod(self.path, 0o600)
            found = os.lstat(self.path)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno == errno.EADDRINUSE:
                raise Conflict(
                    f"{self.path}: something came to be there meanwhile",
                    hint="`amend status` tells who answers",
                ) from None
            raise Refused(f"{self.path}: cannot listen: {error.strerror}") from error
        sock.setblocking(False)
        self._inode = (found.st_dev, found.st_ino)
        return sock

    def still_ours(self) -> Literal["ours", "missing", "replaced"]:
        try:
            found = os.lstat(self.path)
        except OSError:
            return "missing"
        return "ours" if (found.st_dev, found.st_ino) == self._inode else "replaced"

    def rebind(self) -> socket.socket:
        """A new listening socket, now `sock`; the old one is its server's to close. Raises as the
        constructor, and then nothing has changed."""
        self.sock = self._bind()
        self._is_passed = False
        return self.sock

    def close(self) -> None:
        """Remove the path if it is still the one that was bound here. Before the lock goes.

        That of a passed one stays: its manager goes on listening there.
        """
        if not self._is_passed and self.still_ours() == "ours":
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.sock.close()


class DaemonLock:
    """The right to be the daemon. Held until `release`, or until the process ends."""

    def __init__(self, runtime: Path) -> None:
        """Raises `Conflict` when another daemon holds it."""
        self.path = runtime / LOCK
        self._fd = self._take_at_path()

    def _take_at_path(self) -> int:
        while True:
            fd = self._take()
            try:
                if self._is_at_path(fd):
                    _note(fd, f"{os.getpid()}\n")
                    return fd
            except Refused:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed it between the open and the lock

    def _take(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise Refused(
                f"{self.path} cannot be opened: {error.strerror}",
                hint="it must be a plain file of yours; remove what is there",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise Refused(
                    f"{self.path} cannot be locked: {error.strerror}",
                    hint="put AMEND_RUNTIME_DIR on a local filesystem",
                ) from error
            raise Conflict(
                f"another daemon is running (process {holder or 'unknown'})",
                hint="`amend status` asks it",
            ) from None
        return fd

    def _is_at_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Refused(f"{self.path} cannot be looked at: {error.strerror}") from error

    def claim_socket(self, path: Path, passed: socket.socket | None = None) -> OwnedSocket:
        """Bind `path`, removing what a dead daemon left. `Conflict`: somebody answers there.

        `path` is in the runtime directory or in a directory there, which is made. `passed`: what a
        service manager has bound there; not taken, and closed, where nobody could reach it any more
        because its path was removed since.
        """
        self._prepare(path.parent)
        if passed is not None:
            if _is_reachable(path):
                return OwnedSocket(path, passed)
            passed.close()
        _clear(path)
        return OwnedSocket(path)

    def _prepare(self, directory: Path) -> None:
        if directory != self.path.parent:
            prepare_private_dir(directory, is_amends=True)

    def reclaim(self, owned: OwnedSocket) -> socket.socket:
        """After `missing` or `replaced`: `owned` is bound again, under the rules of a start.

        Makes the runtime directory and the lock in it again where they have gone. Raises what a
        start raises (`Conflict`: another daemon is there); then all is held that was held before.
        """
        prepare_private_dir(self.path.parent)
        if not self._is_at_path(self._fd):
            before, self._fd = self._fd, self._take_at_path()
            os.close(before)
        self._prepare(owned.path.parent)
        _clear(owned.path)
        return owned.rebind()

    def release(self) -> None:
        _note(self._fd, "")
        os.close(self._fd)


def _note(fd: int, text: str) -> None:
    """For people; never read to decide, so a full disk is no reason to fail."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode(), 0)


def _clear(path: Path) -> None:
    """Remove a socket that nobody answers at. Raises `Conflict` or `Refused` for all else."""
    try:
        found = os.lstat(path)
        if not stat.S_ISSOCK(found.st_mode):
            raise Refused(
                f"{path} is no socket, and amend removes nothing else",
                hint="move it away, or choose another AMEND_RUNTIME_DIR",
            )
        if _answers(path):
            raise Conflict(
                f"{path}: something answers there already",
                hint="it is no daemon of this runtime directory; stop it or move it. Where that is "
                "amend's service, `amend service status` knows it",
            )
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"{path} cannot be removed: {error.strerror}") from error


def _is_reachable(path: Path) -> bool:
    """Whether a client's connect gets anywhere. Of what is there otherwise this says nothing."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode) and _answers(path)
    except OSError:
        return False


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(os.fsencode(path))
        except OSError as error:
            return error.errno not in _NOBODY
        return True


def package_version() -> str:
    """The installed distribution's version; "0+unknown" in a bare checkout."""
    from importlib import metadata  # noqa: PLC0415  # 20 ms that a client need not pay

    try:
        return metadata.version("amend-daemon")
    except metadata.PackageNotFoundError:
        return "0+unknown"
