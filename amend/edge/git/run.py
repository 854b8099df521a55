"""Start git so that nothing of the repository's runs, nothing is written, and nothing hangs.

A repository's own configuration can name programs for many commands (reliability.md section 2, each
measured). Three layers keep them from running: only commands on a short list that were seen to run
none of them; options and variables that switch off the rest; an environment built from nothing.

Raises `GitFailed` for a refusal, an error or a time-out. A command not on the list is a bug.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amend.errors import Unavailable

# GitPython looks for git when it is imported and raises without one; amend says so itself, later.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import contextlib

from git.cmd import Git

ALLOWED: Final = frozenset(
    ["rev-parse", "rev-list", "ls-tree", "ls-files", "diff-tree", "cat-file", "symbolic-ref"]
)

# git's own commands answer in milliseconds; what takes longer is stuck, or more than amend wants.
LIMIT_S: Final = 5.0

# A tree listing of 500,000 files is 50 MB; past this the answer is of no use to amend.
OUTPUT_BYTES_MAX: Final = 64 << 20

_OPTIONS: Final = (
    "--no-optional-locks",
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.attributesFile=/dev/null",
    "-c",
    "core.quotePath=false",
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "protocol.allow=never",
    "-c",
    "log.showSignature=false",
)


class GitFailed(Unavailable):
    """git could not answer."""


class GitTimedOut(GitFailed):
    pass


def _environment() -> dict[str, str]:
    """What git gets to see. HOME stays, since a person's `safe.directory` is there."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "LANG": "C",
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        # A partial clone would fetch a missing object, by a command its configuration names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_PAGER": "cat",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def git_path() -> str:
    found = shutil.which("git") or shutil.which("git", path="/usr/local/bin:/usr/bin:/bin")
    if found is None:
        raise GitFailed("no git command was found", hint="install git, or put it on PATH")
    return os.path.abspath(found)


def run_git(
    where: bytes,
    command: str,
    arguments: Sequence[str | bytes],
    *,
    stdin: bytes | None = None,
    limit_s: float = LIMIT_S,
) -> bytes:
    """What `git -C where command …` prints. `stdin` None: it gets none."""
    assert command in ALLOWED, f"git {command} is not known to run nobody's code"
    process = _start(where, command, arguments, stdin)
    try:
        output, errors = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise GitTimedOut(
            f"git {command} did not answer within {limit_s:g} s",
            hint="look for an unreachable filesystem or an include in the repository's config",
        ) from None
    if process.returncode != 0:
        first = errors.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitFailed(f"git {command} failed: {first or process.returncode}")
    if len(output) > OUTPUT_BYTES_MAX:
        raise GitFailed(f"git {command} printed more than {OUTPUT_BYTES_MAX} bytes")
    return bytes(output)


def _start(
    where: bytes, command: str, arguments: Sequence[str | bytes], stdin: bytes | None
) -> "subprocess.Popen[bytes]":
    # GitPython lays its variables over os.environ and cannot take one away, so `env -i` does.
    environment = [f"{name}={value}" for name, value in _environment().items()]
    line: list[Any] = ["/usr/bin/env", "-i", *environment, git_path(), *_OPTIONS, "-C", where]
    wrapped = Git(os.fsdecode(where)).execute(
        [*line, command, *arguments],
        istream=subprocess.PIPE if stdin is not None else None,
        as_process=True,
        start_new_session=True,
    )
    process: subprocess.Popen[bytes] = wrapped.proc  # type: ignore[assignment]
    wrapped.proc = None  # ours to end: GitPython would only send it a signal when collected
    return process


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The whole group: what git started must not outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def without_git_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what a surrounding git (a hook) put there."""
    return {name: value for name, value in environment.items() if not name.startswith("GIT_")}
