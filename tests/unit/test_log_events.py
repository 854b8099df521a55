"""The catalogue of the log's events: complete, and nothing besides.

What the code logs is found in its syntax tree: each call such as `self._log.info("name", …)`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from amend.daemon.log_events import EVENTS, Role, page

ROOT = Path(__file__).parents[2]
LEVELS = ("debug", "info", "warning", "error")

# The log itself, and what gives uvicorn a logger that says nothing.
SILENCED = (ROOT / "amend/daemon/logs.py", ROOT / "amend/edge/serve/protocol.py")

# Written by `Log` about itself, from the catalogue and not by name.
BY_THE_LOG = {"log_lines_dropped", "log_file_failed", "log_file_resumed", "log_event_unknown"}


@dataclass(frozen=True)
class Call:
    place: str
    level: str
    event: ast.expr
    facts: tuple[str | None, ...]  # None: `**facts`

    @property
    def name(self) -> str:
        assert isinstance(self.event, ast.Constant), f"{self.place}: the event is no literal"
        return str(self.event.value)


def is_log(called: ast.expr) -> bool:
    """Whether it is `log`, `self._log`, `….log`."""
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    return name in ("log", "_log")


def calls_in(path: Path) -> Iterator[Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in (*LEVELS, "log") and is_log(node.func.value):
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            assert node.args, place
            facts = tuple(keyword.arg for keyword in node.keywords)
            yield Call(place, node.func.attr, node.args[0], facts)


# `Log` itself hands on what it was given.
CALLS = [
    call
    for path in sorted((ROOT / "amend").rglob("*.py"))
    if path.name != "logs.py"
    for call in calls_in(path)
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.place)
def test_what_the_code_logs_is_in_the_catalogue(call: Call) -> None:
    assert call.level in LEVELS, f"{call.place}: its level must be told by the method"
    assert call.name in EVENTS, f"{call.place}: {call.name} is not in amend/daemon/log_events.py"
    event = EVENTS[call.name]

    assert call.level == event.level
    assert None not in call.facts, f"{call.place}: facts must be named"
    assert set(call.facts) <= event.known


def test_what_is_in_the_catalogue_is_logged_somewhere_with_each_of_its_facts() -> None:
    logged: dict[str, set[str | None]] = {}
    for call in CALLS:
        logged.setdefault(call.name, set()).update(call.facts)

    unused = {
        f"{name}.{fact}" if fact else name
        for name, event in EVENTS.items()
        if name not in BY_THE_LOG
        for fact in ({None} if name not in logged else event.known - logged[name])
    }

    assert unused == set()


def test_nothing_else_in_amend_writes_a_log() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "amend").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
        if name.partition(".")[0] in ("logging", "structlog") and path not in SILENCED
    ]

    assert offenders == []


def test_the_page_says_what_the_catalogue_says() -> None:
    written = (ROOT / "docs/log-events.md").read_text()

    assert written == page(), "python -m amend.daemon.log_events > docs/log-events.md"


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: event.name)
def test_an_event_of_the_catalogue_is_well_formed(event: object) -> None:
    from amend.daemon.log_events import Event

    assert isinstance(event, Event)
    names = [fact.name for fact in event.facts]
    assert event.name.replace("_", "").isalpha()
    assert event.name.islower()
    assert event.level in LEVELS
    assert len(set(names)) == len(names)
    assert "suppressed" not in names
    for fact in event.facts:
        assert fact.role is not Role.SUM or fact.type is int
        assert not (fact.private and fact.role is Role.BY), "it would tell by being told apart"


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: event.name)
def test_what_may_hold_a_path_or_somebodys_words_is_private(event: object) -> None:
    from amend.daemon.log_events import Event

    assert isinstance(event, Event)
    if event.level == "debug":
        return
    open_facts = {fact.name for fact in event.facts if not fact.private}

    assert not open_facts & {
        *("path", "paths", "root", "file", "key", "keys", "detail", "hint", "sources_text"),
        *("problem_texts", "question", "summary", "prompt", "task", "cwd", "subject", "message"),
    }
