"""`service`: amend started at login, by systemd or launchd, and what became of that.

What it writes it knows again by a mark; a file that somebody has changed, or made, is left alone.
Where the service manager cannot be asked (a container, no login session), the files are written and
the commands are shown.
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.exits import Exit
from amend.cli.show import clean, print_json
from amend.errors import AmendError, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from amend.edge.service_control import Facts, Manager
    from amend.edge.service_logs import Line

# One screen or a few; whoever wants more says since when.
LOG_LINES: Final = 200

# What every line carries, and a person need not read on each.
_EVERYWHERE: Final = ("timestamp", "severity_", "event.name", "service.", "process.pid")

_COLOURS: Final = {"WARNING": "yellow", "ERROR": "red", "DEBUG": "bright_black"}


@click.group()
def service() -> None:
    """amend as a service of yours: started at login, restarted when it fails."""


def is_macs() -> bool:
    return sys.platform == "darwin"


@service.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def install(*, as_json: bool) -> None:
    """Start amend at each login from now on, and now. Again: bring what was written up to date."""
    from amend.edge.service import prepare_private_dir, runtime_dir

    manager = _manager()
    wanted = _wanted()
    _refuse_changed(wanted)
    runtime = runtime_dir(os.environ)
    for directory in (runtime, runtime / "hooks"):  # launchd makes none
        prepare_private_dir(directory, is_amends=directory != runtime)
    written = [path for path, data in wanted.items() if _write(path, data)]
    stranger = _running_by_hand(manager.facts())
    why_not = manager.why_not()
    if why_not is None:
        manager.enable(list(wanted), starts=stranger is None)
    notes = _install_notes(manager, list(wanted), why_not, stranger)
    if as_json:
        print_json(
            {
                "manager": manager.name,
                "files": list(wanted),
                "written": written,
                "started": why_not is None and stranger is None,
                "notes": notes,
            }
        )
        return
    for path in wanted:
        click.echo(clean(f"{'wrote' if path in written else 'unchanged:'} {path}"))
    if why_not is None and stranger is None:
        click.echo(f"amend runs, and {manager.name} starts it at each login")
    for note in notes:
        click.echo(clean(note))


@service.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def uninstall(*, as_json: bool) -> None:
    """Stop amend, start it at no login, and remove what `install` wrote; nothing else."""
    manager = _manager()
    wanted = _wanted()
    ours, kept = _sorted_out(wanted)
    why_not = manager.why_not()
    if ours and why_not is None:
        manager.disable()
    for path in ours:
        _write(path, None)
    if ours and why_not is None:
        manager.forget()
    notes = [f"{path} stays: it is {why}" for path, why in kept.items()]
    if ours and why_not is not None:
        notes.append(f"{manager.name} was not told ({why_not})")
    if as_json:
        print_json({"manager": manager.name, "removed": ours, "notes": notes})
        return
    for path in ours:
        click.echo(clean(f"removed {path}"))
    if not ours:
        click.echo("nothing is installed")
    for note in notes:
        click.echo(clean(note))


@service.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def status(*, as_json: bool) -> int:
    """Whether the service is installed, runs and answers; 1 where it does not."""
    from amend.edge.service_control import State

    manager = _manager()
    files = {path: _whose(path) for path in _wanted()}
    facts = manager.facts()
    hello = _hello()
    answers = hello is not None and (facts.pid is None or hello["pid"] == facts.pid)
    is_well = facts.state is State.RUNNING and answers and "missing" not in files.values()
    if as_json:
        print_json(
            {
                "manager": manager.name,
                "files": [{"path": path, "state": state} for path, state in files.items()],
                "state": facts.state.name.lower(),
                "status": facts.status,
                "pid": facts.pid,
                "listens": facts.listens,
                "at_login": facts.at_login,
                "restarts": facts.restarts,
                "memory_bytes": facts.memory_bytes,
                "answering_pid": hello["pid"] if hello is not None else None,
                "ok": is_well,
            }
        )
    else:
        for line in _status_lines(manager, files, facts, hello):
            click.echo(clean(line))
    return Exit.OK if is_well else Exit.ERROR


def _status_lines(
    manager: "Manager", files: dict[str, str], facts: "Facts", hello: dict[str, Any] | None
) -> Iterator[str]:
    yield f"{manager.name}: {facts.state.value}{f' ({facts.status})' if facts.status else ''}"
    for path, state in files.items():
        yield f"  {state}: {path}"
    if facts.pid is not None:
        memory = facts.memory_bytes
        size = f", {memory / (1 << 20):.0f} MiB" if memory is not None else ""
        yield f"  process {facts.pid}{size}, restarted {facts.restarts} times"
    yield f"  its sockets are {'' if facts.listens else 'not '}held by {manager.name}"
    yield f"  {'starts' if facts.at_login else 'does not start'} at login"
    if hello is None:
        yield "  no daemon answers"
    elif facts.pid is None or hello["pid"] == facts.pid:
        yield f"  answers, version {hello['version']}"
    else:
        yield f"  another daemon answers, process {hello['pid']}: end it, or the service cannot run"


@service.command()
def restart() -> None:
    """Start amend anew; questions that come meanwhile wait. Forgets that it failed before."""
    manager = _manager()
    if all(_whose(path) == "missing" for path in _wanted()):
        raise NotFound("no service is installed", hint="`amend service install` does that")
    why_not = manager.why_not()
    if why_not is not None:
        raise Unavailable(
            f"{manager.name} cannot be asked: {why_not}", hint="run this in a login session"
        )
    manager.restart()
    facts = manager.facts()
    click.echo(clean(f"amend runs anew{f', process {facts.pid}' if facts.pid else ''}"))


# -- files ---------------------------------------------------------------------------------------


def _manager() -> "Manager":
    from amend.edge.service_control import Launchd, Systemd
    from amend.edge.service_units import LABEL, SERVICE, SOCKET

    return Launchd(LABEL) if is_macs() else Systemd(SERVICE, SOCKET)


def _wanted() -> dict[str, bytes]:
    """What is to be in which file, for the environment of this shell."""
    from amend.agents.known import AGENTS
    from amend.edge.service import config_path, home, hook_socket_path, runtime_dir, state_dir
    from amend.edge.service_activation import API_NAME, hook_name
    from amend.edge.service_units import (
        PLIST,
        SERVICE,
        SOCKET,
        marked,
        property_list,
        service_unit,
        setup_of,
        socket_unit,
    )

    def places(env: dict[str, str]) -> dict[str, str]:
        return {
            "AMEND_RUNTIME_DIR": str(runtime_dir(env)),
            "AMEND_STATE_DIR": str(state_dir(env)),
            "AMEND_CONFIG": str(config_path(env)),
        }

    env = dict(os.environ)
    bare = {"HOME": str(home(env))}
    if not is_macs():
        # What systemd gives its services, also where a shell (`su`, `sudo`) was told of none.
        bare["XDG_RUNTIME_DIR"] = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    setup = setup_of(env, places(env), places(bare))
    runtime = Path(setup.runtime)
    hooks = {
        hook_name(agent): str(hook_socket_path(runtime, agent).relative_to(runtime))
        for agent in AGENTS
    }
    sockets = {API_NAME: "api.sock", **hooks}
    if is_macs():
        agents = home(env) / "Library/LaunchAgents"
        return {str(agents / PLIST): marked(property_list(setup, sockets))}
    config = env.get("XDG_CONFIG_HOME", "")
    units = (Path(config) if config.startswith("/") else home(env) / ".config") / "systemd/user"
    return {
        str(units / SOCKET): marked(socket_unit(setup, sockets.values())),
        str(units / SERVICE): marked(service_unit(setup)),
    }


def _whose(path: str) -> str:
    """installed, edited, not amend's, or missing."""
    from amend.cli.hooks_files import read, users_place
    from amend.edge.service_units import whose

    data = read(users_place(path))
    return "missing" if data is None else whose(data).value


def _sorted_out(paths: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Those that `install` wrote and nobody changed, and why the others stay."""
    states = {path: _whose(path) for path in paths}
    ours = [path for path, state in states.items() if state == "installed"]
    kept = {
        path: "changed since it was installed" if state == "edited" else state
        for path, state in states.items()
        if state not in ("installed", "missing")
    }
    return ours, kept


def _refuse_changed(paths: Iterable[str]) -> None:
    for path, why in _sorted_out(paths)[1].items():
        raise Refused(
            f"{path} is {why}; nothing was written",
            hint="move it away first; changes of your own go into `systemctl --user edit amend`",
        )


def _write(path: str, data: bytes | None) -> bool:
    """Whether anything had to be done. None: the file goes, if it is still as it was written."""
    from amend.cli.hooks_files import rewrite, users_place
    from amend.edge.service_units import Whose, whose

    def plan(present: bytes | None) -> bytes | None:
        if present is not None and whose(present) is not Whose.OURS:
            return present  # somebody changed it at this moment
        return data

    return rewrite(users_place(path), plan, keeps=False)


# -- who answers ---------------------------------------------------------------------------------


def _hello() -> dict[str, Any] | None:
    from amend.cli.client import Client
    from amend.edge.service import socket_path

    try:
        hello = Client(socket_path(os.environ)).get("/v1/hello")
        return hello if isinstance(hello, dict) and isinstance(hello.get("pid"), int) else None
    except AmendError:
        return None


def _running_by_hand(facts: "Facts") -> int | None:
    """The process of a daemon that the service manager did not start."""
    if facts.listens and facts.pid is None:
        return None  # asking would start the service
    hello = _hello()
    return hello["pid"] if hello is not None and hello["pid"] != facts.pid else None


def _install_notes(
    manager: "Manager", paths: list[str], why_not: str | None, stranger: int | None
) -> list[str]:
    notes = []
    if why_not is not None:
        notes.append(f"{manager.name} cannot be asked here ({why_not}); in a login session, run:")
        notes += [f"  {command}" for command in manager.commands(paths)]
    if stranger is not None:
        notes.append(
            f"a daemon that was started by hand answers (process {stranger}); end it, then run:"
        )
        notes.append("  amend service restart")
    return notes


# -- logs ----------------------------------------------------------------------------------------


def _since(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    number, unit = value[:-1], value[-1:]
    if unit in units and number.isascii() and number.isdigit() and len(number) < 7:
        return datetime.now(UTC) - timedelta(**{units[unit]: int(number)})
    try:
        return datetime.fromisoformat(value).astimezone(UTC)  # without a zone it is local time
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is no time; write 90s, 10m, 2h, 3d or 2026-01-31T18:00"
        ) from None


@service.command()
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with what comes.")
@click.option("--since", callback=_since, metavar="TIME", help="90s, 10m, 2h, 3d, or a time.")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="debug",
    help="Only this and worse.",
)
@click.option("--json", "as_json", is_flag=True, help="The lines as they were written.")
def logs(*, follows: bool, since: datetime | None, level: str, as_json: bool) -> None:
    """What the daemon has told; the last 200 lines without --since."""
    from amend.edge.service_logs import SEVERITIES

    def is_wanted(line: "Line") -> bool:
        is_late = since is None or line.at is None or line.at >= since
        return is_late and line.severity >= SEVERITIES[level]

    last = LOG_LINES if since is None else None
    lines = filter(is_wanted, _read_log(since, follows=follows, last=last))
    # Of a log that ends, those that are wanted are counted; what is followed begins with a count.
    for line in lines if follows else deque(lines, maxlen=last):
        click.echo(_as_json(line) if as_json else _as_text(line))
        sys.stdout.flush()


def _read_log(since: datetime | None, *, follows: bool, last: int | None) -> Iterator["Line"]:
    """The journal's, where the service is installed for systemd and there is one; else the
    file's."""
    from amend.edge.service import state_dir
    from amend.edge.service_logs import from_files, from_journal
    from amend.edge.service_units import SERVICE

    path = state_dir(os.environ) / "log/amend.log"
    reason = ""
    if not is_macs() and any(_whose(each) != "missing" for each in _wanted()):
        try:
            yield from from_journal(SERVICE, since=since, follows=follows, last=last)
            return
        except Unavailable as error:
            reason = f" ({error.message})"
    if not path.exists():
        raise NotFound(
            f"there is no log at {path}, and no journal{reason}",
            hint="`amend run` in a terminal tells everything there",
        )
    yield from from_files(path, follows=follows, last=last if follows else None, wait=time.sleep)


def _as_json(line: "Line") -> str:
    import json

    if line.document is not None:
        return json.dumps(line.document)
    at = line.at.isoformat() if line.at is not None else None
    return json.dumps({"timestamp": at, "severity_number": line.severity, "body": line.text})


def _as_text(line: "Line") -> str:
    clock = line.at.astimezone().strftime("%m-%d %H:%M:%S") if line.at else " " * 14
    document = line.document
    if document is None:
        return f"{clock}          {clean(line.text)}"
    level = clean(str(document.get("severity_text", "")))
    facts = "".join(
        f" {name}={_shown(fact)}"
        for name, fact in document.items()
        if not name.startswith(_EVERYWHERE)
    )
    word = click.style(f"{level.lower():8}", fg=_COLOURS.get(level))
    return f"{clock} {word} {clean(str(document.get('event.name', '')))}{clean(facts)}"


def _shown(fact: object) -> str:
    text = str(fact)
    return text if text and text.isprintable() and " " not in text else ascii(text)
