"""The finder of a worktree keeps in step with its memory, and holds nobody up."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from amend.core.model import EntryName, Kind, Place, RelPath, Source, SourceKind, Version
from amend.daemon.finding import DOCUMENT_BYTES_MAX, NOT_ALL_READ, Finder, texts_of
from amend.daemon.memory import Learnt, Memory
from amend.edge.store import Store
from amend.formats.agent_cache import pattern_payload, topic_payload

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what a test stores is read at once."""
    monkeypatch.setattr("amend.daemon.finding.SLICE_S", 60.0)


ONE_EACH = -1.0


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def memory(store: Store, tmp_path: Path) -> Memory:
    root = bytes(tmp_path)
    return Memory("r", root, store=store, changes=None, watch=None, inline_bytes_max=None)


@pytest.fixture
def finder(memory: Memory, store: Store) -> Finder:
    return Finder(memory, store)


def put(memory: Memory, key: str, summary: str) -> None:
    version = Version(0, (), (), NOW)
    memory.put(EntryName(Kind.TOPIC, key), version, topic_payload(summary, [], NOW), Place.STORE)


def keys(finder: Finder, question: str) -> list[str]:
    return [match.name.key for match in finder.rank(question)]


def remove(memory: Memory, key: str) -> None:
    known = memory.known(EntryName(Kind.TOPIC, key))
    assert known is not None
    memory.delete(known)


# -- in step -------------------------------------------------------------------------------------


def test_what_is_stored_is_found_and_what_is_deleted_is_not(memory: Memory, finder: Finder) -> None:
    before = keys(finder, "how does the cart work")
    put(memory, "cart", "anonymous carts are merged at login")
    stored = keys(finder, "how does the cart work")
    remove(memory, "cart")

    assert (before, stored, keys(finder, "cart")) == ([], ["cart"], [])


def test_a_new_version_is_found_by_what_it_says_and_no_longer_by_the_old(
    memory: Memory, finder: Finder
) -> None:
    put(memory, "cart", "kept in Redis")
    by_old = keys(finder, "redis")
    put(memory, "cart", "kept in Postgres")

    assert by_old == ["cart"]
    assert (keys(finder, "redis"), keys(finder, "postgres")) == ([], ["cart"])


def test_it_finds_the_same_as_one_that_starts_now(
    memory: Memory, finder: Finder, store: Store
) -> None:
    for at in range(30):
        put(memory, f"cart-{at}", f"part {at} of the cart, in redis")
        if at % 3 == 0:
            finder.rank("cart")
        if at % 4 == 0:
            remove(memory, f"cart-{at}")
        if at % 5 == 1:
            put(memory, f"cart-{at}", "in postgres")

    late = Finder(memory, store)

    for question in ("cart in redis", "postgres cart", "part 7"):
        assert finder.rank(question) == late.rank(question)


def test_nothing_is_read_before_the_first_question(memory: Memory, store: Store) -> None:
    put(memory, "cart", "kept in Redis")

    finder = Finder(memory, store)

    assert len(finder._index) == 0


# -- large memories ------------------------------------------------------------------------------


def test_nothing_is_confident_until_all_is_read(
    memory: Memory, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(memory, "auth", "login and tokens")
    put(memory, "cart", "lines and totals")
    finder.warm()
    monkeypatch.setattr("amend.daemon.finding.SLICE_S", ONE_EACH)

    unread = finder.rank("cart lines")
    read = finder.rank("cart lines")

    assert not any(match.is_confident for match in unread)
    assert [match.is_confident for match in read] == [True]
    assert NOT_ALL_READ not in read[0].why


def test_a_part_that_is_read_says_that_it_is_one(
    memory: Memory, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(memory, "cart", "lines and totals")
    finder.rank("cart")
    put(memory, "auth", "login and tokens")
    put(memory, "jobs", "queues")
    monkeypatch.setattr("amend.daemon.finding.SLICE_S", ONE_EACH)

    [match] = finder.rank("cart lines")

    assert not match.is_confident
    assert match.why[-1] == NOT_ALL_READ


async def test_the_rest_is_read_by_itself(
    memory: Memory, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amend.daemon.finding.SLICE_S", 0.001)
    for at in range(300):
        put(memory, f"topic-{at}", "some words that every entry has, and a number of them")
    put(memory, "cart", "lines and totals")

    finder.warm()
    while not finder.is_settled:  # noqa: ASYNC110 - nothing tells, nobody has to know
        await asyncio.sleep(0)

    assert len(finder._index) == 301
    assert finder._later is None


async def test_find_waits_for_all_and_lets_others_run(
    memory: Memory, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amend.daemon.finding.SLICE_S", ONE_EACH)
    for at in range(300):
        put(memory, f"topic-{at}", "some words that every entry has, and a number of them")
    put(memory, "cart", "lines and totals")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    found = await finder.find("cart lines and totals")
    task.cancel()

    assert [match.is_confident for match in found] == [True]
    assert turns > 1


async def test_stopped_it_reads_no_more(memory: Memory, finder: Finder) -> None:
    put(memory, "cart", "lines and totals")

    finder.warm()
    finder.stop()

    assert finder._later is None


# -- what each kind says -------------------------------------------------------------------------


def note_payload(title: str, bullet: str) -> bytes:
    """As `daemon.notes` records one."""
    said = {"title": title, "date": "2026-11-30", "bullets": [bullet], "cites": []}
    return json.dumps(said).encode()


def version_of(*paths: str) -> Version:
    sources = tuple(Source(SourceKind.FILE, RelPath(path.encode())) for path in paths)
    return Version(1, sources, (), NOW)


def test_a_topic_and_a_pattern_say_their_summary_and_their_files() -> None:
    topic = EntryName(Kind.TOPIC, "cart")
    pattern = EntryName(Kind.PATTERN, "naming")

    of_topic = texts_of(topic, version_of("a.ts"), topic_payload("lines", ["a.ts"], NOW))
    of_pattern = texts_of(pattern, version_of(), pattern_payload("kebab-case", []))

    assert (of_topic.key, of_topic.summary, of_topic.paths) == ("cart", "lines", ("a.ts",))
    assert (of_pattern.key, of_pattern.summary) == ("naming", "kebab-case")


def test_a_note_says_its_title_and_bullets_and_its_category_beside() -> None:
    note = note_payload("JWT, revoked through Redis", "sessions are stateless")

    texts = texts_of(EntryName(Kind.NOTE, "decisions/auth"), version_of("src/auth.ts"), note)

    assert texts.key == "auth"
    assert "JWT, revoked through Redis" in texts.summary
    assert "sessions are stateless" in texts.summary
    assert texts.summary.endswith("decisions")


def test_a_contract_says_its_endpoint_and_fields_but_no_hashes() -> None:
    document = {
        "version": 1,
        "endpoint": {"method": "GET", "path": "/items/:id"},
        "success_responses": [{"status": 200, "body": {"price_cents": "integer"}}],
        "referenced_files": {"src/items.js": "a" * 40},
        "evidence": [{"file": "src/items.js", "line": 3}],
    }
    name = EntryName(Kind.CONTRACT, "backend/items-get")

    texts = texts_of(name, version_of("src/items.js"), json.dumps(document).encode())

    assert texts.key == "items-get"
    assert {"GET", "/items/:id", "price_cents", "integer", "backend"} <= set(texts.summary.split())
    assert "a" * 40 not in texts.summary


def test_a_huge_contract_is_found_by_its_name_and_files() -> None:
    name = EntryName(Kind.CONTRACT, "items")
    payload = json.dumps({"description": "x" * DOCUMENT_BYTES_MAX}).encode()

    texts = texts_of(name, version_of("src/items.js"), payload)

    assert (texts.key, texts.summary, texts.paths) == ("items", "", ("src/items.js",))


def test_notes_and_contracts_that_are_learnt_are_found(memory: Memory, finder: Finder) -> None:
    note = EntryName(Kind.NOTE, "decisions/event-bus")
    payload = note_payload("events go through an outbox", "relayed to NATS")

    memory.learn_documents([Learnt(note, payload, lambda _: Version(0, (), (), NOW))])
    found = keys(finder, "outbox relayed to NATS")
    memory.forget_documents([note])

    assert (found, keys(finder, "outbox")) == (["decisions/event-bus"], [])
