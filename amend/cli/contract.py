"""`contract`: the seed's three scripts (find, validate, check the schema), and a new contract.

All of it works on the files and asks git; no daemon is needed.
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.asking import absolute
from amend.cli.contract_files import (
    contracts_of,
    read_contract,
    root_above,
    root_of,
    shown,
    sibling_rules,
    why,
)
from amend.cli.exits import Exit, worst
from amend.cli.options import cwd_option, json_option
from amend.cli.show import clean, print_json, reasons, verdict_word
from amend.errors import (
    AmendError,
    Conflict,
    DocumentInvalid,
    NotFound,
    RequestInvalid,
    Unavailable,
)

if TYPE_CHECKING:
    from amend.core.model import Judgement, Problem, SiblingRule, Source
    from amend.daemon.siblings import Sibling
    from amend.formats.contract import Contract

# How the contract's own repository is called where a problem of it is told.
HERE_NAME: Final = "."

repo_option = click.option(
    "--repo",
    metavar="PATH",
    help="Where the referenced files are; by --cwd and siblings otherwise.",
)


@click.group()
def contract() -> None:
    """What was found out about an API or a schema, kept until a file it rests on changes."""


# -- find ------------------------------------------------------------------------------------------


@contract.command()
@click.argument("key")
@cwd_option
@json_option
def find(key: str, cwd: str, as_json: bool) -> Exit:
    """Print the path of the contract for KEY, the closest first.

    KEY is an endpoint ("GET /items/42"), a contract's key, or its name below .agent-cache.d.
    Exits 0 when there is one, 4 when there is none.
    """
    root = root_above(cwd)
    known = list(contracts_of(root))
    found = _answering(key, known)
    if as_json:
        print_json({"contracts": [_row(root, path, each) for path, each in found]})
    else:
        here = absolute(".")
        for path, _ in found:
            click.echo(os.path.relpath(os.fsdecode(root + b"/" + path), here))
    if not found:
        _tell_near(key, [each for _, each in known])
    return Exit.OK if found else Exit.MISSING


def _answering(key: str, known: list[tuple[bytes, "Contract"]]) -> list[tuple[bytes, "Contract"]]:
    from amend.core.endpoint import asked, covers, distance

    question = asked(key)
    named = [(path, each) for path, each in known if key in each.keys]
    ranked = [
        (distance(each.endpoint), path, each)
        for path, each in known
        if question is not None and each.endpoint is not None and key not in each.keys
        if covers(each.endpoint, question)
    ]
    return named + [(path, each) for _, path, each in sorted(ranked, key=lambda row: row[:2])]


def _row(root: bytes, path: bytes, found: "Contract") -> dict[str, Any]:
    return {
        "path": os.fsdecode(root + b"/" + path),
        "key": found.name.key,
        "endpoint": str(found.endpoint) if found.endpoint is not None else None,
        "repository": found.repository,
        "problems": _problem_rows(found.problems),
    }


def _tell_near(key: str, known: list["Contract"]) -> None:
    from difflib import get_close_matches

    names = [name for each in known for name in each.keys]
    names += [str(each.endpoint) for each in known if each.endpoint is not None]
    near = get_close_matches(key, names)
    said = f"; near: {', '.join(clean(name) for name in near)}" if near else ""
    click.echo(f"amend: no contract for {clean(key)}{said}", err=True)


# -- check-schema ----------------------------------------------------------------------------------


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.resources import files

        click.echo(files("amend.formats").joinpath("contract.schema.json").read_bytes(), nl=False)
        ctx.exit()


@contract.command("check-schema")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--print-schema",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_schema,
    help="Print the JSON Schema and exit.",
)
@json_option
def check_schema(files: tuple[str, ...], as_json: bool) -> Exit:
    """Check the form of contracts; - reads one from stdin.

    Prints `path: /pointer: rule` for each rule that is broken, and then exits 1.
    """
    rows = [{"path": file, "problems": _problems_of(file)} for file in files]
    broken = any(row["problems"] for row in rows)
    if as_json:
        print_json({"ok": not broken, "files": rows})
    else:
        for row in rows:
            for problem in row["problems"]:
                said = ": ".join(filter(None, (problem["pointer"], problem["rule"])))
                click.echo(f"{clean(str(row['path']))}: {clean(said)}")
    return Exit.ERROR if broken else Exit.OK


def _problems_of(file: str) -> Any:
    try:
        return _problem_rows(read_contract(file).problems)
    except (AmendError, OSError) as error:
        return [{"pointer": "", "rule": why(error)}]


def _problem_rows(problems: tuple["Problem", ...]) -> list[dict[str, str]]:
    return [{"pointer": problem.pointer, "rule": problem.rule} for problem in problems]


# -- validate --------------------------------------------------------------------------------------


def _track(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from pydantic import ValidationError

    from amend.formats.config import Sibling as Rules

    try:
        return value and Rules(name="x", path="x", track=value).track
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise click.BadParameter(said) from None


@contract.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@repo_option
@click.option("--cwd", metavar="DIR", help="Ask as from this directory; the contract's otherwise.")
@click.option(
    "--track",
    metavar="worktree|head|ref:NAME",
    callback=_track,
    help="What is now: the files on disk (unless a sibling says otherwise), HEAD, or a ref.",
)
@json_option
def validate(
    files: tuple[str, ...], repo: str | None, cwd: str | None, track: str | None, as_json: bool
) -> Exit:
    """Say whether contracts still hold: whether each referenced file has the bytes it had.

    Exits 0 when all are fresh, 3 when one is stale, 5 when one is unknown, 4 when one is missing.
    """
    from amend.daemon.changes import cause_json

    rows = []
    for file in files:
        judgement = _judged(file, repo, cwd, track)
        causes = [cause_json(cause) for cause in judgement.causes]
        rows.append({"path": file, "verdict": judgement.verdict.value, "causes": causes})
        if not as_json:
            click.echo(f"{verdict_word(judgement.verdict)}  {clean(file)}")
            for reason in reasons(causes):
                click.echo(f"  {reason}")
    if as_json:
        print_json({"contracts": rows})
    return worst(str(row["verdict"]) for row in rows)


def _judged(file: str, repo: str | None, cwd: str | None, track: str | None) -> "Judgement":
    from amend.core.model import Cause, CauseKind, Judgement, Verdict
    from amend.daemon.by_content import judged

    try:
        found = read_contract(file)
    except FileNotFoundError:
        return Judgement(Verdict.MISSING, None)
    except DocumentInvalid as error:
        cause = Cause(CauseKind.INVALID, detail=error.message)
        return Judgement(Verdict.STALE, None, (cause,))
    except (AmendError, OSError) as error:
        cause = Cause(CauseKind.UNREADABLE, file, why(error))
        return Judgement(Verdict.UNKNOWN, None, (cause,))
    root = root_above(cwd or os.path.dirname(absolute(file)), otherwise=absolute("."))
    return judged(found, _repositories(found, root, repo, track), datetime.now(UTC))


def _repositories(
    found: "Contract", root: bytes, repo: str | None, track: str | None
) -> dict[str | None, "Sibling"]:
    """Those that its references name and amend knows. `track` is about the contract's own."""
    from dataclasses import replace

    from amend.core.model import SiblingRule
    from amend.daemon.siblings import Sibling

    repositories: dict[str | None, Sibling] = {}
    for name in {reference.source.repository for reference in found.references}:
        is_own = name == found.repository
        rule: SiblingRule | None
        if is_own and repo is not None:
            rule = SiblingRule(name or HERE_NAME, root_of(repo))
        elif name is None:
            rule = SiblingRule(HERE_NAME, root)
        else:
            rule = sibling_rules(root).get(name)
        if rule is not None:
            rule = replace(rule, track=track) if track is not None and is_own else rule
            repositories[name] = Sibling(rule)
    return repositories


# -- new -------------------------------------------------------------------------------------------


@contract.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--key", help="What it will be asked for by, where it is about no endpoint.")
@click.option("--endpoint", "about", metavar='"GET /x"', help="The endpoint it is about.")
@click.option("--repository", metavar="NAME", help="The sibling that the FILEs are in.")
@click.option("-o", "--output", metavar="PATH", help="Write it there, where nothing may be yet.")
@repo_option
@cwd_option
def new(
    *,
    files: tuple[str, ...],
    key: str | None,
    about: str | None,
    repository: str | None,
    output: str | None,
    repo: str | None,
    cwd: str,
) -> None:
    """Print a contract that rests on the FILEs as they are now, its findings to be filled in."""
    from amend.core.endpoint import asked
    from amend.daemon.siblings import Sibling
    from amend.formats.contract import new_document, parse

    if (key is None) == (about is None):
        raise click.UsageError("give one of --key and --endpoint", click.get_current_context())
    subject = key or asked(about or "")
    if subject is None:
        raise RequestInvalid(f"{about!r} is no endpoint", hint='write it as "GET /items/:id"')
    place = Sibling(_rule_for_new(repository, repo, cwd))
    blobs = _blobs(place, files, cwd)
    document = new_document(subject, blobs, datetime.now(UTC), repository)
    for problem in parse(document, b"").problems:
        raise RequestInvalid(f"{problem.pointer}: {problem.rule}", hint="check what you typed")
    if output is None:
        click.echo(document, nl=False)
    else:
        _create(absolute(output), document)
        click.echo(f"wrote {clean(output)}", err=True)


def _rule_for_new(repository: str | None, repo: str | None, cwd: str) -> "SiblingRule":
    from amend.core.model import SiblingRule

    if repo is not None:
        return SiblingRule(repository or HERE_NAME, root_of(repo))
    root = root_above(cwd)
    if repository is None:
        return SiblingRule(HERE_NAME, root)
    rule = sibling_rules(root).get(repository)
    if rule is None:
        raise NotFound(
            f"no sibling of {shown(root)} is called {repository!r}",
            hint="say with --repo where it is, or add it: `amend add --sibling PATH`",
        )
    return rule


def _blobs(place: "Sibling", files: tuple[str, ...], cwd: str) -> dict[str, bytes]:
    from amend.core.model import AbsentPrint, FilePrint, NoPrint
    from amend.daemon.by_content import prints_now

    sources = {_source(text, place.root, cwd): text for text in files}
    blobs = {}
    for source, found in prints_now(place, list(sources)).items():
        if isinstance(found, AbsentPrint):
            raise NotFound(
                f"{sources[source]} does not exist in {shown(place.root)}",
                hint="FILEs are relative to where you are, or to that root",
            )
        if isinstance(found, NoPrint):
            raise Unavailable(f"{sources[source]}: {found.detail}", hint="name a regular file")
        assert isinstance(found, FilePrint)
        blobs[source.spec] = found.blob
    return blobs


def _source(text: str, root: bytes, cwd: str) -> "Source":
    """A path as typed, from where they are or from the root."""
    from amend.core.model import RelPath, Source, SourceKind
    from amend.core.sources import parse_spec

    typed = os.fsencode(os.path.normpath(os.path.join(os.path.realpath(cwd), text)))
    if not typed.startswith(root + b"/") or not os.path.lexists(typed):
        typed = os.path.normpath(os.path.join(root, os.fsencode(text)))
    if not typed.startswith(root + b"/"):
        raise RequestInvalid(
            f"{text!r} is outside of {shown(root)}",
            hint="a contract rests on the files of one repository; name it with --repo",
        )
    source = Source(SourceKind.FILE, RelPath(typed[len(root) + 1 :]))
    try:
        if parse_spec(source.spec) == source:
            return source
        rule = "would be read as a pattern"
    except ValueError as error:
        rule = str(error)
    raise RequestInvalid(f"{text!r} {rule}", hint="such a name cannot be cited")


def _create(path: str, document: bytes) -> None:
    """Written whole, or not at all where anything is."""
    from amend.edge.files.exchange import Changed, FileDoor, Present

    full = os.fsencode(path)
    taken = Conflict(f"{path} exists; nothing was written", hint="choose another -o, or remove it")
    if os.path.lexists(full):
        raise taken
    try:
        os.makedirs(os.path.dirname(full), exist_ok=True)
        door = FileDoor(os.path.dirname(full), os.path.basename(full), None)
        staged = door.stage(Present(None, b""), document)
        try:
            door.create(staged)
        except Changed:
            raise taken from None
        finally:
            door.discard(staged)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="it must be writable") from error
