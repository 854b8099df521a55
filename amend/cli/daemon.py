"""`run`: the daemon in the foreground."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os

import click

from amend.edge.service import scrub_environment


@click.command()
def run() -> None:
    """Run the daemon until it is told to stop (Ctrl-C, SIGTERM).

    SIGHUP makes it read its configuration again, which it also does when the file changes.
    """
    scrub_environment()  # before anything is imported that reads it
    from amend.daemon.run import run_daemon

    run_daemon(os.environ)
