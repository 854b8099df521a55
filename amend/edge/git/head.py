"""What a worktree has checked out, read from git's files without starting git.

A change is: the symbolic ref, the commit, or the operation in progress differs; never that a file
was touched. The reflog is appended before the ref moves, so one event may come too early; the last
one always follows the final state, and two equal reads are believed.
"""

import os
import re
from dataclasses import dataclass
from typing import Final

from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.run import GitFailed, run_git

_OID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")

# Refs nest; a ref that points to a ref that points to a ref is somebody's mistake.
_SYMREFS_MAX: Final = 5

# 100,000 refs; a larger file is read by git itself.
_PACKED_BYTES_MAX: Final = 8 << 20

# Marker in the git directory → what git is in the middle of. Source: git's wt-status.c.
_OPERATIONS: Final = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
    (b"BISECT_LOG", "bisect"),
)


@dataclass(frozen=True, slots=True)
class HeadState:
    """`symref` None: detached. `oid` None: nothing was committed yet. `operation` None: idle."""

    symref: str | None
    oid: str | None
    operation: str | None

    @property
    def branch(self) -> str | None:
        return self.symref.removeprefix("refs/heads/") if self.symref else None


NO_HEAD: Final = HeadState(None, None, None)


def read_head(places: RepositoryPlaces) -> HeadState:
    """The state now; what cannot be read is None."""
    before = _read_once(places)
    for _ in range(3):
        after = _read_once(places)
        if after == before:
            break
        before = after
    return before


def _read_once(places: RepositoryPlaces) -> HeadState:
    operation = next(
        (name for marker, name in _OPERATIONS if os.path.lexists(places.git_dir + b"/" + marker)),
        None,
    )
    text = _read(places.git_dir + b"/HEAD")
    if text.strip() == b"ref: refs/heads/.invalid":
        return _ask_git(places, operation)
    symref = None
    for _ in range(_SYMREFS_MAX):
        if not text.startswith(b"ref:"):
            match = _OID.match(text)
            return HeadState(symref, match[0].decode() if match else None, operation)
        ref = text[4:].strip()
        symref = symref or ref.decode("utf-8", "surrogateescape")
        text = _read(places.git_dir + b"/" + ref) or _read(places.common_dir + b"/" + ref)
        if not text:
            oid = _packed(places, ref)
            return HeadState(symref, oid.decode() if oid else None, operation)
    return HeadState(symref, None, operation)


def _ask_git(places: RepositoryPlaces, operation: str | None) -> HeadState:
    """Refs kept as a reftable; only git reads these."""
    try:
        symref: str | None = run_git(places.root, "symbolic-ref", ["HEAD"]).strip().decode()
    except GitFailed:
        symref = None
    try:
        oid = run_git(places.root, "rev-parse", ["--verify", "--quiet", "HEAD^{commit}"]).strip()
    except GitFailed:
        return HeadState(symref, None, operation)
    return HeadState(symref, oid.decode(), operation)


def _read(path: bytes, bytes_max: int = 4096) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, bytes_max)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _packed(places: RepositoryPlaces, ref: bytes) -> bytes | None:
    text = _read(places.common_dir + b"/packed-refs", _PACKED_BYTES_MAX)
    match = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(ref) + rb"$", text, re.MULTILINE)
    return match[1] if match else None


def is_locked(places: RepositoryPlaces) -> bool:
    """Whether git is rewriting the worktree: the index lock spans a checkout."""
    return os.path.lexists(places.git_dir + b"/index.lock")


def signal_paths(places: RepositoryPlaces, head: HeadState) -> tuple[tuple[bytes, bytes], ...]:
    """(root to watch from, path beneath it) of every name whose change may change the state."""
    own = [b"HEAD", b"logs/HEAD", b"reftable/tables.list", b"index.lock"]
    own += [marker for marker, _ in _OPERATIONS]
    shared = [b"packed-refs", b"reftable/tables.list"]
    if head.symref is not None:
        shared.append(head.symref.encode("utf-8", "surrogateescape"))
    paths = [(places.git_dir, path) for path in own]
    paths += [(places.common_dir, path) for path in shared]
    return tuple(dict.fromkeys(_from_root(places.root, base, path) for base, path in paths))


def _from_root(root: bytes, base: bytes, path: bytes) -> tuple[bytes, bytes]:
    """Within the worktree's own trie where the git directory lies inside it."""
    if base.startswith(root + b"/"):
        return root, base[len(root) + 1 :] + b"/" + path
    return base, path
