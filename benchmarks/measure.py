"""Figures and how they are judged: rows with a floor and a budget, percentiles, rounds, /proc.

A machine that others use makes every absolute time drift, so a figure is compared with a floor
that was measured in the same rounds, and what a row says is the median of its rounds. Counts are
exact. Prints nothing and starts nothing.
"""

import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CLOCK_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


# An interval long enough for the kernel's 10 ms ticks to say something, and the share of it that an
# otherwise idle machine's own timers leave.
QUIET_WINDOW_S: Final = 0.1
QUIET_SHARE: Final = 0.85


# -- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `measured` None: not measured, and `note` says why.

    The budget is on the ratio to the floor (`ratio_max`), on the figure itself (`value_max`), or
    on nothing: then the row only informs.
    """

    what: str
    measured: float | None
    unit: str
    floor: float | None = None
    ratio_max: float | None = None
    value_max: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if self.measured is None or not self.floor:
            return None
        return self.measured / self.floor

    @property
    def within(self) -> bool | None:
        """Whether the budget holds; None where there is nothing to hold or no figure."""
        if self.measured is None:
            return None
        if self.ratio_max is not None and self.ratio is not None:
            return self.ratio <= self.ratio_max
        if self.value_max is not None:
            return self.measured <= self.value_max
        return None

    @property
    def budget(self) -> str:
        if self.ratio_max is not None:
            return f"≤ {times(self.ratio_max)}"
        return f"≤ {figure(self.value_max)} {self.unit}" if self.value_max is not None else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "measured": self.measured,
            "unit": self.unit,
            "floor": self.floor,
            "ratio": self.ratio,
            "ratio_max": self.ratio_max,
            "value_max": self.value_max,
            "within": self.within,
            "note": self.note,
        }


def skipped(what: str, why: str) -> Row:
    return Row(what, None, "", note=why)


def figure(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def times(ratio: float | None) -> str:
    """A ratio, as a fraction where amend is far below what it is compared with."""
    if ratio is None:
        return ""
    if 0 < ratio < 0.1:
        return f"1/{1 / ratio:,.0f}"
    return f"{figure(ratio)} ×"


# -- samples -------------------------------------------------------------------------------------


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that `fraction` of all are not above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """Medians of the rounds' percentiles, and the worst of all rounds."""

    p50: float
    p99: float
    worst: float


def spread(rounds: Sequence[Sequence[float]]) -> Spread:
    return Spread(
        statistics.median(percentile(values, 0.50) for values in rounds),
        statistics.median(percentile(values, 0.99) for values in rounds),
        max(max(values) for values in rounds),
    )


def interleaved(
    rounds: int, subjects: Mapping[str, Callable[[], Sequence[float]]], *, quiet_wait_s: float
) -> tuple[dict[str, Spread], str]:
    """Every subject once a round, in an order that turns, so that drift meets all alike.

    Also says how many rounds began while the machine was quiet.
    """
    found: dict[str, list[Sequence[float]]] = {name: [] for name in subjects}
    names = list(subjects)
    quiet = 0
    for number in range(rounds):
        quiet += wait_for_quiet(quiet_wait_s)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(subjects[name]())
    told = f"{quiet} of {rounds} rounds began on a quiet machine"
    return {name: spread(values) for name, values in found.items()}, told


def wait_for_quiet(wait_s: float) -> bool:
    """Give others up to `wait_s` to leave the cores alone. Whether they do now."""
    until_s = time.monotonic() + wait_s
    while True:
        before, before_idle = _cpu_ticks()
        time.sleep(QUIET_WINDOW_S)
        after, after_idle = _cpu_ticks()
        if after_idle - before_idle >= QUIET_SHARE * (after - before):
            return True
        if time.monotonic() >= until_s:
            return False


def _cpu_ticks() -> tuple[int, int]:
    """All ticks of all cores since boot, and the idle ones."""
    ticks = [int(field) for field in _lines_of("/proc/stat")[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def timed_us(action: Callable[[], object]) -> float:
    started_ns = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - started_ns) / 1e3


def wait_until(true: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
    until_s = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > until_s:
            raise RuntimeError(f"waited {deadline_s:g} s in vain: {what}")
        time.sleep(0.002)


# -- processes -----------------------------------------------------------------------------------


def whole_process_ms(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """From spawning to having reaped it; the output is thrown away. Raises when it fails."""
    return process_rusage(arguments, env)[0]


def process_rusage(
    arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Wall and CPU milliseconds of a process, by the bare system calls: no thread, no pipe."""
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started_ns = time.perf_counter_ns()
    pid = os.posix_spawnp(
        arguments[0],
        list(arguments),
        dict(os.environ if env is None else env),
        file_actions=actions,
    )
    _, status, usage = os.wait4(pid, 0)
    wall_ms = (time.perf_counter_ns() - started_ns) / 1e6
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)[:200]} ended with {status}")
    return wall_ms, (usage.ru_utime + usage.ru_stime) * 1e3


@contextlib.contextmanager
def apart(servers: Sequence[int]) -> Iterator[None]:
    """This process on one core and `servers` on another, where there are two.

    Otherwise the kernel puts client and server on one core or on two as the load of the moment
    has it, and a wake-up costs 5 µs or 25.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for pid in servers:
            os.sched_setaffinity(pid, {cores[1]})
        os.sched_setaffinity(0, {cores[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def cpu_ms(pid: int, *, children: bool = False) -> float:
    """CPU time of a process, 10 ms fine; with `children`, also of those it has reaped."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = [int(field) for field in fields[11:15]]  # utime, stime, cutime, cstime
    return sum(ticks if children else ticks[:2]) / CLOCK_TICKS_A_SECOND * 1e3


def on_cpu_us(pid: int) -> float:
    """CPU time of a process's first thread, by the scheduler's own count: exact also for little."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e3


def resident_kib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1024


def peak_resident_kib(pid: int) -> float:
    return float(_status(Path(f"/proc/{pid}/status"))["VmHWM"].split()[0])


def wake_ups(pid: int) -> int:
    """How often any of its threads has gone to sleep by itself."""
    return sum(
        int(_status(path)["voluntary_ctxt_switches"])
        for path in Path(f"/proc/{pid}/task").glob("*/status")
    )


def _status(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs}


# -- the machine ---------------------------------------------------------------------------------


def machine(directory: Path) -> dict[str, str]:
    """What one has to know to compare two tables. `directory`: where the files are kept."""
    git = subprocess.run(["git", "version"], capture_output=True, text=True, check=True)
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "git": git.stdout.split()[2],
        "filesystem": _filesystem(directory),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "arguments": " ".join(sys.argv[1:]) or "none",
    }


def _filesystem(directory: Path) -> str:
    """The type of the mount that holds `directory`."""
    best, kind = "", "unknown"
    for line in _lines_of("/proc/mounts"):
        point, named = line.split()[1:3]
        inside = f"{directory.resolve()}/".startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, named
    return kind


def _lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


# -- the table -----------------------------------------------------------------------------------

_HEAD: Final = ("what", "measured", "floor", "ratio", "budget", "")


def verdict(row: Row) -> str:
    if row.measured is None:
        return "skipped"
    return {True: "ok", False: "OVER", None: ""}[row.within]


def table(rows: Sequence[Row]) -> str:
    """The rows in columns; what a row has to add stands below it."""
    cells = [_HEAD] + [
        (
            row.what,
            f"{figure(row.measured)} {row.unit}" if row.measured is not None else "",
            f"{figure(row.floor)} {row.unit}" if row.floor is not None else "",
            times(row.ratio),
            row.budget,
            verdict(row),
        )
        for row in rows
    ]
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(_HEAD))]
    lines = []
    for number, cell in enumerate(cells):
        texts = [cell[0].ljust(widths[0])]
        texts += [text.rjust(width) for text, width in zip(cell[1:5], widths[1:5], strict=True)]
        lines.append("  ".join([*texts, cell[5]]).rstrip())
        if number == 0:
            lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
        elif rows[number - 1].note:
            lines.append(f"    {rows[number - 1].note}")
    return "\n".join(lines)


def as_json(facts: Mapping[str, str], groups: Mapping[str, Sequence[Row]]) -> str:
    document = {
        "machine": dict(facts),
        "rows": [{"group": name, **row.as_json()} for name, rows in groups.items() for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
