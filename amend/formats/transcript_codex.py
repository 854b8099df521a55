"""Codex's record of a thread (`rollout-….jsonl`) → what it explored.

One JSON object a line: `{timestamp, type, payload}`. A subagent's rollout may begin with a copy of
its parent's; what is not of its own thread is passed over. A command is known three times: as the
model asked for it, as it ran (with `parsed_cmd`, Codex's own reading of it), and as the model saw
what it printed; each may be missing, and what is there is put together by the call's id.

Guarantees: as `transcript`. Shapes: research/hooks-verified.md, section 6.
"""

import re
import shlex
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote

from amend.core.explored import Explored, Read, Usage
from amend.core.shell_line import joined
from amend.core.shell_reading import reads_in
from amend.formats.transcript import (
    LOOKS_MAX,
    TRANSCRIPT_BYTES_MAX,
    Document,
    count_in,
    documents,
    object_in,
    parsed,
    text_in,
    time_in,
)

_COMMAND_TOOLS: Final = frozenset(("exec_command", "shell", "shell_command", "local_shell"))
_FILE_TOOLS: Final = {"read_file": "file_path", "view_image": "path"}
_SHELL_NAMES: Final = ("bash", "sh", "zsh", "dash")
_EXIT: Final = re.compile(r"Process exited with code ([0-9]{1,3})|Exit code: ([0-9]{1,3})")
_EXIT_WITHIN: Final = 400  # of an output's text: it stands in the few lines before the output
_DURATION_S_MAX: Final = 10**6


@dataclass(slots=True)
class _Call:
    """`at`: when it was asked for; `files`: what Codex itself says that it reads."""

    at: datetime | None = None
    command: str = ""
    cwd: str = ""
    output: str = ""
    files: list[str] = field(default_factory=list)
    has_failed: bool = False
    has_ended: bool = False
    tool_path: str = ""
    start: int = 0
    limit: int = 0


@dataclass(slots=True)
class _Seen:
    thread: str = ""
    is_own: bool = True  # not in the copy of the parent's thread
    prompt: str = ""
    said: str = ""  # a user's message that no event repeats
    text: str = ""
    cwd: str = ""
    calls: dict[str, _Call] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    usage_so_far: Usage = field(default_factory=Usage)
    spawned: list[str] = field(default_factory=list)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    is_finished: bool = False


def read_codex(data: bytes) -> Explored:
    """What the rollout tells of its own thread; finished when its last turn is complete."""
    seen = _Seen()
    for line in documents(data):
        kind, payload = line.get("type"), object_in(line, "payload")
        at = time_in(line, "timestamp")
        if kind == "session_meta":
            if not seen.thread:
                seen.thread, seen.cwd = text_in(payload, "id"), text_in(payload, "cwd")
                seen.is_own = not text_in(payload, "forked_from_id")
                seen.started_at = at
            continue
        thread = text_in(payload, "thread_id")
        if thread and seen.thread and thread != seen.thread:
            continue
        seen.is_own = seen.is_own or bool(thread)
        if not seen.is_own:
            continue
        if kind == "response_item":
            _item(seen, payload, at)
        elif kind == "event_msg":
            _event(seen, payload, at)
        elif kind == "token_usage_record":
            name = text_in(payload, "response_id") or str(len(seen.usage))
            seen.usage[name] = _usage(object_in(payload, "usage"))
        seen.started_at = seen.started_at or at
        seen.ended_at = at or seen.ended_at
    reads = [read for call in seen.calls.values() for read in _looks(call, seen.cwd)]
    return Explored(
        seen.prompt or seen.said,
        seen.text,
        tuple(reads[:LOOKS_MAX]),
        seen.cwd,
        sum(seen.usage.values(), Usage()) if seen.usage else seen.usage_so_far,
        seen.started_at,
        seen.ended_at,
        seen.is_finished,
        spawned=tuple(seen.spawned),
        is_cut=len(data) > TRANSCRIPT_BYTES_MAX,
    )


# -- one line ----------------------------------------------------------------------------------


def _item(seen: _Seen, payload: Document, at: datetime | None) -> None:
    """What went to the model, and what came from it."""
    kind = payload.get("type")
    if kind == "message":
        text = _message_text(payload)
        if payload.get("role") == "assistant":
            seen.text = text
        elif payload.get("role") == "user" and not text.startswith("<"):
            seen.said = seen.said or text
        return
    name = text_in(payload, "call_id")
    if kind == "function_call":
        given = parsed(text_in(payload, "arguments").encode("utf-8", "replace"))
        tool = text_in(payload, "name")
        if tool == "spawn_agent":
            seen.spawned.append(name)
        elif tool in _COMMAND_TOOLS:
            call = seen.calls.setdefault(name, _Call())
            call.at = call.at or at
            call.command = call.command or _line(given.get("cmd", given.get("command")))
            call.cwd = call.cwd or text_in(given, "workdir")
        elif tool in _FILE_TOOLS and len(seen.calls) < LOOKS_MAX:
            call = seen.calls.setdefault(name, _Call())
            call.at, call.tool_path = at, text_in(given, _FILE_TOOLS[tool])
            call.start, call.limit = count_in(given, "offset"), count_in(given, "limit")
    elif kind == "function_call_output" and name in seen.calls:
        call = seen.calls[name]
        call.output = call.output or _output(payload.get("output"))
        exits = _EXIT.search(call.output[:_EXIT_WITHIN])
        call.has_failed = call.has_failed or (exits is not None and (exits[1] or exits[2]) != "0")
        call.has_ended = True


def _event(seen: _Seen, payload: Document, at: datetime | None) -> None:
    kind = payload.get("type")
    if kind == "item_completed":
        item = object_in(payload, "item")
        if item.get("type") == "CommandExecution":
            _ran(seen, text_in(item, "id"), item, at)
        elif item.get("type") == "UserMessage":
            seen.prompt = seen.prompt or _message_text(item)
    elif kind == "exec_command_end":
        _ran(seen, text_in(payload, "call_id"), payload, at)
    elif kind == "user_message":
        seen.prompt = seen.prompt or text_in(payload, "message")
    elif kind == "token_count":
        total = object_in(object_in(payload, "info"), "total_token_usage")
        seen.usage_so_far = _usage(total) if total else seen.usage_so_far
    elif kind == "task_complete":
        seen.text = text_in(payload, "last_agent_message") or seen.text
        seen.is_finished = True
    elif kind in ("task_started", "turn_aborted"):
        seen.is_finished = False


def _ran(seen: _Seen, name: str, item: Document, at: datetime | None) -> None:
    call = seen.calls.setdefault(name, _Call())
    call.command = _line(item.get("command")) or call.command
    call.cwd = _directory(text_in(item, "cwd")) or call.cwd
    call.output = text_in(item, "aggregated_output") or call.output
    call.has_failed = item.get("exit_code") != 0
    call.has_ended = True
    seconds = min(count_in(object_in(item, "duration"), "secs") + 1, _DURATION_S_MAX)
    if call.at is None and at is not None:
        call.at = max(at, _EARLIEST) - timedelta(seconds=seconds)
    commands = item.get("parsed_cmd")
    for command in commands if isinstance(commands, list) else []:
        if isinstance(command, dict) and command.get("type") == "read":
            call.files.append(text_in(command, "path"))


_EARLIEST: Final = datetime(1970, 1, 2, tzinfo=UTC) + timedelta(seconds=_DURATION_S_MAX)


def _usage(usage: Document) -> Usage:
    """Codex counts what the cache gave, and took, in the input."""
    cached, created = (
        count_in(usage, "cached_input_tokens"),
        count_in(usage, "cache_write_input_tokens"),
    )
    sent = count_in(usage, "input_tokens")
    return Usage(max(0, sent - cached - created), count_in(usage, "output_tokens"), cached, created)


# -- one call ----------------------------------------------------------------------------------


def _looks(call: _Call, cwd: str) -> list[Read]:
    """The files that one call looked into; none before it has ended."""
    if not call.has_ended:
        return []
    if call.tool_path:
        if call.has_failed:
            return []
        start = call.start or (1 if call.limit else None)
        end = start + call.limit - 1 if start and call.limit else None
        return [Read(call.tool_path, start, end, call.at, is_guess=True)]
    directory = call.cwd or cwd
    reads = list(reads_in(call.command, call.output, directory, call.at))
    if call.has_failed:
        return reads
    paths = (joined(directory, file) for file in call.files)
    told = {path: None for path in paths if path is not None}
    known = {read.path for read in reads}
    reads.extend(Read(path, at=call.at) for path in told if path not in known)
    return [replace(read, is_guess=read.is_guess and read.path not in told) for read in reads]


def _line(command: object) -> str:
    """A command line, from one or from the words of its process."""
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELL_NAMES and "c" in words[1]:
        return words[2]
    return shlex.join(words)


def _directory(text: str) -> str:
    """A path, from one or from a `file:` address."""
    return unquote(text.removeprefix("file://")) if text.startswith("file:///") else text


def _output(output: object) -> str:
    """Text as it is, or out of the JSON that older releases put around it."""
    if not isinstance(output, str):
        return ""
    around = parsed(output.encode("utf-8", "replace")) if output.startswith('{"output"') else {}
    return text_in(around, "output") or output


def _message_text(message: Document) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return "\n".join(text_in(part, "text") for part in parts if isinstance(part, dict))
