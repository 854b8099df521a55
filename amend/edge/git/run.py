"""Start git so that nothing of the repository's runs, nothing is written, and nothing hangs.

A repository's own configuration can name programs for many commands (reliability.md section 2, each
measured). Three layers keep them from running: only the commands below, which were seen to run
none of them; options and variables that switch off the rest; an environment built from nothing.
What takes too long or prints too much is killed with everything it started, and so is what still
runs when this process ends: on Linux however that happens, elsewhere at its next write.

Raises `Refused` for a repository of somebody else, `GitFailed` for an error, `GitTimedOut` for a
time-out. A command or an option that is not listed here is a bug.
"""

import fcntl
import functools
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amend.errors import Refused, Unavailable

if TYPE_CHECKING:
    from git.cmd import Git
    from git.exc import GitCommandNotFound


@dataclass(frozen=True, slots=True)
class Command:
    """`words` are always given; `options` may be; `purpose` completes "git could not …"."""

    words: tuple[str, ...]
    options: frozenset[str]
    purpose: str


def _command(words: str, *options: str, to: str) -> Command:
    return Command(tuple(words.split()), frozenset(options), to)


PLACES: Final = _command(
    "rev-parse",
    *("--show-toplevel", "--absolute-git-dir", "--git-common-dir"),
    to="say where the repository is",
)
RESOLVE: Final = _command("rev-parse --verify --quiet", to="say which commit that is")
BRANCH: Final = _command("symbolic-ref --quiet HEAD", to="say which branch is checked out")
TREE: Final = _command("ls-tree -z --full-tree", to="list the files of a commit")
INDEX: Final = _command("ls-files -s -z", to="list the files of the index")
WALK: Final = _command(
    "rev-list --first-parent",
    *("--parents", "--timestamp", "--max-count"),
    to="walk through the history",
)
DESCRIBE: Final = _command(
    "rev-list --no-walk=unsorted --encoding=UTF-8 --stdin", "--format", to="describe a commit"
)
CHANGES: Final = _command(
    "diff-tree -r -z --no-renames --no-ext-diff --no-textconv",
    *("--stdin", "--root", "-m", "--raw", "--name-only"),
    to="compare two commits",
)
IGNORED: Final = _command(
    "ls-files --others --ignored --exclude-standard -z", to="list what is to be ignored"
)
ALLOWED: Final = (PLACES, RESOLVE, BRANCH, TREE, INDEX, IGNORED, WALK, DESCRIBE, CHANGES)

# git's own commands answer in milliseconds; what takes longer is stuck, or more than amend wants.
LIMIT_S: Final = 5.0

# A tree listing of 500,000 files is 50 MB; past this the answer is of no use to amend.
OUTPUT_BYTES_MAX: Final = 64 << 20

# One line of it is shown.
_ERRORS_BYTES_MAX: Final = 4096

# Larger than a pipe (64 KiB on Linux), so one read empties it.
_READ_BYTES: Final = 256 << 10

# A killed process is gone at once unless its filesystem hangs; then it is left to the kernel.
_REAP_S: Final = 1.0

# First, since a PATH may begin with a directory of the repository that it was set for.
_SANE_PATH: Final = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"

_OPTIONS: Final = (
    "--no-optional-locks",
    "--no-pager",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.pager=cat"),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "protocol.allow=never"),
    *("-c", "log.showSignature=false"),
)


class GitFailed(Unavailable):
    """git could not answer. `said`: the first line of its complaint."""

    def __init__(self, message: str, *, hint: str = "", said: str = "") -> None:
        super().__init__(message, hint=hint)
        self.said = said


class GitTimedOut(GitFailed):
    pass


@dataclass(slots=True)
class Tally:
    """How often git was started, and how often it had to be killed."""

    commands: int = 0
    timeouts: int = 0


def run_git(
    root: bytes,
    command: Command,
    arguments: Sequence[str | bytes] = (),
    *,
    stdin: bytes | None = None,
    limit_s: float = LIMIT_S,
    tally: Tally | None = None,
    is_bare: bool = False,
) -> bytes:
    """What the command prints, started in the worktree at `root`, or on the bare repository there.
    `stdin` None: it gets none.

    What begins with `-` before a `--` is an option and must be listed; callers put only commit
    ids and names of refs there, and paths after it.
    """
    _check_listed(command, arguments)
    _refuse_foreign(root)
    tally = tally or Tally()
    tally.commands += 1
    with _lifeline() as lifeline:
        process = _start(
            root, command, arguments, lifeline, with_stdin=stdin is not None, is_bare=is_bare
        )
        try:
            output, errors = _communicate(process, stdin or b"", time.monotonic() + limit_s)
        except TimeoutError:
            tally.timeouts += 1
            raise GitTimedOut(
                f"git could not {command.purpose} within {limit_s:.3g} s",
                hint="look for a filesystem that hangs, or an include in the repository's config",
            ) from None
        except _TooMuch:
            raise GitFailed(
                f"git could not {command.purpose}: it printed more than {OUTPUT_BYTES_MAX} bytes",
                hint="nothing: amend does without it",
            ) from None
        finally:
            _end(process)
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitFailed(
            f"git could not {command.purpose}: {said or f'exit {process.returncode}'}",
            hint=f"try: git {' '.join(command.words)}",
            said=said,
        )
    return output


def _check_listed(command: Command, arguments: Sequence[str | bytes]) -> None:
    assert command in ALLOWED, f"git {command.words} is not known to run nobody's code"
    for argument in arguments:
        text = os.fsdecode(argument)
        if text == "--":
            break
        option = text.partition("=")[0]
        assert not text.startswith("-") or option in command.options, f"{text} is not listed"
        assert command is not BRANCH, "a second name would make symbolic-ref write"


def _refuse_foreign(root: bytes) -> None:
    try:
        owner = os.stat(root).st_uid
    except OSError as error:
        raise GitFailed(f"{os.fsdecode(root)}: {error.strerror}") from error
    if owner != os.geteuid():
        raise foreign(root, owner)


def foreign(path: bytes, owner: int) -> Refused:
    return Refused(
        f"{os.fsdecode(path)} belongs to user {owner}, must be yours ({os.geteuid()})",
        hint="a repository's configuration can run programs, so add only your own",
    )


# -- what git gets to see ----------------------------------------------------------------------


@functools.cache
def git_path() -> str:
    """Where git is. Looked for once; a git that is missing is looked for again."""
    own = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/")]
    found = shutil.which("git", path=":".join([_SANE_PATH, *own]))
    if found is None:
        raise GitFailed("no git command was found", hint="install git, or put it on PATH")
    return found


def _environment(root: bytes) -> dict[str, str]:
    """All of it. Only HOME is the person's; their and the system's configuration are not read."""
    variables = {
        "PATH": _SANE_PATH,
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C",
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        # A partial clone would fetch a missing object, by a command its configuration names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        # A person's `safe.directory` is not missed: what is not theirs was refused before.
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    above = os.path.dirname(root)
    if b":" not in above:  # the variable is a list
        # When the repository has just been removed, git must not answer for one around it.
        variables["GIT_CEILING_DIRECTORIES"] = os.fsdecode(above)
    return variables


def _load_git() -> "tuple[type[Git], type[GitCommandNotFound]]":
    """GitPython's command class and its error, imported without its look for git.

    GitPython starts `git version` when it is imported, and raises where there is no git.
    """
    for_import = {"GIT_PYTHON_REFRESH": "quiet", "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git"}
    before = {name: os.environ.get(name) for name in for_import}
    os.environ.update(for_import)
    try:
        from git.cmd import Git  # noqa: PLC0415
        from git.exc import GitCommandNotFound  # noqa: PLC0415
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return Git, GitCommandNotFound


_Git, _NotFound = _load_git()


@contextmanager
def _lifeline() -> Iterator[int]:
    """A pipe's end for a process to hold; the other one is open here alone."""
    try:
        theirs, ours = os.pipe()
    except OSError as error:
        raise GitFailed(f"git could not be started: {error}") from error
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


def _tie(group: int, lifeline: int) -> None:
    """Have the kernel kill the process group once its lifeline's other end is closed.

    `PR_SET_PDEATHSIG` would need code between fork and exec, which is not safe beside threads.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -group)
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)


def _start(
    root: bytes,
    command: Command,
    arguments: Sequence[str | bytes],
    lifeline: int,
    *,
    with_stdin: bool,
    is_bare: bool,
) -> "subprocess.Popen[bytes]":
    # GitPython lays variables over those of this process and cannot take one away; `env -i` can,
    # for less than a millisecond. GIT_DIR, GIT_INDEX_FILE or GIT_TRACE must not get through.
    variables = [f"{name}={value}" for name, value in _environment(root).items()]
    # git takes a directory for a bare repository only where it is named as one.
    place = "--git-dir" if is_bare else "-C"
    line = ["/usr/bin/env", "-i", *variables, git_path(), *_OPTIONS, place, os.fsdecode(root)]
    try:
        # GitPython expands ~ and $ in its working directory, hence "/" here and -C above.
        wrapped = _Git("/").execute(
            [*line, *command.words, *map(os.fsdecode, arguments)],
            istream=subprocess.PIPE if with_stdin else None,
            as_process=True,
            shell=False,
            start_new_session=True,
            pass_fds=(lifeline,),
        )
    except (OSError, _NotFound) as error:
        raise GitFailed(f"git could not be started: {error}") from error
    process = wrapped.proc
    assert process is not None
    wrapped.proc = None  # ours to end: GitPython sends one signal when it is collected
    _tie(process.pid, lifeline)
    return process


# -- talking to it -----------------------------------------------------------------------------


class _TooMuch(Exception):
    pass


def _communicate(
    process: "subprocess.Popen[bytes]", stdin: bytes, until_s: float
) -> tuple[bytes, bytes]:
    """What it prints and complains, once it has ended. Raises `TimeoutError` or `_TooMuch`."""
    output, errors = bytearray(), bytearray()
    unsent = memoryview(stdin)
    with selectors.DefaultSelector() as pipes:
        assert process.stdout is not None
        assert process.stderr is not None
        pipes.register(process.stdout, selectors.EVENT_READ, output)
        pipes.register(process.stderr, selectors.EVENT_READ, errors)
        if process.stdin is not None:
            pipes.register(process.stdin, selectors.EVENT_WRITE)
        while pipes.get_map():
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            for key, _ in pipes.select(left_s):
                if key.data is None:
                    unsent = _send(key.fd, unsent)
                    if not unsent:
                        pipes.unregister(key.fd)
                        assert process.stdin is not None
                        process.stdin.close()
                    continue
                data = os.read(key.fd, _READ_BYTES)
                if not data:
                    pipes.unregister(key.fd)
                elif key.data is output or len(errors) < _ERRORS_BYTES_MAX:
                    key.data.extend(data)
            if len(output) > OUTPUT_BYTES_MAX:
                raise _TooMuch
    try:
        process.wait(max(0.0, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return bytes(output), bytes(errors)


def _send(fd: int, unsent: memoryview) -> memoryview:
    try:
        # A pipe that is ready takes this many bytes without blocking.
        return unsent[os.write(fd, unsent[: select.PIPE_BUF]) :]
    except BrokenPipeError:  # it wants no more, or it failed and says so by its exit
        return unsent[:0]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing of it outlives this: neither what it started nor its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
