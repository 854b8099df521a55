"""`memory`: what is noted in a `memory/` tree, noting it, and keeping the tree in order."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.asking import ask
from amend.cli.client import Client
from amend.cli.exits import Exit, worst
from amend.cli.options import cwd_option, json_option
from amend.cli.show import clean, plural, print_json, reasons
from amend.errors import RequestInvalid

if TYPE_CHECKING:
    from amend.formats.api import (
        Backend,
        FixAnswer,
        LintAnswer,
        MemoryAnswer,
        MemoryFileJson,
        MemorySyncAnswer,
        SavedAnswer,
        TermJson,
        TermsAnswer,
    )

DID_WRITE: Final = "wrote the files directly"

ROUTE: Final = "/v1/memory"

# All of a tree with 10,000 notes is read and counted in 3 s, on a busy machine in 6.
WHOLE_TREE_S: Final = 60.0

tree_option = click.option(
    "--tree", metavar="PATH", help="The tree at this path below the root; all of them otherwise."
)


def _patient(client: Client) -> Client:
    """For questions that have a whole tree read."""
    return Client(client.path, answer_s=WHOLE_TREE_S)


@click.group()
def memory() -> None:
    """What is worth remembering, a note to a topic, listed in an index to a directory."""


# -- save ------------------------------------------------------------------------------------------


@memory.command()
@click.option("--category", required=True, metavar="NAME", help="decisions, tasks, bugs, …")
@click.option("--topic", required=True, metavar="NAME", help="What the note is about: auth.")
@click.option("--title", required=True, help="What was found, in a line.")
@click.option("--bullet", "bullets", multiple=True, metavar="TEXT", help="A fact; else from stdin.")
@click.option("--replaces", multiple=True, metavar="TEXT", help="A bullet that is true no longer.")
@click.option("--date", metavar="YYYY-MM-DD", help="Of the finding; today otherwise.")
@click.option("--tree", metavar="PATH", help="The tree at this path; the first otherwise.")
@cwd_option
@json_option
def save(
    *,
    category: str,
    topic: str,
    title: str,
    bullets: tuple[str, ...],
    replaces: tuple[str, ...],
    date: str | None,
    tree: str | None,
    cwd: str,
    as_json: bool,
) -> None:
    """Note facts under a topic, merged with what is noted there, and list it in the indexes.

    Without --bullet each line of stdin is one. --replaces names a bullet by its beginning.
    """
    question: dict[str, Any] = {
        "cwd": cwd,
        "category": category,
        "topic": topic,
        "title": title,
        "bullets": list(bullets) or _from_stdin(),
        "replaces": list(replaces),
        "date": date,
        "tree": tree,
    }

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import SaveRequest

        return await backend.save_memory(SaveRequest.model_validate(question))

    answer: SavedAnswer = ask(
        cwd,
        lambda client: client.post(f"{ROUTE}/save", question),
        offline,
        did=DID_WRITE,
    )
    if as_json:
        print_json(answer)
        return
    click.echo(f"{'created' if answer['created'] else 'merged into'} {clean(answer['path'])}")
    click.echo(f"  {answer['date']}: {clean(answer['title'])}")
    for bullet in answer["bullets"]:
        click.echo(f"    - {clean(bullet)}")
    for path in answer["indexes"]:
        click.echo(f"listed in {clean(path)}")
    for term in answer["suggestions"]:
        click.echo(f"worth a line in the dictionary: {_term(term)}")


def _from_stdin() -> list[str]:
    """A bullet a line, without what makes a list of them."""
    if sys.stdin.isatty():
        raise click.UsageError("give --bullet, or bullets on stdin", click.get_current_context())
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise RequestInvalid(
            f"stdin holds byte 0x{error.object[error.start]:02x}, must be UTF-8",
            hint="convert it with iconv",
        ) from None
    lines = (line.strip().removeprefix("- ").strip() for line in text.splitlines())
    found = [line for line in lines if line and line != "-"]
    if not found:
        raise RequestInvalid(
            "there is no bullet, and stdin has none", hint='give one: --bullet "what was found"'
        )
    return found


# -- show ------------------------------------------------------------------------------------------


@memory.command()
@click.argument("path", required=False)
@click.option("--tree", metavar="PATH", help="The tree at this path; the others are not looked at.")
@cwd_option
@json_option
def show(path: str | None, tree: str | None, cwd: str, as_json: bool) -> Exit:
    """Show all indexes, or what PATH names: a category's indexes, or a note.

    The dictionary comes first where there is one. The last line on stderr says how many tokens
    this is. Exits 3 when files that a note rests on have changed, 5 when that is not known.
    """

    async def offline(backend: "Backend") -> Any:
        return await backend.read_memory(cwd, None, path, tree)

    answer: MemoryAnswer = ask(
        cwd, lambda client: client.get(ROUTE, cwd=cwd, path=path, tree=tree), offline
    )
    if as_json:
        print_json(answer)
    else:
        _print_files(answer["files"])
        _tell_tokens(answer)
    return worst(file["verdict"] for file in answer["files"] if "verdict" in file)


def _print_files(files: list["MemoryFileJson"]) -> None:
    """Several as head(1) shows them, one as it is."""
    for number, file in enumerate(files):
        if "problem" in file:
            said = f"{clean(file['path'])}: {clean(file['problem'])}"
            click.echo(f"amend: warning: {said}", err=True)
            continue
        if len(files) > 1:
            above = "\n" if number else ""
            click.echo(f"{above}==> {clean(file['path'])} <==")
        for line in file["text"].removeprefix("\ufeff").splitlines():
            click.echo(clean(line))
        if file.get("verdict", "fresh") != "fresh":
            for reason in reasons(file["causes"], file["drift"]):
                click.echo(f"amend: {file['verdict']}: {reason}", err=True)


def _tell_tokens(answer: "MemoryAnswer") -> None:
    about = "about " if answer["tokens_are_estimated"] else ""
    by = "" if answer["tokens_are_estimated"] else f" by {clean(answer['tokenizer'])}"
    click.echo(f"amend: {about}{plural(answer['tokens'], 'token')}{by}", err=True)


# -- lint and sync ---------------------------------------------------------------------------------


@memory.command()
@click.option("--fix", is_flag=True, help="Mend what can be mended without knowing what is meant.")
@tree_option
@cwd_option
@json_option
def lint(fix: bool, tree: str | None, cwd: str, as_json: bool) -> Exit:
    """Say what is wrong with the tree: `path:line: rule: message`, and exit 1 when anything is.

    With --fix what is left is told, and on stderr which files were written.
    """
    question = {"cwd": cwd, "tree": tree}

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import TreeRequest

        if fix:
            return await backend.fix_memory(TreeRequest.model_validate(question))
        return await backend.lint_memory(cwd, tree)

    if fix:
        fixed: FixAnswer = ask(
            cwd,
            lambda client: _patient(client).post(f"{ROUTE}/fix", question),
            offline,
            did=DID_WRITE,
        )
        answer: LintAnswer = fixed
    else:
        answer = ask(
            cwd, lambda client: _patient(client).get(f"{ROUTE}/lint", cwd=cwd, tree=tree), offline
        )
    if as_json:
        print_json(answer)
    else:
        for each in answer["findings"]:
            where = f"{clean(each['path'])}:{each['line']}"
            click.echo(f"{where}: {clean(each['rule'])}: {clean(each['message'])}")
        if fix:
            for path in fixed["written"]:
                click.echo(f"amend: wrote {clean(path)}", err=True)
        _tell_fixable(answer)
    return Exit.ERROR if answer["findings"] else Exit.OK


def _tell_fixable(answer: "LintAnswer") -> None:
    count = len(answer["findings"])
    fixable = sum(each["is_fixable"] for each in answer["findings"])
    if fixable:
        told = f"{plural(count, 'finding')}, {fixable} of them for `amend memory lint --fix`"
        click.echo(f"amend: {told}", err=True)


@memory.command()
@tree_option
@cwd_option
@json_option
def sync(tree: str | None, cwd: str, as_json: bool) -> None:
    """Bring every index in step with its directory now, and list those that were written.

    The daemon does so by itself; this is for where none runs.
    """
    question = {"cwd": cwd, "tree": tree}

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import TreeRequest

        return await backend.sync_memory(TreeRequest.model_validate(question))

    answer: MemorySyncAnswer = ask(
        cwd,
        lambda client: _patient(client).post(f"{ROUTE}/sync", question),
        offline,
        did=DID_WRITE,
    )
    if as_json:
        print_json(answer)
        return
    for path in answer["written"]:
        click.echo(f"wrote {clean(path)}")
    if not answer["written"]:
        click.echo("every index is in step")


# -- dict ------------------------------------------------------------------------------------------


@memory.group("dict")
def dictionary() -> None:
    """The dictionary of abbreviations, which few trees need."""


@dictionary.command()
@tree_option
@cwd_option
@json_option
def suggest(tree: str | None, cwd: str, as_json: bool) -> None:
    """Say which terms would save more tokens than their line costs, and whether it is worth it."""

    async def offline(backend: "Backend") -> Any:
        return await backend.suggest_terms(cwd, tree)

    answer: TermsAnswer = ask(
        cwd, lambda client: _patient(client).get(f"{ROUTE}/dict", cwd=cwd, tree=tree), offline
    )
    if as_json:
        print_json(answer)
        return
    for term in answer["suggestions"]:
        click.echo(_term(term))
    click.echo(clean(answer["reason"]))


def _term(term: "TermJson") -> str:
    line = clean(f"{term['abbreviation']}: {term['phrase']}")
    return f"{line}  ({term['uses']} uses, saves {term['saves']} tokens, costs {term['costs']})"
