"""What is true of a worktree's findings, found the slow way, and whether `.git` was left alone.

`Truth` hashes every cited file and asks git about everything, through nothing of amend's: an oracle
for verdicts, causes and the commits that are told. `WriteWatch` sees every write below directories,
so that a test can say that there was none while amend was asked.
"""

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amend.edge.watch import kernel
from tests.integration.git_repositories import Repository

Kept = tuple[int, str]
"""git's mode and object name of a file, in the repository's own hash."""

Look = Kept | tuple[str, ...] | bool | None
"""A file, the names of a listing or glob, whether a path is there; None: nothing is."""

Causes = dict[str, dict[str, Any]]
"""Spec → what amend must say of it: its cause, and what the cause carries."""

NOWHERE: Mapping[str, str] = {}

# As many renames of one file as amend promises to follow.
HOPS = 8


@dataclass(frozen=True)
class Version:
    """A finding as it was recorded: spec → how it looked."""

    summary: str
    looks: Mapping[str, Look]


@dataclass
class History:
    """Commits and what they hold; both never change, so each is asked for once."""

    repository: Repository
    _trees: dict[str, dict[str, Kept]] = field(default_factory=dict)
    _parents: dict[str, str | None] = field(default_factory=dict)

    def tree(self, commit: str) -> dict[str, Kept]:
        if commit not in self._trees:
            tree = {}
            for line in self.repository.git("ls-tree", "-r", "-z", commit).split("\0"):
                facts, tab, path = line.partition("\t")
                if tab:
                    mode, _, oid = facts.split()
                    tree[path] = (int(mode, 8), oid)
            self._trees[commit] = tree
        return self._trees[commit]

    def parent(self, commit: str) -> str | None:
        if commit not in self._parents:
            line = self.repository.git("rev-list", "--parents", "--max-count=1", commit).split()
            self._parents[commit] = line[1] if len(line) > 1 else None
        return self._parents[commit]

    def brought(self, commit: str | None, path: str) -> str | None:
        """The commit that gave `path` the state it has in `commit`, first parents only."""
        while commit is not None:
            parent = self.parent(commit)
            before = self.tree(parent).get(path) if parent is not None else None
            if self.tree(commit).get(path) != before:
                return commit
            commit = parent
        return None


def holds(spec: str, then: Look, now: Mapping[str, Look], moves: Mapping[str, str]) -> bool:
    """Whether a source that looked like `then` supports a finding; `now` must have all of these."""
    if spec.startswith("!"):
        return not now[spec]
    if now[spec] is None and then is not None and spec in moves:
        return now.get(moves[spec]) == then
    return now[spec] == then and then is not None


class Truth:
    def __init__(self, repository: Repository, others: Iterable["Truth"] = ()) -> None:
        """`others`: of worktrees that may share this one's history."""
        self.repository = repository
        self.root = repository.root
        self.findings: dict[str, list[Version]] = {}  # newest first
        # A file that was followed once is known to be where its bytes stand, whatever git says
        # later: path and look → where it went.
        self.followed: dict[tuple[str, Look], str] = {}
        asked = ("--show-object-format", "--absolute-git-dir", "--git-common-dir")
        self.hash, git_dir, common_dir = repository.git("rev-parse", *asked).split("\n")
        self.git_dir, self.common_dir = Path(git_dir), (self.root / common_dir).resolve()
        same = (other.history for other in others if other.common_dir == self.common_dir)
        self.history = next(same, None) or History(repository)

    def record(self, key: str, specs: Iterable[str], summary: str = "") -> None:
        version = Version(summary or f"about {key}", {spec: self.look(spec) for spec in specs})
        self.findings[key] = [version, *self.findings.get(key, [])][:8]

    # -- what is there -----------------------------------------------------------------------------

    def look(self, spec: str) -> Look:
        if spec.startswith("!"):
            return os.path.lexists(self.root / spec[1:])
        if "*" in spec:
            return self._matches(spec)
        if spec.endswith("/"):
            return self._names(spec)
        return self.file(spec)

    def file(self, path: str) -> Kept | None:
        try:
            with open(self.root / path, "rb") as file:
                data, mode = file.read(), os.fstat(file.fileno()).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        named = hashlib.new(self.hash, b"blob %d\0" % len(data) + data).hexdigest()
        return (0o100755 if mode & 0o100 else 0o100644, named)

    def _names(self, directory: str) -> tuple[str, ...] | None:
        try:
            with os.scandir(self.root / directory) as entries:
                return tuple(sorted(e.name + "/" * e.is_dir() for e in entries))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _matches(self, pattern: str) -> tuple[str, ...]:
        """One `*` or a `**/` before the last name, which is all that these tests use."""
        directory, _, last = pattern.rpartition("/")
        deep = directory.endswith("**")
        top = directory.removesuffix("**").rstrip("/")
        found = []
        for at, _, names in os.walk(self.root / top):
            if at == str(self.root / top) or deep:
                below = os.path.relpath(at, self.root)
                found += [os.path.normpath(f"{below}/{n}") for n in fnmatch.filter(names, last)]
        return tuple(sorted(found))

    def head(self) -> str | None:
        """The commit that is checked out, None before the first."""
        return self.repository.git("rev-parse", "--verify", "-q", "HEAD", fails=True) or None

    # -- what follows from it ----------------------------------------------------------------------

    def supports(self, version: Version, moves: Mapping[str, str] = NOWHERE) -> bool:
        """Whether all is as it was; a file that is gone counts where `moves` leads to its like."""
        now = {spec: self.look(spec) for spec in (*version.looks, *moves.values())}
        return all(holds(spec, then, now, moves) for spec, then in version.looks.items())

    def causes(self, version: Version) -> Causes:
        """Everything that amend must say about a version that is not supported, or moved."""
        head = self.head()
        causes = {}
        for spec, then in version.looks.items():
            cause = self._cause(spec, then, head)
            if cause is not None:
                causes[spec] = cause
        return causes

    def _cause(self, spec: str, then: Look, head: str | None) -> dict[str, Any] | None:
        now = self.look(spec)
        if spec.startswith("!"):
            return {"cause": "appeared"} if now else None
        if now is None:
            return self._gone(spec, then, head)
        if now == then:
            return None
        if then is None:
            return {"cause": "appeared"}
        if "*" in spec or spec.endswith("/"):
            return self._names_differ(now, then)
        tree = self.history.tree(head) if head is not None else {}
        if tree.get(spec) != now:
            return {"cause": "edited"}
        return {"cause": "committed"} | self._commit(head, spec)

    def _names_differ(self, now: Look, then: Look) -> dict[str, Any]:
        after = set(now) if isinstance(now, tuple) else set()
        before = set(then) if isinstance(then, tuple) else set()
        more = {
            "gained": sorted(map(str, after - before)),
            "lost": sorted(map(str, before - after)),
        }
        return {"cause": "appeared"} | {name: paths for name, paths in more.items() if paths}

    def _gone(self, spec: str, then: Look, head: str | None) -> dict[str, Any]:
        if "*" in spec or spec.endswith("/") or then is None:
            return {"cause": "deleted"}
        moved_to = self.moved_to(spec, then, head)
        if moved_to is not None:
            return {"cause": "moved", "moved_to": moved_to}
        if head is None or spec in self.history.tree(head):
            return {"cause": "deleted"}
        return {"cause": "deleted"} | self._commit(head, spec)

    def _commit(self, head: str | None, path: str) -> dict[str, Any]:
        """A shallow clone's oldest commit brought nothing: it only ends what is known."""
        brought = self.history.brought(head, path)
        shallow = self.common_dir / "shallow"
        beyond = shallow.read_text().split() if shallow.exists() else []
        return {"commit": brought} if brought is not None and brought not in beyond else {}

    def moved_to(self, path: str, then: Look, head: str | None) -> str | None:
        known = self.followed.get((path, then))
        if known is None or self.file(known) != then:
            known = self._found_at(path, then, head)
        if known is not None:
            self.followed[path, then] = known
        return known if known is not None and self.file(known) == then else None

    def _found_at(self, path: str, then: Look, head: str | None) -> str | None:
        """The one path that is new since `path` was there, and to which git says its bytes went."""
        assert isinstance(then, tuple)
        blob = then[1]
        if head is None or blob == hashlib.new(self.hash, b"blob 0\0").hexdigest():
            return None
        tree, at = self.history.tree(head), path
        for _ in range(HOPS):
            committed = at not in tree
            new = self._added_with(blob, at, head) if committed else self._new_with(blob, at, tree)
            if len(new) != 1:
                return None
            at = new.pop()
            if not committed or (at in tree and self.file(at) is not None):
                return str(at)
        return None

    def _new_with(self, blob: str, old: str, tree: Mapping[str, Kept]) -> set[str]:
        """What HEAD does not have and the index does, or the directory that `old` was in."""
        found = set()
        for line in self.repository.git("ls-files", "-s", "-z").split("\0"):
            facts, tab, path = line.partition("\t")
            if tab and facts.split()[1:] == [blob, "0"] and self.file(path) is not None:
                found.add(path)
        directory = os.path.dirname(old)
        for name in self._names(f"{directory}/" if directory else ".") or ():
            path = f"{directory}/{name}" if directory else name
            if not name.endswith("/") and (self.file(path) or (0, ""))[1] == blob:
                found.add(path)
        return found - tree.keys()

    def _added_with(self, blob: str, old: str, head: str) -> set[str]:
        """What the commit that deleted `old` added with its bytes."""
        commit = self.history.brought(head, old)
        parent = self.history.parent(commit) if commit is not None else None
        if commit is None or parent is None:
            return set()
        before, after = self.history.tree(parent), self.history.tree(commit)
        if before.get(old, (0, ""))[1] != blob:
            return set()
        return {p for p, (_, oid) in after.items() if oid == blob and p not in before}


# -- against what amend says ---------------------------------------------------------------------


def told_causes(row: Mapping[str, Any]) -> Causes:
    """An answer's causes in the oracle's words; the commit's name stands for the commit."""
    told = {}
    for cause in row["causes"]:
        kept = {k: v for k, v in cause.items() if k in ("cause", "moved_to", "gained", "lost")}
        if not cause.get("settled", True) and not cause["source"].endswith("/"):
            kept["settled"] = False  # git has not been asked, or could not say
        if "commit" in cause:
            kept["commit"] = cause["commit"]["oid"]
        told[cause["source"]] = kept
    return told


def told_moves(row: Mapping[str, Any]) -> dict[str, str]:
    return {c["source"]: c["moved_to"] for c in row["causes"] if c["cause"] == "moved"}


# -- who wrote where -----------------------------------------------------------------------------


class WriteWatch:
    """Sees every name made, removed or written below some directories; git's own in them it passes
    by."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._descriptor = kernel.Descriptor()
        self._paths: dict[int, str] = {}

    def begin(self) -> None:
        """Forget what was seen, and see also into directories that are new."""
        self.seen()
        for directory in self._directories:
            for at, names, _ in os.walk(directory):
                self._paths[self._descriptor.add(os.fsencode(at), kernel.DIRECTORY)] = at
                # Loose objects are in up to 256 directories, whose making `objects` itself shows.
                is_of_objects = at.endswith("/objects")
                names[:] = [n for n in names if n != ".git" and not (is_of_objects and len(n) == 2)]

    def seen(self) -> list[str]:
        """Paths written since, oldest first; reading them is none."""
        found = []
        while buffer := self._descriptor.read():
            for wd, mask, name in kernel.records(buffer):
                if not mask & kernel.IGNORED:
                    found.append(os.path.join(self._paths.get(wd, "?"), os.fsdecode(name)))
        return found

    def close(self) -> None:
        self._descriptor.close()


def index_stamp(git_dir: Path) -> tuple[int, int] | None:
    """(inode, mtime) of the index; None where there is none."""
    try:
        about = (git_dir / "index").stat()
    except FileNotFoundError:
        return None
    assert stat.S_ISREG(about.st_mode)
    return about.st_ino, about.st_mtime_ns
