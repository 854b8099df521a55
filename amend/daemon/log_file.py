"""The log's file where no journal takes it: `log/amend.log` in the state directory, rotated.

Guarantees: yours alone (0600 in 0700); never more than `FILES` of `FILE_BYTES_MAX` each; whole
lines in order, each in one append; and that a full disk, a directory that cannot be written or one
that is removed stops nobody's work: lines are dropped and counted, and it is tried again.

The file is looked at by name before each line, which costs a microsecond: whoever removes it, moves
it away (logrotate) or cuts it short gets the next line where they expect it. Nothing is forced to
the disk, so no line waits for one.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from amend.edge.service import prepare_private_dir
from amend.errors import AmendError

# Source: research/reliability.md section 4, "rotate 5x5 MB yourself, 0600".
FILE_BYTES_MAX: Final = 5_000_000
FILES: Final = 5

# A disk that was full is looked at again so often: a person who made room sees it within a minute.
RETRY_S: Final = 30.0

NAME: Final = "amend.log"
DIRECTORY: Final = "log"

_FLAGS: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)


def log_path(state: Path) -> Path:
    return state / DIRECTORY / NAME


def is_wanted(setting: str, fd: int, env: Mapping[str, str]) -> bool:
    """`auto`: where stderr is neither a terminal nor the journal's, as JOURNAL_STREAM names it."""
    if setting != "auto":
        return setting == "always"
    try:
        found = os.fstat(fd)
        return not os.isatty(fd) and env.get("JOURNAL_STREAM") != f"{found.st_dev}:{found.st_ino}"
    except OSError:
        return True  # closed: nobody else has the log


class LogFile:
    """Where lines end: `msg(line)` never raises and never waits for anybody."""

    def __init__(
        self,
        path: Path,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.problem: str | None = None  # why it is not written; may name the path
        self.reason = ""  # the same in the system's words
        self._text_path = os.fspath(path)
        self._file_bytes_max = file_bytes_max
        self._monotonic_s = monotonic_s
        self._retry_at_s = 0.0
        self._dropped = 0
        self._telling = 0  # of those that were dropped, how many the next line tells
        self._fd = -1
        self._inode = (-1, -1)

    def msg(self, line: bytes) -> None:
        telling, self._telling = self._telling, 0
        lost = telling or 1
        if not self._may_write():
            self._dropped += lost
            return
        try:
            self._append(line + b"\n")
            self.problem = None
        except (OSError, AmendError) as error:
            self._dropped += lost
            self._failed(error)

    def take_dropped(self) -> int:
        """How many lines were dropped, once it can be written again; for the next line to tell."""
        if not self._dropped or not self._may_write():
            return 0
        self._telling, self._dropped = self._dropped, 0
        return self._telling

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._inode = -1, (-1, -1)

    def _may_write(self) -> bool:
        return self.problem is None or self._monotonic_s() >= self._retry_at_s

    def _failed(self, error: OSError | AmendError) -> None:
        cause = error if isinstance(error, OSError) else error.__cause__
        said = cause.strerror if isinstance(cause, OSError) else None
        self.reason = (said or "refused").lower()
        self.problem = error.message if isinstance(error, AmendError) else self.reason
        self._retry_at_s = self._monotonic_s() + RETRY_S
        self.close()

    def _append(self, data: bytes) -> None:
        size = self._open_if_replaced()
        if size and size + len(data) > self._file_bytes_max:
            self._rotate()
            size = self._open_if_replaced()
        written = os.write(self._fd, data)
        if written < len(data):
            os.ftruncate(self._fd, size)  # half a line would spoil the next
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open_if_replaced(self) -> int:
        """The size of the file at the path, which is open then."""
        try:
            found = os.lstat(self._text_path)
            if (found.st_dev, found.st_ino) == self._inode:
                return found.st_size
        except FileNotFoundError:
            pass
        self.close()
        prepare_private_dir(self.path.parent, is_amends=True)
        fd = os.open(self._text_path, _FLAGS, 0o600)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(fd)
            raise OSError(errno.EINVAL, "is no file of yours")
        if stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(fd, 0o600)
        self._fd, self._inode = fd, (found.st_dev, found.st_ino)
        return found.st_size

    def _rotate(self) -> None:
        """Oldest first: whenever it is broken off, no line but the oldest is lost."""
        for number in range(FILES - 1, 0, -1):
            older = f"{self._text_path}.{number}"
            newer = f"{self._text_path}.{number - 1}" if number > 1 else self._text_path
            try:
                os.replace(newer, older)
            except FileNotFoundError:
                continue
