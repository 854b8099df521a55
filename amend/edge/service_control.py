"""systemctl and launchctl: whether they work here, and what amend asks of them.

Nothing here decides; each call runs one program with a time limit and says what came of it. What
did not work is raised with the program's own words.
"""

import enum
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from amend.errors import Unavailable, reason_of

# A start waits until amend is ready, for as long as the unit allows (60 s), and a stop before it.
LIMIT_S: Final = 90.0

# `bootstrap` right after `bootout` fails with 5 (EIO) while launchd still tidies up; two seconds
# and three tries were enough in a public report (reliability.md, section 4).
BOOTSTRAP_TRIES: Final = 3
BOOTSTRAP_RETRY_S: Final = 2.0
_TIDYING_UP: Final = 5


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        lines = (self.err or self.out).strip().splitlines()
        return lines[-1] if lines else f"it ended with {self.code}"


def run(words: Sequence[str], *, limit_s: float = LIMIT_S) -> Ran:
    """127 where there is no such program, 124 where it did not end in time, as a shell has them."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Ran(124, "", f"{words[0]} did not end within {limit_s:.0f} s")
    except OSError as error:
        return Ran(127, "", f"{words[0]}: {reason_of(error)}")
    return Ran(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


class State(enum.Enum):
    RUNNING = "running"
    STARTING = "starting"
    STOPPED = "stopped"
    FAILED = "failed"
    ABSENT = "not known to the service manager"
    UNREACHABLE = "the service manager cannot be asked"


@dataclass(frozen=True, slots=True)
class Facts:
    """`listens`: whether the manager holds the sockets. `at_login`: whether amend starts then."""

    state: State
    pid: int | None = None
    status: str = ""
    listens: bool = False
    at_login: bool = False
    restarts: int = 0
    memory_bytes: int | None = None


class Manager(Protocol):
    """The user's own service manager."""

    @property
    def name(self) -> str: ...

    def why_not(self) -> str | None:
        """Why it cannot be asked here; None: it can."""
        ...

    def commands(self, paths: Sequence[str]) -> list[str]:
        """What a person types to enable and start what is in `paths`."""
        ...

    def enable(self, paths: Sequence[str], *, starts: bool) -> None:
        """At each login from now on; `starts`: now as well."""
        ...

    def disable(self) -> None:
        """Stop it, and start it at no login. Before its files go."""
        ...

    def forget(self) -> None:
        """After they have gone."""
        ...

    def restart(self) -> None: ...

    def facts(self) -> Facts: ...


def _must(words: Sequence[str], what: str, hint: str) -> None:
    ran = run(words)
    if ran.code != 0:
        raise Unavailable(f"{what}: {ran.said}", hint=hint)


_LOOK: Final = "`amend service logs` and `amend service status` may say why"


class Systemd:
    name = "systemd"

    def __init__(self, service: str, socket: str) -> None:
        self._service = service
        self._socket = socket

    def why_not(self) -> str | None:
        ran = run(["systemctl", "--user", "show-environment"])
        return None if ran.code == 0 else ran.said

    def commands(self, paths: Sequence[str]) -> list[str]:
        return [
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {self._socket} {self._service}",
        ]

    def enable(self, paths: Sequence[str], *, starts: bool) -> None:
        _must(["systemctl", "--user", "daemon-reload"], "systemd does not read the units", _LOOK)
        now = ["--now"] if starts else []
        words = ["systemctl", "--user", "enable", *now, self._socket, self._service]
        _must(words, f"systemd does not {'start' if starts else 'enable'} amend", _LOOK)

    def disable(self) -> None:
        words = ["systemctl", "--user", "disable", "--now", self._socket, self._service]
        _must(words, "systemd does not stop amend", _LOOK)

    def forget(self) -> None:
        _must(["systemctl", "--user", "daemon-reload"], "systemd does not read the units", _LOOK)

    def restart(self) -> None:
        # What has failed too often is not started again before it is forgotten.
        run(["systemctl", "--user", "reset-failed", self._socket, self._service])
        _must(
            ["systemctl", "--user", "restart", self._service],
            "systemd does not restart amend",
            _LOOK,
        )

    def facts(self) -> Facts:
        names = "LoadState,ActiveState,MainPID,StatusText,Result,UnitFileState,NRestarts"
        ran = run(
            ["systemctl", "--user", "show", f"--property={names},MemoryCurrent", self._service]
        )
        if ran.code != 0:
            return Facts(State.UNREACHABLE, status=ran.said)
        said = dict(line.partition("=")[::2] for line in ran.out.splitlines())
        if said.get("LoadState") == "not-found":
            return Facts(State.ABSENT)
        listening = run(["systemctl", "--user", "is-active", self._socket])
        result = said.get("Result", "success")
        return Facts(
            _STATES.get(said.get("ActiveState", ""), State.STARTING),
            pid=_number(said.get("MainPID", "")) or None,
            status=said.get("StatusText", "") if result == "success" else f"ended with {result}",
            listens=listening.code == 0,
            at_login=said.get("UnitFileState") == "enabled",
            restarts=_number(said.get("NRestarts", "")) or 0,
            memory_bytes=_number(said.get("MemoryCurrent", "")),
        )


_STATES: Final = {
    "active": State.RUNNING,
    "reloading": State.RUNNING,
    "inactive": State.STOPPED,
    "failed": State.FAILED,
}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


class Launchd:
    """Written after its manual and public reports; no Mac was at hand to run it on."""

    name = "launchd"

    def __init__(self, label: str, *, wait: Callable[[float], None] = time.sleep) -> None:
        self._domain = f"gui/{os.getuid()}"
        self._target = f"{self._domain}/{label}"
        self._wait = wait

    def why_not(self) -> str | None:
        ran = run(["launchctl", "print", self._domain])
        if ran.code == 0:
            return None
        return ran.said if ran.code == 127 else f"nobody is logged in at the screen ({ran.said})"

    def commands(self, paths: Sequence[str]) -> list[str]:
        return [f"launchctl bootstrap {self._domain} {path}" for path in paths]

    def enable(self, paths: Sequence[str], *, starts: bool) -> None:
        # There is no other way to have it read the file than to load it, and no loading without
        # RunAtLoad; without `starts` it is read at the next login.
        if not starts:
            return
        run(["launchctl", "bootout", self._target])
        for path in paths:
            self._bootstrap(path)

    def _bootstrap(self, path: str) -> None:
        for left in reversed(range(BOOTSTRAP_TRIES)):
            ran = run(["launchctl", "bootstrap", self._domain, path])
            if ran.code == 0:
                return
            if ran.code != _TIDYING_UP or left == 0:
                raise Unavailable(f"launchd does not load amend: {ran.said}", hint=_LOOK)
            self._wait(BOOTSTRAP_RETRY_S)

    def disable(self) -> None:
        if run(["launchctl", "print", self._target]).code == 0:
            _must(["launchctl", "bootout", self._target], "launchd does not stop amend", _LOOK)

    def forget(self) -> None:
        pass

    def restart(self) -> None:
        words = ["launchctl", "kickstart", "-k", self._target]
        _must(words, "launchd does not restart amend", "`amend service install` loads it first")

    def facts(self) -> Facts:
        ran = run(["launchctl", "print", self._target])
        if ran.code == 127:
            return Facts(State.UNREACHABLE, status=ran.said)
        if ran.code != 0:
            return Facts(State.ABSENT)
        pid = _named(ran.out, "pid")
        last = _named(ran.out, "last exit code")
        failed = pid is None and last not in (None, "0", "(never exited)")
        state = State.RUNNING if pid else State.FAILED if failed else State.STOPPED
        return Facts(
            state,
            pid=int(pid) if pid else None,
            status=f"ended with {last}" if failed else "",
            listens=True,  # a job that is loaded has its sockets
            at_login=True,
            restarts=max(0, int(_named(ran.out, "runs") or 1) - 1),
        )


def _named(text: str, name: str) -> str | None:
    found = re.search(rf"^\s*{name} = (.+?)\s*$", text, re.MULTILINE)
    return found[1] if found else None
