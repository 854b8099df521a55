"""Where an answer comes from: the daemon, or the files themselves when no daemon answers.

`ask` is for the questions that can be answered either way, `daemon` for what needs a daemon.
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amend.cli.client import Client
from amend.edge.service import socket_path
from amend.errors import NotFound, RequestInvalid, Unavailable

if TYPE_CHECKING:
    from amend.formats.api import Backend

T = TypeVar("T")


def daemon() -> Client:
    return Client(socket_path(os.environ))


def ask(
    cwd: str,
    online: Callable[[Client], T],
    offline: Callable[["Backend"], Awaitable[Any]],
    *,
    did: str = "read and verified the files directly",
) -> T:
    """The daemon's answer, or the same from the files; stderr tells that, and what that `did`."""
    try:
        return online(daemon())
    except Unavailable as error:
        reason = error
    answer: T = _offline(cwd, offline)
    click.echo(f"amend: no daemon answers; {did}", err=True)
    if os.environ.get("AMEND_DEBUG") == "1":
        click.echo(f"amend: {reason.message}", err=True)
    return answer


def _offline(cwd: str, question: Callable[["Backend"], Awaitable[Any]]) -> Any:
    import asyncio

    from pydantic import ValidationError

    from amend.daemon.offline import open_offline

    async def answered() -> Any:
        # Only then does any signal wake the loop: a Ctrl-C that comes just before it falls asleep
        # would be heard when something else wakes it, which may be never.
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)
        async with open_offline(Path(cwd), os.environ) as backend:
            return await question(backend)

    try:
        return asyncio.run(answered())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "/".join(str(part) for part in first["loc"])
        raise RequestInvalid(f"{field}: {first['msg']}", hint="check what you typed") from None


def absolute(path: str) -> str:
    """The path from the root. Raises `NotFound` where the current directory has been deleted."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise NotFound(
            "the current directory does not exist any more", hint="cd to one that does"
        ) from None
