"""`ls`, `get`, `put`, `rm` and `verify`: entries from the command line."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.asking import ask, daemon
from amend.cli.client import entry_route
from amend.cli.exits import Exit, exit_of, worst
from amend.cli.options import (
    VERDICTS,
    complete_key,
    cwd_option,
    json_option,
    kind_option,
)
from amend.cli.show import clean, paragraph, plural, print_json, reasons, verdict_word
from amend.cli.specs import from_here
from amend.errors import RequestInvalid

if TYPE_CHECKING:
    from amend.formats.api import (
        Backend,
        EntriesAnswer,
        JudgedEntryJson,
        KindName,
        LookupAnswer,
        PutAnswer,
        VerdictName,
        VerifyAnswer,
    )

_EVIDENCE: Final = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?", re.DOTALL)


@click.command()
@click.argument("key", shell_complete=complete_key)
@kind_option
@cwd_option
@json_option
def get(key: str, kind: str | None, cwd: str, as_json: bool) -> Exit:
    """Show the entry KEY and whether it may be trusted now.

    Exits 0 when it is fresh, 3 stale, 4 missing, 5 unknown.
    """
    question = {"cwd": cwd, "key": key, "kind": kind}

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import LookupRequest

        return await backend.lookup(LookupRequest.model_validate(question))

    answer: LookupAnswer = ask(cwd, lambda client: client.post("/v1/lookup", question), offline)
    if as_json:
        print_json(answer)
    else:
        print_lookup(answer, key)
    return exit_of(answer["verdict"])


def print_lookup(answer: "LookupAnswer", key: str) -> None:
    entry = answer.get("entry")
    if entry is None:
        click.echo(f"{verdict_word(answer['verdict'])}  {clean(key)}")
        if answer["candidates"]:
            click.echo(f"  near: {', '.join(clean(near) for near in answer['candidates'])}")
        return
    click.echo(f"{verdict_word(answer['verdict'])}  {entry['kind']} {clean(entry['key'])}")
    if answer["verdict"] == "stale":
        click.echo("  what it said before it went stale:")
        click.echo(paragraph(entry["summary"], "    "))
    else:
        click.echo(paragraph(entry["summary"]))
    if entry["files"]:
        click.echo(f"  files: {', '.join(clean(spec) for spec in entry['files'])}")
    for reason in reasons(answer["causes"], answer["drift"]):
        click.echo(f"  {reason}")


@click.command()
@kind_option
@click.option("--verdict", type=VERDICTS, help="Only entries with this verdict.")
@cwd_option
@json_option
def ls(kind: "KindName | None", verdict: "VerdictName | None", cwd: str, as_json: bool) -> None:
    """List the repository's entries, each verified now."""

    async def offline(backend: "Backend") -> Any:
        return await backend.entries(cwd, kind, verdict)

    answer: EntriesAnswer = ask(
        cwd,
        lambda client: client.get("/v1/entries", cwd=cwd, kind=kind, verdict=verdict),
        offline,
    )
    if as_json:
        print_json(answer)
        return
    for problem in answer["problems"]:
        click.echo(f"amend: warning: {clean(problem)}", err=True)
    if sys.stdout.isatty():
        _print_table(answer["entries"])
    else:
        for row in answer["entries"]:
            why = "; ".join(reasons(row["causes"], row["drift"]))
            click.echo(f"{row['verdict']}\t{row['kind']}\t{clean(row['key'])}\t{why}")


def _print_table(rows: list["JudgedEntryJson"]) -> None:
    if not rows:
        click.echo("no entries; `amend put KEY --summary … FILES…` stores one")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from amend.cli.show import COLOURS

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verdict", "kind", "key", "why"):
        table.add_column(heading)
    for row in rows:
        why = "; ".join(reasons(row["causes"], row["drift"]))
        verdict = Text(row["verdict"], style=COLOURS.get(row["verdict"], ""))
        table.add_row(verdict, row["kind"], Text(clean(row["key"])), Text(why, style="dim"))
    Console().print(table)


@click.command()
@click.argument("key", shell_complete=complete_key)
@click.argument("files", nargs=-1)
@click.option("--summary", required=True, help="What was found out; - reads it from stdin.")
@click.option("--pattern", is_flag=True, help="A pattern: it never expires and may cite no file.")
@click.option("--ts", metavar="TIME", help="When it was found out (ISO 8601); now otherwise.")
@click.option(
    "--evidence",
    multiple=True,
    metavar="FILE:LINE[-END]",
    help="Of this file only these lines count; FILE is one of FILES.",
)
@cwd_option
@json_option
def put(
    *,
    key: str,
    files: tuple[str, ...],
    summary: str,
    pattern: bool,
    ts: str | None,
    evidence: tuple[str, ...],
    cwd: str,
    as_json: bool,
) -> None:
    """Store a finding under KEY that rests on FILES.

    FILES are paths from where you are: a file, a directory (src/), a glob ('src/*.ts'), an absent
    path ('!src/old.ts') or a sibling's file (backend:src/api.ts).
    """
    if summary == "-":
        summary = _from_stdin()
    client = daemon()
    roots = [repo["root"] for repo in client.get("/v1/repos")]
    document: dict[str, Any] = {"summary": summary, "files": from_here(files, cwd, roots)}
    if ts is not None:
        document["ts"] = ts
    if evidence:
        cited = [_cited(text) for text in evidence]
        paths = from_here([path for path, _, _ in cited], cwd, roots)
        document["evidence"] = [
            {"file": path, "start": start, "end": end}
            for path, (_, start, end) in zip(paths, cited, strict=True)
        ]
    kind = "pattern" if pattern else "topic"
    answer: PutAnswer = client.put(entry_route(kind, key), document, cwd=cwd)
    if as_json:
        print_json(answer)
        return
    entry = answer["entry"]
    on = f" on {plural(len(entry['files']), 'source')}" if entry["files"] else ""
    click.echo(
        f"{verdict_word(entry['verdict'])}  stored {entry['kind']} {clean(entry['key'])}{on}"
    )
    for reason in reasons(entry["causes"], entry["drift"]):
        click.echo(f"  {reason}")
    if answer["stored_in"] == "store":
        click.echo(f"  kept in amend's own store: {clean(answer.get('reason', 'no cache file'))}")


def _cited(text: str) -> tuple[str, int, int]:
    """File, first and last line."""
    match = _EVIDENCE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not FILE:LINE or FILE:LINE-END")
    return match[1], int(match[2]), int(match[3] or match[2])


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as error:
        raise RequestInvalid(
            f"the summary on stdin holds byte 0x{error.object[error.start]:02x}, must be UTF-8",
            hint="convert it with iconv",
        ) from None


@click.command()
@click.argument("key", shell_complete=complete_key)
@kind_option
@cwd_option
def rm(key: str, kind: str | None, cwd: str) -> None:
    """Remove the entry KEY (a topic unless --kind says otherwise)."""
    kind = kind or "topic"
    daemon().delete(entry_route(kind, key), cwd=cwd)
    click.echo(f"removed {kind} {clean(key)}")


@click.command()
@click.argument("keys", nargs=-1, shell_complete=complete_key)
@cwd_option
@json_option
def verify(keys: tuple[str, ...], cwd: str, as_json: bool) -> Exit:
    """Read and hash every cited file again, trusting no time stamp.

    KEYS narrow it down. Exits 0 when all entries are fresh, 3 when one is stale, 5 when none is
    stale but one is unknown.
    """
    question: dict[str, Any] = {"cwd": cwd, "keys": list(keys) or None}

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import VerifyRequest

        return await backend.verify(VerifyRequest.model_validate(question))

    answer: VerifyAnswer = ask(cwd, lambda client: client.post("/v1/verify", question), offline)
    if as_json:
        print_json(answer)
    else:
        _print_verified(answer)
    return worst(row["verdict"] for row in answer["entries"])


def _print_verified(answer: "VerifyAnswer") -> None:
    counts: dict[str, int] = {"fresh": 0, "stale": 0, "unknown": 0}
    for row in answer["entries"]:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
        if row["verdict"] != "fresh":
            click.echo(f"{verdict_word(row['verdict'])}  {row['kind']} {clean(row['key'])}")
            for reason in reasons(row["causes"], row["drift"]):
                click.echo(f"  {reason}")
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    click.echo(f"{said}; read {plural(answer['hashed'], 'file')}")
