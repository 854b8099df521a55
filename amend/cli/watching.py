"""`watch`: verdict changes as they happen, until Ctrl-C."""

import json
import sys
import time
from typing import TYPE_CHECKING, Final, cast

import click

from amend.cli.asking import daemon
from amend.cli.client import Client, NoDaemon, Stream
from amend.cli.options import cwd_option, json_option
from amend.cli.show import change_line

if TYPE_CHECKING:
    from amend.formats.api import ChangeJson

# A daemon that is restarted is back in a second; more often would be noise in its log.
RECONNECT_S: Final = 1.0


@click.command()
@cwd_option
@json_option
def watch(cwd: str, as_json: bool) -> None:
    """Show each verdict change of the repository as it happens, until Ctrl-C."""
    client = daemon()
    stream = client.events(cwd)
    if not as_json:
        click.echo("watching; Ctrl-C ends it", err=True)
    last: str | None = None
    while True:
        with stream:
            try:
                for event in stream:
                    last = event.id or last
                    _print(event.data, as_json)
            except NoDaemon:
                pass  # silent for so long: the next connection tells whether it is there
        stream = _again(client, cwd, last)


def _print(data: str, as_json: bool) -> None:
    change = cast("ChangeJson", json.loads(data))
    line = json.dumps(change) if as_json else change_line(change)
    click.echo(line)
    sys.stdout.flush()


def _again(client: Client, cwd: str, last: str | None) -> Stream:
    """The stream that goes on after `last`, however long the daemon is away."""
    told = False
    while True:
        try:
            return client.events(cwd, last)
        except NoDaemon:
            if not told:
                click.echo("amend: the daemon has gone; waiting for it to come back", err=True)
                told = True
            time.sleep(RECONNECT_S)
