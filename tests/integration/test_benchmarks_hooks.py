"""What a hook costs is measured for every client that there is; what is found is not judged here.

The daemon answers without looking: a tiny run on a busy machine says nothing about it anyway.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import hooks, run
from benchmarks.hooks import Asked, floor, run_ms
from benchmarks.running import Daemon
from benchmarks.sizes import TINY

DENYING = """
import os
from amend.daemon.run import run_daemon

async def exchange(agent, body):
    return b'{"permissionDecision":"deny"}'

run_daemon(os.environ, exchange)
"""

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


class Denying(Daemon):
    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.command = [sys.executable, "-c", DENYING]


@needs_cc
def test_every_client_is_measured_against_its_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "Daemon", Denying)
    figures = tmp_path / "figures.json"

    run.main(["--json", str(figures), "--only", "hooks"], TINY)

    rows = [row for row in json.loads(figures.read_text())["rows"] if row["measured"] is not None]
    assert all(row["group"] == "hooks" and row["measured"] > 0 < row["floor"] for row in rows)
    clients = [name for name in ("nc", "curl", "python3") if shutil.which(name)]
    for client in clients:
        assert any(client in row["what"] for row in rows), client
    assert sum("no daemon" in row["what"] for row in rows) == len(clients)


def test_what_was_not_measured_says_why() -> None:
    rows = hooks._rows("hook", {"c amend": 1.0, "c": 0.5, "python amend": 9.0, "python": 8.0}, "")

    skipped = [(row.what, row.note) for row in rows if row.measured is None]
    assert skipped == [("hook, nc", "there is no nc"), ("hook, curl", "there is no curl")]


@needs_cc
def test_the_c_client_and_the_c_server_carry_a_reply(tmp_path: Path) -> None:
    question = tmp_path / "question"
    question.write_bytes(b'{"a":1}')
    with floor(tmp_path, b'{"b":2}') as (program, path, _):
        script = f"{program} ask {path} > {tmp_path}/told"

        took_ms = run_ms(Asked(["sh", "-c", script], iter([question])))

    assert took_ms > 0
    assert (tmp_path / "told").read_bytes() == b'{"b":2}'


def test_a_client_that_fails_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="ended with"):
        run_ms(Asked(["sh", "-c", "exit 3"]))


def test_a_hook_that_speaks_without_a_daemon_is_no_figure(tmp_path: Path) -> None:
    question = tmp_path / "question"
    question.write_bytes(b"{}")

    for script in ("echo no", "echo no >&2", "exit 1"):
        with pytest.raises(RuntimeError, match="not silent"):
            hooks._check_silent(["sh", "-c", script], question)
