"""Claude Code's hooks as amend's questions, and amend's answers as its hooks' replies.

Shapes as measured on 2.1.197 and 2.1.332. Its subagents run in the background by default, so what
one found comes with SubagentStop, and PostToolUse only says which call started which subagent; in
the foreground PostToolUse carries the finding as well.

Guarantees: a reply is either context, a deny or a rewritten prompt; it grants nothing (never
`allow` or `ask`), and is empty for what a subagent does and for every event but SessionStart,
UserPromptSubmit and PreToolUse of the tool that starts subagents. Above all for SubagentStop, where
any output makes the subagent run again.
"""

import re
from collections.abc import Mapping
from typing import Final

from amend.agents.hook_json import (
    PRE_TOOL,
    PROMPT,
    SESSION_START,
    bounded,
    context_reply,
    deny_reply,
    ended_in,
    event_of,
    object_in,
    objects_in,
    session_of,
    specific_reply,
    text_in,
)
from amend.core.agent import (
    Answer,
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
    FilesEdited,
    PromptGiven,
    Question,
    Session,
    SessionOpened,
)
from amend.errors import DocumentInvalid

# `Task` is the tool's name before 2.1.63, and still accepted.
_SPAWNING_TOOLS: Final = frozenset({"Agent", "Task"})

_EDITED_PATH: Final[Mapping[str, str]] = {
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "Write": "file_path",
}

# Claude Code gives the end of a background task to the main agent as a prompt of this form.
_NOTIFICATION: Final = "<task-notification>"
# What stands behind these tags is the subagent's own text, which may say anything.
_FREE_TEXT: Final = re.compile(r"<(?:summary|result)>")
_TAG: Final = re.compile(r"<(task-id|tool-use-id|status)>([^<]*)</\1>")
_BROKEN_OFF: Final = frozenset({"failed", "killed"})

# 2.1.332 puts a list of the tools used before the finding, in a block of its own; 2.1.197 does not.
_TOOLS_USED: Final = "<tools-used-before-summary>"

# As Claude Code names subagents, and only such names are part of a path.
_SUBAGENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Claude:
    @property
    def name(self) -> str:
        return "claude"

    def question(self, document: Mapping[str, object]) -> Question | None:
        event = event_of(document, self.name)
        session = session_of(document, self.name)
        match event:
            case "SessionStart" if session.subagent is None:
                return SessionOpened(session, text_in(document, "source"))
            case "UserPromptSubmit" if session.subagent is None:
                return _prompt_given(session, text_in(document, "prompt"))
            case "PreToolUse":
                return _before_tool(session, document)
            case "PostToolUse":
                return _after_tool(session, document)
            case "PostToolUseFailure":
                return _after_failure(session, document)
            case "SubagentStop":
                return ended_in(session, document)
            case "StopFailure" if session.subagent is not None:
                return ExplorationFailed(session, exploration=session.subagent)
            case _:
                return None

    def reply(self, document: Mapping[str, object], answer: Answer) -> bytes:
        try:
            question = self.question(document)
        except DocumentInvalid:
            return b""
        if question is None or question.session.subagent is not None:
            return b""
        match question:
            case SessionOpened():
                return context_reply(SESSION_START, answer.context)
            case PromptGiven():
                return context_reply(PROMPT, answer.context)
            case ExplorationStarting() if answer.instead:
                return deny_reply(answer.instead)
            case ExplorationStarting() if answer.head_start:
                return _head_start(question, answer.head_start)
            case ExplorationStarting():
                return context_reply(PRE_TOOL, answer.context)
            case _:
                return b""


def _head_start(question: ExplorationStarting, text: str) -> bytes:
    # The whole input replaces the whole input: Claude Code fails a call with a key too few.
    prompt = f"{question.prompt}\n\n{bounded(text)}"
    return specific_reply(PRE_TOOL, {"updatedInput": {**question.given, "prompt": prompt}})


def _prompt_given(session: Session, prompt: str) -> Question | None:
    if not prompt.lstrip().startswith(_NOTIFICATION):
        return PromptGiven(session, prompt) if prompt.strip() else None
    # One prompt may hold several; at most one of them can be told, and the first will do: what
    # is not told expires.
    for block in prompt.split(_NOTIFICATION)[1:]:
        head = _FREE_TEXT.split(block, maxsplit=1)[0]
        told = {tag: value.strip() for tag, value in _TAG.findall(head)}
        exploration, call = told.get("task-id", ""), told.get("tool-use-id", "")
        if told.get("status") in _BROKEN_OFF and (exploration or call):
            return ExplorationFailed(session, exploration=exploration, call=call)
    return None


def _before_tool(session: Session, document: Mapping[str, object]) -> Question | None:
    given = object_in(document, "tool_input")
    prompt = text_in(given, "prompt")
    if text_in(document, "tool_name") not in _SPAWNING_TOOLS or not prompt:
        return None
    return ExplorationStarting(
        session,
        call=text_in(document, "tool_use_id"),
        agent_type=text_in(given, "subagent_type"),
        description=text_in(given, "description"),
        prompt=prompt,
        given=given,
    )


def _after_tool(session: Session, document: Mapping[str, object]) -> Question | None:
    tool = text_in(document, "tool_name")
    if tool in _SPAWNING_TOOLS:
        return _after_spawning(session, document)
    if tool in _EDITED_PATH:
        path = text_in(object_in(document, "tool_input"), _EDITED_PATH[tool])
        return FilesEdited(session, (path,)) if path else None
    return None


def _after_spawning(session: Session, document: Mapping[str, object]) -> Question | None:
    given = object_in(document, "tool_input")
    response = object_in(document, "tool_response")
    call = text_in(document, "tool_use_id")
    exploration = text_in(response, "agentId")
    status = text_in(response, "status")
    if not exploration:
        return None
    if response.get("isAsync") is True or status == "async_launched":
        return ExplorationLaunched(session, call=call, exploration=exploration)
    if status != "completed":
        return None
    return ExplorationEnded(
        session,
        exploration=exploration,
        agent_type=text_in(response, "agentType") or text_in(given, "subagent_type"),
        text=_found(response),
        transcript=_transcript(text_in(document, "transcript_path"), exploration),
        call=call,
        prompt=text_in(given, "prompt"),
        description=text_in(given, "description"),
    )


def _found(response: Mapping[str, object]) -> str:
    blocks = [text_in(block, "text") for block in objects_in(response, "content")]
    findings = [text for text in blocks if text and not text.lstrip().startswith(_TOOLS_USED)]
    return findings[-1] if findings else ""


def _transcript(of_session: str, exploration: str) -> str:
    """Where Claude Code keeps what a subagent of this session did; "" where that is not known."""
    folder = of_session.removesuffix(".jsonl")
    if folder in ("", of_session) or not _SUBAGENT_ID.fullmatch(exploration):
        return ""
    return f"{folder}/subagents/agent-{exploration}.jsonl"


def _after_failure(session: Session, document: Mapping[str, object]) -> Question | None:
    call = text_in(document, "tool_use_id")
    if text_in(document, "tool_name") not in _SPAWNING_TOOLS or not call:
        return None
    return ExplorationFailed(session, call=call)
