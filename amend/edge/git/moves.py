"""Ask git where cited files went: proven renames only, never a guess.

A file has moved when its path is gone and the same blob is at exactly one path that is new
compared with where the old path last was:
* HEAD still has the old path: new is what HEAD lacks, among the index and, since git may not have
  been told yet, among the files beside the old path;
* HEAD lacks it: new is what the commit that deleted it added. A file that was moved on from there
  is followed.
An empty file never moved, for any two are alike. Of several candidates none is taken.
"""

import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from amend.edge.git.commits import last_oids
from amend.edge.git.places import RepositoryPlaces, ask
from amend.edge.git.run import CHANGES, LIMIT_S, GitFailed, GitTimedOut
from amend.edge.git.trees import entries_until, index_entries, raw_changes

EMPTY_BLOB: Final = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")

# New files beside a renamed one are hashed; with more of them, something else is going on.
_NEIGHBOURS_MAX: Final = 200

# More renames of one file than this, since an entry cited it, are not worth their commands.
_HOPS_MAX: Final = 8


def find_move(
    places: RepositoryPlaces,
    head: str | None,
    path: bytes,
    blob: bytes,
    *,
    hash_path: Callable[[bytes], bytes | None],
    list_directory: Callable[[bytes], Sequence[bytes]],
    limit_s: float = LIMIT_S,
) -> bytes | None:
    """`find_moves` of one path."""
    moves = find_moves(
        places,
        head,
        {path: blob},
        hash_path=hash_path,
        list_directory=list_directory,
        limit_s=limit_s,
    )
    return moves.get(path)


def find_moves(
    places: RepositoryPlaces,
    head: str | None,
    gone: Mapping[bytes, bytes],
    *,
    hash_path: Callable[[bytes], bytes | None],
    list_directory: Callable[[bytes], Sequence[bytes]],
    limit_s: float = LIMIT_S,
) -> dict[bytes, bytes]:
    """Old path → new, for paths that are gone and the blobs they had.

    `hash_path` gives the blob of a file in the worktree, None where it cannot; `list_directory` the
    names in one of its directories, empty where it cannot, a directory's own ending in `/` or left
    out. Files that could not be looked for in time are left out. Raises `GitFailed`.
    """
    at = {path: path for path, blob in gone.items() if blob != EMPTY_BLOB}
    if head is None or not at:
        return {}
    search = _Search(places, head, hash_path, list_directory, time.monotonic() + limit_s)
    moves: dict[bytes, bytes] = {}
    try:
        for _ in range(_HOPS_MAX):
            if at:
                at = search.hop(at, gone, moves)
    except GitTimedOut:
        pass  # what was found counts
    return moves


@dataclass(frozen=True, slots=True)
class _Search:
    """`gone` below: cited path → (where it is looked for from, its blob)."""

    places: RepositoryPlaces
    head: str
    hash_path: Callable[[bytes], bytes | None]
    list_directory: Callable[[bytes], Sequence[bytes]]
    until_s: float

    def hop(
        self, at: Mapping[bytes, bytes], gone: Mapping[bytes, bytes], moves: dict[bytes, bytes]
    ) -> dict[bytes, bytes]:
        """Follow each cited path one rename on from where it is `at`, into `moves` those that are
        there; the rest is to be followed further."""
        at_head = self.held(self.head, at.values())
        kept = {path: (to, gone[path]) for path, to in at.items() if to in at_head}
        lost = {path: (to, gone[path]) for path, to in at.items() if to not in at_head}
        moves |= self.uncommitted(kept)
        further = self.committed(lost)
        here = self.held(self.head, further.values())
        for path, to in list(further.items()):
            if to in here and self.hash_path(to) is not None:
                moves[path] = further.pop(path)
        return further

    def held(self, treeish: str, paths: Iterable[bytes]) -> set[bytes]:
        return set(entries_until(self.places, treeish, paths, self.until_s))

    def uncommitted(self, gone: Mapping[bytes, tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        """What HEAD lacks and has the same blob, in the index or beside the old path."""
        if not gone:
            return {}
        candidates: dict[bytes, set[bytes]] = {blob: set() for _, blob in gone.values()}
        for path, entry in index_entries(self.places, self.until_s):
            if entry.blob in candidates and stat.S_ISREG(entry.mode):
                candidates[entry.blob].add(path)
        known = self.held(self.head, set().union(*candidates.values()))
        for blob, paths in candidates.items():
            candidates[blob] = {p for p in paths - known if self.hash_path(p) is not None}
        beside = {
            directory: self._new_beside(directory)
            for directory in {old.rpartition(b"/")[0] for old, _ in gone.values()}
        }
        moves = {}
        for path, (old, blob) in gone.items():
            neighbours = beside[old.rpartition(b"/")[0]]
            if neighbours is None:
                continue  # a second candidate may be among those that were not looked at
            new = candidates[blob] | {p for p, found in neighbours.items() if found == blob}
            if len(new) == 1:
                moves[path] = new.pop()
        return moves

    def _new_beside(self, directory: bytes) -> dict[bytes, bytes | None] | None:
        """The files of a directory that HEAD lacks, with their blobs; None: not all of them."""
        names = [name for name in self.list_directory(directory) if not name.endswith(b"/")]
        paths = [directory + b"/" + name if directory else name for name in names]
        new = set(paths) - self.held(self.head, paths)
        if len(new) > _NEIGHBOURS_MAX:
            return None
        hashed = {}
        for path in new:
            if time.monotonic() > self.until_s:
                return None
            hashed[path] = self.hash_path(path)
        return hashed

    def committed(self, gone: Mapping[bytes, tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        """What the commit that deleted the old path added with the same blob."""
        if not gone:
            return {}
        deleted_by = last_oids(
            self.places, self.head, [old for old, _ in gone.values()], self.until_s
        )
        moves = {}
        for commit in sorted(set(deleted_by.values())):
            try:
                output = ask(
                    self.places,
                    CHANGES,
                    ["--raw", f"{commit}^1", commit, "--"],
                    until_s=self.until_s,
                )
            except GitFailed:
                continue  # a root commit deletes nothing; or out of time, which the next one tells
            deleted: dict[bytes, bytes | None] = {}
            added: dict[bytes | None, list[bytes]] = {}
            for _, change in raw_changes(output):
                if not change.new.mode:
                    deleted[change.path] = change.old.blob
                elif not change.old.mode and stat.S_ISREG(change.new.mode):
                    added.setdefault(change.new.blob, []).append(change.path)
            for path, (old, blob) in gone.items():
                if deleted_by.get(old) == commit and deleted.get(old) == blob:
                    new = added.get(blob, [])
                    if len(new) == 1:
                        moves[path] = new[0]
        return moves
