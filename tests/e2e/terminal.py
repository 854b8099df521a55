"""A program in a pseudo terminal, and everything that it has shown.

Frames are not put together to a screen: what a person could have seen for a moment counts too.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_ROWS: Final = 60
_COLUMNS: Final = 150

# Moves to the right are how some blanks are drawn; all other control sequences are dropped.
_RIGHT: Final = re.compile(r"\x1b\[(\d*)C")
_CONTROL: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[P_^][^\x1b]*\x1b\\"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)


class Terminal:
    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._data = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], list(command), {**env, "TERM": "xterm-256color"})
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)  # it leads the session that it was started in
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, pattern: str, wait_s: float, *, since: int = 0) -> bool:
        """Whether `pattern` shows within `wait_s`, in what came after `since` bytes."""
        until_s = time.monotonic() + wait_s
        while (left_s := until_s - time.monotonic()) > 0:
            if re.search(pattern, self.shown(since)):
                return True
            if not self._read(min(left_s, 0.2)):
                break
        return re.search(pattern, self.shown(since)) is not None

    def quiet(self, for_s: float) -> None:
        """Return when nothing has come for so long: what is shown then stays."""
        while True:
            before = len(self._data)
            if not self._read(for_s) or len(self._data) == before:
                return

    @property
    def length(self) -> int:
        return len(self._data)

    def shown(self, since: int = 0) -> str:
        text = self._data[since:].decode("utf-8", "replace")
        text = _RIGHT.sub(lambda found: " " * int(found[1] or 1), text)
        lines = _CONTROL.sub("", text).replace("\r", "\n").split("\n")
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def _read(self, wait_s: float) -> bool:
        """Take in what comes; False: nothing will any more."""
        ready, _, _ = select.select([self._terminal], [], [], wait_s)
        if not ready:
            return True
        try:
            piece = os.read(self._terminal, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self._data += piece
        return bool(piece)
