"""What becomes of an exploration's words and looks: a key, a summary, sources and their moments."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.capturing import (
    CANNOT_TELL,
    KEY_CHARS_MAX,
    RANGES_MAX,
    SOURCES_MAX,
    SUMMARY_CHARS_MAX,
    Nearness,
    Sight,
    cited_lines,
    entry_for,
    key_for,
    mentioned,
    own_path,
    print_when_read,
    seen_in,
    slug,
    summary_of,
)
from amend.core.evidence import LINES_MAX, CitedLines
from amend.core.explored import Read
from amend.core.model import (
    ABSENT,
    CauseKind,
    EntryName,
    FilePrint,
    Kind,
    NoPrint,
    RelPath,
    Source,
    SourceKind,
)

T0 = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
AUTH = Source(SourceKind.FILE, RelPath(b"src/auth.py"))
PRINT = FilePrint(b"1" * 20, 0o100644, 5)


def at(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("Explore auth", "auth"),
        ("Find out how the auth system works.", "auth-system-works"),
        ("Where is `src/db.py` used?", "src-db-py-used"),
        ("Anmeldung für Ärzte", "anmeldung-für-ärzte"),
        ("認証の仕組み", "認証の仕組み"),
        ("explore", "explore"),
        ("", "exploration"),
        ("?!", "exploration"),
        ("x" * 100, "x" * KEY_CHARS_MAX),
        ("one " + "two " * 30, "one" + "-two" * 14),
    ],
)
def test_a_key_says_what_a_task_is_about(task: str, key: str) -> None:
    assert slug(task) == key


@given(st.text(), st.integers(0, 30))
def test_a_key_is_new_short_and_printable(task: str, count: int) -> None:
    taken: set[str] = set()

    for _ in range(count):
        taken.add(key_for(task, taken.__contains__))

    assert len(taken) == count
    assert all(key.isprintable() and 0 < len(key) <= KEY_CHARS_MAX for key in taken)


@dataclass(frozen=True)
class Match:
    name: EntryName
    is_confident: bool = False
    is_clear: bool = False


def topic(key: str, kind: Kind = Kind.TOPIC) -> EntryName:
    return EntryName(kind, key)


def test_a_confident_match_takes_the_finding() -> None:
    assert entry_for("Explore auth", [Match(topic("login"), is_confident=True)]) == topic("login")


def test_a_clear_match_takes_it_only_under_the_tasks_own_key() -> None:
    assert entry_for("Explore auth", [Match(topic("auth"), is_clear=True)]) == topic("auth")
    assert entry_for("Explore auth", [Match(topic("login"), is_clear=True)]) is None
    assert entry_for("Explore auth", [Match(topic("auth"))]) is None


def test_what_is_no_topic_takes_no_finding() -> None:
    for kind in set(Kind) - {Kind.TOPIC}:
        assert entry_for("auth", [Match(topic("auth", kind), is_confident=True)]) is None


def test_only_the_best_match_counts() -> None:
    best, second = Match(topic("a")), Match(topic("b"), is_confident=True)

    assert entry_for("Explore auth", [best, second]) is None


# -- summaries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        ("Login is in a.py.", "Login is in a.py."),
        ("## Findings\n\n**Login** is in `a.py`.\n", "Login is in a.py."),
        ("# Auth\n- one\n- two: `x`\n1. three.\n", "one. two: x. three."),
        ("See [the docs](docs/a.md) and ![x](y.png).", "See the docs and x."),
        ("Here is what I found:\n\n- Login in `a.py`", "Login in a.py"),
        ("```py\nx = 1\n```\nIt is one.", "It is one."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\nA table.", "A table."),
        ("A line\nthat goes on.\n\nAnother.", "A line that goes on. Another."),
        ("> quoted", "quoted"),
        ("Globs src/*.ts and lib/*.js stay, __init__.py too.",) * 2,
        ("bell\x07 \x1b[31mred\u202e end", "bell [31mred end"),
        ("Found:", "Found:"),
        ("# Only a heading", "# Only a heading"),
        ("", ""),
    ],
)
def test_a_summary_is_plain_text(answer: str, summary: str) -> None:
    assert summary_of(answer) == summary


def test_a_summary_ends_with_a_sentence_where_one_is_short_enough() -> None:
    sentence = "It does one thing and then another. "

    assert summary_of(sentence * 20) == (sentence * 8).strip()
    assert len(summary_of("word " * 100)) <= SUMMARY_CHARS_MAX
    assert summary_of("word " * 100).endswith("word…")


@given(st.text(st.sampled_from("ab .!\n#-*`[]()>|:é\x00\u2028"), max_size=500) | st.text())
def test_a_summary_is_one_bounded_line_of_any_answer(answer: str) -> None:
    summary = summary_of(answer)

    assert len(summary) < 300
    assert len(summary.splitlines()) <= 1
    assert summary.isprintable()


# -- paths in answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        ("in `src/auth.py:3`, and (lib/a.ts).", ("src/auth.py", "lib/a.ts")),
        ("[docs](docs/b.md#L3-L9) README.md!", ("docs/b.md", "README.md")),
        ("app/(shop)/[id].tsx", ("app/(shop)/[id].tsx",)),
        ("src/auth.py:12:4: error", ("src/auth.py",)),
        ("src/a.py:10-20", ("src/a.py",)),
        ("https://example.org/a.py or src/ or plain", ()),
        ("/abs/Makefile", ("/abs/Makefile",)),
        ("a.py a.py", ("a.py",)),
    ],
)
def test_what_could_be_a_file_is_found(answer: str, paths: tuple[str, ...]) -> None:
    assert mentioned(answer) == paths


@given(st.text(st.sampled_from("a/.:()[]`* \n0"), max_size=300) | st.text())
def test_no_answer_raises(answer: str) -> None:
    assert len(mentioned(answer)) <= len(answer)


# -- looks -----------------------------------------------------------------------------------------


def look(
    source: Source = AUTH,
    start: int | None = None,
    end: int | None = None,
    *,
    when: datetime | None = T0,
    guess: bool = False,
    mention: bool = False,
) -> Sight:
    return Sight(source, Read("x", start, end, when, is_guess=guess), is_mention=mention)


def test_lines_count_from_their_first_look_on() -> None:
    (seen,) = seen_in([look(start=1, end=5, when=at(9)), look(start=7, end=8, when=at(3))], T0)

    assert seen.at == at(3)
    assert seen.ranges == ((1, 5), (7, 8))


def test_a_whole_file_counts_from_its_last_whole_look_on() -> None:
    looks = [look(when=at(1)), look(when=at(5)), look(start=2, end=3, when=at(9))]

    (seen,) = seen_in(looks, T0)

    assert (seen.at, seen.ranges) == (at(5), ())


def test_a_look_without_a_time_counts_from_the_beginning() -> None:
    (seen,) = seen_in([look(start=1, end=5, when=at(9)), look(start=1, end=5, when=None)], at(2))
    (unknown,) = seen_in([look(when=None)], None)

    assert seen.at == at(2)
    assert unknown.at is None


def test_naming_a_file_that_was_looked_into_says_nothing_more() -> None:
    (seen,) = seen_in([look(start=2, end=3, when=at(9)), look(when=None, mention=True)], T0)

    assert (seen.at, seen.ranges, seen.nearness) == (at(9), ((2, 3),), Nearness.READ)


def test_what_was_read_comes_before_what_was_named_and_no_more_than_fits() -> None:
    def source(name: str, number: int) -> Source:
        return Source(SourceKind.FILE, RelPath(f"{name}{number}".encode()))

    sights = [look(source("named", n), mention=True, guess=True) for n in range(SOURCES_MAX)]
    sights += [look(source("hit", n), 4, 4, guess=True) for n in range(3)]
    sights += [look(source("opened", n), guess=True) for n in range(2)]
    sights.append(look())

    seen = seen_in(sights, T0)

    names = [each.source.spec for each in seen]
    assert len(seen) == SOURCES_MAX
    assert names[:6] == ["src/auth.py", "opened0", "opened1", "hit0", "hit1", "hit2"]


# -- what was there --------------------------------------------------------------------------------


def test_a_file_that_has_not_changed_since_is_what_was_read() -> None:
    assert print_when_read(PRINT, changed_ns=9, read_ns=10) == PRINT


def test_a_file_that_may_have_changed_since_is_never_what_was_read() -> None:
    assert print_when_read(PRINT, changed_ns=10, read_ns=10) is None
    assert print_when_read(PRINT, changed_ns=11, read_ns=10) is None
    assert print_when_read(ABSENT, changed_ns=0, read_ns=10) is None


def test_what_cannot_be_told_is_not_guessed() -> None:
    large = NoPrint(CauseKind.TOO_LARGE)

    assert print_when_read(large, changed_ns=11, read_ns=10) == large
    assert print_when_read(PRINT, changed_ns=9, read_ns=None) == CANNOT_TELL


# -- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "cited"),
    [
        ([(2, 5)], [(2, 5)]),
        ([(8, 9), (2, 5)], [(2, 5), (8, 9)]),
        ([(2, 5), (4, 7)], [(2, 7)]),
        ([(2, 5), (6, 7)], [(2, 7)]),
        ([(5, None)], [(5, 40)]),
        ([(30, 2000)], [(30, 40)]),
        ([(1, 40)], []),
        ([(1, 2000)], []),
        ([(1, 20), (21, None)], []),
        ([(41, 50)], []),
        ([(2, 5), (41, 50)], []),
        ([], []),
    ],
)
def test_lines_stand_for_what_was_seen_of_a_file(
    ranges: list[tuple[int, int | None]], cited: list[tuple[int, int]]
) -> None:
    assert cited_lines(ranges, 40) == tuple(CitedLines(*each) for each in cited)


def test_more_lines_than_can_be_found_again_are_the_whole_file() -> None:
    assert cited_lines([(1, LINES_MAX)], 1000) == (CitedLines(1, LINES_MAX),)
    assert cited_lines([(1, LINES_MAX + 1)], 1000) == ()
    assert cited_lines([(n * 3, n * 3) for n in range(1, RANGES_MAX + 2)], 1000) == ()


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60) | st.none())))
def test_every_line_that_was_seen_is_cited_or_all_are(
    ranges: list[tuple[int, int | None]],
) -> None:
    count = 50

    cited = cited_lines(ranges, count)

    seen = {n for start, end in ranges for n in range(start, min(end or count, count) + 1)}
    lines = {n for each in cited for n in range(each.start, each.end + 1)}
    assert not cited or lines >= seen


# -- worktrees of explorations ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "own", "through"),
    [
        (b"/r/src/a.py", b"/r/src/a.py", b""),
        (
            b"/r/.claude/worktrees/agent-a1/src/a.py",
            b"/r/src/a.py",
            b"/r/.claude/worktrees/agent-a1",
        ),
        (b"/r/.claude/worktrees/agent-a1", b"/r", b"/r/.claude/worktrees/agent-a1"),
        (b"/r/.claude/worktrees/feature/a.py", b"/r/.claude/worktrees/feature/a.py", b""),
        (
            b"/r/.claude/worktrees/agent-a/.claude/worktrees/agent-b/c.py",
            b"/r/c.py",
            b"/r/.claude/worktrees/agent-a/.claude/worktrees/agent-b",
        ),
    ],
)
def test_a_path_in_an_explorations_worktree_is_the_repositorys(
    path: bytes, own: bytes, through: bytes
) -> None:
    assert own_path(path) == (own, through)
