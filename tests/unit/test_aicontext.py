"""Files of a memory tree: every byte kept, what is understood, and edits of single lines."""

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.aicontext import (
    LISTS,
    AddLine,
    DescribeLine,
    DropLine,
    Line,
    LineEdit,
    LineKind,
    Noted,
    RenameLine,
)
from amend.errors import DocumentInvalid
from amend.formats.aicontext import (
    apply,
    can_list,
    new_index,
    note_bytes,
    noted,
    one_line,
    parse_dictionary,
    parse_index,
    parse_note,
    purpose_of,
    render,
    replace_entries,
    title_of,
)

FILE, DIRECTORY, DICTIONARY = LineKind.FILE, LineKind.DIRECTORY, LineKind.DICTIONARY

INDEX = b"""# decisions/ - Architecture and design decisions

dir: architecture/ | System architecture decisions
dir: infra/ | Infrastructure and deployment decisions

file: auth.aicontext | JWT + Redis authentication strategy
file: db.aicontext | PostgreSQL selection rationale
"""

NOTE = b"""2026-04-10: JWT + Redis caching strategy
  - Stateless session management via JWT tokens
  - Redis for token revocation
"""

# Lines that mean something somewhere, and pieces that almost do.
SOUP = st.lists(
    st.sampled_from(
        (
            *("file: a.aicontext | A", "dir: b/ | B", "dict: dict.aicontext", "file:", "dir: /"),
            *("# x/ - y", "# file: c | d", "\ufeff", "\t", " ", "|", "2026-01-02: t", "2026-1-2 :"),
            *(
                "  - b",
                "    more",
                "-",
                "- ",
                "<<<<<<< ours",
                "=======",
                "SMS: s m s",
                "\0",
                "\x85",
            ),
        )
    )
    | st.sampled_from(("\n", "\n", "\r\n", "\r", "\n\n")),
    max_size=24,
).map(lambda parts: "".join(parts).encode())
ANY = SOUP | st.binary() | st.text().map(str.encode)


def listed(data: bytes) -> list[tuple[LineKind, str, str]]:
    return [
        (line.kind, line.name, line.text) for line in parse_index(data).lines if line.kind in LISTS
    ]


def only(kind: LineKind, data: bytes) -> list[str]:
    return [line.name for line in parse_index(data).lines if line.kind is kind]


def edited(index: bytes, *edits: LineEdit) -> bytes:
    return apply(parse_index(index), edits)


# -- reading ---------------------------------------------------------------------------------------


@given(ANY)
def test_what_is_parsed_renders_to_the_same_bytes(data: bytes) -> None:
    for parse in (parse_index, parse_note, parse_dictionary):
        document = parse(data)

        assert render(document) == data
        assert all(line.raw.endswith(b"\n") for line in document.lines[:-1])


def test_the_seeds_index_is_understood() -> None:
    document = parse_index(INDEX)

    assert document.problem is None
    assert purpose_of(document) == "Architecture and design decisions"
    assert listed(INDEX) == [
        (DIRECTORY, "architecture", "System architecture decisions"),
        (DIRECTORY, "infra", "Infrastructure and deployment decisions"),
        (FILE, "auth.aicontext", "JWT + Redis authentication strategy"),
        (FILE, "db.aicontext", "PostgreSQL selection rationale"),
    ]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("dir: a/ | text", (DIRECTORY, "a", "text")),
        ("dir: a | text", (DIRECTORY, "a", "text")),
        ("dir: a/b/ | too deep", (DIRECTORY, "a/b", "too deep")),
        ("  file :\ta.aicontext\t|\ttext \t", (FILE, "a.aicontext", "text")),
        ("file:a.aicontext|text", (FILE, "a.aicontext", "text")),
        ("File: a.aicontext | text", (FILE, "a.aicontext", "text")),
        ("file: a.aicontext", (FILE, "a.aicontext", "")),
        ("file: a b.aicontext |", (FILE, "a b.aicontext", "")),
        ("file: a.aicontext | x | y", (FILE, "a.aicontext", "x | y")),
        ("file: a:b | x: y", (FILE, "a:b", "x: y")),
        ("dict: dict.aicontext | first", (DICTIONARY, "dict.aicontext", "first")),
    ],
)
@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_listed_line_is_understood_however_it_is_spaced(
    line: str, meant: tuple[LineKind, str, str], ending: str
) -> None:
    assert listed(f"{line}{ending}".encode()) == [meant]
    assert listed(f"\ufeff{line}{ending}".encode()) == [meant]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("# file: x.aicontext | text", LineKind.COMMENT),
        ("  #dir: x/", LineKind.COMMENT),
        (" \t", LineKind.BLANK),
        ("\ufeff", LineKind.BLANK),
        ("file:", LineKind.OTHER),
        ("file: | text", LineKind.OTHER),
        ("dir: /", LineKind.OTHER),
        ("files: x", LineKind.OTHER),
        ("- file: x", LineKind.OTHER),
        ("=======", LineKind.CONFLICT),
        ("========", LineKind.OTHER),
        (" <<<<<<< ours", LineKind.OTHER),
    ],
)
def test_any_other_line_lists_nothing(line: str, kind: LineKind) -> None:
    assert [found.kind for found in parse_index(line.encode()).lines] == [kind]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"ab\n\xff", "is not UTF-8 (byte 4)"),
        (b"ab\0", "holds NUL (byte 3)"),
        (b"ab\n\n<<<<<<< HEAD\r\n", "holds conflict markers (line 3)"),
        (b">>>>>>> theirs", "holds conflict markers (line 1)"),
        (b"", None),
        (b"\xef\xbb\xbf", None),
        (b"a ======= b\n", None),
    ],
)
def test_a_file_to_be_left_alone_says_why(data: bytes, problem: str | None) -> None:
    for parse in (parse_index, parse_note, parse_dictionary):
        assert parse(data).problem == problem


@pytest.mark.parametrize(
    ("index", "purpose"),
    [
        ("# a/ - Why it is here", "Why it is here"),
        ("\n# intro\n## a/b/: Deep\n", "Deep"),
        ("\ufeff# a/ \u2014 Dashed\r\n", "Dashed"),
        ("# my notes/ \u2013 Spaced - twice", "Spaced - twice"),
        ("# Memory Index - Root directory overview", "Root directory overview"),
        ("# a/", ""),
        ("# well-known", ""),
        ("# intro\n# not a heading - really", ""),
        ("# file: a/ - commented out", ""),
        ("file: a | A\n# a/ - below what is listed", ""),
        ("", ""),
    ],
)
def test_a_purpose_is_what_a_heading_says(index: str, purpose: str) -> None:
    assert purpose_of(parse_index(index.encode())) == purpose


def test_a_dictionarys_terms_are_understood() -> None:
    document = parse_dictionary(
        b"# terms\nSMS: session management: strategy\n\n- x: y\nDTL :\tlog\n"
    )

    assert [(line.kind, line.name, line.text) for line in document.lines] == [
        (LineKind.COMMENT, "", "terms"),
        (LineKind.TERM, "SMS", "session management: strategy"),
        (LineKind.BLANK, "", ""),
        (LineKind.OTHER, "", "- x: y"),
        (LineKind.TERM, "DTL", "log"),
    ]


def test_a_notes_entries_have_their_bullets() -> None:
    note = parse_note(
        b"""\
- above every entry
2026-04-10: Tokens: how
  - One that goes on
      here
    - nested
  * starred
  # a comment
    after the comment

  -
2026-02-30 : No such day
prose
\t- tabbed
\t\tgoes on
"""
    )

    assert noted(note) == (
        Noted(date(2026, 4, 10), "Tokens: how", ("One that goes on here", "nested", "starred")),
        Noted(None, "No such day", ("tabbed goes on",)),
    )


@given(ANY)
def test_the_title_is_that_of_the_first_entry(data: bytes) -> None:
    entries = noted(parse_note(data))

    assert title_of(data) == (entries[0].title if entries else "")


# -- edits of an index -----------------------------------------------------------------------------


def test_a_new_line_goes_in_its_sorted_place() -> None:
    result = edited(
        INDEX,
        AddLine(FILE, "cache.aicontext", "Redis"),
        AddLine(FILE, "aaa.aicontext", "First"),
        AddLine(FILE, "zzz.aicontext", "Last"),
        AddLine(DIRECTORY, "build", "Builds"),
    )

    assert only(FILE, result) == [f"{n}.aicontext" for n in ("aaa", "auth", "cache", "db", "zzz")]
    assert only(DIRECTORY, result) == ["architecture", "build", "infra"]
    assert [line for line in result.splitlines() if line in INDEX.splitlines()] == (
        INDEX.splitlines()
    )
    assert b"\nfile: cache.aicontext | Redis\n" in result


def test_where_nothing_is_sorted_a_new_line_goes_last() -> None:
    index = b"file: b | B\nfile: a | A\n# the end\n"

    result = edited(index, AddLine(FILE, "aa", "AA"))

    assert result == b"file: b | B\nfile: a | A\nfile: aa | AA\n# the end\n"


def test_a_comment_stays_with_the_line_below_it() -> None:
    index = b"file: a | A\n\n# the big one\nfile: c | C\n"

    result = edited(index, AddLine(FILE, "b", "B"))

    assert result == b"file: a | A\nfile: b | B\n\n# the big one\nfile: c | C\n"


@pytest.mark.parametrize(
    ("index", "kind", "result"),
    [
        ("", FILE, "file: n | t\n"),
        ("# h\n", FILE, "# h\n\nfile: n | t\n"),
        ("# h\n\n", FILE, "# h\n\nfile: n | t\n"),
        ("dir: a/\n", FILE, "dir: a/\n\nfile: n | t\n"),
        ("dir: a/\n\n", FILE, "dir: a/\n\nfile: n | t\n"),
        ("dir: a/\n\n# c\n", FILE, "dir: a/\n\nfile: n | t\n\n# c\n"),
        ("dict: d\n", FILE, "dict: d\n\nfile: n | t\n"),
        ("# h\n\nfile: a\n", DIRECTORY, "# h\n\ndir: n/ | t\n\nfile: a\n"),
        ("# h\nfile: a\n", DIRECTORY, "# h\ndir: n/ | t\n\nfile: a\n"),
        ("# h\n\n# files\nfile: a\n", DIRECTORY, "# h\n\ndir: n/ | t\n\n# files\nfile: a\n"),
        ("dict: d\nfile: a\n", DIRECTORY, "dict: d\n\ndir: n/ | t\n\nfile: a\n"),
        ("dict: d\n", DIRECTORY, "dict: d\n\ndir: n/ | t\n"),
        ("# h\n\ndir: a/\n", DICTIONARY, "# h\n\ndict: n | t\n\ndir: a/\n"),
        ("file: a\n", DICTIONARY, "dict: n | t\n\nfile: a\n"),
        ("# h", DICTIONARY, "# h\n\ndict: n | t"),
    ],
)
def test_the_first_line_of_its_kind_stands_between_blank_lines(
    index: str, kind: LineKind, result: str
) -> None:
    assert edited(index.encode(), AddLine(kind, "n", "t")).decode() == result


def test_line_endings_and_the_end_of_the_file_stay_what_they_are() -> None:
    dos = INDEX.replace(b"\n", b"\r\n")

    assert edited(dos, AddLine(FILE, "x", "X")) == dos + b"file: x | X\r\n"
    assert edited(dos[:-2], AddLine(FILE, "x", "X")) == dos + b"file: x | X"
    assert edited(INDEX[:-1], AddLine(FILE, "x", "X")) == INDEX + b"file: x | X"
    assert edited(INDEX[:-1], DescribeLine(FILE, "db.aicontext", "X")).endswith(b"| X")
    assert edited(b"file: a\r\nfile: c\n", AddLine(FILE, "b", "B")) == (
        b"file: a\r\nfile: b | B\r\nfile: c\n"
    )
    assert edited(b"file: a\r\nfile: b\r", AddLine(FILE, "c", "")) == (
        b"file: a\r\nfile: b\r\nfile: c"
    )


def test_a_byte_order_mark_stays_first() -> None:
    bom = b"\xef\xbb\xbf"

    assert edited(bom + b"file: b\n", AddLine(FILE, "a", "A")) == bom + b"file: a | A\nfile: b\n"
    assert edited(bom + b"file: b\n", DropLine(FILE, "b")) == bom
    assert edited(bom, AddLine(FILE, "a", "A")) == bom + b"file: a | A\n"
    assert only(FILE, b"file: a\n" + bom + b"file: b\n") == ["a", "b"]


def test_describing_and_renaming_keep_the_spacing() -> None:
    index = b"\tFile :  a  |   old  \r\ndir: b/|x\ndir: c\n"

    described = edited(
        index,
        DescribeLine(FILE, "a", "new"),
        DescribeLine(DIRECTORY, "b", "y"),
        DescribeLine(DIRECTORY, "c", "z"),
    )
    renamed = edited(
        index,
        RenameLine(FILE, "a", "a2"),
        RenameLine(DIRECTORY, "b", "b2"),
        RenameLine(DIRECTORY, "c", "c2"),
    )

    assert described == b"\tFile :  a  |   new\r\ndir: b/|y\ndir: c | z\n"
    assert renamed == b"\tFile :  a2  |   old  \r\ndir: b2/|x\ndir: c2\n"


def test_of_several_lines_for_a_name_all_are_dropped_or_renamed_and_one_described() -> None:
    index = b"file: a | 1\nfile: b | 2\nfile: a | 3\n"

    assert edited(index, DropLine(FILE, "a")) == b"file: b | 2\n"
    assert edited(index, RenameLine(FILE, "a", "c")) == index.replace(b"a |", b"c |")
    assert edited(index, DescribeLine(FILE, "a", "4")) == index.replace(b"1", b"4")


def test_a_name_gets_no_second_line() -> None:
    index = b"file: a | 1\nfile: b | 2\n"

    assert edited(index, AddLine(FILE, "a", "3")) == index
    assert edited(index, RenameLine(FILE, "a", "b")) == b"file: b | 2\n"
    assert edited(index, DropLine(FILE, "a"), AddLine(FILE, "a", "3")) == (
        b"file: a | 3\nfile: b | 2\n"
    )


def test_a_description_becomes_one_line() -> None:
    result = edited(b"", AddLine(FILE, "a", " one\r\ntwo\x1b[1m | \udcff\n"))

    assert result == "file: a | one two [1m | \ufffd\n".encode()


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a|b", "a\nb", "a\x1bb", "a\udcff", "a/", "\u2028"]
)
def test_a_name_that_no_line_can_say_is_not_listed(name: str) -> None:
    assert not can_list(DIRECTORY, name)
    assert edited(INDEX, AddLine(DIRECTORY, name, "x")) == INDEX
    assert listed(edited(b"dir: a/ | A\n", RenameLine(DIRECTORY, "a", name))) == []


def test_files_to_be_left_alone_are_not_edited() -> None:
    entry = Noted(date(2026, 1, 2), "t", ())

    with pytest.raises(DocumentInvalid, match="holds conflict markers"):
        edited(b"<<<<<<< ours\n", AddLine(FILE, "a", "A"))
    with pytest.raises(DocumentInvalid, match="is not UTF-8"):
        replace_entries(parse_note(b"\xff"), entry)


def test_a_new_index_has_a_heading_and_its_lines() -> None:
    edits = [
        AddLine(FILE, "b.aicontext", "B"),
        AddLine(FILE, "a.aicontext", "A"),
        AddLine(DIRECTORY, "c", "C"),
    ]

    result = new_index("memory/decisions", "Why\nthings are so", edits)

    assert result == (
        b"# decisions/ - Why things are so\n\ndir: c/ | C\n\n"
        b"file: a.aicontext | A\nfile: b.aicontext | B\n"
    )
    assert purpose_of(parse_index(result)) == "Why things are so"
    assert new_index("memory", "", []) == b"# memory/\n"


NAMES = st.sampled_from("abcdef") | st.text(max_size=3)
LISTED = st.sampled_from((FILE, DIRECTORY, DICTIONARY))
TEXTS = st.sampled_from(("", "one", "x | y")) | st.text(max_size=4)
EDITS = st.lists(
    st.builds(AddLine, LISTED, NAMES, TEXTS)
    | st.builds(DropLine, LISTED, NAMES)
    | st.builds(RenameLine, LISTED, NAMES, NAMES)
    | st.builds(DescribeLine, LISTED, NAMES, TEXTS),
    max_size=6,
)
INDEXES = st.builds(
    lambda lines, ended: "".join(lines).encode() if ended else "".join(lines).rstrip().encode(),
    st.lists(
        st.builds(
            "{}{}".format,
            st.builds("file: {} | one".format, st.sampled_from("abcdef"))
            | st.builds("dir:  {}/|two ".format, st.sampled_from("abcdef"))
            | st.sampled_from(("dict: d", "# c", "", "  ", "words", "dir: b", "\ufeff")),
            st.sampled_from(("\n", "\r\n")),
        ),
        max_size=12,
    ),
    st.booleans(),
)


def expected(index: bytes, edits: Sequence[LineEdit]) -> set[tuple[LineKind, str]]:
    """The names that are listed after the edits, by the rules alone."""
    names = {(kind, name) for kind, name, _ in listed(index)}
    for edit in edits:
        key = edit.kind, edit.name
        if isinstance(edit, AddLine) and can_list(*key):
            names.add(key)
        elif isinstance(edit, DropLine):
            names.discard(key)
        elif isinstance(edit, RenameLine) and key in names:
            names.discard(key)
            if can_list(edit.kind, edit.new):
                names.add((edit.kind, edit.new))
    return names


@given(INDEXES, EDITS)
def test_edits_do_what_they_say_and_nothing_else(index: bytes, edits: list[LineEdit]) -> None:
    concerned = {(edit.kind, edit.name) for edit in edits}
    concerned |= {(edit.kind, edit.new) for edit in edits if isinstance(edit, RenameLine)}

    def untouched(data: bytes) -> list[bytes]:
        return [
            line.raw.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
            for line in parse_index(data).lines
            if line.kind is not LineKind.BLANK and (line.kind, line.name) not in concerned
        ]

    result = apply(parse_index(index), edits)

    assert {(kind, name) for kind, name, _ in listed(result)} == expected(index, edits)
    assert untouched(result) == untouched(index)
    assert parse_index(result).problem is None
    assert result.startswith(b"\xef\xbb\xbf") or not index.startswith(b"\xef\xbb\xbf")


@given(INDEXES, LISTED, st.sampled_from("abcdefg"), TEXTS)
def test_adding_changes_no_byte_of_what_is_there_and_dropping_gives_it_back(
    index: bytes, kind: LineKind, name: str, text: str
) -> None:
    if (kind, name) in {(of, known) for of, known, _ in listed(index)}:
        return

    added = edited(index, AddLine(kind, name, text))

    assert (kind, name, one_line(text)) in listed(added)
    assert edited(added, AddLine(kind, name, "other")) == added
    lines = [line.raw for line in parse_index(index).lines]
    rest = iter(line.raw for line in parse_index(added).lines)
    ends = [raw for raw in lines if raw.endswith(b"\n") and b"\xef\xbb\xbf" not in raw]
    assert all(any(raw == other for other in rest) for raw in ends)
    again = edited(edited(added, DropLine(kind, name)), AddLine(kind, name, text))
    assert listed(again) == listed(added)


# -- writing notes ---------------------------------------------------------------------------------

ENTRIES = st.builds(
    Noted,
    st.dates(),
    st.text(max_size=5),
    st.lists(st.text(max_size=4), max_size=3).map(tuple),
)


def cleaned(entry: Noted) -> Noted:
    bullets = tuple(filter(None, map(one_line, entry.bullets)))
    return Noted(entry.on, one_line(entry.title), bullets)


def test_a_new_note_has_the_seeds_form() -> None:
    entry = Noted(
        date(2026, 4, 10),
        "JWT + Redis caching strategy",
        ("Stateless session management via JWT tokens", "Redis for token revocation"),
    )

    assert note_bytes(entry) == NOTE


@given(ENTRIES)
def test_a_note_says_what_it_was_written_with(entry: Noted) -> None:
    assert noted(parse_note(note_bytes(entry))) == (cleaned(entry),)


def test_several_entries_become_one_and_the_rest_stays() -> None:
    note = b"""# auth

2026-01-01: Old
  - a
      goes on

  - b
  # about b
prose

2025-01-01: Older
  - c

see also: db
"""

    result = replace_entries(parse_note(note), Noted(date(2026, 2, 3), "New", ("x", "y")))

    assert result == (
        b"# auth\n\n2026-02-03: New\n  - x\n  - y\n  # about b\nprose\n\n\nsee also: db\n"
    )


def test_a_replaced_entry_keeps_line_endings_and_the_end_of_the_file() -> None:
    note = b"\xef\xbb\xbf2026-01-01: Old\r\n  - a"

    result = replace_entries(parse_note(note), Noted(date(2026, 2, 3), "New", ("x", "y")))

    assert result == b"\xef\xbb\xbf2026-02-03: New\r\n  - x\r\n  - y"


def test_a_note_without_an_entry_ends_with_the_new_one() -> None:
    result = replace_entries(parse_note(b"- loose"), Noted(date(2026, 2, 3), "New", ("x",)))

    assert result == b"- loose\n\n2026-02-03: New\n  - x"


@given(ANY, ENTRIES)
def test_after_a_replacement_there_is_that_entry_and_all_that_was_no_entry(
    data: bytes, entry: Noted
) -> None:
    note = parse_note(data)
    if note.problem is not None:
        return

    result = replace_entries(note, entry)

    assert noted(parse_note(result)) == (cleaned(entry),)
    assert replace_entries(parse_note(result), entry) == result
    kept = (LineKind.COMMENT, LineKind.CONFLICT)
    assert _raws(parse_note(result).lines, kept) == _raws(note.lines, kept)


def _raws(lines: Sequence[Line], kinds: Sequence[LineKind]) -> list[bytes]:
    return [line.raw.rstrip(b"\r\n") for line in lines if line.kind in kinds]
