"""Transcripts of both agents, in the recorded shape → what an exploration read and cost."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.explored import Explored, Meta, Read, Usage
from amend.formats import transcript
from amend.formats.transcript import read_claude, read_meta
from amend.formats.transcript_codex import read_codex
from tests.transcripts import (
    BEGAN,
    USAGE,
    Step,
    Steps,
    bash,
    claude_meta,
    claude_transcript,
    codex_rollout,
    failed_read,
    grep,
    read,
    say,
    spawn,
    unanswered,
)

Maker = Callable[..., bytes]
Parser = Callable[[bytes], Explored]

ONE_MESSAGE = Usage(1000, 50, 300, 20)


def claude(*steps: Step | list[Step], interrupted: bool = False) -> Explored:
    return read_claude(
        claude_transcript(prompt="find login", steps=list(steps), interrupted=interrupted)
    )


def codex(*steps: Step | list[Step], finished: bool = True) -> Explored:
    return read_codex(codex_rollout(prompt="find login", steps=list(steps), finished=finished))


def looks(explored: Explored) -> list[str]:
    return [shown(one) for one in explored.reads]


def shown(one: Read) -> str:
    lines = "" if one.start is None else f":{one.start}-{one.end or ''}"
    return f"{'!' * one.failed}{one.path}{lines}"


AGENTS = pytest.mark.parametrize("explore", [claude, codex])


# -- both --------------------------------------------------------------------------------------


@AGENTS
def test_prompt_answer_and_place_are_told(explore: Callable[..., Explored]) -> None:
    explored = explore(read("/r/a.py"), say("Looking further."), say("It is in a.py:3"))

    assert explored.prompt == "find login"
    assert explored.text == "It is in a.py:3"
    assert explored.cwd == "/r"
    assert explored.is_finished
    assert not explored.is_cut


@AGENTS
def test_a_whole_file_and_a_part_of_one_are_told_apart(explore: Callable[..., Explored]) -> None:
    explored = explore(read("/r/a.py"), read("/r/b.py", 2, 4), say("done"))

    assert looks(explored) == ["/r/a.py", "/r/b.py:2-5"]
    assert not any(one.is_guess for one in explored.reads)


@AGENTS
def test_a_file_that_was_not_there_is_a_failed_read(explore: Callable[..., Explored]) -> None:
    explored = explore(failed_read("/r/no.py"), say("done"))

    assert looks(explored) == ["!/r/no.py"]


@AGENTS
def test_commands_and_what_they_found_are_looks(explore: Callable[..., Explored]) -> None:
    explored = explore(
        bash("cd src && sed -n '1,9p' a.py"), bash("grep -rn x .", "./b.py:3:x\n"), say("done")
    )

    assert looks(explored) == ["/r/src/a.py:1-9", "/r/b.py:3-3"]


@AGENTS
def test_a_look_is_dated_no_later_than_it_was(explore: Callable[..., Explored]) -> None:
    explored = explore(read("/r/a.py", at=5), bash("cat b.py", at=9), say("done", at=20))

    assert [one.at for one in explored.reads] == [BEGAN + timedelta(seconds=s) for s in (5, 9)]
    assert explored.started_at == BEGAN
    assert explored.ended_at is not None
    assert explored.ended_at >= BEGAN + timedelta(seconds=20)


@AGENTS
def test_tokens_count_once_a_message(explore: Callable[..., Explored]) -> None:
    explored = explore([read("/r/a.py"), read("/r/b.py"), bash("cat c.py")], say("done"))

    assert explored.tokens == ONE_MESSAGE + ONE_MESSAGE
    assert explored.tokens.total == 2 * sum(USAGE.values())


@AGENTS
def test_a_call_without_its_result_has_read_nothing_yet(explore: Callable[..., Explored]) -> None:
    explored = explore(read("/r/a.py"), unanswered(read("/r/b.py")))

    assert looks(explored) == ["/r/a.py"]


@AGENTS
def test_explorations_inside_are_named(explore: Callable[..., Explored]) -> None:
    explored = explore(spawn("deeper"), say("done"))

    assert len(explored.spawned) == 1


def everything() -> Steps:
    return [
        [say("Looking."), read("/r/a.py", 2, 4), failed_read("/r/no.py")],
        bash("cat b.py && grep -n x c.py", "3:x", at=3),
        say("done"),
    ]


MAKERS = pytest.mark.parametrize(
    ("make", "parse"), [(claude_transcript, read_claude), (codex_rollout, read_codex)]
)


@MAKERS
def test_a_line_that_is_still_being_written_waits(make: Maker, parse: Parser) -> None:
    data = make(prompt="find login", steps=everything())
    whole = parse(data)

    for cut in range(0, len(data), 97):
        so_far = parse(data[:cut])

        assert so_far.reads == whole.reads[: len(so_far.reads)]
        assert so_far.tokens.total <= whole.tokens.total


@MAKERS
def test_foreign_and_broken_lines_are_passed_over(make: Maker, parse: Parser) -> None:
    lines = make(prompt="find login", steps=everything()).splitlines(keepends=True)
    noise = [
        b"\n",
        b"null\n",
        b"[1]\n",
        b"not json\n",
        b'{"type":"future","message":{"content":[{"type":"tool_use"}]}}\n',
        b'{"type":"assistant","message":7}\n',
        b'{"type":"event_msg","payload":{"type":"item_completed","item":3}}\n',
        b"\xff\xfe\x00\n",
        b'{"a":' * 5000 + b"\n",
    ]
    noisy = b"".join(line + noise[index % len(noise)] for index, line in enumerate(lines))

    assert parse(noisy) == parse(b"".join(lines))


@MAKERS
def test_a_transcript_over_the_limit_is_cut_and_says_so(
    make: Maker, parse: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make(prompt="find login", steps=everything())
    for module in ("transcript", "transcript_codex"):
        monkeypatch.setattr(f"amend.formats.{module}.TRANSCRIPT_BYTES_MAX", len(data) - 1)

    explored = parse(data)

    assert explored.is_cut
    assert explored.prompt == "find login"


@MAKERS
def test_huge_lines_are_passed_over(
    make: Maker, parse: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "LINE_BYTES_MAX", 20_000)
    huge = read("/r/huge.txt", content="x" * 50_000)

    explored = parse(make(prompt="find login", steps=[huge, read("/r/a.py"), say("done")]))

    assert looks(explored)[-1:] == ["/r/a.py"]
    assert explored.is_finished


KEYS = st.sampled_from(
    [
        *("type", "message", "content", "id", "name", "input", "usage", "timestamp", "payload"),
        *("item", "cwd", "arguments", "call_id", "command", "parsed_cmd", "output", "duration"),
        *("secs", "tool_use_id", "is_error", "input_tokens", "file_path", "thread_id"),
    ]
)
WORDS = st.sampled_from(
    [
        *("assistant", "user", "text", "tool_use", "tool_result", "Read", "Bash", "event_msg"),
        *("response_item", "function_call", "item_completed", "CommandExecution", "session_meta"),
        *("exec_command", "exec_command_end", "task_complete", "0001-01-01T00:00:00Z"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside | WORDS, max_size=6),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=6))
def test_no_shape_raises(documents: list[object]) -> None:
    data = b"".join(json.dumps(document).encode() + b"\n" for document in documents)

    read_claude(data)
    read_codex(data)
    read_meta(data)


@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    makers: list[Maker] = [claude_transcript, codex_rollout]
    make = data.draw(st.sampled_from(makers))
    bytes_ = bytearray(make(prompt="find login", steps=everything()))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(bytes_) - 1))
        bytes_[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))

    read_claude(bytes(bytes_))
    read_codex(bytes(bytes_))


# -- Claude Code -------------------------------------------------------------------------------


def test_lines_are_those_that_were_shown_not_those_that_were_asked_for() -> None:
    eight = read("/r/a.py", 6, 100)
    from_six = read("/r/b.py", 6)
    only = read("/r/c.py", limit=3)

    assert looks(claude(eight, from_six, only, say("done"))) == [
        "/r/a.py:6-8",
        "/r/b.py:6-8",
        "/r/c.py:1-3",
    ]


def test_without_numbers_the_lines_are_those_that_were_asked_for() -> None:
    def unnumbered(**lines: int) -> Step:
        return Step("Read", {"file_path": "/r/a.py", **lines}, "File unchanged since last read")

    explored = claude(
        unnumbered(offset=2, limit=4), unnumbered(offset=2), unnumbered(), say("done")
    )

    assert looks(explored) == ["/r/a.py:2-5", "/r/a.py:2-", "/r/a.py"]


def test_a_file_that_ends_before_the_offset_was_read_as_a_whole() -> None:
    shown = "<system-reminder>Warning: the file exists but is shorter than the provided offset"
    step = Step("Read", {"file_path": "/r/a.py", "offset": 100}, shown)

    assert looks(claude(step, say("done"))) == ["/r/a.py"]


def test_a_long_file_was_read_as_far_as_it_is_shown() -> None:
    long = "".join(f"{line + 1}\u2192x\n" for line in range(2000))
    step = Step("Read", {"file_path": "/r/a.py"}, long)

    assert looks(claude(step, say("done"))) == ["/r/a.py:1-2000"]


@pytest.mark.parametrize(
    "error",
    [
        "EISDIR: illegal operation on a directory, read '/r/src'",
        "File content (1.1MB) exceeds maximum allowed size (256KB).",
        "Permission to use Read has been denied.",
        "PreToolUse:Read hook error: no",
    ],
)
def test_another_error_is_neither_a_read_nor_an_absent_path(error: str) -> None:
    assert claude(failed_read("/r/src", error), say("done")).reads == ()


def test_a_command_that_failed_has_read_what_it_could() -> None:
    output = "text\ncat: no.py: No such file or directory"

    explored = claude(bash("cat a.py no.py", output, exit_code=1), say("done"))

    assert looks(explored) == ["/r/a.py", "!/r/no.py"]


def test_a_command_that_was_refused_has_read_nothing() -> None:
    refused = Step(
        "Bash", {"command": "cat a.py"}, "Permission to use Bash has been denied.", is_error=True
    )

    assert claude(refused, say("done")).reads == ()


def test_the_grep_tool_shows_lines_where_it_shows_content() -> None:
    explored = claude(
        grep("src/a.py:3:x\nsrc/a.py-4-y\n", pattern="x"),
        grep("3:x\n", pattern="x", path="/r/one.py"),
        grep("Found 1 file\nsrc/b.py", pattern="x", output_mode="files_with_matches"),
        grep("No matches found", pattern="x", path="/r/src"),
        say("done"),
    )

    assert looks(explored) == ["/r/src/a.py:3-3", "/r/one.py"]


def test_tools_that_read_no_files_are_passed_over() -> None:
    steps = [Step(tool, {"file_path": "/r/a.py"}, "x") for tool in ("Glob", "Skill", "Edit")]

    assert claude(*steps, say("done")).reads == ()


def test_an_interrupted_exploration_is_not_finished() -> None:
    explored = claude(read("/r/a.py"), say("So far:"), interrupted=True)

    assert not explored.is_finished
    assert explored.prompt == "find login"


def test_an_exploration_that_is_asked_again_is_not_finished_until_it_answers() -> None:
    first = claude_transcript(prompt="find login", steps=[say("one")])
    more = {"type": "user", "isMeta": True, "message": {"role": "user", "content": "Also b.py"}}
    asked = first + json.dumps(more).encode() + b"\n"
    second = claude_transcript(prompt="x", steps=[read("/r/b.py"), say("two")]).splitlines(True)

    assert read_claude(first).is_finished
    assert not read_claude(asked).is_finished
    assert read_claude(asked + b"".join(second[2:])).is_finished


def test_an_error_of_the_api_is_no_answer() -> None:
    lines = claude_transcript(prompt="find login", steps=[say("API Error: 400")]).splitlines()
    last = json.loads(lines[-1]) | {"isApiErrorMessage": True}

    assert not read_claude(b"\n".join([*lines[:-1], json.dumps(last).encode()])).is_finished


def test_a_message_that_streams_counts_as_its_last_line_says() -> None:
    early = Step("Read", {"file_path": "/r/a.py"}, "1\tx", usage={**USAGE, "output_tokens": 1})
    explored = claude([early, read("/r/b.py")], say("done"))

    assert explored.tokens == ONE_MESSAGE + ONE_MESSAGE


def test_half_a_character_does_not_cost_the_line() -> None:
    data = claude_transcript(prompt="find login", steps=[bash("cat a.py", "HALF"), say("done")])

    explored = read_claude(data.replace(b"HALF", rb"x\ud83d"))

    assert looks(explored) == ["/r/a.py"]


def test_what_stands_beside_a_transcript_is_read() -> None:
    data = claude_meta(call="toolu_1", agent_type="scout", description="Look", parent="a1")

    assert read_meta(data) == Meta("toolu_1", "scout", "Look", True, "a1")


def test_an_unfinished_or_broken_meta_tells_what_it_can() -> None:
    assert not read_meta(claude_meta(finished=False)).is_finished
    assert read_meta(b'{"agentType":') == Meta("", "", "", False)


# -- Codex -------------------------------------------------------------------------------------


def line(kind: str, **payload: object) -> bytes:
    document = {"timestamp": "2026-11-30T03:36:00.000Z", "type": kind, "payload": payload}
    return json.dumps(document).encode() + b"\n"


def test_an_unfinished_turn_is_not_finished() -> None:
    assert not codex(say("So far"), finished=False).is_finished
    aborted = codex_rollout(prompt="p", steps=[say("x")]) + line("event_msg", type="turn_aborted")
    assert not read_codex(aborted).is_finished


def test_what_codex_says_it_reads_is_read_where_the_shell_tells_nothing() -> None:
    data = codex_rollout(prompt="p", steps=[bash("tool --show a.py"), say("done")])
    unknown = b'{"type":"unknown","cmd":"tool --show a.py"}'
    known = b'{"type":"read","cmd":"tool --show a.py","name":"a.py","path":"src/a.py"}'
    assert unknown in data

    explored = read_codex(data.replace(unknown, known))

    assert explored.reads == (Read("/r/src/a.py", at=BEGAN + timedelta(seconds=1)),)


def test_an_older_rollout_without_events_is_read_from_what_the_model_saw() -> None:
    given = json.dumps({"command": ["bash", "-lc", "cat a.py no.py"], "workdir": "/r/src"})
    shown = json.dumps(
        {
            "output": "x\ncat: no.py: No such file or directory\n",
            "metadata": {"exit_code": 1},
        }
    )
    told = [{"type": "input_text", "text": "find login"}]
    data = (
        line("session_meta", id="t", cwd="/r")
        + line("response_item", type="message", role="user", content=told)
        + line("response_item", type="function_call", name="shell", arguments=given, call_id="1")
        + line(
            "response_item",
            type="function_call_output",
            call_id="1",
            output=shown.replace('{"output": ', '{"output":'),
        )
    )

    explored = read_codex(data)

    assert explored.prompt == "find login"
    assert looks(explored) == ["/r/src/a.py", "!/r/src/no.py"]


def test_a_directory_may_come_as_an_address() -> None:
    data = codex_rollout(prompt="p", steps=[bash("cat a.py"), say("x")], cwd="/r/with%20blank")

    (one,) = read_codex(data).reads

    assert one.path == "/r/with blank/a.py"


def test_the_parents_copied_lines_are_not_the_threads_own() -> None:
    at = "2026-11-30T03:35:40.000Z"
    parents = [
        {"timestamp": at, "type": "session_meta", "payload": {"id": "parent", "cwd": "/other"}},
        {
            "timestamp": at,
            "type": "response_item",
            "payload": {
                "type": "function_call",
                "name": "exec_command",
                "arguments": '{"cmd":"cat parent.py"}',
                "call_id": "p1",
            },
        },
        {
            "timestamp": at,
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "p1", "output": "x"},
        },
        {
            "timestamp": at,
            "type": "token_usage_record",
            "payload": {"thread_id": "parent", "response_id": "r", "usage": {"input_tokens": 9}},
        },
    ]

    explored = read_codex(
        codex_rollout(prompt="find login", steps=[read("/r/a.py")], forked_from=parents)
    )

    assert (explored.prompt, explored.cwd) == ("find login", "/r")
    assert looks(explored) == ["/r/a.py"]
    assert explored.tokens == ONE_MESSAGE


def test_without_records_the_last_total_is_what_it_cost() -> None:
    total = {"input_tokens": 1000, "cached_input_tokens": 300, "output_tokens": 50}
    data = line("session_meta", id="t") + line(
        "event_msg", type="token_count", info={"total_token_usage": total}
    )

    assert read_codex(data).tokens == Usage(700, 50, 300, 0)


def test_files_that_codex_opens_itself_are_looks() -> None:
    given = json.dumps({"file_path": "/r/a.py", "offset": 3, "limit": 2})
    data = (
        line("session_meta", id="t", cwd="/r")
        + line(
            "response_item", type="function_call", name="read_file", arguments=given, call_id="1"
        )
        + line("response_item", type="function_call_output", call_id="1", output="L3: x")
    )

    assert looks(read_codex(data)) == ["/r/a.py:3-4"]
