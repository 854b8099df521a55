"""What the cache file should hold: marks, evictions, restorations and pruning."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.model import UNKNOWN_CAUSES, Cause, CauseKind, EntryName, Kind, Place, Verdict
from amend.core.policy import (
    ClearMark,
    Edit,
    Held,
    Mark,
    OnStale,
    PutBack,
    Remove,
    SetMark,
    mark_for,
    prunable,
    wanted_edits,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
THEN = NOW - timedelta(hours=1)
NAME = EntryName(Kind.TOPIC, "auth")

EDITED = Cause(CauseKind.EDITED, "src/auth.ts")
DELETED = Cause(CauseKind.DELETED, "src/db.ts")
MOVED = Cause(CauseKind.MOVED, "src/old.ts", moved_to="src/new.ts")
UNREADABLE = Cause(CauseKind.UNREADABLE, "src/secret.ts")
EXPIRED = Cause(CauseKind.EXPIRED, verified=True)
BAD_TS = Cause(CauseKind.INVALID, pointer="/topics/auth/ts")
BAD_FILES = Cause(CauseKind.INVALID, pointer="/topics/auth/files")
BAD_SPEC = Cause(CauseKind.INVALID, pointer="/topics/auth/files/0")
FILES_AS_KEY = Cause(CauseKind.INVALID, pointer="/topics/files/0")

EDITED_MARK = Mark(THEN, "edited", ("src/auth.ts",))


def held(
    verdict: Verdict = Verdict.FRESH,
    *causes: Cause,
    place: Place = Place.FILE,
    in_file: bool = True,
    mark: Mark | None = None,
    has_stale_field: bool | None = None,
    since: datetime | None = THEN,
    name: EntryName = NAME,
) -> Held:
    present = mark is not None if has_stale_field is None else has_stale_field
    return Held(name, place, in_file, mark, present, verdict, causes, since)


def wanted(on_stale: OnStale, item: Held) -> Edit | None:
    edits = wanted_edits(on_stale, [item], NOW)
    assert len(edits) <= 1
    return edits[0] if edits else None


STALE = held(Verdict.STALE, EDITED)


@pytest.mark.parametrize(
    ("item", "edit"),
    [
        (held(), None),
        (held(Verdict.FRESH, MOVED), None),
        (held(mark=EDITED_MARK), ClearMark(NAME)),
        (held(has_stale_field=True), ClearMark(NAME)),
        (STALE, SetMark(NAME, EDITED_MARK)),
        (replace(STALE, since=None), SetMark(NAME, replace(EDITED_MARK, since=NOW))),
        (held(Verdict.STALE, EDITED, mark=EDITED_MARK), None),
        (held(Verdict.STALE, EDITED, mark=EDITED_MARK, since=NOW), None),
        (
            held(Verdict.STALE, replace(EDITED, kind=CauseKind.COMMITTED), mark=EDITED_MARK),
            SetMark(NAME, Mark(THEN, "committed", ("src/auth.ts",))),
        ),
        (
            held(Verdict.STALE, EDITED, DELETED, mark=EDITED_MARK),
            SetMark(NAME, Mark(THEN, "edited", ("src/auth.ts", "src/db.ts"))),
        ),
        (held(Verdict.STALE, EDITED, has_stale_field=True), SetMark(NAME, EDITED_MARK)),
        (held(Verdict.STALE, EXPIRED), SetMark(NAME, Mark(THEN, "expired", ()))),
        (held(Verdict.STALE, MOVED, EXPIRED), SetMark(NAME, Mark(THEN, "expired", ()))),
        (held(Verdict.STALE, BAD_SPEC), SetMark(NAME, Mark(THEN, "invalid", ()))),
        (held(Verdict.STALE, BAD_TS), None),
        (held(Verdict.STALE, BAD_FILES), None),
        (held(Verdict.STALE, FILES_AS_KEY), None),
        (held(Verdict.STALE, BAD_SPEC, BAD_TS), None),
        (held(Verdict.STALE, BAD_TS, mark=EDITED_MARK), None),
        (held(Verdict.UNKNOWN, UNREADABLE), None),
        (held(Verdict.UNKNOWN, UNREADABLE, mark=EDITED_MARK), None),
        (held(Verdict.STALE), None),  # of a verdict read from the store, not judged yet
        (held(Verdict.STALE, EDITED, in_file=False), None),
        (held(Verdict.STALE, EDITED, place=Place.STORE, in_file=False), None),
    ],
)
def test_mark_says_in_the_file_what_is_stale(item: Held, edit: Edit | None) -> None:
    assert wanted(OnStale.MARK, item) == edit


@pytest.mark.parametrize(
    ("item", "edit"),
    [
        (held(), None),
        (held(mark=EDITED_MARK), ClearMark(NAME)),
        (STALE, Remove(NAME)),
        (held(Verdict.STALE, EXPIRED), Remove(NAME)),
        (held(Verdict.STALE, EDITED, mark=EDITED_MARK), Remove(NAME)),
        (held(Verdict.STALE, BAD_TS), None),
        (held(Verdict.STALE, BAD_SPEC), None),
        (held(Verdict.UNKNOWN, UNREADABLE), None),
        (held(Verdict.STALE), None),
        (held(Verdict.STALE, EDITED, place=Place.AWAY, in_file=False), None),
        (held(Verdict.UNKNOWN, UNREADABLE, place=Place.AWAY, in_file=False), None),
        (held(place=Place.AWAY, in_file=False), PutBack(NAME)),
        (held(place=Place.AWAY), None),
    ],
)
def test_evict_takes_out_what_is_stale_and_puts_it_back_when_fresh(
    item: Held, edit: Edit | None
) -> None:
    assert wanted(OnStale.EVICT, item) == edit


@pytest.mark.parametrize("on_stale", [OnStale.MARK, OnStale.EVICT])
@pytest.mark.parametrize(
    ("item", "edit"),
    [
        (held(place=Place.COMING, in_file=False), PutBack(NAME)),
        (
            held(Verdict.STALE, EDITED, place=Place.COMING, in_file=False),
            PutBack(NAME, EDITED_MARK),
        ),
        # The verdict is on what the file still holds, not on what replaces it.
        (held(Verdict.STALE, EDITED, place=Place.COMING, in_file=True), PutBack(NAME)),
        (held(place=Place.LEAVING), Remove(NAME)),
        (held(place=Place.LEAVING, in_file=False), None),
    ],
)
def test_what_the_api_wrote_or_deleted_reaches_the_file(
    on_stale: OnStale, item: Held, edit: Edit | None
) -> None:
    assert wanted(on_stale, item) == edit


def test_what_was_evicted_comes_back_marked_when_the_policy_has_become_mark() -> None:
    item = held(Verdict.STALE, EDITED, place=Place.AWAY, in_file=False)

    edit = wanted(OnStale.MARK, item)

    assert edit == PutBack(NAME, EDITED_MARK)


def test_a_mark_names_the_first_known_difference_and_every_file_once() -> None:
    causes = (MOVED, UNREADABLE, DELETED, EDITED, replace(EDITED, kind=CauseKind.EVIDENCE))

    mark = mark_for(causes, THEN)

    assert mark == Mark(THEN, "deleted", ("src/secret.ts", "src/db.ts", "src/auth.ts"))


CAUSES = st.lists(
    st.builds(
        Cause,
        st.sampled_from(CauseKind),
        st.sampled_from(["", "a.py", "b.py"]),
        pointer=st.sampled_from(["", "/topics/auth/ts", "/topics/auth/files/3"]),
    ),
    max_size=3,
).map(tuple)

HELD = st.builds(
    Held,
    st.builds(EntryName, st.sampled_from(Kind), st.sampled_from(["auth", "db"])),
    st.sampled_from(Place),
    st.booleans(),
    st.one_of(
        st.none(),
        st.builds(
            Mark,
            st.just(THEN),
            st.sampled_from(CauseKind).map(str),
            st.sampled_from([(), ("a.py",)]),
        ),
    ),
    st.booleans(),
    st.sampled_from(Verdict),
    CAUSES,
    st.sampled_from([None, THEN]),
)


@given(HELD)
def test_observe_never_writes(item: Held) -> None:
    assert wanted(OnStale.OBSERVE, item) is None


@given(st.sampled_from(OnStale), HELD)
def test_nothing_is_marked_or_evicted_that_is_not_known_to_be_stale(
    on_stale: OnStale, item: Held
) -> None:
    edit = wanted(on_stale, item)

    against = {c.kind for c in item.causes} - UNKNOWN_CAUSES - {CauseKind.MOVED}
    if isinstance(edit, SetMark) or (isinstance(edit, Remove) and item.place is not Place.LEAVING):
        assert item.verdict is Verdict.STALE
        assert against
    if isinstance(edit, PutBack) and edit.mark is not None:
        assert item.verdict is Verdict.STALE


@given(HELD)
def test_the_file_is_left_alone_once_it_says_what_it_should(item: Held) -> None:
    edit = wanted(OnStale.MARK, item)

    if isinstance(edit, SetMark):
        after = replace(item, mark=edit.mark, has_stale_field=True)
    elif isinstance(edit, ClearMark):
        after = replace(item, mark=None, has_stale_field=False)
    elif isinstance(edit, PutBack) and not (item.place is Place.COMING and item.in_file):
        marked = edit.mark is not None
        after = replace(
            item, place=Place.FILE, in_file=True, mark=edit.mark, has_stale_field=marked
        )
    else:
        return
    assert wanted(OnStale.MARK, after) is None


DAYS_30 = timedelta(days=30)
OLD = NOW - timedelta(days=31)
PATTERN = EntryName(Kind.PATTERN, "route")


@pytest.mark.parametrize(
    ("name", "place", "ts", "goes"),
    [
        (NAME, Place.FILE, OLD, True),
        (NAME, Place.FILE, NOW - DAYS_30, False),
        (NAME, Place.FILE, NOW, False),
        (NAME, Place.FILE, None, False),
        (PATTERN, Place.FILE, OLD, False),
        (NAME, Place.AWAY, OLD, False),
        (NAME, Place.COMING, OLD, False),
    ],
)
def test_topics_too_old_to_keep_are_pruned_and_patterns_never(
    name: EntryName, place: Place, ts: datetime | None, goes: bool
) -> None:
    assert prunable([(name, place, ts)], NOW, DAYS_30) == ([Remove(name)] if goes else [])


def test_age_alone_makes_no_write() -> None:
    ancient = held(Verdict.STALE, EXPIRED, mark=Mark(THEN, "expired", ()))

    assert wanted_edits(OnStale.MARK, [ancient], NOW) == []
