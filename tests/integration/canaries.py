"""A repository that would rather run something: every program that git can be told to run, told.

`Hostile` is a real repository whose configuration, hooks, attributes and missing objects name one
program each; every program leaves a file of its own when it runs. `CANARIES` says of each which
plain git commands run it, or why none can.
"""

import os
import pty
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.integration.git_repositories import Repository, new_repository

# Far beyond what a git command here takes; only one that hangs meets it.
PLAIN_S: Final = 10.0

HOOKS: Final = (
    *("post-index-change", "reference-transaction", "post-checkout", "pre-commit"),
    *("pre-auto-gc", "post-merge", "post-rewrite", "fsmonitor-watchman"),
)


@dataclass(frozen=True)
class Canary:
    """`config`: lines of `.git/config` where `{run}` is the program, `{near}` a repository that is
    safe. `provoked_by`: plain git commands. `cannot`: why it never runs."""

    name: str
    config: str
    provoked_by: tuple[str, ...]
    stdin: str = ""
    on_terminal: bool = False
    cannot: str = ""


CANARIES: Final = (
    Canary("fsmonitor", "[core]\nfsmonitor = {run}", ("status",)),
    Canary("hooks_path", "[core]\nhooksPath = {run}.d", ("checkout -q -b next",)),
    Canary("hooks", "", ("config --unset core.hooksPath", "checkout -q -b next")),
    Canary("clean", '[filter "whole"]\nclean = {run}', ("add --renormalize a.py",)),
    Canary("smudge", '[filter "whole"]\nsmudge = {run}', ("checkout HEAD~1 -- a.py",)),
    Canary("process", '[filter "stream"]\nprocess = {run}', ("checkout HEAD~1 -- notes.md",)),
    Canary("textconv", '[diff "shown"]\ntextconv = {run}', ("log -p -- a.py",)),
    Canary("diff_driver", '[diff "shown"]\ncommand = {run}', ("diff HEAD~1 HEAD -- a.py",)),
    Canary("external_diff", "[diff]\nexternal = {run}", ("diff HEAD~1 HEAD -- plain.txt",)),
    Canary("pager", "[core]\npager = {run}", ("log",), on_terminal=True),
    Canary("own_pager", "[pager]\nls-tree = {run}", ("ls-tree HEAD",), on_terminal=True),
    Canary("editor", "[core]\neditor = {run}", ("commit --allow-empty --no-gpg-sign",)),
    Canary(
        "credential_helper",
        "[credential]\nhelper = {run}",
        ("credential fill",),
        stdin="protocol=https\nhost=nowhere.invalid\n\n",
    ),
    Canary(
        "askpass",
        "[core]\naskPass = {run}",
        ("credential fill",),
        stdin="protocol=https\nhost=nowhere.invalid\n\n",
    ),
    Canary("gpg", "[gpg]\nprogram = {run}\n[log]\nshowSignature = true", ("log",)),
    Canary(
        "ssh",
        '[core]\nsshCommand = {run}\n[remote "far"]\nurl = ssh://nowhere.invalid/r',
        ("fetch far",),
    ),
    Canary(
        "git_proxy",
        '[core]\ngitProxy = {run}\n[remote "proxied"]\nurl = git://nowhere.invalid/r',
        ("fetch proxied",),
    ),
    Canary(
        "promisor",
        '[remote "origin"]\nurl = ext::{run} %S\npromisor = true\npartialclonefilter = tree:0\n'
        "[extensions]\npartialClone = origin\n[core]\nrepositoryFormatVersion = 1\n"
        '[protocol]\nallow = always\n[protocol "ext"]\nallow = always',
        ("cat-file -p HEAD~2:lost.txt",),
    ),
    Canary("uploadpack", '[remote "local"]\nurl = {near}\nuploadpack = {run}', ("fetch local",)),
    Canary(
        "alternate_refs",
        '[core]\nalternateRefsCommand = {run}\n[remote "near"]\nurl = {near}',
        ("fetch near",),
    ),
    Canary("embedded", "", ("-C vendor/bare status",)),
    Canary(
        "alias",
        '[alias]\nls-tree = "!{run}"\nrev-parse = "!{run}"\nrev-list = "!{run}"',
        ("ls-tree HEAD", "rev-parse HEAD", "rev-list HEAD"),
        cannot="git's own commands win over an alias of the same name",
    ),
    Canary(
        "pack_objects_hook",
        "[uploadpack]\npackObjectsHook = {run}",
        ("-C {near} fetch {root} main",),
        cannot="git does not read it from a repository's configuration",
    ),
)

ATTRIBUTES: Final = "*.py filter=whole diff=shown\n*.md filter=stream\n"

# What git waits for when it has started a filter process (gitattributes, "Long Running Filter
# Process"): one that can do nothing. git ends with an error where nobody answers.
FILTER_REPLY: Final = (
    "printf '0016git-filter-server\\n000eversion=2\\n00000000'\nexec cat > /dev/null\n"
)

# Without the version git takes no worktree from a repository that looks bare.
EMBEDDED: Final = (
    "[core]\nrepositoryFormatVersion = 0\nbare = false\nworktree = ..\nfsmonitor = {run}\n"
)


@dataclass
class Hostile:
    """`repository`: for what a person does in it, by a git that reads another configuration."""

    repository: Repository
    base: Path
    canaries: Sequence[Canary] = field(default=CANARIES)

    @property
    def root(self) -> Path:
        return self.repository.root

    @property
    def config(self) -> Path:
        return self.root / ".git" / "config"

    def program(self, name: str) -> Path:
        return self.base / "programs" / name

    def fired(self) -> set[str]:
        return set(os.listdir(self.base / "fired"))

    def plain(self, command: str, *, stdin: str = "", on_terminal: bool = False) -> int | None:
        """Run git as anybody would; its exit code, None where it hangs."""
        text = command.format(root=self.root, near=self.base / "near")
        master, terminal = pty.openpty() if on_terminal else (-1, subprocess.DEVNULL)
        leading = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_EDITOR")
        kept = {k: v for k, v in self.repository.environment.items() if k not in leading}
        try:
            return subprocess.run(
                ["git", *text.split()],
                cwd=self.root,
                env=kept | {"TERM": "vt100"},
                input=stdin.encode(),
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                timeout=PLAIN_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return None
        finally:
            if on_terminal:
                os.close(master)
                os.close(terminal)

    def provoke(self, canary: Canary) -> None:
        for command in canary.provoked_by:
            self.plain(command, stdin=canary.stdin, on_terminal=canary.on_terminal)


def make_hostile(base: Path) -> Hostile:
    """A repository of three commits, the last one signed, with all canaries planted."""
    for name in ("fired", "programs", "home"):
        (base / name).mkdir(parents=True)
    near = new_repository(base / "near", base / "home")
    near.commit("theirs", theirs="x\n")
    repository = new_repository(base / "repo", base / "home")
    repository.write("lost/x.txt", "in a tree that is missing\n")
    repository.write(".gitignore", ".agent-cache.json\n")
    repository.write(".gitattributes", ATTRIBUTES)
    files = {"a.py": "a 1\n", "notes.md": "notes 1\n", "lost.txt": "missing\n", "plain.txt": "1\n"}
    repository.commit("begin", **files)
    repository.git("rm", "-rq", "lost", "lost.txt")
    plain = {"plain.txt": "plain 2\n"}
    tended = {f"x{i}.py": f"x{i} 1\n" for i in range(10)}
    more = {"b.py": "b 1\n", "src/c.py": "c 1\n", "src/d.py": "d 1\n", "e.py": "e 1\n"}
    repository.commit(
        "go on", **{"a.py": "a 2\n", "notes.md": "notes 2\n"}, **plain, **tended, **more
    )
    _sign(repository)
    hostile = Hostile(repository, base)
    lost = [repository.git("rev-parse", f"HEAD~2:{path}") for path in ("lost", "lost.txt")]
    _plant(hostile)
    for oid in lost:
        (hostile.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    _drive_by_another_configuration(hostile)
    return hostile


def _sign(repository: Repository) -> None:
    """One more commit, of the same files but `a.py`, with a signature that gpg is to check."""
    repository.write("a.py", "a 3\n")
    repository.write("plain.txt", "plain 3\n")
    repository.git("add", "-A")
    commit = (
        f"tree {repository.git('write-tree')}\nparent {repository.head()}\n"
        f"author A <a@example.org> {repository.clock_s} +0000\n"
        f"committer C <c@example.org> {repository.clock_s} +0000\n"
        "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n"
    )
    oid = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit.encode())
    repository.git("update-ref", "HEAD", oid)


def _plant(hostile: Hostile) -> None:
    git_dir, near = hostile.root / ".git", hostile.base / "near"
    config = hostile.config.read_text()
    for canary in hostile.canaries:
        program = hostile.program(canary.name)
        reply = FILTER_REPLY if canary.name == "process" else ""
        program.write_text(f"#!/bin/sh\n: > {hostile.base / 'fired' / canary.name}\n{reply}")
        program.chmod(0o755)
        config += canary.config.format(run=program, near=near) + "\n"
    hostile.config.write_text(config)
    for name, directory in (
        ("hooks", git_dir / "hooks"),
        ("hooks_path", Path(f"{hostile.program('hooks_path')}.d")),
    ):
        directory.mkdir()
        for hook in HOOKS:
            (directory / hook).symlink_to(hostile.program(name))
    (git_dir / "info").mkdir()
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_text(f"{near / '.git' / 'objects'}\n")
    # One that a person walks into, and one that git finds where `.git` has gone.
    for embedded in (hostile.root / "vendor" / "bare", hostile.root):
        for name in ("objects", "refs"):
            (embedded / name).mkdir(parents=True)
        (embedded / "HEAD").write_text("ref: refs/heads/main\n")
        (embedded / "config").write_text(EMBEDDED.format(run=hostile.program("embedded")))


def _drive_by_another_configuration(hostile: Hostile) -> None:
    """Let the test's own git commands take refs, objects, HEAD and index from the repository, and
    its configuration and hooks from elsewhere: nothing but amend may fire a canary."""
    git_dir, common = hostile.root / ".git", hostile.base / "common"
    common.mkdir()
    (common / "config").write_text("[core]\nrepositoryFormatVersion = 0\n[gc]\nauto = 0\n")
    for name in ("objects", "refs"):
        (common / name).symlink_to(git_dir / name)
    hostile.repository.environment |= {
        "GIT_DIR": str(git_dir),
        "GIT_COMMON_DIR": str(common),
        "GIT_WORK_TREE": str(hostile.root),
    }


def copy_hostile(original: Hostile, base: Path) -> Hostile:
    """The same canaries, still firing into the original's directory, which is emptied."""
    for name in original.fired():
        (original.base / "fired" / name).unlink()
    shutil.copytree(original.root, base, symlinks=True)
    return Hostile(Repository(base, original.base / "home"), original.base)
