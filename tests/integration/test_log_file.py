"""The log's file: private, rotated, and never in anybody's way, whatever becomes of its disk."""

import contextlib
import json
import os
import pty
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from amend.daemon import log_file, run
from amend.daemon.answers import Answers
from amend.daemon.log_events import EVENTS
from amend.daemon.log_file import FILES, RETRY_S, LogFile, is_wanted, log_path
from amend.daemon.logs import Log
from amend.daemon.tending import Options, Tending
from amend.edge import store
from amend.edge.store_trees import TREES_SCHEMA
from benchmarks.running import Daemon, git
from tests.integration.test_daemon import eventually, make_repo

SMALL = 1000


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path, clock: Clock) -> Iterator[LogFile]:
    made = LogFile(log_path(tmp_path), file_bytes_max=SMALL, monotonic_s=clock)
    yield made
    made.close()


def files(file: LogFile) -> list[Path]:
    """Oldest first."""
    return sorted(file.path.parent.iterdir(), key=lambda path: path.name, reverse=True)


def lines(file: LogFile) -> list[str]:
    order = [path for path in files(file) if path != file.path] + [file.path]
    return [line for path in order if path.exists() for line in path.read_text().splitlines()]


def numbered(first: int, count: int) -> list[str]:
    return [f"{n:09}" for n in range(first, first + count)]


def write(file: LogFile, first: int, count: int) -> list[str]:
    wrote = numbered(first, count)
    for line in wrote:
        file.msg(line.encode())
    return wrote


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- rotation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_it_is_yours_alone_whatever_the_umask(file: LogFile, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(file, 0, 2 * SMALL // 10)
    finally:
        os.umask(before)

    assert mode(file.path.parent) == 0o700
    assert [mode(path) for path in files(file)] == [0o600, 0o600]


def test_a_file_that_others_could_read_is_closed_to_them(file: LogFile) -> None:
    file.path.parent.mkdir(mode=0o755)
    file.path.write_text("old\n")
    file.path.chmod(0o644)

    write(file, 0, 1)

    assert (mode(file.path.parent), mode(file.path)) == (0o700, 0o600)
    assert lines(file) == ["old", "000000000"]


def test_it_is_never_more_than_five_files_of_their_size_and_loses_the_oldest_lines_alone(
    file: LogFile,
) -> None:
    wrote = write(file, 0, 12 * SMALL // 10)

    kept = lines(file)

    assert len(files(file)) == FILES
    assert all(path.stat().st_size <= SMALL for path in files(file))
    assert kept == wrote[-len(kept) :]
    assert len(kept) > (FILES - 1) * SMALL // 10


def test_a_line_longer_than_a_file_is_written_whole(file: LogFile) -> None:
    write(file, 0, 1)
    file.msg(b"x" * SMALL * 2)
    write(file, 1, 1)

    assert lines(file) == ["000000000", "x" * SMALL * 2, "000000001"]


@pytest.mark.parametrize("fails_at", range(1, FILES))
def test_a_rotation_that_is_broken_off_loses_no_line_but_the_oldest_file(
    file: LogFile, clock: Clock, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    wrote = write(file, 0, FILES * SMALL // 10)
    calls = []

    def breaking(old: str, new: str) -> None:
        calls.append(old)
        if len(calls) == fails_at:
            raise PermissionError(13, "permission denied")
        os.rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(log_file.os, "replace", breaking)
        file.msg(b"lost")
    clock.now_s += RETRY_S
    wrote += write(file, len(wrote), 1)

    kept = lines(file)
    # Whether the oldest file went depends on how far the rotation came.
    assert [line for line in wrote if line in set(kept)] == kept
    assert set(wrote[2 * SMALL // 10 :]) <= set(kept)
    assert "lost" not in kept


def test_what_is_there_from_before_is_appended_to(tmp_path: Path, file: LogFile) -> None:
    first = write(file, 0, 3)
    file.close()
    second = LogFile(file.path, file_bytes_max=SMALL)

    more = write(second, 3, 3)
    second.close()

    assert lines(file) == first + more


# -- others who touch it ---------------------------------------------------------------------------


def test_a_file_that_is_removed_is_made_again_for_the_next_line(file: LogFile) -> None:
    write(file, 0, 3)
    file.path.unlink()

    after = write(file, 3, 2)

    assert lines(file) == after
    assert mode(file.path) == 0o600


def test_a_directory_that_is_removed_is_made_again_for_the_next_line(file: LogFile) -> None:
    write(file, 0, 3)
    shutil.rmtree(file.path.parent)

    after = write(file, 3, 2)

    assert lines(file) == after
    assert mode(file.path.parent) == 0o700


def test_logrotate_may_move_it_away_or_cut_it_short(file: LogFile, tmp_path: Path) -> None:
    write(file, 0, 3)
    file.path.rename(tmp_path / "moved")
    moved = write(file, 3, 3)
    seen = lines(file)
    os.truncate(file.path, 0)
    cut = write(file, 6, 3)

    assert seen == moved
    assert lines(file) == cut
    assert file.path.read_bytes().startswith(b"000000006")  # no hole before it


def test_logrotate_program_rotates_it(file: LogFile, tmp_path: Path) -> None:
    program = shutil.which("logrotate", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        pytest.skip("no logrotate here")
    before = write(file, 0, 5)
    rules = tmp_path / "rules"
    rules.write_text(f"{file.path} {{\n rotate 3\n su root root\n nocompress\n create 0600\n}}\n")
    rules.chmod(0o644)

    subprocess.run([program, "-f", "-s", str(tmp_path / "state"), str(rules)], check=True)
    after = write(file, 5, 5)

    assert lines(file) == before + after


# -- what cannot be written ------------------------------------------------------------------------


@contextmanager
def full_disk(bytes_max: int) -> Iterator[None]:
    """No file grows beyond that: the write is cut short, the next one fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_whole_lines_and_says_how_many(file: LogFile, clock: Clock) -> None:
    kept = write(file, 0, 4)
    with full_disk(45):
        file.msg(b"half of this would fit")
        write(file, 4, 3)
        problem = file.problem
        clock.now_s += RETRY_S
        write(file, 7, 1)
    too_early = file.take_dropped()
    clock.now_s += RETRY_S
    dropped = file.take_dropped()
    kept += write(file, 8, 2)

    assert problem
    assert too_early == 0
    assert dropped == 5
    assert file.problem is None
    assert lines(file) == kept


def test_what_was_told_to_a_disk_that_is_still_full_is_told_again(
    file: LogFile, clock: Clock
) -> None:
    with full_disk(0):
        write(file, 0, 3)
        clock.now_s += RETRY_S
        first = file.take_dropped()
        file.msg(b"three were dropped")
    clock.now_s += RETRY_S

    assert (first, file.take_dropped()) == (3, 3)


def _link_elsewhere(path: Path) -> None:
    path.symlink_to(path.parent.parent / "elsewhere")


def _link_to_nothing_of_ours(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize(
    "occupy",
    [_link_elsewhere, _link_to_nothing_of_ours, os.mkfifo, os.mkdir],
    ids=["link", "device", "fifo", "directory"],
)
def test_what_is_no_file_of_amends_is_left_alone_until_it_is_gone(
    file: LogFile, clock: Clock, tmp_path: Path, occupy: Callable[[Path], None]
) -> None:
    file.path.parent.mkdir()
    occupy(file.path)

    write(file, 0, 2)
    problem = file.problem
    os.rmdir(file.path) if file.path.is_dir() else file.path.unlink()
    clock.now_s += RETRY_S
    after = write(file, 2, 1)

    assert problem
    assert not (tmp_path / "elsewhere").exists()
    assert lines(file) == after


def test_a_state_directory_that_takes_nothing_stops_nobody(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "state").write_text("a file")
    made = LogFile(log_path(tmp_path / "state"), monotonic_s=clock)

    write(made, 0, 3)

    assert made.problem
    assert made.reason in ("not a directory", "file exists")


# -- with the log ----------------------------------------------------------------------------------


@pytest.fixture
def stderr(tmp_path: Path) -> Iterator[tuple[int, Callable[[], list[str]]]]:
    path = tmp_path / "stderr"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    yield fd, lambda: path.read_text().splitlines()
    os.close(fd)


def named(texts: list[str]) -> list[str]:
    return [json.loads(text)["event.name"] for text in texts]


def test_the_file_has_json_whatever_form_stderr_has(
    file: LogFile, stderr: tuple[int, Callable[[], list[str]]]
) -> None:
    log = Log(fd=stderr[0], is_strict=True)
    log.configure("info", "console")
    log.use_file(file)

    log.info("watch_recovered")

    assert named(lines(file)) == ["watch_recovered"]
    assert stderr[1]()[0].endswith("info    watch_recovered")


def test_a_file_that_cannot_be_written_is_told_once_on_stderr_and_once_when_it_can(
    file: LogFile, clock: Clock, stderr: tuple[int, Callable[[], list[str]]]
) -> None:
    log = Log(fd=stderr[0], is_strict=True)
    log.use_file(file)
    with full_disk(0):
        # A full disk is everybody's: what stderr got meanwhile is lost with it.
        log.info("watch_recovered")
    problem = log.problem
    log.info("watch_recovered")
    log.info("daemon_stopped")
    clock.now_s += RETRY_S
    log.info("daemon_stopped")

    assert problem
    assert str(file.path) in problem
    assert log.problem is None
    assert named(lines(file)) == ["log_lines_dropped", "daemon_stopped", "log_file_resumed"]
    assert named(stderr[1]())[-2:] == ["daemon_stopped", "log_file_resumed"]


def test_why_it_cannot_be_written_is_said_at_any_level_without_its_path(
    file: LogFile, stderr: tuple[int, Callable[[], list[str]]]
) -> None:
    file.path.parent.mkdir()
    file.path.mkdir()
    log = Log(fd=stderr[0], is_strict=True)
    log.configure("error", "json")
    log.use_file(file)

    for _ in range(3):
        log.error("watch_failed", count=1)

    told = [json.loads(text) for text in stderr[1]()]
    (failed,) = [each for each in told if each["event.name"] == "log_file_failed"]
    assert failed["reason"] == "is a directory"
    assert str(file.path.parent) not in json.dumps(told)


def test_what_reads_the_log_back_gets_every_line_in_order(file: LogFile) -> None:
    from amend.edge.service_logs import from_files

    wrote = write(file, 0, 3 * SMALL // 10)

    found = from_files(file.path, follows=False, last=None, wait=lambda _: None)

    assert [line.text for line in found] == wrote


# -- where it is wanted ----------------------------------------------------------------------------


def journal_stream(fd: int) -> dict[str, str]:
    found = os.fstat(fd)
    return {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}


def test_it_is_wanted_where_neither_a_terminal_nor_the_journal_has_the_log() -> None:
    reader, pipe = os.pipe()
    main, terminal = pty.openpty()
    try:
        wanted = {
            "pipe": is_wanted("auto", pipe, {}),
            "journal": is_wanted("auto", pipe, journal_stream(pipe)),
            "redirected from the journal": is_wanted("auto", pipe, journal_stream(terminal)),
            "terminal": is_wanted("auto", terminal, {}),
            "always": is_wanted("always", terminal, {}),
            "never": is_wanted("never", pipe, {}),
        }
    finally:
        for fd in (reader, pipe, main, terminal):
            os.close(fd)

    assert wanted == {
        "pipe": True,
        "journal": False,
        "redirected from the journal": True,
        "terminal": False,
        "always": True,
        "never": False,
    }
    assert is_wanted("auto", pipe, {})  # closed


# -- a real daemon ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


def in_file(daemon: Daemon) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept_at(daemon).read_text().splitlines()]


def kept_at(daemon: Daemon) -> Path:
    return log_path(daemon.base / "state")


TYPES = {str: str, int: int, float: (int, float), bool: bool, list: list}


def assert_as_in_the_catalogue(line: dict[str, Any]) -> None:
    event = EVENTS[line["event.name"]]
    assert line["severity_text"] == event.level.upper()
    facts = {fact.name: fact for fact in event.facts}
    for name, value in line.items():
        if "." in name or name in ("timestamp", "severity_text", "severity_number", "suppressed"):
            continue
        assert isinstance(value, TYPES[facts[name].type]), f"{event.name}.{name} is {value!r}"


def live_a_day(daemon: Daemon, root: Path) -> None:
    """What a repository goes through, soon."""
    tended = daemon.add(root)
    daemon.put(root, "auth-of-ada", ["a.py"], summary="what ada told nobody else")
    daemon.lookup(root, "auth-of-ada")
    (root / "a.py").write_text("changed\n")
    daemon.lookup(root, "auth-of-ada")
    git(root, "commit", "-qam", "a subject of her own")
    daemon.sync()
    git(root, "revert", "--no-edit", "HEAD")
    daemon.sync()
    (root / "memory").mkdir()
    note = {"cwd": str(root), "topic": "plans", "title": "plans", "bullets": ["be first"]}
    daemon.request("POST", "/v1/memory/save", note)
    daemon.request("POST", "/v1/hooks/claude", {"hook_event_name": "SessionStart"})
    daemon.request("GET", "/v1/nothing-of-that-name")
    daemon.request("DELETE", f"/v1/entries/topic/auth-of-ada?cwd={root}")
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def test_a_daemon_logs_what_is_in_the_catalogue_and_nothing_private(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "shop-of-ada")
    with Daemon(base=tmp_path / "base") as running:
        live_a_day(running, root)
        running.stop()
        told, kept = running.log(), in_file(running)
        path = kept_at(running)

    assert told == kept
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    for line in told:
        assert_as_in_the_catalogue(line)
    assert {
        *("daemon_ready", "repo_added", "entries_staled", "entries_restored"),
        *("hooks_answered", "repo_removed", "daemon_stopped"),
    } <= {line["event.name"] for line in told}
    text = json.dumps(told)
    for private in ("ada", str(tmp_path), "a.py", "subject", "plans", "first"):
        assert private not in text


def test_at_debug_a_daemon_says_where_and_of_what_and_still_no_summary(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "shop-of-ada")
    config = '[daemon]\nlog_level = "debug"\n'
    with Daemon(base=tmp_path / "base", config=config) as running:
        live_a_day(running, root)
        running.stop()
        told = running.log()

    for line in told:
        assert_as_in_the_catalogue(line)
    (added,) = [line for line in told if line["event.name"] == "repo_added"]
    assert added["root"] == str(root)
    assert "auth-of-ada" in {line.get("key") for line in told}
    assert "request" in {line["event.name"] for line in told}
    text = json.dumps(told)
    for secret in ("ada told nobody", "be first", "a subject of her own"):
        assert secret not in text


def test_a_reload_changes_whether_there_is_a_file_and_the_level(daemon: Daemon) -> None:
    config = daemon.base / "config.toml"
    config.write_text('[daemon]\nlog_file = "never"\n')
    eventually(lambda: "config_reloaded" in named_in(daemon.log()))
    before = len(in_file(daemon))
    config.write_text('[daemon]\nlog_file = "never"\nlog_level = "debug"\n')
    eventually(lambda: named_in(daemon.log()).count("config_reloaded") == 2)
    without = len(in_file(daemon))
    config.write_text('[daemon]\nlog_file = "always"\n')
    eventually(lambda: named_in(daemon.log()).count("config_reloaded") == 3)

    assert without == before
    eventually(lambda: len(in_file(daemon)) > before)
    assert named_in(in_file(daemon))[-1] == "config_reloaded"


def named_in(log: list[dict[str, Any]]) -> list[str]:
    return [line["event.name"] for line in log]


def test_readyz_says_that_the_file_cannot_be_written_and_that_all_else_is_well(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state/log").write_text("somebody's")

    with Daemon(base=tmp_path) as running:
        ready = running.get("/readyz")
        told = named_in(running.log())

    assert ready["ok"]
    assert [each for each in ready["problems"] if "log's file" in each]
    assert told.count("log_file_failed") == 1


def test_under_the_journal_there_is_no_file(tmp_path: Path) -> None:
    running = Daemon(base=tmp_path)
    with open(running.log_path, "ab") as log:
        running.env |= journal_stream(log.fileno())

    with running:
        ready = running.get("/readyz")

    assert ready["ok"]
    assert not kept_at(running).exists()


def test_a_store_that_was_brought_up_to_date_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(tmp_path / "state/amend.db")) as db:
        db.executescript(f"{store._SCHEMA}{TREES_SCHEMA}PRAGMA user_version=2;")

    with Daemon(base=tmp_path) as running:
        running.stop()
        running.start()
        told = running.log()

    migrated = [line for line in told if line["event.name"] == "store_migrated"]
    assert [(line["before"], line["after"]) for line in migrated] == [(2, store.SCHEMA_VERSION)]


def test_a_mistake_and_a_failed_request_are_told_under_the_id_that_was_answered(
    capfd: pytest.CaptureFixture[str], private_home: Path
) -> None:
    daemon = run.Daemon(os.environ)
    with contextlib.closing(store.Store(":memory:")) as history:
        tending = Tending(history, None, None, Options(), inline_bytes_max=None)
        requested = daemon._requested(Answers(tending, "0"))

    ids = {daemon._bug(KeyError("somebody's words")) for _ in range(3)}
    requested("GET", "/v1/status", 200, 0.001)
    requested("GET", "/v1/status", 500, 0.001)

    bug, failed = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert {bug["id"]} == ids
    assert "words" not in json.dumps(bug)
    assert (failed["event.name"], failed["status"], failed["ms"]) == ("request_failed", 500, 1.0)


if sys.platform != "linux":
    del test_under_the_journal_there_is_no_file
