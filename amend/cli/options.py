"""Options and arguments that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from amend.cli.asking import absolute, daemon
from amend.errors import AmendError

F = TypeVar("F", bound=Callable[..., Any])

KINDS = click.Choice(["topic", "pattern", "contract", "note"])
VERDICTS = click.Choice(["fresh", "stale", "unknown"])


def _absolute(_: click.Context, __: click.Parameter, value: str) -> str:
    return absolute(value)


def cwd_option(command: F) -> F:
    return click.option(
        "--cwd",
        default=".",
        metavar="DIR",
        callback=_absolute,
        help="Ask as from this directory; the current one otherwise.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print the API's own JSON.")(
        command
    )


def kind_option(command: F) -> F:
    return click.option("--kind", type=KINDS, help="Only entries of this kind.")(command)


def complete_key(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The keys of the repository; nothing where no daemon answers, since nobody waits for TAB."""
    try:
        rows = daemon().get("/v1/entries", cwd=ctx.params.get("cwd") or absolute("."))
        return [row["key"] for row in rows["entries"] if row["key"].startswith(incomplete)]
    except AmendError:
        return []
