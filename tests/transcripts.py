"""What Claude Code and Codex write down of an exploration, made anew in the recorded shape.

    claude_transcript(prompt="find login", steps=[read("/r/a.py", content="..."), say("in a.py")])

The shapes are what 2.1.332 and 0.171.0 left on disk (research/hooks-verified.md, sections 3 and
6), noise lines included; the words are ours. The same steps make a transcript of either agent.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

BEGAN = datetime(2026, 11, 30, 3, 35, 43, 570_000, tzinfo=UTC)
USAGE = {
    "input_tokens": 1000,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 300,
    "output_tokens": 50,
}

Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One block of the agent's: a text, or a tool call with its result (None: not there yet).

    `at`: seconds after the beginning; None for a second after the step before. `usage`: of the
    message that it stands in.
    """

    tool: str = ""
    input: Json = field(default_factory=dict)
    result: str | None = ""
    is_error: bool = False
    text: str = ""
    at: float | None = None
    usage: Json = field(default_factory=lambda: dict(USAGE))


Steps = Sequence[Step | Sequence[Step]]
"""Several steps in one place are the blocks of one message."""


def read(
    path: str,
    offset: int | None = None,
    limit: int | None = None,
    *,
    content: str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    at: float | None = None,
) -> Step:
    """The Read tool on a file that holds `content`."""
    given = {"file_path": path, "offset": offset, "limit": limit}
    lines = content.split("\n")  # an empty one behind the last line end, as recorded
    first = offset or 1
    shown = lines[first - 1 :][: limit or len(lines)]
    numbered = "\n".join(f"{first + index}\t{line}" for index, line in enumerate(shown))
    kept = {key: value for key, value in given.items() if value is not None}
    return Step("Read", kept, numbered, at=at)


def failed_read(path: str, error: str = "", *, at: float | None = None) -> Step:
    """The Read tool on a file that is not there, or that gives another error."""
    absent = "File does not exist. Note: your current working directory is /r."
    return Step("Read", {"file_path": path}, error or absent, is_error=True, at=at)


def bash(command: str, output: str = "", *, exit_code: int = 0, at: float | None = None) -> Step:
    given = {"command": command, "description": "Look"}
    shown = f"Exit code {exit_code}\n{output}" if exit_code else output
    return Step("Bash", given, shown, is_error=exit_code != 0, at=at)


def grep(output: str, *, at: float | None = None, **given: object) -> Step:
    """The Grep tool, where there is one."""
    return Step("Grep", {"output_mode": "content", **given}, output, at=at)


def spawn(prompt: str, *, at: float | None = None) -> Step:
    """An exploration inside the exploration."""
    given = {"description": "Look deeper", "subagent_type": "Explore", "prompt": prompt}
    return Step("Agent", given, "found", at=at)


def say(text: str, *, at: float | None = None) -> Step:
    return Step(text=text, at=at)


def unanswered(step: Step) -> Step:
    """The call, and no result yet."""
    return replace(step, result=None)


# -- Claude Code -------------------------------------------------------------------------------


def claude_transcript(
    *,
    prompt: str,
    steps: Steps,
    cwd: str = "/r",
    agent_id: str = "a8f93629af5df10ea",
    agent_type: str = "Explore",
    session_id: str = "02ee3d77-2ca2-4dd2-b7b6-2fc0d7f5b1a1",
    began: datetime = BEGAN,
    interrupted: bool = False,
) -> bytes:
    """`agent-<id>.jsonl`. The last step ends the turn when it is a text."""
    common = {
        "isSidechain": True,
        "agentId": agent_id,
        "cwd": cwd,
        "sessionId": session_id,
        "version": "2.1.332",
        "gitBranch": "main",
    }
    lines: list[Json] = [
        {**common, "type": "user", "rowSource": "recorded", "timestamp": _time(began, 0)}
        | {"message": {"role": "user", "content": prompt}},
        {**common, "type": "attachment", "attachment": {"type": "skills", "content": "noise"}},
        {**common, "type": "api-request-shape", "shape": {"tools": ["Bash", "Read"]}},
    ]
    for index, (at, blocks) in enumerate(_messages(steps)):
        lines.append({**common, "type": "api-request", "timestamp": _time(began, at)})
        is_last = all(not block.tool for block in blocks)
        for number, block in enumerate(blocks):
            call = f"toolu_{index:04}{number:018}"
            content: Json = {"type": "text", "text": block.text}
            if block.tool:
                content = {"type": "tool_use", "id": call, "name": block.tool, "input": block.input}
            message = {
                "id": f"msg_{index:020}",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-5-5",
                "content": [content],
                "stop_reason": "end_turn" if is_last else "tool_use",
                "stop_sequence": None,
                "usage": block.usage,
            }
            lines.append(
                {
                    **common,
                    "type": "assistant",
                    "apiBlockIndex": number,
                    "requestId": f"req_{index:020}",
                    "attributionAgent": agent_type,
                    "timestamp": _time(began, at),
                    "message": message,
                }
            )
        for number, block in enumerate(blocks):
            if block.tool and block.result is not None:
                call = f"toolu_{index:04}{number:018}"
                lines.append(_claude_result(common, block, call, _time(began, at + 0.1)))
    if interrupted:
        stopped = [{"type": "text", "text": "[Request interrupted by user]"}]
        lines.append({**common, "type": "user", "message": {"role": "user", "content": stopped}})
    return _lines(lines)


def _claude_result(common: Json, block: Step, call: str, time: str) -> Json:
    result: Json = {"tool_use_id": call, "type": "tool_result", "content": block.result}
    line = {**common, "type": "user", "timestamp": time}
    if block.is_error:
        result["is_error"] = True
        line["toolUseResult"] = f"Error: {block.result}"
    elif block.tool == "Bash":
        result["is_error"] = False
    return {**line, "message": {"role": "user", "content": [result]}}


def claude_meta(
    *,
    call: str = "toolu_459f75a4b7be4b479f1930",
    agent_type: str = "Explore",
    description: str = "Explore auth",
    finished: bool = True,
    parent: str = "",
) -> bytes:
    """`agent-<id>.meta.json`."""
    meta: Json = {"agentType": agent_type, "isBuiltIn": True, "description": description}
    meta |= {"toolUseId": call, "spawnDepth": 2 if parent else 1, "requestShape": "background"}
    meta |= {"parentAgentId": parent} if parent else {}
    meta |= {"finished": True} if finished else {}
    return json.dumps(meta, separators=(",", ":")).encode()


# -- Codex -------------------------------------------------------------------------------------


def codex_rollout(
    *,
    prompt: str,
    steps: Steps,
    cwd: str = "/r",
    thread: str = "01a22c95-a328-77b2-897f-0c92ab42cce1",
    parent: str = "01a22c95-a283-7ea2-8f2d-ea58b54614ef",
    began: datetime = BEGAN,
    finished: bool = True,
    forked_from: Sequence[Json] = (),
) -> bytes:
    """`rollout-<time>-<thread>.jsonl`. Reads become the commands by which Codex reads.

    `forked_from`: lines of the parent's that stand copied at its beginning.
    """
    at = _time(began, 0)
    meta: Json = {"session_id": parent, "id": thread, "parent_thread_id": parent, "cwd": cwd}
    meta["source"] = {"subagent": {"thread_spawn": {"depth": 1, "agent_role": "explorer"}}}
    if forked_from:
        meta["forked_from_id"] = parent
    own = {"thread_id": thread, "turn_id": "t1"}
    lines = [_codex(at, "session_meta", meta), *forked_from]
    lines.append(_codex(at, "event_msg", {"type": "thread_settings_applied", **own}))
    about = f"<environment_context>\n  <cwd>{cwd}</cwd>\n</environment_context>"
    for text in (about, prompt):
        content = [{"type": "input_text", "text": text}]
        message = {"type": "message", "role": "user", "content": content}
        lines.append(_codex(at, "response_item", message))
    item: Json = {"type": "UserMessage", "content": [{"type": "text", "text": prompt}]}
    lines.append(_codex(at, "event_msg", {"type": "item_completed", **own, "item": item}))
    last = ""
    for index, (seconds, blocks) in enumerate(_messages(steps)):
        time, done = _time(began, seconds), _time(began, seconds + 0.1)
        for number, block in enumerate(blocks):
            lines.extend(
                _codex_block(block, f"call_{index}_{number}", own, cwd=cwd, time=time, done=done)
            )
            last = block.text or last
        usage = codex_usage(blocks[0].usage)
        spent = {**own, "response_id": f"resp_{index}", "usage": usage}
        lines.append(_codex(done, "token_usage_record", spent))
        lines.append(_codex(done, "event_msg", {"type": "token_count", "info": None}))
    if finished:
        ended = {"type": "task_complete", "turn_id": "t1", "last_agent_message": last}
        lines.append(_codex(_time(began, seconds + 0.2), "event_msg", ended))
    return _lines(lines)


def codex_usage(usage: Json) -> Json:
    """Codex counts what the cache gave and took in the input."""
    cached, created = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    sent = usage["input_tokens"] + cached + created
    return {
        "input_tokens": sent,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": created,
        "output_tokens": usage["output_tokens"],
        "reasoning_output_tokens": 0,
        "total_tokens": sent + usage["output_tokens"],
    }


def _codex_block(
    block: Step, call: str, own: Json, *, cwd: str, time: str, done: str
) -> Iterator[Json]:
    if block.text:
        item: Json = {"type": "AgentMessage", "content": [{"type": "Text", "text": block.text}]}
        yield _codex(time, "event_msg", {"type": "item_completed", **own, "item": item})
        content = [{"type": "output_text", "text": block.text}]
        message = {"type": "message", "role": "assistant", "content": content}
        yield _codex(time, "response_item", message)
        return
    command, parsed, exit_code, output = _codex_command(block)
    asked = {"type": "function_call", "name": "exec_command", "call_id": call}
    if block.tool == "Agent":
        asked |= {"name": "spawn_agent", "arguments": json.dumps({"message": command})}
        yield _codex(time, "response_item", asked)
        return
    yield _codex(time, "response_item", asked | {"arguments": json.dumps({"cmd": command})})
    if block.result is None:
        return
    item = {
        "type": "CommandExecution",
        "id": call,
        "command": ["/bin/bash", "-lc", command],
        "cwd": f"file://{cwd}",
        "parsed_cmd": parsed,
        "status": "failed" if exit_code else "completed",
        "aggregated_output": output,
        "exit_code": exit_code,
        "duration": {"secs": 0, "nanos": 5828},
    }
    yield _codex(done, "event_msg", {"type": "item_completed", **own, "item": item})
    shown = f"Chunk ID: ef09c0\nProcess exited with code {exit_code}\nOutput:\n{output}"
    result = {"type": "function_call_output", "call_id": call, "output": shown}
    yield _codex(done, "response_item", result)


def _codex_command(block: Step) -> tuple[str, list[Json], int, str]:
    """The command, what Codex makes of it, its exit code and what it printed."""
    result = block.result or ""
    if block.tool != "Read":
        command = block.input.get("command") or block.input.get("prompt", "")
        unknown = [{"type": "unknown", "cmd": command}]
        status, _, rest = result.partition("\n")
        return (
            (command, unknown, int(status.removeprefix("Exit code ")), rest)
            if block.is_error
            else (command, unknown, 0, result)
        )
    path = block.input["file_path"]
    start, limit = block.input.get("offset", 1), block.input.get("limit")
    is_part = limit is not None or start > 1
    last = start + limit - 1 if limit else "$"
    command = f"sed -n '{start},{last}p' {path}" if is_part else f"cat {path}"
    name = path.rpartition("/")[2]
    parsed = [{"type": "read", "cmd": command, "name": name, "path": path}]
    if block.is_error:
        return command, parsed, 1, f"cat: {path}: No such file or directory\n"
    lines = [line.partition("\t")[2] for line in result.split("\n")]
    return command, parsed, 0, "\n".join(lines)


# -- both --------------------------------------------------------------------------------------


def _messages(steps: Steps) -> Iterator[tuple[float, Sequence[Step]]]:
    at = 0.0
    for step in steps:
        blocks = [step] if isinstance(step, Step) else list(step)
        at = at + 1 if blocks[0].at is None else blocks[0].at
        yield at, blocks


def _codex(time: str, kind: str, payload: Json) -> Json:
    return {"timestamp": time, "type": kind, "payload": payload}


def _time(began: datetime, seconds: float) -> str:
    at = began + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines(lines: Sequence[Json]) -> bytes:
    texts = (json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)
    return "".join(f"{text}\n" for text in texts).encode()
