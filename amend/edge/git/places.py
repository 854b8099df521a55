"""Where a worktree's repository is: its root, its git directory and the common one.

`discover` reads pointer files and nothing else; `verify` asks git once whether it agrees. A bare
repository has no worktree and is not found.
"""

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from amend.edge.git.reading import read_regular
from amend.edge.git.run import (
    LIMIT_S,
    PLACES,
    Command,
    GitFailed,
    GitTimedOut,
    Tally,
    foreign,
    run_git,
)
from amend.errors import Refused

# `.git` files and `commondir` hold one path, and paths end at 4096 bytes on Linux.
_POINTER_BYTES_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class RepositoryPlaces:
    """Absolute, links resolved. In a linked worktree `git_dir` and `common_dir` differ."""

    root: bytes
    git_dir: bytes
    common_dir: bytes
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    @property
    def is_bare(self) -> bool:
        """Whether `root` is the repository itself, and there are no files."""
        return self.root == self.git_dir


def discover(path: bytes) -> RepositoryPlaces | None:
    """The repository whose worktree `path` is in, the nearest above; None when it is in none.

    Reads no configuration and starts nothing. Raises `Refused` for a repository that belongs to
    somebody else.
    """
    start = at = os.path.realpath(path)
    while True:
        dot_git = os.path.join(at, b".git")
        git_dir = _git_dir(dot_git)
        if git_dir is not None and _is_repository(git_dir):
            if _is_beneath(start, git_dir):
                return None  # among git's own files
            places = RepositoryPlaces(at, git_dir, _common_dir(git_dir))
            _refuse_foreign(places, dot_git)
            return places
        # git passes by a directory that is no repository, but not by a pointer that leads nowhere.
        if os.path.isfile(dot_git) or at == b"/":
            return None
        at = os.path.dirname(at)


def discover_bare(path: bytes) -> RepositoryPlaces | None:
    """The bare repository that `path` itself is. Raises `Refused` for somebody else's."""
    root = os.path.realpath(path)
    if os.path.lexists(root + b"/.git") or not _is_repository(root):
        return None
    places = RepositoryPlaces(root, root, _common_dir(root))
    _refuse_foreign(places, root)
    return places


def verify(places: RepositoryPlaces) -> None:
    """Ask git itself. `Refused`: its answer is another root; `GitFailed`: it has none."""
    asked = {
        "--show-toplevel": places.root,
        "--absolute-git-dir": places.git_dir,
        "--git-common-dir": places.common_dir,
    }
    until_s = time.monotonic() + LIMIT_S
    answers = ask(places, PLACES, list(asked), until_s=until_s).removesuffix(b"\n").split(b"\n")
    if len(answers) != len(asked):  # a path with a newline in it
        answers = [
            ask(places, PLACES, [option], until_s=until_s).removesuffix(b"\n") for option in asked
        ]
    for (option, expected), answer in zip(asked.items(), answers, strict=True):
        if os.path.realpath(os.path.join(places.root, answer)) != expected:
            raise Refused(
                f"{os.fsdecode(places.root)}: git rev-parse {option} says {os.fsdecode(answer)},"
                f" must be {os.fsdecode(expected)}",
                hint="its configuration points elsewhere (core.worktree?); add that place instead",
            )


def ask(
    places: RepositoryPlaces,
    command: Command,
    arguments: Sequence[str | bytes] = (),
    *,
    until_s: float,
    stdin: bytes | None = None,
) -> bytes:
    """`run_git` for one of a series of commands that together have until `until_s` (monotonic)."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise GitTimedOut(
            f"git could not {command.purpose}: the time for it was used up before",
            hint="nothing: it is asked again when something changes",
        )
    return run_git(
        places.root,
        command,
        arguments,
        stdin=stdin,
        limit_s=min(left_s, LIMIT_S),
        tally=places.tally,
        is_bare=places.is_bare,
    )


def _git_dir(dot_git: bytes) -> bytes | None:
    """Where a `.git` leads: itself, or what the pointer in a linked worktree or submodule names."""
    try:
        mode = os.stat(dot_git).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(mode):
        return os.path.realpath(dot_git)
    pointer = read_regular(dot_git, _POINTER_BYTES_MAX)
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return None
    named = pointer[len(b"gitdir: ") :].rstrip(b"\r\n")
    return _resolved(os.path.dirname(dot_git), named)


def _common_dir(git_dir: bytes) -> bytes:
    named = read_regular(os.path.join(git_dir, b"commondir"), _POINTER_BYTES_MAX)
    common_dir = _resolved(git_dir, named.rstrip(b"\r\n")) if named else None
    return common_dir or git_dir


def _resolved(base: bytes, named: bytes) -> bytes | None:
    return os.path.realpath(os.path.join(base, named)) if named and b"\0" not in named else None


def _is_repository(git_dir: bytes) -> bool:
    """By the names that git itself looks for (its `is_git_directory`)."""
    common_dir = _common_dir(git_dir)
    return (
        os.path.lexists(os.path.join(git_dir, b"HEAD"))
        and os.path.isdir(os.path.join(common_dir, b"objects"))
        and os.path.exists(os.path.join(common_dir, b"refs"))
    )


def _is_beneath(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory + b"/")


def _refuse_foreign(places: RepositoryPlaces, dot_git: bytes) -> None:
    for path in (places.root, dot_git, places.git_dir, places.common_dir):
        try:
            owner = os.stat(path).st_uid
        except OSError as error:
            raise GitFailed(f"{os.fsdecode(path)}: {error.strerror}") from error
        if owner != os.geteuid():
            raise foreign(path, owner)
