"""Merging files of a memory tree: nothing lost, nothing twice, and never a write without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.aicontext import LISTS
from amend.errors import DocumentInvalid
from amend.formats.aicontext import parse_dictionary, parse_index, without_marks
from amend.formats.line_merge import merge

INDEX = b"""# decisions/ - Choices

dir: infra/ | Infrastructure

file: auth.aicontext | Tokens
file: db.aicontext | Postgres
"""


def lines_of(data: bytes) -> list[bytes]:
    """What the file says: its lines without blank ones, byte order marks and endings."""
    bodies = (without_marks(line).rstrip(b"\r\n") for line in data.split(b"\n"))
    return [body for body in bodies if body.strip()]


_LISTED = st.builds(
    "{}: {} | {}".format,
    st.sampled_from(("file", "dir")),
    st.sampled_from("abc"),
    st.sampled_from(("one", "two")),
)
_OTHER = st.sampled_from(("# x", "# y", "  - p", "  - q", "Z: 1", "words"))
_ENDING = st.sampled_from(("\n", "\n", "\n", "\r\n"))


def files(lines: st.SearchStrategy[str], *, unique: bool = False) -> st.SearchStrategy[bytes]:
    """Files of such lines, between them blank ones, some without a final newline."""
    spaced = st.tuples(lines, _ENDING, st.sampled_from(("", "", "", "\n", "  \n", "\r\n")))
    key = (lambda line: line[0].partition("|")[0]) if unique else None
    return st.builds(
        lambda bom, parts, ended: (
            bom + "".join(blank + body + ending for body, ending, blank in parts)
            if ended
            else (bom + "".join(blank + body + ending for body, ending, blank in parts)).rstrip()
        ).encode(),
        st.sampled_from(("", "", "", "", "\ufeff")),
        st.lists(spaced, max_size=6, unique_by=key),
        st.booleans(),
    )


ANY = files(_LISTED | _OTHER)
UNIQUE = files(_LISTED | _OTHER, unique=True)
DICTIONARIES = files(
    st.builds("{}: {}".format, st.sampled_from(("SMS", "DTL", "JWT")), st.sampled_from("12"))
)
# Nothing but pieces: half endings, marks in the middle, lines of blanks.
PIECES = st.lists(
    st.sampled_from(
        ("file: a | A", "dir: b", "# c", "\ufeff", " ", "\r", "\n", "\n", "\r\n", "S: s")
    ),
    max_size=12,
).map(lambda pieces: "".join(pieces).encode())
SOME = ANY | UNIQUE | DICTIONARIES | PIECES


# -- by example ------------------------------------------------------------------------------------


def test_both_sides_lines_are_kept() -> None:
    theirs = INDEX.replace(b"file: db", b"file: cache.aicontext | Redis\nfile: db")
    onto = INDEX + b"file: log.aicontext | Logs\n"

    merged = merge(INDEX, theirs, onto)

    assert merged == theirs + b"file: log.aicontext | Logs\n"


def test_a_description_that_both_changed_is_theirs() -> None:
    theirs = INDEX.replace(b"Postgres", b"Why Postgres")
    onto = INDEX.replace(b"Postgres", b"PostgreSQL 17")

    assert merge(INDEX, theirs, onto) == theirs


def test_a_line_they_removed_goes_and_one_they_changed_returns() -> None:
    without_auth = INDEX.replace(b"file: auth.aicontext | Tokens\n", b"")
    described = INDEX.replace(b"Tokens", b"JWT")

    assert merge(INDEX, without_auth, INDEX) == without_auth
    assert merge(INDEX, described, without_auth) == described


def test_a_first_file_goes_to_the_files_not_to_the_directories() -> None:
    theirs = INDEX.replace(b"\nfile: auth", b"\nfile: api.aicontext | REST\nfile: auth")
    onto = INDEX.replace(b"\n\nfile: auth", b"\ndir: teams/ | Teams\n\nfile: auth")

    merged = merge(INDEX, theirs, onto)

    assert merged == theirs.replace(b"\n\nfile: api", b"\ndir: teams/ | Teams\n\nfile: api")


def test_lines_they_moved_are_moved() -> None:
    theirs = b"file: b | B\nfile: a | A\n"
    onto = b"file: a | A\nfile: c | C\nfile: b | B\n"

    merged = merge(b"file: a | A\nfile: b | B\n", theirs, onto)

    assert merged == b"file: b | B\nfile: a | A\nfile: c | C\n"


def test_a_term_of_a_dictionary_is_changed_not_doubled() -> None:
    base = b"# terms\nSMS: session management\n"
    theirs = b"# terms\nSMS: session management strategy\n"
    onto = b"# terms\nSMS: session mgmt\nDTL: database transaction logging\n"

    merged = merge(base, theirs, onto)

    assert merged == theirs + b"DTL: database transaction logging\n"


def test_words_before_a_colon_are_no_term_in_a_note() -> None:
    base = b"2026-04-10: Tokens\n  - Stateless\n"
    theirs = base + b"Trade-off: size\n"
    onto = base + b"Trade-off: revocation\n"

    merged = merge(base, theirs, onto)

    assert sorted(lines_of(merged)) == sorted({*lines_of(theirs), *lines_of(onto)})


def test_bullets_both_added_to_a_note_are_all_there_once() -> None:
    base = b"2026-04-10: Tokens\n  - Stateless\n"
    theirs = b"2026-04-10: Tokens\n  - Stateless\n  - Redis\n  - Scales\n"
    onto = b"2026-11-30: Tokens\n  - Stateless\n  - Redis\n  - Rotated daily\n"

    merged = merge(base, theirs, onto)

    assert merged == (
        b"2026-11-30: Tokens\n  - Stateless\n  - Redis\n  - Scales\n  - Rotated daily\n"
    )


def test_endings_and_final_newline_are_those_of_the_file_or_of_who_changed_them() -> None:
    unix, dos = b"file: a | A\nfile: b | B\n", b"file: a | A\r\nfile: b | B\r\n"

    assert merge(unix, dos, unix) == dos
    assert merge(dos, dos + b"file: c | C\r\n", unix) == unix + b"file: c | C\r\n"
    assert merge(unix, unix + b"file: c | C", unix[:-1]) == unix + b"file: c | C"
    assert merge(unix, unix + b"file: c | C\n", dos[:-2]) == dos + b"file: c | C"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"a\n\xff\n", "the file is not UTF-8 (byte 3)"),
        (b"a\0b", "the file holds NUL (byte 2)"),
        (b"a\n<<<<<<< ours\nb\n", "the file holds conflict markers (line 2)"),
    ],
)
def test_what_must_not_be_written_is_refused_wherever_it_stands(bad: bytes, why: str) -> None:
    for versions in ((bad, INDEX, INDEX), (INDEX, bad, INDEX), (INDEX, INDEX, bad)):
        with pytest.raises(DocumentInvalid) as raised:
            merge(*versions)

        assert raised.value.message == why


# -- for all files ---------------------------------------------------------------------------------


@given(SOME, SOME)
def test_no_change_of_theirs_keeps_every_byte(base: bytes, onto: bytes) -> None:
    assert merge(base, base, onto) == onto
    assert merge(base, onto, onto) == onto


@given(UNIQUE, UNIQUE)
def test_where_nobody_else_wrote_theirs_is_the_outcome(base: bytes, theirs: bytes) -> None:
    assert merge(base, theirs, base) == theirs
    assert merge(None, theirs, b"") == theirs


@given(ANY, ANY)
def test_with_duplicates_the_outcome_says_what_theirs_says(base: bytes, theirs: bytes) -> None:
    merged = merge(base, theirs, base)

    assert sorted(lines_of(merged)) == sorted(lines_of(theirs))


@given(SOME, SOME, SOME)
def test_merging_again_changes_nothing(base: bytes, theirs: bytes, onto: bytes) -> None:
    merged = merge(base, theirs, onto)

    assert merge(base, theirs, merged) == merged


@given(SOME | st.none(), SOME, SOME)
def test_nothing_is_lost_and_nothing_doubled(
    base: bytes | None, theirs: bytes, onto: bytes
) -> None:
    before = lines_of(base or b"")
    removed = _keys(before) - _keys(lines_of(theirs))

    merged = lines_of(merge(base, theirs, onto))

    for line in lines_of(theirs):
        assert line in merged or line in before
    for line in lines_of(onto):
        assert (
            line in merged
            or line in before
            or _key(line) in removed
            or _has_rival(line, lines_of(theirs))
        )
    for line in merged:
        most = max(lines_of(theirs).count(line), lines_of(onto).count(line))
        assert merged.count(line) <= most or _key(line) is not None


def _keys(lines: list[bytes]) -> set[object]:
    return {_key(line) for line in lines}


def _key(line: bytes) -> object:
    listed = parse_index(line).lines[0]
    if listed.kind in LISTS:
        return listed.kind, listed.name
    term = parse_dictionary(line).lines[0]
    return term.name or None


def _has_rival(line: bytes, lines: list[bytes]) -> bool:
    return any(_key(other) == _key(line) for other in lines if _key(line) is not None)


def recovered(present: bytes, *recoveries: tuple[bytes, bytes]) -> bytes:
    """As `SharedFile` brings recovered changes into the file; the newest comes last."""
    for ours, whole in reversed(recoveries):
        present = merge(present, merge(ours, present, whole), present)
    return present


@given(SOME, SOME, SOME, SOME)
def test_what_was_displaced_is_put_back_once_and_then_left_alone(
    base: bytes, displaced: bytes, ours: bytes, present: bytes
) -> None:
    whole = merge(base, displaced, ours)

    once = recovered(present, (ours, whole))

    assert recovered(once, (ours, whole)) == once
    removed = _keys(lines_of(ours)) - _keys(lines_of(present))
    for line in lines_of(displaced):
        assert (
            line in lines_of(once)
            or line in lines_of(base) + lines_of(ours)
            or _key(line) in removed
            or _has_rival(line, lines_of(present))
        )


@given(SOME, SOME, SOME)
def test_a_file_that_has_it_all_keeps_its_bytes(base: bytes, displaced: bytes, ours: bytes) -> None:
    whole = merge(base, displaced, ours)

    assert recovered(whole, (ours, whole)) == whole
    assert lines_of(recovered(ours, (ours, whole))) == lines_of(whole)


def test_a_term_in_a_file_that_is_no_dictionary_does_not_pile_up() -> None:
    recoveries = ((b"  - p", b"SMS: 1\n  - p"), (b"SMS: 1", b"SMS: 2"))

    present = recovered(recovered(b"", *recoveries), *recoveries)

    assert recovered(present, *recoveries) == present
    assert lines_of(present).count(b"SMS: 1") + lines_of(present).count(b"SMS: 2") == 1


@given(SOME, st.lists(st.tuples(SOME, SOME, SOME), min_size=2, max_size=3))
def test_several_recoveries_come_to_rest(
    present: bytes, collisions: list[tuple[bytes, bytes, bytes]]
) -> None:
    recoveries = [(ours, merge(base, displaced, ours)) for base, displaced, ours in collisions]

    once = recovered(present, *recoveries)
    for _ in recoveries:
        once = recovered(once, *recoveries)

    assert recovered(once, *recoveries) == once
