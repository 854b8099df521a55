"""Codex's hooks: what each event asks, and that its schema takes every reply."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.agents.codex import Codex
from amend.core.agent import Answer, ExplorationLaunched, ExplorationStarting, FilesEdited
from amend.errors import DocumentInvalid
from tests.agent_exchanges import (
    ALL_OF_IT,
    CODEX,
    CODEX_CALL,
    CODEX_EXCHANGES,
    CODEX_SUBAGENT,
    TASK,
    Document,
    Exchange,
)

# The keys that Codex's published output schemas allow (repository openai/codex, folder
# codex-rs/hooks/schema/generated; every object there has additionalProperties: false). Of keys
# that only some of its versions know, none is listed.
EVERYWHERE = {"continue", "stopReason", "suppressOutput", "systemMessage"}
TOP_KEYS = {
    "SessionStart": EVERYWHERE | {"hookSpecificOutput"},
    "UserPromptSubmit": EVERYWHERE | {"decision", "reason", "hookSpecificOutput"},
    "PreToolUse": EVERYWHERE | {"decision", "reason", "hookSpecificOutput"},
}
SPECIFIC_KEYS = {
    "SessionStart": {"hookEventName", "additionalContext"},
    "UserPromptSubmit": {"hookEventName", "additionalContext"},
    "PreToolUse": {
        "hookEventName",
        "additionalContext",
        "permissionDecision",
        "permissionDecisionReason",
        "updatedInput",
    },
}

SEALED = "gAAAAABp" + "Zx9-_k" * 40 + "=="


def assert_codex_takes(reply: bytes, event: str) -> None:
    parsed: dict[str, Any] = json.loads(reply)
    inner: dict[str, Any] = parsed["hookSpecificOutput"]
    assert set(parsed) <= TOP_KEYS[event]
    assert set(inner) <= SPECIFIC_KEYS[event]
    assert inner["hookEventName"] == event
    # Its parser's rules (codex-rs/hooks/src/engine/output_parser.rs) beyond the schema: a deny has
    # a reason, a reason has a decision, and updatedInput stands with `allow`, which amend never
    # says.
    assert inner.get("permissionDecision", "deny") == "deny"
    assert ("permissionDecision" in inner) == ("permissionDecisionReason" in inner)
    assert inner.get("permissionDecisionReason", "a reason").strip()
    assert "updatedInput" not in inner
    assert all(isinstance(value, str) for value in inner.values())


# -- golden exchanges ----------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", CODEX_EXCHANGES, ids=lambda exchange: exchange.name)
def test_an_exchange_goes_as_written(exchange: Exchange) -> None:
    codex = Codex()

    question = codex.question(exchange.document)
    reply = codex.reply(exchange.document, exchange.answer)

    assert question == exchange.question
    assert reply == exchange.reply
    if reply:
        assert_codex_takes(reply, exchange.document["hook_event_name"])


# -- questions -----------------------------------------------------------------------------------


def test_a_document_without_a_session_is_refused_and_answered_with_nothing() -> None:
    document = CODEX.session_start()
    del document["session_id"]

    with pytest.raises(DocumentInvalid, match="hook input of codex: session_id is missing"):
        Codex().question(document)

    assert Codex().reply(document, ALL_OF_IT) == b""


@pytest.mark.parametrize(
    "tool", ["spawn_agent", "multi_agent_v1spawn_agent", "collaborationspawn_agent"]
)
def test_a_subagent_is_started_under_any_of_the_names(tool: str) -> None:
    question = Codex().question(CODEX.before_tool(tool, {"message": TASK}, CODEX_CALL))

    assert isinstance(question, ExplorationStarting)
    assert question.prompt == TASK


def test_the_texts_of_a_message_in_parts_are_one_prompt() -> None:
    items = [
        {"type": "text", "text": "Look at auth."},
        {"type": "local_image", "path": "/a.png"},
        {"type": "text", "text": "And at sessions."},
    ]

    question = Codex().question(CODEX.before_tool("spawn_agent", {"items": items}, CODEX_CALL))

    assert isinstance(question, ExplorationStarting)
    assert question.prompt == "Look at auth.\nAnd at sessions."


def test_a_sealed_message_is_no_prompt_and_the_task_is_described_by_its_name() -> None:
    tool_input = {"message": SEALED, "task_name": "find_auth_system"}

    question = Codex().question(
        CODEX.before_tool("collaborationspawn_agent", tool_input, CODEX_CALL)
    )

    assert isinstance(question, ExplorationStarting)
    assert question.prompt == ""
    assert question.description == "find auth system"
    assert question.given == tool_input


@pytest.mark.parametrize("message", ["", SEALED])
def test_a_task_that_says_nothing_is_nothing(message: str) -> None:
    document = CODEX.before_tool("spawn_agent", {"message": message}, CODEX_CALL)

    assert Codex().question(document) is None


@pytest.mark.parametrize(
    "response",
    ["", "agent thread limit reached", "[]", '{"agent_id":7}', "[" * 5_000, "1" * 5_000, 3, None],
    ids=["empty", "words", "a list", "a number inside", "deep", "huge", "a number", "nothing"],
)
def test_a_response_without_an_id_launched_nothing(response: object) -> None:
    document = CODEX.after_tool("spawn_agent", {"message": TASK}, response, CODEX_CALL)

    assert Codex().question(document) is None


def test_a_response_that_is_an_object_is_read_as_well() -> None:
    response = {"agent_id": CODEX_SUBAGENT}

    question = Codex().question(
        CODEX.after_tool("spawn_agent", {"message": TASK}, response, CODEX_CALL)
    )

    assert isinstance(question, ExplorationLaunched)
    assert question.exploration == CODEX_SUBAGENT


def test_a_patch_with_foreign_line_endings_names_its_files() -> None:
    patch = "*** Begin Patch\r\n*** Update File: src/a.py  \r\n@@\r\n-a\r\n+b\r\n*** End Patch\r\n"

    question = Codex().question(CODEX.after_patch(patch))

    assert isinstance(question, FilesEdited)
    assert question.paths == ("src/a.py",)


# -- anything ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = sorted({key for exchange in CODEX_EXCHANGES for key in exchange.document})


@st.composite
def damaged_documents(draw: st.DrawFn) -> Document:
    """An exchange's document with some fields replaced, inside its input as well."""
    document = dict(draw(st.sampled_from(CODEX_EXCHANGES)).document)
    document.update(draw(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2)))
    tool_input = document.get("tool_input")
    if isinstance(tool_input, dict) and tool_input and draw(st.booleans()):
        inner = st.sampled_from(sorted(tool_input))
        document["tool_input"] = {**tool_input, draw(inner): draw(JSON)}
    return document


ANSWERS = st.builds(
    Answer,
    context=st.text(max_size=20),
    instead=st.text(max_size=20),
    head_start=st.text(max_size=20),
)


@given(damaged_documents() | st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON), ANSWERS)
def test_no_document_makes_a_reply_that_codex_would_drop(
    document: Document, answer: Answer
) -> None:
    codex = Codex()

    try:
        question = codex.question(document)
    except DocumentInvalid:
        question = None
    reply = codex.reply(document, answer)

    if reply:
        assert question is not None
        assert question.session.subagent is None
        assert_codex_takes(reply, document["hook_event_name"])
