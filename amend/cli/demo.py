"""`demo`: the promise, step by step, on real files, real commits and a real daemon.

Each step does something to a cited file and holds only if the verdict, and why, are what DESIGN
section 4 says. The first that does not hold ends the demo with its name and exit 1.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import click

from amend.cli.demo_stage import Stage, StepFailed, open_stage
from amend.cli.options import json_option
from amend.cli.show import clean, print_json, sentence, verdict_word
from amend.errors import AmendError

if TYPE_CHECKING:
    from amend.formats.api import CauseJson, ChangeJson, LookupAnswer

KEY: Final = "how-it-hangs-together"
FINDING: Final = "these three files hang together; nothing else needs to be read"
OTHER_FINDING: Final = "on this branch the first of the three says more"
EDIT: Final = b"\n# somebody is editing here\n"
SUBJECT: Final = "demo: say something more"


@dataclass(frozen=True)
class Held:
    """A step that held: what was done, the verdict, why, and what was measured."""

    step: str
    verdict: str
    said: str = ""
    ms: dict[str, float] = field(default_factory=dict)


Step = Callable[[Stage], Held]


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Show what amend does, on a temporary clone of this repository.

    Starts a daemon of its own, changes nothing of yours, takes a few seconds.
    """
    held: list[Held] = []
    started_s = time.perf_counter()
    with open_stage() as stage:
        if not as_json:
            click.echo(f"amend demo: {stage.ground.what}, a real daemon, real commits\n")
        for name, step in STEPS:
            try:
                done = step(stage)
            except AmendError as error:
                raise StepFailed(f"step {name!r}: {error.message}", hint=error.hint) from error
            held.append(done)
            if not as_json:
                _print(done)
    seconds = time.perf_counter() - started_s
    if as_json:
        print_json({"held": [asdict(each) for each in held], "seconds": round(seconds, 2)})
    else:
        click.echo(f"\nall {len(held)} steps held, in {seconds:.1f} s")


def _print(held: Held) -> None:
    measured = ", ".join(f"{_ms(ms)} {what}" for what, ms in held.ms.items())
    click.echo(f"  {clean(held.step):38}{verdict_word(held.verdict)}  {measured or held.said}")
    if measured and held.said:
        click.echo(f"  {'':38}{'':7}  {held.said}")


def _ms(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"


def _start(stage: Stage) -> Held:
    stage.add()
    return Held("start the daemon, add the clone", "", ms={"until ready": stage.ready_s * 1e3})


def _store(stage: Stage) -> Held:
    answer = stage.put(KEY, FINDING)
    _must(answer["entry"]["verdict"], "fresh", "the stored entry", answer["entry"]["causes"])
    return Held("store a finding on three files", "fresh", said=", ".join(stage.ground.files))


def _ask(stage: Stage) -> Held:
    answer, ms = _answer(stage, "fresh", summary=FINDING)
    _no_causes(answer)
    return Held("ask", "fresh", ms={"to verify all three and answer": ms})


def _edit(stage: Stage) -> Held:
    file = stage.ground.files[0]
    path = stage.ground.root / file
    text = path.read_bytes()
    stage.sync()
    started_s = time.perf_counter()
    path.write_bytes(text + EDIT)
    stage.event(lambda change: change["verdict"] == "stale", "stale")
    ms = (time.perf_counter() - started_s) * 1e3
    stage.sync()
    answer, _ = _answer(stage, "stale", cause="edited")
    if answer["causes"][0].get("settled") is False:
        raise StepFailed("git has not been asked whether the edit is committed")
    return Held(f"edit {file}", "stale", _why(answer), {"from write to mark": ms})


def _undo(stage: Stage) -> Held:
    file = stage.ground.files[0]
    path = stage.ground.root / file
    text = path.read_bytes().removesuffix(EDIT)
    stage.sync()
    started_s = time.perf_counter()
    path.write_bytes(text)
    stage.event(lambda change: change["verdict"] == "fresh", "fresh again")
    ms = (time.perf_counter() - started_s) * 1e3
    answer, _ = _answer(stage, "fresh")
    _no_causes(answer)
    return Held("undo", "fresh", ms={"from write to mark taken back": ms})


def _commit(stage: Stage) -> Held:
    stage.sync()
    _commit_a_line(stage, SUBJECT)
    returned_s = time.perf_counter()

    def wanted(change: "ChangeJson") -> bool:
        return any("commit" in cause for cause in change["causes"])

    change = stage.event(wanted, "committed, with the commit")
    ms = (time.perf_counter() - returned_s) * 1e3
    if not change["refined"]:
        raise StepFailed("the commit came without a mark before it")
    answer, _ = _answer(stage, "stale", cause="committed")
    commit = answer["causes"][0].get("commit")
    if commit is None or commit["subject"] != SUBJECT:
        raise StepFailed(f"the cause names {commit}, must name the commit {SUBJECT!r}")
    return Held("commit a change", "stale", _why(answer), {"from git's return to its name": ms})


def _revert(stage: Stage) -> Held:
    stage.sync()
    stage.git("revert", "--no-edit", "HEAD")
    returned_s = time.perf_counter()
    answer, _ = _answer(stage, "fresh", summary=FINDING)
    ms = (time.perf_counter() - returned_s) * 1e3
    _no_causes(answer)
    stage.event(lambda change: change["verdict"] == "fresh", "fresh again")
    return Held("git revert", "fresh", ms={"from git's return to the answer": ms})


def _branch(stage: Stage) -> Held:
    stage.git("switch", "-q", "-c", "other")
    _commit_a_line(stage, "demo: another branch, another truth")
    stage.sync()
    _answer(stage, "stale", cause="committed")
    stage.put(KEY, OTHER_FINDING)
    answer, _ = _answer(stage, "fresh", summary=OTHER_FINDING)
    _no_causes(answer)
    said = "a second version of the finding, true on this branch"
    return Held("commit and store on another branch", "fresh", said)


def _back_and_forth(stage: Stage) -> Held:
    slowest = 0.0
    for branch, summary in (("demo", FINDING), ("other", OTHER_FINDING)) * 2 + (("demo", FINDING),):
        stage.git("switch", "-q", branch)
        # Asked at once, and again when all is settled: the answer is the branch's own both times.
        _, ms = _answer(stage, "fresh", summary=summary)
        slowest = max(slowest, ms)
        stage.sync()
        _answer(stage, "fresh", summary=summary)
    said = "each branch answered with its own version"
    return Held("git switch, five times", "fresh", said, {"at most, to the answer": slowest})


def _move(stage: Stage) -> Held:
    old, new = stage.ground.files[1], _moved(stage)
    stage.git("mv", old, new)
    stage.sync()
    answer, _ = _answer(stage, "fresh", cause="moved")
    if answer["causes"][0].get("moved_to") != new:
        raise StepFailed(f"the cause is {sentence(answer['causes'][0])!r}, must lead to {new}")
    return Held("git mv", "fresh", _why(answer))


def _delete(stage: Stage) -> Held:
    stage.sync()
    started_s = time.perf_counter()
    (stage.ground.root / _moved(stage)).unlink()

    def wanted(change: "ChangeJson") -> bool:
        return change["verdict"] == "stale" and _has(change["causes"], "deleted")

    stage.event(wanted, "stale, deleted")
    ms = (time.perf_counter() - started_s) * 1e3
    answer, _ = _answer(stage, "stale", cause="deleted")
    # No version is supported now, so the newest one answers: that of the other branch, which has
    # more causes than the one this step is about.
    (deleted,) = (cause for cause in answer["causes"] if cause["cause"] == "deleted")
    return Held("delete it", "stale", sentence(deleted), {"from unlink to mark": ms})


def _moved(stage: Stage) -> str:
    folder, _, name = stage.ground.files[1].rpartition("/")
    return f"{folder}/moved_{name}"


def _commit_a_line(stage: Stage, subject: str) -> None:
    with (stage.ground.root / stage.ground.files[0]).open("a") as file:
        file.write(f"\n# {subject}\n")
    stage.git("commit", "-q", "-a", "-m", subject)


def _answer(
    stage: Stage, verdict: str, *, cause: str | None = None, summary: str | None = None
) -> tuple["LookupAnswer", float]:
    answer, ms = stage.ask(KEY)
    _must(answer["verdict"], verdict, "the answer", answer["causes"])
    if cause is not None and not _has(answer["causes"], cause):
        raise StepFailed(f"the causes are {_why(answer) or 'none'}, must hold one {cause}")
    entry = answer.get("entry")
    if summary is not None and (entry is None or entry["summary"] != summary):
        said = None if entry is None else entry["summary"]
        raise StepFailed(f"the version is {said!r}, must be {summary!r}")
    return answer, ms


def _must(verdict: str, wanted: str, what: str, causes: list["CauseJson"]) -> None:
    if verdict != wanted:
        why = "; ".join(sentence(cause) for cause in causes)
        raise StepFailed(f"{what} is {verdict}{f' ({why})' if why else ''}, must be {wanted}")


def _no_causes(answer: "LookupAnswer") -> None:
    if answer["causes"]:
        raise StepFailed(f"fresh, but with causes: {_why(answer)}")


def _has(causes: list["CauseJson"], kind: str) -> bool:
    return any(cause["cause"] == kind for cause in causes)


def _why(answer: "LookupAnswer") -> str:
    return "; ".join(sentence(cause) for cause in answer["causes"])


STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("start", _start),
    ("store", _store),
    ("ask", _ask),
    ("edit", _edit),
    ("undo", _undo),
    ("commit", _commit),
    ("revert", _revert),
    ("branch", _branch),
    ("switch", _back_and_forth),
    ("move", _move),
    ("delete", _delete),
)
