"""Measure amend against the budgets of DESIGN section 11, and print one table.

    python benchmarks/run.py [--quick] [--repo PATH] [--only NAME ...] [--json FILE]

Starts private daemons on made-up repositories (and a clone of PATH, for the comparison with the
seed), all in one temporary directory, and ends them by process id. Exits 1 when a budget is missed.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import answering, costs, hooks, seed
from benchmarks.measure import Row, as_json, machine, table
from benchmarks.running import ROOT
from benchmarks.sizes import FULL, QUICK, Sizes

Group = Callable[[Path, Sizes], list[Row]]

GROUPS: Final[dict[str, Group]] = {
    "lookup": answering.measure_lookup,
    "mark": answering.measure_mark,
    "switch": answering.measure_switch,
    "start": costs.measure_start,
    "memory": costs.measure_memory,
    "tree": costs.measure_tree,
    "save": costs.measure_save,
    "idle": costs.measure_idle,
    "hooks": hooks.measure_hooks,
}

SEED: Final = "seed"
NAMES: Final = (*GROUPS, SEED)


def measure(names: Sequence[str], sizes: Sizes, repo: Path) -> dict[str, list[Row]]:
    """The groups' rows, each measured in a directory of its own that is gone afterwards."""
    found = {}
    for name in names:
        started_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="am-bench-") as directory:
            base = Path(directory).resolve()
            if name == SEED:
                found[name] = seed.measure_seed(base, sizes, repo)
            else:
                found[name] = GROUPS[name](base, sizes)
        took_s, load = time.monotonic() - started_s, os.getloadavg()[0]
        print(f"{name}: {took_s:.0f} s, load then {load:.1f}", file=sys.stderr)
    return found


def main(arguments: Sequence[str] | None = None, sizes: Sizes | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer of everything, under a minute")
    parser.add_argument("--repo", type=Path, default=ROOT, help="a repository for the seed's loop")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the daemons must not outlive it
    facts = machine(Path(tempfile.gettempdir()))
    print("  ".join(f"{name} {value}" for name, value in facts.items()) + "\n", flush=True)
    sizes = sizes or (QUICK if chosen.quick else FULL)
    groups = measure(chosen.only, sizes, chosen.repo.resolve())
    rows = [row for each in groups.values() for row in each]
    print(table(rows))
    missed = [row for row in rows if row.within is False]
    held = sum(row.within is True for row in rows)
    print(f"\n{held} budgets held, {len(missed)} missed")
    if chosen.json is not None:
        chosen.json.write_text(as_json(facts, groups))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
