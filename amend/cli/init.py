"""`init`: make a repository ready for agents' memory, and say what was done about each thing."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import io
import json
import os
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from amend.cli.asking import absolute
from amend.cli.exits import Exit
from amend.cli.show import clean, print_json

if TYPE_CHECKING:
    from amend.cli.init_steps import Init, Step


def _agents(ctx: click.Context, _: click.Parameter, value: str | None) -> tuple[str, ...]:
    from amend.agents.known import AGENTS

    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    for name in names:
        if name not in AGENTS:
            raise click.UsageError(f"--hooks is {name!r}, must be of {', '.join(AGENTS)}", ctx)
    return tuple(dict.fromkeys(names))


@click.command()
@click.argument("path", default=".", type=click.Path())
@click.option("--memory", is_flag=True, help="Also begin a memory tree.")
@click.option(
    "--instructions",
    type=click.Choice(["claude", "agents", "both", "none"]),
    help="Tell agents in CLAUDE.md, AGENTS.md, both or none; else in those that are there.",
)
@click.option(
    "--hooks", "agents", metavar="AGENT,…", callback=_agents, help="Also install their hooks."
)
@click.option("--plugin", is_flag=True, help="Also say how to add the Claude Code plugin.")
@click.option("--dry-run", is_flag=True, help="Show a diff of everything and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.pass_context
def init(
    ctx: click.Context,
    /,
    *,
    path: str,
    memory: bool,
    instructions: str | None,
    agents: tuple[str, ...],
    plugin: bool,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """Make the repository at PATH (the current directory otherwise) ready for agents' memory.

    It gets an empty .agent-cache.json that git ignores, a block in CLAUDE.md and AGENTS.md for
    agents without hooks, and is tended by the daemon where one runs. What is there already stays;
    done again, nothing changes. Exits 1 when a step failed; the others are done all the same.
    """
    from amend.cli.init_steps import Did, Step, failures, opened

    if plugin and "claude" in agents:
        said = "--plugin brings hooks of its own for claude, which would run twice with --hooks"
        raise click.UsageError(said, ctx)
    it = opened(absolute(path), is_dry=dry_run)
    it.make_cache()
    it.ignore_cache()
    if memory:
        it.make_memory()
    else:
        it.steps.append(Step("memory", Did.SKIPPED, "not asked for; --memory begins a tree"))
    it.instruct(instructions)
    it.register()
    _hooks(it, agents, plugin)
    if as_json:
        print_json(_document(it, plugin))
    else:
        _tell(it, plugin)
    return Exit.ERROR if any(failures(it.steps)) else Exit.OK


def _hooks(it: "Init", agents: tuple[str, ...], plugin: bool) -> None:
    from amend.cli.init_steps import Did, Step

    if not agents and not plugin:
        said = "not asked for; `amend hooks install AGENT` installs them"
        it.steps.append(Step("hooks", Did.SKIPPED, said))
    for agent in agents:
        it.steps.append(_installed(it, agent))


def _installed(it: "Init", agent: str) -> "Step":
    """By `amend hooks install AGENT`, into the person's own settings."""
    from amend.cli.init_steps import Did, Step
    from amend.cli.main import cli
    from amend.errors import AmendError

    subject = f"hooks of {agent}"
    command = ["hooks", "install", agent, "--json", "--cwd", os.fsdecode(it.root)]
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            cli.main([*command, *(["--dry-run"] if it.is_dry else [])], standalone_mode=False)
    except AmendError as error:
        return Step(subject, Did.FAILED, error.message, error.hint)
    done = json.loads(printed.getvalue())
    if not done["changed"]:
        return Step(subject, Did.UNCHANGED, f"in {done['path']} already")
    it.settings_diffs.append(done.get("diff", ""))
    said = "; ".join([f"installed in {done['path']}", *done.get("notes", ())])
    return Step(subject, Did.CHANGED, said)


# -- what is told ----------------------------------------------------------------------------------


def _tell(it: "Init", plugin: bool) -> None:
    """In a dry run the diff has stdout for itself, so that it can be handed on."""
    from amend.cli.init_steps import Did

    for step in it.steps:
        if step.did is Did.FAILED:
            _tell_failure(step)
            continue
        would = "would be " if it.is_dry and step.did in (Did.CREATED, Did.CHANGED) else ""
        click.echo(f"{clean(step.subject)}: {would}{clean(step.said)}", err=it.is_dry)
    if plugin:
        _tell_plugin(to_stderr=it.is_dry)
    if it.is_dry:
        diff = it.diff()
        if sys.stdout.isatty():
            for line in diff.decode("utf-8", "replace").splitlines():
                click.echo("\t".join(map(clean, line.split("\t"))))
        else:
            click.echo(diff, nl=False)


def _tell_failure(step: "Step") -> None:
    click.echo(f"amend: error: {clean(step.subject)}: {clean(step.said)}", err=True)
    if step.hint:
        click.echo(f"amend: hint: {clean(step.hint)}", err=True)


def _tell_plugin(*, to_stderr: bool) -> None:
    from amend.agents.plugin import install_commands, try_command

    click.echo("the Claude Code plugin, for one session:", err=to_stderr)
    click.echo(f"  {clean(try_command())}", err=to_stderr)
    click.echo("and for good:", err=to_stderr)
    for command in install_commands():
        click.echo(f"  {clean(command)}", err=to_stderr)


def _document(it: "Init", plugin: bool) -> dict[str, Any]:
    from amend.agents.plugin import install_commands, plugin_dir, try_command

    document: dict[str, Any] = {
        "root": os.fsdecode(it.root),
        "dry_run": it.is_dry,
        "steps": [
            {"subject": step.subject, "did": step.did.value, "said": step.said, "hint": step.hint}
            for step in it.steps
        ],
        "diff": it.diff().decode("utf-8", "surrogateescape"),
    }
    if plugin:
        document["plugin"] = {
            "directory": str(plugin_dir()),
            "try": try_command(),
            "install": list(install_commands()),
        }
    return document
