"""What is in the packages, what installs them, and what they can print about themselves."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from amend.cli.exits import Exit
from amend.cli.main import COMMANDS, cli
from amend.cli.manual import EXIT_CODES, as_roff, as_text, pages
from benchmarks.running import Daemon
from tests.integration.wheels import ROOT, build, checkout

# What is no Python and is used all the same.
DATA: Final = (".json", ".html", ".css", ".js", ".md", ".sh", ".toml", ".svg", ".typed")

INSTALL_S: Final = 300


# -- what is in them -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return build(source, "wheel")


def in_package(suffix: str) -> set[str]:
    """As the wheel should have them."""
    found = (ROOT / "amend").rglob(f"*{suffix}")
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_has_every_module_and_every_file_that_they_use(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())

    package = {name for name in names if name.startswith("amend/")}
    data = set().union(*map(in_package, DATA))
    assert in_package(".py") <= package
    assert data <= package
    assert {Path(name).suffix for name in package} <= {".py", *DATA}
    assert any(name.startswith("amend/plugin/") for name in data)
    assert any(name.startswith("amend/ui/") for name in data)
    assert {name.partition("/")[0] for name in names - package} == {
        f"{wheel.name.rpartition('-py3')[0]}.dist-info"
    }


def test_the_sdist_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(source, "sdist")) as opened:
        opened.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    again = build(unpacked, "wheel")

    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {each: first.read(each) for each in first.namelist()} == {
            each: second.read(each) for each in second.namelist()
        }
    shipped = {path.name for path in unpacked.iterdir()}
    assert {"README.md", "LICENSE", "config.example.toml", "systemd", "launchd"} <= shipped


# -- installed -------------------------------------------------------------------------------------


def run(*words: str | Path, **env: str) -> str:
    done = subprocess.run(
        words,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def works(amend: Path, base: Path) -> None:
    """The command and the daemon that were installed there; nothing of this checkout is near."""
    daemon = Daemon(base)
    del daemon.env["PYTHONPATH"]
    daemon.command = [str(amend), "run"]
    project = base / "project"
    project.mkdir()
    (project / "a.py").write_text("one\n")
    with daemon:
        daemon.add(project)
        daemon.put(project, "auth", ["a.py"])
        words = [str(amend), "get", "auth", "--json", "--cwd", str(project)]
        got = subprocess.run(words, env=daemon.env, capture_output=True, check=True)
        version = daemon.get("/v1/hello")["version"]

    assert json.loads(got.stdout)["verdict"] == "fresh"
    assert run(amend, "--version") == f"amend {version}\n"
    told = run(amend, "init", "--plugin", project).split("--plugin-dir ")[1]
    assert (Path(told.splitlines()[0]) / ".claude-plugin/plugin.json").is_file()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_into_an_empty_environment_with_what_it_needs(
    source: Path, tmp_path: Path, kind: str
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"

    run(python, "-m", "pip", "install", "--quiet", build(source, kind))

    works(tmp_path / "venv/bin/amend", tmp_path / "base")
    assert "No broken requirements" in run(python, "-m", "pip", "check")


@pytest.mark.soak
@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_it_installs_from_the_checkout_as_the_readme_says(
    source: Path, tmp_path: Path, tool: str
) -> None:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed here")
    home = tmp_path / "tools"
    words = {"pipx": ("install",), "uv": ("tool", "install", "--python", sys.executable)}[tool]

    run(
        found,
        *words,
        str(source),
        PIPX_HOME=str(home),
        PIPX_BIN_DIR=str(home / "bin"),
        UV_TOOL_DIR=str(home),
        UV_TOOL_BIN_DIR=str(home / "bin"),
    )

    works(home / "bin/amend", tmp_path / "base")


# -- completion ------------------------------------------------------------------------------------

# How each shell asks: what is on the line, and which word is to be completed.
ASKED: Final = {
    "bash": {"COMP_WORDS": "amend ", "COMP_CWORD": "1"},
    "zsh": {"COMP_WORDS": "amend ", "COMP_CWORD": "1"},
    "fish": {"COMP_WORDS": "amend ", "COMP_CWORD": ""},
}


@pytest.mark.parametrize("shell", ASKED)
def test_each_shell_is_told_every_command(shell: str) -> None:
    env = {"_AMEND_COMPLETE": f"{shell}_complete", **ASKED[shell]}

    told = CliRunner(env=env).invoke(cli, prog_name="amend").output

    words = told.replace(",", "\n").replace("\t", "\n").splitlines()
    assert [name for name in COMMANDS if name not in words] == []


SHELLS: Final = {
    "bash": 'eval "$(cat "$1")"; COMP_WORDS=(amend ""); COMP_CWORD=1; _amend_completion amend; '
    'printf "%s\\n" "${COMPREPLY[@]}"',
    "fish": 'source $argv[1]; complete -C "amend "',
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_completes_every_command(shell: str, tmp_path: Path) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here")
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(cli, ["completion", shell]).output)
    amend = tmp_path / "amend"
    amend.write_text(f'#!/bin/sh\nexec {sys.executable} -m amend.cli.main "$@"\n')
    amend.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    told = run(found, "-c", SHELLS[shell], shell, script, PATH=path, PYTHONPATH=str(ROOT))

    words = told.replace("\t", "\n").splitlines()
    assert [name for name in COMMANDS if name not in words] == []


def test_zsh_takes_the_script(tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed here")
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(cli, ["completion", "zsh"]).output)

    run(zsh, "-f", "-n", script)  # reads it all and runs none of it


# -- the manual ------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, found here by another way than the manual's own."""
    left: list[tuple[str, click.Command]] = [("amend", cli)]
    while left:
        path, command = left.pop()
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                left.append((f"{path} {name}", found))


def rendered(roff: str, tmp_path: Path) -> tuple[str, str]:
    """What a person reads, and what the formatter has to say about it."""
    man = shutil.which("man")
    if man is None:
        pytest.skip("man is not installed here")
    page = tmp_path / "amend.1"
    page.write_text(roff)
    done = subprocess.run(
        [man, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(page)],
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "GROFF_NO_SGR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    text = done.stdout
    while (at := text.find("\b")) >= 0:  # bold and underlined, as a printer made them
        text = text[: at - 1] + text[at + 1 :]
    return text, done.stderr


@functools.cache
def manual_text() -> str:
    return as_text()


def test_the_manual_has_every_command_and_option_and_so_has_the_man_page() -> None:
    roff = as_roff()

    for path, command in commands():
        assert path in manual_text()
        assert f"\\fB{path}" in roff or f".SS {path}".replace("-", "\\-") in roff or path == "amend"
        for parameter in command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert option in manual_text()
                assert option.replace("-", "\\-") in roff


def test_no_command_is_told_twice() -> None:
    paths = [page.path for page in pages()]

    assert sorted(paths) == sorted(path for path, _ in commands())


def test_every_exit_code_is_explained() -> None:
    assert set(EXIT_CODES) == set(Exit)


def test_man_renders_the_page_without_a_warning(tmp_path: Path) -> None:
    text, warnings = rendered(as_roff(), tmp_path)

    assert warnings == ""
    words = " ".join(text.split())
    assert "amend - the freshness daemon for agent memory" in words
    for page in pages():
        assert page.path in words
    assert "~/.config/amend/config.toml" in words
    assert max(map(len, text.splitlines())) <= 80


def test_what_a_docstring_has_by_lines_stays_so(tmp_path: Path) -> None:
    lines = [
        "mkdir -p ~/.local/share/man/man1",
        "amend manual --man > ~/.local/share/man/man1/amend.1",
    ]

    text, _ = rendered(as_roff(), tmp_path)

    for shown in (manual_text(), text):
        stripped = [line.strip() for line in shown.splitlines()]
        at = stripped.index(lines[0])
        assert stripped[at : at + 2] == lines


def test_manual_prints_either() -> None:
    plain = CliRunner().invoke(cli, ["manual"], prog_name="amend")
    man = CliRunner().invoke(cli, ["manual", "--man"], prog_name="amend")

    assert plain.output.strip() == manual_text().strip()
    assert man.output == as_roff()
