"""What a daemon lives through: sleep, clocks that are set, a watch that is deaf, a foreign
environment, a configuration that changes under it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from amend.cli.client import SPOKEN_MAX, SPOKEN_MIN, Client
from amend.daemon import run
from amend.daemon.answers import Answers
from amend.daemon.lapses import (
    DEAF_TICKS,
    SLEPT_S,
    STEPPED_S,
    WATCH_CHECK_TICKS,
    Clocks,
    Lapse,
    Lapses,
    lapse_between,
    read_clocks,
)
from amend.daemon.logs import Log
from amend.daemon.settings import options_of
from amend.daemon.tending import Options, Tending
from amend.edge.files.look import RACY_NS, look_at_file
from amend.edge.service import package_version
from amend.edge.store import Store
from amend.edge.watch.watcher import Watcher
from amend.errors import AmendError, Unavailable
from amend.formats import api
from amend.formats.config import Config
from benchmarks.running import Daemon
from tests.conftest import Repository
from tests.integration.cli_fakes import Fake, fake_daemon
from tests.integration.serve_fakes import until

# -- sleep and clocks ------------------------------------------------------------------------------

_SECONDS = st.floats(0, 1e9)


class Machine:
    """Its clocks, in a test's hands."""

    def __init__(self) -> None:
        self.now = Clocks(awake_s=1000.0, passed_s=1000.0, wall_s=1.9e9)

    def read(self) -> Clocks:
        return self.now

    def work(self, seconds: float) -> None:
        now = self.now
        self.now = Clocks(now.awake_s + seconds, now.passed_s + seconds, now.wall_s + seconds)

    def sleep(self, seconds: float) -> None:
        awake_s = self.now.awake_s
        self.work(seconds)
        self.now = replace(self.now, awake_s=awake_s)

    def set_clock(self, by_s: float) -> None:
        self.now = replace(self.now, wall_s=self.now.wall_s + by_s)


@given(_SECONDS, st.floats(0, 1e7), st.floats(-1e9, 1e9))
def test_a_sleep_is_no_step_and_a_step_no_sleep(worked: float, slept: float, set_by: float) -> None:
    machine = Machine()
    before = machine.now

    machine.work(worked)
    machine.sleep(slept)
    machine.set_clock(set_by)
    lapse = lapse_between(before, machine.now) or Lapse(0, 0)

    near = pytest.approx
    assert lapse.slept_s == near(slept if slept >= SLEPT_S else 0, abs=1e-3) or slept == near(
        SLEPT_S, abs=1e-3
    )
    assert lapse.stepped_s == near(set_by if abs(set_by) >= STEPPED_S else 0, abs=1e-3) or abs(
        set_by
    ) == near(STEPPED_S, abs=1e-3)


def test_the_clocks_of_this_machine_show_no_lapse() -> None:
    assert lapse_between(read_clocks(), read_clocks()) is None


class Living:
    """A tended repository whose daemon is told of ticks by the test."""

    def __init__(self, root: Path, log_path: Path, *, listens: bool = True) -> None:
        self.watch = Watcher()
        store = Store(":memory:")
        self.tending = Tending(store, None, self.watch, Options(), inline_bytes_max=None)
        self.worktree = self.tending.add(os.fsencode(root))
        self.tending.start(asyncio.get_running_loop())
        self.machine = Machine()
        self.lapsed = 0
        self.retried = 0
        self._log_path = log_path
        self._log_file = log_path.open("wb")
        log = Log(fd=self._log_file.fileno())
        self.lapses = Lapses(
            self.tending, log, self._on_lapse, listens=listens, read=self.machine.read
        )
        retry = self.watch.retry_unwatched

        def retried() -> None:
            self.retried += 1
            retry()

        self.watch.retry_unwatched = cast("Any", retried)  # type: ignore[method-assign]

    def _on_lapse(self) -> None:
        self.lapsed += 1

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.machine.work(10)
            self.lapses.tick()

    def deafen(self) -> None:
        loop = asyncio.get_running_loop()
        for backend in self.watch._backends.values():
            loop.remove_reader(cast("Any", backend)._kernel.fd)

    def events(self) -> list[str]:
        return [json.loads(line)["event.name"] for line in self._log_path.read_text().splitlines()]

    async def close(self) -> None:
        self.lapses.close()
        await self.tending.stop()
        self.tending.store.close()
        self._log_file.close()


@pytest.fixture
async def living(tmp_path: Path, git: Callable[..., Repository]) -> Any:
    repo = git("shop", {"a.py": "one\n"})
    made = Living(repo.root, tmp_path / "log")
    entry = {"ts": datetime.now(UTC).isoformat(), "summary": "in a.py", "files": ["a.py"]}
    repo.write(".agent-cache.json", json.dumps({"topics": {"auth": entry}}))
    await made.tending.sync()
    yield made
    await made.close()


async def test_everything_is_looked_at_again_after_a_sleep(living: Living) -> None:
    living.tick()
    at_first = living.lapsed

    living.machine.sleep(8 * 3600)
    living.tick()
    living.tick()

    assert (at_first, living.lapsed) == (0, 1)
    assert living.events() == ["machine_slept"]


@pytest.mark.parametrize("by_s", [-86400.0, -2.5, 2.5, 30 * 86400.0])
async def test_everything_is_looked_at_again_when_the_clock_was_set(
    living: Living, by_s: float
) -> None:
    living.machine.set_clock(by_s)
    living.tick(2)

    assert living.lapsed == 1
    assert living.events() == ["clock_set"]


async def test_a_clock_that_is_corrected_little_by_little_is_nothing(living: Living) -> None:
    for _ in range(20):
        living.machine.set_clock(-0.9)
        living.tick()

    assert living.lapsed == 0


@pytest.mark.parametrize("step_ns", [-3600_000_000_000, 0, 3600_000_000_000])
def test_no_step_of_the_clock_makes_a_racy_look_a_sure_one(tmp_path: Path, step_ns: int) -> None:
    """A look at a file that was written just now, by a clock that was set in between."""
    (tmp_path / "a.py").write_text("one\n")
    changed_ns = (tmp_path / "a.py").stat().st_mtime_ns

    look = look_at_file(os.fsencode(tmp_path), b"a.py", now_ns=changed_ns + step_ns)
    sure = look_at_file(os.fsencode(tmp_path), b"a.py", now_ns=changed_ns + 2 * RACY_NS)

    assert look is not None
    assert sure is not None
    # Set ahead, a later write has a later time, which shows; set back or not at all, it may not.
    assert look.racy == (step_ns <= 0)
    assert not sure.racy


# -- a watch that is lost --------------------------------------------------------------------------


def _fill(root: Path, number: int) -> None:
    (root / "a.py").write_text(f"{number}\n")


async def test_what_a_deaf_watch_did_not_hear_is_marked_at_the_next_tick(living: Living) -> None:
    root = Path(os.fsdecode(living.worktree.root))
    living.tick()
    living.deafen()
    marks = living.worktree.memory.marks

    for number in range(DEAF_TICKS + 1):
        _fill(root, number)
        living.tick()

    assert living.worktree.memory.marks == marks + 1
    assert living.events() == ["watch_deaf"]


async def test_a_watch_that_hears_is_never_called_deaf(living: Living) -> None:
    root = Path(os.fsdecode(living.worktree.root))

    for number in range(2 * DEAF_TICKS):
        events = living.watch.health().events
        _fill(root, number)
        await until(lambda events=events: living.watch.health().events > events)
        living.tick()

    assert living.events() == []


async def test_where_a_watchdog_listens_nobody_else_does(
    tmp_path: Path, git: Callable[..., Repository]
) -> None:
    repo = git("shop", {"a.py": "one\n"})
    living = Living(repo.root, tmp_path / "log", listens=False)
    living.deafen()
    events = living.watch.health().events

    repo.write(".agent-cache.json", "{}")
    living.tick(2 * DEAF_TICKS)

    assert living.watch.health().events == events
    assert living.events() == []
    await living.close()


async def test_what_cannot_be_watched_is_tried_again_within_a_minute(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    living.tick(2 * WATCH_CHECK_TICKS)
    while_all_is_watched = living.retried
    health = living.watch.health()
    unwatched = replace(health, unwatched=((b"/w", 28),))
    monkeypatch.setattr(living.watch, "health", lambda root=None: unwatched)

    living.tick(WATCH_CHECK_TICKS)

    assert WATCH_CHECK_TICKS * 10 <= 60
    assert (while_all_is_watched, living.retried) == (0, 1)


MOUNTING = """
import os, subprocess, sys
from amend.daemon.lapses import MountTable
table = MountTable()
told = [table.has_changed()]
for words in (["mount", "-t", "tmpfs", "none", sys.argv[1]], ["umount", sys.argv[1]]):
    subprocess.run(words, check=True)
    told += [table.has_changed(), table.has_changed()]
table.close()
print(told)
"""


def test_a_mount_is_noticed_once_and_so_is_its_end(tmp_path: Path) -> None:
    flags = ("--user", "--map-root-user", "--mount")
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", *flags, "true"]
    if unshare is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip(f"this machine does not allow unshare {' '.join(flags)}")

    done = subprocess.run(
        [unshare, *flags, sys.executable, "-c", MOUNTING, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == "[False, True, False, True, False]"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a table")
async def test_a_change_of_mounts_has_the_watch_looked_after_at_the_next_tick(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living.lapses._mounts, "has_changed", lambda: True)

    living.tick()

    assert living.retried == 1


# -- another version -------------------------------------------------------------------------------

NO_ROUTE = (404, {"detail": "GET /v1/status: not found", "hint": "GET /openapi.json lists them"})


def _hello(least: int, most: int, version: str = "7.0") -> tuple[int, dict[str, Any]]:
    return 200, {"name": "amend", "version": version, "protocol": {"min": least, "max": most}}


def _asked(fake: Fake) -> AmendError:
    with pytest.raises(AmendError) as caught:
        Client(fake.path).get("/v1/status")
    return caught.value


def test_the_client_speaks_what_a_daemon_of_its_version_does() -> None:
    assert (SPOKEN_MIN, SPOKEN_MAX) == (api.PROTOCOL_MIN, api.PROTOCOL_MAX)


@pytest.mark.parametrize(
    ("least", "most", "says", "hint"),
    [
        (SPOKEN_MAX + 1, SPOKEN_MAX + 1, "protocol 2,", "upgrade this amend"),
        (SPOKEN_MAX + 1, SPOKEN_MAX + 4, "protocols 2 to 5,", "upgrade this amend"),
        (SPOKEN_MIN - 1, SPOKEN_MIN - 1, "protocol 0,", "`amend service restart`"),
    ],
)
def test_a_daemon_that_speaks_another_protocol_is_explained(
    least: int, most: int, says: str, hint: str
) -> None:
    with fake_daemon() as fake:
        fake.answers["GET /v1/status"] = NO_ROUTE
        fake.answers["GET /v1/hello"] = _hello(least, most)

        error = _asked(fake)

    assert isinstance(error, Unavailable)
    assert "is amend 7.0 and speaks " + says in error.message
    assert error.message.endswith(f"this is amend {package_version()} and speaks protocol 1")
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("status", "detail"),
    [(400, "no JSON"), (405, "no such method"), (422, "a field too many"), NO_ROUTE],
)
def test_what_an_older_daemon_of_the_same_protocol_does_not_take_is_explained(
    status: int, detail: Any
) -> None:
    document = detail if isinstance(detail, dict) else {"detail": detail, "hint": "look"}
    with fake_daemon() as fake:
        fake.answers["GET /v1/status"] = (status, document)
        fake.answers["GET /v1/hello"] = _hello(SPOKEN_MIN, SPOKEN_MAX)

        error = _asked(fake)

    assert error.message == document["detail"]
    assert f"the daemon is amend 7.0 and this is {package_version()}" in error.hint
    assert "amend service restart" in error.hint


@pytest.mark.parametrize(
    ("status", "hello"),
    [
        (404, _hello(1, 1)),  # no such entry
        (409, _hello(1, 1)),
        (503, _hello(1, 1)),
        (422, _hello(SPOKEN_MIN, SPOKEN_MAX, package_version())),
        (422, (200, ["amend"])),
        (422, (500, {"detail": "amend made a mistake", "hint": ""})),
    ],
)
def test_what_the_version_does_not_explain_stays_as_it_is(status: int, hello: Any) -> None:
    with fake_daemon() as fake:
        fake.answers["GET /v1/status"] = (status, {"detail": "no such thing", "hint": "look"})
        fake.answers["GET /v1/hello"] = hello

        error = _asked(fake)

    assert (error.message, error.hint) == ("no such thing", "look")


def test_a_question_that_no_daemon_of_this_version_knows_says_so_by_its_route(
    tmp_path: Path,
) -> None:
    """What the client takes for another version's answer is what a daemon really answers."""
    with Daemon(tmp_path) as daemon:
        found = daemon.request("GET", "/v9/status")

    assert found[0] == NO_ROUTE[0]
    assert found[1]["detail"].endswith(": not found")


# -- a foreign environment -------------------------------------------------------------------------


def test_a_daemon_started_inside_of_a_git_hook_is_about_no_other_repository(
    tmp_path: Path, git: Callable[..., Repository]
) -> None:
    """As `post-commit` of `other` would start it, and worse."""
    other = git("other", {"b.py": "other\n"})
    repo = git("shop", {"a.py": "one\n", ".gitignore": ".agent-cache.json\n"})
    index = other.root / ".git/index"
    before = index.read_bytes()
    daemon = Daemon(tmp_path / "daemon")
    daemon.env |= {
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(other.root / ".git/objects"),
        "GIT_PREFIX": "src/",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git",
    }

    with daemon:
        added = daemon.add(repo.root)
        daemon.put(repo.root, "auth", ["a.py"])
        head = repo.commit("more", {"a.py": "two\n"})
        daemon.sync()
        answer = daemon.lookup(repo.root, "auth")
        status = daemon.get("/v1/status")["repos"]

    assert added["root"] == str(repo.root)
    assert [(each["root"], each["head"]) for each in status] == [(str(repo.root), head)]
    assert (answer["verdict"], answer["causes"][0]["cause"]) == ("stale", "committed")
    assert index.read_bytes() == before
    assert not (tmp_path / "trace").exists()


# -- a configuration that changes ------------------------------------------------------------------


class Reloading:
    """A daemon that serves nobody, of one repository, and what its configuration makes of it."""

    def __init__(self, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capfd = capfd
        self._config = Path(os.environ["AMEND_CONFIG"])
        self.daemon = run.Daemon(os.environ)
        store = Store(":memory:")
        options = options_of(self.daemon.config, os.environ)
        self.tending = Tending(store, None, None, options, inline_bytes_max=None)
        self.answers = Answers(self.tending, "0")
        self.worktree = self.tending.add(os.fsencode(root))

    def reload(self, text: str) -> None:
        self._config.write_text(text)
        self.daemon._reload(self.tending, self.answers)

    def seen(self) -> dict[str, object]:
        """What is in force, by the setting that decides it, where it decides."""
        log, worktree, cache_file = self.daemon._log, self.worktree, self.worktree.cache_file
        self._capfd.readouterr()
        log.info("machine_slept", slept_s=1.0)
        line = self._capfd.readouterr().err
        siblings = worktree.siblings.values()
        hooks = self.daemon._hook_settings()
        return {
            "daemon.log_level": log.is_enabled("debug"),
            "daemon.log_format": line.startswith("{"),
            "daemon.log_file": log.file is not None,
            "policy.on_stale": cache_file.on_stale.value,
            "policy.evidence": worktree.memory.is_lenient,
            "policy.write_tracked": cache_file._write_tracked,
            "hooks.explore": hooks.explore.value,
            "hooks.explorers": hooks.explorers,
            "repo.root": sorted(os.fsdecode(each.root) for each in self.tending.worktrees.values()),
            "repo.memory": [os.fsdecode(tree.path) for tree in worktree.trees],
            "repo.contracts": [os.fsdecode(each) for each in worktree.contracts.patterns],
            "repo.sibling.name": [each.rule.name for each in siblings],
            "repo.sibling.path": [
                os.path.realpath(os.fsdecode(each.rule.root)) for each in siblings
            ],
            "repo.sibling.track": [each.rule.track for each in siblings],
        }


# What each setting is changed to, below a repository and a sibling that are there already.
CHANGED: Final = {
    "daemon.log_level": ('[daemon]\nlog_level = "debug"', True),
    "daemon.log_format": ('[daemon]\nlog_format = "console"', False),
    "daemon.log_file": ('[daemon]\nlog_file = "always"', True),
    "policy.on_stale": ('[policy]\non_stale = "evict"', "evict"),
    "policy.evidence": ('[policy]\nevidence = "strict"', False),
    "policy.write_tracked": ("[policy]\nwrite_tracked = true", True),
    "hooks.explore": ('[hooks]\nexplore = "inform"', "inform"),
    "hooks.explorers": ('[hooks]\nexplorers = ["looker"]', frozenset({"looker"})),
    "repo.root": ('[[repo]]\nroot = "{more}"', ["{more}", "{root}"]),
    "repo.memory": ('memory = ["notes", "memory"]', ["notes", "memory"]),
    "repo.contracts": ('contracts = ["c/*.json"]', ["c/*.json"]),
    "repo.sibling.name": ('name = "other"', ["other"]),
    "repo.sibling.path": ('path = "../more"', ["{more}"]),
    "repo.sibling.track": ('track = "head"', ["head"]),
}

REPO: Final = '[[repo]]\nroot = "{root}"\n'
SIBLING: Final = {"name": '"backend"', "path": '"../backend"', "track": '"worktree"'}


def _with_sibling(**changed: str) -> str:
    lines = (f"{name} = {value}\n" for name, value in (SIBLING | changed).items())
    return REPO + "[[repo.sibling]]\n" + "".join(lines)


def _changed(setting: str, line: str) -> str:
    """The whole configuration with that one line changed."""
    table, _, name = setting.rpartition(".")
    if table == "repo.sibling":
        return _with_sibling(**{name: line.partition(" = ")[2]})
    if table == "repo" and name != "root":
        return _with_sibling().replace(REPO, f"{REPO}{line}\n")
    return f"{line}\n{_with_sibling()}"


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = next(
            (t for t in (*get_args(field.annotation), field.annotation) if _is_table(t)), None
        )
        if inner is not None:
            yield from _settings(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def _is_table(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseModel)


def test_every_setting_is_changed_by_the_test_below() -> None:
    assert set(_settings(Config)) == set(CHANGED)


@pytest.mark.parametrize("setting", CHANGED)
async def test_a_changed_setting_applies_at_once_and_goes_back_to_what_it_was(
    setting: str,
    tmp_path: Path,
    git: Callable[..., Repository],
    capfd: pytest.CaptureFixture[str],
) -> None:
    roots = {name: str(git(name).root) for name in ("shop", "backend", "more")}
    places = {"root": roots["shop"], "more": roots["more"]}
    reloading = Reloading(Path(roots["shop"]), capfd)
    line, expected = CHANGED[setting]
    usual = _with_sibling().format(**places)
    reloading.reload(usual)
    before = reloading.seen()

    reloading.reload(_changed(setting, line).format(**places))
    changed = reloading.seen()
    reloading.reload(usual)
    after = reloading.seen()

    if isinstance(expected, list):
        expected = [each.format(**places) for each in expected]
    assert reloading.answers.config_error is None
    assert changed == before | {setting: expected}
    # A repository that was named once is tended until `amend remove`.
    assert after == (before | {setting: expected} if setting == "repo.root" else before)


async def test_a_bad_value_is_named_and_changes_nothing(
    git: Callable[..., Repository], capfd: pytest.CaptureFixture[str]
) -> None:
    reloading = Reloading(git("shop").root, capfd)
    reloading.reload('[policy]\non_stale = "observe"\n')
    before = reloading.seen()

    reloading.reload('[policy]\non_stale = "evict"\nevidence = "loose"\n')

    assert reloading.seen() == before
    assert "policy.evidence is 'loose', must be one of" in str(reloading.answers.config_error)
