"""`ask`: a question in words, what it may be about, and the answer where that is certain."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

from typing import TYPE_CHECKING, Any, Final

import click

from amend.cli.asking import ask as answer_of
from amend.cli.entries import print_lookup
from amend.cli.exits import Exit, exit_of
from amend.cli.options import cwd_option, json_option, kind_option
from amend.cli.show import clean, print_json, verdict_word
from amend.errors import RequestInvalid

if TYPE_CHECKING:
    from amend.formats.api import Backend, LookupAnswer, MatchJson

# As the API takes them.
QUESTION_CHARS_MAX: Final = 4000


@click.command()
@click.argument("question", nargs=-1, required=True)
@kind_option
@cwd_option
@json_option
def ask(question: tuple[str, ...], kind: str | None, cwd: str, as_json: bool) -> Exit:
    """Find the entry that QUESTION is about, and show it if that is certain.

    Prints what else it may be about, best first, and why. Exits as `get`; 4 where none is certain.
    """
    text = " ".join(question).strip()
    if not 0 < len(text) <= QUESTION_CHARS_MAX:
        raise RequestInvalid(
            f"the question has {len(text)} characters, must have 1 to {QUESTION_CHARS_MAX}",
            hint="ask in a sentence or a paragraph",
        )
    asked = {"cwd": cwd, "question": text, "kind": kind}

    async def offline(backend: "Backend") -> Any:
        from amend.formats.api import LookupRequest

        return await backend.lookup(LookupRequest.model_validate(asked))

    answer: LookupAnswer = answer_of(cwd, lambda client: client.post("/v1/lookup", asked), offline)
    if as_json:
        print_json(answer)
    else:
        _print_answer(answer)
    return exit_of(answer["verdict"])


def _print_answer(answer: "LookupAnswer") -> None:
    for match in answer.get("matches", []):
        _print_match(match)
    if "entry" in answer:
        print_lookup(answer, answer["entry"]["key"])
        return
    nothing = "no entry is certain to answer this" if answer.get("matches") else "no entry fits"
    click.echo(f"{verdict_word(answer['verdict'])}  {nothing}")


def _print_match(match: "MatchJson") -> None:
    certain = "  certain" if match["confident"] else ""
    click.echo(f"{match['score']:.2f}  {match['kind']} {clean(match['key'])}{certain}")
    for reason in match["why"]:
        click.echo(f"      {clean(reason)}")
