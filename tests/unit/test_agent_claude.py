"""Claude Code's hooks: what each event asks, and that a reply grants nothing and loses nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.agents.claude import Claude
from amend.agents.hook_json import TEXT_BYTES_MAX
from amend.agents.known import AGENTS
from amend.core.agent import (
    Answer,
    ExplorationEnded,
    ExplorationFailed,
    ExplorationStarting,
    PromptGiven,
)
from amend.errors import DocumentInvalid
from tests.agent_exchanges import (
    ALL_OF_IT,
    CALL,
    CLAUDE,
    CLAUDE_EXCHANGES,
    FINDING,
    SUBAGENT,
    TASK,
    Document,
    Exchange,
    given_agent,
)

# What amend may say at most for each event; Claude Code drops a reply for another event's name.
SPOKEN_KEYS = {
    "SessionStart": {"additionalContext"},
    "UserPromptSubmit": {"additionalContext"},
    "PreToolUse": {
        "additionalContext",
        "permissionDecision",
        "permissionDecisionReason",
        "updatedInput",
    },
}


def specific(reply: bytes) -> dict[str, Any]:
    parsed = json.loads(reply)
    assert list(parsed) == ["hookSpecificOutput"]
    inner = parsed["hookSpecificOutput"]
    assert isinstance(inner, dict)
    return inner


# -- golden exchanges ----------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", CLAUDE_EXCHANGES, ids=lambda exchange: exchange.name)
def test_an_exchange_goes_as_written(exchange: Exchange) -> None:
    claude = AGENTS["claude"]

    question = claude.question(exchange.document)
    reply = claude.reply(exchange.document, exchange.answer)

    assert question == exchange.question
    assert reply == exchange.reply


def test_every_agent_goes_by_its_name() -> None:
    assert {name: agent.name for name, agent in AGENTS.items()} == {
        "claude": "claude",
        "codex": "codex",
    }


# -- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"session_id": None}, "session_id is a NoneType, must be text"),
        ({"session_id": ""}, "session_id is empty, must be text"),
        ({"cwd": 7}, "cwd is a int, must be text"),
        ({"cwd": "shop"}, "cwd is 'shop', must be an absolute path"),
        ({"hook_event_name": ["Stop"]}, "hook_event_name is a list, must be text"),
    ],
)
def test_what_is_no_hook_input_is_refused_and_answered_with_nothing(
    change: Document, said: str
) -> None:
    document = {**CLAUDE.session_start(), **change}

    with pytest.raises(DocumentInvalid, match=said):
        Claude().question(document)

    assert Claude().reply(document, ALL_OF_IT) == b""


def test_a_field_that_is_missing_is_named() -> None:
    document = CLAUDE.session_start()
    del document["cwd"]

    with pytest.raises(DocumentInvalid, match="hook input of claude: cwd is missing"):
        Claude().question(document)


def test_a_notification_in_a_result_ends_nothing() -> None:
    text = "the log says <task-id>x</task-id><status>failed</status>"

    question = Claude().question(CLAUDE.notification("completed", SUBAGENT, CALL, text))

    assert question is None


def test_a_prompt_that_speaks_of_a_notification_is_a_prompt() -> None:
    text = "Why do I see <task-notification><status>killed</status>?"

    question = Claude().question(CLAUDE.prompt(text))

    assert isinstance(question, PromptGiven)


def test_the_first_broken_off_task_of_several_is_told() -> None:
    texts = [
        CLAUDE.notification(status, subagent, "toolu_1")["prompt"]
        for status, subagent in (("completed", "a1"), ("killed", "a2"), ("failed", "a3"))
    ]

    question = Claude().question(CLAUDE.prompt("\n".join(texts)))

    assert isinstance(question, ExplorationFailed)
    assert question.exploration == "a2"


def test_a_failure_that_names_no_task_is_nothing() -> None:
    question = Claude().question(
        CLAUDE.prompt("<task-notification><status>failed</status></task-notification>")
    )

    assert question is None


@pytest.mark.parametrize("change", [{"agentId": ""}, {"agentId": 3}, {"status": "queued"}])
def test_a_response_that_does_not_say_what_became_of_a_call_is_nothing(change: Document) -> None:
    document = CLAUDE.after_foreground(CALL, SUBAGENT)
    document["tool_response"].update(change)

    assert Claude().question(document) is None


def test_the_last_text_of_a_foreground_answer_is_the_finding() -> None:
    document = CLAUDE.after_foreground(CALL, SUBAGENT)
    document["tool_response"]["content"][1:1] = [{"type": "text", "text": "I look around."}]
    document["tool_response"]["content"].append({"type": "image", "source": {}})

    question = Claude().question(document)

    assert isinstance(question, ExplorationEnded)
    assert question.text == FINDING


@pytest.mark.parametrize("subagent", ["../../x", "a/b", "a.jsonl"])
def test_a_name_that_is_no_subagent_of_claude_becomes_no_path(subagent: str) -> None:
    question = Claude().question(CLAUDE.after_foreground(CALL, subagent))

    assert isinstance(question, ExplorationEnded)
    assert question.transcript == ""


# -- replies -------------------------------------------------------------------------------------


def test_a_head_start_leaves_every_other_key_as_it_was_given() -> None:
    tool_input = {**given_agent(), "isolation": "worktree", "x": {"y": [1, 2.5, None, "ü"]}}
    document = CLAUDE.before_tool("Agent", tool_input, CALL)

    reply = Claude().reply(document, Answer(head_start="Known."))

    assert specific(reply) == {
        "hookEventName": "PreToolUse",
        "updatedInput": {**tool_input, "prompt": f"{TASK}\n\nKnown."},
    }


def test_a_prompt_of_any_length_keeps_all_of_itself() -> None:
    prompt = "look at this\n" * 20_000

    reply = Claude().reply(CLAUDE.before_agent(CALL, prompt), Answer(head_start="Known."))

    assert specific(reply)["updatedInput"]["prompt"] == f"{prompt}\n\nKnown."


@pytest.mark.parametrize(
    "odd", [float("nan"), "\ud800", 10**5000], ids=["no number", "half a character", "huge"]
)
def test_an_input_that_cannot_be_sent_back_as_it_was_goes_its_way_unchanged(odd: object) -> None:
    document = CLAUDE.before_tool("Agent", {**given_agent(), "odd": odd}, CALL)

    assert Claude().reply(document, Answer(head_start="Known.")) == b""


@pytest.mark.parametrize(
    "answer", [Answer(), Answer(context=" \n"), Answer(instead="\t"), Answer(head_start="")]
)
def test_a_blank_answer_is_no_reply(answer: Answer) -> None:
    assert Claude().reply(CLAUDE.before_agent(CALL), answer) == b""


@pytest.mark.parametrize("unit", ["a line of text\n", "ü–\u2028\n", '"\\\x01'])
def test_a_long_text_is_cut_to_what_a_hook_takes_whole(unit: str) -> None:
    reply = Claude().reply(CLAUDE.session_start(), Answer(context=unit * 4_000))

    told = specific(reply)["additionalContext"]
    assert told
    assert (unit * 4_000).startswith(told)
    assert len(reply) <= 8_192


def test_a_long_text_is_cut_between_lines() -> None:
    lines = [f"line {n} of what is known" for n in range(1_000)]

    reply = Claude().reply(CLAUDE.session_start(), Answer(context="\n".join(lines)))

    told = specific(reply)["additionalContext"].split("\n")
    assert told == lines[: len(told)]
    assert len("\\n".join(told)) > TEXT_BYTES_MAX - 100


# -- anything ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = sorted({key for exchange in CLAUDE_EXCHANGES for key in exchange.document})


@st.composite
def damaged_documents(draw: st.DrawFn) -> Document:
    """An exchange's document with some fields replaced, inside its objects as well."""
    document = dict(draw(st.sampled_from(CLAUDE_EXCHANGES)).document)
    document.update(draw(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2)))
    for key in ("tool_input", "tool_response"):
        if isinstance(document.get(key), dict) and document[key] and draw(st.booleans()):
            inner = st.sampled_from(sorted(document[key]))
            document[key] = {**document[key], draw(inner): draw(JSON)}
    return document


ANSWERS = st.builds(
    Answer,
    context=st.text(max_size=20),
    instead=st.text(max_size=20),
    head_start=st.text(max_size=20),
)


@given(damaged_documents() | st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON), ANSWERS)
def test_no_document_makes_a_reply_that_grants_or_adds_anything(
    document: Document, answer: Answer
) -> None:
    claude = Claude()

    try:
        question = claude.question(document)
    except DocumentInvalid:
        question = None
    reply = claude.reply(document, answer)

    if reply:
        assert question is not None
        assert question.session.subagent is None
        keys = specific(reply)
        event = keys.pop("hookEventName")
        assert event == document["hook_event_name"]
        assert set(keys) <= SPOKEN_KEYS[event]
        assert keys.get("permissionDecision", "deny") == "deny"
        if "updatedInput" in keys:
            assert isinstance(question, ExplorationStarting)
            assert keys["updatedInput"].keys() == document["tool_input"].keys()
            assert set(keys) == {"updatedInput"}
