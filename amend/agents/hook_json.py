"""What the hooks of every agent have in common: how their JSON is read and how a reply is written.

Guarantees: a document without a session, an absolute directory and an event is `DocumentInvalid`;
every other field of another type counts as not there, since agents change their shapes; a reply is
JSON of bounded size, or nothing, and never an error.
"""

import json
from collections.abc import Mapping
from typing import Final

from amend.core.agent import ExplorationEnded, Session
from amend.errors import DocumentInvalid

# Both agents take 10,000 characters of a hook whole and show a preview of anything longer. This
# leaves room for what stands around the text, so that a reply stays below 8 KiB.
TEXT_BYTES_MAX: Final = 7_936

# What one character needs at most in JSON that is UTF-8: a control character as \uXXXX.
_CHARACTER_BYTES_MAX: Final = 6

_NOTHING_THERE: Final[Mapping[str, object]] = {}

SESSION_START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
PRE_TOOL: Final = "PreToolUse"


def text_in(document: Mapping[str, object], key: str) -> str:
    """The text under `key`, "" where there is none."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def object_in(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under `key`, an empty one where there is none."""
    value = document.get(key)
    return value if isinstance(value, dict) else _NOTHING_THERE


def objects_in(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """The objects of the list under `key`, in order."""
    value = document.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def event_of(document: Mapping[str, object], agent: str) -> str:
    """Raises DocumentInvalid where the document names none."""
    return _required(document, agent, "hook_event_name")


def session_of(document: Mapping[str, object], agent: str) -> Session:
    """Raises DocumentInvalid for a document that names no session or no absolute directory."""
    directory = _required(document, agent, "cwd")
    if not directory.startswith("/"):
        raise DocumentInvalid(
            f"hook input of {agent}: cwd is {directory[:80]!r}, must be an absolute path",
            hint="send the hook's input as the agent wrote it",
        )
    return Session(
        agent=agent,
        id=_required(document, agent, "session_id"),
        directory=directory,
        subagent=text_in(document, "agent_id") or None,
    )


def ended_in(session: Session, document: Mapping[str, object]) -> ExplorationEnded | None:
    """What a SubagentStop tells. None without a type: a compaction's summary is no finding."""
    agent_type = text_in(document, "agent_type")
    if session.subagent is None or not agent_type:
        return None
    return ExplorationEnded(
        session,
        exploration=session.subagent,
        agent_type=agent_type,
        text=text_in(document, "last_assistant_message"),
        transcript=text_in(document, "agent_transcript_path"),
    )


def _required(document: Mapping[str, object], agent: str, key: str) -> str:
    if text := text_in(document, key):
        return text
    found = f"is a {type(document[key]).__name__}" if key in document else "is missing"
    if document.get(key) == "":
        found = "is empty"
    raise DocumentInvalid(
        f"hook input of {agent}: {key} {found}, must be text",
        hint="send the hook's input as the agent wrote it",
    )


def context_reply(event: str, text: str) -> bytes:
    """`text` told beside what happens anyway; b"" for a blank one."""
    if not text.strip():
        return b""
    return specific_reply(event, {"additionalContext": bounded(text)})


def deny_reply(reason: str) -> bytes:
    """`reason` told in place of what the tool would have said; b"" for a blank one."""
    if not reason.strip():
        return b""
    return specific_reply(
        PRE_TOOL,
        {"permissionDecision": "deny", "permissionDecisionReason": bounded(reason)},
    )


def specific_reply(event: str, keys: Mapping[str, object]) -> bytes:
    """The reply that holds `keys` for `event`; b"" where they cannot be written as JSON."""
    reply = {"hookSpecificOutput": {"hookEventName": event, **keys}}
    try:
        # No NaN, and no lone surrogates: an agent could not read the reply, and would show it.
        return _encoded(reply)
    except (ValueError, RecursionError):
        return b""


def bounded(text: str) -> str:
    """`text`, or the whole lines at its start that fit into a reply, or what fits of the first."""
    if len(_escaped(text)) <= TEXT_BYTES_MAX:
        return text
    kept: list[str] = []
    room = TEXT_BYTES_MAX
    for line in text.splitlines(keepends=True):
        room -= len(_escaped(line))
        if room < 0:
            break
        kept.append(line)
    return "".join(kept).rstrip() or text[: TEXT_BYTES_MAX // _CHARACTER_BYTES_MAX]


def _escaped(text: str) -> bytes:
    # Lone surrogates are refused when the reply is written; here they only have a size.
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
