"""How soon amend answers and marks: lookups, marks at a subscriber, both during a `git switch`."""

import itertools
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.asking import (
    Asker,
    EchoServer,
    Subscriber,
    asked_anew_us,
    asked_us,
    compiler,
    follow,
    lookup,
)
from benchmarks.measure import (
    Row,
    apart,
    cpu_ms,
    interleaved,
    on_cpu_us,
    percentile,
    process_rusage,
    skipped,
    wait_for_quiet,
    wait_until,
)
from benchmarks.running import Daemon, git
from benchmarks.sizes import Sizes
from benchmarks.trees import CACHE_FILE, fill, make_topics, make_tree, text, topic, write_files

# Agents ask now and then; a client that never pauses would measure the scheduler of two cores.
ASK_EVERY_S: Final = 0.001

# With 8 sources an entry, each cited file is cited twice.
CITED_AN_ENTRY: Final = 4

# A lone edit, not one of a burst: longer than amend gathers bursts for (5 ms).
EDIT_EVERY_S: Final = 0.02


# -- lookups -------------------------------------------------------------------------------------


def measure_lookup(base: Path, sizes: Sizes) -> list[Row]:
    what = f"lookup, {sizes.entries:,} entries of 8 sources"
    if not compiler():
        return [skipped(what, "there is no C compiler (cc), and so no floor")]
    tree = make_tree(base / "tree", sizes.files)
    topics = make_topics(tree.files, sizes.entries)
    keys = random.Random(2).choices(list(topics), k=sizes.asks)
    messages = [lookup(tree.root, key) for key in keys]
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, topics)
        mine = Asker(daemon.socket)
        answer = mine.ask(messages[0])
        if b'"verdict":"fresh"' not in answer:
            raise RuntimeError(f"the lookup was not fresh: {answer!r}")
        with EchoServer(answer) as echo, apart((daemon.pid, echo.pid)):
            floor = Asker(echo.socket)
            found, quiet = interleaved(
                sizes.rounds,
                {
                    "kept": lambda: asked_us(mine, messages),
                    "kept floor": lambda: asked_us(floor, messages),
                    "anew": lambda: asked_anew_us(daemon.socket, messages),
                    "anew floor": lambda: asked_anew_us(echo.socket, messages),
                },
                quiet_wait_s=sizes.quiet_wait_s,
            )
            mine_cpu_us = _cpu_each_us(daemon.pid, mine, messages)
            floor_cpu_us = _cpu_each_us(echo.pid, floor, messages)
            floor.close()
        mine.close()
    rows = []
    for name, label, ratio_max in (("kept", "keep-alive", 4.0), ("anew", "new connection", 5.0)):
        mine_us, floor_us = found[name], found[f"{name} floor"]
        told = f"floor's {floor_us.p99:.0f} µs; {quiet}"
        rows += [
            Row(f"{what}, {label}, p50", mine_us.p50, "µs", floor_us.p50, ratio_max=ratio_max),
            Row("  p99", mine_us.p99, "µs", value_max=1000.0, note=told),
        ]
    # What other processes do to the machine is not in this one.
    return [*rows, Row("  CPU of the server, each", mine_cpu_us, "µs", floor_cpu_us)]


def _cpu_each_us(pid: int, asker: Asker, messages: list[bytes]) -> float:
    before_us = on_cpu_us(pid)
    asked_us(asker, messages)
    return (on_cpu_us(pid) - before_us) / len(messages)


# -- marks ---------------------------------------------------------------------------------------


def measure_mark(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", sizes.files)
    cited = tree.files[: min(20, len(tree.files) // 2)]
    topics = make_topics(tree.files[len(cited) :], sizes.entries_marked, each=4)
    alone = {f"alone-{n}": topic([name], n) for n, name in enumerate(cited)}
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, {**topics, **alone})
        subscriber = Subscriber(daemon, tree.root)
        found: dict[str, list[float]] = {}
        for number in range(sizes.marks):
            if number % 50 == 0:
                wait_for_quiet(sizes.quiet_wait_s)
            key = f"alone-{number % len(cited)}"
            path = tree.root / cited[number % len(cited)]
            # Every second one as editors and agents save: truncated first, then written.
            save, way = ((_write, "write"), (_save, "save"))[number % 2]
            before = path.read_text()
            for turn, new in (("mark", text(path.name, number + 1)), ("back", before)):
                verdict = "stale" if turn == "mark" else "fresh"
                time.sleep(EDIT_EVERY_S)
                started_ns = save(path, new)
                told_ns = subscriber.wait_for(key, verdict)
                found.setdefault(f"{way} {turn}", []).append((told_ns - started_ns) / 1e6)
                if turn == "mark":  # git is asked who did it; its answer is not to disturb the next
                    daemon.sync()
        in_file = [_in_file_ms(daemon, tree.root, cited[n]) for n in range(sizes.in_file)]
        subscriber.close()
    rows = []
    for name, label in (
        ("write mark", "write() of a cited file → stale at a subscriber"),
        ("write back", "write() of the old bytes → fresh at a subscriber"),
        ("save mark", "truncate, write, close → stale"),
        ("save back", "truncate, write, close → fresh"),
    ):
        rows += [
            Row(f"{label}, p50", percentile(found[name], 0.5), "ms", value_max=1.0),
            Row("  p99", percentile(found[name], 0.99), "ms", value_max=5.0),
        ]
    if in_file:
        told = "at once, as the file had been quiet for the second that it must be"
        middle = statistics.median(in_file)
        rows.append(Row(f"write() → mark in {CACHE_FILE}, median", middle, "ms", note=told))
    return rows


def _write(path: Path, new: str) -> int:
    """One write() over the old bytes, and when it began."""
    descriptor = os.open(path, os.O_WRONLY)
    data = new.encode()
    started_ns = time.perf_counter_ns()
    os.write(descriptor, data)
    os.close(descriptor)
    return started_ns


def _save(path: Path, new: str) -> int:
    """A whole save, and when its write() began: what was true before is no mark of it."""
    data = new.encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    started_ns = time.perf_counter_ns()
    os.write(descriptor, data)
    os.close(descriptor)
    return started_ns


def _in_file_ms(daemon: Daemon, root: Path, name: str) -> float:
    path, cache = root / name, root / CACHE_FILE
    before = path.read_text()
    wait_until(lambda: '"stale"' not in cache.read_text(), "the cache file has no mark left")
    started_ns = _write(path, before.upper())
    wait_until(lambda: '"stale"' in cache.read_text(), "the mark is in the cache file")
    took_ms = (time.perf_counter_ns() - started_ns) / 1e6
    _write(path, before)
    daemon.sync()
    return took_ms


# -- git switch ----------------------------------------------------------------------------------


def measure_switch(base: Path, sizes: Sizes) -> list[Row]:
    tree = make_tree(base / "tree", sizes.switch_files)
    git(tree.root, "switch", "-q", "-c", "other")
    write_files(tree.root, tree.files, turn=1)
    git(tree.root, "commit", "-q", "-am", "each file")
    git(tree.root, "switch", "-q", "main")
    cited = random.Random(3).sample(tree.files, sizes.switch_cited)
    topics = make_topics(cited, sizes.switch_cited // CITED_AN_ENTRY)
    branches = itertools.cycle(("other", "main"))
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, topics)
        messages = [lookup(tree.root, key) for key in topics]
        asked = _asked_during(daemon, tree.root, branches, messages, sizes)
        last_ms = []
        for _ in range(sizes.switches):
            wait_for_quiet(sizes.quiet_wait_s)
            last_ms.append(_last_verdict_ms(daemon, tree.root, next(branches), list(topics)))
        cpu = _switch_cpu_ms(daemon, tree.root, branches, sizes.switches)
    what = f"git switch of {sizes.switch_files:,} files, {sizes.switch_cited:,} cited"
    what += f" by {len(topics)} entries"
    idle_us, during_us = asked
    mine_ms, with_git_ms, git_ms = cpu
    worst = max(during_us) / 1e3
    return [
        Row(
            f"{what}: lookup p99, floor: idle",
            percentile(during_us, 0.99),
            "µs",
            percentile(idle_us, 0.99),
            ratio_max=5.0,
            note=f"{len(during_us)} lookups in {sizes.switches} switches, one each ms",
        ),
        Row("  slowest lookup", worst, "ms", value_max=50.0),
        Row(
            "  last verdict right after git returned, worst",
            max(last_ms),
            "ms",
            value_max=50.0,
            note=f"median {statistics.median(last_ms):.1f} ms; negative: before git returned",
        ),
        Row("  CPU of the daemon, floor: git's", mine_ms, "ms", git_ms, ratio_max=0.6),
        Row("  … with the git processes that explain the marks", with_git_ms, "ms", git_ms),
    ]


def _asked_during(
    daemon: Daemon,
    root: Path,
    branches: "itertools.cycle[str]",
    messages: list[bytes],
    sizes: Sizes,
) -> tuple[list[float], list[float]]:
    """Lookup times (µs) between switches and during them, in turns."""
    idle_us: list[float] = []
    during_us: list[float] = []
    questions = itertools.cycle(messages)
    for _ in range(sizes.switches):
        wait_for_quiet(sizes.quiet_wait_s)
        asker = Asker(daemon.socket)  # a connection that says nothing for 2 s is closed
        until_s = time.monotonic() + sizes.idle_asking_s
        idle_us += _ask_while(asker, questions, lambda u=until_s: time.monotonic() < u)  # type: ignore[misc]
        pid = os.posix_spawnp("git", _switch(root, next(branches)), _git_env())
        ended = False

        def running(pid: int = pid) -> bool:
            nonlocal ended
            ended = ended or os.waitpid(pid, os.WNOHANG)[0] == pid
            return not ended

        during_us += _ask_while(asker, questions, running)
        asker.close()
        daemon.sync()
    return idle_us, during_us


def _ask_while(
    asker: Asker, questions: "itertools.cycle[bytes]", going: Callable[[], bool]
) -> list[float]:
    took_us = []
    while going():
        took_us += asked_us(asker, [next(questions)])
        time.sleep(ASK_EVERY_S)
    return took_us


def _last_verdict_ms(daemon: Daemon, root: Path, branch: str, keys: list[str]) -> float:
    """From git's return to the last verdict that a subscriber is told, before anybody asks."""
    wanted = dict.fromkeys(keys, "fresh" if branch == "main" else "stale")
    subscriber = Subscriber(daemon, root)
    pid = os.posix_spawnp("git", _switch(root, branch), _git_env())
    try:
        ended_ns, last_ns = follow(subscriber, pid, wanted, deadline_s=60.0)
    finally:
        os.waitpid(pid, 0)
        subscriber.close()
    daemon.sync()
    return (last_ns - ended_ns) / 1e6


def _switch_cpu_ms(
    daemon: Daemon, root: Path, branches: "itertools.cycle[str]", switches: int
) -> tuple[float, float, float]:
    """Medians would need a finer clock than the kernel's ticks: means of `switches` silent ones.

    The daemon's own, the daemon's with git's answers, and the switch's.
    """
    own_ms, whole_ms, git_ms = cpu_ms(daemon.pid), cpu_ms(daemon.pid, children=True), 0.0
    for _ in range(switches):
        git_ms += process_rusage(_switch(root, next(branches)), _git_env())[1]
        daemon.sync()
    own_ms = cpu_ms(daemon.pid) - own_ms
    whole_ms = cpu_ms(daemon.pid, children=True) - whole_ms
    return own_ms / switches, whole_ms / switches, git_ms / switches


def _switch(root: Path, branch: str) -> list[str]:
    return ["git", "-C", str(root), "-c", "core.hooksPath=/dev/null", "switch", "-q", branch]


def _git_env() -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
