"""JSON text with positions: what is read, what is refused, and that edits touch nothing else."""

import contextlib
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amend.errors import DocumentInvalid
from amend.formats.json_text import (
    BOM,
    DEPTH_MAX,
    DOCUMENT_BYTES_MAX,
    Object,
    RepeatedKeys,
    TooLarge,
    decode,
    edit_object,
    encode,
    quote,
    render,
    splice,
    style_of,
    walk,
)


def values(target: Object) -> dict[str, Any]:
    return {
        m.key: values(m.value) if isinstance(m.value, Object) else m.value for m in target.members
    }


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        " {\t}\r\n",
        '{"a": 1}',
        '{"a":{"b":[1,2.5,-3e2,true,false,null,"x"]},"":0}',
        '{"a\\n\\u00e9\\ud83d\\ude00": "\\ud800"}',
        '{ "a" : 1 , "b" : [ ] }',
        BOM + '{"a": 1}',
        '{"a": 18446744073709551616}',
    ],
)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert values(walk(text)) == json.loads(text.removeprefix(BOM))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": {"b": [1 ,\n],\t} ,\r\n}', {"a": {"b": [1]}}),
        ('{"a": ",]", "b": "\\",}", "c": ["x",]}', {"a": ",]", "b": '",}', "c": ["x"]}),
        ('{"a,]": [[],],}', {"a,]": [[]]}),
    ],
)
def test_a_comma_before_a_closing_bracket_does_no_harm(text: str, value: object) -> None:
    assert values(walk(text)) == value


def test_members_are_where_they_say() -> None:
    text = '{"a" : [1,] ,\n "b\\u0041":{ } }'

    a, b = walk(text).members

    assert (text[a.key_start : a.key_end], text[a.value_start : a.value_end]) == ('"a"', "[1,]")
    assert (text[b.key_start : b.key_end], text[b.value_start : b.value_end]) == (
        '"b\\u0041"',
        "{ }",
    )
    assert b.key == "bA"


def test_keys_that_stand_twice_are_visible_and_the_last_counts() -> None:
    top = walk('{"a": 1, "b": {"x": 1, "x": 2}, "a": 3}')

    first = top.get("a")
    second = top.get("b")
    assert first is not None
    assert second is not None
    assert top.repeated() == ["a"]
    assert first.value == 3
    assert isinstance(second.value, RepeatedKeys)
    assert second.value == {"x": 2}


def test_a_number_that_no_float_holds_is_kept_apart() -> None:
    a, b = walk('{"a": 1e999, "b": [-1e999]}').members

    assert isinstance(a.value, TooLarge)
    assert isinstance(b.value[0], TooLarge)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: found the end, expected an object `{`"),
        ("[]", "line 1, column 1: found '[', expected an object `{`"),
        ("{", 'line 1, column 2: found the end, expected a key in double quotes or "}"'),
        ("{}\n x", "line 2, column 2: found 'x', expected nothing after the object"),
        ("{a: 1}", "line 1, column 2: found 'a', expected a key in double quotes or \"}\""),
        ("{'a': 1}", 'line 1, column 2: found "\'", expected a key in double quotes or "}"'),
        ('{\n  "a" 1}', "line 2, column 7: found '1', expected \":\" after the key"),
        ('{"a": }', "line 1, column 7: found '}', expected a value"),
        ('{"a": 1 "b": 2}', 'line 1, column 9: found \'"\', expected "," or "}"'),
        ('{"a": [1 2]}', "line 1, column 10: found '2', expected \",\" or a closing bracket"),
        ('{"a": [1,,]}', "line 1, column 10: found ',', expected a value"),
        ('{"a": [,]}', "line 1, column 8: found ',', expected a value"),
        ("{,}", "line 1, column 2: found ',', expected a key in double quotes or \"}\""),
        ('{"a": // no\n 1}', "line 1, column 7: found '/', expected a value"),
        ('{"a": 1, # no\n}', "line 1, column 10: found '#', expected a key"),
        ('{"a": "x}', "line 1, column 7: found '\"', expected a string that ends"),
        ('{"a": "x\ny"}', "line 1, column 9: found '\\n', expected no control character"),
        ('{"a\ny": 1}', "line 1, column 4: found '\\n', expected no control character"),
        ('{"a": "\\x"}', "expected a well-formed value"),
        ('{"a": NaN}', "line 1, column 7: found 'N', expected a value with numbers that can be"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ('{"a": 01}', 'line 1, column 8: found \'1\', expected "," or "}"'),
        ('{"a": ' + "9" * 5000 + "}", "expected a value with numbers that can be read"),
    ],
)
def test_what_is_no_json_is_refused_by_line_and_column(text: str, message: str) -> None:
    with pytest.raises(DocumentInvalid) as refused:
        walk(text)

    assert message in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "data",
    [
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-16-le"),
        '{"a": 1}'.encode("utf-16-be"),
        '{"a": 1}'.encode("utf-32"),
        '{"a": 1}'.encode("utf-32-be"),
        b"\0\0\xfe\xff\0\0\0{\0\0\0}",
    ],
)
def test_other_encodings_than_utf_8_are_refused(data: bytes) -> None:
    with pytest.raises(DocumentInvalid):
        walk(decode(data))


def test_a_document_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(DocumentInvalid, match=f"at most {DOCUMENT_BYTES_MAX} are read"):
        decode(bytes(DOCUMENT_BYTES_MAX + 1))


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 1_500, 200_000])
def test_deep_nesting_is_refused_whether_it_ends_or_not(opening: str, depth: int) -> None:
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    unclosed = '{"x": ' + opening * depth
    closed = unclosed + "1" + closing * depth + "}"

    for text in (unclosed, closed, closed.replace("1", "1,"), '{"y": [1,], ' + closed[1:]):
        with pytest.raises(DocumentInvalid):
            walk(text)


def test_nesting_up_to_the_limit_is_read() -> None:
    text = '{"x": ' + "[" * DEPTH_MAX + '"[[["' + "]" * DEPTH_MAX + ', "y": [' + "[]," * 99 + "]}"

    assert [m.key for m in walk(text).members] == ["x", "y"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + '\\"' * 1_000_000,
        '{"a": [1,], "b": "' + '\\"' * 1_000_000,
        '{"a": [1,], "b": ' + "," * 1_000_000,
        '{"a": [1,], "b": ' + ", " * 1_000_000 + "x",
        '{"a": [1,], "b": ' + '"' * 1_000_000,
        '{"a": [1,],' + " " * 1_000_000 + "x",
        '{"a": [1,],' * 100_000,
        '{"a": ' + "[1,]," * 200_000,
        '{"a": ' + "\\" * 1_000_000,
    ],
    ids=range(9),
)
def test_refusing_takes_time_in_proportion_to_the_text(text: str) -> None:
    began_s = time.process_time()

    with pytest.raises(DocumentInvalid):
        walk(text)

    # Measured 0.02 to 0.2 s; with a quadratic step in it, minutes.
    assert time.process_time() - began_s < 5.0


@given(st.binary(max_size=60))
def test_bytes_come_back_as_they_were(data: bytes) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return

    assert encode(decode(data)) == data


FRAGMENTS = st.sampled_from(
    (
        *"{}[],: \n\\\0'\"",
        *("1", "1e9", "1e999", "tru", "true", "NaN", '"a"', '"b"', '"\\ud8"', '{"a":'),
        *("],", "},", "//", "\\u", "\ud800", BOM),
    )
)


@given(st.one_of(st.text(max_size=40), st.lists(FRAGMENTS, max_size=30).map("".join)))
def test_any_text_is_an_object_or_refused(text: str) -> None:
    for each in (text, '{"a": ' + text, '{"a": ' + text + "}"):
        with contextlib.suppress(DocumentInvalid):
            walk(each, frozenset("ab"))


# -- editing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "remove", "append", "after"),
    [
        ("{}", [], ["z"], '{\n  "z": 0\n}'),
        ('{"a": 1}', [], ["z"], '{"a": 1, "z": 0}'),
        ('{"a":1}', [], ["z"], '{"a":1,"z":0}'),
        ('{ "a": 1 }', [], ["z"], '{ "a": 1, "z": 0 }'),
        ('{"a": 1,}', [], ["z"], '{"a": 1, "z": 0,}'),
        ('{\n\t"a": 1\n}\n', [], ["y", "z"], '{\n\t"a": 1,\n\t"y": 0,\n\t"z": 0\n}\n'),
        ('{\r\n "a": 1,\r\n}', [], ["z"], '{\r\n "a": 1,\r\n "z": 0,\r\n}'),
        ('{"a": 1}', [0], [], "{}"),
        ('{\n  "a": 1,\n}', [0], [], "{}"),
        ('{"a": 1}', [0], ["z"], '{"z": 0}'),
        ('{\n  "a": 1\n}', [0], ["z"], '{\n  "z": 0\n}'),
        ('{"a": 1, "b": 2, "c": 3}', [0], [], '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', [1], [], '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', [2], [], '{"a": 1, "b": 2}'),
        ('{"a": 1, "b": 2, "c": 3,}', [1, 2], [], '{"a": 1,}'),
        ('{"a": 1, "b": 2, "c": 3}', [0, 1], ["z"], '{"c": 3, "z": 0}'),
        (
            '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}',
            [1, 2],
            ["z"],
            '{\n  "a": 1,\n  "z": 0\n}',
        ),
    ],
)
def test_an_edit_takes_over_the_layout(
    before: str, remove: list[int], append: list[str], after: str
) -> None:
    assert edited(before, remove=remove, append=dict.fromkeys(append, 0)) == after


def edited(
    text: str,
    *,
    replace: dict[int, object] | None = None,
    remove: Iterable[int] = (),
    append: dict[str, object] | None = None,
) -> str:
    """The text with the outermost object edited."""
    top = walk(text)
    style = style_of(text, top)
    return splice(
        text,
        edit_object(
            text,
            top,
            style,
            replace={i: render(value, style) for i, value in (replace or {}).items()},
            remove=frozenset(remove),
            append=[(key, render(value, style)) for key, value in (append or {}).items()],
        ),
    )


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(["\udcff", "\ud800x", '",}', "\\", "é\u2028\x7f"]),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=6,
    )


KEYS = st.sampled_from(["a", "b", "c", "d/e", "é", 'q"', "", "\udcff"])
BLANKS = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\n\t", "  "])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An object's text, laid out as nobody would, and its value."""
    value = draw(st.dictionaries(KEYS, json_values(KEYS), max_size=5))
    text = draw(st.sampled_from(["", BOM])) + draw(BLANKS) + "{"
    for index, (key, item) in enumerate(value.items()):
        text += "," if index else ""
        text += draw(BLANKS) + quote(key) + draw(BLANKS) + ":" + draw(BLANKS) + render_any(item)
        text += draw(BLANKS)
    if value and draw(st.booleans()):
        text += ","
    return text + draw(BLANKS) + "}" + draw(BLANKS), value


def render_any(value: object) -> str:
    return json.dumps(value)


@settings(max_examples=40)
@given(documents(), st.data())
def test_an_edited_text_holds_the_edited_value(
    document: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    text, value = document
    keys = list(value)
    indices = st.integers(0, max(0, len(keys) - 1))
    remove = data.draw(st.sets(indices)) if keys else set()
    replace = data.draw(st.dictionaries(indices, json_values(KEYS), max_size=3)) if keys else {}
    append = data.draw(st.dictionaries(KEYS.filter(lambda k: k not in value), json_values(KEYS)))

    after = edited(text, replace=replace, remove=remove, append=append)

    expected = {
        key: replace.get(i, item) for i, (key, item) in enumerate(value.items()) if i not in remove
    } | append
    assert values(walk(decode(encode(after)))) == expected
    assert list(values(walk(after))) == list(expected)


@settings(max_examples=40)
@given(documents(), st.data())
def test_replacing_a_value_leaves_every_other_byte(
    document: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    text, value = document
    if not value:
        return
    index = data.draw(st.integers(0, len(value) - 1))
    member = walk(text).members[index]

    after = edited(text, replace={index: "new"})

    assert after == text[: member.value_start] + '"new"' + text[member.value_end :]


@settings(max_examples=40)
@given(documents())
def test_appending_and_removing_gives_the_first_text_back(
    document: tuple[str, dict[str, Any]],
) -> None:
    text, value = document
    appended = edited(text, append={"z": {"x": [1, 2], "y": "é"}})

    back = edited(appended, remove=[len(value)])

    if value:
        assert back == text
    else:
        assert values(walk(back)) == {}


@given(st.text(max_size=20))
def test_a_quoted_text_can_be_encoded_and_read_back(text: str) -> None:
    quoted = quote(text)

    assert json.loads(quoted.encode()) == text
