"""The whole daemon against an oracle that hashes everything, under random changes.

A hypothesis state machine drives a real daemon in a real repository: writes, same-size edits,
mtime-preserving edits, renames, deletes, atomic saves, directory swaps, commits, checkouts, an
overflow, daemon restarts, a second writer of the cache file. Two promises, at every step: an answer
of fresh is never wrong, and after `/v1/sync` an answer of stale is never wrong either.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from benchmarks.running import Daemon, git

FILES = ("a.py", "b.py", "lib/c.py", "lib/d.py", "lib/sub/e.py")
TEXTS = ("one\n", "two\n", "six\n", "a longer text\n")
KEYS = ("auth", "routes", "schema")
SPECS = (*FILES, "lib/", "lib/*.py", "!lib/gone.py", "lib/sub/**/*.py")

# What the kernel queues for one inotify instance, unless somebody has raised it.
QUEUED_EVENTS_MAX = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())

paths = st.sampled_from(FILES)
texts = st.sampled_from(TEXTS)


@dataclass
class Version:
    """What the oracle remembers of a finding: how each of its sources looked."""

    looks: dict[str, object]
    payload: str = ""


@dataclass
class Finding:
    versions: list[Version] = field(default_factory=list)  # newest first


class World:
    """The repository, and what is true of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.findings: dict[str, Finding] = {}

    def look(self, spec: str) -> object:
        if spec.startswith("!"):
            return os.path.lexists(self.root / spec[1:])
        if spec.endswith("/"):
            return self.names(self.root / spec)
        if "*" in spec:
            return sorted(
                str(path.relative_to(self.root))
                for path in self.root.glob(spec)
                if path.is_file() and not path.name.startswith(".")
            )
        return self.blob(self.root / spec)

    def names(self, path: Path) -> object:
        try:
            return sorted(os.listdir(path))
        except OSError:
            return None

    def blob(self, path: Path) -> str | None:
        try:
            data = path.read_bytes()
        except OSError:
            return None
        executable = os.access(path, os.X_OK)
        mode = path.stat().st_mode & 0o100
        return hashlib.sha1(data).hexdigest() + str(bool(mode) or (executable and bool(mode)))

    def record(self, key: str, specs: list[str], payload: str = "") -> None:
        finding = self.findings.setdefault(key, Finding())
        finding.versions.insert(0, Version({spec: self.look(spec) for spec in specs}, payload))
        del finding.versions[8:]

    def is_supported(self, version: Version) -> bool:
        for spec, then in version.looks.items():
            now = self.look(spec)
            if spec.startswith("!"):
                if now:
                    return False
            elif "*" not in spec and not spec.endswith("/") and then is None:
                return False  # a cited file that never existed supports nothing
            elif now != then and not self.is_moved(spec, then, now):
                return False
        return True

    def is_moved(self, spec: str, then: object, now: object) -> bool:
        """Whether amend may say so: the same bytes stand at another path."""
        if now is not None or "*" in spec or spec.endswith("/") or then is None:
            return False
        return any(
            self.blob(path) == then
            for path in self.root.rglob("*")
            if path.is_file() and ".git" not in path.parts
        )

    def truly_fresh(self, key: str) -> bool:
        return any(self.is_supported(version) for version in self.findings[key].versions)

    def surely_fresh(self, key: str) -> bool:
        """Fresh without help from a move, which amend need not find."""
        return any(
            all(
                (not self.look(spec) if spec.startswith("!") else self.look(spec) == then)
                and (then is not None or "*" in spec or spec.endswith("/"))
                for spec, then in version.looks.items()
            )
            for version in self.findings[key].versions
        )


_started: list[Daemon] = []


def shared_daemon() -> Daemon:
    """One daemon for all examples: each brings a repository of its own."""
    if not _started:
        _started.append(Daemon())
        _started[0].start()
    return _started[0]


@pytest.fixture(scope="module", autouse=True)
def _end_daemon() -> Iterator[None]:
    yield
    while _started:
        _started.pop().__exit__()


class DaemonMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="am-model-"))
        self.root = self.base / "repo"
        (self.root / "lib/sub").mkdir(parents=True)
        for path in FILES:
            (self.root / path).write_text("one\n")
        git(self.base, "init", "-q", "-b", "main", str(self.root))
        (self.root / ".gitignore").write_text(".agent-cache.json\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "begin")
        git(self.root, "branch", "other")
        self.world = World(self.root)
        self.daemon = shared_daemon()
        self.repo = self.daemon.add(self.root)["id"]
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "daemon"):
            assert self.daemon.request("DELETE", f"/v1/repos/{self.repo}")[0] == 204
            shutil.rmtree(self.base, ignore_errors=True)

    # -- findings --------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), specs=st.lists(st.sampled_from(SPECS), min_size=1, max_size=4))
    def put(self, key: str, specs: list[str]) -> None:
        specs = sorted(set(specs))
        self.number += 1
        self.daemon.put(self.root, key, specs, summary=f"number {self.number}")
        self.world.record(key, specs)

    @rule(key=st.sampled_from(KEYS))
    def forget(self, key: str) -> None:
        if key in self.world.findings:
            quoted = f"/v1/entries/topic/{key}?cwd={self.root}"
            assert self.daemon.request("DELETE", quoted)[0] == 204
            del self.world.findings[key]

    @rule(
        key=st.sampled_from(("by-hand", "by-agent")), specs=st.lists(paths, min_size=1, max_size=3)
    )
    def write_cache_file(self, key: str, specs: list[str]) -> None:
        """A second writer, as an agent does it: read, change, write a new file over it."""
        self.daemon.sync()
        self.tick()
        file = self.root / ".agent-cache.json"
        document: dict[str, Any] = {"topics": {}}
        if file.exists():
            document = json.loads(file.read_text())
        self.number += 1
        specs = sorted(set(specs))
        document.setdefault("topics", {})[key] = {
            "ts": f"2026-11-30T00:00:00.{self.number:06}Z",
            "summary": f"number {self.number}",
            "files": specs,
        }
        temporary = file.with_suffix(".agent")
        temporary.write_text(json.dumps(document, indent=2))
        os.rename(temporary, file)
        self.world.record(key, specs)
        self.tick()

    def tick(self) -> None:
        """Wait until the filesystem's clock has moved, so that stamps tell before from after."""
        probe = self.base / "clock"
        probe.write_text("x")
        first = probe.stat().st_ctime_ns
        while probe.stat().st_ctime_ns == first:
            probe.write_text("x")

    # -- files -----------------------------------------------------------------------------------

    @rule(path=paths, text=texts)
    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    @rule(path=paths, text=texts)
    def write_and_set_mtime_back(self, path: str, text: str) -> None:
        target = self.root / path
        if target.exists():
            before = target.stat()
            target.write_text(text)
            os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(path=paths, text=texts)
    def save_atomically(self, path: str, text: str) -> None:
        target = self.root / path
        if target.parent.is_dir():
            temporary = target.with_suffix(".tmp")
            temporary.write_text(text)
            os.rename(temporary, target)

    @rule(path=paths)
    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    @rule(old=paths, new=paths)
    def rename(self, old: str, new: str) -> None:
        if (self.root / old).exists() and (self.root / new).parent.is_dir():
            os.rename(self.root / old, self.root / new)

    @rule(path=paths)
    def make_executable(self, path: str) -> None:
        if (self.root / path).exists():
            (self.root / path).chmod(0o755)

    @rule()
    def swap_directory(self) -> None:
        library, aside = self.root / "lib", self.root / "lib-aside"
        if library.is_dir():
            shutil.copytree(library, aside)
            (aside / "c.py").write_text("swapped\n")
            os.rename(library, self.root / "lib-old")
            os.rename(aside, library)
            shutil.rmtree(self.root / "lib-old")

    @rule(name=st.sampled_from(("lib/new.py", "lib/gone.py", "lib/sub/deep.py")))
    def create_or_remove(self, name: str) -> None:
        target = self.root / name
        if target.exists():
            target.unlink()
        elif target.parent.is_dir():
            target.write_text("new\n")

    # -- git -------------------------------------------------------------------------------------

    @rule()
    def commit(self) -> None:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", f"change {self.number}", "--allow-empty")

    @rule(branch=st.sampled_from(("main", "other")))
    def check_out(self, branch: str) -> None:
        git(self.root, "checkout", "-q", "-f", branch, check=False)

    @rule()
    def reset_hard(self) -> None:
        git(self.root, "reset", "-q", "--hard")

    # -- the daemon ------------------------------------------------------------------------------

    @rule(kill=st.booleans(), path=paths, text=texts)
    def restart_and_edit_meanwhile(self, kill: bool, path: str, text: str) -> None:
        self.daemon.sync()
        self.daemon.stop(kill=kill)
        self.write(path, text)
        self.daemon.start()

    @rule()
    def overflow(self) -> None:
        """More events than the kernel queues, while the daemon is stopped."""
        if not (self.root / "lib").is_dir():
            return
        os.kill(self.daemon.pid, 19)
        try:
            noise = [self.root / "lib" / name for name in ("noise1.txt", "noise2.txt")]
            for path in noise:
                path.touch()
            for number in range(QUEUED_EVENTS_MAX + 100):
                os.utime(noise[number % 2])  # alternating, since equal events in a row are merged
            for path in noise:
                path.unlink()
            (self.root / "a.py").write_text("after the flood\n")
        finally:
            os.kill(self.daemon.pid, 18)

    # -- the promises ----------------------------------------------------------------------------

    @invariant()
    def fresh_is_never_wrong(self) -> None:
        if not hasattr(self, "daemon"):
            return
        for key in self.world.findings:
            answer = self.daemon.lookup(self.root, key)
            if answer["verdict"] == "fresh":
                assert self.world.truly_fresh(key), f"{key}: {answer}"

    @invariant()
    def stale_is_never_wrong_after_sync(self) -> None:
        if not hasattr(self, "daemon"):
            return
        self.daemon.sync()
        for key in self.world.findings:
            answer = self.daemon.lookup(self.root, key)
            if answer["verdict"] in ("stale", "missing"):
                assert not self.world.surely_fresh(key), f"{key}: {answer}"
            if answer["verdict"] == "fresh":
                assert self.world.truly_fresh(key), f"{key}: {answer}"


TestDaemon = DaemonMachine.TestCase
TestDaemon.settings = settings(max_examples=8, stateful_step_count=20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_daemon_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        DaemonMachine, settings=settings(max_examples=200, stateful_step_count=50)
    )
