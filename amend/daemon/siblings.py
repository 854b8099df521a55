"""The other repositories that one worktree's entries cite, and what of each is "now".

A sibling is tracked as its worktree stands, as its HEAD is, or as a ref is. It may be missing or no
repository, today or for a while: then what is cited there is unknown, with the reason, and known
again when it is back.

Guarantees: `now` looks at the disk on each call, so that an answer given by it is true now; nothing
here starts git but `print_in_tree`, which belongs into a worker.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from amend.core.model import (
    ABSENT,
    CauseKind,
    FilePrint,
    Fingerprint,
    NoPrint,
    SiblingRule,
    Source,
    SourceKind,
)
from amend.edge.files.look import stat_key
from amend.edge.git.head import NO_HEAD, HeadState, needs_git, read_head, read_ref
from amend.edge.git.history import entries_at
from amend.edge.git.places import RepositoryPlaces, discover, discover_bare
from amend.edge.git.run import GitFailed
from amend.errors import Refused

# Of a tracked ref only files are cited; names could be listed, but nobody has needed it.
_IN_TREE: Final = (SourceKind.FILE, SourceKind.ABSENT)


@dataclass(frozen=True, slots=True)
class Commit:
    """What a tracked ref stands at."""

    places: RepositoryPlaces
    oid: str


@dataclass(slots=True)
class Sibling:
    rule: SiblingRule
    root: bytes = field(init=False)
    places: RepositoryPlaces | None = None
    head: HeadState = NO_HEAD
    problem: str | None = "was not looked at yet"
    _key: bytes | None = None

    def __post_init__(self) -> None:
        self.root = os.path.realpath(self.rule.root)
        self.look()

    @property
    def is_worktree(self) -> bool:
        """Whether its files on disk are "now", and not what a ref holds."""
        return self.rule.track == "worktree"

    def look(self) -> None:
        """Find out whether it is there; two stats where nothing has changed."""
        key = stat_key(self.root, b".git") + stat_key(self.root, b"HEAD")
        if key == self._key:
            return
        self._key = key
        self.places, self.problem = None, None
        try:
            bare = discover_bare(self.root)
            places = bare or discover(self.root)
        except Refused as error:
            self.problem = self._said(error.message)
            return
        if bare is not None and self.is_worktree:
            self.problem = self._said("is a bare repository without files: track head or a ref")
        elif places is not None and places.root == self.root:
            self.places = places
            self.refresh_head()
        elif not os.path.isdir(self.root):
            self.problem = self._said("is no directory")
        elif places is not None:
            self.problem = self._said(f"is inside a repository; name {os.fsdecode(places.root)}")
        else:
            self.problem = self._said("is no repository")

    def _said(self, what: str) -> str:
        return f"sibling {self.rule.name}: {os.fsdecode(self.rule.root)} {what}"

    def refresh_head(self) -> None:
        """Read what is "now" of its history."""
        if self.places is None or needs_git(self.places):
            self.head = NO_HEAD  # nothing here starts git
        elif self.rule.track.startswith("ref:"):
            self.head = read_ref(self.places, self.rule.track.removeprefix("ref:"))
        else:
            self.head = read_head(self.places)

    def now(self) -> bytes | Commit | NoPrint:
        """Where to look: a root on disk, or a commit, or why nowhere."""
        self.look()
        if self.places is None:
            return NoPrint(CauseKind.UNREADABLE, self.problem or "")
        if self.is_worktree:
            return self.root
        self.refresh_head()
        if self.head.oid is None:
            missing = self._said(f"has nothing at {self.rule.track}")
            return NoPrint(CauseKind.UNREADABLE, missing)
        return Commit(self.places, self.head.oid)


def print_in_tree(commit: Commit, source: Source) -> Fingerprint:
    """What the commit has at the source's path. Starts git."""
    if source.kind not in _IN_TREE:
        return NoPrint(CauseKind.UNREADABLE, "of a tracked ref only files can be cited")
    try:
        entry = entries_at(commit.places, commit.oid, [source.path]).get(source.path)
    except (GitFailed, Refused) as error:
        return NoPrint(CauseKind.UNREADABLE, error.message)
    if entry is None:
        return ABSENT
    if entry.blob is None:
        return NoPrint(CauseKind.UNREADABLE, "its repository names files by SHA-256")
    return FilePrint(entry.blob, entry.mode)


def merged(*groups: Iterable[SiblingRule]) -> tuple[SiblingRule, ...]:
    """By name; later groups win."""
    return tuple({rule.name: rule for group in groups for rule in group}.values())
