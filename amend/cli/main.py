"""`amend`: the command line, and the one boundary where its errors end.

Commands are imported when they are called, so that `amend get` does not pay for what `amend run`
needs. Expected errors are told in two lines and end with 1, Ctrl-C with 130, amend's own mistakes
with 70 and a report that can be pasted (a traceback as well when AMEND_DEBUG=1).
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from amend.cli.exits import Exit
from amend.errors import AmendError

if TYPE_CHECKING:
    import traceback

# In the order of a newcomer's use, which is the order of --help.
COMMANDS: Final = {
    "run": "amend.cli.daemon:run",
    "init": "amend.cli.init:init",
    "add": "amend.cli.repositories:add",
    "remove": "amend.cli.repositories:remove",
    "status": "amend.cli.repositories:status",
    "ls": "amend.cli.entries:ls",
    "get": "amend.cli.entries:get",
    "ask": "amend.cli.ask:ask",
    "put": "amend.cli.entries:put",
    "rm": "amend.cli.entries:rm",
    "verify": "amend.cli.entries:verify",
    "contract": "amend.cli.contract:contract",
    "memory": "amend.cli.memory:memory",
    "hooks": "amend.cli.hooks:hooks",
    "watch": "amend.cli.watching:watch",
    "top": "amend.cli.top:top",
    "ui": "amend.cli.ui:ui",
    "service": "amend.cli.service:service",
    "config": "amend.cli.settings:config",
    "demo": "amend.cli.demo:demo",
    "completion": "amend.cli.completion:completion",
    "manual": "amend.cli.manual:manual",
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}{meant}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"amend {version()}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Agent memory that is worth trusting: findings go stale the moment a cited file changes."""


def version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("amend-daemon")
    except PackageNotFoundError:
        return "0+unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; everything has been printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name that is no UTF-8, or a terminal that is not: shown escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="amend",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except click.ClickException as error:
        return told(_usage_text(error), _usage_hint(error), Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Python would flush at its end and complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR  # as click has it where it notices first
    except AmendError as error:
        return told(error.message, error.hint, Exit.ERROR)
    except Exception as error:
        _report_bug(error)
        return Exit.BUG
    return code if isinstance(code, int) else Exit.OK


def told(message: str, hint: str, code: Exit) -> Exit:
    """`code`, once an expected error has been printed."""
    from amend.cli.show import clean

    for line in message.splitlines():
        click.echo(f"amend: error: {clean(line)}", err=True)
    if hint:
        click.echo(f"amend: hint: {clean(hint)}", err=True)
    return code


def _usage_text(error: click.ClickException) -> str:
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "amend"
    return f"`{path} --help` says how"


def _report_bug(error: Exception) -> None:
    """What a report needs and nothing private: no arguments, no summaries, no paths but ours."""
    import platform
    import traceback

    if os.environ.get("AMEND_DEBUG") == "1":
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    # AMEND_DEBUG is for whoever sits there; a pasted report shows where, not what.
    places = [_place(frame) for frame in frames if f"{os.sep}amend{os.sep}" in frame.filename]
    lines = [
        "amend: error: amend made a mistake; this is not your fault",
        "amend: hint: please report these lines (AMEND_DEBUG=1 shows more):",
        f"  amend {version()}, python {platform.python_version()}, {platform.platform()}",
        f"  command: {next((word for word in sys.argv[1:] if word in COMMANDS), 'none')}",
        f"  {type(error).__name__} at {' > '.join(places[-4:]) or 'an unknown place'}",
    ]
    click.echo("\n".join(lines), err=True)


def _place(frame: "traceback.FrameSummary") -> str:
    path = frame.filename.rpartition(f"{os.sep}amend{os.sep}")[2]
    return f"amend/{path}:{frame.lineno} in {frame.name}"


if __name__ == "__main__":
    sys.exit(main())
