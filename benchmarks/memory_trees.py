"""What a memory tree of 10,000 notes in 500 directories costs (issue 4, "What must be shown" 5).

    python benchmarks/memory_trees.py [--quick] [--only NAME ...] [--json FILE]

A private daemon tends a made-up repository whose `memory/` nobody has indexed. Everything is
measured from outside: the index files say when they were written, git says what was modified, and
`POST /v1/memory/sync` says when nothing is left to write. Exits 1 when a budget is missed.
"""

import argparse
import itertools
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.asking import Asker, asked_us, lookup, request
from benchmarks.measure import (
    Row,
    as_json,
    cpu_ms,
    machine,
    on_cpu_us,
    peak_resident_kib,
    percentile,
    resident_kib,
    table,
    wait_for_quiet,
    wait_until,
    wake_ups,
)
from benchmarks.running import Daemon, git
from benchmarks.trees import (
    INDEX,
    NOTES,
    NoteTree,
    fill,
    indexed,
    indexes,
    make_notes,
    make_topics,
    make_tree,
    note_text,
    note_title,
    out_of_step,
    stamps,
)

# One lookup each millisecond, as in the other benchmarks: a client that never pauses would measure
# the scheduler of two cores.
ASK_EVERY_S: Final = 0.001

# How often a file that is waited for is looked at.
LOOK_EVERY_S: Final = 0.0005

# The settle time is 0.3 s; whatever takes thirty times as long as the budget is taken for stuck.
WAIT_S_MAX: Final = 150.0

# What a switch or a start sets going is over when nothing has woken for so long: the displaced
# version of an index is looked at for 2 s, a connection is kept for 10.
STILL_S: Final = 2.5


@dataclass(frozen=True, slots=True)
class Sizes:
    areas: int = 20  # directories of the tree's root
    topics: int = 24  # directories of each
    notes: int = 20  # of each directory
    sources: int = 200  # files of the repository that notes name
    entries: int = 1_000  # of another repository, which is asked about meanwhile
    new_notes: int = 200
    retitled: int = 200
    switched: int = 2_000  # notes that differ between two branches
    switches: int = 6
    starts: int = 5
    idle_asking_s: float = 2.0
    after_switch_s: float = 1.0
    idle_s: float = 5.0
    still_s: float = STILL_S
    quiet_wait_s: float = 3.0

    @property
    def directories(self) -> int:
        return self.areas * (1 + self.topics)

    @property
    def all_notes(self) -> int:
        return self.directories * self.notes


FULL: Final = Sizes()

# The same shape a tenth as large, for a look in between.
QUICK: Final = Sizes(
    areas=10,
    topics=4,
    entries=200,
    new_notes=20,
    retitled=20,
    switched=200,
    switches=2,
    starts=2,
    quiet_wait_s=0.5,
)

# For the tests: every line runs, no figure means anything.
TINY: Final = Sizes(
    areas=2,
    topics=1,
    notes=3,
    sources=4,
    entries=5,
    new_notes=1,
    retitled=1,
    switched=4,
    switches=1,
    starts=1,
    idle_asking_s=0.05,
    after_switch_s=0.05,
    idle_s=0.1,
    still_s=0.1,
    quiet_wait_s=0.0,
)


def wait_in_step(daemon: Daemon, root: Path) -> list[str]:
    """Return when every change is learnt and written; the indexes that were written for it."""
    return list(daemon.post("/v1/memory/sync", {"cwd": str(root)})["written"])


# -- measuring -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Bench:
    """What the groups share: a tree that a daemon has brought in step, asked about another."""

    base: Path
    sizes: Sizes
    tree: NoteTree
    asked_root: Path
    daemon: Daemon
    messages: Iterator[bytes] = field(default_factory=lambda: iter(()))

    def asked_while(self, going: Callable[[], bool]) -> list[float]:
        """How long lookups take (µs), one each millisecond."""
        asker = Asker(self.daemon.socket)  # a connection that says nothing for 2 s is closed
        took_us = []
        while going():
            took_us += asked_us(asker, [next(self.messages)])
            time.sleep(ASK_EVERY_S)
        asker.close()
        return took_us

    def asked_idle(self) -> list[float]:
        wait_for_quiet(self.sizes.quiet_wait_s)
        until_s = time.monotonic() + self.sizes.idle_asking_s
        return self.asked_while(lambda: time.monotonic() < until_s)


@contextmanager
def bench(base: Path, sizes: Sizes) -> Iterator[Bench]:
    """A daemon that tends a small cache, and a tree that it has not heard of."""
    asked = make_tree(base / "asked", 100)
    topics = make_topics(asked.files, sizes.entries)
    tree = make_notes(
        base / "tree", sizes.areas, sizes.topics, each=sizes.notes, sources=sizes.sources
    )
    with Daemon(base / "daemon") as daemon:
        fill(daemon, asked.root, topics)
        messages = itertools.cycle([lookup(asked.root, key) for key in topics])
        yield Bench(base, sizes, tree, asked.root, daemon, messages)


class Adding:
    """A request to tend `root`, whose answer is not waited for."""

    def __init__(self, path: Path, root: Path) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.connect(str(path))
        self._sock.sendall(request("POST", "/v1/repos", {"root": str(root)}))

    def is_answered(self) -> bool:
        readable, _, _ = select.select([self._sock], [], [], 0)
        return bool(readable)

    def close(self) -> None:
        self._sock.close()


def measure_first_sync(bench: Bench) -> list[Row]:
    """From the request to the last of all indexes, with questions meanwhile."""
    tree, daemon = bench.tree, bench.daemon
    idle_us = bench.asked_idle()
    before_kib, watches = resident_kib(daemon.pid), daemon.metrics()["amend_watches"]
    pending = [tree.root / name for name in indexes(tree)]
    cpu_before_ms = cpu_ms(daemon.pid)
    until_s = time.monotonic() + WAIT_S_MAX
    started_ns, wall_ns, answered_ns = time.perf_counter_ns(), time.time_ns(), 0
    adding = Adding(daemon.socket, tree.root)

    def going() -> bool:
        nonlocal answered_ns
        if not answered_ns and adding.is_answered():
            answered_ns = time.perf_counter_ns()
        while pending and pending[-1].exists():
            pending.pop()
        if time.monotonic() > until_s:
            raise RuntimeError(f"{len(pending)} indexes did not come")
        return bool(pending) or not answered_ns

    during_us = bench.asked_while(going)
    adding.close()
    wait_in_step(daemon, tree.root)
    took_s = (max(at_ns for _, at_ns in stamps(tree).values()) - wall_ns) / 1e9
    if wrong := out_of_step(tree):
        raise RuntimeError(f"{len(wrong)} indexes are wrong, one in {wrong[0]}")
    daemon.sync()
    cpu_s = (cpu_ms(daemon.pid) - cpu_before_ms) / 1e3
    each = bench.sizes.all_notes
    return [
        Row(
            f"{each:,} notes in {bench.sizes.directories:,} directories: first sync",
            took_s,
            "s",
            value_max=5.0,
            note="from the request to the last index's ctime, settle time included",
        ),
        Row("  until the request was answered", (answered_ns - started_ns) / 1e6, "ms"),
        Row("  CPU of the daemon, git's answers about baselines included", cpu_s, "s"),
        *_asked_rows("  ", idle_us, during_us),
        Row("  watches more", daemon.metrics()["amend_watches"] - watches, ""),
        Row(
            "  resident memory more, a note",
            (resident_kib(daemon.pid) - before_kib) / each,
            "KiB",
            note=f"peak {peak_resident_kib(daemon.pid) / 1024:.1f} MiB",
        ),
    ]


def _asked_rows(indent: str, idle_us: list[float], during_us: list[float]) -> list[Row]:
    return [
        Row(
            f"{indent}lookup p99 meanwhile, floor: idle",
            percentile(during_us, 0.99),
            "µs",
            percentile(idle_us, 0.99),
            ratio_max=5.0,
            note=f"{len(during_us)} lookups, one each ms",
        ),
        Row(f"{indent}slowest lookup", max(during_us) / 1e3, "ms", value_max=50.0),
    ]


def measure_new_note(bench: Bench) -> list[Row]:
    tree, rng = bench.tree, random.Random(4)
    found = []
    for number in range(bench.sizes.new_notes):
        if number % 50 == 0:
            wait_for_quiet(bench.sizes.quiet_wait_s)
        directory = tree.directories[rng.randrange(len(tree.directories))]
        name = f"new-{number:04}.aicontext"
        text = note_text(tree, number).replace("2026-01", "2026-02")
        found.append(_until_line_ms(bench, directory, name, text, lambda said: said is not None))
    return _latency_rows("a new note → its index line", found)


def measure_title(bench: Bench) -> list[Row]:
    tree, rng = bench.tree, random.Random(5)
    found = []
    for number in range(bench.sizes.retitled):
        if number % 50 == 0:
            wait_for_quiet(bench.sizes.quiet_wait_s)
        at = rng.randrange(len(tree.notes))
        turn = 100 + number
        directory, _, name = tree.notes[at].rpartition("/")
        wanted = note_title(at, turn)
        text = note_text(tree, at, turn)
        found.append(_until_line_ms(bench, directory, name, text, lambda said, w=wanted: said == w))
    return _latency_rows("a title edited → its index line", found)


def _until_line_ms(
    bench: Bench, directory: str, name: str, text: str, is_there: Callable[[str | None], bool]
) -> float:
    """From the write() to the line on disk."""
    path = bench.tree.root / directory / name
    until_s = time.monotonic() + WAIT_S_MAX
    started_ns = time.perf_counter_ns()
    path.write_text(text)
    while not is_there(indexed(bench.tree, directory).get(name)):
        if time.monotonic() > until_s:
            raise RuntimeError(f"{directory}/{name} got no line that says what it should")
        time.sleep(LOOK_EVERY_S)
    return (time.perf_counter_ns() - started_ns) / 1e6


def _latency_rows(what: str, took_ms: list[float]) -> list[Row]:
    note = f"{len(took_ms)} times, settle time included; slowest {max(took_ms):.0f} ms"
    return [
        Row(f"{what}, p50", percentile(took_ms, 0.5), "ms", value_max=400.0, note=note),
        Row("  p99", percentile(took_ms, 0.99), "ms", value_max=400.0),
    ]


def measure_switch(bench: Bench) -> list[Row]:
    """Between branches that are in step, then to one whose indexes nobody has kept."""
    tree, daemon, sizes = bench.tree, bench.daemon, bench.sizes
    _commit(tree, "in step")
    changed = random.Random(6).sample(range(len(tree.notes)), sizes.switched)
    stale_indexes = {f"{tree.notes[n].rpartition('/')[0]}/{INDEX}" for n in changed}
    git(tree.root, "switch", "-q", "-c", "other")
    for number in changed:
        (tree.root / tree.notes[number]).write_text(note_text(tree, number, turn=1))
    _commit(tree, "notes alone", NOTES, f":!*{INDEX}")
    git(tree.root, "branch", "unkept")
    wait_in_step(daemon, tree.root)
    _commit(tree, "and their indexes")
    branches = itertools.cycle(("main", "other"))
    learnt_ms, modified, idle_us, during_us = [], 0, list[float](), list[float]()
    for _ in range(sizes.switches):
        daemon.sync()
        idle_us += bench.asked_idle()
        pid = _switch(tree.root, next(branches))
        ended_ns = 0

        def going(pid: int = pid) -> bool:
            nonlocal ended_ns
            if not ended_ns and os.waitpid(pid, os.WNOHANG)[0] == pid:
                ended_ns = time.perf_counter_ns()
            # What the settle time lets wait comes after git's end.
            return not ended_ns or time.perf_counter_ns() < ended_ns + sizes.after_switch_s * 1e9

        during_us += bench.asked_while(going)
        modified += len(wait_in_step(daemon, tree.root)) + len(_modified(tree))
    for _ in range(sizes.switches):
        daemon.sync()
        wait_for_quiet(sizes.quiet_wait_s)
        os.waitpid(_switch(tree.root, next(branches)), 0)
        started_ns = time.perf_counter_ns()
        written = wait_in_step(daemon, tree.root)
        learnt_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        modified += len(written) + len(_modified(tree))
    kept = [
        Row(
            f"git switch of {sizes.switched:,} notes, both in step: files modified",
            float(modified),
            "",
            value_max=0.0,
            note=f"in {2 * sizes.switches} switches",
        ),
        Row(
            "  asked at git's end: until every note is learnt, median",
            percentile(learnt_ms, 0.5),
            "ms",
            note=f"slowest {max(learnt_ms):.0f} ms",
        ),
        *_asked_rows("  ", idle_us, during_us),
    ]
    return [*kept, *_to_unkept(bench, stale_indexes)]


def _to_unkept(bench: Bench, stale_indexes: set[str]) -> list[Row]:
    tree, daemon, sizes = bench.tree, bench.daemon, bench.sizes
    took_ms = []
    for _ in range(sizes.switches):
        git(tree.root, "switch", "-q", "main")
        wait_in_step(daemon, tree.root)
        wait_for_quiet(sizes.quiet_wait_s)
        os.waitpid(_switch(tree.root, "unkept"), 0)
        ended_ns = time.time_ns()
        wait_until(lambda: _modified(tree) == stale_indexes, "every index is right", WAIT_S_MAX)
        wait_in_step(daemon, tree.root)
        last_ns = max((tree.root / name).stat().st_ctime_ns for name in stale_indexes)
        took_ms.append((last_ns - ended_ns) / 1e6)
        if _modified(tree) != stale_indexes:
            raise RuntimeError("an index was written that was right")
        git(tree.root, "checkout", "-q", "--", NOTES)
        git(tree.root, "switch", "-q", "main")
        wait_in_step(daemon, tree.root)
    return [
        Row(
            f"git switch to {len(stale_indexes):,} indexes out of step: git's end → all right",
            percentile(took_ms, 0.5),
            "ms",
            note=f"median of {len(took_ms)}, settle time included; slowest {max(took_ms):.0f} ms",
        ),
    ]


def _commit(tree: NoteTree, message: str, *paths: str) -> None:
    git(tree.root, "add", "-A", "--", *(paths or (".",)))
    git(tree.root, "commit", "-q", "-m", message)


def _modified(tree: NoteTree) -> set[str]:
    # Without the lock that refreshing git's index takes: amend waits while there is one.
    said = git(tree.root, "--no-optional-locks", "status", "--porcelain", "-uall")
    return {line[3:] for line in said.splitlines()}


def _switch(root: Path, branch: str) -> int:
    command = ["git", "-C", str(root), "-c", "core.hooksPath=/dev/null", "switch", "-q", branch]
    return os.posix_spawnp("git", command, os.environ)


def measure_restart(bench: Bench) -> list[Row]:
    """Starts with everything in step, and with the notes beside them taken away."""
    tree, daemon, sizes = bench.tree, bench.daemon, bench.sizes
    wait_in_step(daemon, tree.root)
    before, modified = stamps(tree), _modified(tree)
    ready_ms, verified_ms, resident = [], [], []
    for _ in range(sizes.starts):
        daemon.stop()
        wait_for_quiet(sizes.quiet_wait_s)
        started_ns = time.perf_counter_ns()
        daemon.start()
        ready_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        written = wait_in_step(daemon, tree.root)
        verified_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        if written or stamps(tree) != before or _modified(tree) != modified:
            raise RuntimeError(f"a restart wrote {written or 'something'}")
        daemon.sync()
        resident.append(resident_kib(daemon.pid))
    bare_ms, bare_kib = _started_without(bench)
    return [
        Row(
            "restart, everything in step: start to ready, floor: without the tree",
            percentile(ready_ms, 0.5),
            "ms",
            bare_ms,
            note="nothing was written",
        ),
        Row("  until the whole tree is verified", percentile(verified_ms, 0.5), "ms", bare_ms),
        Row(
            "  resident memory, floor: without the tree",
            percentile(resident, 0.5) / 1024,
            "MiB",
            bare_kib / 1024,
        ),
        Row(
            "  … a note",
            (percentile(resident, 0.5) - bare_kib) / sizes.all_notes,
            "KiB",
            note="an entry may cost 1.5 (DESIGN section 11); the rest is the tree and its watches",
        ),
    ]


def _started_without(bench: Bench) -> tuple[float, float]:
    """Start to ready (ms) and resident memory (KiB) of a daemon that tends the cache alone."""
    took_ms, resident = [], []
    base = bench.base / "without"
    with Daemon(base) as daemon:
        daemon.add(bench.asked_root)
        daemon.sync()
    for _ in range(bench.sizes.starts):
        wait_for_quiet(bench.sizes.quiet_wait_s)
        started_ns = time.perf_counter_ns()
        with Daemon(base) as daemon:
            took_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
            daemon.sync()
            resident.append(resident_kib(daemon.pid))
    return percentile(took_ms, 0.5), percentile(resident, 0.5)


def measure_idle(bench: Bench) -> list[Row]:
    daemon, sizes = bench.daemon, bench.sizes
    wait_in_step(daemon, bench.tree.root)
    daemon.sync()
    _until_still(daemon.pid, sizes.still_s)
    woken, cpu_us = wake_ups(daemon.pid), on_cpu_us(daemon.pid)
    time.sleep(sizes.idle_s)
    woken, cpu_us = wake_ups(daemon.pid) - woken, on_cpu_us(daemon.pid) - cpu_us
    note = "one is the look at the socket, each 10 s; no wake-up, no stat"
    return [
        Row(f"wake-ups in {sizes.idle_s:g} idle s", woken, "", value_max=1.0, note=note),
        Row("  CPU", cpu_us, "µs"),
        Row("  watches", daemon.metrics()["amend_watches"], ""),
    ]


def _until_still(pid: int, still_s: float) -> None:
    seen, since_s = wake_ups(pid), time.monotonic()

    def still() -> bool:
        nonlocal seen, since_s
        now = wake_ups(pid)
        if now != seen:
            seen, since_s = now, time.monotonic()
        return time.monotonic() - since_s >= still_s

    wait_until(still, "the daemon is still", WAIT_S_MAX)


GROUPS: Final[dict[str, Callable[[Bench], list[Row]]]] = {
    "idle": measure_idle,
    "restart": measure_restart,
    "new": measure_new_note,
    "title": measure_title,
    "switch": measure_switch,
}


def measure(names: Sequence[str], sizes: Sizes) -> dict[str, list[Row]]:
    """The first sync, which the others need, and the groups that are named."""
    with (
        tempfile.TemporaryDirectory(prefix="am-bench-") as directory,
        bench(Path(directory).resolve(), sizes) as made,
    ):
        found = {"first": measure_first_sync(made)}
        for name in names:
            started_s = time.monotonic()
            found[name] = GROUPS[name](made)
            took_s, load = time.monotonic() - started_s, os.getloadavg()[0]
            print(f"{name}: {took_s:.0f} s, load then {load:.1f}", file=sys.stderr)
    return found


def main(arguments: Sequence[str] | None = None, sizes: Sizes | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tree a tenth as large")
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    chosen = parser.parse_args(arguments)
    facts = machine(Path(tempfile.gettempdir()))
    print("  ".join(f"{name} {value}" for name, value in facts.items()) + "\n", flush=True)
    groups = measure(chosen.only, sizes or (QUICK if chosen.quick else FULL))
    rows = [row for each in groups.values() for row in each]
    print(table(rows))
    missed = [row for row in rows if row.within is False]
    held = sum(row.within is True for row in rows)
    print(f"\n{held} budgets held, {len(missed)} missed")
    if chosen.json is not None:
        chosen.json.write_text(as_json(facts, groups))
    return 1 if missed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the daemon must not outlive it
    sys.exit(main())
