"""How much of everything: the sizes that the budgets speak of, and smaller ones."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sizes:
    files: int = 5_000  # of the tree that entries cite
    entries: int = 10_000
    rounds: int = 7
    asks: int = 1_500  # a round
    entries_marked: int = 1_000
    marks: int = 400  # half by write(), half by saving anew; each also undone
    in_file: int = 3
    switch_files: int = 5_000
    switch_cited: int = 500
    switches: int = 6
    idle_asking_s: float = 0.5
    seed_files: tuple[int, ...] = (20, 100)
    seed_runs: int = 3
    seed_without_graph: bool = True
    curls: int = 40
    hook_runs: int = 60  # of each client a round
    entries_started: int = 1_000
    starts: int = 7
    entries_many: int = 100_000  # 0: not measured
    entries_held: tuple[int, int, int] = (1, 1_000, 10_000)
    irrelevant: tuple[int, int] = (1_000, 200_000)
    puts: int = 500
    idle_s: float = 3.0
    quiet_wait_s: float = 3.0  # before each round, for others to be done


FULL: Final = Sizes()

# Under a minute on two busy cores: the same shape, fewer of everything.
QUICK: Final = Sizes(
    rounds=3,
    asks=500,
    marks=100,
    in_file=1,
    switches=4,
    seed_files=(20,),
    seed_runs=1,
    curls=15,
    hook_runs=20,
    starts=3,
    entries_many=0,
    irrelevant=(1_000, 20_000),
    puts=150,
    quiet_wait_s=0.5,
)

# For the tests: every line runs, no figure means anything.
TINY: Final = Sizes(
    files=100,
    entries=50,
    rounds=2,
    asks=20,
    entries_marked=20,
    marks=4,
    in_file=0,
    switch_files=100,
    switch_cited=20,
    switches=2,
    idle_asking_s=0.02,
    seed_files=(2,),
    seed_runs=1,
    curls=2,
    hook_runs=2,
    entries_started=10,
    starts=1,
    entries_many=0,
    entries_held=(1, 10, 50),
    irrelevant=(10, 100),
    puts=5,
    idle_s=0.2,
    quiet_wait_s=0.0,
)
