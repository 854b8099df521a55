"""What amend costs: its start, its memory, its watches, a durable save, and doing nothing."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from benchmarks.asking import Asker, request
from benchmarks.measure import (
    Row,
    peak_resident_kib,
    percentile,
    resident_kib,
    timed_us,
    wait_for_quiet,
    wait_until,
    wake_ups,
    whole_process_ms,
)
from benchmarks.running import Daemon
from benchmarks.sizes import Sizes
from benchmarks.trees import (
    CACHE_FILE,
    add_irrelevant,
    fill,
    make_topics,
    make_tree,
    topic,
)

# Everything that a change starts is over by then: the cache file's second of quiet, the store's
# 0.2 s, a connection's 10 s.
SETTLED_S: Final = 1.5
SETTLING_S_MAX: Final = 30.0

# A hundred times the budget of a start; whatever takes longer is taken for stuck.
START_S_MAX: Final = 500.0

# How the daemon's interpreter comes to have what it has; amend's own modules are not its libraries.
_LIBRARIES: Final = """
import sys
before = set(sys.modules)
import amend.cli.main, amend.daemon.run
own = set(sys.stdlib_module_names) | {"amend"}
print(",".join(n for n in sys.modules if n not in before and n.partition(".")[0] not in own))
"""


# -- start ---------------------------------------------------------------------------------------


def measure_start(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", sizes.files)
    topics = make_topics(tree.files, sizes.entries_started)
    with Daemon(base / "warm") as daemon:
        fill(daemon, tree.root, topics)
        imports, env = _import_command(daemon.env), daemon.env
    times: dict[str, list[float]] = {"warm": [], "cold": [], "settled": [], "imports": []}
    for number in range(sizes.starts):
        wait_for_quiet(sizes.quiet_wait_s)
        times["imports"].append(whole_process_ms(imports, env))
        times["warm"].append(_start_ms(base / "warm")[0])
        ready_ms, settled_ms = _start_ms(base / f"cold{number}", _config(tree.root))
        times["cold"].append(ready_ms)
        times["settled"].append(settled_ms)
    floor = statistics.median(times["imports"])
    entries = f"{sizes.entries_started:,} entries"
    rows = [
        Row(
            f"start to ready, {entries}, floor: importing its libraries",
            statistics.median(times["warm"]),
            "ms",
            floor,
            ratio_max=2.0,
        ),
        Row(
            "  without a store, from the cache file",
            statistics.median(times["cold"]),
            "ms",
            floor,
            ratio_max=2.0,
        ),
        Row("  … until git has given every baseline", statistics.median(times["settled"]), "ms"),
    ]
    if sizes.entries_many:
        rows += _start_with_many(base, tree.root, tree.files, sizes.entries_many)
    return rows


def _start_with_many(base: Path, root: Path, files: list[str], entries: int) -> list[Row]:
    (root / CACHE_FILE).unlink()
    with Daemon(base / "many") as daemon:
        fill(daemon, root, make_topics(files, entries), wait_s=START_S_MAX)
    took_ms, _ = _start_ms(base / "many", settled=False)
    return [Row(f"start to ready, {entries:,} entries", took_ms / 1e3, "s", value_max=5.0)]


def _start_ms(base: Path, config: str = "", *, settled: bool = True) -> tuple[float, float]:
    """From spawning to the first ready answer, and until nothing is left to be asked of git."""
    started_ns = time.perf_counter_ns()
    daemon = Daemon(base, config)
    try:
        daemon.start(START_S_MAX)  # a slow start is a figure, not an error
        ready_ns = time.perf_counter_ns()
        if settled:
            daemon.sync()
        settled_ns = time.perf_counter_ns()
    finally:
        daemon.close()
    return (ready_ns - started_ns) / 1e6, (settled_ns - started_ns) / 1e6


def _config(root: Path) -> str:
    return f'[[repo]]\nroot = "{root}"\n'


def _import_command(env: dict[str, str]) -> list[str]:
    """The interpreter importing every library module that the daemon imports, and nothing else."""
    found = subprocess.run(
        [sys.executable, "-c", _LIBRARIES],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    # Some are made while others are imported and have no file of their own.
    names = [name for name in found.stdout.strip().split(",") if name]
    program = "import contextlib\nfrom importlib import import_module\n"
    program += f"for name in {names!r}:\n"
    program += " with contextlib.suppress(ImportError): import_module(name)\n"
    return [sys.executable, "-c", program]


# -- memory --------------------------------------------------------------------------------------


def measure_memory(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", sizes.files)
    rows, resident = [], {}
    for entries in sizes.entries_held:
        with Daemon(base / f"with{entries}") as first:
            (tree.root / CACHE_FILE).unlink(missing_ok=True)
            fill(first, tree.root, make_topics(tree.files, entries))
        with Daemon(base / f"with{entries}") as daemon:
            daemon.sync()
            resident[entries] = resident_kib(daemon.pid)
            peak = peak_resident_kib(daemon.pid) / 1024
            named = "entry" if entries == 1 else "entries"
            limit = 60.0 if entries == sizes.entries_held[1] else None
            rows.append(
                Row(
                    f"resident memory, {entries:,} {named}",
                    resident[entries] / 1024,
                    "MiB",
                    value_max=limit,
                    note=f"peak {peak:.1f} MiB",
                )
            )
    _, some, many = sizes.entries_held
    each_kib = (resident[many] - resident[some]) / (many - some)
    what = f"  an entry more, from {some:,} to {many:,}"
    rows.append(Row(what, max(each_kib, 0.0), "KiB", value_max=1.5))
    return rows


# -- irrelevant files ----------------------------------------------------------------------------


def measure_tree(base: Path, sizes: Sizes) -> list[Row]:
    """The same cache in a small tree and in a large one, started in turns."""
    found: dict[int, dict[str, list[float]]] = {}
    cited = min(sizes.files, 1_000)
    for files in sizes.irrelevant:
        tree = make_tree(base / f"tree{files}", cited)
        add_irrelevant(tree, files)
        with Daemon(base / f"beside{files}") as daemon:
            fill(daemon, tree.root, make_topics(tree.files, sizes.entries_started))
        found[files] = {"start": [], "watches": [], "resident": []}
    for _ in range(sizes.starts):
        wait_for_quiet(sizes.quiet_wait_s)
        for files, figures in found.items():
            started_ns = time.perf_counter_ns()
            with Daemon(base / f"beside{files}") as daemon:
                figures["start"].append((time.perf_counter_ns() - started_ns) / 1e6)
                daemon.sync()
                figures["watches"].append(daemon.metrics()["amend_watches"])
                figures["resident"].append(resident_kib(daemon.pid) / 1024)
    few, many = (
        {name: statistics.median(values) for name, values in found[files].items()}
        for files in sizes.irrelevant
    )
    small, large = sizes.irrelevant
    what = f"{large:,} irrelevant files, floor: {small:,}"
    return [
        Row(f"{what}: start", many["start"], "ms", few["start"], ratio_max=1.2),
        Row("  watches", many["watches"], "", few["watches"], ratio_max=1.0),
        Row("  resident memory", many["resident"], "MiB", few["resident"], ratio_max=1.2),
    ]


# -- a durable save ------------------------------------------------------------------------------


def measure_save(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", sizes.files)
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, make_topics(tree.files, sizes.entries_started))
        asker = Asker(daemon.socket)
        plain = os.open(daemon.base / "state" / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        page = b"x" * 1024
        puts_us, floors_us = [], []
        for number in range(sizes.puts):
            files = tree.files[number % len(tree.files) :][:4]
            body = {name: value for name, value in topic(files, number).items() if name != "ts"}
            target = f"/v1/entries/topic/saved-{number}?cwd={quote(str(tree.root))}"
            message = request("PUT", target, body)
            puts_us.append(timed_us(lambda m=message: _accepted(asker, m)))  # type: ignore[misc]
            floors_us.append(timed_us(lambda: (os.write(plain, page), os.fsync(plain))))
        os.close(plain)
        asker.close()
    return [
        Row(
            "durable save (PUT), p99, floor: 1 KB write + fsync",
            percentile(puts_us, 0.99),
            "µs",
            percentile(floors_us, 0.99),
            ratio_max=4.0,
        ),
        Row("  p50", percentile(puts_us, 0.5), "µs", percentile(floors_us, 0.5)),
    ]


def _accepted(asker: Asker, message: bytes) -> None:
    answer = asker.ask(message)
    if not answer.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(f"the save was refused: {answer!r}")


# -- idle ----------------------------------------------------------------------------------------


def measure_idle(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", min(sizes.files, 1_000))
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, make_topics(tree.files, sizes.entries_started))
    with Daemon(base / "daemon") as daemon:
        daemon.sync()
        _until_still(daemon.pid, min(SETTLED_S, sizes.idle_s))
        before = wake_ups(daemon.pid)
        time.sleep(sizes.idle_s)
        woke = wake_ups(daemon.pid) - before
    note = "one is the look at the socket, each 10 s"
    return [Row(f"wake-ups in {sizes.idle_s:g} idle s", woke, "", value_max=1.0, note=note)]


def _until_still(pid: int, still_s: float) -> None:
    """Return when the process has not woken for `still_s`."""
    seen, since_s = wake_ups(pid), time.monotonic()

    def still() -> bool:
        nonlocal seen, since_s
        now = wake_ups(pid)
        if now != seen:
            seen, since_s = now, time.monotonic()
        return time.monotonic() - since_s >= still_s

    wait_until(still, "the daemon is still", SETTLING_S_MAX)
