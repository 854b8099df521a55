"""The linked worktrees of a repository (`git worktree add`), as git's files name them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from amend.edge.git.reading import read_regular

_POINTER_BYTES_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class Linked:
    """`root` None: git has not written yet where it is, or it is not there now."""

    git_dir: bytes
    root: bytes | None


def linked_worktrees(common_dir: bytes) -> Iterator[Linked]:
    """Each of them. Reads one small file for each."""
    directory = common_dir + b"/worktrees"
    try:
        names = sorted(os.listdir(directory))
    except OSError:  # there never was one, or the last one is gone
        return
    for name in names:
        git_dir = directory + b"/" + name
        pointer = (read_regular(git_dir + b"/gitdir", _POINTER_BYTES_MAX) or b"").rstrip(b"\r\n")
        # Newer gits may write it relative to the git directory (worktree.useRelativePaths).
        dot_git = os.path.join(git_dir, pointer)
        is_there = pointer.endswith(b"/.git") and os.path.isfile(dot_git)
        yield Linked(git_dir, os.path.realpath(os.path.dirname(dot_git)) if is_there else None)
