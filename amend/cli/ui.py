"""`ui`: a page for the browser, served on loopback while the command runs."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import click

from amend.cli.asking import daemon


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Listen on this port; on any free one otherwise.",
)
@click.option("--no-browser", is_flag=True, help="Print the link and open nothing.")
def ui(port: int, no_browser: bool) -> None:
    """Show entries, changes and savings live in a browser, until Ctrl-C.

    The page is served on 127.0.0.1 and only reads. Its link works once, for you.
    """
    import asyncio
    import threading

    from amend.cli.ui_guard import Guard
    from amend.cli.ui_server import listen, serve

    client = daemon()
    client.get("/v1/hello")  # without a daemon there is nothing to show; this says how to start it
    with listen(port) as sock:
        guard = Guard(sock.getsockname()[1])

        def started() -> None:
            click.echo(guard.link)
            click.echo("amend: the link works once; Ctrl-C ends the page", err=True)
            if not no_browser:
                # A browser that runs in the terminal holds whoever opens it.
                threading.Thread(target=_open, args=(guard.link,), daemon=True).start()

        asyncio.run(serve(sock, guard, client, started=started))


def _open(link: str) -> None:
    import webbrowser

    if not webbrowser.open(link):
        click.echo("amend: no browser could be opened; open the link yourself", err=True)
