"""An agent that writes a memory tree without a pause, and an amend that settles after nothing.

The writer makes notes and edits their index by reading, thinking and writing it whole:

    rename   writes another file and renames it over
    inplace  opens with truncation and writes two halves

amend keeps the tree in step in another process, by a real watch, and a third one reads all the
time. Every line and comment of the writer's carries a checksum. Run by hand:

    python -m tests.integration.memory_tree_stress DIRECTORY MODE WRITES [KILL_EVERY_S] [SEED]
"""

import asyncio
import json
import os
import random
import re
import resource
import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from amend.daemon import line_file, memory_tree, tree_indexes
from amend.daemon.line_file import LineFile
from amend.daemon.memory_tree import MemoryTree, TreeKey
from amend.edge.files import shared
from amend.edge.files.exchange import FileDoor
from amend.edge.files.shared import SharedFile
from amend.edge.store import Store
from amend.edge.watch.interface import Key
from amend.edge.watch.watcher import Watcher
from tests.integration.stress_processes import result_of, start_process

_start = partial(start_process, "memory_tree_stress")

MODES: Final = ("rename", "inplace")
INDEX: Final = "index.aicontext"

# Half a file of lines is a file of lines: in place it must have been quiet for as long as amend's
# own pause, which no writer's stall on a busy machine reaches.
QUIET_S: Final = {"rename": 0.0, "inplace": tree_indexes.QUIET_S}

# So many writes go into one directory: small files make many writes.
BATCH: Final = 100

# Writers have nothing to say after it, so a file without it is not whole.
END: Final = "# end"

# More pressure than amend allows itself: a displaced file is watched for 2 s.
DISPLACED_MAX: Final = 512

_SAID: Final = re.compile(r"(?:file: (\S+) \| |# )((?:by hand|title|comment) \d+) ([0-9a-f]{8})")
_OTHER: Final = re.compile(r"# \w+/ - \w+|dir: b\d+/ \| b\d+|# end|")


def said(words: str) -> str:
    """The words with their checksum."""
    return f"{words} {zlib.crc32(words.encode()):08x}"


def is_whole(line: str) -> bool:
    """Whether it is a line that somebody wrote, to its last letter."""
    found = _SAID.fullmatch(line)
    return (
        _OTHER.fullmatch(line) is not None if found is None else found[0].endswith(said(found[2]))
    )


# -- whoever writes --------------------------------------------------------------------------------


@dataclass
class Wrote:
    """What the writer wrote into one directory, and did not take back."""

    notes: set[str] = field(default_factory=set)
    lines: dict[str, str] = field(default_factory=dict)  # of notes, by name
    comments: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)

    def wrong(self, text: str) -> list[str]:
        """What an index that says `text` lacks, or has twice."""
        lines = text.splitlines()
        there = Counter(lines)
        listed = Counter(line.split(" | ")[0] for line in lines if line.startswith("file: "))
        wrong = [f"{line!r} {there[line]} times" for line in self._wanted() if there[line] != 1]
        names = [f"file: {name}" for name in self.notes]
        wrong += [f"{name!r} {listed[name]} times" for name in names if listed[name] != 1]
        return wrong + [f"torn: {line!r}" for line in lines if not is_whole(line)]

    def _wanted(self) -> list[str]:
        return [*(f"file: {name} | {text}" for name, text in self.lines.items()), *self.comments]


class Writer:
    """An agent: reads, thinks, writes whole. It saw `torn` files that it had not written."""

    def __init__(self, tree: Path, mode: str, seed: int) -> None:
        self.torn = 0
        self.back = 0  # comments that are there though they were removed
        self._tree = tree
        self._mode = mode
        self._chance = random.Random(seed)
        self._number = 0

    def live(self, writes: int) -> list[str]:
        """Write so often; returns what was lost, and what was found twice."""
        wrong: list[str] = []
        wrote: list[tuple[Path, Wrote]] = []
        while self._number < writes:
            directory = self._tree / f"b{len(wrote)}"
            directory.mkdir()
            wrote.append((directory / INDEX, Wrote()))
            while self._number < writes and len(wrote[-1][1].notes) < BATCH // 2:
                self._change(*wrote[-1])
            wrong += self._wrong_at_last(*wrote[-1])
        for index, each in wrote:
            wrong += [f"at the end: {one}" for one in self._wrong_at_last(index, each)]
            self.back += sum(line in each.removed for line in index.read_text().splitlines())
        return wrong

    def _change(self, index: Path, wrote: Wrote) -> None:
        self._number += 1
        choice = self._chance.random()
        if choice < 0.5 or not wrote.notes:
            name = f"n{self._chance.randrange(10**6)}.aicontext"
            wrote.notes.add(name)
            title = said(f"title {self._number}")
            (index.parent / name).write_text(f"2026-04-10: {title}\n  - a bullet\n")
            if choice < 0.25:
                self._describe(index, wrote, name)
        elif choice < 0.75:
            self._describe(index, wrote, self._chance.choice(sorted(wrote.notes)))
        elif choice < 0.93 or not wrote.comments:
            wrote.comments.append(f"# {said(f'comment {self._number}')}")
            self._edit(index, lambda lines: lines.insert(1, wrote.comments[-1]))
        else:
            gone = wrote.comments.pop(self._chance.randrange(len(wrote.comments)))
            wrote.removed.add(gone)
            self._edit(index, lambda lines: lines.remove(gone) if gone in lines else None)
        # Mostly in haste; now and then so long that amend writes just when the pause is over.
        if self._chance.random() < 0.05:
            time.sleep(QUIET_S[self._mode])
            self._think(0.03)
        self._think(0.002)

    def _describe(self, index: Path, wrote: Wrote, name: str) -> None:
        wrote.lines[name] = said(f"by hand {self._number}")

        def edit(lines: list[str]) -> None:
            line = f"file: {name} | {wrote.lines[name]}"
            places = [at for at, each in enumerate(lines) if each.startswith(f"file: {name} |")]
            for at in places[:1]:
                lines[at] = line
            if not places:
                lines.insert(len(lines) - 1, line)

        self._edit(index, edit)

    def _edit(self, index: Path, edit: Callable[[list[str]], Any]) -> None:
        lines = index.read_text().splitlines() if index.exists() else ["# memory/ - written", ""]
        if END not in lines:
            # Until there is a first line of its kind, amend lists files at the end.
            if any(_SAID.fullmatch(line) and line.startswith("#") for line in lines):
                self.torn += 1
            lines.append(END)
        edit(lines)
        data = "".join(f"{line}\n" for line in lines).encode()
        self._think(0.001)
        if self._mode == "rename":
            beside = index.with_name(".saving")
            beside.write_bytes(data)
            beside.rename(index)
            return
        fd = os.open(index, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        os.write(fd, data[: len(data) // 2])
        if self._chance.random() < 0.3:
            self._think(0.001)
        os.write(fd, data[len(data) // 2 :])
        os.close(fd)

    def _wrong_at_last(self, index: Path, wrote: Wrote) -> list[str]:
        """What is on its way has some time for it, as amend may be dead just now."""
        deadline_s = time.monotonic() + 20.0
        while True:
            wrong = wrote.wrong(index.read_text() if index.exists() else "")
            if not wrong or time.monotonic() > deadline_s:
                return [f"{index.parent.name}: {one}" for one in wrong]
            time.sleep(0.005)

    def _think(self, s_max: float) -> None:
        time.sleep(self._chance.random() * s_max)


def be_reader(directory: Path) -> dict[str, int]:
    """Read all indexes until `stop` is there. `torn`: lines that nobody wrote so; `cut`: files
    without the end that they had before; `missing`: none, where there was one before."""
    counts = dict.fromkeys(("reads", "torn", "cut", "missing"), 0)
    ended: set[Path] = set()
    known: set[Path] = set()
    while not (directory / "stop").exists():
        for path in sorted((directory / "repo/memory").glob(f"*/{INDEX}"))[-2:]:
            try:
                text = path.read_text()
            except FileNotFoundError:
                counts["missing"] += path in known
                continue
            known.add(path)
            counts["reads"] += 1
            lines = text.splitlines()
            counts["torn"] += any(not is_whole(line) for line in lines)
            counts["cut"] += path in ended and END not in lines
            ended |= {path} if END in lines else set()
        time.sleep(0.001)
    return counts


# -- amend -----------------------------------------------------------------------------------------


def be_amend(directory: Path, mode: str) -> dict[str, Any]:
    """Keep the tree in step until `stop` is there, then come to rest."""
    chance = random.Random(os.getpid())

    def dawdle(step: str) -> None:
        if step in ("exchanging", "exchanged", "hidden") and chance.random() < 0.3:
            time.sleep(chance.random() * 0.002)

    hurry(quiet_s=QUIET_S[mode], at=dawdle)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return asyncio.run(_keep_in_step(directory))


def hurry(*, quiet_s: float, at: Callable[[str], None]) -> None:
    """Let this process wait for nothing. `at` is told the steps of each write."""
    memory_tree.SETTLE_S = 0.002  # type: ignore[misc]
    memory_tree.SETTLE_S_MAX = 0.01  # type: ignore[misc]
    tree_indexes.QUIET_S = quiet_s  # type: ignore[misc]
    shared.DISPLACED_MAX = DISPLACED_MAX  # type: ignore[misc]
    os.fsync = lambda fd: None  # no power fails here, and amend writes ten times as often

    def shared_file(root: bytes, path: bytes, **more: Any) -> SharedFile:
        door = FileDoor(root, path, more["retain_dir"], at=at)
        return SharedFile(root, path, door=door, **more)

    line_file.SharedFile = shared_file  # type: ignore[misc,assignment]


def open_tree(base: Path, root: Path, watch: Watcher | None, store: Store) -> MemoryTree:
    return MemoryTree(
        os.fsencode(root),
        b"memory",
        places=None,
        store=store,
        watch=watch,
        retain_dir=os.fsencode(base / "retained"),
    )


def touched(keys: set[Key]) -> None:
    for key in keys:
        assert isinstance(key, TreeKey)
        key.tree.touched(key.directory)


async def _keep_in_step(directory: Path) -> dict[str, Any]:
    files: list[LineFile] = []

    class Counted(LineFile):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            files.append(self)

    tree_indexes.LineFile = Counted  # type: ignore[misc]
    failures: list[str] = []
    store, watch = Store(directory / "store.db"), Watcher()
    watch.add_root(os.fsencode(directory / "repo"))
    tree = open_tree(directory, directory / "repo", watch, store)
    tree.on_failed = lambda root, error: failures.append(repr(error))
    watch.start(asyncio.get_running_loop(), touched)
    tree.start(asyncio.get_running_loop())
    while not (directory / "stop").exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.01)
    until_s = time.monotonic() + 30.0
    while not (tree.is_settled and all(file.is_idle and file.is_written for file in files)):
        assert time.monotonic() < until_s, "amend does not come to rest"
        await asyncio.sleep(0.02)
    names = ("writes", "conflicts", "recovered", "reasserted", "unmerged")
    counts: dict[str, Any] = {
        name: sum(getattr(file.shared, name) for file in files) for name in names
    }
    counts["failures"] = failures
    counts["problems"] = tree.problems()
    tree.stop()
    watch.close()
    store.close()
    return counts


def be_killed(directory: Path, step: str) -> None:
    """Write the tree's index, in which somebody writes at the last moment, and die at `step`."""
    index = directory / "repo/memory" / INDEX

    def at(now: str) -> None:
        if now == "exchanging":
            with open(index, "a", encoding="utf-8") as file:
                file.write("# in between\n")
        if now == step:
            os._exit(0)

    hurry(quiet_s=0.0, at=at)
    store = Store(directory / "store.db")
    asyncio.run(_synced(open_tree(directory, directory / "repo", None, store)))
    raise AssertionError("it was not killed")


async def _synced(tree: MemoryTree) -> None:
    await tree.sync()


# -- a round ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong`: what the writer found wrong; the rest are the counts of each process."""

    wrong: list[str]
    writer: dict[str, int]
    reader: dict[str, int]
    amend: dict[str, Any]
    beside: list[str]  # names left in the user's directories


def run(
    directory: Path,
    mode: str,
    writes: int,
    *,
    seed: int = 0,
    kill_every_s: float | None = None,
    timeout_s: float = 110.0,
) -> Outcome:
    """One round. `kill_every_s`: amend is killed that often, on average, and started again."""
    chance = random.Random(seed)
    tree = directory / "repo/memory"
    tree.mkdir(parents=True)
    (tree / INDEX).write_text("# memory/ - all\n")
    amend = _start("amend", str(directory), mode)
    reader = _start("reader", str(directory))
    writer = _start("writer", str(directory), mode, str(writes), str(seed))
    deadline_s = time.monotonic() + timeout_s
    try:
        while writer.poll() is None:
            assert time.monotonic() < deadline_s, "the writer does not come to an end"
            if kill_every_s is None:
                time.sleep(0.02)
                continue
            time.sleep(chance.random() * 2 * kill_every_s)
            amend.send_signal(signal.SIGKILL)
            amend.communicate()
            amend = _start("amend", str(directory), mode)
        (directory / "stop").touch()
        wrote = json.loads(result_of(writer, deadline_s))
        read = json.loads(result_of(reader, deadline_s))
        counts = json.loads(result_of(amend, deadline_s))
    finally:
        for process in (amend, reader, writer):
            if process.poll() is None:
                process.kill()
            process.communicate()
    beside = sorted(path.name for path in tree.rglob("*") if ".amend-" in path.name)
    return Outcome(wrote.pop("wrong"), wrote, read, counts, beside)


def _main(words: list[str]) -> None:
    if words[0] == "amend":
        print(json.dumps(be_amend(Path(words[1]), words[2])))
    elif words[0] == "killed":
        be_killed(Path(words[1]), words[2])
    elif words[0] == "reader":
        print(json.dumps(be_reader(Path(words[1]))))
    elif words[0] == "writer":
        directory, mode, writes, seed = words[1:]
        writer = Writer(Path(directory) / "repo/memory", mode, int(seed))
        wrong = writer.live(int(writes))
        print(json.dumps({"wrong": wrong, "torn": writer.torn, "back": writer.back}))
    else:
        place, mode, count, kill_every_s, seed = (*words, "0", "0")[:5]
        outcome = run(
            Path(place),
            mode,
            int(count),
            kill_every_s=float(kill_every_s) or None,
            seed=int(seed),
            timeout_s=3000.0,
        )
        print(outcome)


if __name__ == "__main__":
    _main(sys.argv[1:])
