"""The store: what is written comes back, and no damage is silent."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.core.model import (
    ABSENT,
    VERSIONS_MAX,
    CauseKind,
    EntryName,
    FilePrint,
    Kind,
    ListingPrint,
    NoPrint,
    Place,
    Problem,
    RelPath,
    Source,
    SourceKind,
    Version,
)
from amend.edge.store import RepoRow, Store, payload_digest
from amend.edge.store_hooks import HOOKS_SCHEMA, Exploration, SessionAt, Told, Use
from amend.edge.store_trees import DERIVED_MAX, TREES_SCHEMA, NoteRow
from amend.errors import Refused

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NAME = EntryName(Kind.TOPIC, "auth/tokens")
VERSION = Version(
    0,
    (
        Source(SourceKind.FILE, RelPath(b"caf\xe9.py")),
        Source(SourceKind.LISTING, RelPath(b"lib")),
        Source(SourceKind.ABSENT, RelPath(b"gone"), "backend"),
        Source(SourceKind.GLOB, RelPath(b"*.ts")),
    ),
    (
        FilePrint(b"\x01" * 20, 0o100755, 3),
        ListingPrint(b"a\0b\xff"),
        ABSENT,
        NoPrint(CauseKind.UNREADABLE, "no"),
    ),
    NOW,
    (Problem("/x", "is bad"),),
    ((RelPath(b"caf\xe9.py"), RelPath(b"new\xff.py")),),
)


def record(store: Store, payload: bytes = b'"x"', version: Version = VERSION) -> tuple[int, int]:
    with store.transaction():
        row = store.save_entry("r", NAME, place=Place.FILE, file_digest=b"d")
        return row, store.add_version(row, version, payload, recorded_at=NOW, recorded_in=b"/r")


def test_a_version_comes_back_as_it_was_recorded(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    row, version_id = record(store)
    store.close()

    (entry,) = Store(str(tmp_path / "db")).entries("r")

    assert entry.versions == (replace(VERSION, id=version_id),)
    assert (entry.id, entry.name, entry.place, entry.file_digest) == (row, NAME, Place.FILE, b"d")
    assert entry.digests == (payload_digest(b'"x"'),)


def test_equal_fingerprints_are_one_object(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    record(store, b"1")
    record(store, b"2")

    (entry,) = store.entries("r")

    assert entry.versions[0].fingerprints[0] is entry.versions[1].fingerprints[0]
    assert store.shared(VERSION.fingerprints[0]) is entry.versions[0].fingerprints[0]


def test_only_the_newest_versions_are_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    ids = [record(store, b"%d" % number)[1] for number in range(VERSIONS_MAX + 3)]

    (entry,) = store.entries("r")

    assert [version.id for version in entry.versions] == ids[: -VERSIONS_MAX - 1 : -1]


def test_a_version_whose_payload_came_back_is_the_newest_again(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    row, first = record(store, b"1")
    second = record(store, b"2")[1]

    store.promote_version(row, first)

    (entry,) = store.entries("r")
    assert [version.id for version in entry.versions] == [first, second]


def test_a_removed_entry_is_not_listed_but_remembered(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    record(store)
    store.save_entry("r", NAME, place=Place.FILE, file_digest=b"", removed_at=NOW)

    remembered = store.removed_entry("r", NAME)

    assert list(store.entries("r")) == []
    assert remembered is not None
    assert len(remembered.versions) == 1


def test_what_was_removed_long_ago_is_forgotten_with_its_versions(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    record(store)
    store.save_entry("r", NAME, place=Place.FILE, file_digest=b"", removed_at=NOW)

    store.forget_old(NOW + timedelta(days=91))

    assert store.removed_entry("r", NAME) is None


def test_a_failed_transaction_writes_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))

    def fail_half_way() -> None:
        with store.transaction():
            store.add_repo(RepoRow("r", b"/r", None), NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()

    assert store.repos() == []


def test_a_file_that_is_no_database_is_moved_aside_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(b"this is no database at all, but long enough to have a header " * 20)

    store = Store(str(path))

    assert "no sound database" in store.problems[0]
    assert [p.read_bytes()[:4] for p in tmp_path.glob("db.corrupt-*")] == [b"this"]
    assert store.repos() == []


def test_a_store_of_a_newer_amend_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = Store(str(path))
    store._db.execute("PRAGMA user_version=99")
    store.close()
    before = path.read_bytes()

    with pytest.raises(Refused, match="newer amend"):
        Store(str(path))

    assert path.read_bytes() == before


def as_of_schema_1(path: Path) -> None:
    """A store that an amend without memory trees wrote."""
    store = Store(str(path))
    record(store)
    later = [*re.findall(r"CREATE TABLE (\w+)", TREES_SCHEMA + HOOKS_SCHEMA)]
    for table in later:
        store._db.execute(f"DROP TABLE {table}")
    store._db.execute("PRAGMA user_version=1")
    store.close()


def test_an_older_store_is_taken_forward_and_kept_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "db"
    as_of_schema_1(path)

    store = Store(str(path))

    assert len(list(store.entries("r"))) == 1
    assert store.trees.notes(b"/r", b"memory") == {}
    with closing(sqlite3.connect(tmp_path / "db.schema-1")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)
        assert kept.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    assert (tmp_path / "db.schema-1").stat().st_mode & 0o777 == 0o600


def test_a_scratch_copy_of_an_older_store_is_taken_forward(tmp_path: Path) -> None:
    path = tmp_path / "db"
    as_of_schema_1(path)

    copy = Store.scratch_copy(str(path))

    assert copy.trees.notes(b"/r", b"memory") == {}
    with closing(sqlite3.connect(path)) as untouched:
        assert untouched.execute("PRAGMA user_version").fetchone() == (1,)


def test_the_notes_of_a_tree_are_remembered_by_root_and_tree() -> None:
    store, row = Store(":memory:"), NoteRow(b"stat", b"blob", "a title \udcff")

    with store.transaction():
        store.trees.save_notes(b"/r", b"memory", (), {"a/b.aicontext": row, "c": row})
        store.trees.save_notes(b"/r", b"memory", ["c"], {})
        store.trees.save_notes(b"/other", b"memory", (), {"d": row})

    assert store.trees.notes(b"/r", b"memory") == {"a/b.aicontext": row}


def test_the_descriptions_of_a_line_are_remembered_the_newest_few() -> None:
    store = Store(":memory:")

    with store.transaction():
        store.trees.add_lines(b"/r", b"memory", "a", [("seen", "")])
        for n in range(DERIVED_MAX + 3):
            store.trees.add_lines(b"/r", b"memory", "a", [("said", f"title {n}")])

    assert store.trees.lines(b"/r", b"memory", "a") == {
        "seen": set(),
        "said": {f"title {n}" for n in range(3, DERIVED_MAX + 3)},
    }
    assert store.trees.lines(b"/r", b"memory", "b") == {}


def test_a_scratch_copy_leaves_the_store_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = Store(str(path))
    record(store)

    copy = Store.scratch_copy(str(path))
    copy.add_repo(RepoRow("other", b"/other", None), NOW)

    assert len(list(copy.entries("r"))) == 1
    assert store.repos() == []


def test_the_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    Store(str(tmp_path / "db"))

    assert (tmp_path / "db").stat().st_mode & 0o777 == 0o600


# -- agents' sessions ------------------------------------------------------------------------------

HERE = SessionAt("claude", "s", "r")
AUTH, ROUTES = EntryName(Kind.TOPIC, "auth"), EntryName(Kind.TOPIC, "routes")


def test_a_session_is_told_of_an_entry_once_by_version() -> None:
    store = Store(":memory:")

    with store.transaction():
        store.hooks.tell(HERE, [(AUTH, 1), (ROUTES, 2)], Told.SHOWN, NOW)
        store.hooks.tell(HERE, [(AUTH, 1)], Told.INSTEAD, NOW)

    told = store.hooks.told
    assert told(HERE, Told.SHOWN) == {(AUTH, 1), (ROUTES, 2)}
    assert told(HERE, Told.INSTEAD) == {(AUTH, 1)}
    assert told(replace(HERE, session="other"), Told.SHOWN, Told.INSTEAD) == set()
    assert told(replace(HERE, agent="codex"), Told.SHOWN) == set()


def test_an_opening_tells_when_the_last_one_was() -> None:
    store = Store(":memory:")

    with store.transaction():
        first = store.hooks.opened("r", NOW)
        second = store.hooks.opened("r", NOW + timedelta(hours=1))

    assert (first, second) == (None, NOW)


def test_an_exploration_that_ends_again_replaces_what_it_was() -> None:
    store = Store(":memory:")
    done = Exploration("claude", "a1", "s", "r", AUTH, 1, b"t", "explore auth", 50_000, 12.5, NOW)

    with store.transaction():
        store.hooks.add_exploration(done)
        store.hooks.add_exploration(replace(done, version=2, tokens=60_000))

    assert store.hooks.exploration("claude", "a1") == ("r", AUTH, 2)
    assert store.hooks.cost("r", AUTH) == 60_000
    assert store.hooks.cost("r", ROUTES) is None
    assert store.hooks.found_by("r", b"t") == AUTH
    assert store.hooks.found_by("r", b"other") is None
    assert store.hooks.found_by("r", b"") is None


def test_the_ledger_counts_what_was_used_and_saved() -> None:
    store = Store(":memory:")

    with store.transaction():
        for what, name, tokens in (
            (Use.HIT, AUTH, 50_000),
            (Use.HIT, AUTH, 50_000),
            (Use.MISS, None, 0),
        ):
            store.hooks.add_use(HERE, what, name, tokens, NOW)

    assert store.hooks.totals() == {"hit": (2, 100_000), "miss": (1, 0)}
    assert store.hooks.totals(NOW + timedelta(seconds=1)) == {}
    assert store.hooks.usefulness("r") == {AUTH: 2}


def test_a_detail_goes_with_its_version() -> None:
    store = Store(":memory:")
    record(store)
    (row,) = store.entries("r")
    version = row.versions[0].id

    with store.transaction():
        store.hooks.save_detail(version, "all of it")
    found = store.hooks.detail(version)
    with store.transaction():
        store.delete_entry(row.id)

    assert (found, store.hooks.detail(version)) == ("all of it", None)


def test_what_sessions_were_told_long_ago_is_forgotten() -> None:
    store = Store(":memory:")
    with store.transaction():
        store.hooks.tell(HERE, [(AUTH, 1)], Told.SHOWN, NOW)
        store.hooks.add_use(HERE, Use.HIT, AUTH, 1, NOW)

    with store.transaction():
        store.forget_old(NOW + timedelta(days=91))

    assert store.hooks.told(HERE, Told.SHOWN) == set()
    assert store.hooks.totals() == {}
