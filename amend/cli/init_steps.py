"""What `amend init` does, a step at a time; each says in one line what it did or why it did not.

A step that fails hinders no other. Done again, every step finds its work done. Where nothing is to
be changed (`is_dry`), the same steps gather the changes that they would make.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from amend.cli.asking import daemon
from amend.cli.contract_files import configured
from amend.cli.init_files import Change, Plan, as_diff, planned, read, write
from amend.core.aicontext import INDEX_NAME
from amend.edge.files.straight import make_directories
from amend.edge.git.places import RepositoryPlaces, discover, discover_bare
from amend.edge.git.run import GitFailed
from amend.edge.git.trees import ignored_below, is_tracked
from amend.edge.service import prepare_private_dir, state_dir
from amend.errors import AmendError, NotFound, Refused, Unavailable, reason_of
from amend.formats.agent_cache import FILE_NAME, TEMPLATE
from amend.formats.aicontext import new_index
from amend.formats.gitignore import says_ignored, with_line
from amend.formats.instructions import has_block, with_block

GITIGNORE: Final = b".gitignore"
CACHE: Final = FILE_NAME.decode()

# Where each kind of agent looks; the first one that is there is meant, else the first.
INSTRUCTIONS: Final = {"claude": (b"CLAUDE.md", b".claude/CLAUDE.md"), "agents": (b"AGENTS.md",)}

# How Claude Code's file takes in the other one.
_IMPORT: Final = re.compile(rb"(?<!\S)@(?:\.{1,2}/)?AGENTS\.md\b")

PURPOSE: Final = "what is known about this repository"


class Did(Enum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"  # it is as it should be
    SKIPPED = "skipped"  # not asked for, or not for this repository
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """`subject`: the file or thing it is about. `said` follows it, and "would be" in a dry run."""

    subject: str
    did: Did
    said: str
    hint: str = ""


@dataclass(slots=True)
class Init:
    root: bytes
    places: RepositoryPlaces | None
    is_dry: bool
    steps: list[Step] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    settings_diffs: list[str] = field(default_factory=list)  # of agents' settings, in a dry run

    # -- the steps ---------------------------------------------------------------------------

    def make_cache(self) -> None:
        self._make(FILE_NAME, TEMPLATE, created="created, empty")

    def ignore_cache(self) -> None:
        """After `make_cache`: git says of a file that is there whether it ignores it."""
        subject = GITIGNORE.decode()
        if self.places is None:
            self._say(subject, Did.SKIPPED, "not needed, there is no git repository")
            return
        try:
            reason = self._why_no_line(self.places)
        except (AmendError, OSError) as error:
            self._fail(subject, error)
            return
        if reason is not None:
            self._say(subject, *reason)
            return
        self._file(
            GITIGNORE,
            lambda present: with_line(present or b"", FILE_NAME),
            created=f"created with a line {CACHE}",
            changed=f"given a line {CACHE}",
        )

    def _why_no_line(self, places: RepositoryPlaces) -> tuple[Did, str] | None:
        if is_tracked(places, FILE_NAME):
            said = f"left as it is: git tracks {CACHE}, and amend will only observe it"
            return Did.SKIPPED, said
        said_ignored = says_ignored(read(self.root, GITIGNORE) or b"", FILE_NAME)
        if said_ignored or FILE_NAME in ignored_below(places, FILE_NAME):
            return Did.UNCHANGED, f"git ignores {CACHE} already"
        if said_ignored is False:
            return Did.SKIPPED, f"left as it is: it says that {CACHE} is not to be ignored"
        return None

    def make_memory(self) -> None:
        """The first tree that the configuration names, `memory` where it says nothing."""
        try:
            trees = configured(self.root).memory
            if not trees:
                self._say("memory", Did.SKIPPED, "not made: the configuration names no memory tree")
                return
            tree = os.fsencode(trees[0])
            if not self.is_dry:
                make_directories(self.root, tree)
        except (AmendError, OSError) as error:
            self._fail("memory", error)
            return
        path = tree + b"/" + INDEX_NAME.encode()
        self._make(path, new_index(trees[0], PURPOSE, ()), created="created")

    def instruct(self, wanted: str | None) -> None:
        """`wanted`: "claude", "agents", "both" or "none"; None: into the files that are there."""
        if wanted == "none":
            self._say("instructions", Did.SKIPPED, "not asked for")
            return
        names = INSTRUCTIONS if wanted in (None, "both") else (wanted,)
        paths = [path for name in names if (path := self._instructions(name, wanted)) is not None]
        if not paths:
            said = "not added: there is neither CLAUDE.md nor AGENTS.md; --instructions makes one"
            self._say("instructions", Did.SKIPPED, said)
        done: dict[bytes, bytes] = {}
        for path in sorted(paths, key=lambda path: path != b"AGENTS.md"):
            try:
                target = self._resolved(path)
            except Refused as error:
                self._fail(os.fsdecode(path), error)
                continue
            if target in done:
                said = f"the same file as {os.fsdecode(done[target])}"
                self._say(os.fsdecode(path), Did.UNCHANGED, said)
                continue
            done[target] = path
            if wanted is None and b"AGENTS.md" in done.values() and self._takes_in_agents(target):
                self._say(os.fsdecode(path), Did.SKIPPED, "left as it is: it takes in AGENTS.md")
                continue
            self._file(
                target,
                lambda present: with_block(present or b""),
                created="created with the block for agents",
                changed="given the block for agents",
                unchanged="has the block for agents",
            )

    def _instructions(self, name: str, wanted: str | None) -> bytes | None:
        candidates = INSTRUCTIONS[name]
        there = (path for path in candidates if os.path.lexists(self.root + b"/" + path))
        return next(there, None if wanted is None else candidates[0])

    def _resolved(self, path: bytes) -> bytes:
        """The file that is meant; CLAUDE.md is often a link to AGENTS.md."""
        full = self.root + b"/" + path
        if not os.path.islink(full):
            return path
        real = os.path.realpath(full)
        if not real.startswith(self.root + b"/") or not os.path.isfile(real):
            raise Refused(
                f"{os.fsdecode(path)}: it is a link to {os.fsdecode(os.readlink(full))},"
                " must lead to a file in this repository",
                hint="amend changes nothing outside of it; copy the block there by hand",
            )
        return real.removeprefix(self.root + b"/")

    def _takes_in_agents(self, path: bytes) -> bool:
        """Whether it has the block through AGENTS.md, and none of its own."""
        try:
            data = read(self.root, path) or b""
            return _IMPORT.search(data) is not None and not has_block(data)
        except AmendError:
            return False  # what is wrong with it is said when it is to be written

    def register(self) -> None:
        """Last, so that the daemon finds everything there."""
        subject = os.fsdecode(self.root)
        try:
            client = daemon()
            if any(os.fsencode(repo["root"]) == self.root for repo in client.get("/v1/repos")):
                self._say(subject, Did.UNCHANGED, "tended already")
                return
            if not self.is_dry:
                client.post("/v1/repos", {"root": subject})
        except Unavailable as error:
            said = f"not tended yet: {error.message}; `amend run` starts one, then `amend add`"
            self._say(subject, Did.SKIPPED, said)
            return
        except AmendError as error:
            self._fail(subject, error)
            return
        self._say(subject, Did.CHANGED, "tended from now on")

    def diff(self) -> bytes:
        """Of everything: first the repository's files, then agents' settings, by absolute path."""
        return as_diff(self.changes) + "".join(self.settings_diffs).encode(
            "utf-8", "surrogateescape"
        )

    # -- what they share ---------------------------------------------------------------------

    def _make(self, path: bytes, content: bytes, *, created: str) -> None:
        """Where nothing is; what is there is not looked into."""
        if os.path.lexists(self.root + b"/" + path):
            self._say(os.fsdecode(path), Did.UNCHANGED, "there already")
            return
        self._file(path, lambda present: content if present is None else None, created=created)

    def _file(
        self, path: bytes, plan: Plan, *, created: str, changed: str = "", unchanged: str = ""
    ) -> None:
        subject = os.fsdecode(path)
        try:
            change = planned(self.root, path, plan)
            if change is None:
                self._say(subject, Did.UNCHANGED, unchanged)
                return
            if not self.is_dry:
                write(self.root, path, plan, retain_dir=_retain_dir())
        except (AmendError, OSError) as error:
            self._fail(subject, error)
            return
        self.changes.append(change)
        is_new = change.before is None
        self._say(subject, Did.CREATED if is_new else Did.CHANGED, created if is_new else changed)

    def _say(self, subject: str, did: Did, said: str, hint: str = "") -> None:
        self.steps.append(Step(subject, did, said, hint))

    def _fail(self, subject: str, error: AmendError | OSError) -> None:
        if isinstance(error, AmendError):
            said, hint = error.message.removeprefix(f"{subject}: "), error.hint
        else:
            said, hint = reason_of(error), ""
        if isinstance(error, GitFailed):
            hint = hint or "mend the repository, then try again"
        self._say(subject, Did.FAILED, said, hint)


def opened(path: str, *, is_dry: bool) -> Init:
    """For the repository that `path` is in, or the directory itself where it is in none."""
    root = os.fsencode(path)
    if not os.path.isdir(root):
        raise NotFound(f"{path} is no directory", hint="name the root of a repository")
    if discover_bare(root) is not None:
        hint = "name a worktree of it"
        raise Refused(f"{path} is a bare repository and has no files", hint=hint)
    places = discover(root)
    real = places.root if places is not None else os.path.realpath(root)
    if real == b"/":
        raise Refused("the root directory is no repository", hint="name a repository")
    return Init(real, places, is_dry)


def failures(steps: list[Step]) -> Iterator[Step]:
    return (step for step in steps if step.did is Did.FAILED)


def _retain_dir() -> bytes:
    """Apart from the daemon's, which looks after what lies in its own."""
    state = state_dir(os.environ)
    prepare_private_dir(state)
    return os.fsencode(state / "displaced-by-init")
