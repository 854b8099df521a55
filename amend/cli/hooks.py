"""`hooks install`, `uninstall` and `status`: amend's hooks in a coding agent's own settings."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from amend.cli.exits import Exit
from amend.cli.options import cwd_option, json_option
from amend.cli.show import clean, plural, print_json
from amend.errors import Conflict

if TYPE_CHECKING:
    from amend.agents.installing import Bound, Client, Target
    from amend.cli.hooks_files import Place
    from amend.cli.hooks_status import Installed

F = TypeVar("F", bound=Callable[..., Any])

AGENTS: Final = ("claude", "codex")
CLIENTS: Final = ("nc", "curl", "python")


def place_options(command: F) -> F:
    scope = click.option(
        "--user/--project",
        "is_users",
        default=True,
        help="In your own settings (the default), or in those of the repository around.",
    )
    dry = click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would change.")
    agent = click.argument("agent", type=click.Choice(AGENTS))
    return agent(scope(dry(cwd_option(json_option(command)))))


@click.group()
def hooks() -> None:
    """amend's hooks in the settings of a coding agent."""


@hooks.command()
@place_options
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    help="What the hooks run; otherwise the cheapest of these that is found to work here.",
)
def install(
    *,
    agent: str,
    is_users: bool,
    is_dry: bool,
    cwd: str,
    as_json: bool,
    client: str | None,
) -> None:
    """Put amend's hooks into AGENT's settings. What else is in there stays, byte for byte."""
    from amend.agents.installing import Client, bounds, groups
    from amend.cli.hooks_canary import choose
    from amend.cli.hooks_files import planned, rewrite
    from amend.formats.agent_settings import add_hooks, own_hooks

    target = _target(agent)
    place = _place(target, is_users=is_users, cwd=cwd)
    _refuse_second(target, cwd)
    runtime = _runtime()
    # What cannot be edited is refused before anything is tried out.
    some = groups(target, dict.fromkeys(bounds(target), Client.NC), runtime)
    before, _ = planned(place, lambda data: add_hooks(data, some))
    clients = choose(target, None if client is None else Client(client))
    wanted = groups(target, clients, runtime)

    def plan(data: bytes | None) -> bytes:
        return add_hooks(data, wanted)

    if is_dry:
        _show_diff(place, before, plan(before), as_json=as_json)
        return
    keeps = before is not None and not own_hooks(before)
    changed = rewrite(place, plan, keeps=keeps)
    said = _installed_text(target, place, clients, changed=changed, keeps=keeps)
    notes = _notes(target, place, is_users=is_users, changed=changed)
    if as_json:
        names = sorted({each.value for each in clients.values()})
        print_json(
            {
                "agent": agent,
                "path": place.shown,
                "changed": changed,
                "clients": names,
                "backup": place.backup if changed and keeps else None,
                "notes": notes,
            }
        )
        return
    for line in (said, *notes):
        click.echo(clean(line))


@hooks.command()
@place_options
def uninstall(*, agent: str, is_users: bool, is_dry: bool, cwd: str, as_json: bool) -> None:
    """Take amend's hooks out of AGENT's settings again, and nothing else."""
    from amend.cli.hooks_files import (
        forget_backup,
        planned,
        read,
        read_backup,
        remove_empty_directory,
        rewrite,
    )

    target = _target(agent)
    place = _place(target, is_users=is_users, cwd=cwd)
    backup = read_backup(place)

    def plan(data: bytes | None) -> bytes | None:
        return _without(data, backup)

    if is_dry:
        _show_diff(place, *planned(place, plan), as_json=as_json)
        return
    changed = rewrite(place, plan, keeps=False)
    after = read(place)
    if changed and after == backup:
        forget_backup(place)
    if changed and after is None:
        remove_empty_directory(place)
    if as_json:
        print_json({"agent": agent, "path": place.shown, "changed": changed})
        return
    if not changed:
        click.echo(f"{clean(place.shown)} has no hooks of amend's")
        return
    rest = "the file, which amend had made, is gone" if after is None else "the rest is as it was"
    click.echo(f"{target.title}'s hooks are out of {clean(place.shown)}; {rest}")
    if backup is not None and after != backup:
        click.echo(f"it has changed since they came; {clean(place.backup)} is from before")


def _without(data: bytes | None, backup: bytes | None) -> bytes | None:
    """The settings as they are without amend. Where nothing else is in them, the backup tells
    whether there was a file."""
    from amend.formats.agent_settings import remove_hooks
    from amend.formats.json_text import decode
    from amend.formats.json_tree import is_blank

    if data is None:
        return None
    rest = remove_hooks(data)
    if rest is not None or backup is None:
        return rest
    return backup if is_blank(decode(backup)) else b"{}\n"


@hooks.command()
@click.argument("agent", type=click.Choice(AGENTS), required=False)
@cwd_option
@json_option
def status(*, agent: str | None, cwd: str, as_json: bool) -> Exit:
    """What is installed where, and whether it works (of both agents, if none is named)."""
    documents = []
    code = Exit.OK
    for name in AGENTS if agent is None else (agent,):
        document, problems = _status(_target(name), cwd)
        documents.append(document)
        if problems:
            code = Exit.ERROR
        if not as_json:
            _print_status(_target(name), document, problems)
    if as_json:
        print_json(documents if agent is None else documents[0])
    return code


def _status(target: "Target", cwd: str) -> tuple[dict[str, Any], list[str]]:
    """What is so, and what of it is wrong."""
    from amend.agents.installing import hook_socket
    from amend.cli.hooks_status import exchanges, installed, plugins, socket_state

    runtime = _runtime()
    config = _trusting_config(target)
    found: list[Installed] = []
    for scope, is_users in (("user", True), ("project", False)):
        place = _place(target, is_users=is_users, cwd=cwd, is_refused=False)
        if any(each.path == place.shown for each in found):
            continue  # the home directory is the project
        found.append(installed(target, scope, place, runtime, config))
    switched_on = plugins(_plugin_paths(target, cwd))
    heard = exchanges(target, runtime)  # before this asks something itself
    document = {
        "agent": target.name,
        "places": [each.document() for each in found],
        "plugins": list(switched_on),
        "socket": {"path": hook_socket(target, runtime), "state": socket_state(target, runtime)},
        "exchanges": heard,
    }
    return document, _problems(target, found, switched_on)


def _problems(
    target: "Target", found: Sequence["Installed"], switched_on: Sequence[str]
) -> list[str]:
    problems = []
    there = [each for each in found if each.is_there]
    for each in found:
        again = f"`amend hooks install {target.name} --{each.scope}` mends it"
        if each.state == "unreadable":
            problems.append(each.problem)
        if each.state == "partly":
            problems.append(f"{each.path}: no hook at {', '.join(each.missing)}; {again}")
        if each.state == "other":
            problems.append(f"{each.path}: hooks of another amend or another socket; {again}")
        if each.is_there and each.is_switched_off:
            problems.append(f"{each.path}: disableAllHooks is true, so that none of them runs")
        problems += [_untrusted(each, said, count) for said, count in each.trust.items()]
    if there and switched_on:
        problems.append(
            f"installed twice, so that each event is told twice: {there[0].path} and the plugin "
            f"{', '.join(switched_on)}; `amend hooks uninstall {target.name}` takes out the first"
        )
    return [problem for problem in problems if problem]


def _untrusted(each: "Installed", said: str, count: int) -> str:
    from amend.agents.install_trust import Trust

    if said == Trust.TRUSTED.value:
        return ""
    return (
        f"{each.path}: {plural(count, 'hook')} {said}, which Codex leaves out without a word; "
        "start `codex` and choose to trust them"
    )


def _print_status(target: "Target", document: Mapping[str, Any], problems: Sequence[str]) -> None:
    click.echo(f"{target.title}:")
    for place in document["places"]:
        said = place["state"]
        if place["clients"]:
            said += f", through {' and '.join(place['clients'])}"
        if place["trust"]:
            said += "; " + ", ".join(f"{count} {trust}" for trust, count in place["trust"].items())
        click.echo(f"  {place['scope']:8} {clean(said)}  {clean(place['path'])}")
    click.echo(f"  plugin   {clean(', '.join(document['plugins'])) or 'absent'}")
    socket = document["socket"]
    click.echo(f"  socket   {clean(socket['state'])}  {clean(socket['path'])}")
    if document["exchanges"] is not None:
        asked = plural(document["exchanges"], "hook")
        click.echo(f"  heard    {asked} since the daemon started")
    for problem in problems:
        click.echo(f"amend: warning: {clean(problem)}", err=True)


# -- where -------------------------------------------------------------------------------------


def _target(agent: str) -> "Target":
    from amend.agents.installing import TARGETS

    return TARGETS[agent]


def _runtime() -> str:
    from amend.edge.service import runtime_dir

    return str(runtime_dir(os.environ))


def _user_path(target: "Target") -> str:
    from amend.edge.service import home

    return target.user_path(os.environ, str(home(os.environ)))


def _root(cwd: str) -> str:
    from amend.cli.contract_files import root_above

    return os.fsdecode(root_above(cwd))


def _place(target: "Target", *, is_users: bool, cwd: str, is_refused: bool = True) -> "Place":
    from amend.cli.hooks_files import projects_place, users_place

    if is_users:
        return users_place(_user_path(target))
    root = _root(cwd)
    path = target.project_path(root)
    return projects_place(path, root) if is_refused else users_place(path)


def _plugin_paths(target: "Target", cwd: str) -> tuple[str, ...]:
    """The settings that can switch on a plugin."""
    if target.name != "claude":
        return ()
    project = target.project_path(_root(cwd))
    local = os.path.join(os.path.dirname(project), "settings.local.json")
    return _user_path(target), project, local


def _trusting_config(target: "Target") -> str | None:
    """Where an agent keeps which hooks it was told to trust."""
    if target.name != "codex":
        return None
    return os.path.join(os.path.dirname(_user_path(target)), "config.toml")


def _refuse_second(target: "Target", cwd: str) -> None:
    from amend.cli.hooks_status import plugins

    switched_on = plugins(_plugin_paths(target, cwd))
    if switched_on:
        raise Conflict(
            f"amend's plugin is switched on ({', '.join(switched_on)}); with these hooks as well "
            "each event would be told twice",
            hint=f"`claude plugin uninstall {switched_on[0]}` first, or leave it at the plugin",
        )


# -- what is said ------------------------------------------------------------------------------


def _show_diff(place: "Place", before: bytes | None, after: bytes | None, *, as_json: bool) -> None:
    from amend.cli.init_files import Change, as_diff

    path = os.fsencode(place.real.lstrip("/"))
    diff = b"" if before == after else as_diff([Change(path, before, after or b"")])
    text = diff.decode("utf-8", "surrogateescape")
    if as_json:
        print_json({"path": place.shown, "changed": before != after, "diff": text})
    else:
        click.echo(diff, nl=False)


def _installed_text(
    target: "Target",
    place: "Place",
    clients: Mapping["Bound", "Client"],
    *,
    changed: bool,
    keeps: bool,
) -> str:
    if not changed:
        return f"{target.title}'s hooks are in {place.shown} already"
    names = " and ".join(dict.fromkeys(client.value for client in clients.values()))
    backup = f"; as it was before: {place.backup}" if keeps else ""
    return f"{target.title}'s hooks are in {place.shown}, through {names}{backup}"


def _notes(target: "Target", place: "Place", *, is_users: bool, changed: bool) -> list[str]:
    notes = []
    if place.is_link and changed:
        notes.append(f"it is a link; {place.real} was written")
    if not is_users:
        notes.append("they name your own socket: for others they do nothing")
    if not is_users and target.name == "claude":
        notes.append(f"Claude Code reads them when it is started in {place.root}")
    if target.name == "codex" and changed:
        count = len(target.wanted)
        notes.append(
            f'Codex runs them once you trust them. Start `codex`: it says "Hooks need review: '
            f'{count} hooks are new or changed"; choose "Trust all and continue". Until then, and '
            "again after every change, it leaves them out without a word"
        )
    return notes
