"""`add`, `remove` and `status`: what the daemon tends and how it is."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
import sys
from typing import TYPE_CHECKING, cast

import click

from amend.cli.asking import absolute, daemon
from amend.cli.options import json_option
from amend.cli.show import clean, plural, print_json
from amend.errors import NotFound

if TYPE_CHECKING:
    from amend.formats.api import RepoJson, StatusAnswer


@click.command()
@click.argument("path", default=".", type=click.Path())
@click.option(
    "--sibling",
    "siblings",
    multiple=True,
    metavar="[NAME=]PATH",
    help="Another repository that entries may cite as NAME:path; its directory's name otherwise.",
)
@click.option(
    "--track",
    default="worktree",
    metavar="worktree|head|ref:NAME",
    help="What of the siblings is now: their files, their HEAD, or a ref.",
)
@json_option
def add(path: str, siblings: tuple[str, ...], track: str, as_json: bool) -> None:
    """Tend the repository at PATH (the current directory otherwise)."""
    body: dict[str, object] = {"root": absolute(path)}
    if siblings:
        body["siblings"] = [_sibling(text, track) for text in siblings]
    repo: RepoJson = daemon().post("/v1/repos", body)
    if as_json:
        print_json(repo)
        return
    click.echo(f"tending {clean(repo['root'])}: {_entries(repo)}")
    for problem in repo["problems"]:
        click.echo(f"  {clean(problem)}")


def _sibling(text: str, track: str) -> dict[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        name, path = os.path.basename(absolute(text)), text
    return {"name": name, "path": absolute(path), "track": track}


@click.command()
@click.argument("path", default=".", type=click.Path())
def remove(path: str) -> None:
    """Tend the repository at PATH no longer. Its files stay as they are."""
    client = daemon()
    full = absolute(path)
    for repo in client.get("/v1/repos"):
        if repo["root"] in (full, os.path.realpath(full)):
            client.delete(f"/v1/repos/{repo['id']}")
            click.echo(f"no longer tending {clean(repo['root'])}")
            return
    raise NotFound(f"{full} is not tended", hint="`amend status` lists what is")


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what the daemon tends, what it watches and what troubles it."""
    answer = cast("StatusAnswer", daemon().get("/v1/status"))
    if as_json:
        print_json(answer)
        return
    state = "ready" if answer["ready"] else "starting"
    click.echo(
        f"amend {clean(answer['version'])}: {state}, up {_duration(answer['uptime_s'])}, "
        f"{answer['rss_bytes'] / (1 << 20):.0f} MiB, config {clean(answer['config'] or 'none')}"
    )
    if answer["config_error"]:
        click.echo("the newest config is not in force:")
        for line in answer["config_error"].splitlines():
            click.echo(f"  {clean(line)}")
    if not answer["repos"]:
        click.echo("no repository yet; `amend add PATH` adds one")
    elif sys.stdout.isatty():
        _print_table(answer["repos"])
    else:
        for repo in answer["repos"]:
            click.echo(f"{clean(repo['root'])}\t{_at(repo)}\t{_entries(repo)}\t{_watched(repo)}")
    for repo in answer["repos"]:
        for problem in repo["problems"]:
            click.echo(f"{clean(repo['root'])}: {clean(problem)}")
        for path in repo["watch"]["unwatched"]:
            reason = f"not watched, checked when asked: {path['reason']}"
            click.echo(f"{clean(path['path'])}: {clean(reason)}")


def _print_table(repos: list["RepoJson"]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("repository", "at", "entries", "watch"):
        table.add_column(heading)
    for repo in repos:
        table.add_row(
            Text(clean(repo["root"])), Text(_at(repo)), Text(_entries(repo)), Text(_watched(repo))
        )
    Console().print(table)


def _at(repo: "RepoJson") -> str:
    head = (repo["head"] or "")[:7]
    place = clean(repo["branch"] or head or "no git")
    return f"{place} ({clean(repo['operation'])})" if repo["operation"] else place


def _entries(repo: "RepoJson") -> str:
    counts = repo["entries"]
    total = counts["fresh"] + counts["stale"] + counts["unknown"]
    if not total:
        return "no entries"
    shown = [f"{counts['fresh']} fresh"]
    if counts["stale"]:
        shown.append(f"{counts['stale']} stale")
    if counts["unknown"]:
        shown.append(f"{counts['unknown']} unknown")
    return f"{plural(total, 'entry')}: {', '.join(shown)}"


def _watched(repo: "RepoJson") -> str:
    watch = repo["watch"]
    said = f"{clean(watch['backend'])} {watch['armed']}"
    if watch["overflows"]:
        said += f", {plural(watch['overflows'], 'overflow')}"
    return said


def _duration(seconds: float) -> str:
    whole = int(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"
