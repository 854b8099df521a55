"""amend's hooks in a settings document: in, found, changed, and out again."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.errors import DocumentInvalid
from amend.formats.agent_settings import (
    SENTINEL,
    HookGroup,
    add_hooks,
    are_hooks_disabled,
    enabled_plugins,
    own_hooks,
    remove_hooks,
)
from amend.formats.json_text import decode
from amend.formats.json_tree import read_tree
from tests.foreign_settings import FOREIGN, REFUSED

WANTED = (
    HookGroup("SessionStart", None, f"ask 'it''s' \"$o\" {SENTINEL}", 0.5),
    HookGroup("PreToolUse", "Agent|Task", f"ask {SENTINEL}", 0.5),
    HookGroup("SubagentStop", ".+", f"ask {SENTINEL}", 1),
)
NEWER = (
    HookGroup("SessionStart", None, f"ask better {SENTINEL}", 0.5),
    HookGroup("PreToolUse", "Agent", f"ask {SENTINEL}", 0.25),
    HookGroup("SubagentStop", ".+", f"ask {SENTINEL}", 1),
    HookGroup("StopFailure", None, f"ask {SENTINEL}", 1),
)


def plain(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = read_tree(decode(data)).top.plain()
    return found


def with_wanted(document: dict[str, Any], wanted: tuple[HookGroup, ...]) -> dict[str, Any]:
    """What the document says with the groups behind what it has."""
    hooks = {**document.get("hooks", {})}
    for group in wanted:
        hooks[group.event] = [*hooks.get(group.event, []), group.document()]
    return {**document, "hooks": hooks}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_hooks_come_and_go_without_a_trace(data: bytes) -> None:
    added = add_hooks(data, WANTED)

    assert plain(added) == with_wanted(plain(data), WANTED)
    assert add_hooks(added, WANTED) is added
    assert remove_hooks(added) == data


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_newer_hooks_take_the_place_of_older_ones(data: bytes) -> None:
    newer = add_hooks(add_hooks(data, WANTED), NEWER)

    assert plain(newer) == with_wanted(plain(data), NEWER)
    assert remove_hooks(newer) == data


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_where_there_are_none_nothing_is_taken_out(data: bytes) -> None:
    assert remove_hooks(data) is data
    assert own_hooks(data) == ()


@pytest.mark.parametrize(("data", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_edited_is_refused_and_says_where(data: bytes, said: str) -> None:
    with pytest.raises(DocumentInvalid) as refused:
        add_hooks(data, WANTED)

    assert said in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("data", [None, b"", b"\n", b" \t\r\n", b"\xef\xbb\xbf"])
def test_where_there_is_nothing_a_document_is_made_and_all_of_it_goes(data: bytes | None) -> None:
    added = add_hooks(data, WANTED)

    assert plain(added) == with_wanted({}, WANTED)
    assert add_hooks(added, WANTED) is added
    assert remove_hooks(added) is None


def test_what_is_added_looks_as_what_is_there() -> None:
    added = add_hooks(b'{\r\n\t"model": "opus"\r\n}\r\n', WANTED[1:2])

    assert added == (
        b'{\r\n\t"model": "opus",\r\n\t"hooks": {\r\n\t\t"PreToolUse": [\r\n\t\t\t{\r\n'
        b'\t\t\t\t"matcher": "Agent|Task",\r\n\t\t\t\t"hooks": [\r\n\t\t\t\t\t{\r\n'
        b'\t\t\t\t\t\t"type": "command",\r\n\t\t\t\t\t\t"command": "ask # amend hook",\r\n'
        b'\t\t\t\t\t\t"timeout": 0.5\r\n\t\t\t\t\t}\r\n\t\t\t\t]\r\n'
        b"\t\t\t}\r\n\t\t]\r\n\t}\r\n}\r\n"
    )


def test_a_document_on_one_line_stays_on_one_line() -> None:
    assert add_hooks(b'{"a":1}', WANTED[1:2]) == (
        b'{"a":1,"hooks":{ "PreToolUse":[ {"matcher":"Agent|Task","hooks":'
        b'[{"type":"command","command":"ask # amend hook","timeout":0.5}]}]}}'
    )


def test_foreign_groups_keep_their_number() -> None:
    data = FOREIGN["another tool's hooks"]

    added = add_hooks(data, WANTED)

    assert plain(added)["hooks"]["PreToolUse"][:2] == plain(data)["hooks"]["PreToolUse"]
    assert [(hook.event, hook.group, hook.handler) for hook in own_hooks(added)] == [
        ("PreToolUse", 2, 0),
        ("SessionStart", 0, 0),
        ("SubagentStop", 0, 0),
    ]


def test_what_others_wrote_behind_stays_when_the_hooks_go() -> None:
    added = add_hooks(b'{\n  "model": "opus"\n}\n', WANTED)
    others = added.replace(
        b"\n  }\n}\n", b',\n    "Stop": [{"hooks": []}]\n  },\n  "theme": "dark"\n}\n'
    )
    assert others != added

    assert plain(remove_hooks(others) or b"") == {
        "model": "opus",
        "hooks": {"Stop": [{"hooks": []}]},
        "theme": "dark",
    }


def test_a_foreign_handler_in_a_group_of_ours_stays() -> None:
    document = plain(add_hooks(b"{}", WANTED))
    document["hooks"]["PreToolUse"][0]["hooks"].insert(0, {"type": "command", "command": "theirs"})
    data = json.dumps(document, indent=2).encode()

    removed = remove_hooks(data)

    assert removed is not None
    assert plain(removed)["hooks"] == {
        "PreToolUse": [
            {"matcher": "Agent|Task", "hooks": [{"type": "command", "command": "theirs"}]}
        ]
    }
    assert [hook.event for hook in own_hooks(add_hooks(data, WANTED))].count("PreToolUse") == 1


def test_hooks_that_are_there_several_times_are_there_once_afterwards() -> None:
    document = plain(add_hooks(b"{}", WANTED))
    document["hooks"]["PreToolUse"] *= 3
    document["hooks"]["Notification"] = document["hooks"]["PreToolUse"]

    mended = add_hooks(json.dumps(document, indent=2).encode(), WANTED)

    assert plain(mended)["hooks"] == with_wanted({}, WANTED)["hooks"]


def test_a_document_that_another_program_wrote_anew_loses_the_hooks_all_the_same() -> None:
    anew = json.dumps(plain(add_hooks(b'{"model": "opus", "hooks": {}}', WANTED)), indent=4)

    assert plain(remove_hooks(anew.encode()) or b"") == {"model": "opus"}


def test_comments_that_a_person_put_between_the_hooks_stay() -> None:
    added = add_hooks(b'{\n  "model": "opus"\n}\n', WANTED)
    noted = added.replace(b'"hooks": {\n', b'"hooks": {\n    // what amend wants\n', 1)
    assert noted != added

    removed = remove_hooks(noted) or b""

    assert b"// what amend wants" in removed
    assert plain(removed) == {"model": "opus", "hooks": {}}


def test_found_hooks_say_what_is_in_force() -> None:
    found = own_hooks(add_hooks(b"{}", WANTED))

    assert [(hook.event, hook.matcher, hook.command, hook.timeout) for hook in found] == [
        (group.event, group.matcher, group.command, group.timeout_s) for group in WANTED
    ]


def test_a_plugin_is_found_where_it_is_switched_on() -> None:
    data = b'{"enabledPlugins": {"amend@here": true, "amend@there": false, "amended@x": true}}'

    assert enabled_plugins(data, "amend") == ("amend@here",)
    assert enabled_plugins(b'{"enabledPlugins": []}', "amend") == ()
    assert enabled_plugins(b"", "amend") == ()


def test_settings_tell_whether_hooks_are_switched_off() -> None:
    assert are_hooks_disabled(b'{"disableAllHooks": true}')
    assert not are_hooks_disabled(b'{"disableAllHooks": "true"}')
    assert not are_hooks_disabled(b"")


@pytest.mark.parametrize("data", [b'{"a": "' + b'\\"' * 50_000, b"{" + b"/*/" * 50_000])
def test_what_never_ends_is_refused_soon(data: bytes) -> None:
    begun_s = time.monotonic()
    with pytest.raises(DocumentInvalid):
        add_hooks(data, WANTED)

    assert time.monotonic() - begun_s < 2.0  # a square of the length would be minutes


# -- any document in any layout ----------------------------------------------------------------

SPACES = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", " \n\n    "])
COMMENTS = st.sampled_from(["", "", "", "/* c */", "// c\n", "/*\n*/", '// "}],\r\n'])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
GROUPS = st.lists(
    st.fixed_dictionaries({"hooks": st.lists(VALUES, max_size=2)}, optional={"matcher": WORDS}),
    max_size=3,
)
EVENTS = st.sampled_from([*(group.event for group in NEWER), "Stop", "x"])
DOCUMENTS = st.builds(
    lambda rest, hooks, is_last: {**rest, **hooks} if is_last else {**hooks, **rest},
    st.dictionaries(WORDS.filter(lambda word: word != "hooks"), VALUES, max_size=3),
    st.just({}) | st.fixed_dictionaries({"hooks": st.dictionaries(EVENTS, GROUPS, max_size=3)}),
    st.booleans(),
)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """A document with blanks, comments and trailing commas wherever they may be."""
    has_comments, has_commas = draw(st.booleans()), draw(st.booleans())

    def gap() -> str:
        return draw(SPACES) + (draw(COMMENTS) if has_comments else "") + draw(SPACES)

    def text(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        inside = (
            [f"{json.dumps(key)}{gap()}:{gap()}{text(item)}" for key, item in value.items()]
            if isinstance(value, dict)
            else [text(item) for item in value]
        )
        joined = ",".join(f"{gap()}{each}{gap()}" for each in inside)
        if inside and has_commas and draw(st.booleans()):
            joined += f",{gap()}"
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        return f"{opened}{joined or gap()}{closed}"

    mark = draw(st.sampled_from(["", "", "\ufeff"]))
    return f"{mark}{draw(SPACES)}{text(draw(DOCUMENTS))}{gap()}".encode()


@given(data=written())
def test_from_any_document_hooks_go_without_a_trace(data: bytes) -> None:
    added = add_hooks(data, WANTED)
    newer = add_hooks(added, NEWER)

    assert plain(added) == with_wanted(plain(data), WANTED)
    assert plain(newer) == with_wanted(plain(data), NEWER)
    assert add_hooks(added, WANTED) is added
    assert remove_hooks(added) == remove_hooks(newer) == data


@given(data=st.binary(max_size=60) | st.text(alphabet='{}[],:"/*\\ \nhooksa1', max_size=40))
def test_no_input_is_worse_than_refused(data: bytes | str) -> None:
    raw = data if isinstance(data, bytes) else data.encode()
    try:
        added = add_hooks(raw, WANTED)
    except DocumentInvalid:
        return

    rest = remove_hooks(added)
    assert rest == raw or (rest is None and not re.sub(rb"\xef\xbb\xbf|\s", b"", raw))
