"""Ask git's history about paths: what a commit holds, which commit brought it, where it went.

Synchronous and bounded in time and output; the daemon calls it in a worker thread, never for an
answer. What git cannot tell is left out or said to be unknown, never guessed.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from amend.core.model import Commit
from amend.edge.git.head import HeadState
from amend.edge.git.places import RepositoryPlaces
from amend.edge.git.run import LIMIT_S, GitFailed, run_git

# The kernel takes 128 KiB a word and 2 MiB a command line; half a MiB leaves room everywhere.
_ARGUMENT_BYTES_MAX: Final = 512 << 10

# First steps are small, since most changes are recent; then fewer processes.
_WALK_COMMITS: Final = (64, 512, 4096, 16384)

# Below this many paths, one `rev-list` each beats a walk that diffs every commit.
_FEW_PATHS: Final = 4

# Moves within one directory are looked for by hashing its files; more are not one person's rename.
_SIBLINGS_MAX: Final = 200

# The last 1 MiB of a reflog is some 7,000 moves of HEAD.
_REFLOG_BYTES_MAX: Final = 1 << 20

# Two machines' clocks differ by seconds; a `ts` further ahead says nothing about time.
_AHEAD_MAX: Final = timedelta(minutes=5)

EMPTY_BLOB: Final = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """`blob` is b"" in a repository whose hashes are not SHA-1: it equals nothing of amend's."""

    mode: int
    blob: bytes


class Baseline(Enum):
    """What history says about a file that an older entry cites."""

    MATCHED = "as it was"
    CHANGED = "changed by a commit since"
    MODIFIED = "differs from HEAD"
    UNTRACKED = "not in HEAD"
    CANNOT_TELL = "history does not reach"


def _chunks(paths: Iterable[bytes]) -> Iterable[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for path in paths:
        size += len(path) + 1
        if chunk and size > _ARGUMENT_BYTES_MAX:
            yield chunk
            chunk, size = [], len(path) + 1
        chunk.append(path)
    if chunk:
        yield chunk


def entries_at(
    places: RepositoryPlaces, treeish: str, paths: Sequence[bytes]
) -> dict[bytes, TreeEntry]:
    """The files among `paths` that the tree holds."""
    found = {}
    wanted = set(paths)
    for chunk in _chunks(paths):
        output = run_git(places.root, "ls-tree", ["-r", "-z", "--full-tree", treeish, "--", *chunk])
        found.update({p: e for p, e in _tree_lines(output) if p in wanted})
    return found


def _tree_lines(output: bytes) -> Iterable[tuple[bytes, TreeEntry]]:
    for line in output.split(b"\0"):
        facts, tab, path = line.partition(b"\t")
        if tab:
            mode, kind, oid = facts.split()[:3]
            if kind == b"blob":
                yield path, TreeEntry(int(mode, 8), _blob(oid))


def _blob(oid: bytes) -> bytes:
    return bytes.fromhex(oid.decode()) if len(oid) == 40 else b""


# -- which commit ------------------------------------------------------------------------------


def last_commits(
    places: RepositoryPlaces, head: str, paths: Sequence[bytes], *, limit_s: float = LIMIT_S
) -> dict[bytes, Commit]:
    """For each path the commit that brought its present state, along first parents.

    A merge counts for what it brought to its first parent, the root commit for what it began with,
    and for a path that is gone the commit that deleted it. Paths not found in time are left out.
    """
    found = _last_oids(places, head, paths, time.monotonic() + limit_s)
    commits = _commits(places, set(found.values()))
    return {path: commits[oid][0] for path, oid in found.items() if oid in commits}


def _last_oids(
    places: RepositoryPlaces, head: str, paths: Sequence[bytes], until_s: float
) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    missing = dict.fromkeys(paths)
    at: str | None = head
    if len(missing) >= _FEW_PATHS:
        for count in _WALK_COMMITS:
            if not missing or at is None or time.monotonic() > until_s:
                break
            brought, at = _walk(places, at, count, list(missing), until_s)
            for path, oid in brought.items():
                found[path] = oid
                missing.pop(path, None)
    start = at
    for path in missing if start is not None else ():
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            break
        arguments: list[str | bytes] = ["-1", "--first-parent", str(start), "--", path]
        try:
            oid = run_git(places.root, "rev-list", arguments, limit_s=left_s).strip().decode()
        except GitFailed:
            break
        if oid:
            found[path] = oid
    return found


def _walk(
    places: RepositoryPlaces, start: str, count: int, paths: list[bytes], until_s: float
) -> tuple[dict[bytes, str], str | None]:
    """Among `count` commits from `start`: the newest that changed each path, and where to go on."""
    try:
        arguments = ["--first-parent", "--parents", f"--max-count={count}", start]
        listing = run_git(places.root, "rev-list", arguments).decode().splitlines()
        pairs = [" ".join(line.split(" ")[:2]) for line in listing]
        left_s = max(0.1, until_s - time.monotonic())
        names = run_git(
            places.root,
            "diff-tree",
            [
                "--stdin",
                "--root",
                "-r",
                "-m",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                "--name-status",
                "--",
                *paths,
            ],
            stdin="\n".join([*pairs, ""]).encode(),
            limit_s=left_s,
        )
    except GitFailed:
        return {}, None
    wanted = set(paths)
    brought: dict[bytes, str] = {}
    oid = ""
    for line in names.split(b"\n"):
        status, tab, path = line.partition(b"\t")
        if not tab:
            oid = status.decode()
        elif path in wanted and path not in brought:
            brought[path] = oid
    last = pairs[-1].split(" ") if pairs else []
    return brought, last[1] if len(last) > 1 else None


def _commits(places: RepositoryPlaces, oids: set[str]) -> dict[str, tuple[Commit, datetime]]:
    """Each commit and its committer's time."""
    if not oids:
        return {}
    arguments = ["--no-walk=unsorted", "--format=%H%x00%at%x00%ct%x00%s", "--stdin"]
    try:
        output = run_git(
            places.root, "rev-list", arguments, stdin="\n".join([*sorted(oids), ""]).encode()
        )
    except GitFailed:
        return {}
    commits = {}
    for line in output.decode("utf-8", "replace").splitlines():
        if line.count("\0") == 3:
            oid, authored, committed, subject = line.split("\0")
            commits[oid] = (Commit(oid, _time(authored), subject), _time(committed))
    return commits


def _time(epoch: str) -> datetime:
    return datetime.fromtimestamp(int(epoch), UTC)


# -- where it went -----------------------------------------------------------------------------


def find_moves(
    places: RepositoryPlaces,
    head: str,
    gone: Mapping[bytes, bytes],
    *,
    hash_path: Callable[[bytes], bytes | None],
    list_directory: Callable[[bytes], Sequence[bytes]],
) -> dict[bytes, bytes]:
    """Where cited files went: old path → new, for `gone` paths and the blobs they had.

    A move is the same blob at exactly one path that is new: HEAD, which still has the old path,
    lacks it; or the commit that deleted the old path added it. An empty file never moved, and of
    several candidates none is taken. `hash_path` and `list_directory` look into the worktree, for
    files that git has not been told of.
    """
    wanted = {path: blob for path, blob in gone.items() if blob != EMPTY_BLOB}
    if not wanted:
        return {}
    at_head = entries_at(places, head, list(wanted))
    moves = _uncommitted_moves(
        places, head, {p: b for p, b in wanted.items() if p in at_head}, hash_path, list_directory
    )
    committed = {path: blob for path, blob in wanted.items() if path not in at_head}
    return moves | _committed_moves(places, head, committed)


def _uncommitted_moves(
    places: RepositoryPlaces,
    head: str,
    gone: Mapping[bytes, bytes],
    hash_path: Callable[[bytes], bytes | None],
    list_directory: Callable[[bytes], Sequence[bytes]],
) -> dict[bytes, bytes]:
    if not gone:
        return {}
    candidates: dict[bytes, set[bytes]] = {blob: set() for blob in gone.values()}
    for path, entry in _index(places):
        if entry.blob in candidates:
            candidates[entry.blob].add(path)
    for directory in {path.rpartition(b"/")[0] for path in gone}:
        for name in list_directory(directory)[:_SIBLINGS_MAX]:
            path = directory + b"/" + name if directory else name
            blob = hash_path(path) if not name.endswith(b"/") else None
            if blob in candidates:
                candidates[blob].add(path)
    known = entries_at(places, head, sorted(set().union(*candidates.values())))
    return _only_ones(gone, candidates, known.keys())


def _committed_moves(
    places: RepositoryPlaces, head: str, gone: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    if not gone:
        return {}
    candidates: dict[bytes, set[bytes]] = {blob: set() for blob in gone.values()}
    whole = run_git(places.root, "ls-tree", ["-r", "-z", "--full-tree", head])
    for path, entry in _tree_lines(whole):
        if entry.blob in candidates:
            candidates[entry.blob].add(path)
    likely = {path: blob for path, blob in gone.items() if candidates[blob]}
    deleted_by = _last_oids(places, head, list(likely), time.monotonic() + LIMIT_S)
    moves = {}
    for oid in set(deleted_by.values()):
        here = {path: likely[path] for path in likely if deleted_by.get(path) == oid}
        there = sorted(set().union(*(candidates[blob] for blob in here.values())))
        try:
            known = entries_at(places, f"{oid}^1", there)
        except GitFailed:
            continue  # the root commit deletes nothing
        moves.update(_only_ones(here, candidates, known.keys()))
    return moves


def _only_ones(
    gone: Mapping[bytes, bytes], candidates: Mapping[bytes, set[bytes]], known: Iterable[bytes]
) -> dict[bytes, bytes]:
    old = set(known)
    moves = {}
    for path, blob in gone.items():
        new = candidates[blob] - old - {path}
        if len(new) == 1:
            moves[path] = new.pop()
    return moves


def _index(places: RepositoryPlaces) -> Iterable[tuple[bytes, TreeEntry]]:
    output = run_git(places.root, "ls-files", ["-s", "-z"])
    for line in output.split(b"\0"):
        facts, tab, path = line.partition(b"\t")
        if tab:
            mode, oid, _stage = facts.split()
            yield path, TreeEntry(int(mode, 8), _blob(oid))


def is_tracked(places: RepositoryPlaces, path: bytes) -> bool:
    """Whether the index has the path."""
    return bool(run_git(places.root, "ls-files", ["-s", "-z", "--", path]))


def blob_text(places: RepositoryPlaces, treeish: str, path: bytes) -> bytes | None:
    """What the file holds in that tree, None when it is not there."""
    entry = entries_at(places, treeish, [path]).get(path)
    if entry is None:
        return None
    return run_git(places.root, "cat-file", ["blob", entry.blob.hex()]) if entry.blob else None


# -- how it was --------------------------------------------------------------------------------


def baseline(
    places: RepositoryPlaces,
    head: HeadState,
    blobs: Mapping[bytes, bytes],
    ts: datetime,
    now: datetime,
) -> dict[bytes, Baseline]:
    """For each path with its present blob: was the file like this at `ts`? DESIGN section 4.

    The reflog says what HEAD was at `ts`, which is exact; where it does not reach back (a fresh
    clone), the last commit's committer time decides.
    """
    if ts - now > _AHEAD_MAX:
        return dict.fromkeys(blobs, Baseline.CANNOT_TELL)
    if head.oid is None:
        return dict.fromkeys(blobs, Baseline.UNTRACKED)
    answer: dict[bytes, Baseline] = {}
    at_head = entries_at(places, head.oid, list(blobs))
    for path, blob in blobs.items():
        entry = at_head.get(path)
        if entry is None:
            answer[path] = Baseline.UNTRACKED
        elif not entry.blob:
            answer[path] = Baseline.CANNOT_TELL
        elif entry.blob != blob:
            answer[path] = Baseline.MODIFIED
    clean = [path for path in blobs if path not in answer]
    if clean:
        by_reflog = _by_reflog(places, blobs, clean, ts)
        answer.update(by_reflog if by_reflog is not None else _by_time(places, head.oid, clean, ts))
    return answer


def _by_reflog(
    places: RepositoryPlaces, blobs: Mapping[bytes, bytes], clean: list[bytes], ts: datetime
) -> dict[bytes, Baseline] | None:
    oid = _head_at(places, ts)
    if oid is None:
        return None
    try:
        then = entries_at(places, oid, clean)
    except GitFailed:
        return None  # that commit is no longer in this clone
    return {
        path: Baseline.MATCHED
        if path in then and then[path].blob == blobs[path]
        else Baseline.CHANGED
        for path in clean
    }


def _head_at(places: RepositoryPlaces, ts: datetime) -> str | None:
    """HEAD's commit at `ts`, None when the reflog begins later."""
    try:
        with open(places.git_dir + b"/logs/HEAD", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - _REFLOG_BYTES_MAX))
            lines = file.read(_REFLOG_BYTES_MAX).split(b"\n")
    except OSError:
        return None
    oid = None
    for line in lines:
        facts = line.partition(b"\t")[0].split(b" ")
        if len(facts) < 5 or not facts[-2].isdigit():
            continue
        if int(facts[-2]) > ts.timestamp():
            break
        oid = facts[1].decode()
    return oid if oid and oid.strip("0") else None


def _by_time(
    places: RepositoryPlaces, head: str, clean: list[bytes], ts: datetime
) -> dict[bytes, Baseline]:
    oids = _last_oids(places, head, clean, time.monotonic() + LIMIT_S)
    commits = _commits(places, set(oids.values()))
    try:
        with open(places.common_dir + b"/shallow", "rb") as file:
            boundary = set(file.read(_REFLOG_BYTES_MAX).decode().split())
    except OSError:
        boundary = set()
    answer = {}
    for path in clean:
        oid = oids.get(path, "")
        if oid not in commits:
            answer[path] = Baseline.CANNOT_TELL
        elif commits[oid][1] <= ts:
            answer[path] = Baseline.MATCHED
        else:
            # A shallow clone's oldest commit stands for all that came before it.
            answer[path] = Baseline.CANNOT_TELL if oid in boundary else Baseline.CHANGED
    return answer
