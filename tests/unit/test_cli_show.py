"""Answers as text: every cause a plain sentence, and nothing in it that a terminal would obey."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.cli.show import change_line, clean, paragraph, plural, reasons, sentence
from amend.core.model import CauseKind
from tests.integration.cli_fakes import change

COMMIT = {
    "oid": "1a2b3c4d5e6f",
    "author_time": "2026-11-30T09:00:00Z",
    "subject": "rename tokens",
}


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ({"cause": "edited", "source": "a.ts"}, "a.ts: edited, not committed"),
        ({"cause": "edited", "source": "a.ts", "settled": False}, "a.ts: changed since"),
        (
            {"cause": "committed", "source": "src/auth.ts", "commit": COMMIT},
            "src/auth.ts: committed in 1a2b3c4 'rename tokens' on 2026-11-30",
        ),
        ({"cause": "committed", "source": "a.ts"}, "a.ts: committed since"),
        ({"cause": "deleted", "source": "a.ts"}, "a.ts: deleted"),
        (
            {"cause": "deleted", "source": "a.ts", "commit": COMMIT},
            "a.ts: deleted in 1a2b3c4 'rename tokens' on 2026-11-30",
        ),
        (
            {"cause": "deleted", "source": "a.ts", "detail": "did not exist when it was recorded"},
            "a.ts: did not exist when it was recorded, and does not now",
        ),
        ({"cause": "moved", "source": "a.ts", "moved_to": "b.ts"}, "a.ts: moved to b.ts"),
        ({"cause": "appeared", "source": "!a.ts"}, "!a.ts: exists now; this rests on its absence"),
        (
            {"cause": "appeared", "source": "src/", "gained": ["b", "c"], "lost": ["a"]},
            "src/: gained b, c; lost a",
        ),
        ({"cause": "appeared", "source": "src/a"}, "src/a: is something else now"),
        ({"cause": "evidence", "source": "a.ts"}, "a.ts: the cited lines changed"),
        (
            {"cause": "expired", "detail": "written 2026-11-01, older than 7 days"},
            "it is too old: written 2026-11-01, older than 7 days",
        ),
        (
            {"cause": "expired", "verified": True},
            "it is too old; all its files are still as they were",
        ),
        (
            {"cause": "invalid", "pointer": "/topics/a/files", "detail": "must be a list"},
            "/topics/a/files breaks a rule: must be a list",
        ),
        (
            {"cause": "unreadable", "source": "a.ts", "detail": "permission denied"},
            "a.ts: cannot be read: permission denied",
        ),
        ({"cause": "too_large", "source": "a"}, "a: is too large to check"),
        (
            {"cause": "no_baseline", "source": "a"},
            "a: nothing tells what it was like when this was written",
        ),
        ({"cause": "shallow", "source": "a"}, "a: its commit is not in this clone"),
        ({"cause": "eaten", "source": "a", "detail": "by moths"}, "a: eaten: by moths"),
    ],
)
def test_a_cause_is_one_plain_sentence(cause: Any, said: str) -> None:
    assert sentence(cause) == said


@pytest.mark.parametrize("kind", list(CauseKind))
def test_no_cause_is_told_by_its_bare_name(kind: CauseKind) -> None:
    said = sentence({"cause": kind.value, "source": "a"})

    assert said.startswith("a: ")
    assert "_" not in said
    assert said != f"a: {kind.value}" or kind is CauseKind.DELETED


def test_drift_is_told_beside_the_causes() -> None:
    assert reasons([], ["a.ts"]) == ["a.ts: changed elsewhere than in the lines this cites"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("a\x00b\x7fc\x9bd", "abcd"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("\u2066x\u2069\u200f\u061c", "x"),
        ("tag\U000e0041\U000e0042", "tag"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("wörter 日本 नमस्ते", "wörter 日本 नमस्ते"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text())
def test_clean_text_is_one_line_and_stays_as_it_is(text: str) -> None:
    shown = clean(text)

    assert clean(shown) == shown
    assert not any(unicodedata.category(character) == "Cc" for character in shown)


def test_a_summary_keeps_its_lines_and_nothing_else() -> None:
    assert paragraph("one\x1b[2J\n  two\r\nthree\n") == "  one[2J\n    two\n  three"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "12:03:04  stale    topic auth  src/auth.ts: edited, not committed"),
        (
            {"refined": True, "causes": [{"cause": "committed", "source": "a", "commit": COMMIT}]},
            "12:03:04  stale    topic auth  now known: "
            "a: committed in 1a2b3c4 'rename tokens' on 2026-11-30",
        ),
        (
            {"previous": "missing", "verdict": "fresh", "causes": []},
            "12:03:04  fresh    topic auth  new",
        ),
        ({"verdict": "missing", "causes": []}, "12:03:04  gone     topic auth"),
        ({"verdict": "fresh", "previous": "stale", "causes": []}, "12:03:04  fresh    topic auth"),
        (
            {"key": "a\x1b]0;b", "verdict": "fresh", "causes": []},
            "12:03:04  fresh    topic a]0;b",
        ),
    ],
)
def test_a_change_is_one_line(changes: dict[str, Any], line: str) -> None:
    from click import unstyle

    assert unstyle(change_line(change(**changes))) == line  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(1, "entry", "1 entry"), (0, "entry", "0 entries"), (2, "file", "2 files")],
)
def test_counts_agree_with_their_nouns(count: int, noun: str, said: str) -> None:
    assert plural(count, noun) == said
