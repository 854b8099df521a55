"""Codex's hooks as amend's questions, and amend's answers as its hooks' replies.

Shapes as measured on 0.171, which knows two families of tools for subagents. Models before gpt-6
call `spawn_agent` with a message; later ones call `collaboration` + `spawn_agent` with a task name
and a message that only their provider can read.

Guarantees: a reply holds only keys of Codex's schema for its event (one that the schema does not
know, or a combination that it does not support, and Codex drops all of it); it grants nothing; it
is empty for what a subagent does, and for every event but SessionStart, UserPromptSubmit and
PreToolUse of the tool that starts subagents.

A head start is told beside the exploration: Codex takes `updatedInput` only together with the
decision `allow`, and amend decides nothing that an agent should ask its user about.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from amend.agents.hook_json import (
    PRE_TOOL,
    PROMPT,
    SESSION_START,
    context_reply,
    deny_reply,
    ended_in,
    event_of,
    object_in,
    objects_in,
    session_of,
    text_in,
)
from amend.core.agent import (
    Answer,
    ExplorationLaunched,
    ExplorationStarting,
    FilesEdited,
    PromptGiven,
    Question,
    Session,
    SessionOpened,
)
from amend.errors import DocumentInvalid

# A hook sees a tool's namespace and its name in one word.
_SPAWNING_TOOLS: Final = frozenset(
    {"spawn_agent", "multi_agent_v1spawn_agent", "collaborationspawn_agent"}
)
_EDITING_TOOL: Final = "apply_patch"

# What SubagentStop calls a subagent that was started without a type.
_DEFAULT_TYPE: Final = "default"

# The headers of a patch. Lines of a file's content begin with a sign or a blank, these do not.
_PATCHED: Final = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): *(\S(?:.*\S)?)", re.MULTILINE
)

# A message that the model's provider has sealed: one long word of base64. No task is that.
_SEALED: Final = re.compile(r"[A-Za-z0-9+/_=-]{64,}")

# An answer to spawn_agent is an id and a name. Anything much longer is something else, and is not
# worth parsing.
_RESPONSE_CHARACTERS_MAX: Final = 65_536


class Codex:
    @property
    def name(self) -> str:
        return "codex"

    def question(self, document: Mapping[str, object]) -> Question | None:
        event = event_of(document, self.name)
        session = session_of(document, self.name)
        match event:
            case "SessionStart" if session.subagent is None:
                return SessionOpened(session, text_in(document, "source"))
            case "UserPromptSubmit" if session.subagent is None:
                prompt = text_in(document, "prompt")
                return PromptGiven(session, prompt) if prompt.strip() else None
            case "PreToolUse":
                return _before_tool(session, document)
            case "PostToolUse":
                return _after_tool(session, document)
            case "SubagentStop":
                return ended_in(session, document)
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
            case ExplorationStarting():
                return context_reply(PRE_TOOL, answer.head_start or answer.context)
            case _:
                return b""


def _before_tool(session: Session, document: Mapping[str, object]) -> Question | None:
    given = object_in(document, "tool_input")
    prompt = _task(given)
    # "find_the_auth_system": all that a hook can read where the message is sealed.
    description = text_in(given, "task_name").replace("_", " ")
    if text_in(document, "tool_name") not in _SPAWNING_TOOLS or not (prompt or description):
        return None
    return ExplorationStarting(
        session,
        call=text_in(document, "tool_use_id"),
        agent_type=text_in(given, "agent_type").strip() or _DEFAULT_TYPE,
        description=description,
        prompt=prompt,
        given=given,
    )


def _task(given: Mapping[str, object]) -> str:
    message = text_in(given, "message")
    if not message:
        message = "\n".join(
            text for item in objects_in(given, "items") if (text := text_in(item, "text"))
        )
    return "" if _SEALED.fullmatch(message) else message


def _after_tool(session: Session, document: Mapping[str, object]) -> Question | None:
    tool = text_in(document, "tool_name")
    if tool in _SPAWNING_TOOLS:
        exploration = _started(document)
        call = text_in(document, "tool_use_id")
        return ExplorationLaunched(session, call, exploration) if exploration else None
    if tool == _EDITING_TOOL:
        patch = text_in(object_in(document, "tool_input"), "command")
        paths = tuple(dict.fromkeys(_PATCHED.findall(patch)))
        return FilesEdited(session, paths) if paths else None
    return None


def _started(document: Mapping[str, object]) -> str:
    """The id of the subagent that a call has started; "" where the response tells none.

    A sealed task's response only tells its path among the tasks, which SubagentStop does not.
    """
    if response := object_in(document, "tool_response"):
        return text_in(response, "agent_id")
    written = text_in(document, "tool_response")
    if len(written) > _RESPONSE_CHARACTERS_MAX:
        return ""
    try:
        parsed: object = json.loads(written)
    except (ValueError, RecursionError):
        return ""
    return text_in(parsed, "agent_id") if isinstance(parsed, dict) else ""
