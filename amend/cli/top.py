"""`top`: a live view in the terminal of what is tended, what just changed and what that saved.

A thread asks the daemon and hands what it heard over a queue; the main thread draws and hears the
keyboard. Nothing is told by colour alone. However it ends, the terminal is as it was before.
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import contextlib
import os
import queue
import select
import signal
import socket
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.asking import daemon
from amend.cli.client import Client
from amend.cli.exits import Exit
from amend.errors import AmendError

if TYPE_CHECKING:
    from rich.console import Console

    from amend.formats.api import ActivityAnswer, StatusAnswer

# A person reads no faster, and a daemon answers both questions in some milliseconds.
ASK_EVERY_S: Final = 1.0

# Terminals that say of themselves, or by saying nothing, that they cannot go back to a line.
_CANNOT_REDRAW: Final = ("", "dumb", "unknown")

_NOTE: Final = "this is one picture of now; `amend watch` prints changes line by line"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last heard. `trouble`: why nothing newer was; `at_s`: when, on the wall's clock.
    `restarted`: this is another daemon than the first one."""

    status: "StatusAnswer"
    activity: "ActivityAnswer"
    at_s: float
    trouble: AmendError | None = None
    restarted: bool = False
    hooks_per_s: float = 0.0


@click.command()
@click.option("--once", is_flag=True, help="Print one picture of now and end, also into a pipe.")
def top(once: bool) -> Exit:
    """Show live what is tended, what changed and why, hooks, and tokens saved. q ends it."""
    from rich.console import Console

    client = daemon()
    seen = _ask(client)  # without a daemon there is nothing to show, and this says how to start it
    console = Console(highlight=False)
    reason = None if once else _why_not_live(console)
    if reason is not None:
        click.echo(f"amend: {reason}; {_NOTE}", err=True)
    if once or reason is not None:
        _print_once(console, seen)
    else:
        _Live(console, client, seen).run()
    return Exit.OK


def _why_not_live(console: "Console") -> str | None:
    if not sys.stdout.isatty():
        return "the output is no terminal"
    if not sys.stdin.isatty():
        return "the input is no terminal"
    if os.environ.get("TERM", "") in _CANNOT_REDRAW:
        return f"this terminal cannot be redrawn (TERM={os.environ.get('TERM', '')})"
    return None


def _print_once(console: "Console", seen: Seen) -> None:
    from amend.cli.top_frame import frame

    is_ascii = console.options.ascii_only
    for line in frame(seen, console.width, console.height, has_keys=False, is_ascii=is_ascii):
        console.print(line, soft_wrap=True)


def _ask(client: Client) -> Seen:
    status = client.get("/v1/status")
    return Seen(status, client.get("/v1/activity"), time.time())


def _asked_again(client: Client, before: Seen) -> Seen:
    try:
        seen = _ask(client)
    except AmendError as error:
        return replace(before, trouble=error)
    is_same = _instance(seen) == _instance(before)
    since_s = seen.at_s - before.at_s
    return replace(
        seen,
        restarted=before.restarted or not is_same,
        hooks_per_s=(_hooks(seen) - _hooks(before)) / since_s if is_same and since_s > 0 else 0.0,
    )


def _instance(seen: Seen) -> str:
    return seen.status["clock"].rpartition(":")[0]


def _hooks(seen: Seen) -> int:
    return sum(
        hook["told"] + hook["silent"] + hook["late"] + hook["bugs"]
        for hook in seen.activity["hooks"]
    )


class _Live:
    def __init__(self, console: "Console", client: Client, seen: Seen) -> None:
        self._console = console
        self._client = client
        self._seen = seen
        self._heard: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self._ended = threading.Event()

    def run(self) -> None:
        """Return when somebody wants to leave. Raises `KeyboardInterrupt` for Ctrl-C."""
        from rich.live import Live

        with (
            _woken_by_signals() as (woken, wake),
            _single_keys(),
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            threading.Thread(target=self._go_on_asking, args=(wake,), daemon=True).start()
            try:
                while True:
                    self._draw(live)
                    ready, _, _ = select.select([sys.stdin, woken], [], [])
                    if woken in ready and not _LAST.isdisjoint(woken.recv(4096)):
                        return
                    if sys.stdin in ready and _is_leaving(_typed()):
                        return
                    while not self._heard.empty():
                        self._seen = self._heard.get()
            finally:
                self._ended.set()

    def _draw(self, live: Any) -> None:
        from rich.console import Group

        from amend.cli.top_frame import frame

        # Of the terminal itself: COLUMNS, where something has set it, follows no resize.
        width, height = os.get_terminal_size(sys.stdout.fileno())
        self._console.size = (width, height)
        size, is_ascii = self._console.size, self._console.options.ascii_only
        lines = frame(self._seen, size.width, size.height, is_ascii=is_ascii)
        live.update(Group(*lines), refresh=True)

    def _go_on_asking(self, wake: socket.socket) -> None:
        """In a thread of its own: a daemon that hangs must not hang the keyboard."""
        seen = self._seen
        while not self._ended.wait(ASK_EVERY_S):
            seen = _asked_again(self._client, seen)
            self._heard.put(seen)
            with contextlib.suppress(OSError):  # full of others, or nobody looks any more
                wake.send(_HEARD)


# Comes through the pipe beside the numbers of signals, and is none of them.
_HEARD: Final = b"\xff"

# Signals after which the terminal is put in order and left.
_LAST: Final = frozenset((signal.SIGTERM, signal.SIGHUP))


def _typed() -> bytes:
    try:
        return os.read(sys.stdin.fileno(), 64)
    except OSError:
        return b""


def _is_leaving(keys: bytes) -> bool:
    """By what readers type to leave a full screen; nothing at all: the terminal has gone."""
    return keys in (b"", b"\x1b") or (not keys.startswith(b"\x1b") and b"q" in keys.lower())


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Keys come as they are typed and are not shown. Ctrl-C stays a signal."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # it has gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _woken_by_signals() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends; the first has something to read when the terminal's size changed or all is to
    end. Ctrl-Z does nothing: it would leave the shell on this screen."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    numbers = (signal.SIGWINCH, *_LAST)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    fd_before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    try:
        yield woken, wake
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        woken.close()
        wake.close()
