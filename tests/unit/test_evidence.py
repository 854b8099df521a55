"""Cited lines: remembered by content, found again, and never said to stand when they do not."""

import json
import time
from dataclasses import replace
from textwrap import dedent

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from amend.core.evidence import (
    LINES_BYTES_MAX,
    LINES_MAX,
    NEIGHBOUR_BYTES_MAX,
    SHOWN_BYTES_MAX,
    TEXT_BYTES_MAX,
    TWINS_MAX,
    WHY_BLOCK,
    WHY_TOO_LARGE,
    WHY_UNSURE,
    Cited,
    CitedLines,
    CitedQuote,
    Remembered,
    Standing,
    StandingKind,
    from_json,
    remember,
    standing,
    to_json,
)

UNCHANGED, MOVED = StandingKind.UNCHANGED, StandingKind.MOVED
CHANGED, GONE = StandingKind.CHANGED, StandingKind.GONE


def line(number: int) -> CitedLines:
    return CitedLines(number, number)


def code(text: str) -> bytes:
    return dedent(text).lstrip("\n").encode()


def cited_line(text: bytes, part: bytes) -> CitedLines:
    """The only line that holds `part`."""
    numbers = [n for n, each in enumerate(text.split(b"\n"), 1) if part in each]
    assert len(numbers) == 1
    return line(numbers[0])


def after(old: bytes, cited: Cited, new: bytes) -> Standing:
    return standing(remember(old, cited), new)


ROUTES = code(
    """
    const express = require('express');
    const router = express.Router();

    router.get('/items/:id', async (req, res) => {
      const item = await find(req.params.id);
      if (!item) {
        return res.status(404).json({ error: 'not found' });
      }
      return res.json({ id: item.id, name: item.name });
    });

    router.delete('/items/:id', async (req, res) => {
      await remove(req.params.id);
      return res.status(204).end();
    });

    module.exports = router;
    """
)
SHAPE = b"  return res.json({ id: item.id, name: item.name });"

VIEWS = code(
    """
    @app.get("/items")
    @login_required
    def index(
        page: int = 1,
        size: int = 20,
    ):
        if page < 1:
            return None
        else:
            result = fetch(page)
        return render(result)


    def other():
        return None
    """
)


# What stands.


@pytest.mark.parametrize(
    ("old", "new", "kind", "start"),
    [
        (b"const express", b"// Items.\nconst express", MOVED, 10),
        (SHAPE, b"  // The shape of an item.\n" + SHAPE, MOVED, 10),
        (SHAPE, SHAPE + b"\n  // Never here.", UNCHANGED, 9),
        (SHAPE, b"  // Above.\n" + SHAPE + b"\n  // Below.", MOVED, 10),
        (b"const router", b"\nconst router", MOVED, 10),
        (b"find(", b"fetch(", UNCHANGED, 9),
        (b"  if (!item) {\n", b"  if (!item || item.gone) {\n", UNCHANGED, 9),
        (b"204", b"200", UNCHANGED, 9),
        (b"module.exports = router;\n", b"", UNCHANGED, 9),
        (b"module.exports = router;\n", b"module.exports = router;", UNCHANGED, 9),
        (b"router.get(", b"// GET\nrouter.get(", MOVED, 10),
        (b"const express = require('express');\n", b"", MOVED, 8),
    ],
)
def test_a_cited_line_stands_when_others_change(
    old: bytes, new: bytes, kind: StandingKind, start: int
) -> None:
    assert ROUTES.count(old) == 1 or old == b"const router"

    found = after(ROUTES, cited_line(ROUTES, SHAPE), ROUTES.replace(old, new, 1))

    assert found == Standing(kind, start, start)
    assert found.stands


def test_a_cited_line_stands_between_edits_above_and_below_it() -> None:
    new = ROUTES.replace(b"express.Router()", b"Router()\n\nrouter.use(log)").replace(
        b"204", b"200"
    )

    assert after(ROUTES, cited_line(ROUTES, SHAPE), new) == Standing(MOVED, 11, 11)


def test_a_whole_function_that_moved_below_another_stands() -> None:
    head, get, delete, rest = ROUTES.split(b"\n\n")
    new = b"\n\n".join([head, delete, get, rest])

    assert after(ROUTES, cited_line(ROUTES, SHAPE), new) == Standing(MOVED, 14, 14)


def test_a_range_stands_as_a_whole_and_moves_as_a_whole() -> None:
    cited = CitedLines(6, 9)

    moved = after(ROUTES, cited, b"// Items.\n\n" + ROUTES)

    assert moved == Standing(MOVED, 8, 11)
    assert not after(ROUTES, cited, ROUTES.replace(b"404", b"410")).stands
    assert not after(ROUTES, cited, ROUTES.replace(b"  }\n", b"  }\n  // Found.\n")).stands


def test_a_copied_block_leaves_the_first_one_in_place() -> None:
    block = ROUTES.split(b"\n\n")[1]
    new = ROUTES.replace(block, block + b"\n\n" + block)

    for number in range(4, 11):
        assert after(ROUTES, line(number), new) == Standing(UNCHANGED, number, number)


def test_the_last_line_stands_with_and_without_its_line_end() -> None:
    with_end, without = b"one\ntwo\n", b"one\ntwo"

    assert after(with_end, line(2), without) == Standing(UNCHANGED, 2, 2)
    assert after(without, line(2), with_end) == Standing(UNCHANGED, 2, 2)
    assert after(without, line(2), b"zero\none\ntwo\nthree") == Standing(MOVED, 3, 3)


def test_bytes_that_are_no_text_are_lines_too() -> None:
    old = b"\xff\xfe\0\nk\xe9y = 1\n\x80\n"

    assert after(old, line(2), b"new\n" + old) == Standing(MOVED, 3, 3)
    assert not after(old, line(2), old.replace(b"\xe9", b"\xc3\xa9")).stands


# What does not.


@pytest.mark.parametrize(
    "new",
    [
        SHAPE.replace(b"name", b"title"),
        SHAPE + b" ",
        SHAPE + b"\r",
        b" " + SHAPE,
        SHAPE.replace(b"  return", b"\treturn"),
        SHAPE.replace(b": ", b":"),
        b"  // " + SHAPE.lstrip(),
        b"",
        b"  if (item.public) {\n  " + SHAPE + b"\n  }",
    ],
)
def test_a_cited_line_that_changed_by_one_byte_does_not_stand(new: bytes) -> None:
    assert not after(ROUTES, cited_line(ROUTES, SHAPE), ROUTES.replace(SHAPE, new)).stands


def test_the_line_that_took_its_place_is_the_nearest() -> None:
    new = SHAPE.replace(b"name: item.name", b"title: item.title")
    text = ROUTES.replace(SHAPE, b"  // The shape of an item.\n" + new)

    found = after(ROUTES, cited_line(ROUTES, SHAPE), text)

    assert found == Standing(CHANGED, 10, 10, nearest=(new,))


def test_a_line_that_changed_together_with_all_around_it_is_still_found_as_the_nearest() -> None:
    old = code(
        """
        def a():
            first = 1
            return render(user, page, size)
            last = 2
        """
    )
    new = code(
        """
        import x
        def a(b):
            start = 1
            return render(user, page)
            end = 2
        """
    )

    found = after(old, line(3), new)

    assert found == Standing(CHANGED, 4, 4, nearest=(b"    return render(user, page)",))


def test_lines_that_were_taken_out_are_gone() -> None:
    without = ROUTES.replace(SHAPE + b"\n", b"")

    assert after(ROUTES, cited_line(ROUTES, SHAPE), without) == Standing(GONE)
    assert after(ROUTES, cited_line(ROUTES, SHAPE), b"") == Standing(GONE)
    assert after(ROUTES, cited_line(ROUTES, SHAPE), b"something else\n") == Standing(GONE)


def test_line_ends_are_bytes_of_the_line() -> None:
    dos = ROUTES.replace(b"\n", b"\r\n")

    assert not after(ROUTES, line(9), dos).stands
    assert not after(dos, line(9), ROUTES).stands
    assert after(dos, line(9), b"\r\n" + dos) == Standing(MOVED, 10, 10)


def test_indentation_that_changed_in_python_is_a_change() -> None:
    new = VIEWS.replace(b"    return render(result)", b"        return render(result)")

    found = after(VIEWS, cited_line(VIEWS, b"render"), new)

    assert found == Standing(CHANGED, 11, 11, nearest=(b"        return render(result)",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"def index", b"def list_items"),
        (b"@login_required\n", b""),
        (b"@login_required\n", b"@admin_required\n"),
        (b'"/items"', b'"/v2/items"'),
        (b"size: int = 20", b"size: int = 50"),
        (b"page < 1", b"page < 2"),
        (b"        else:", b"        elif page < 9:"),
        (b"    if page", b"    while page"),
    ],
)
def test_a_line_does_not_stand_when_what_it_stands_under_changed(old: bytes, new: bytes) -> None:
    text = VIEWS.replace(old.removeprefix(b"    "), new.removeprefix(b"    "))
    assert text != VIEWS

    found = after(VIEWS, cited_line(VIEWS, b"fetch"), text)

    assert found.kind is CHANGED
    assert found.nearest == (b"        result = fetch(page)",)
    assert found.why == WHY_BLOCK


def test_what_stands_beside_a_line_or_below_it_is_not_its_block() -> None:
    new = VIEWS.replace(b"return None\n    else", b"return 0\n    else").replace(
        b"other", b"another"
    )
    new = new.replace(b"    else", b"    # Large pages.\n    else")

    assert after(VIEWS, cited_line(VIEWS, b"fetch"), new) == Standing(MOVED, 11, 11)


@pytest.mark.parametrize(
    ("old", "cited", "change"),
    [
        ("class A\n{\n    int x;\n}\n", "int x", ("class A", "class B")),
        ("int f(int a,\n      int b)\n{\n    return a;\n}\n", "return", ("int b", "long b")),
        ("int f(\n        int a,\n        int b) {\n    return a;\n}\n", "return", ("b)", "c)")),
        ("if (a &&\n    b) {\n  go();\n}\n", "go", ("b)", "!b)")),
        ("if (a) {\n  b();\n} else {\n  c();\n}\n", "c()", ("if (a)", "if (!a)")),
        ("class A {\npublic:\n  int x;\n};\n", "int x", ("class A", "class B")),
        ("[dev]\ndebug = true\n", "debug", ("[dev]", "[prod]")),
        ("[[package]]\nname = 1\n\n[b]\nc = 2\n", "c = ", ("[b]", "[d]")),
        ("@app.route(\n    '/a',\n)\ndef f():\n    pass\n", "pass", ("/a", "/b")),
        ("@app.route(\n    '/a',\n)\ndef f():\n    pass\n", "def", ("/a", "/b")),
        (
            '[HttpGet("/a")]\n// Items.\npublic Item Get()\n{\n    return a;\n}\n',
            "return a",
            ("/a", "/b"),
        ),
        ("#[get('/a')]\nfn f() {\n    a()\n}\n", "a()", ("/a", "/b")),
        ("def f():\n    a()\n# b()\n    c()\n", "    c()", ("def f", "def g")),
        ("f() {\n  a\n}\n", "}", ("f()", "g()")),
        ("x:\n\ty: 1\n", "y: 1", ("x:", "z:")),
    ],
)
def test_a_block_is_what_a_reader_takes_it_for(
    old: str, cited: str, change: tuple[str, str]
) -> None:
    text = old.encode()
    new = old.replace(*change, 1).encode()
    assert new != text

    found = after(text, cited_line(text, cited.encode()), new)

    assert found.kind is CHANGED
    assert found.why == WHY_BLOCK


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("/*", "*/"),
        ("/* off", " */"),
        ("x();/*", "*/"),
        ("<!--", "-->"),
        ('"""', '"""'),
        ("'''", "'''"),
        ("#if 0", "#endif"),
        ("#ifdef X\n#else", "#endif"),
    ],
)
def test_a_line_that_was_fenced_off_does_not_stand(above: str, below: str) -> None:
    old = b"a();\nb();\nc();\n"
    new = f"a();\n{above}\nb();\n{below}\nc();\n".encode()
    beside = f"a();\n{above}\n{below}\nb();\nc();\n".encode()

    assert not after(old, line(2), new).stands
    assert not after(new, cited_line(new, b"b()"), old).stands
    assert after(old, line(2), beside).kind is MOVED


def test_a_condition_that_changed_around_a_line_is_a_change() -> None:
    old = b"#if A\n#if B\nx();\n#endif\ny();\n#else\nz();\n#endif\nlast();\n"

    for inner in (b"x();", b"y();", b"z();"):
        assert not after(old, cited_line(old, inner), old.replace(b"#if A", b"#if C")).stands
    assert after(old, cited_line(old, b"last"), old.replace(b"#if A", b"#if C")).stands
    assert after(old, cited_line(old, b"y();"), old.replace(b"#if B", b"#if C")).stands


def test_a_path_with_a_star_opens_no_comment() -> None:
    old = b"a();\nb();\n"

    assert after(old, line(2), b"glob('src/*.ts');\n" + old) == Standing(MOVED, 3, 3)


# Lines that stand more than once.


def test_an_identical_line_in_another_function_is_not_the_cited_one() -> None:
    old = code(
        """
        def a():
            x = 1
            return None

        def b():
            y = 1
            return None
        """
    )
    second = code(
        """
        def b():
            y = 1
            return None
        """
    )

    for number in (3, 7):
        assert after(old, line(number), b"# New.\n" + old) == Standing(
            MOVED, number + 1, number + 1
        )
    assert not after(old, line(3), second).stands
    assert after(old, line(7), second) == Standing(MOVED, 3, 3)
    assert not after(old, line(3), old.replace(b"x = 1\n    return None", b"x = 1")).stands
    assert not after(old, line(3), old.replace(b"None", b"1", 1)).stands


def test_of_identical_lines_in_one_block_none_stands_when_one_is_gone() -> None:
    old = b"log(a)\ncheck()\nlog(b)\ncheck()\nlog(c)\n"
    without_first = b"log(a)\nlog(b)\ncheck()\nlog(c)\n"
    merged = b"log(a)\ncheck()\nlog(c)\n"

    assert not after(old, line(2), without_first).stands
    assert not after(old, line(4), without_first).stands
    assert not after(old, line(2), merged).stands
    assert not after(old, line(4), merged).stands
    assert after(old, line(4), b"log(z)\n" + old) == Standing(MOVED, 5, 5)


def test_values_that_changed_places_between_like_sections_do_not_stand() -> None:
    old = b"# dev\nurl = x\ndebug = true\nttl = 5\n# prod\nurl = x\ndebug = false\nttl = 5\n"
    swapped = b"# dev\nurl = x\ndebug = false\nttl = 5\n# prod\nurl = x\ndebug = true\nttl = 5\n"

    for new in (swapped, b"# new\n" + swapped, b"# new\n" + swapped + b"# end\n"):
        assert not after(old, line(3), new).stands
        assert not after(old, line(7), new).stands


def test_lines_that_could_be_either_of_two_are_said_to_be_unsure() -> None:
    old = b"x()\na\nx()\nb\n"

    found = after(old, line(1), b"n\nx()\nm\nx()\no\n")

    assert found == Standing(CHANGED, 2, 2, nearest=(b"x()",), why=WHY_UNSURE)


# What is cited.


def test_a_quote_cites_the_whole_lines_that_hold_it() -> None:
    text = ROUTES.replace(b"\n", b"\r\n")

    part = remember(ROUTES, CitedQuote("id: item.id"))
    several = remember(text, CitedQuote("if (!item) {\n    return res.status(404)"))
    padded = remember(ROUTES, CitedQuote("\nconst express = require('express');\n"))

    assert part == remember(ROUTES, line(9))
    assert several == remember(text, CitedLines(6, 7))
    assert padded == remember(ROUTES, line(1))


def test_a_quote_that_stands_twice_in_one_line_cites_that_line() -> None:
    assert remember(ROUTES, CitedQuote("item.")).start == 9


@pytest.mark.parametrize(
    ("text", "cited", "rule"),
    [
        (b"a\nb\n", line(3), "names line 3 of a file of 2 lines"),
        (b"", line(1), "names line 1 of a file of 0 lines"),
        (b"a\nb\n", CitedLines(2, 3), "names line 3 of a file of 2 lines"),
        (b"a\nb\n", line(0), "names lines 0 to 0, which is no range"),
        (b"a\nb\n", CitedLines(2, 1), "names lines 2 to 1, which is no range"),
        (b"a\nb\n", CitedLines(-1, 1), "names lines -1 to 1, which is no range"),
        (b"a\n \t\r\n", line(2), "names blank lines only"),
        (b"x\n" * (LINES_MAX + 1), CitedLines(1, LINES_MAX + 1), "names more than"),
        (b"x" * (LINES_BYTES_MAX + 1), line(1), "names more than"),
        (b"}\n" * (TWINS_MAX + 1), line(7), "names lines that stand in the file more than"),
        (b" " * (TEXT_BYTES_MAX + 1), line(1), "is in a file of more than"),
        (b"a\nb\n", CitedQuote("c"), "quotes what is not in the file"),
        (b"a\nb\n", CitedQuote("a b"), "quotes what is not in the file"),
        (b"a\nb\n", CitedQuote("\ud800"), "quotes what is not in the file"),
        (b"a\nb\na\n", CitedQuote("a"), "quotes what is in the file more than once"),
        (b"a\nb\n", CitedQuote(" \n"), "quotes nothing"),
        (b"a\nb\n", CitedQuote(""), "quotes nothing"),
    ],
)
def test_what_cannot_be_cited_is_refused_with_the_rule(
    text: bytes, cited: Cited, rule: str
) -> None:
    with pytest.raises(ValueError, match="^" + rule):
        remember(text, cited)


# Limits.


def test_what_is_remembered_and_shown_is_bounded() -> None:
    long = b"y" * (NEIGHBOUR_BYTES_MAX + 1)
    old = long + b"\nwords that are cited\n" + long + b"z\n"
    remembered = remember(old, line(2))

    found = standing(remembered, long + b"\nwords that are " + long + b"\n" + long + b"z\n")

    assert remembered.before == b""
    assert remembered.after == b""
    assert found.kind is CHANGED
    assert [len(each) for each in found.nearest] == [SHOWN_BYTES_MAX]


def test_a_file_that_grew_too_large_is_not_searched() -> None:
    old = b"a\n"

    found = after(old, line(1), old + b"b" * TEXT_BYTES_MAX)

    assert found == Standing(CHANGED, why=WHY_TOO_LARGE)


MIB = 1 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"}\n" * (MIB // 2),
        b"\n" * MIB,
        b"x" * MIB,
        b"".join(b"%*d\n" % (n + 1, n) for n in range(1400)),
        b"f(a,\n" * (MIB // 5),
        b" )\n" * (MIB // 3),
        b"} else if (x) {\n  y\n" * (MIB // 20),
        b"@a\n" * (MIB // 3),
        b"#if a\n" * (MIB // 6),
        b"[" * MIB,
        b"[a" * (MIB // 2) + b"\n",
        b'"' * MIB,
        b"'\\" * (MIB // 2),
        b" " * MIB + b"x\n",
        b"\t" * MIB + b"x\n",
        b"".join(b"def f%d():\n    return None\n" % n for n in range(MIB // 30)),
    ],
    ids=range(16),
)
def test_a_text_of_a_mebibyte_is_searched_in_linear_time(body: bytes) -> None:
    cited = b"  the cited line\n"
    old = b"above\n" + cited + b"below\n" + body
    new = body + b"\nabove\nnew\n" + cited + b"new\nbelow\n" + body[: MIB // 8]
    started = time.process_time()

    remembered = remember(body[: MIB // 2] + b"\n" + old[: MIB // 2], CitedQuote("the cited line"))
    standing(remembered, new)
    standing(remembered, body)
    standing(replace(remembered, lines=(b"}",), twins=TWINS_MAX), new)

    # Squared time would be minutes at least.
    assert time.process_time() - started < 20


# Properties.

WORDS = [b"a", b"b", b"}", b"", b"  a", b"  b", b"  }", b"    a", b"if x:", b"  else:", b"# c"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9)


@st.composite
def cited_texts(draw: st.DrawFn) -> tuple[list[bytes], int, int]:
    """Lines with many repetitions, and the half-open range of those that are cited."""
    lines = draw(TEXTS)
    first = draw(st.integers(0, len(lines) - 1))
    end = draw(st.integers(first + 1, min(len(lines), first + 3)))
    assume(any(each.strip() for each in lines[first:end]))
    return lines, first, end


def joined(lines: list[bytes]) -> bytes:
    return b"".join(each + b"\n" for each in lines)


def remembered_of(lines: list[bytes], first: int, end: int) -> Remembered:
    return remember(joined(lines), CitedLines(first + 1, end))


def count_of(run: list[bytes], lines: list[bytes]) -> int:
    return sum(lines[at : at + len(run)] == run for at in range(len(lines)))


def subsequence(few: list[bytes], many: list[bytes]) -> bool:
    rest = iter(many)
    return all(each in rest for each in few)


@given(cited_texts())
def test_an_unchanged_text_leaves_everything_in_place(cited: tuple[list[bytes], int, int]) -> None:
    lines, first, end = cited

    found = standing(remembered_of(lines, first, end), joined(lines))

    assert found == Standing(UNCHANGED, first + 1, end)


@given(cited_texts(), st.data())
def test_comments_and_blank_lines_above_move_cited_lines_to_the_right_place(
    cited: tuple[list[bytes], int, int], data: st.DataObject
) -> None:
    lines, first, end = cited
    at = data.draw(st.integers(0, first))
    added = data.draw(st.lists(st.sampled_from([b"# new", b"    // new"]), min_size=1, max_size=4))
    new = lines[:at] + added + lines[at:]
    assume(count_of(lines[first:end], new) == count_of(lines[first:end], lines))

    found = standing(remembered_of(lines, first, end), joined(new))

    assert found == Standing(MOVED, first + 1 + len(added), end + len(added))


@given(st.lists(st.sampled_from(b"abc}"), min_size=1, max_size=9), st.data())
def test_any_new_lines_above_in_a_flat_text_move_a_cited_line_to_the_right_place(
    letters: list[int], data: st.DataObject
) -> None:
    lines = [b"word " + bytes([letter]) for letter in letters]
    first = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, first))
    new = [b"new %d" % n for n in range(data.draw(st.integers(1, 4)))]

    found = standing(remembered_of(lines, first, first + 1), joined(lines[:at] + new + lines[at:]))

    assert found == Standing(MOVED, first + 1 + len(new), first + 1 + len(new))


@given(cited_texts(), st.data())
def test_an_edit_of_cited_lines_is_never_standing(
    cited: tuple[list[bytes], int, int], data: st.DataObject
) -> None:
    """Any lines, cited ones among them, are taken out or replaced by new ones. Where they then
    are said to stand, the text must be one that comes about without touching the cited lines."""
    lines, first, end = cited
    edits = data.draw(st.lists(st.sampled_from("kkkdri"), min_size=len(lines), max_size=len(lines)))
    assume(any(edit in "dr" for edit in edits[first:end]) or "i" in edits[first + 1 : end])
    new: list[bytes] = []
    for number, (each, edit) in enumerate(zip(lines, edits, strict=True)):
        if edit in "ri":
            new.append(b"%*s%d" % (data.draw(st.integers(3, 7)), b"new", number))
        if edit in "ki":
            new.append(each)

    found = standing(remembered_of(lines, first, end), joined(new))

    if found.stands:
        at = found.start - 1
        assert new[at : found.end] == lines[first:end]
        old_only = [each for each in new if b"new" not in each]
        kept = len([each for each in new[:at] if b"new" not in each])
        assert subsequence(old_only[:kept], lines[:first])
        assert subsequence(old_only[kept + end - first :], lines[end:])


@given(cited_texts(), st.data())
def test_a_replaced_stretch_that_touches_cited_lines_is_never_standing(
    cited: tuple[list[bytes], int, int], data: st.DataObject
) -> None:
    """As above, with a new stretch of lines that may equal the old ones. Where it brings back the
    cited lines or a neighbour, or the text is as if lines had only been added beside them, the
    bytes cannot tell."""
    lines, first, end = cited
    low = data.draw(st.integers(0, end - 1))
    high = data.draw(st.integers(max(low + 1, first + 1), len(lines)))
    stretch = data.draw(st.lists(st.sampled_from(WORDS), max_size=4))
    new = lines[:low] + stretch + lines[high:]
    remembered = remembered_of(lines, first, end)

    found = standing(remembered, joined(new))

    if found.stands:
        at = found.start - 1
        assert new[at : found.end] == lines[first:end]
        above = new[:at] == lines[:first]
        below = new[found.end :] == lines[end:]
        added = subsequence(lines[:first], new[:at]) and subsequence(lines[end:], new[found.end :])
        retyped = [joined(lines[first:end]), remembered.before, remembered.after]
        restored = any(run and b"\n" + run in b"\n" + joined(stretch) for run in retyped)
        assert above or below or added or restored


@given(TEXTS, TEXTS, st.data())
def test_where_lines_are_said_to_stand_they_are(
    old: list[bytes], new: list[bytes], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(old) - 1))
    end = data.draw(st.integers(first + 1, len(old)))
    assume(any(each.strip() for each in old[first:end]))

    found = standing(remembered_of(old, first, end), joined(new))

    shown = tuple(new[found.start - 1 : found.end]) if found.start else ()
    if found.stands:
        assert shown == tuple(old[first:end])
        assert found.nearest == ()
        assert (found.kind is UNCHANGED) == (found.start == first + 1)
    else:
        assert shown == found.nearest
        assert (found.kind is GONE) == (not shown)


@given(st.binary(min_size=1, max_size=60), st.data())
@example(b"\xff\n\0\r\n", None)
def test_what_is_remembered_survives_being_written_as_json(
    text: bytes, data: st.DataObject | None
) -> None:
    try:
        count = text.count(b"\n") + 1
        number = 1 if data is None else data.draw(st.integers(1, count))
        remembered = remember(text, line(number))
    except ValueError:
        return

    written = json.dumps(to_json(remembered))

    assert from_json(json.loads(written)) == remembered


@pytest.mark.parametrize(
    "change",
    [
        {"start": "1"},
        {"start": True},
        {"lines": "abc"},
        {"lines": [1]},
        {"lines": ["\u2026"]},
        {"above": []},
        {"above": [0, "xx"]},
        {"above": None},
        {"block": 3},
        {"twins": None},
        {"copies": 1.0},
        {"more": 1},
    ],
)
def test_what_is_no_remembered_evidence_is_refused(change: dict[str, object]) -> None:
    written = to_json(remember(b"a\nb\n", line(1)))

    with pytest.raises(ValueError, match=r"\S"):
        from_json({**written, **change})
    for value in (None, [], "text", {}, 3):
        with pytest.raises(ValueError, match="is no remembered evidence"):
            from_json(value)
