"""Claude Code's own record of a subagent (`agent-<id>.jsonl`) → what it explored.

One JSON object a line, and one line for each content block of a message. `user` and `assistant`
lines count; all other types are the program's own and are passed over, as is whatever does not
parse: the file may be read while it is being written. A tool call counts once its result is there.

Guarantees: never raises, whatever the bytes. Looks at the first `TRANSCRIPT_BYTES_MAX` only and
says when there was more (`Explored.is_cut`). Shapes: research/hooks-verified.md, section 3.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import orjson

from amend.core.explored import Explored, Meta, Read, Usage
from amend.core.shell_reading import hits_in, reads_in
from amend.formats.times import parse_time

# An hour of exploring left 1 to 5 MiB. This much takes a worker about a second.
TRANSCRIPT_BYTES_MAX: Final = 64 << 20

# A line holds one result; an image that was read is the largest, at some 7 MiB.
LINE_BYTES_MAX: Final = 16 << 20

META_BYTES_MAX: Final = 1 << 20

# Looks at files of one exploration; more would not be kept.
LOOKS_MAX: Final = 10_000

# What the Read tool shows of a longer file when nobody says how much (2.1.197 and before).
_LINES_UNASKED: Final = 2000

_NUMBERED: Final = re.compile(r" {0,8}([0-9]{1,9})(?:\t|\u2192)")
_ABSENT: Final = re.compile(r"does not exist|no such file or directory|ENOENT", re.IGNORECASE)
_EXISTS: Final = "the file exists but"
_ABSENT_WITHIN: Final = 500  # of an error's text; behind it may stand anything
_RAN: Final = ("Exit code ", "Command timed out")
_INTERRUPTED: Final = "[Request interrupted by user"

_READERS: Final = {"Read": "file_path", "NotebookRead": "notebook_path"}

# More than any count of tokens or lines that is meant; SQLite keeps it.
_COUNT_MAX: Final = 10**12

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Call:
    """`at`: when it was asked for, so before it ran."""

    name: str
    input: Document
    cwd: str
    at: datetime | None


@dataclass(slots=True)
class _Seen:
    prompt: str = ""
    cwd: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    spawned: list[str] = field(default_factory=list)
    message: str = ""  # the id of the message that said `texts`
    texts: list[str] = field(default_factory=list)
    is_finished: bool = False


def read_claude(data: bytes) -> Explored:
    """What the transcript tells. It is finished when the last word is an answer of the agent's."""
    seen = _Seen()
    for line in documents(data):
        kind, message = line.get("type"), line.get("message")
        if not isinstance(message, dict):
            continue
        at = time_in(line, "timestamp")
        if kind == "assistant":
            _answered(seen, line, message, at)
        elif kind == "user":
            _told(seen, line, message)
        else:
            continue
        seen.started_at = seen.started_at or at
        seen.ended_at = at or seen.ended_at
        seen.cwd = seen.cwd or text_in(line, "cwd")
    return Explored(
        seen.prompt,
        "\n".join(seen.texts),
        tuple(seen.reads[:LOOKS_MAX]),
        seen.cwd,
        sum(seen.usage.values(), Usage()),
        seen.started_at,
        seen.ended_at,
        seen.is_finished,
        spawned=tuple(seen.spawned),
        is_cut=len(data) > TRANSCRIPT_BYTES_MAX,
    )


def read_meta(data: bytes) -> Meta:
    """What the `.meta.json` beside the transcript tells; nothing when it is no such thing."""
    document = parsed(data) if len(data) <= META_BYTES_MAX else {}
    return Meta(
        text_in(document, "toolUseId"),
        text_in(document, "agentType"),
        text_in(document, "description"),
        document.get("finished") is True,
        text_in(document, "parentAgentId"),
    )


# -- one line ----------------------------------------------------------------------------------


def _answered(seen: _Seen, line: Document, message: Document, at: datetime | None) -> None:
    name = text_in(message, "id") or text_in(line, "uuid")
    usage = message.get("usage")
    if isinstance(usage, dict):
        # Each block's line repeats it; while a message streams, only the last one is complete.
        seen.usage[name] = Usage(
            count_in(usage, "input_tokens"),
            count_in(usage, "output_tokens"),
            count_in(usage, "cache_read_input_tokens"),
            count_in(usage, "cache_creation_input_tokens"),
        )
    if seen.message != name:
        seen.message, seen.texts = name, []
    for block in _blocks(message):
        if block.get("type") == "text":
            seen.texts.append(text_in(block, "text"))
        elif block.get("type") == "tool_use":
            call = _Call(
                text_in(block, "name"), object_in(block, "input"), text_in(line, "cwd"), at
            )
            seen.calls[text_in(block, "id")] = call
            if call.name in ("Agent", "Task"):
                seen.spawned.append(text_in(block, "id"))
    stop = message.get("stop_reason")
    is_answer = isinstance(stop, str) and stop != "tool_use"
    seen.is_finished = is_answer and line.get("isApiErrorMessage") is not True


def _told(seen: _Seen, line: Document, message: Document) -> None:
    seen.is_finished = False
    if line.get("isMeta") is True:
        return  # said by the program, as what a coordinator adds later
    content = message.get("content")
    if isinstance(content, str):
        seen.prompt = seen.prompt or content
    for block in _blocks(message):
        if block.get("type") == "tool_result":
            call = seen.calls.pop(text_in(block, "tool_use_id"), None)
            if call is not None and len(seen.reads) < LOOKS_MAX:
                is_error = block.get("is_error") is True
                seen.reads.extend(_looks(call, _shown(block.get("content")), is_error=is_error))
        elif block.get("type") == "text":
            said = text_in(block, "text")
            if not said.startswith(_INTERRUPTED):
                seen.prompt = seen.prompt or said


def _blocks(message: Document) -> Iterator[Document]:
    content = message.get("content")
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))
    elif isinstance(content, str) and message.get("role") == "assistant":
        yield {"type": "text", "text": content}


def _shown(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(text_in(block, "text") for block in blocks if isinstance(block, dict))


# -- one call ----------------------------------------------------------------------------------


def _looks(call: _Call, shown: str, *, is_error: bool) -> tuple[Read, ...]:
    """The files that one call looked into, from what it was given and what it showed."""
    if call.name in _READERS:
        path = text_in(call.input, _READERS[call.name])
        return _read(path, call, shown, is_error=is_error) if path else ()
    if call.name == "Bash":
        if is_error and not shown.startswith(_RAN):
            return ()  # refused, so it never ran
        return reads_in(text_in(call.input, "command"), shown, call.cwd, call.at)
    if call.name == "Grep" and not is_error and call.input.get("output_mode") == "content":
        return _searched(call, shown)
    return ()


def _read(path: str, call: _Call, shown: str, *, is_error: bool) -> tuple[Read, ...]:
    if is_error:
        is_absent = _ABSENT.search(shown[:_ABSENT_WITHIN]) is not None
        return (Read(path, at=call.at, failed=True),) if is_absent else ()
    start, limit = count_in(call.input, "offset"), count_in(call.input, "limit")
    first, count = _numbered(shown, limit)
    if not count and _EXISTS in shown[:_ABSENT_WITHIN]:
        return (Read(path, at=call.at),)  # empty, or shorter than `offset`
    if not start and not limit and first <= 1 and count != _LINES_UNASKED:
        return (Read(path, at=call.at),)
    if count:
        return (Read(path, first, first + count - 1, call.at),)
    if start or limit:
        start = start or 1
        return (Read(path, start, start + limit - 1 if limit else None, call.at),)
    return (Read(path, at=call.at),)


def _numbered(shown: str, limit: int) -> tuple[int, int]:
    """The first number of lines that are numbered one by one, and how many they are.

    Behind the last line end of a file an empty line more is shown, which the file does not have.
    """
    first = count = at = 0
    is_empty = False
    while match := _NUMBERED.match(shown, at):
        number = int(match[1])
        if count and number != first + count:
            break
        first, count = (number, 1) if not count else (first, count + 1)
        is_empty = shown[match.end() : match.end() + 1] in ("", "\n")
        at = shown.find("\n", match.end()) + 1
        if not at:
            break
    is_behind = is_empty and count > 1 and (not limit or count < limit)
    return first, count - is_behind


def _searched(call: _Call, shown: str) -> tuple[Read, ...]:
    """The Grep tool shows `path:line:`, and `line:` alone where one file was searched."""
    hits = hits_in(shown, call.cwd)
    path = text_in(call.input, "path")
    if not hits and path and re.match(r"[0-9]{1,9}[:-]", shown):
        return (Read(path, at=call.at, is_guess=True),)
    return tuple(Read(hit.path, hit.line, hit.line, call.at, is_guess=True) for hit in hits)


# -- documents ---------------------------------------------------------------------------------


def documents(data: bytes) -> Iterator[Document]:
    """The objects of the lines, in their order, without the lines that hold none."""
    start, stop = 0, min(len(data), TRANSCRIPT_BYTES_MAX)
    while start < stop:
        end = data.find(b"\n", start, stop)
        end = stop if end < 0 else end
        if 2 <= end - start <= LINE_BYTES_MAX and (document := parsed(data[start:end])):
            yield document
        start = end + 1


def parsed(data: bytes) -> Document:
    """The object that the bytes are; an empty one when they are none."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            document = orjson.loads(_HALF.sub(rb"\\ufffd", data))
        except orjson.JSONDecodeError:
            return {}
    return document if isinstance(document, dict) else {}


# Half of a pair, as JavaScript writes where it cuts a text between the two; it must not cost the
# line.
_HALF: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def text_in(document: Document, key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def object_in(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def count_in(document: Document, key: str) -> int:
    """A whole number of at least 0, else 0."""
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= _COUNT_MAX else 0


def time_in(document: Document, key: str) -> datetime | None:
    return parse_time(text_in(document, key))
