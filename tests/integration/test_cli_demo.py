"""The demo itself, on a real daemon: what the README shows has to be true."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from amend.cli import demo_stage
from amend.cli.demo import STEPS
from amend.cli.demo_stage import StepFailed, _environment, _generate, run_git

# It takes 3 s alone and more than ten on two busy cores.
DEMO_S = 100


def test_every_step_of_the_demo_holds_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="amend-", dir="/tmp") as place:
        done = subprocess.run(
            [sys.executable, "-m", "amend.cli.main", "demo", "--json"],
            env=os.environ | {"TMPDIR": place},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEMO_S,
            check=False,
        )
        left = os.listdir(place)

    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["held"]) == len(STEPS)
    assert left == []


def test_outside_a_checkout_a_small_repository_is_made(tmp_path: Path) -> None:
    env = _environment(tmp_path)

    ground = _generate(tmp_path, env)

    assert all((ground.root / file).is_file() for file in ground.files)
    assert run_git(ground.root, env, "status", "--porcelain") == ""
    assert run_git(ground.root, env, "branch", "--show-current") == "demo"


def test_a_daemon_that_does_not_start_fails_the_demo_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = _environment(tmp_path) | {"AMEND_CONFIG": str(tmp_path / "bad.toml")}
    (tmp_path / "bad.toml").write_text("colour = 1\n")

    with (
        pytest.raises(StepFailed, match=r"it ended with 78\n(.|\n)*colour is 1"),
        demo_stage._daemon(tmp_path, env),
    ):
        pass


def test_the_demos_environment_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/somewhere")
    monkeypatch.setenv("AMEND_DEBUG", "1")

    env = _environment(tmp_path)

    assert "GIT_DIR" not in env
    assert "XDG_STATE_HOME" not in env
    places = [env[name] for name in env if name.startswith("AMEND_") or name == "HOME"]
    assert all(place.startswith(str(tmp_path)) for place in places)
