"""Notes as values: merged without loss, checked before they are saved, and what they cite."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.aicontext import Document, Line, LineKind, Noted
from amend.core.notes import (
    BULLET_CHARS_MAX,
    BULLETS_MAX,
    CATEGORY_DEPTH_MAX,
    NAME_CHARS_MAX,
    TITLE_CHARS_MAX,
    check_save,
    citations,
    cited,
    joined,
    merged,
    written_between,
)
from amend.errors import RequestInvalid

OLD, NEW = date(2026, 4, 10), date(2026, 5, 1)


def noted(*bullets: str, on: date | None = OLD, title: str = "JWT") -> Noted:
    return Noted(on, title, bullets)


# -- merging ---------------------------------------------------------------------------------------


def test_two_entries_become_one_with_the_newer_date_and_title() -> None:
    one = merged(noted("a", "b"), noted("c", on=NEW, title="JWT + Redis"))

    assert one == Noted(NEW, "JWT + Redis", ("a", "b", "c"))


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(NEW, OLD, NEW), (None, OLD, OLD), (None, None, None)]
)
def test_a_date_that_is_older_or_none_never_wins(
    first: date | None, second: date | None, kept: date | None
) -> None:
    assert merged(noted(on=first), noted(on=second)).on == kept
    assert merged(noted(on=second), noted(on=first)).on == kept


def test_a_title_that_is_empty_leaves_the_one_there_is() -> None:
    assert merged(noted(title="JWT"), noted(title="")).title == "JWT"
    assert merged(None, noted(title="")).title == ""


@pytest.mark.parametrize(
    "again",
    [
        "redis  for token revocation",
        "Redis for token revocation.",
        "`Redis` for token revocation",
        "- Redis for token revocation",
        "Redis for token revocation\u037e",
        "\uff32edis for token revocation",
        "* Redis for `token revocation`!",
    ],
)
def test_what_is_said_again_takes_the_new_wording_in_the_old_place(again: str) -> None:
    existing = noted("first", "Redis for token revocation", "last")

    one = merged(existing, noted("new", again))

    assert one.bullets == ("first", again, "last", "new")


@pytest.mark.parametrize("other", ["Is it Redis?", "-Redis", "Redis, not", "1. Redis"])
def test_what_may_mean_something_else_is_a_bullet_of_its_own(other: str) -> None:
    assert len(merged(noted("Redis", "is it Redis"), noted(other)).bullets) == 3


def test_what_is_said_twice_in_one_save_is_one_bullet() -> None:
    assert merged(None, noted("Redis", "redis.")).bullets == ("redis.",)


@pytest.mark.parametrize("name", ["redis for tokens", "Redis for", "- `redis`"])
def test_replaces_drops_a_bullet_named_by_its_text_or_its_beginning(name: str) -> None:
    existing = noted("stateless", "Redis for tokens.", "scales")

    one = merged(existing, noted("Postgres for tokens"), [name])

    assert one.bullets == ("stateless", "scales", "Postgres for tokens")


def test_the_whole_text_wins_over_what_only_begins_so() -> None:
    assert merged(noted("redis", "redis is fast"), noted("x"), ["redis"]).bullets == (
        "redis is fast",
        "x",
    )


def test_a_bullet_may_be_replaced_by_the_same_words_at_the_end() -> None:
    assert merged(noted("a", "b"), noted("a"), ["a", "A."]).bullets == ("b", "a")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kafka", "'kafka' is no bullet of the note"),
        ("redis", "'redis' begins 2 bullets"),
        ("", "'' is no bullet of the note"),
        ("`", "'`' is no bullet of the note"),
    ],
)
def test_a_name_to_replace_that_fits_none_or_several_is_refused_by_name(
    name: str, why: str
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        merged(noted("redis a", "redis b"), noted("x"), [name])

    assert refused.value.message.startswith(f"replaces: {why}")


def test_nothing_can_be_replaced_in_a_note_that_is_new() -> None:
    with pytest.raises(RequestInvalid):
        merged(None, noted("x"), ["x"])


def test_the_files_that_a_note_rests_on_are_united_in_one_bullet() -> None:
    one = merged(noted("files: a.py, `b.py`", "x"), noted("Files: b.py, c.py"))

    assert one.bullets == ("files: a.py, b.py, c.py", "x")
    assert merged(one, noted("files: d.py"), ["files: a.py"]).bullets == ("x", "files: d.py")


WORDS = st.sampled_from(["redis", "Redis.", "`redis`", "jwt", "files: a", "files: b, a", "…", "-"])
ENTRIES = st.builds(
    Noted,
    st.sampled_from([None, OLD, NEW]),
    st.sampled_from(["", "t"]),
    st.lists(WORDS | st.text(max_size=4)).map(tuple),
)


@given(ENTRIES, ENTRIES)
def test_merging_the_same_again_changes_nothing(existing: Noted, new: Noted) -> None:
    once = merged(existing, new)

    assert merged(once, new) == once
    assert merged(None, once) == once


@given(ENTRIES, ENTRIES)
def test_what_is_new_stands_in_the_note_and_what_was_there_keeps_its_order(
    existing: Noted, new: Noted
) -> None:
    before = merged(None, existing).bullets
    after = merged(existing, new).bullets

    pairs = zip(before, after[: len(before)], strict=True)
    assert all(len(merged(noted(old), noted(now)).bullets) == 1 for old, now in pairs)


# -- several entries -------------------------------------------------------------------------------


def test_of_several_entries_the_newest_leads_and_nothing_is_lost() -> None:
    appended = [
        noted("redis", "cookies", "files: a.py", on=OLD, title="old"),
        noted("Redis.", "jwt", "files: b.py", on=NEW, title="new"),
        noted("draft", on=None, title=""),
    ]

    one = joined(appended)

    assert one == Noted(NEW, "new", ("Redis.", "jwt", "files: b.py, a.py", "cookies", "draft"))


def test_of_two_entries_of_one_day_the_last_is_the_newest() -> None:
    one = joined([noted("a", title="first"), noted("b", title="second")])

    assert one == Noted(OLD, "second", ("b", "a"))


def test_an_untitled_entry_takes_the_title_of_the_next() -> None:
    one = joined([noted(title="named"), noted(on=NEW, title="")])

    assert one is not None
    assert one.title == "named"


def test_no_entry_is_none_and_one_is_itself() -> None:
    assert joined([]) is None
    assert joined([noted("a", "b")]) == noted("a", "b")


# -- saving ----------------------------------------------------------------------------------------


def nothing_secret(text: str) -> str | None:
    return None


def save(
    category: str = "decisions",
    topic: str = "auth",
    title: str = "JWT",
    bullets: Sequence[str] = ("stateless",),
) -> None:
    check_save(category, topic, title, bullets, find_secret=nothing_secret)


def test_what_is_saved_has_a_place_and_clean_texts() -> None:
    checked = check_save(
        "decisions/infra-2", "auth", " JWT ", [" - stateless ", "a - b"], find_secret=nothing_secret
    )

    assert checked.path == "decisions/infra-2/auth.aicontext"
    assert checked.title == "JWT"
    assert checked.bullets == ("stateless", "a - b")


NO_NAMES = ["", ".", "..", "../x", ".hidden", "/etc", "Auth", "a_b", "a b", "a--b", "-a", "a\n"]
NO_NAMES += ["a/", "/a", "a//b", "a/../b", "a\\b", "é", "a\0", "\udc80", "index", "dict"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_is_none_is_refused_and_named(name: str) -> None:
    for field in ("category", "topic"):
        with pytest.raises(RequestInvalid, match=f"^{field} is ") as refused:
            save(**{field: name})

        assert f"{name!a}" in refused.value.message
        assert refused.value.hint


def test_a_category_may_be_nested_and_a_topic_may_not() -> None:
    save(category="/".join("a" * CATEGORY_DEPTH_MAX))

    with pytest.raises(RequestInvalid, match="category has 9 levels"):
        save(category="/".join("a" * (CATEGORY_DEPTH_MAX + 1)))
    with pytest.raises(RequestInvalid, match="topic is 'a/b'"):
        save(topic="a/b")
    with pytest.raises(RequestInvalid, match=r"index\.aicontext is not a note"):
        save(category="a/index")


def test_lengths_are_bounded_and_the_longest_passes() -> None:
    save("a" * NAME_CHARS_MAX, "b" * NAME_CHARS_MAX, "t" * TITLE_CHARS_MAX)
    save(bullets=["é" * BULLET_CHARS_MAX] * BULLETS_MAX)

    for wrong in (
        {"category": "a" * (NAME_CHARS_MAX + 1)},
        {"topic": "a" * (NAME_CHARS_MAX + 1)},
        {"title": "t" * (TITLE_CHARS_MAX + 1)},
    ):
        (field,) = wrong
        with pytest.raises(RequestInvalid, match=rf"^{field} has .*, the most is "):
            save(**wrong)
    with pytest.raises(RequestInvalid, match=r"^bullets/1 has 1001 \w+"):
        save(bullets=["x", "x" * (BULLET_CHARS_MAX + 1)])
    for bullets in ([], ["x"] * (BULLETS_MAX + 1)):
        with pytest.raises(RequestInvalid, match=r"^bullets has .* items, must have 1 to 100"):
            save(bullets=bullets)


@pytest.mark.parametrize("bad", ["a\nb", "a\tb", "a\0b", "\x7fa", "a\u2028b", "a\x85b", "a\u202eb"])
def test_a_text_that_is_not_one_line_as_it_shows_is_refused(bad: str) -> None:
    with pytest.raises(RequestInvalid, match=r"^title holds U\+"):
        save(title=bad)
    with pytest.raises(RequestInvalid, match=r"^bullets/1 holds U\+"):
        save(bullets=["x", bad])


@pytest.mark.parametrize("empty", ["", "  ", "-", " - ", "*"])
def test_a_bullet_that_says_nothing_is_refused(empty: str) -> None:
    with pytest.raises(RequestInvalid, match=r"^bullets/0 is .*, which says nothing"):
        save(bullets=[empty])


@pytest.mark.parametrize("field", ["category", "topic", "title", "bullets/1"])
def test_a_secret_is_refused_by_field_and_rule_and_never_repeated(field: str) -> None:
    secret = "hunter2"
    texts = {"category": "c", "topic": "t", "title": "x", "bullets/0": "x", "bullets/1": "x"}
    texts[field] += secret

    with pytest.raises(RequestInvalid) as refused:
        check_save(
            texts["category"],
            texts["topic"],
            texts["title"],
            [texts["bullets/0"], texts["bullets/1"]],
            find_secret=lambda text: "password" if secret in text else None,
        )

    assert refused.value.message.startswith(f"{field} looks like it holds a secret (password)")
    assert secret not in refused.value.message + refused.value.hint


# -- citations -------------------------------------------------------------------------------------


def note(*bullets: str) -> Document:
    lines = [Line(LineKind.ENTRY, b"2026-04-10: JWT `src/title.py`\n", "2026-04-10", "JWT")]
    lines += [Line(LineKind.BULLET, f"  - {text}\n".encode(), "", text) for text in bullets]
    return Document(tuple(lines))


def test_every_item_of_a_files_bullet_is_cited() -> None:
    document = note("x", "files: a.py, `b.py`, !gone.py,src/, sib:c.py, d.py:12,", "FILES : e.py")

    assert cited(document) == (
        (3, "a.py"),
        (3, "b.py"),
        (3, "!gone.py"),
        (3, "src/"),
        (3, "sib:c.py"),
        (3, "d.py"),
        (4, "e.py"),
    )
    assert all(each.is_listed for each in citations(document))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("src/auth.py", "src/auth.py"),
        ("src/auth.py:10", "src/auth.py"),
        ("src/auth.py:10:4", "src/auth.py"),
        ("src/auth.py:10-20", "src/auth.py"),
        ("src/auth.py#L10", "src/auth.py"),
        ("src/auth.py#L10-L20", "src/auth.py"),
        ("src/auth.py#L10C2-L20C3", "src/auth.py"),
        ("app/(shop)/[id].tsx", "app/(shop)/[id].tsx"),
        ("src/", "src/"),
        ("./Makefile", "./Makefile"),
        ("docs/My Notes.md", "docs/My Notes.md"),
        ("@scope/package.json", "@scope/package.json"),
    ],
)
def test_a_path_in_backticks_is_cited_without_its_place_in_the_file(
    written: str, path: str
) -> None:
    assert cited(note(f"see `{written}` there")) == ((2, path),)


@pytest.mark.parametrize(
    "no_path",
    [
        "https://example.org/a",
        "std::vector",
        "key: value",
        "f()",
        "x = 1",
        "a | b",
        "/etc/passwd",
        "../other",
        "~/notes",
        "--flag",
        "$HOME",
        "src/*.py",
        "!x",
        "<T>",
        ".git/config",
        "a\\b",
        "'x'",
        ".",
    ],
)
def test_what_cannot_be_a_path_of_the_repository_is_left_out(no_path: str) -> None:
    assert cited(note(f"see `{no_path}` there")) == ()


def test_several_paths_of_a_line_are_cited_once_each_and_titles_not_at_all() -> None:
    assert cited(note("`a.py` and ``b.py``, `a.py:3`, unpaired ` c.py")) == (
        (2, "a.py"),
        (2, "b.py"),
    )


def test_a_bullet_goes_on_in_lines_that_are_indented_deeper() -> None:
    lines = [
        Line(LineKind.BULLET, b"  - files: a.py,\n", "", "files: a.py,"),
        Line(LineKind.OTHER, b"    b.py\n", "", "b.py"),
        Line(LineKind.OTHER, b"  c.py\n", "", "c.py"),
        Line(LineKind.BULLET, b"  - see\n", "", "see"),
        Line(LineKind.OTHER, b"\t`d.py`\n", "", "`d.py`"),
        Line(LineKind.BLANK, b"\n"),
        Line(LineKind.OTHER, b"    `e.py`\n", "", "`e.py`"),
    ]

    assert cited(Document(tuple(lines))) == ((1, "a.py"), (2, "b.py"), (5, "d.py"))


@given(st.lists(st.text(alphabet="`a/.:,#L1 \udc80\n!*", max_size=30), max_size=4))
def test_any_bullets_are_read_without_an_error(bullets: list[str]) -> None:
    document = Document(tuple(Line(LineKind.BULLET, b"", "", text) for text in bullets))

    assert all(1 <= line <= len(bullets) for line, _ in cited(document))


def test_a_date_stands_for_every_moment_of_that_day_on_earth() -> None:
    first, end = written_between(date(2026, 4, 10))

    assert first == datetime.fromisoformat("2026-04-10T00:00+14:00")
    assert end == datetime.fromisoformat("2026-04-11T00:00-12:00")
    assert first.tzinfo is UTC
    assert written_between(date.min)[0] < written_between(date.max)[1]
