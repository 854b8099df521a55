"""Verdicts as DESIGN section 4 says: versions, observations, time → verdict and causes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.freshness import Explained, explain, judge
from amend.core.model import (
    ABSENT,
    Cause,
    CauseKind,
    Commit,
    Entry,
    EntryName,
    FilePrint,
    Fingerprint,
    Judgement,
    Kind,
    ListingPrint,
    NoPrint,
    Problem,
    RelPath,
    Source,
    SourceKind,
    Verdict,
    Version,
)
from amend.core.sources import parse_spec

NOW = datetime(2026, 11, 30, tzinfo=UTC)
WEEK = timedelta(days=7)
ONE = FilePrint(b"1" * 20, 0o100644, 4)
TWO = FilePrint(b"2" * 20, 0o100644, 4)
UNREADABLE = NoPrint(CauseKind.UNREADABLE, "permission denied")


def version(number: int = 1, *, ts: datetime = NOW, **prints: Fingerprint) -> Version:
    """Keywords are files: `a=ONE` is the source a.py."""
    sources = tuple(parse_spec(f"{name}.py") for name in prints)
    return Version(number, sources, tuple(prints.values()), ts)


def verdict_on(
    *versions: Version, kind: Kind = Kind.TOPIC, now: datetime = NOW, **looks: Fingerprint
) -> Judgement:
    entry = Entry(EntryName(kind, "notes"), versions)
    by_path = {f"{name}.py".encode(): look for name, look in looks.items()}
    return judge(entry, lambda source: by_path.get(source.path, ABSENT), now, WEEK)


def kinds(judgement: Judgement) -> list[CauseKind]:
    return [cause.kind for cause in judgement.causes]


def test_an_entry_is_fresh_while_every_source_looks_as_it_did() -> None:
    judgement = verdict_on(version(a=ONE, b=TWO), a=ONE, b=TWO)

    assert judgement.verdict is Verdict.FRESH
    assert judgement.causes == ()


def test_one_changed_source_of_several_makes_it_stale_and_is_named() -> None:
    judgement = verdict_on(version(a=ONE, b=TWO), a=ONE, b=ONE)

    assert judgement.verdict is Verdict.STALE
    assert [(c.kind, c.source, c.settled) for c in judgement.causes] == [
        (CauseKind.EDITED, "b.py", False)
    ]


@pytest.mark.parametrize(
    ("then", "now", "cause"),
    [
        (ONE, TWO, CauseKind.EDITED),
        (ONE, FilePrint(ONE.blob, 0o100755, 4), CauseKind.EDITED),
        (ONE, ABSENT, CauseKind.DELETED),
        (ABSENT, ONE, CauseKind.APPEARED),
        (ABSENT, ABSENT, CauseKind.DELETED),
        (ONE, UNREADABLE, CauseKind.UNREADABLE),
        (ONE, NoPrint(CauseKind.TOO_LARGE), CauseKind.TOO_LARGE),
        (NoPrint(CauseKind.NO_BASELINE), ONE, CauseKind.NO_BASELINE),
    ],
)
def test_a_cited_file_has_the_cause_that_fits(
    then: Fingerprint, now: Fingerprint, cause: CauseKind
) -> None:
    judgement = verdict_on(version(a=then), a=now)

    assert kinds(judgement) == [cause]
    assert judgement.verdict is not Verdict.FRESH


@pytest.mark.parametrize(
    ("look", "verdict"),
    [(ABSENT, Verdict.FRESH), (ONE, Verdict.STALE), (UNREADABLE, Verdict.UNKNOWN)],
)
def test_a_path_asserted_absent_supports_only_while_nothing_is_there(
    look: Fingerprint, verdict: Verdict
) -> None:
    asserted = Version(1, (parse_spec("!gone.py"),), (ABSENT,), NOW)

    assert verdict_on(asserted, gone=look).verdict is verdict


def test_a_listing_says_which_names_came_and_went() -> None:
    source = parse_spec("lib/")
    entry = Entry(
        EntryName(Kind.TOPIC, "notes"), (Version(1, (source,), (ListingPrint(b"a\0b"),), NOW),)
    )

    judgement = judge(entry, lambda _: ListingPrint(b"b\0c"), NOW, WEEK)

    assert judgement.causes == (Cause(CauseKind.APPEARED, "lib/", gained=("c",), lost=("a",)),)


def test_a_known_difference_outweighs_what_cannot_be_checked() -> None:
    assert verdict_on(version(a=ONE, b=ONE), a=UNREADABLE, b=TWO).verdict is Verdict.STALE


def test_what_cannot_be_checked_alone_is_unknown() -> None:
    assert verdict_on(version(a=ONE, b=ONE), a=UNREADABLE, b=ONE).verdict is Verdict.UNKNOWN


def test_the_newest_supported_version_answers() -> None:
    old, middle, new = version(1, a=ONE), version(2, a=ONE), version(3, a=TWO)

    judgement = verdict_on(new, middle, old, a=ONE)

    assert (judgement.verdict, judgement.version) == (Verdict.FRESH, middle)


def test_with_no_version_supported_the_newest_answers_with_its_causes() -> None:
    new, old = version(2, a=ONE), version(1, a=TWO)

    judgement = verdict_on(new, old, a=ABSENT)

    assert (judgement.version, kinds(judgement)) == (new, [CauseKind.DELETED])


def test_sources_of_older_versions_are_not_looked_at_when_the_newest_is_supported() -> None:
    looked: list[Source] = []

    def look(source: Source) -> Fingerprint:
        looked.append(source)
        return ONE

    judge(
        Entry(EntryName(Kind.TOPIC, "k"), (version(2, a=ONE), version(1, b=TWO))), look, NOW, None
    )

    assert looked == [parse_spec("a.py")]


def test_an_old_topic_is_expired_and_says_whether_its_sources_still_match() -> None:
    old = version(ts=NOW - timedelta(days=8), a=ONE)

    matching, changed = verdict_on(old, a=ONE), verdict_on(old, a=TWO)

    assert (matching.verdict, matching.causes[0].verified) == (Verdict.STALE, True)
    assert kinds(changed) == [CauseKind.EDITED, CauseKind.EXPIRED]
    assert not changed.causes[-1].verified


def test_an_entry_on_its_last_day_is_not_expired() -> None:
    assert verdict_on(version(ts=NOW - WEEK, a=ONE), a=ONE).verdict is Verdict.FRESH


def test_a_broken_document_is_stale_even_where_an_older_version_is_supported() -> None:
    broken = replace(
        version(2, a=ONE), problems=(Problem("/topics/notes/files", "must be a list"),)
    )

    judgement = verdict_on(broken, version(1, a=ONE), a=ONE)

    assert judgement.verdict is Verdict.STALE
    assert judgement.causes[0].pointer == "/topics/notes/files"


def test_a_topic_without_files_is_unknown_but_a_pattern_is_fresh() -> None:
    bare = Version(1, (), (), NOW)

    assert verdict_on(bare).verdict is Verdict.UNKNOWN
    assert verdict_on(bare, kind=Kind.PATTERN).verdict is Verdict.FRESH


def test_a_moved_file_keeps_its_entry_fresh_with_a_note() -> None:
    moved = replace(version(a=ONE), moves=((RelPath(b"a.py"), RelPath(b"new.py")),))

    judgement = verdict_on(moved, a=ABSENT, new=ONE)

    assert judgement.verdict is Verdict.FRESH
    assert judgement.causes == (Cause(CauseKind.MOVED, "a.py", moved_to="new.py"),)


def test_a_moved_file_that_was_then_edited_is_stale() -> None:
    moved = replace(version(a=ONE), moves=((RelPath(b"a.py"), RelPath(b"new.py")),))

    assert verdict_on(moved, a=ABSENT, new=TWO).verdict is Verdict.STALE


COMMIT = Commit("c" * 40, NOW, "rename tokens")


def test_git_turns_edited_into_committed_with_the_commit() -> None:
    judgement = verdict_on(version(a=ONE), a=TWO)
    known = {parse_spec("a.py"): (TWO, Explained(committed=True, commit=COMMIT))}

    explained = explain(judgement, known, lambda _: TWO)

    assert explained.causes == (Cause(CauseKind.COMMITTED, "a.py", commit=COMMIT),)


def test_what_git_said_of_another_look_does_not_count() -> None:
    judgement = verdict_on(version(a=ONE), a=TWO)
    known = {parse_spec("a.py"): (ABSENT, Explained(committed=True, commit=COMMIT))}

    assert explain(judgement, known, lambda _: TWO) == judgement


prints = st.sampled_from([ONE, TWO, ABSENT, UNREADABLE, NoPrint(CauseKind.NO_BASELINE)])


@given(
    versions=st.lists(st.lists(prints, min_size=2, max_size=2), min_size=1, max_size=4),
    looks=st.lists(prints, min_size=2, max_size=2),
)
def test_fresh_means_that_one_version_matches_in_every_source(
    versions: list[list[Fingerprint]], looks: list[Fingerprint]
) -> None:
    recorded = [version(i, a=a, b=b) for i, (a, b) in enumerate(versions)]

    judgement = verdict_on(*recorded, a=looks[0], b=looks[1])

    matching = [v for v in versions if v == looks and all(isinstance(p, FilePrint) for p in v)]
    assert (judgement.verdict is Verdict.FRESH) == bool(matching)


def test_every_kind_of_source_can_be_cited() -> None:
    specs = ("a", "a/", "a*", "!a")
    assert {parse_spec(s).kind for s in specs} == set(SourceKind) - {SourceKind.URL}
