"""Notes as entries, on real files and real git: what they rest on, and since when."""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.core.model import EntryName, Judgement, Kind, Place, Verdict
from amend.daemon.asking import Asking, Whereabouts
from amend.daemon.memory import Memory
from amend.daemon.notes import Notes, key_of, said_in, summary_of
from amend.edge.files.look import changed_at_ns, stat_key
from amend.edge.git.head import read_head
from amend.edge.store import Store
from tests.integration.git_repositories import new_repository

KEY = "decisions/auth"
NAME = EntryName(Kind.NOTE, KEY)

# For notes; git's times begin five months earlier.
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
TODAY, LONG_AGO, LATER = "2026-06-01", "2026-03-01", "2026-04-01"


class CountingStore(Store):
    """Counts what each costs a write to the disk."""

    transactions = 0

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        self.transactions += 1
        with super().transaction(durable=durable):
            yield


class World:
    """A repository with notes that somebody tells of."""

    def __init__(self, base: Path) -> None:
        self.repository = new_repository(base / "r", base / "home")
        self.store = CountingStore(":memory:")
        self.begin()

    def begin(self) -> None:
        """Again with what the store remembers."""
        root = str(self.repository.root).encode()
        self.memory = Memory(
            "r", root, store=self.store, changes=None, watch=None, inline_bytes_max=None
        )
        self.memory.rejudge(self.memory.unjudged())
        self.notes = Notes(self.memory, lambda: NOW)

    def on(self, day: str) -> None:
        """Have the next commit made at noon of that day."""
        noon = datetime.fromisoformat(f"{day}T12:00:00+00:00")
        self.repository.clock_s = int(noon.timestamp())

    def learn(self, *bullets: str, on: str = LONG_AGO, title: str = "JWT") -> None:
        self.notes.learn(KEY, note(*bullets, on=on, title=title))

    def write(self, *bullets: str, on: str = TODAY, title: str = "JWT") -> None:
        """Somebody writes the note now, and amend watches."""
        data = note(*bullets, on=on, title=title)
        self.notes.learn(KEY, data, written_ns=time.time_ns())

    def ask_git(self) -> None:
        places = self.repository.places
        root = str(self.repository.root).encode()
        asking = Asking(self.memory, lambda _: Whereabouts(places, read_head(places), root))
        asyncio.run(asking.ask())

    def judgement(self, name: EntryName = NAME) -> Judgement:
        known = self.memory.known(name)
        assert known is not None
        return asyncio.run(self.memory.answer(known))

    def verdict(self) -> Verdict:
        return self.judgement().verdict

    def causes(self) -> list[str]:
        return [f"{cause.kind} {cause.source}" for cause in self.judgement().causes]

    def sources(self) -> list[str]:
        known = self.memory.known(NAME)
        assert known is not None
        return [source.spec for source in known.entry.versions[0].sources]

    def said(self) -> str:
        """What the version that answers says."""
        version = self.judgement().version
        assert version is not None
        return summary_of(self.store.recorded(version.id).payload)


def note(*bullets: str, on: str = LONG_AGO, title: str = "JWT") -> bytes:
    return "".join([f"{on}: {title}\n", *(f"  - {bullet}\n" for bullet in bullets)]).encode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.repository.commit("first", **{"a.py": "one\n", "src/b.py": "one\n"})
    return world


# -- what a note rests on --------------------------------------------------------------------------


def test_an_edit_of_a_listed_file_makes_the_note_stale_and_its_undoing_fresh(world: World) -> None:
    world.write("files: a.py, src/b.py")
    assert world.verdict() is Verdict.FRESH

    world.repository.write("src/b.py", "two\n")
    assert world.causes() == ["edited src/b.py"]

    world.repository.write("src/b.py", "one\n")
    assert world.verdict() is Verdict.FRESH


def test_paths_in_backticks_are_sources_if_they_exist(world: World) -> None:
    world.write("see `a.py:3`, `src`, `./src/b.py`, `gone.py`, `npm test` and `.git/config`")

    assert world.sources() == ["a.py", "src/", "src/b.py"]


def test_listed_items_are_sources_of_every_kind_whether_they_exist_or_not(world: World) -> None:
    world.write("files: !new.py, src/, src/*.py, a.py, backend:c.py")
    assert world.sources() == ["!new.py", "src/", "src/*.py", "a.py", "backend:c.py"]
    assert world.causes() == ["unreadable backend:c.py"]

    world.repository.write("new.py", "")
    world.repository.write("src/d.py", "")
    assert world.causes() == [
        "appeared !new.py",
        "appeared src/",
        "appeared src/*.py",
        "unreadable backend:c.py",
    ]


def test_a_listed_file_that_is_not_there_makes_the_note_stale(world: World) -> None:
    world.write("files: gone.py")

    assert world.causes() == ["deleted gone.py"]


def test_a_note_that_cites_nothing_is_fresh_as_long_as_it_is_there(world: World) -> None:
    world.learn("stateless")
    assert world.verdict() is Verdict.FRESH

    world.notes.forget(KEY)
    assert world.memory.known(NAME) is None


def test_a_note_never_expires(world: World) -> None:
    world.memory.max_age = timedelta(days=1)

    world.learn("stateless", on="2001-01-01")

    assert world.verdict() is Verdict.FRESH


def test_a_renamed_source_is_followed(world: World) -> None:
    world.write("files: a.py")
    world.repository.git("mv", "a.py", "moved.py")
    world.repository.commit("move it")

    assert world.verdict() is Verdict.STALE
    world.ask_git()

    assert (world.verdict(), world.causes()) == (Verdict.FRESH, ["moved a.py"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (note("files: ../secrets"), "line 2: files names '../secrets', which contains `..`"),
        (note("x", "files: a.py, /etc/passwd"), "line 3: files names '/etc/passwd', which is abs"),
        (b"2026-06-01: x\n<<<<<<< ours\n  - a\n", "the note holds conflict markers"),
        (b"2026-06-01: x\n  - \xff\n", "the note is not UTF-8"),
        (b"<<<<<<< ours\n", "the note holds conflict markers"),
        (note("files: " + ", ".join(f"f{n}" for n in range(1001))), "names 1001 paths"),
    ],
)
def test_a_note_that_cannot_be_understood_is_never_fresh(
    world: World, data: bytes, why: str
) -> None:
    world.notes.learn(KEY, data, written_ns=time.time_ns())

    judgement = world.judgement()
    assert judgement.verdict is Verdict.STALE
    assert judgement.causes[0].kind == "invalid"
    assert judgement.causes[0].detail.startswith(why)


def test_a_conflict_that_was_resolved_to_the_same_words_is_over(world: World) -> None:
    world.notes.learn(KEY, note("a") + b"<<<<<<< ours\n")
    assert world.verdict() is Verdict.STALE

    world.learn("a")

    assert world.verdict() is Verdict.FRESH


def test_a_note_that_says_nothing_is_no_entry(world: World) -> None:
    world.learn("stateless")

    for data in (b"", b"# a heading\n", b"\n"):
        world.notes.learn(KEY, data)
        assert not world.notes.knows(KEY)

    world.notes.learn(KEY, b"2026-06-01: a title alone\n")
    assert world.notes.knows(KEY)


# -- whose text answers ----------------------------------------------------------------------------


def test_an_older_text_never_answers_though_its_sources_are_back(world: World) -> None:
    world.write("old", "files: a.py")
    world.repository.write("a.py", "two\n")
    world.write("new", "files: a.py")
    assert world.verdict() is Verdict.FRESH

    world.repository.write("a.py", "one\n")

    assert world.verdict() is Verdict.STALE
    assert world.said() == "JWT\n- new\n- files: a.py"


def test_a_text_that_comes_back_brings_its_fingerprints(world: World) -> None:
    world.write("old", "files: a.py")
    world.repository.write("a.py", "two\n")
    world.write("new", "files: a.py")
    world.repository.write("a.py", "one\n")

    world.learn("old", "files: a.py", on=TODAY)

    assert world.verdict() is Verdict.FRESH
    assert world.said() == "JWT\n- old\n- files: a.py"


def test_layout_and_comments_make_no_new_version(world: World) -> None:
    world.write("stateless", "files: a.py")
    before = world.judgement().version

    world.notes.learn(KEY, b"# c\r\n\n" + note("stateless", "files: a.py", on=TODAY))

    assert world.judgement().version == before


def test_what_a_version_says_is_read_back(world: World) -> None:
    world.learn("caf\u00e9", "files: a.py", on="2026-13-45")

    version = world.judgement().version
    assert version is not None
    said = said_in(world.store.recorded(version.id).payload)
    assert (said.on, said.title, said.bullets) == (None, "JWT", ("caf\u00e9", "files: a.py"))


# -- since when: while amend watches ---------------------------------------------------------------


def test_a_note_of_today_rests_on_its_sources_as_they_are(world: World) -> None:
    world.repository.write("a.py", "not committed\n")

    world.write("files: a.py")

    assert world.verdict() is Verdict.FRESH


def test_a_source_that_changed_after_the_note_was_written_is_unknown(world: World) -> None:
    path = str(world.repository.root).encode()
    written_ns = changed_at_ns(stat_key(path, b"a.py"))

    world.notes.learn(KEY, note("files: a.py", on=TODAY), written_ns=written_ns)

    assert (world.verdict(), world.causes()) == (Verdict.UNKNOWN, ["no_baseline a.py"])


def test_the_text_of_another_day_that_is_touched_up_keeps_what_it_rested_on(world: World) -> None:
    world.learn("stateless", "files: a.py")
    world.ask_git()
    world.repository.write("a.py", "two\n")

    world.write("stateles", "files: a.py, src/b.py", on=LONG_AGO)
    world.ask_git()

    assert world.causes() == ["edited a.py"]


def test_a_text_with_a_new_date_is_found_out_anew(world: World) -> None:
    world.learn("stateless", "files: a.py")
    world.ask_git()
    world.repository.write("a.py", "two\n")
    assert world.verdict() is Verdict.STALE

    world.write("stateless", "files: a.py", on=TODAY)

    assert world.verdict() is Verdict.FRESH


def test_a_note_of_another_day_is_judged_by_its_date_though_it_was_written_now(
    world: World,
) -> None:
    world.on(LATER)
    world.repository.commit("later", **{"a.py": "two\n"})

    world.write("files: a.py", on=LONG_AGO)
    assert world.verdict() is Verdict.UNKNOWN
    world.ask_git()

    assert world.verdict() is Verdict.STALE


@pytest.mark.parametrize("on", [TODAY, LONG_AGO])
def test_what_is_saved_through_amend_is_true_now_also_when_it_is_said_again(
    world: World, on: str
) -> None:
    data = note("stateless", "files: a.py", on=on)
    world.notes.saved(KEY, data)
    world.repository.write("a.py", "two\n")
    assert world.verdict() is Verdict.STALE

    world.notes.learn(KEY, data)
    assert world.verdict() is Verdict.STALE
    world.notes.saved(KEY, data)

    assert world.verdict() is Verdict.FRESH


# -- since when: by its date -----------------------------------------------------------------------


def test_before_git_is_asked_a_note_that_was_there_before_amend_is_unknown(world: World) -> None:
    world.learn("files: a.py")

    assert (world.verdict(), world.causes()) == (Verdict.UNKNOWN, ["no_baseline a.py"])


def test_a_source_that_was_last_changed_days_before_the_note_supports_it(world: World) -> None:
    world.learn("files: a.py, !gone.py")
    world.ask_git()

    assert world.verdict() is Verdict.FRESH


# A day lasts from its beginning in UTC+14 to its end in UTC-12.
@pytest.mark.parametrize(
    ("changed_at", "verdict"),
    [
        ("2026-02-28T09:59:00", Verdict.FRESH),
        ("2026-02-28T10:01:00", Verdict.UNKNOWN),
        ("2026-03-01T12:00:00", Verdict.UNKNOWN),
        ("2026-03-02T11:59:00", Verdict.UNKNOWN),
        ("2026-03-02T12:01:00", Verdict.STALE),
    ],
)
@pytest.mark.parametrize("how", ["committed", "cloned", "edited"])
def test_a_source_that_changed_about_the_note_s_day_is_unknown(
    world: World, how: str, changed_at: str, verdict: Verdict
) -> None:
    at_s = int(datetime.fromisoformat(f"{changed_at}+00:00").timestamp())
    world.repository.clock_s = at_s - 60
    world.repository.write("a.py", "two\n")
    if how != "edited":
        world.repository.commit("about that day")
    if how == "cloned":
        shutil.rmtree(world.repository.root / ".git/logs")
    os.utime(world.repository.root / "a.py", (at_s, at_s))

    world.learn("files: a.py", on=LONG_AGO)
    world.ask_git()

    assert world.verdict() is verdict


def test_a_source_that_changed_on_that_day_and_changed_back_is_unknown(world: World) -> None:
    world.on(LONG_AGO)
    world.repository.commit("there", **{"a.py": "two\n"})
    world.repository.git("revert", "--no-edit", "HEAD")

    world.learn("files: a.py, src/b.py", on=LONG_AGO)
    world.ask_git()

    assert (world.verdict(), world.causes()) == (Verdict.UNKNOWN, ["no_baseline a.py"])


def test_a_source_that_was_committed_days_after_the_note_makes_it_stale(world: World) -> None:
    world.on(LATER)
    world.repository.commit("later", **{"a.py": "two\n"})

    world.learn("files: a.py")
    world.ask_git()

    assert world.causes() == ["committed a.py"]


def test_an_uncommitted_edit_since_the_date_makes_the_note_stale(world: World) -> None:
    world.repository.write("a.py", "two\n")

    world.learn("files: a.py")
    world.ask_git()

    assert world.causes() == ["edited a.py"]


@pytest.mark.parametrize("on", ["2026-02-30", "9999-12-31"])
def test_without_a_date_that_can_be_nobody_knows(world: World, on: str) -> None:
    world.learn("files: a.py", on=on)
    world.ask_git()

    assert (world.verdict(), world.causes()) == (Verdict.UNKNOWN, ["no_baseline a.py"])


def test_a_note_that_git_checks_out_is_not_taken_for_news(world: World) -> None:
    world.learn("ours", "files: a.py")
    world.ask_git()
    world.on(LATER)
    world.repository.commit("later", **{"a.py": "two\n"})

    world.learn("theirs", "files: a.py")
    world.ask_git()

    assert world.verdict() is Verdict.STALE


# -- keeping them ----------------------------------------------------------------------------------


def test_a_note_that_comes_back_is_remembered_and_stays_so(world: World) -> None:
    world.write("files: a.py")
    world.notes.forget(KEY)
    world.repository.write("a.py", "two\n")

    world.learn("files: a.py", on=TODAY)
    assert world.causes() == ["edited a.py"]

    world.begin()
    assert world.memory.names() == [NAME]  # the store knows that it is back


def test_after_a_restart_what_has_not_changed_makes_no_version(world: World) -> None:
    world.write("files: a.py")
    before = world.judgement().version
    world.begin()
    assert world.notes.knows(KEY)

    world.notes.learn_all({KEY: note("files: a.py", on=TODAY)})

    assert world.judgement().version == before


def test_what_no_tree_has_is_forgotten_and_other_kinds_are_not(world: World) -> None:
    topic = EntryName(Kind.TOPIC, "topic")
    world.learn("stateless")
    known = world.memory.known(NAME)
    assert known is not None
    world.memory.put(topic, known.entry.versions[0], b"{}", Place.STORE)
    world.notes.learn("decisions/db", note("postgres"))

    world.notes.forget_all_but({"decisions/db"})

    assert world.memory.names() == [topic, EntryName(Kind.NOTE, "decisions/db")]


def test_the_cache_file_is_never_to_say_anything_of_a_note(world: World) -> None:
    world.write("files: a.py")
    world.repository.write("a.py", "two\n")
    assert world.verdict() is Verdict.STALE
    world.notes.forget(KEY)
    world.learn("files: a.py")

    assert world.memory.unwritten == set()
    known = world.memory.known(NAME)
    assert known is not None
    assert (known.place, known.file_digest) == (Place.STORE, b"")


def test_many_are_learnt_and_forgotten_in_one_transaction_each(world: World) -> None:
    notes = {f"n/{number}": note(f"fact {number}", "files: a.py") for number in range(200)}
    written_ns = dict.fromkeys(notes, time.time_ns())
    before = world.store.transactions

    world.notes.learn_all(notes, written_ns)
    world.notes.learn_all(notes, written_ns)
    assert world.store.transactions == before + 1

    world.notes.forget("n/0", "n/1", "never there")
    world.notes.forget_all_but(set())
    assert world.store.transactions == before + 3
    assert world.memory.names() == []


def test_a_note_is_found_by_its_key_alone_after_every_other_kind(world: World) -> None:
    world.learn("stateless")

    known = world.memory.find(KEY, None)
    assert known is not None
    assert known.entry.name == NAME


def test_keys_are_short_in_the_first_tree_and_unique_in_all() -> None:
    trees = [b"memory", b"docs/notes", b"a:b\xff"]

    assert key_of(trees, b"memory", "decisions/auth.aicontext") == "decisions/auth"
    assert key_of(trees, b"docs/notes", "decisions/auth.aicontext") == "docs/notes:decisions/auth"
    assert key_of(trees, b"a:b\xff", "c.aicontext") == "a%3Ab%FF:c"
    assert key_of(trees, b"memory", "docs/notes:auth.aicontext") == "docs/notes%3Aauth"
