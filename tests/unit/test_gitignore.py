"""What a .gitignore says of a file beside it, and adding a line to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.errors import DocumentInvalid
from amend.formats.gitignore import says_ignored, with_line

NAME = b".agent-cache.json"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", None),
        (b".agent-cache.json\n", True),
        (b"/.agent-cache.json", True),
        (b"**/.agent-cache.json\r\n", True),
        (b".agent-*\n", True),
        (b"*.json  \n", True),
        (b"*\n!.agent-cache.json\n", False),
        (b"!.agent-cache.json\n*\n", True),
        (b"# .agent-cache.json\n", None),
        (b".agent-cache.json/\n", None),
        (b"sub/.agent-cache.json\n", None),
        (b".agent-cache.d\nnode_modules/\n", None),
        (b"\xff\xfe\n[\n", None),
    ],
)
def test_the_last_pattern_that_fits_says_it(data: bytes, said: bool | None) -> None:
    assert says_ignored(data, NAME) is said


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b".agent-cache.json\n"),
        (b"dist/\n", b"dist/\n.agent-cache.json\n"),
        (b"dist/", b"dist/\n.agent-cache.json\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r\n.agent-cache.json\r\n"),
    ],
)
def test_the_line_is_the_last_one(before: bytes, after: bytes) -> None:
    assert with_line(before, NAME) == after


@given(st.binary(max_size=60).filter(lambda data: b"\0" not in data))
def test_what_was_there_stays_and_the_file_is_ignored(data: bytes) -> None:
    done = with_line(data, NAME)

    assert done.startswith(data)
    assert says_ignored(done, NAME) is True


def test_a_file_that_is_no_text_is_left_alone() -> None:
    with pytest.raises(DocumentInvalid, match="must be text"):
        with_line("dist/\n".encode("utf-16"), NAME)
