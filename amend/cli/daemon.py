"""`run`: the daemon in the foreground."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os

import click

from amend.cli.exits import Exit
from amend.edge.service import scrub_environment
from amend.errors import ConfigInvalid


@click.command()
def run() -> Exit:
    """Run the daemon until it is told to stop (Ctrl-C, SIGTERM).

    SIGHUP makes it read its configuration again, which it also does when the file changes.
    """
    scrub_environment()  # before anything is imported that reads it
    from amend.daemon.run import run_daemon

    try:
        run_daemon(os.environ)
    except ConfigInvalid as error:
        from amend.cli.main import told

        return told(error.message, error.hint, Exit.CONFIG)
    return Exit.OK
