"""Whatever git does to a worktree, every verdict and cause is what brute force finds.

Each operation is a script that pauses where it wants to be checked: after its git commands, and in
the middle of what git leaves half done. At a pause amend is asked at once, when nothing may be
called fresh wrongly, and after `/v1/sync`, when verdicts, causes and commits must be those of
`git_truth.Truth`; all that time nothing may be written below `.git`.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.running import Daemon
from tests.integration.git_repositories import Repository, new_repository
from tests.integration.git_truth import (
    Truth,
    WriteWatch,
    index_stamp,
    told_causes,
    told_moves,
)

# Every kind of source, alone and together, over files that the operations below change, move,
# delete and add.
FINDINGS = {
    "edited": ["a.py"],
    "several": ["a.py", "b.py", "lib/c.py"],
    "moving": ["keep.py"],
    "leaving": ["lib/d.py", "lib/sub/e.py"],
    "routes": ["lib/"],
    "python": ["lib/*.py"],
    "deep": ["lib/**/*.py"],
    "legacy": ["!lib/side.py"],
    "mixed": ["lib/c.py", "lib/sub/", "!gone.py"],
}

BACKENDS = ("files", "reftable")


@dataclass
class Stage:
    """A repository whose worktree `at` the operation happens in."""

    daemon: Daemon
    base: Path
    main: Repository
    at: Repository
    truths: dict[Path, Truth] = field(default_factory=dict)
    ids: dict[Path, str] = field(default_factory=dict)

    # -- scripts' words ----------------------------------------------------------------------------

    def git(self, *arguments: str, fails: bool = False) -> str:
        return self.at.git(*arguments, fails=fails)

    def write(self, path: str, text: str) -> None:
        self.at.write(path, text)

    def commit(self, subject: str, **files: str) -> None:
        for path, text in files.items():
            self.write(path.replace("__", "/") + ".py", text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    # -- what is tended ----------------------------------------------------------------------------

    def tend(self, repository: Repository, findings: dict[str, list[str]] = FINDINGS) -> None:
        root = repository.root
        self.ids[root] = self.daemon.add(root)["id"]
        truth = Truth(repository, self.truths.values())
        self.truths[root] = truth
        for key, specs in findings.items():
            self.daemon.put(root, key, specs)
            truth.record(key, specs)

    def let_go(self, root: Path) -> None:
        assert self.daemon.request("DELETE", f"/v1/repos/{self.ids.pop(root)}")[0] == 204
        del self.truths[root]

    def git_dirs(self) -> list[Path]:
        return sorted({d for t in self.truths.values() for d in (t.git_dir, t.common_dir)})

    # -- checks ------------------------------------------------------------------------------------

    def check(self, pause: str, watch: WriteWatch) -> None:
        for root, truth in self.truths.items():
            self._check_at_once(pause, root, truth)
        self.daemon.sync()
        for root, truth in self.truths.items():
            self._check_settled(pause, root, truth)
        assert watch.seen() == [], pause

    def _check_at_once(self, pause: str, root: Path, truth: Truth) -> None:
        for key, row in self.daemon.entries(root).items():
            if row["verdict"] == "fresh":
                supported = truth.supports(truth.findings[key][0], told_moves(row))
                assert supported, f"{pause}: {key} is fresh at once: {row['causes']}"

    def _check_settled(self, pause: str, root: Path, truth: Truth) -> None:
        rows = self.daemon.entries(root)
        told = {key: (row["verdict"], told_causes(row)) for key, row in rows.items()}
        expected = {}
        for key, versions in truth.findings.items():
            causes = truth.causes(versions[0])
            is_fresh = all(cause["cause"] == "moved" for cause in causes.values())
            expected[key] = ("fresh" if is_fresh else "stale", causes)
        assert told == expected, f"{pause}, in {root.name}"


Script = Callable[[Stage], Iterator[str]]
OPERATIONS: dict[str, Script] = {}


def operation(script: Script) -> Script:
    OPERATIONS[script.__name__] = script
    return script


# -- operations ----------------------------------------------------------------------------------


@operation
def commit(at: Stage) -> Iterator[str]:
    at.write("a.py", "edited\n")
    at.write("lib/side.py", "new\n")
    yield "edited"
    at.git("add", "-A")
    yield "staged"
    at.git("commit", "-q", "-m", "edit a")
    yield "committed"
    at.write("a.py", "edited again\n")
    yield "edited on top"


@operation
def commit_of_a_rename_and_a_deletion(at: Stage) -> Iterator[str]:
    at.git("mv", "keep.py", "lib/kept.py")
    at.git("rm", "-q", "lib/d.py")
    yield "staged"
    at.git("commit", "-q", "-m", "move and delete")
    yield "committed"
    at.git("mv", "lib/kept.py", "lib/sub/kept.py")
    at.git("commit", "-q", "-m", "move on")
    yield "moved on"


@operation
def commit_of_a_mode(at: Stage) -> Iterator[str]:
    (at.at.root / "a.py").chmod(0o755)
    at.git("commit", "-q", "-a", "-m", "make it executable")
    yield "committed"


@operation
def amend(at: Stage) -> Iterator[str]:
    at.commit("first try", a="try\n")
    yield "committed"
    at.write("a.py", "second try\n")
    at.git("commit", "-q", "-a", "--amend", "--no-edit")
    yield "amended"
    at.git("commit", "-q", "--amend", "-m", "other words")
    yield "reworded"


@operation
def switch(at: Stage) -> Iterator[str]:
    at.git("switch", "-q", "side")
    yield "on side"
    at.git("switch", "-q", "-c", "work")
    at.commit("on work", b="work\n")
    yield "on work"
    at.git("switch", "-q", "begin")
    yield "back"


@operation
def detach(at: Stage) -> Iterator[str]:
    at.git("switch", "-q", "--detach", "side")
    yield "detached"
    at.commit("on nothing", a="detached\n")
    yield "committed while detached"
    at.git("checkout", "-q", "HEAD~2")
    yield "two back"
    at.git("switch", "-q", "begin")
    yield "attached"


@operation
def rebase(at: Stage) -> Iterator[str]:
    at.git("switch", "-q", "side")
    at.git("rebase", "-q", "main")
    yield "rebased"
    at.git("switch", "-q", "begin")
    yield "back"


@operation
def rebase_with_a_conflict(at: Stage) -> Iterator[str]:
    at.commit("ours", a="ours\n", b="ours\n")
    at.git("rebase", "-q", "side", fails=True)
    yield "stopped"
    at.git("rebase", "--abort")
    yield "aborted"
    at.git("rebase", "-q", "side", fails=True)
    at.write("a.py", "resolved\n")
    at.git("add", "-A")
    yield "resolved"
    at.git("rebase", "--continue")
    yield "continued"


@operation
def merge_fast_forward(at: Stage) -> Iterator[str]:
    at.git("switch", "-q", "-c", "ahead")
    at.commit("ahead", a="ahead\n", lib__new="new\n")
    at.git("switch", "-q", "begin")
    yield "behind"
    at.git("merge", "-q", "--ff-only", "ahead")
    yield "merged"


@operation
def merge(at: Stage) -> Iterator[str]:
    at.git("merge", "-q", "--no-ff", "-m", "take side in", "side")
    yield "merged"
    at.commit("on top", b="on top\n")
    yield "committed on top"


@operation
def merge_with_a_conflict(at: Stage) -> Iterator[str]:
    at.commit("ours", a="ours\n")
    at.git("merge", "-q", "side", fails=True)
    yield "stopped"
    at.write("a.py", "resolved\n")
    at.git("add", "a.py")
    yield "resolved"
    at.git("commit", "-q", "--no-edit")
    yield "merged"


@operation
def merge_that_is_aborted(at: Stage) -> Iterator[str]:
    at.commit("ours", a="ours\n")
    at.git("merge", "-q", "side", fails=True)
    yield "stopped"
    at.git("merge", "--abort")
    yield "aborted"


@operation
def cherry_pick(at: Stage) -> Iterator[str]:
    at.git("cherry-pick", "side", "side~1")
    yield "picked"
    at.git("reset", "-q", "--hard", "HEAD~2")
    at.commit("ours", a="ours\n")
    at.git("cherry-pick", "side~1", fails=True)
    yield "stopped"
    at.git("cherry-pick", "--skip")
    yield "skipped"


@operation
def revert(at: Stage) -> Iterator[str]:
    at.commit("wrong", a="wrong\n", lib__side="wrong\n")
    yield "committed"
    at.git("revert", "--no-edit", "HEAD")
    yield "reverted"
    at.git("revert", "--no-commit", "HEAD")
    yield "reverting that"
    at.git("revert", "--abort")
    yield "aborted"


@operation
def reset_soft(at: Stage) -> Iterator[str]:
    at.git("reset", "-q", "--soft", "HEAD~1")
    yield "one back"
    at.commit("wrong", a="wrong\n")
    at.git("reset", "-q", "--soft", "HEAD~1")
    yield "edit undone in HEAD only"


@operation
def reset_mixed(at: Stage) -> Iterator[str]:
    at.git("mv", "keep.py", "lib/kept.py")
    at.commit("wrong", a="wrong\n")
    yield "committed"
    at.git("reset", "-q", "--mixed", "HEAD~1")
    yield "one back"


@operation
def reset_hard(at: Stage) -> Iterator[str]:
    at.git("reset", "-q", "--hard", "HEAD~2")
    yield "two back"
    at.git("reset", "-q", "--hard", "side")
    yield "on side"
    at.write("a.py", "edited\n")
    at.git("reset", "-q", "--hard", "main")
    yield "forward again"


@operation
def stash_and_pop(at: Stage) -> Iterator[str]:
    at.write("a.py", "edited\n")
    at.write("lib/side.py", "untracked\n")
    at.git("rm", "-q", "lib/d.py")
    at.git("stash", "-q", "-u")
    yield "stashed"
    at.git("stash", "pop", "-q", "--index")
    yield "popped"


@operation
def fetch_of_a_tracked_ref(at: Stage) -> Iterator[str]:
    remote = at.base / "remote"
    at.git("clone", "-q", "--bare", str(at.main.root), str(remote))
    at.git("remote", "add", "origin", str(remote))
    at.git("fetch", "-q")
    at.git("branch", "-q", "-u", "origin/begin")
    yield "tracking"
    other = Repository(at.base / "other", at.base / "home")
    other.root.mkdir()
    other.git("clone", "-q", "-b", "begin", str(remote), ".")
    other.commit("elsewhere", **{"a.py": "elsewhere\n"})
    other.git("push", "-q")
    at.git("fetch", "-q")
    yield "fetched"
    at.git("merge", "-q", "--ff-only", "@{u}")
    yield "pulled"


@operation
def pack_refs_and_gc(at: Stage) -> Iterator[str]:
    at.commit("before", a="before\n")
    at.git("pack-refs", "--all", "--prune")
    yield "packed refs"
    at.git("gc", "-q", "--prune=now")
    yield "collected"
    at.commit("after", a="after\n")
    yield "committed after"
    at.git("switch", "-q", "side")
    yield "on a packed branch"


@operation
def linked_worktree(at: Stage) -> Iterator[str]:
    added = Repository(at.base / "added", at.base / "home")
    at.git("worktree", "add", "-q", "-b", "elsewhere", str(added.root))
    at.tend(added)
    yield "added"
    added.commit("elsewhere", **{"a.py": "elsewhere\n"})
    yield "committed there"
    at.commit("here", a="here\n")
    yield "committed here"
    at.let_go(added.root)
    at.git("worktree", "remove", "--force", str(added.root))
    yield "removed"


@operation
def submodule(at: Stage) -> Iterator[str]:
    inner = new_repository(at.base / "inner", at.base / "home")
    inner.commit("inside", **{"x.py": "x\n"})
    allowed = ("-c", "protocol.file.allow=always")
    at.git(*allowed, "submodule", "--quiet", "add", str(inner.root), "lib/module")
    yield "added"
    at.git("commit", "-q", "-m", "add a submodule")
    yield "committed"
    inside = Repository(at.at.root / "lib/module", at.base / "home")
    at.tend(inside, {"inside": ["x.py"]})
    inside.commit("inside the submodule", **{"x.py": "y\n"})
    yield "committed inside"
    at.let_go(inside.root)
    at.git("submodule", "--quiet", "deinit", "-f", "lib/module")
    yield "taken out"


@operation
def sparse_checkout(at: Stage) -> Iterator[str]:
    at.git("sparse-checkout", "set", "--cone", "other")
    yield "sparse"
    at.write("a.py", "edited\n")
    at.git("commit", "-q", "-a", "-m", "sparse commit")
    yield "committed"
    at.git("sparse-checkout", "set", "--no-cone", "/a.py", "/lib/sub/")
    yield "by patterns"
    at.git("sparse-checkout", "disable")
    yield "whole"


@operation
def shallow_clone(at: Stage) -> Iterator[str]:
    clone = Repository(at.base / "shallow", at.base / "home")
    clone.root.mkdir()
    source = f"file://{at.main.root}"
    clone.git("clone", "-q", "--depth", "2", "-b", "begin", source, ".")
    clone.write(".git/info/exclude", ".agent-cache.json\n")
    at.tend(clone)
    clone.commit("on top", **{"a.py": "on top\n"})
    yield "committed on top"
    clone.git("checkout", "-q", "HEAD~2")
    yield "at the boundary"


@operation
def orphan_branch(at: Stage) -> Iterator[str]:
    at.git("switch", "-q", "--orphan", "blank")
    yield "nothing is there"
    at.write("a.py", "another beginning\n")
    yield "a file"
    at.git("add", "-A")
    at.git("commit", "-q", "-m", "another root")
    yield "a root commit"
    at.git("switch", "-q", "begin")
    yield "back"


# -- the matrix ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A repository of three commits and a branch, made once for each backend."""
    made: dict[str, Path] = {}

    def template(backend: str) -> Path:
        if backend not in made:
            made[backend] = _make_template(tmp_path_factory.mktemp(backend), backend)
        return made[backend]

    return template


def _make_template(base: Path, backend: str) -> Path:
    options = () if backend == "files" else (f"--ref-format={backend}",)
    repository = new_repository(base / "main", base / "home", *options)
    repository.write(".git/info/exclude", ".agent-cache.json\n")
    paths = ("a.py", "b.py", "keep.py", "lib/c.py", "lib/d.py", "lib/sub/e.py", "other/f.py")
    repository.commit("begin", **{path: f"{path} at first\n" for path in paths})
    repository.git("switch", "-q", "-c", "side")
    repository.commit("side", **{"a.py": "side\n", "lib/side.py": "side\n"})
    repository.git("mv", "keep.py", "lib/kept.py")
    repository.git("rm", "-q", "lib/d.py")
    repository.commit("move and delete")
    repository.git("switch", "-q", "main")
    repository.commit("second", **{"b.py": "second\n"})
    repository.commit("third", **{"lib/c.py": "third\n"})
    return repository.root


def _has_reftable(base: Path) -> bool:
    line = ["git", "init", "-q", "--ref-format=reftable", str(base / "probe")]
    return subprocess.run(line, capture_output=True, check=False).returncode == 0


@pytest.fixture
def stage(
    daemon: Daemon,
    templates: Callable[[str], Path],
    tmp_path: Path,
    backend: str,
    where: str,
) -> Iterator[Stage]:
    if backend == "reftable" and not _has_reftable(tmp_path):
        pytest.skip("the installed git has no reftable backend (it came with git 2.45)")
    shutil.copytree(templates(backend), tmp_path / "main", symlinks=True)
    main = Repository(tmp_path / "main", tmp_path / "home")
    at = main
    if where == "linked":
        at = Repository(tmp_path / "linked", tmp_path / "home")
        main.git("worktree", "add", "-q", "-b", "begin", str(at.root), "main")
    else:
        main.git("switch", "-q", "-c", "begin")
    stage = Stage(daemon, tmp_path, main, at)
    for repository in dict.fromkeys((main, at)):
        stage.tend(repository)
    yield stage
    for root in list(stage.ids):
        stage.let_go(root)


@pytest.mark.parametrize("where", ["main", "linked"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_verdicts_and_causes_are_true_after_each_step_of(stage: Stage, name: str) -> None:
    script = OPERATIONS[name](stage)
    stage.daemon.sync()

    pauses = 0
    for pause in script:
        watch = WriteWatch(*stage.git_dirs())
        try:
            watch.begin()
            stamps = {path: index_stamp(path) for path in stage.git_dirs()}

            stage.check(pause, watch)

            assert stamps == {path: index_stamp(path) for path in stage.git_dirs()}
        finally:
            watch.close()
        pauses += 1
    assert pauses > 0


def test_the_watch_of_git_directories_would_see_a_lock(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "main", tmp_path / "home")
    repository.commit("begin", **{"a.py": "one\n"})
    watch = WriteWatch(repository.root / ".git")
    watch.begin()

    repository.git("--no-optional-locks", "status")
    read_only = watch.seen()
    (repository.root / "a.py").touch()
    repository.git("status")
    refreshed = watch.seen()
    watch.close()

    assert read_only == []
    assert any("index.lock" in path for path in refreshed)


# -- repositories that are unlike others -----------------------------------------------------------


@pytest.fixture
def bare_stage(daemon: Daemon, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes an empty repository, with the options of `git init`, that is not tended yet."""
    stages = []

    def make(*options: str) -> Stage:
        repository = new_repository(tmp_path / "main", tmp_path / "home", *options)
        repository.write(".git/info/exclude", ".agent-cache.json\n")
        stages.append(Stage(daemon, tmp_path, repository, repository))
        return stages[-1]

    yield make
    for stage in stages:
        for root in list(stage.ids):
            stage.let_go(root)


def settled(stage: Stage) -> None:
    watch = WriteWatch(*stage.git_dirs())
    watch.begin()
    try:
        stage.check("settled", watch)
    finally:
        watch.close()


def causes(stage: Stage, key: str) -> list[str]:
    stage.daemon.sync()
    answer = stage.daemon.lookup(stage.at.root, key)
    return [cause["cause"] for cause in answer["causes"]]


def test_before_the_first_commit_everything_is_edited(bare_stage: Callable[..., Stage]) -> None:
    stage = bare_stage()
    stage.write("a.py", "one\n")
    stage.write("b.py", "one\n")
    stage.tend(stage.main, {"a": ["a.py"], "b": ["b.py"]})

    stage.write("a.py", "two\n")
    (stage.main.root / "b.py").unlink()
    settled(stage)
    unborn = causes(stage, "a")
    stage.commit("the first")
    settled(stage)

    assert (unborn, causes(stage, "a")) == (["edited"], ["committed"])


def test_a_bare_repository_is_refused_or_told_of(daemon: Daemon, tmp_path: Path) -> None:
    bare = new_repository(tmp_path / "bare", tmp_path / "home", "--bare")

    status, told = daemon.request("POST", "/v1/repos", {"root": str(bare.root)})
    if status < 300:
        daemon.request("DELETE", f"/v1/repos/{told['id']}")

    assert status >= 400 or any("bare" in problem for problem in told["problems"])


def test_a_mode_that_is_changed_and_not_committed_is_an_edit(
    bare_stage: Callable[..., Stage],
) -> None:
    stage = bare_stage()
    stage.commit("begin", a="one\n")
    stage.tend(stage.main, {"a": ["a.py"]})

    (stage.main.root / "a.py").chmod(0o755)
    edited = causes(stage, "a")
    stage.commit("make it executable")

    assert (edited, causes(stage, "a")) == (["edited"], ["committed"])


def test_a_file_that_git_converted_at_checkout_is_as_head_has_it(
    bare_stage: Callable[..., Stage],
) -> None:
    stage = bare_stage()
    stage.git("config", "core.autocrlf", "true")
    stage.commit("begin", a="one\r\n")
    stage.tend(stage.main, {"a": ["a.py"]})

    stage.commit("change", a="two\r\n")

    assert stage.git("status", "--porcelain") == ""
    assert causes(stage, "a") == ["committed"]


def test_in_a_sha256_repository_verdicts_are_true(bare_stage: Callable[..., Stage]) -> None:
    stage = bare_stage("--object-format=sha256")
    stage.commit("begin", a="one\n", b="one\n")
    stage.tend(stage.main, {"a": ["a.py"], "b": ["b.py"]})

    stage.commit("change", a="two\n")
    (stage.main.root / "b.py").unlink()
    stage.daemon.sync()
    rows = stage.daemon.entries(stage.main.root)
    changed = {key: row["verdict"] for key, row in rows.items()}
    stage.git("reset", "-q", "--hard", "HEAD~1")
    stage.daemon.sync()
    rows = stage.daemon.entries(stage.main.root)
    back = {key: row["verdict"] for key, row in rows.items()}

    assert changed == {"a": "stale", "b": "stale"}
    assert back == {"a": "fresh", "b": "fresh"}


def test_in_a_sha256_repository_causes_are_true(bare_stage: Callable[..., Stage]) -> None:
    stage = bare_stage("--object-format=sha256")
    stage.commit("begin", a="one\n", b="one\n")
    stage.tend(stage.main, {"a": ["a.py"], "b": ["b.py"]})

    stage.commit("change", a="two\n")
    stage.write("b.py", "two\n")
    settled(stage)
    stage.commit("change the other")

    settled(stage)
