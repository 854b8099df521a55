"""Where a worktree's repository is: its root, its git directory and the common one."""

import os
import stat
from dataclasses import dataclass
from typing import Final

from amend.edge.git.run import run_git
from amend.errors import Refused

# `.git` files and `commondir` hold one path.
_POINTER_BYTES_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class RepositoryPlaces:
    """Absolute, links resolved. In a linked worktree `git_dir` and `common_dir` differ."""

    root: bytes
    git_dir: bytes
    common_dir: bytes


def discover(path: bytes) -> RepositoryPlaces | None:
    """The repository whose worktree `path` is in, the nearest above; None when there is none.

    Reads only the pointer files, never the configuration. Raises `Refused` for a repository that
    belongs to somebody else.
    """
    at = os.path.realpath(path)
    while True:
        places = _places_at(at)
        if places is not None:
            _check_owner(places)
            return places
        if at == b"/":
            return None
        at = os.path.dirname(at)


def verify(places: RepositoryPlaces) -> None:
    """Ask git itself. `Refused`: its answer is another root; `GitFailed`: it has none."""
    answer = run_git(places.root, "rev-parse", ["--show-toplevel"]).rstrip(b"\n")
    if os.path.realpath(answer) != places.root:
        raise Refused(
            f"{os.fsdecode(places.root)}: git says its worktree is {os.fsdecode(answer)}",
            hint="the repository's core.worktree points elsewhere; add that directory instead",
        )


def _places_at(root: bytes) -> RepositoryPlaces | None:
    dot_git = os.path.join(root, b".git")
    try:
        found = os.stat(dot_git)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        git_dir = dot_git
    elif stat.S_ISREG(found.st_mode):
        pointer = _pointer(dot_git)
        if not pointer.startswith(b"gitdir:"):
            return None
        git_dir = os.path.join(root, pointer[len(b"gitdir:") :].strip())
    else:
        return None
    git_dir = os.path.realpath(git_dir)
    if not os.path.isfile(os.path.join(git_dir, b"HEAD")):
        return None
    common = _pointer(os.path.join(git_dir, b"commondir")).strip()
    common_dir = os.path.realpath(os.path.join(git_dir, common)) if common else git_dir
    return RepositoryPlaces(root, git_dir, common_dir)


def _pointer(path: bytes) -> bytes:
    """The file's text, b"" when it is no regular file or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        return os.read(fd, _POINTER_BYTES_MAX)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _check_owner(places: RepositoryPlaces) -> None:
    for path in (places.root, places.git_dir, places.common_dir):
        owner = os.stat(path).st_uid
        if owner != os.geteuid():
            raise Refused(
                f"{os.fsdecode(path)} belongs to user {owner}, not to you ({os.geteuid()})",
                hint="a repository's configuration can run programs; add only your own",
            )
