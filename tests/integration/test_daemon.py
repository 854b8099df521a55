"""A real daemon, real files, real git: what a person does and what amend then says."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Daemon, git

# Far beyond what anything here takes; only a broken daemon meets it.
WAIT_S = 20.0


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Iterator[Path]:
    root = make_repo(tmp_path / "repo")
    tended = daemon.add(root)
    yield root
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def make_repo(root: Path) -> Path:
    (root / "src").mkdir(parents=True)
    for name in ("a.py", "b.py", "src/c.py"):
        (root / name).write_text(f"{name} as committed\n")
    (root / ".gitignore").write_text(".agent-cache.json\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "begin")
    return root


def eventually(condition: Callable[[], Any]) -> Any:
    until_s = time.monotonic() + WAIT_S
    while True:
        value = condition()
        if value or time.monotonic() > until_s:
            assert value
            return value
        time.sleep(0.01)


def cache(root: Path) -> dict[str, Any]:
    try:
        return json.loads((root / ".agent-cache.json").read_text())  # type: ignore[no-any-return]
    except FileNotFoundError:
        return {}


def topic_in_file(root: Path, key: str) -> Any:
    return cache(root).get("topics", {}).get(key)


def causes(answer: dict[str, Any]) -> list[str]:
    return [cause["cause"] for cause in answer["causes"]]


def settle_clock(base: Path) -> None:
    """Let the filesystem's clock move, so that what follows is newer than what was."""
    probe = base / "clock"
    probe.write_text("x")
    first = probe.stat().st_ctime_ns
    eventually(lambda: probe.write_text("x") and probe.stat().st_ctime_ns != first)


# -- the day of a finding ----------------------------------------------------------------------


def test_a_finding_is_fresh_then_stale_then_fresh_again(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py", "src/c.py"])
    text = (repo / "a.py").read_text()

    first = daemon.lookup(repo, "auth")
    (repo / "a.py").write_text("changed\n")
    second = daemon.lookup(repo, "auth")
    (repo / "a.py").write_text(text)
    third = daemon.lookup(repo, "auth")

    assert [a["verdict"] for a in (first, second, third)] == ["fresh", "stale", "fresh"]
    assert causes(second) == ["edited"]


def test_commit_revert_and_branches_are_told_apart(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    (repo / "a.py").write_text("changed\n")
    git(repo, "commit", "-qam", "rename tokens")
    daemon.sync()

    committed = daemon.lookup(repo, "auth")
    git(repo, "revert", "--no-edit", "HEAD")
    reverted = daemon.lookup(repo, "auth")

    assert causes(committed) == ["committed"]
    assert committed["causes"][0]["commit"]["subject"] == "rename tokens"
    assert reverted["verdict"] == "fresh"


def test_each_branch_has_its_own_version_of_a_finding(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"], summary="on main")
    git(repo, "switch", "-qc", "other")
    (repo / "a.py").write_text("other\n")
    git(repo, "commit", "-qam", "other")
    daemon.put(repo, "auth", ["a.py"], summary="on other")

    git(repo, "switch", "-q", "main")
    on_main = daemon.lookup(repo, "auth")
    git(repo, "switch", "-q", "other")
    on_other = daemon.lookup(repo, "auth")

    assert (on_main["verdict"], on_main["entry"]["summary"]) == ("fresh", "on main")
    assert (on_other["verdict"], on_other["entry"]["summary"]) == ("fresh", "on other")


def test_a_renamed_file_is_followed_until_it_is_edited(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])

    git(repo, "mv", "a.py", "src/moved.py")
    daemon.sync()
    moved = daemon.lookup(repo, "auth")
    (repo / "src/moved.py").write_text("edited after the move\n")
    edited = daemon.lookup(repo, "auth")

    assert (moved["verdict"], causes(moved)) == ("fresh", ["moved"])
    assert moved["causes"][0]["moved_to"] == "src/moved.py"
    assert edited["verdict"] == "stale"


def test_a_deleted_file_is_deleted_even_where_an_old_copy_stands(
    daemon: Daemon, repo: Path
) -> None:
    (repo / "copy.py").write_text((repo / "a.py").read_text())
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "a copy")
    daemon.put(repo, "auth", ["a.py"])

    (repo / "a.py").unlink()
    daemon.sync()

    assert causes(daemon.lookup(repo, "auth")) == ["deleted"]


def test_listings_globs_and_absent_paths_go_stale_by_names(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "routes", ["src/"])
    daemon.put(repo, "python", ["src/**/*.py"])
    daemon.put(repo, "legacy", ["!src/legacy.py"])

    (repo / "src/c.py").write_text("edited, not renamed\n")
    before = {key: daemon.lookup(repo, key)["verdict"] for key in ("routes", "python", "legacy")}
    (repo / "src/legacy.py").write_text("x\n")
    after = {key: daemon.lookup(repo, key) for key in ("routes", "python", "legacy")}

    assert set(before.values()) == {"fresh"}
    assert {key: causes(answer) for key, answer in after.items()} == {
        key: ["appeared"] for key in before
    }
    assert after["routes"]["causes"][0]["gained"] == ["legacy.py"]


def test_a_mistyped_key_is_missing_with_candidates(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth-system", ["a.py"])

    answer = daemon.lookup(repo, "auth-sistem")

    assert (answer["verdict"], answer["candidates"]) == ("missing", ["auth-system"])


def test_a_file_read_before_it_changed_makes_the_finding_stale_at_birth(
    daemon: Daemon, repo: Path
) -> None:
    read = git(repo, "rev-parse", "HEAD:a.py").strip()
    (repo / "a.py").write_text("changed while the agent was thinking\n")

    daemon.put(repo, "auth", ["a.py"], read_fingerprints={"a.py": read})

    assert daemon.lookup(repo, "auth")["verdict"] == "stale"


# -- the cache file ----------------------------------------------------------------------------


def test_the_mark_reaches_the_file_and_leaves_it_again(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    unmarked = (repo / ".agent-cache.json").read_bytes()
    text = (repo / "a.py").read_text()

    (repo / "a.py").write_text("changed\n")
    mark = eventually(lambda: (topic_in_file(repo, "auth") or {}).get("stale"))
    (repo / "a.py").write_text(text)
    eventually(lambda: "stale" not in (topic_in_file(repo, "auth") or {"stale": 1}))

    assert (mark["cause"], mark["files"]) == ("edited", ["a.py"])
    assert (repo / ".agent-cache.json").read_bytes() == unmarked


def test_a_file_that_keeps_changing_costs_one_write(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    before = daemon.metrics()["amend_file_writes_total"]

    for number in range(50):
        (repo / "a.py").write_text(f"{number}\n")
        daemon.lookup(repo, "auth")
    eventually(lambda: (topic_in_file(repo, "auth") or {}).get("stale"))
    daemon.sync()

    assert daemon.metrics()["amend_file_writes_total"] - before == 1


def test_an_entry_written_by_hand_is_noticed_and_baselined(daemon: Daemon, repo: Path) -> None:
    settle_clock(repo.parent)

    (repo / ".agent-cache.json").write_text(
        '{"topics": {"byhand": {"ts": "2026-11-30T00:00:00Z", "summary": "s", "files": ["a.py"]}}}'
    )
    first = daemon.lookup(repo, "byhand")
    (repo / "a.py").write_text("changed\n")
    second = daemon.lookup(repo, "byhand")

    assert (first["verdict"], second["verdict"]) == ("fresh", "stale")


def test_touching_up_a_summary_does_not_make_a_stale_finding_fresh(
    daemon: Daemon, repo: Path
) -> None:
    settle_clock(repo.parent)
    file = repo / ".agent-cache.json"
    text = '{"topics": {"k": {"ts": "2026-11-30T00:00:00Z", "summary": "s", "files": ["a.py"]}}}'
    file.write_text(text)
    assert daemon.lookup(repo, "k")["verdict"] == "fresh"
    (repo / "a.py").write_text("changed\n")
    settle_clock(repo.parent)

    file.write_text(text.replace('"s"', '"s, with a comma mended"'))

    assert daemon.lookup(repo, "k")["verdict"] == "stale"


def test_an_entry_taken_out_by_hand_is_missing_and_comes_back_with_its_fingerprints(
    daemon: Daemon, repo: Path
) -> None:
    settle_clock(repo.parent)
    file = repo / ".agent-cache.json"
    text = '{"topics": {"k": {"ts": "2026-11-30T00:00:00Z", "summary": "s", "files": ["a.py"]}}}'
    file.write_text(text)
    assert daemon.lookup(repo, "k")["verdict"] == "fresh"

    file.write_text('{"topics": {}}')
    gone = daemon.lookup(repo, "k")
    (repo / "a.py").write_text("changed while it was away\n")
    settle_clock(repo.parent)
    file.write_text(text)
    back = daemon.lookup(repo, "k")

    assert (gone["verdict"], back["verdict"]) == ("missing", "stale")


def test_a_file_that_cannot_be_parsed_is_reported_and_left_alone(
    daemon: Daemon, repo: Path
) -> None:
    daemon.put(repo, "auth", ["a.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    broken = b'{"topics": {"auth": oops'

    (repo / ".agent-cache.json").write_bytes(broken)
    (repo / "a.py").write_text("changed\n")
    answer = daemon.lookup(repo, "auth")
    status = daemon.get("/v1/status")["repos"]

    assert answer["verdict"] == "stale"
    problems = next(r["problems"] for r in status if r["root"] == str(repo))
    assert any("line 1" in problem for problem in problems)
    assert (repo / ".agent-cache.json").read_bytes() == broken


def test_a_tracked_cache_file_is_only_observed(daemon: Daemon, tmp_path: Path) -> None:
    root = make_repo(tmp_path / "tracked")
    text = '{"topics": {"k": {"ts": "2036-11-30T00:00:00Z", "summary": "s", "files": ["a.py"]}}}'
    (root / ".agent-cache.json").write_text(text)
    git(root, "add", "-f", ".agent-cache.json")
    git(root, "commit", "-qm", "track it")

    daemon.add(root)
    daemon.sync()
    put = daemon.put(root, "auth", ["a.py"])
    (root / "a.py").write_text("changed\n")
    daemon.sync()

    assert put["stored_in"] == "store"
    assert "tracks" in put["reason"]
    assert daemon.lookup(root, "auth")["verdict"] == "stale"
    assert (root / ".agent-cache.json").read_text() == text


def test_deleting_an_entry_takes_it_out_of_the_file(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    daemon.put(repo, "other", ["a.py"])
    eventually(lambda: topic_in_file(repo, "auth") and topic_in_file(repo, "other"))

    daemon.request("DELETE", f"/v1/entries/topic/auth?cwd={repo}")

    assert daemon.lookup(repo, "auth")["verdict"] == "missing"
    eventually(lambda: topic_in_file(repo, "auth") is None)
    assert topic_in_file(repo, "other")


def test_a_deleted_entry_is_told_of_once_whatever_happens_to_its_files(
    daemon: Daemon, repo: Path
) -> None:
    daemon.put(repo, "auth", ["a.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    clock = daemon.sync()["clock"]

    daemon.request("DELETE", f"/v1/entries/topic/auth?cwd={repo}")
    (repo / "a.py").write_text("edited before it has left the file\n")
    eventually(lambda: topic_in_file(repo, "auth") is None)
    daemon.sync()

    told = daemon.get(f"/v1/changes?cwd={repo}&since={clock}")["changes"]
    assert [(change["key"], change["verdict"]) for change in told] == [("auth", "missing")]


@pytest.mark.parametrize("waits", [True, False])
def test_a_deleted_finding_never_answers_again(daemon: Daemon, repo: Path, waits: bool) -> None:
    daemon.put(repo, "auth", ["b.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    daemon.request("DELETE", f"/v1/entries/topic/auth?cwd={repo}")
    if waits:
        eventually(lambda: topic_in_file(repo, "auth") is None)

    daemon.put(repo, "auth", ["a.py"])
    (repo / "a.py").write_text("edited\n")

    assert daemon.lookup(repo, "auth")["verdict"] == "stale"
    eventually(lambda: "stale" in (topic_in_file(repo, "auth") or ()))


def test_a_finding_written_by_hand_after_its_deletion_stands_alone(
    daemon: Daemon, repo: Path
) -> None:
    daemon.put(repo, "auth", ["b.py"])
    eventually(lambda: topic_in_file(repo, "auth"))
    daemon.request("DELETE", f"/v1/entries/topic/auth?cwd={repo}")
    document = cache(repo)
    document["topics"]["auth"] = {"ts": "2026-11-30", "summary": "anew", "files": ["a.py"]}
    (repo / ".agent-cache.json").write_text(json.dumps(document))
    daemon.sync()
    (repo / "a.py").write_text("edited\n")

    answer = daemon.lookup(repo, "auth")

    assert (answer["verdict"], answer["entry"]["summary"]) == ("stale", "anew")


def test_a_restart_reads_no_cache_file_that_it_knows_and_keeps_its_marks(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    with Daemon(tmp_path / "daemon") as running:
        running.add(root)
        running.put(root, "auth", ["a.py"])
        running.put(root, "other", ["b.py"])
        (root / "a.py").write_text("edited\n")
        eventually(lambda: "stale" in (topic_in_file(root, "auth") or ()))
        running.sync()
        running.stop()
        text = (root / ".agent-cache.json").read_text()
        running.start()
        running.sync()
        learnt = running.metrics()["amend_cache_files_learnt_total"]

        assert learnt == 0
        assert running.lookup(root, "auth")["verdict"] == "stale"
        assert running.lookup(root, "other")["verdict"] == "fresh"
        assert (root / ".agent-cache.json").read_text() == text
        (root / "a.py").write_text("a.py as committed\n")
        eventually(lambda: "stale" not in topic_in_file(root, "auth"))


# -- bad input ---------------------------------------------------------------------------------


def special(root: Path, name: str) -> None:
    path = root / name
    if name == "fifo":
        os.mkfifo(path)
    elif name == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            here = os.getcwd()
            os.chdir(root)
            try:
                sock.bind(name)
            finally:
                os.chdir(here)
    elif name == "device":
        path.symlink_to("/dev/zero")
    elif name == "huge":
        with open(path, "wb") as file:
            file.truncate(100 << 20)
    elif name == "out":
        path.symlink_to("/etc/passwd")
    elif name == "loop":
        path.symlink_to("loop")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("fifo", "unreadable"),
        ("socket", "unreadable"),
        ("device", "unreadable"),
        ("huge", "too_large"),
        ("out", "unreadable"),
        ("loop", "unreadable"),
        ("src", "unreadable"),
        ("no-such-file", "deleted"),
    ],
)
def test_a_path_that_is_no_file_to_read_has_a_clear_cause(
    daemon: Daemon, repo: Path, name: str, cause: str
) -> None:
    special(repo, name)

    daemon.put(repo, "odd", [name, "a.py"])
    answer = daemon.lookup(repo, "odd")

    assert causes(answer) == [cause]
    assert answer["verdict"] == ("stale" if cause == "deleted" else "unknown")
    assert answer["causes"][0].get("detail", "") != "" or cause == "deleted"


@pytest.mark.parametrize("spec", ["/etc/passwd", "../up", "a/../../b", "nul\0", ".git/config", ""])
def test_a_path_that_leads_out_is_refused_with_the_rule(
    daemon: Daemon, repo: Path, spec: str
) -> None:
    body = {"summary": "s", "files": [spec]}

    status, problem = daemon.request("PUT", f"/v1/entries/topic/x?cwd={repo}", body)

    assert status == 422
    assert "files" in problem["detail"]


def test_in_the_file_one_bad_entry_is_invalid_and_the_others_serve(
    daemon: Daemon, repo: Path
) -> None:
    settle_clock(repo.parent)
    good = {"ts": "2026-11-30T00:00:00Z", "summary": "s", "files": ["a.py"], "extra": [1]}
    topics = {
        "good": good,
        "absolute": {**good, "files": ["/etc/passwd"]},
        "climbs": {**good, "files": ["../../x"]},
        "typed": {**good, "files": "a.py"},
        "untimed": {**good, "ts": 7},
        "text": "just text",
    }
    text = json.dumps({"unknown": {"kept": True}, "topics": topics}, indent=1)

    (repo / ".agent-cache.json").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    rows = daemon.entries(repo)

    assert rows["good"]["verdict"] == "fresh"
    for key in set(topics) - {"good"}:
        assert (rows[key]["verdict"], causes(rows[key])[0]) == ("stale", "invalid")
        assert rows[key]["causes"][0]["pointer"].startswith(f"/topics/{key}")


def test_file_names_that_are_no_text_can_be_cited(daemon: Daemon, repo: Path) -> None:
    name = b"caf\xe9.py"
    (repo / os.fsdecode(name)).write_text("one\n")

    daemon.put(repo, "odd", ["caf\udce9.py"])
    first = daemon.lookup(repo, "odd")
    (repo / os.fsdecode(name)).write_text("two\n")
    second = daemon.lookup(repo, "odd")

    assert (first["verdict"], second["verdict"]) == ("fresh", "stale")
    assert second["causes"][0]["source"] == "caf\udce9.py"


def test_an_unregistered_directory_is_told_how_to_register(daemon: Daemon, tmp_path: Path) -> None:
    status, problem = daemon.request("POST", "/v1/lookup", {"cwd": str(tmp_path), "key": "x"})

    assert (status, "amend add" in problem["hint"]) == (404, True)


# -- events, clocks, matches -------------------------------------------------------------------


def test_a_subscriber_hears_of_a_mark_and_of_what_git_adds(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    daemon.sync()
    heard: list[dict[str, Any]] = []
    listening = threading.Event()

    def listen() -> None:
        for change in daemon.events(repo):
            listening.set()
            if change:
                heard.append(change)
            if any("commit" in cause for cause in change.get("causes", [])):
                return

    thread = threading.Thread(target=listen)
    thread.start()
    assert listening.wait(WAIT_S)
    (repo / "a.py").write_text("changed\n")
    git(repo, "commit", "-qam", "changed")
    thread.join(WAIT_S)

    assert [heard[0]["previous"], heard[0]["verdict"]] == ["fresh", "stale"]
    assert heard[-1]["refined"]
    assert heard[-1]["causes"][0]["commit"]["subject"] == "changed"


def test_changes_since_a_clock_are_told_and_a_foreign_clock_is_not_known(
    daemon: Daemon, repo: Path
) -> None:
    clock = daemon.put(repo, "auth", ["a.py"])["clock"]
    (repo / "a.py").write_text("changed\n")

    since = daemon.get(f"/v1/changes?since={clock}&cwd={repo}")
    foreign = daemon.get(f"/v1/changes?since=c:0000:1&cwd={repo}")

    assert [c["verdict"] for c in since["changes"]][:1] == ["stale"]
    assert foreign["fresh_instance"]


def test_a_put_with_an_old_etag_is_refused(daemon: Daemon, repo: Path) -> None:
    daemon.put(repo, "auth", ["a.py"])
    daemon.put(repo, "auth", ["a.py"])

    done = subprocess.run(
        [
            "curl",
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--unix-socket",
            daemon.socket,
            "-X",
            "DELETE",
            "-H",
            'If-Match: "0"',
            f"http://x/v1/entries/topic/auth?cwd={repo}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "412"


# -- the daemon's own life ---------------------------------------------------------------------


def test_a_restart_remembers_and_notices_what_changed_meanwhile(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    with Daemon(tmp_path / "daemon") as daemon:
        daemon.add(root)
        daemon.put(root, "auth", ["a.py"])
        daemon.put(root, "same", ["b.py"])
        daemon.stop(kill=True)
        (root / "a.py").write_text("changed while nobody watched\n")
        daemon.start()

        verdicts = {key: row["verdict"] for key, row in daemon.entries(root).items()}

        assert verdicts == {"auth": "stale", "same": "fresh"}


def test_an_entry_older_than_amend_is_judged_by_time_and_history(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    entry = {"ts": "2036-01-01T00:00:00Z", "summary": "s", "files": ["a.py"]}
    topics = {
        "future": entry,
        "older-than-the-file": {**entry, "ts": "2020-01-01T00:00:00Z"},
        "now": {**entry, "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))},
    }
    document = {"_meta": {"maxAgeDays": 100000}, "topics": topics}
    (root / ".agent-cache.json").write_text(json.dumps(document))
    with Daemon(tmp_path / "daemon") as daemon:
        daemon.add(root)
        daemon.sync()

        rows = daemon.entries(root)

        assert (rows["future"]["verdict"], causes(rows["future"])) == ("unknown", ["no_baseline"])
        assert rows["older-than-the-file"]["verdict"] in ("stale", "unknown")
        assert rows["older-than-the-file"]["verdict"] != "fresh"


def test_eviction_takes_a_stale_entry_out_and_puts_it_back(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    text = (root / "a.py").read_text()
    with Daemon(tmp_path / "daemon", config='[policy]\non_stale = "evict"\n') as daemon:
        daemon.add(root)
        daemon.put(root, "auth", ["a.py"])
        eventually(lambda: topic_in_file(root, "auth"))
        before = (root / ".agent-cache.json").read_bytes()

        (root / "a.py").write_text("changed\n")
        eventually(lambda: topic_in_file(root, "auth") is None)
        stale = daemon.lookup(root, "auth")
        (root / "a.py").write_text(text)
        eventually(lambda: topic_in_file(root, "auth"))

        assert stale["verdict"] == "stale"
        assert daemon.lookup(root, "auth")["verdict"] == "fresh"
        assert (root / ".agent-cache.json").read_bytes() == before


def test_a_config_file_that_changes_reloads_and_a_bad_one_keeps_the_old(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    with Daemon(tmp_path / "daemon") as daemon:
        daemon.add(root)
        daemon.sync()
        config = tmp_path / "daemon/config.toml"

        config.write_text('[policy]\non_stale = "observe"\n')
        eventually(lambda: "observe" in daemon.get("/v1/status")["repos"][0]["writes"])
        config.write_text('[policy]\non_stail = "mark"\n')
        error = eventually(lambda: daemon.get("/v1/status")["config_error"])

        assert "on_stail" in error
        assert "observe" in daemon.get("/v1/status")["repos"][0]["writes"]


def test_starts_beside_a_running_daemon_end_with_a_clear_message(tmp_path: Path) -> None:
    with Daemon(tmp_path / "daemon") as daemon:
        starts = [
            subprocess.Popen(
                [sys.executable, "-m", "amend.cli.main", "run"],
                env=daemon.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for _ in range(5)
        ]
        errors = [start.communicate(timeout=60)[1].decode() for start in starts]

        assert all(start.returncode == 1 for start in starts)
        assert all("another daemon" in error for error in errors)
        assert daemon.get("/v1/hello")["pid"] == daemon.pid


def test_a_stop_removes_its_socket_and_a_kill_does_not_hinder_the_next(tmp_path: Path) -> None:
    with Daemon(tmp_path / "daemon") as daemon:
        daemon.stop(kill=True)
        left = daemon.socket.exists()
        daemon.start()
        daemon.stop()

        assert left
        assert not daemon.socket.exists()


# stderr is a pipe that is never read; its reading end stays open for as long as the daemon runs.
UNREAD = """
import os
from amend.daemon.run import run_daemon
reading, writing = os.pipe()
os.dup2(writing, 2)
run_daemon(os.environ)
"""


def test_a_log_that_nobody_reads_does_not_keep_it_from_answering(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", config='[daemon]\nlog_level = "debug"\n')
    daemon.command = [sys.executable, "-c", UNREAD]
    with daemon:
        # A line each of about 300 bytes; a pipe holds 64 KiB.
        answers = [daemon.get("/healthz")["ok"] for _ in range(400)]

        assert answers == [True] * 400
        daemon.stop()


def test_a_daemon_started_inside_a_git_hook_tends_other_repositories_all_the_same(
    tmp_path: Path,
) -> None:
    root = make_repo(tmp_path / "repo")
    daemon = Daemon(tmp_path / "daemon")
    daemon.env |= {
        "GIT_DIR": "/nonexistent/.git",
        "GIT_WORK_TREE": "/nonexistent",
        "GIT_INDEX_FILE": "/nonexistent/index",
        "GIT_OBJECT_DIRECTORY": "/nonexistent/objects",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_PREFIX": "src/",
    }
    with daemon:
        daemon.add(root)
        daemon.put(root, "auth", ["a.py"])
        (root / "a.py").write_text("changed\n")
        git(root, "commit", "-qam", "rename tokens")
        daemon.sync()

        answer = daemon.lookup(root, "auth")

        assert causes(answer) == ["committed"]
        assert answer["causes"][0]["commit"]["subject"] == "rename tokens"


# git's answer never comes; the test is told when it is being waited for.
HANGING_GIT = """
import os, threading
from pathlib import Path
from amend.daemon import run, worktree

def hang(*_):
    (Path(os.environ["AMEND_STATE_DIR"]) / "asked").touch()
    threading.Event().wait()

worktree.is_tracked = hang
run.run_daemon(os.environ)
"""


def test_a_stop_does_not_wait_for_a_worker_that_hangs(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    daemon = Daemon(tmp_path / "daemon")
    daemon.command = [sys.executable, "-c", HANGING_GIT]
    with daemon:
        daemon.add(root)
        eventually((daemon.base / "state/asked").exists)
        process = daemon.process

        daemon.stop()

        assert process is not None
        assert process.returncode == 0
        assert daemon.log()[-1]["event.name"] == "daemon_stopped"


# A start that takes for ever, and tells when it has begun.
ENDLESS_START = """
import os, sys
from amend.cli.main import main
from amend.daemon.tending import Tending

def add(*_, **__):
    print("begun", flush=True)
    while True:
        pass

Tending.add = add
sys.exit(main(["run"]))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_stop_ends_a_long_start_at_once(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    daemon = Daemon(tmp_path / "daemon", config=f'[[repo]]\nroot = "{tmp_path}"\n')
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS_START],
        env=daemon.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"

        process.send_signal(number)

        assert process.wait(WAIT_S) == code
    finally:
        process.kill()
        process.communicate()
    with daemon:
        assert daemon.get("/readyz")["ok"]
