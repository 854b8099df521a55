"""What a worktree has checked out, read from git's files, and what to watch to notice a change.

A change is: the symbolic ref, the commit, or the operation in progress differs; never that a file
was touched. git appends to the reflog before the ref moves, so one event may come too early; the
last one always follows the final state, and two equal reads are believed.

Starts git only where refs are kept as a reftable (`is_reftable`), or packed in more than 8 MiB.
"""

import os
import re
import time
from dataclasses import dataclass
from typing import Final

from amend.edge.git.places import RepositoryPlaces, ask
from amend.edge.git.reading import read_regular
from amend.edge.git.run import BRANCH, LIMIT_S, RESOLVE, GitFailed

_OID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-f])")

# What git writes into HEAD for readers that know only files (its reftable backend).
_REFTABLE_HEAD: Final = b"ref: refs/heads/.invalid"

# A ref file holds one name or one id; names end at 4096 bytes with the path.
_REF_BYTES_MAX: Final = 4096

# Refs nest; git itself gives up after five (its SYMREF_MAXDEPTH).
_SYMREFS_MAX: Final = 5

# 100,000 refs; a larger file is left to git.
_PACKED_BYTES_MAX: Final = 8 << 20

# An equal pair comes with the second read unless git is at work; then its events follow.
_READS_MAX: Final = 5

# These belong to one worktree, all other refs to the repository (gitrepository-layout).
_OWN_REFS: Final = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")

_SHORT_REFS: Final = ("heads", "remotes", "tags")

# Marker in the git directory → what git is in the middle of, the outermost first: a rebase may
# stop in a merge or a pick. Source: git's wt-status.c.
_OPERATIONS: Final = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
    (b"sequencer", ""),  # between two picks or reverts of several; its list says which
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
    """The state now. What cannot be read is None."""
    before = _read_once(places)
    for _ in range(_READS_MAX):
        after = _read_once(places)
        if after == before:
            break
        before = after
    return before


def read_ref(places: RepositoryPlaces, name: str) -> HeadState:
    """Where the ref stands now; `oid` None: there is none of that name. `name` may be short, as in
    `origin/main`: a branch comes before a remote's, that before a tag."""
    names = [name] if name.startswith("refs/") else [f"refs/{at}/{name}" for at in _SHORT_REFS]
    for ref in map(os.fsencode, names):
        if not _is_ref(ref):
            continue
        text = read_regular(_ref_path(places, ref), _REF_BYTES_MAX) or _packed(places, ref)
        oid = _OID.match(text)
        if oid is not None:
            return HeadState(os.fsdecode(ref), oid[0].decode(), None)
    return HeadState(names[-1], None, None)


def is_reftable(places: RepositoryPlaces) -> bool:
    """Whether git keeps the refs as a reftable, which only git reads."""
    return _head_text(places).strip() == _REFTABLE_HEAD


def needs_git(places: RepositoryPlaces) -> bytes:
    """b"" where `read_head` reads files alone. Else it has to start git, and so belongs into a
    worker thread: then something that differs whenever the answer may."""
    packed = places.common_dir + b"/packed-refs"
    if not is_reftable(places):
        try:
            if os.stat(packed).st_size <= _PACKED_BYTES_MAX:
                return b""
        except OSError:
            return b""
    names = [places.git_dir + b"/HEAD", places.git_dir + b"/reftable/tables.list"]
    names += [packed, places.common_dir + b"/reftable/tables.list"]
    return b"|".join(map(_stamp, names))


def _stamp(path: bytes) -> bytes:
    try:
        found = os.stat(path)
    except OSError:
        return b"-"
    return b"%d %d %d %d" % (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_locked(places: RepositoryPlaces) -> bool:
    """Whether git is rewriting the worktree: the index lock spans a checkout."""
    return os.path.lexists(places.git_dir + b"/index.lock")


def worktrees_dir(places: RepositoryPlaces) -> bytes:
    """Whose names are the linked worktrees; it exists once there was one."""
    return places.common_dir + b"/worktrees"


# -- reading -----------------------------------------------------------------------------------


def _read_once(places: RepositoryPlaces) -> HeadState:
    operation = _operation(places)
    text = _head_text(places)
    if text.strip() == _REFTABLE_HEAD:
        return _asked(places, operation)
    symref = None
    for _ in range(_SYMREFS_MAX):
        if not text.startswith(b"ref:"):
            oid = _OID.match(text)
            return HeadState(symref, oid[0].decode() if oid else None, operation)
        ref = text[len(b"ref:") :].strip()
        if not _is_ref(ref):
            break
        symref = symref or os.fsdecode(ref)
        loose = read_regular(_ref_path(places, ref), _REF_BYTES_MAX)
        text = loose or _packed(places, ref)
    return HeadState(symref, None, operation)


def _head_text(places: RepositoryPlaces) -> bytes:
    """Of the file HEAD; as a symlink, which git once made of it, in the form of the file."""
    path = places.git_dir + b"/HEAD"
    try:
        target = os.readlink(path)
    except OSError:
        return read_regular(path, _REF_BYTES_MAX) or b""
    return b"ref: " + target


def _is_ref(name: bytes) -> bool:
    """Whether reading it stays among the refs: HEAD may hold anything."""
    parts = name.split(b"/")
    return parts[0] == b"refs" and len(parts) > 1 and not any(p[:1] in (b"", b".") for p in parts)


def _ref_path(places: RepositoryPlaces, ref: bytes) -> bytes:
    base = places.git_dir if ref.startswith(_OWN_REFS) else places.common_dir
    return base + b"/" + ref


def _packed(places: RepositoryPlaces, ref: bytes) -> bytes:
    """The ref's line in `packed-refs`, b"" when it has none: a branch without a commit."""
    text = read_regular(places.common_dir + b"/packed-refs", _PACKED_BYTES_MAX + 1) or b""
    if len(text) > _PACKED_BYTES_MAX:
        return _resolved(places, os.fsdecode(ref))
    end = text.find(b" " + ref + b"\n")
    return text[text.rfind(b"\n", 0, end) + 1 : end] if end > 0 else b""


def _asked(places: RepositoryPlaces, operation: str | None) -> HeadState:
    try:
        symref = os.fsdecode(ask(places, BRANCH, until_s=time.monotonic() + LIMIT_S).strip())
    except GitFailed:
        symref = None  # detached
    oid = _resolved(places, "HEAD").decode()
    return HeadState(symref, oid or None, operation)


def _resolved(places: RepositoryPlaces, name: str) -> bytes:
    try:
        until_s = time.monotonic() + LIMIT_S
        return ask(places, RESOLVE, [name + "^{commit}"], until_s=until_s).strip()
    except GitFailed:
        return b""


def _operation(places: RepositoryPlaces) -> str | None:
    for marker, operation in _OPERATIONS:
        path = places.git_dir + b"/" + marker
        if not os.path.lexists(path):
            continue
        if marker == b"rebase-apply" and os.path.lexists(path + b"/applying"):
            return "am"
        if marker == b"sequencer":
            listed = read_regular(path + b"/todo", _REF_BYTES_MAX) or b""
            return "revert" if listed.startswith(b"revert") else "cherry-pick"
        return operation
    return None


# -- watching ----------------------------------------------------------------------------------


def signal_paths(places: RepositoryPlaces, head: HeadState) -> tuple[tuple[bytes, bytes], ...]:
    """(root to watch from, path beneath it) of every name whose change may change the state.

    They lie in at most seven directories, and one more for each further `/` in the branch's name.
    To be aimed anew when the state's `symref` changes.
    """
    own = [b"HEAD", b"logs/HEAD", b"reftable/tables.list", b"index.lock"]
    own += [marker for marker, _ in _OPERATIONS]
    shared = [b"packed-refs", b"reftable/tables.list"]
    if head.symref is not None:
        ref = os.fsencode(head.symref)
        (own if ref.startswith(_OWN_REFS) else shared).append(ref)
    paths = [(places.git_dir, path) for path in own]
    paths += [(places.common_dir, path) for path in shared]
    return tuple(dict.fromkeys(_hung(places, base, path) for base, path in paths))


def _hung(places: RepositoryPlaces, base: bytes, path: bytes) -> tuple[bytes, bytes]:
    """From the worktree's own root where it can be: that one is watched anyway."""
    if base.startswith(places.root + b"/"):
        return places.root, base[len(places.root) + 1 :] + b"/" + path
    return base, path
