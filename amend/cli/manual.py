"""`manual`: everything about every command, to read here or as a man page.

Both are printed from the commands themselves, so neither says what the other does not, and nothing
is to be kept in step. What no command knows (exit codes, variables, files) stands here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import click

from amend.cli.exits import Exit
from amend.cli.main import cli, version

# The width that man pages are read at.
WIDTH: Final = 80

SUMMARY: Final = "the freshness daemon for agent memory"

ABOUT: Final = (
    "Coding agents explore a codebase, write down what they found, and reuse it later. amend "
    "watches the repositories, knows which finding rests on which file, marks a finding the moment "
    "its ground moves, brings it back when the ground returns, and answers whether it may be "
    "trusted.",
    "`amend run` is the daemon, `amend service install` has it started at login, `amend add` tends "
    "a repository. Without a daemon the commands that only read look at the files themselves, and "
    "say so.",
)

EXIT_CODES: Final[Mapping[Exit, str]] = {
    Exit.OK: "Done; for what asks about entries: fresh.",
    Exit.ERROR: "An error, told on stderr with a hint; or what was looked for is wrong.",
    Exit.USAGE: "The command line is wrong.",
    Exit.STALE: "Stale: a file that the finding rests on has changed.",
    Exit.MISSING: "There is no such entry.",
    Exit.UNKNOWN: "It cannot be told whether it is fresh.",
    Exit.BUG: "A mistake of amend's, with lines to paste into a report.",
    Exit.CONFIG: "`run`: the configuration is wrong; a service manager does not try again.",
    Exit.INTERRUPTED: "Ctrl-C.",
}

VARIABLES: Final = {
    "AMEND_CONFIG": "The configuration file.",
    "AMEND_STATE_DIR": "The directory of the store and the log.",
    "AMEND_RUNTIME_DIR": "The directory of the sockets; the daemon and whoever asks it need the "
    "same one.",
    "AMEND_DEBUG": "1: a mistake of amend's is told with its traceback.",
    "NO_COLOR": "Set: no colours.",
}

FILES: Final = {
    ".agent-cache.json": "What agents found, at a repository's root; they read and write it too.",
    "~/.config/amend/config.toml": "The configuration; none is needed. `amend config check` reads "
    "it.",
    "~/.local/state/amend/amend.db": "What amend remembers; losing it loses history, never an "
    "entry.",
    "$XDG_RUNTIME_DIR/amend/api.sock": "HTTP with JSON; `/openapi.json` says what it takes.",
    "$XDG_RUNTIME_DIR/amend/hooks/": "A socket for each agent's hooks.",
}

_CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """One command. `rows`: options and their help; arguments that need none are in the usage."""

    path: str
    usage: str
    paragraphs: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]


def pages(command: click.Command = cli, parent: click.Context | None = None) -> Iterator[Page]:
    """A page for each command, groups before what is in them, in the order of `--help`."""
    name = "amend" if parent is None else command.name
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    records = (each.get_help_record(context) for each in command.get_params(context))
    rows = tuple(each for each in records if each and each[1] and "--help" not in each[0])
    yield Page(context.command_path, usage, _paragraphs(command.help or ""), rows)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            found.name = each  # a module may call its function differently
            yield from pages(found, context)


def _paragraphs(text: str) -> tuple[str, ...]:
    """Those of a docstring; one that begins with \\b has its lines as they are."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip().partition("\f")[0]):
        lines = [line.strip() for line in part.strip().splitlines()]
        if lines and lines[0] == "\b":
            found.append("\n".join(lines[1:]))
        elif lines:
            found.append(" ".join(lines))
    return tuple(found)


# -- to read here ----------------------------------------------------------------------------------


def as_text(width: int = WIDTH) -> str:
    out = click.HelpFormatter(width=width)
    first, *rest = pages()
    _text_section(out, "amend", (f"amend {version()}: {SUMMARY}.", first.usage, *ABOUT), first.rows)
    for page in rest:
        _text_section(out, page.usage, page.paragraphs, page.rows)
    _text_section(out, "Exit codes", rows=_exit_rows())
    _text_section(out, "Environment", rows=tuple(VARIABLES.items()))
    _text_section(out, "Files", rows=tuple(FILES.items()))
    return out.getvalue()


def _text_section(
    out: click.HelpFormatter,
    title: str,
    paragraphs: tuple[str, ...] = (),
    rows: tuple[tuple[str, str], ...] = (),
) -> None:
    out.write(f"{title}\n")
    with out.indentation():
        for paragraph in paragraphs:
            out.write_paragraph()
            # A line that was written as one stays one.
            out.write_text("\b\n" + paragraph if "\n" in paragraph else paragraph)
        if rows:
            out.write_paragraph()
            out.write_dl(rows)
    out.write_paragraph()


def _exit_rows() -> tuple[tuple[str, str], ...]:
    return tuple((str(int(code)), text) for code, text in EXIT_CODES.items())


# -- as a man page ---------------------------------------------------------------------------------


def as_roff() -> str:
    first, *rest = pages()
    lines = [
        f'.TH AMEND 1 "" "amend {_roff(version())}" "User Commands"',
        ".SH NAME",
        f"amend \\- {_roff(SUMMARY)}",
        ".SH SYNOPSIS",
        _roff_usage(first.usage),
        ".SH DESCRIPTION",
        *_roff_paragraphs(ABOUT),
        *_roff_rows(first.rows),
        ".SH COMMANDS",
    ]
    for page in rest:
        lines += [f".SS {_roff(page.path)}", _roff_usage(page.usage)]
        lines += [*_roff_paragraphs(page.paragraphs), *_roff_rows(page.rows)]
    for title, rows in (
        ("EXIT STATUS", _exit_rows()),
        ("ENVIRONMENT", tuple(VARIABLES.items())),
        ("FILES", tuple(FILES.items())),
    ):
        lines += [f".SH {title}", *_roff_rows(rows)]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Text that roff takes for text: no request, no escape, and hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = _CODE.sub(r"\\fB\1\\fR", text)
    return "\\&" + text if text.startswith((".", "'")) else text


def _roff_usage(usage: str) -> str:
    head, _, rest = usage.partition(" [")
    return f".B {_roff(head)}" + (f"\n[{_roff(rest)}" if rest else "")


def _roff_paragraphs(paragraphs: tuple[str, ...]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield ".PP"
        for number, line in enumerate(paragraph.splitlines()):
            if number:
                yield ".br"
            yield _roff(line)


def _roff_rows(rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", f"\\fB{_roff(term)}\\fR", _roff(text))


@click.command()
@click.option("--man", is_flag=True, help="As a man page: amend manual --man > amend.1")
def manual(*, man: bool) -> None:
    """Print everything about every command.

    \b
    As a man page, where man looks for yours:
    mkdir -p ~/.local/share/man/man1
    amend manual --man > ~/.local/share/man/man1/amend.1
    """
    if man:
        click.echo(as_roff(), nl=False)
    else:
        click.echo_via_pager(as_text())
