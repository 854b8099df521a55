"""`config check`: what the configuration says, or everything that is wrong with it."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amend.cli.exits import Exit
from amend.cli.options import json_option
from amend.cli.show import clean, plural, print_json
from amend.edge.service import config_path, home
from amend.errors import ConfigInvalid, NotFound, Unavailable

if TYPE_CHECKING:
    from amend.formats.config import Config


@click.group()
def config() -> None:
    """The configuration file."""


@config.command()
@click.argument("path", required=False, type=click.Path())
@json_option
def check(path: str | None, as_json: bool) -> Exit:
    """Check the configuration at PATH (the one in force otherwise)."""
    file = Path(path) if path is not None else config_path(os.environ)
    try:
        found = _read(file, must_exist=path is not None)
    except ConfigInvalid as error:
        if not as_json:
            raise
        _print(file, {"ok": False, "problems": error.message.splitlines(), "config": None})
        return Exit.ERROR
    if found is None:
        if as_json:
            _print(file, {"ok": True, "problems": [], "config": None})
        else:
            click.echo(f"{clean(str(file))} does not exist; the defaults are in force")
        return Exit.OK
    problems = [
        f"repo[{index}].root {repo.root}: there is no such directory"
        for index, repo in enumerate(found.repo)
        if not os.path.isdir(repo.root)
    ]
    if as_json:
        _print(file, {"ok": True, "problems": problems, "config": found.model_dump(mode="json")})
        return Exit.OK
    count = len(found.repo)
    click.echo(f"{clean(str(file))} is good: {plural(count, 'repository')}")
    for problem in problems:
        click.echo(f"amend: warning: {clean(problem)}", err=True)
    return Exit.OK


def _read(file: Path, must_exist: bool) -> "Config | None":
    from amend.formats.config import CONFIG_BYTES_MAX, parse

    try:
        with file.open("rb") as stream:
            data = stream.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        if must_exist:
            raise NotFound(f"{file} does not exist", hint="check the path") from None
        return None
    except OSError as error:
        raise Unavailable(f"{file}: {error.strerror}", hint="it must be readable") from error
    return parse(data, str(file), str(home(os.environ)))


def _print(file: Path, said: dict[str, Any]) -> None:
    print_json({"path": str(file), **said})
