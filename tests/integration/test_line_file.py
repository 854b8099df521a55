"""Files of lines and indexes written by workers: nothing that somebody did meanwhile is lost."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from amend.core.model import EntryName, Kind
from amend.daemon.line_file import LineFile
from amend.daemon.memory import FILLED_AT_ONCE, Memory
from amend.daemon.notes import Notes
from amend.daemon.tree_indexes import Indexes
from amend.daemon.tree_reading import counting, read_tree
from amend.edge.store import Store

LINES = b"file: a.aicontext | first\n"
MORE = LINES + b"file: b.aicontext | second\n"


def line_file(tmp_path: Path, plan) -> LineFile:
    retained = os.fsencode(tmp_path / "displaced")
    return LineFile(os.fsencode(tmp_path), b"index", plan=plan, retain_dir=retained, quiet_s=0.0)


def never(present: bytes | None) -> bytes | None:
    raise AssertionError("asked again")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_worker_writes_what_was_planned_and_asks_nothing(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(LINES)
    file = line_file(tmp_path, never)

    await file.request_away(LINES, MORE)
    file.close()

    assert (tmp_path / "index").read_bytes() == MORE
    assert file.is_written


async def test_a_file_that_is_another_than_was_planned_for_is_planned_for_anew(
    tmp_path: Path,
) -> None:
    typed = LINES + b"# typed meanwhile\n"
    (tmp_path / "index").write_bytes(typed)
    file = line_file(
        tmp_path, lambda present: None if present == typed + b"!\n" else typed + b"!\n"
    )

    await file.request_away(LINES, MORE)
    await file.written()
    file.close()

    assert (tmp_path / "index").read_bytes() == typed + b"!\n"


async def test_a_file_that_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = line_file(tmp_path, lambda present: None)
    (tmp_path / "index").write_bytes(LINES)

    await file.request_away(None, MORE)
    file.close()

    assert (tmp_path / "index").read_bytes() == LINES


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
async def test_closing_while_a_worker_writes_leaves_the_file_whole_and_nothing_open(
    tmp_path: Path,
) -> None:
    await asyncio.to_thread(os.getpid)  # the first worker's own files are not the file's
    (tmp_path / "index").write_bytes(LINES)
    file = line_file(tmp_path, never)
    before = open_files()

    writing = asyncio.create_task(file.request_away(LINES, MORE))
    await asyncio.sleep(0)
    file.close()
    await writing
    file.close()  # once more does no harm

    assert (tmp_path / "index").read_bytes() == MORE
    assert open_files() == before


async def test_what_is_noticed_and_requested_while_a_worker_writes_comes_afterwards(
    tmp_path: Path,
) -> None:
    last = MORE + b"file: c.aicontext | third\n"
    (tmp_path / "index").write_bytes(LINES)
    file = line_file(tmp_path, lambda present: None if present == last else last)

    writing = asyncio.create_task(file.request_away(LINES, MORE))
    await asyncio.sleep(0)
    file.noticed()
    file.request()
    await writing
    await file.written()
    file.close()

    assert (tmp_path / "index").read_bytes() == last


async def test_indexes_that_are_left_when_git_begins_something_stay_behind(tmp_path: Path) -> None:
    (tmp_path / "memory" / "area").mkdir(parents=True)
    (tmp_path / "memory" / "area" / "note.aicontext").write_text("2026-01-02: a title\n  - b\n")
    root = os.fsencode(tmp_path)
    read = read_tree(root, b"memory", {}, time.time_ns())
    indexes = Indexes(root, b"memory", repository=root, store=Store(":memory:"), retain_dir=None)
    indexes.behind = {"", "area"}

    nothing = await indexes.write(read, counting(read), patiently=True, goes_on=lambda: False)
    left = set(indexes.behind)
    everything = await indexes.write(read, counting(read), patiently=True)
    indexes.close()

    assert (nothing, left) == ((), {"", "area"})
    assert set(everything) == {"memory/index.aicontext", "memory/area/index.aicontext"}
    assert not indexes.behind


async def test_git_is_asked_about_notes_once_all_are_learnt_and_few_are_filled_at_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("one\n")
    store = Store(":memory:")
    memory = Memory(
        "id", os.fsencode(tmp_path), store=store, changes=None, watch=None, inline_bytes_max=None
    )
    notes = Notes(memory)
    text = b"2026-01-02: a title\n  - files: a.py\n"
    keys = [f"area/note-{number}" for number in range(3 * FILLED_AT_ONCE)]

    with notes.learning():
        for key in keys:
            notes.learn(key, text)
        meanwhile = set(memory.to_base)
    [source] = memory.ground.held()
    now = memory.ground.look(source)
    versions = {
        known.entry.versions[0].id: (name, {source: now})
        for name, known in memory.all_known().items()
    }
    memory.based(versions)
    is_behind = memory.is_behind
    await memory.catch_up()

    assert meanwhile == set()
    assert memory.to_base == {EntryName(Kind.NOTE, key) for key in keys}
    assert is_behind
    assert not memory.is_behind
    assert all(k.judgement.verdict.value == "fresh" for k in memory.all_known().values())
