"""What a service manager makes of the files: systemd's checks, and a daemon under its filter."""

import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amend.agents.known import AGENTS
from amend.edge.service_activation import API_NAME, hook_name
from amend.edge.service_units import (
    COPIED,
    Setup,
    Whose,
    copied_property_list,
    marked,
    property_list,
    service_unit,
    socket_unit,
    whose,
)
from amend.errors import Refused
from benchmarks.running import ROOT, Daemon
from tests.conftest import Repository
from tests.integration.test_daemon import eventually

SERVICE = ROOT / "systemd/amend.service"
SOCKET = ROOT / "systemd/amend.socket"
PLIST = ROOT / "launchd/dev.amend.daemon.plist"

SOCKETS = {
    API_NAME: "api.sock",
    **{hook_name(agent): f"hooks/{agent}.sock" for agent in AGENTS},
}

# In tenths: what the unit reaches, as systemd 252 counts. What is missing needs a mount or user
# namespace, or capabilities that a user's service manager has not got to take away.
EXPOSURE_MAX = 62

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"
)


def has_seccomp() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return True


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "--no-pager", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_files_that_people_copy_are_those_that_install_writes() -> None:
    assert SERVICE.read_bytes() == service_unit(COPIED)
    assert SOCKET.read_bytes() == socket_unit(COPIED, SOCKETS.values())
    assert PLIST.read_bytes() == copied_property_list(SOCKETS)


@needs_analyze
def test_systemd_has_nothing_to_say_against_the_copied_units(private_home: Path) -> None:
    program = private_home / ".local/bin/amend"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    done = analyzed("verify", str(SERVICE), str(SOCKET))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
@pytest.mark.parametrize("name", ["plain", 'with space, "quotes" and \\', "50% $HOME"])
def test_systemd_reads_installed_units_as_they_are_meant(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    program = directory / "amend"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    setup = Setup((str(program), "run"), "/run/x", {"AMEND_CONFIG": f"{directory}/c"})
    units = tmp_path / "units"
    units.mkdir()
    (units / "amend.service").write_bytes(marked(service_unit(setup)))
    (units / "amend.socket").write_bytes(marked(socket_unit(setup, SOCKETS.values())))

    done = analyzed("verify", str(units / "amend.service"), str(units / "amend.socket"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
def test_the_service_is_no_more_exposed_than_it_was() -> None:
    done = analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(SERVICE))

    assert done.returncode == 0, done.stdout[-200:]


@pytest.mark.skipif(sys.platform != "linux" or not has_seccomp(), reason="no libseccomp here")
@needs_analyze
def test_amend_does_its_work_under_the_units_own_filter(
    tmp_path: Path, git: Callable[..., Repository]
) -> None:
    repo = git("shop", {"a.py": "one\n", ".gitignore": ".agent-cache.json\n"})
    cache = repo.write(".agent-cache.json", '{"topics": {}}')
    daemon = Daemon(tmp_path / "base")
    filtering = ROOT / "tests/integration/system_call_filter.py"
    daemon.command = [sys.executable, str(filtering), str(SERVICE), *daemon.command]

    with daemon:
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        daemon.add(repo.root)
        daemon.put(repo.root, "auth", ["a.py"])
        fresh = daemon.lookup(repo.root, "auth")
        repo.commit("second", {"a.py": "two\n"})
        daemon.sync()
        stale = daemon.lookup(repo.root, "auth")
        eventually(lambda: '"stale"' in cache.read_text())
        errors = [line for line in daemon.log() if line["severity_number"] > 9]

    cause = stale["causes"][0]
    assert "Seccomp:\t2" in status
    assert fresh["verdict"] == "fresh"
    # git was asked who changed it; that the cache file was exchanged has been seen.
    assert (cause["cause"], cause["commit"]["subject"]) == ("committed", "second")
    assert errors == []


# -- launchd ---------------------------------------------------------------------------------------


def test_the_property_list_says_what_launchd_needs_key_by_key() -> None:
    document = plistlib.loads(PLIST.read_bytes())
    sockets = document.pop("Sockets")

    base = "/Users/you/.local/state/amend/run"
    assert document == {
        "Label": "dev.amend.daemon",
        "ProgramArguments": ["/Users/you/.local/bin/amend", "run"],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ProcessType": "Interactive",
        "Umask": 0o022,
        "WorkingDirectory": "/",
    }
    assert {name: each.pop("SockPathName") for name, each in sockets.items()} == {
        "api": f"{base}/api.sock",
        "hooks-claude": f"{base}/hooks/claude.sock",
        "hooks-codex": f"{base}/hooks/codex.sock",
    }
    assert list(sockets.values()) == [{"SockPathMode": 384, "SockType": "stream"}] * 3
    assert b"<integer>384</integer>" in PLIST.read_bytes()


def test_an_installed_property_list_is_xml_that_says_the_same() -> None:
    setup = Setup(("/a b/<amend>", "run"), "/r", {"AMEND_CONFIG": "/c & d"}, 0o077)

    document = plistlib.loads(marked(property_list(setup, SOCKETS)))

    assert document["ProgramArguments"] == ["/a b/<amend>", "run"]
    assert document["EnvironmentVariables"] == {"AMEND_CONFIG": "/c & d"}
    assert document["Umask"] == 63


# -- whose a file is -------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [service_unit(COPIED), property_list(COPIED, SOCKETS)])
def test_a_written_file_is_known_again_until_somebody_changes_it(data: bytes) -> None:
    written = marked(data)

    assert whose(written) is Whose.OURS
    assert whose(written.replace(b"amend", b"amen", 1)) is not Whose.OURS
    assert whose(written + b"\n") is Whose.EDITED
    assert whose(data) is Whose.FOREIGN
    assert whose(b"") is Whose.FOREIGN


def test_what_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(Refused, match="has a character that no unit file can hold"):
        service_unit(Setup(("/a\nExecStartPre=/bin/evil", "run"), "/r", {}))
