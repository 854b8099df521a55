"""The instruction block: what it says, where it goes, and that everything else stays."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amend.edge.tokens import tokenizer
from amend.errors import DocumentInvalid
from amend.formats.agent_cache import parse
from amend.formats.instructions import (
    BEGIN,
    BLOCK,
    END,
    has_block,
    with_block,
    without_block,
)

TODAY = BLOCK.encode()
OLD = f"{BEGIN}\nwhat it said last year\n{END}".encode()

# Whole lines and pieces of them, in any order: endings that differ, none at the end, sentinels that
# are none, and bytes that are no text in any encoding but this.
PIECES = st.sampled_from(
    [
        b"# Shop",
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"text",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        f"see {BEGIN}".encode(),
        f"    {END}".encode(),
        b"```\n",
    ]
)
FILES = st.lists(PIECES, max_size=8).map(b"".join)


# -- what it says ------------------------------------------------------------------------------


def test_it_costs_less_than_250_tokens() -> None:
    counter = tokenizer()
    tokens = len(BLOCK) / 4 if counter.is_estimate else counter.count(BLOCK)

    assert tokens < 250


def test_it_names_the_file_the_mark_and_the_commands() -> None:
    for said in (".agent-cache.json", "`stale`", "amend ask", "amend get", "amend put", "300"):
        assert said in BLOCK


def test_its_example_is_an_entry_of_the_cache_file() -> None:
    example = re.search(r'"topics": (\{.*\})`', BLOCK)
    assert example is not None

    document = parse(b'{"topics": ' + example[1].encode() + b"}")

    [entry] = document.entries.values()
    assert (entry.problems, document.problems, entry.stale) == ((), (), None)
    assert entry.ts is not None
    assert entry.files == ("src/a.py",)


# -- adding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"%s\n"),
        (b"# Shop\n", b"# Shop\n\n%s\n"),
        (b"# Shop\n\n", b"# Shop\n\n\n%s\n"),
        (b"# Shop", b"# Shop\n\n%s"),
        (b"\xef\xbb\xbf# Shop\n", b"\xef\xbb\xbf# Shop\n\n%s\n"),
    ],
)
def test_it_goes_to_the_end_and_ends_as_the_file_did(before: bytes, after: bytes) -> None:
    assert with_block(before) == after % TODAY


def test_its_lines_end_as_the_files_do() -> None:
    done = with_block(b"# Shop\r\n\r\ntext\r\n")

    assert done.count(b"\r\n") == done.count(b"\n")
    assert without_block(done) == b"# Shop\r\n\r\ntext\r\n"


def test_an_older_one_is_replaced_where_it_is() -> None:
    file = b"# Shop\n" + OLD + b"\nbelow\n"

    done = with_block(file)

    assert done == b"# Shop\n" + TODAY + b"\nbelow\n"
    assert with_block(done) == done


def test_an_older_one_keeps_its_line_endings_in_a_mixed_file() -> None:
    file = b"a\nb\nc\n" + OLD.replace(b"\n", b"\r\n") + b"\r\n"

    done = with_block(file)

    assert done == b"a\nb\nc\n" + TODAY.replace(b"\n", b"\r\n") + b"\r\n"


def test_one_behind_a_byte_order_mark_is_found() -> None:
    assert with_block(b"\xef\xbb\xbf" + OLD) == b"\xef\xbb\xbf" + TODAY


@given(FILES)
def test_adding_it_twice_is_adding_it_once(file: bytes) -> None:
    once = with_block(file)

    assert with_block(once) == once
    assert has_block(once)
    assert not has_block(file)


@given(above=FILES, below=FILES, ending=st.sampled_from([b"\n", b"\r\n"]))
def test_replacing_it_keeps_everything_around_it(above: bytes, below: bytes, ending: bytes) -> None:
    above += ending
    old, new = OLD.replace(b"\n", ending), TODAY.replace(b"\n", ending)

    assert with_block(above + old + ending + below) == above + new + ending + below


# -- taking out --------------------------------------------------------------------------------


@given(FILES)
@example(b"a\nb\r\n")
@example(b"a\r\nb\r\nc\n")
@example(b"\r")
def test_added_and_taken_out_the_file_is_what_it_was(file: bytes) -> None:
    assert without_block(with_block(file)) == file


@given(above=FILES, below=FILES)
def test_taking_it_out_takes_no_line_of_anybody_else(above: bytes, below: bytes) -> None:
    file = above + b"\n" + OLD + b"\n" + below

    left = without_block(file)

    assert left.split() == (above + b"\n" + below).split()
    assert not has_block(left)


def test_what_was_written_below_it_stays() -> None:
    file = with_block(b"# Shop\n") + b"\nbelow\n"

    assert without_block(file) == b"# Shop\n\nbelow\n"


def test_a_file_without_one_is_left_as_it_is() -> None:
    assert without_block(b"# Shop") == b"# Shop"


# -- left alone --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        f"a\n{BEGIN}\nb\n",
        f"a\n{END}\nb\n",
        f"a\n{BEGIN}",
        f"{END}\n{BEGIN}\n",
        f"{BEGIN}\n{BEGIN}\n{END}\n",
        f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n",
    ],
)
def test_broken_sentinels_are_left_alone(file: str) -> None:
    for change in (with_block, without_block):
        with pytest.raises(DocumentInvalid, match="must hold one of each"):
            change(file.encode())


def test_a_file_in_utf_16_is_left_alone() -> None:
    with pytest.raises(DocumentInvalid, match="UTF-8"):
        with_block("# Shop\n".encode("utf-16"))


@pytest.mark.parametrize("line", [f"see {BEGIN}", f"    {BEGIN}", f"`{END}`", f"{BEGIN} {END}"])
def test_a_sentinel_that_is_not_alone_on_its_line_is_text(line: str) -> None:
    assert not has_block(f"a\n{line}\n".encode())
