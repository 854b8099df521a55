"""Random git operations find no false fresh and no lock. A failure prints its seed, by which
`git_fuzz` replays it."""

import pytest

from tests.scenario.git_fuzz import Tally, chosen_seed, run

# Different seeds on every push would find more and explain less; the long run moves on.
SHORT_SEED = 1
SHORT_OPERATIONS = 300
LONG_OPERATIONS = 20_000


def check(outcome: Tally, operations: int) -> None:
    assert (outcome.false_fresh, outcome.locks) == (0, 0), outcome.told
    assert (outcome.false_stale, outcome.wrong_causes, outcome.mistakes) == (0, 0, 0), outcome.told
    assert outcome.operations >= operations
    assert outcome.asked_during > operations
    assert outcome.stale > operations


def test_random_git_operations_find_no_false_fresh_and_no_lock() -> None:
    check(run(SHORT_OPERATIONS, chosen_seed(SHORT_SEED)), SHORT_OPERATIONS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_random_git_operations_find_no_false_fresh_and_no_lock_for_long() -> None:
    check(run(LONG_OPERATIONS, chosen_seed()), LONG_OPERATIONS)
