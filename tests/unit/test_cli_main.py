"""The one boundary: how each kind of ending looks, and what starting costs."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from amend.cli import main as boundary
from amend.cli.exits import Exit, exit_of, worst
from amend.cli.main import COMMANDS, cli, main
from amend.daemon import run as daemon_run
from amend.errors import NotFound

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """`amend status` raises what is in the list."""
    raised: list[BaseException] = []

    @click.command()
    def status() -> None:
        raise raised[0]

    monkeypatch.setattr(boundary.Commands, "get_command", lambda *_: status)
    return raised


def test_an_expected_error_is_two_lines_and_exit_1(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(NotFound("there is no entry 'x\x1b[2J'", hint="`amend ls`"))

    code = main(["status"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err == "amend: error: there is no entry 'x[2J'\namend: hint: `amend ls`\n"


def test_every_line_of_an_error_is_marked_as_one(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(NotFound("one\ntwo"))

    main(["status"])

    assert capsys.readouterr().err == "amend: error: one\namend: error: two\n"


def test_a_bug_gives_a_report_without_private_things_and_exit_70(
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["amend", "status", "--cwd", "/secret/place"])
    failing.append(KeyError("secret summary"))

    code = main(["status"])

    err = capsys.readouterr().err
    assert code == 70
    assert "please report" in err
    assert "KeyError" in err
    assert "command: status" in err
    assert "secret" not in err
    assert "Traceback" not in err


def test_amend_debug_adds_the_traceback(
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AMEND_DEBUG", "1")
    failing.append(KeyError("lost"))

    assert main(["status"]) == 70

    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_130_and_silent(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyboardInterrupt())

    assert main(["status"]) == 130

    assert capsys.readouterr().err.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stauts"], "there is no command 'stauts'; did you mean status?"),
        (["get"], "missing argument 'KEY'"),
        (["get", "--knid", "x"], "no such option"),
        (["ls", "--verdict", "frsh"], "'frsh' is not one of"),
    ],
)
def test_a_wrong_command_line_is_2_with_a_hint(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    err = capsys.readouterr().err
    assert code == 2
    assert err.startswith("amend: error: ")
    assert said in err
    assert "amend: hint: `amend" in err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0

    assert f"Usage: amend {name}" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    assert "_AMEND_COMPLETE" in capsys.readouterr().out


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"amend {boundary.version()}\n"


def test_run_carries_nothing_on_of_the_git_hook_it_was_started_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[dict[str, str]] = []

    def run_daemon(env: Mapping[str, str]) -> None:
        ran.append(dict(env))

    monkeypatch.setattr(daemon_run, "run_daemon", run_daemon)
    monkeypatch.setenv("GIT_DIR", "/nonexistent/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")

    assert main(["run"]) == 0

    assert [name for name in (*ran[0], *os.environ) if name.startswith("GIT_")] == []


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], Exit.OK),
        (["fresh", "fresh"], Exit.OK),
        (["fresh", "stale", "unknown", "missing"], Exit.STALE),
        (["fresh", "unknown", "missing"], Exit.UNKNOWN),
        (["fresh", "missing"], Exit.MISSING),
        (["fresh", "something-new"], Exit.UNKNOWN),
    ],
)
def test_verify_exits_with_the_worst(verdicts: list[str], code: Exit) -> None:
    assert worst(verdicts) is code


def test_get_exits_as_the_issue_says() -> None:
    codes = [exit_of(verdict) for verdict in ("fresh", "stale", "missing", "unknown")]

    assert codes == [0, 3, 4, 5]


def test_the_readmes_table_of_exit_codes_is_complete() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| ")]

    listed = {cells[1].strip() for row in rows if (cells := row.split("|"))[1].strip().isdigit()}

    assert listed == {str(int(code)) for code in Exit}


def test_the_readme_lists_every_command() -> None:
    text = README.read_text()

    assert [name for name in COMMANDS if f"`amend {name}" not in text] == []


def test_the_group_is_complete() -> None:
    context = click.Context(cli)

    assert all(cli.get_command(context, name) is not None for name in COMMANDS)
