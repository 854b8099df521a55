"""`amend service` against stand-ins for systemd and launchd, and a home of the test's own."""

import json
import os
import plistlib
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amend.cli import service
from amend.cli.main import main
from amend.edge import service_control
from amend.edge.service import runtime_dir, state_dir
from amend.edge.service_control import Launchd
from amend.edge.service_logs import from_files
from tests.integration.cli_fakes import fake_daemon
from tests.integration.service_fakes import Programs, programs

RUNNING = """\
LoadState=loaded
ActiveState=active
MainPID=4242
StatusText=worktrees: 2, entries: 7
Result=success
UnitFileState=enabled
NRestarts=1
MemoryCurrent=52428800
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = programs(tmp_path / "bin", monkeypatch, "systemctl", "journalctl")
    monkeypatch.setattr(service, "is_macs", lambda: False)
    return made


@pytest.fixture
def launchd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = programs(tmp_path / "bin", monkeypatch, "launchctl")
    monkeypatch.setattr(service, "is_macs", lambda: True)
    return made


@pytest.fixture
def units(private_home: Path) -> Path:
    return private_home / ".config/systemd/user"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def ran(*words: str) -> tuple[int, str, str]:
        code = main(["service", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return ran


Run = Callable[..., tuple[int, str, str]]


# -- install and uninstall -------------------------------------------------------------------------


def test_install_writes_two_units_and_enables_them(
    systemd: Programs, units: Path, run: Run
) -> None:
    code, out, err = run("install")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"wrote {units}/amend.socket",
        f"wrote {units}/amend.service",
        "amend runs, and systemd starts it at each login",
    ]
    told = [line for line in systemd.told() if "show" not in line and "is-active" not in line]
    assert told == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now amend.socket amend.service",
    ]


def test_what_is_installed_has_the_paths_of_this_shell(
    systemd: Programs, units: Path, run: Run
) -> None:
    run("install")

    unit = (units / "amend.service").read_text()
    program = Path(sys.executable).parent / "amend"
    runtime = os.environ["AMEND_RUNTIME_DIR"]
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    assert start in (
        f"ExecStart={program} run",
        f"ExecStart={sys.executable} -m amend.cli.main run",
    )
    assert f'Environment="AMEND_STATE_DIR={os.environ["AMEND_STATE_DIR"]}"\n' in unit
    assert f'Environment="AMEND_CONFIG={os.environ["AMEND_CONFIG"]}"\n' in unit
    listens = [
        line.partition("=")[2]
        for line in (units / "amend.socket").read_text().splitlines()
        if line.startswith("ListenStream=")
    ]
    # The test's own XDG_RUNTIME_DIR is the one that AMEND_RUNTIME_DIR is in.
    assert [path.replace("%t/amend", runtime) for path in listens] == [
        f"{runtime}/api.sock",
        f"{runtime}/hooks/claude.sock",
        f"{runtime}/hooks/codex.sock",
    ]


def test_a_runtime_directory_of_ones_own_is_told_to_both_units(
    systemd: Programs, units: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = os.environ["XDG_RUNTIME_DIR"] + "/mine"
    monkeypatch.setenv("AMEND_RUNTIME_DIR", chosen)

    run("install")

    assert f'"AMEND_RUNTIME_DIR={chosen}"' in (units / "amend.service").read_text()
    assert f"ListenStream={chosen}/api.sock" in (units / "amend.socket").read_text()


def test_installing_twice_changes_nothing(systemd: Programs, units: Path, run: Run) -> None:
    run("install")
    before = {path: path.stat().st_ino for path in units.iterdir()}

    code, out, _ = run("install", "--json")

    assert code == 0
    assert json.loads(out)["written"] == []
    assert {path: path.stat().st_ino for path in units.iterdir()} == before


def test_uninstall_leaves_everything_as_it_was(
    systemd: Programs, units: Path, run: Run, private_home: Path
) -> None:
    units.mkdir(parents=True)
    (units / "other.service").write_text("[Service]\n")
    (units / "amend.service.d").mkdir()
    (units / "amend.service.d/override.conf").write_text("[Service]\nMemoryMax=2G\n")
    before = sorted(private_home.rglob("*"))
    run("install")
    systemd.told()

    code, out, _ = run("uninstall")

    assert code == 0
    assert out == f"removed {units}/amend.socket\nremoved {units}/amend.service\n"
    assert sorted(private_home.rglob("*")) == before
    assert systemd.told() == [
        "systemctl --user show-environment",
        "systemctl --user disable --now amend.socket amend.service",
        "systemctl --user daemon-reload",
    ]


def test_a_unit_that_somebody_changed_is_neither_replaced_nor_removed(
    systemd: Programs, units: Path, run: Run
) -> None:
    run("install")
    edited = (units / "amend.service").read_text().replace("MemoryMax=1G", "MemoryMax=2G")
    (units / "amend.service").write_text(edited)

    again = run("install")
    removed = run("uninstall")

    assert again[0] == 1
    assert "amend.service is changed since it was installed; nothing was written" in again[2]
    assert removed[1].splitlines() == [
        f"removed {units}/amend.socket",
        f"{units}/amend.service stays: it is changed since it was installed",
    ]
    assert (units / "amend.service").read_text() == edited


def test_a_unit_of_another_hand_is_left_alone(systemd: Programs, units: Path, run: Run) -> None:
    units.mkdir(parents=True)
    (units / "amend.service").write_text("[Service]\nExecStart=/usr/bin/other\n")

    code, _, err = run("install")

    assert code == 1
    assert "is not amend's; nothing was written" in err
    assert not (units / "amend.socket").exists()
    assert systemd.told() == []


def test_where_systemd_cannot_be_asked_the_commands_are_shown(
    systemd: Programs, units: Path, run: Run
) -> None:
    systemd.answer("systemctl", "*", code=1, err="Failed to connect to bus: No medium found\n")

    code, out, _ = run("install")

    assert code == 0
    assert (units / "amend.service").exists()
    assert out.splitlines()[2:] == [
        "systemd cannot be asked here (Failed to connect to bus: No medium found); in a login "
        "session, run:",
        "  systemctl --user daemon-reload",
        "  systemctl --user enable --now amend.socket amend.service",
    ]


def test_a_start_that_fails_is_told_in_systemds_words(systemd: Programs, run: Run) -> None:
    systemd.answer("systemctl", "--user enable *", code=1, err="Job for amend.service failed.\n")

    code, _, err = run("install")

    assert code == 1
    assert "systemd does not start amend: Job for amend.service failed." in err


def test_a_daemon_that_was_started_by_hand_is_not_fought(systemd: Programs, run: Run) -> None:
    systemd.answer("systemctl", "--user is-active *", code=3, out="inactive\n")
    with fake_daemon() as fake:
        fake.answers["GET /v1/hello"] = (200, {"pid": 77, "version": "1"})

        code, out, _ = run("install")

    assert code == 0
    assert "a daemon that was started by hand answers (process 77); end it, then run:" in out
    assert "systemctl --user enable amend.socket amend.service" in systemd.told()


# -- status and restart ----------------------------------------------------------------------------


def test_a_service_that_runs_and_answers_is_well(systemd: Programs, run: Run) -> None:
    run("install")
    systemd.answer("systemctl", "--user show --property=*", out=RUNNING)
    with fake_daemon() as fake:
        fake.answers["GET /v1/hello"] = (200, {"pid": 4242, "version": "0.1.0"})

        code, out, _ = run("status")
        document = json.loads(run("status", "--json")[1])

    assert code == 0
    assert "systemd: running (worktrees: 2, entries: 7)" in out
    assert "process 4242, 50 MiB, restarted 1 times" in out
    assert "answers, version 0.1.0" in out
    assert (document["ok"], document["state"], document["pid"]) == (True, "running", 4242)
    assert [file["state"] for file in document["files"]] == ["installed", "installed"]


@pytest.mark.parametrize(
    ("shown", "answering", "said"),
    [
        ("LoadState=not-found\n", None, "systemd: not known to the service manager"),
        ("LoadState=loaded\nActiveState=failed\nResult=watchdog\n", None, "ended with watchdog"),
        (RUNNING, None, "no daemon answers"),
        (RUNNING, 77, "another daemon answers, process 77"),
    ],
    ids=["absent", "failed", "silent", "another"],
)
def test_what_is_not_well_is_said_and_exits_1(
    systemd: Programs, run: Run, shown: str, answering: int | None, said: str
) -> None:
    run("install")
    systemd.answer("systemctl", "--user show --property=*", out=shown)
    with fake_daemon() as fake:
        if answering is not None:
            fake.answers["GET /v1/hello"] = (200, {"pid": answering, "version": "1"})

        code, out, _ = run("status")

    assert code == 1
    assert said in out


def test_restart_forgets_failures_first(systemd: Programs, run: Run) -> None:
    run("install")
    systemd.told()
    systemd.answer("systemctl", "--user show --property=*", out=RUNNING)

    code, out, _ = run("restart")

    assert (code, out) == (0, "amend runs anew, process 4242\n")
    assert systemd.told()[1:3] == [
        "systemctl --user reset-failed amend.socket amend.service",
        "systemctl --user restart amend.service",
    ]


def test_nothing_that_is_not_installed_is_restarted(systemd: Programs, run: Run) -> None:
    code, _, err = run("restart")

    assert code == 1
    assert "no service is installed" in err
    assert systemd.told() == []


# -- launchd ---------------------------------------------------------------------------------------


def test_launchd_gets_a_property_list_and_the_directories_for_its_sockets(
    launchd: Programs, private_home: Path, run: Run
) -> None:
    code, out, _ = run("install")

    path = private_home / "Library/LaunchAgents/dev.amend.daemon.plist"
    document = plistlib.loads(path.read_bytes())
    runtime = runtime_dir(os.environ)
    domain = f"gui/{os.getuid()}"
    assert code == 0
    assert out == f"wrote {path}\namend runs, and launchd starts it at each login\n"
    assert document["EnvironmentVariables"]["AMEND_RUNTIME_DIR"] == str(runtime)
    assert document["Sockets"]["api"]["SockPathName"] == f"{runtime}/api.sock"
    assert [each.stat().st_mode & 0o777 for each in (runtime, runtime / "hooks")] == [0o700] * 2
    assert launchd.told()[-2:] == [
        f"launchctl bootout {domain}/dev.amend.daemon",
        f"launchctl bootstrap {domain} {path}",
    ]


def test_launchd_that_still_tidies_up_is_asked_again(launchd: Programs) -> None:
    launchd.answer("launchctl", "bootstrap *", code=5, err="Bootstrap failed: 5\n", times=2)
    waited: list[float] = []

    Launchd("x", wait=waited.append).enable(["/p"], starts=True)

    assert waited == [service_control.BOOTSTRAP_RETRY_S] * 2


def test_without_a_login_at_the_screen_launchd_is_not_asked_to_load(
    launchd: Programs, run: Run
) -> None:
    launchd.answer("launchctl", "print gui/*", code=112, err="Could not find domain\n")

    code, out, _ = run("install")

    assert code == 0
    assert "nobody is logged in at the screen (Could not find domain)" in out
    assert "  launchctl bootstrap gui/" in out
    assert not [line for line in launchd.told() if "bootstrap" in line]


def test_launchds_own_words_are_understood(launchd: Programs, run: Run) -> None:
    run("install")
    printed = "x = {\n\tstate = running\n\tpid = 4242\n\truns = 3\n\tlast exit code = 78\n}\n"
    launchd.answer("launchctl", "print *dev.amend.daemon", out=printed)

    document = json.loads(run("status", "--json")[1])

    assert (document["state"], document["pid"], document["restarts"]) == ("running", 4242, 2)


def test_a_job_that_ended_badly_has_failed(launchd: Programs, run: Run) -> None:
    run("install")
    printed = "x = {\n\tstate = not running\n\tlast exit code = 78\n}\n"
    launchd.answer("launchctl", "print *dev.amend.daemon", out=printed)

    code, out, _ = run("status")

    assert code == 1
    assert "launchd: failed (ended with 78)" in out


def test_uninstall_takes_it_out_of_launchd(launchd: Programs, private_home: Path, run: Run) -> None:
    run("install")
    launchd.told()

    code, _, _ = run("uninstall")

    assert code == 0
    assert f"launchctl bootout gui/{os.getuid()}/dev.amend.daemon" in launchd.told()
    assert list((private_home / "Library/LaunchAgents").iterdir()) == []


# -- logs ------------------------------------------------------------------------------------------

# Of the collection: a run of all tests takes minutes.
NOW = datetime.now(UTC)


def log_line(event: str, level: str = "info", *, ago_s: float = 0, **facts: Any) -> str:
    document = {
        "timestamp": (datetime.now(UTC) - timedelta(seconds=ago_s))
        .isoformat()
        .replace("+00:00", "Z"),
        "severity_text": level.upper(),
        "severity_number": {"debug": 5, "info": 9, "warning": 13, "error": 17}[level],
        "event.name": event,
        "service.name": "amend",
        "process.pid": 1,
        **facts,
    }
    return json.dumps(document)


def journal(*records: tuple[str, int]) -> str:
    stamp = str(int(datetime.now(UTC).timestamp() * 1e6))
    return "".join(
        json.dumps({"MESSAGE": text, "PRIORITY": str(priority), "__REALTIME_TIMESTAMP": stamp})
        + "\n"
        for text, priority in records
    )


@pytest.fixture
def log_file() -> Path:
    path = state_dir(os.environ) / "log/amend.log"
    path.parent.mkdir(parents=True)
    path.with_name("amend.log.2").write_text(log_line("oldest", ago_s=7200) + "\n")
    path.with_name("amend.log.1").write_text(log_line("older", "debug", ago_s=600) + "\n")
    path.write_text(log_line("now", "error", reason="two words") + "\nhalf of a li")
    return path


def test_the_file_is_read_where_no_journal_is_oldest_first(
    systemd: Programs, log_file: Path, run: Run
) -> None:
    code, out, _ = run("logs")

    words = [line.split() for line in out.splitlines()]
    assert code == 0
    assert [each[2:] for each in words] == [
        ["info", "oldest"],
        ["debug", "older"],
        ["error", "now", "reason='two", "words'"],
    ]
    assert systemd.told() == []


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (["--level", "info"], ["oldest", "now"]),
        (["--level", "error"], ["now"]),
        (["--since", "1h"], ["older", "now"]),
        (["--since", "90s"], ["now"]),
        (["--since", (NOW - timedelta(days=1)).isoformat()], ["oldest", "older", "now"]),
        (["--since", "3h", "--level", "info"], ["oldest", "now"]),
    ],
)
def test_lines_are_chosen_by_level_and_time(
    systemd: Programs, log_file: Path, run: Run, options: list[str], events: list[str]
) -> None:
    _, out, _ = run("logs", "--json", *options)

    assert [json.loads(line)["event.name"] for line in out.splitlines()] == events


def test_a_time_that_is_none_is_a_wrong_command_line(
    systemd: Programs, log_file: Path, run: Run
) -> None:
    code, _, err = run("logs", "--since", "yesterday-ish")

    assert code == 2
    assert "'yesterday-ish' is no time; write 90s, 10m, 2h, 3d or 2026-01-31T18:00" in err


def test_the_journal_is_asked_where_the_service_is_installed(
    systemd: Programs, log_file: Path, run: Run
) -> None:
    run("install")
    systemd.told()
    systemd.answer(
        "journalctl",
        "*",
        out=journal(
            ("Started amend.", 6), (log_line("daemon_ready", repos=2), 6), ("Traceback", 3)
        ),
    )

    _, everything, _ = run("logs")
    _, errors, _ = run("logs", "--level", "error", "--json", "--since", "1h")

    assert [line.split()[2:] for line in everything.splitlines()] == [
        ["Started", "amend."],
        ["info", "daemon_ready", "repos=2"],
        ["Traceback"],
    ]
    assert json.loads(errors)["body"] == "Traceback"
    first, second = systemd.told()
    assert first.startswith("journalctl --user --unit amend.service --output=json")
    assert " --since=@" in second


def test_a_journal_that_cannot_be_read_gives_way_to_the_file(
    systemd: Programs, log_file: Path, run: Run
) -> None:
    run("install")
    systemd.answer("journalctl", "*", code=1, err="No journal files were found.\n")

    _, out, _ = run("logs", "--level", "error")

    assert "now" in out


def test_without_any_log_the_reason_is_told(systemd: Programs, run: Run) -> None:
    code, _, err = run("logs")

    assert code == 1
    assert "there is no log at" in err


def test_following_goes_on_over_a_rotation_and_a_cut(log_file: Path) -> None:
    log_file.write_text("")
    steps = [
        lambda: log_file.write_text(log_line("one") + "\n" + log_line("two")[:20]),
        lambda: log_file.write_text(log_line("one") + "\n" + log_line("two") + "\n"),
        lambda: log_file.rename(log_file.with_name("amend.log.1")),
        lambda: log_file.write_text(log_line("three") + "\n"),
        lambda: log_file.write_text(""),
        lambda: log_file.write_text(log_line("four") + "\n"),
    ]

    class Enough(Exception):
        pass

    def wait(_: float) -> None:
        if not steps:
            raise Enough
        steps.pop(0)()

    seen = []
    with suppress(Enough):
        for line in from_files(log_file, follows=True, last=0, wait=wait):
            assert line.document is not None
            seen.append(line.document["event.name"])

    assert seen == ["one", "two", "three", "four"]


def test_what_others_wrote_acts_on_no_terminal(systemd: Programs, log_file: Path, run: Run) -> None:
    log_file.write_text(log_line("x\x1b[2J", path="\x1b]0;y\x07") + "\n\x1b[31mtext\n")

    _, out, _ = run("logs")

    assert "\x1b" not in out
