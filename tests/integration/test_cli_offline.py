"""Without a daemon: what can be answered from the files is, and the rest says what to do."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from amend.cli.main import main
from amend.edge.store import Store
from tests.conftest import Repository

NOTE = "amend: no daemon answers; read and verified the files directly\n"


@pytest.fixture
def repository(git: Callable[..., Repository], monkeypatch: pytest.MonkeyPatch) -> Repository:
    # Within one second nothing tells whether the entry or the commit came first.
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    made = git("shop", {"src/auth.ts": "one\n", ".gitignore": ".agent-cache.json\n"})
    cache = {
        "_meta": {"maxAgeDays": 100000},
        "topics": {
            "auth": {
                "ts": datetime.now(UTC).isoformat(),
                "summary": "login is in src/auth.ts",
                "files": ["src/auth.ts"],
            }
        },
        "patterns": {},
    }
    made.write(".agent-cache.json", json.dumps(cache))
    monkeypatch.chdir(made.root)
    return made


def test_get_verifies_the_files_and_says_so(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["get", "auth"])

    out, err = capsys.readouterr()
    assert (code, err) == (0, NOTE)
    assert "login is in src/auth.ts" in out


def test_a_cited_file_that_is_gone_is_stale_without_a_daemon_too(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.root / "src/auth.ts").unlink()

    codes = [main(["get", "auth"]), main(["verify"])]

    out, err = capsys.readouterr()
    assert codes == [3, 3]
    assert "src/auth.ts: deleted" in out or "did not exist" in out
    assert err == NOTE * 2


def test_a_missing_key_is_missing(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["get", "auht"])

    assert code == 4
    assert "near: auth" in capsys.readouterr().out


def test_ls_and_json_work_from_a_subdirectory(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["ls", "--json", "--cwd", "src"])

    out, _ = capsys.readouterr()
    assert code == 0
    assert [row["key"] for row in json.loads(out)["entries"]] == ["auth"]


def test_a_key_that_cannot_be_one_is_told_not_crashed(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["get", "x" * 300])

    assert code == 1
    assert "amend: error: key: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["put", "k", "--summary", "s", "src/auth.ts"],
        ["rm", "auth"],
        ["add"],
        ["remove"],
        ["status"],
        ["watch"],
    ],
)
def test_what_needs_a_daemon_says_how_to_start_it(
    repository: Repository, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("amend: error: no daemon answers at ")
    assert err.endswith("amend: hint: start it with `amend run`\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["get", "auth"], 0),
        (["get", "x" * 300], 1),
        (["verify", "--cwd", "nowhere"], 1),
        (["ls", "--cwd", "/"], 1),
    ],
)
def test_the_copy_of_the_store_is_closed_whatever_the_answer(
    repository: Repository,
    arguments: list[str],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[Store] = []
    scratch_copy = Store.scratch_copy

    def remembered(path: str) -> Store:
        opened.append(scratch_copy(path))
        return opened[-1]

    monkeypatch.setattr(Store, "scratch_copy", remembered)

    code = main(arguments)

    assert (code, len(opened)) == (expected, 1)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].repos()


# git's answer never comes.
HANGING_GIT = """
import sys, threading
from amend.cli.main import main
from amend.daemon import worktree

def hang(*_):
    print("asked", flush=True)
    threading.Event().wait()

worktree.is_tracked = hang
sys.exit(main(["get", "auth"]))
"""


def test_a_ctrl_c_does_not_wait_for_what_hangs(repository: Repository) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HANGING_GIT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=repository.root,
        env=os.environ,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"asked\n"

            process.send_signal(signal.SIGINT)

            assert process.wait(20) == 130
        finally:
            process.kill()
