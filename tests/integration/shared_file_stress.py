"""Real writers against a real `SharedFile`, as hard as it gets: nobody pauses, nothing is quiet.

A writer process a mode adds one entry after another to a JSON file by reading, thinking and
writing it whole:

    rename   writes another file and renames it over
    inplace  opens with truncation and writes two halves
    compare  like inplace, but reads once more before and starts over if it changed

and one amend process marks every entry. No entry may be lost, and no reader may ever see a torn
file. Run by hand:

    python -m tests.integration.shared_file_stress DIRECTORY WRITES [KILL_EVERY_S] [SEED]
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from amend.edge.files import shared as shared_module
from amend.edge.files.exchange import FileDoor
from amend.edge.files.shared import SharedFile
from amend.errors import DocumentInvalid
from tests.integration.stress_processes import result_of, start_process

_start = partial(start_process, "shared_file_stress")

MODES: Final = ("rename", "inplace", "compare")

# A writer makes sure of so many entries, removes them and goes on: small files make many writes.
BATCH: Final = 100

# More pressure than amend allows itself: a displaced file is watched for 2 s.
DISPLACED_MAX: Final = 512

Document = dict[str, dict[str, Any]]


def parse(data: bytes | None) -> Document:
    try:
        value = orjson.loads(data) if data is not None else {}
    except ValueError as error:
        raise DocumentInvalid(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DocumentInvalid("not an object")
    return value


def dump(document: Document) -> bytes:
    return orjson.dumps(document)


def mark(present: bytes | None) -> bytes | None:
    """Every entry gets a mark; nothing where all have one."""
    if present is None:
        return None
    document = parse(present)
    marked = {key: entry | {"stale": True} for key, entry in document.items()}
    return dump(marked) if marked != document else None


def merge(base: bytes | None, theirs: bytes, onto: bytes) -> bytes:
    before, after, result = parse(base), parse(theirs), parse(onto)
    changed = [key for key in before | after if before.get(key) != after.get(key)]
    for key in changed:
        if key in after:
            result[key] = after[key]
        else:
            result.pop(key, None)
    return dump(result) if result != parse(onto) else onto


class Writer:
    """An agent: reads, thinks, writes. Counts how often it saw a torn or missing file."""

    def __init__(self, path: Path, mode: str, seed: int) -> None:
        self.torn = 0
        self._path = path
        self._mode = mode
        self._chance = random.Random(seed)

    def live(self, writes: int) -> list[str]:
        """Write so many entries; returns those that were lost."""
        lost: list[str] = []
        for start in range(0, writes, BATCH):
            batch = [f"k{n}" for n in range(start, min(start + BATCH, writes))]
            for key in batch:
                self._change({key: {"v": self._chance.randrange(10**6)}})
            lost += self._missing(batch)
            if batch[-1] != f"k{writes - 1}":
                self._change(None)
        return lost

    def _change(self, added: Document | None) -> None:
        """Add entries; None: remove all."""
        while True:
            read, document = self._read()
            data = dump({} if added is None else document | added)
            self._think(0.001)
            if self._mode == "compare" and self._path.read_bytes() != read:
                continue
            if self._mode == "rename":
                beside = self._path.with_suffix(".saving")
                beside.write_bytes(data)
                beside.rename(self._path)
            else:
                self._write_in_place(data)
            # Mostly in haste; now and then long enough for amend to get a write in.
            self._think(0.02 if self._chance.random() < 0.1 else 0.001)
            return

    def _read(self) -> tuple[bytes, Document]:
        while True:
            try:
                read = self._path.read_bytes()
                return read, parse(read)
            except (FileNotFoundError, DocumentInvalid):
                self.torn += 1
                self._think(0.001)

    def _write_in_place(self, data: bytes) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, data[: len(data) // 2])
        if self._chance.random() < 0.3:
            self._think(0.001)
        os.write(fd, data[len(data) // 2 :])
        os.close(fd)

    def _missing(self, keys: list[str]) -> list[str]:
        """Those that do not show up; one on its way back has some time for it, as amend may be
        dead just now."""
        deadline_s = time.monotonic() + 20.0
        while True:
            _, document = self._read()
            missing = [key for key in keys if key not in document]
            if not missing or time.monotonic() > deadline_s:
                return missing
            time.sleep(0.005)

    def _think(self, s_max: float) -> None:
        time.sleep(self._chance.random() * s_max)


def be_amend(directory: Path) -> list[dict[str, Any]]:
    """Mark all files in `directory` without a pause until `stop` is there, then come to rest."""
    shared_module.DISPLACED_MAX = DISPLACED_MAX  # type: ignore[misc]
    os.fsync = lambda fd: (
        None
    )  # no power fails here, and without it amend writes ten times as often
    chance = random.Random(os.getpid())

    def dawdle(step: str) -> None:
        if step in ("exchanging", "exchanged", "hidden") and chance.random() < 0.3:
            time.sleep(chance.random() * 0.001)

    retain_dir = os.fsencode(directory / "retained")
    files = [
        SharedFile(
            os.fsencode(directory),
            name,
            retain_dir=retain_dir,
            plan=mark,
            merge=merge,
            journal=lambda data: None,
            quiet_s=0.0,
            door=FileDoor(os.fsencode(directory), name, retain_dir, at=dawdle),
        )
        for name in [f"{mode}.json".encode() for mode in MODES]
        if (directory / os.fsdecode(name)).exists()
    ]
    for file in files:
        file.recover_leftovers()
    stop, stopping = directory / "stop", False
    while True:
        stopping = stopping or stop.exists()
        dues_s = []
        for file in files:
            file.noticed(time.monotonic())
            file.request(time.monotonic())
            dues_s.append(file.step(time.monotonic()))
        if stopping and all(due_s is None for due_s in dues_s):
            break
        time.sleep(0.02 if stopping else 0.0003)
    names = ("writes", "conflicts", "recovered", "reasserted", "unmerged", "blocked", "last_error")
    return [{name: getattr(file, name) for name in names} for file in files]


@dataclass(frozen=True, slots=True)
class Outcome:
    mode: str
    lost: list[str]
    torn: int
    unmarked: int
    beside: list[str]  # names left in the user's directory
    amend: dict[str, Any]


def run(
    directory: Path,
    writes: int,
    *,
    modes: tuple[str, ...] = MODES,
    seed: int = 0,
    kill_every_s: float | None = None,
    timeout_s: float = 100.0,
) -> list[Outcome]:
    """One round. `kill_every_s`: amend is killed that often, on average, and started again."""
    chance = random.Random(seed)
    for mode in modes:
        (directory / f"{mode}.json").write_bytes(b"{}")
    amend = _start("amend", str(directory))
    writers = [_start("writer", str(directory), m, str(writes), str(seed)) for m in modes]
    deadline_s = time.monotonic() + timeout_s
    try:
        while any(writer.poll() is None for writer in writers):
            assert time.monotonic() < deadline_s, "a writer does not come to an end"
            if kill_every_s is None:
                time.sleep(0.02)
                continue
            time.sleep(chance.random() * 2 * kill_every_s)
            amend.send_signal(signal.SIGKILL)
            amend.communicate()
            amend = _start("amend", str(directory))
        (directory / "stop").touch()
        stats = json.loads(result_of(amend, deadline_s))
        seen = [json.loads(result_of(writer, deadline_s)) for writer in writers]
    finally:
        for process in (amend, *writers):
            if process.poll() is None:
                process.kill()
            process.communicate()
    return [
        _outcome(directory, mode, writes, *each)
        for mode, *each in zip(modes, seen, stats, strict=True)
    ]


def _outcome(
    directory: Path, mode: str, writes: int, seen: dict[str, Any], counts: dict[str, Any]
) -> Outcome:
    final = parse((directory / f"{mode}.json").read_bytes())
    last = range((writes - 1) // BATCH * BATCH, writes)
    return Outcome(
        mode,
        lost=[*seen["lost"], *(f"k{n}" for n in last if f"k{n}" not in final)],
        torn=seen["torn"],
        unmarked=sum("stale" not in entry for entry in final.values()),
        beside=sorted(p.name for p in directory.iterdir() if ".amend-" in p.name),
        amend=counts,
    )


def _main(words: list[str]) -> None:
    if words[0] == "amend":
        print(json.dumps(be_amend(Path(words[1]))))
    elif words[0] == "writer":
        directory, mode, writes, seed = words[1:]
        path = Path(directory) / f"{mode}.json"
        writer = Writer(path, mode, int(seed))
        print(json.dumps({"lost": writer.live(int(writes)), "torn": writer.torn}))
    else:
        place, count, kill_every_s, seed = (*words, "0", "0")[:4]
        for outcome in run(
            Path(place), int(count), kill_every_s=float(kill_every_s) or None, seed=int(seed)
        ):
            print(outcome)


if __name__ == "__main__":
    _main(sys.argv[1:])
