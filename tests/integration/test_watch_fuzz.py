"""Random changes find no missed one. A failure prints its seed; `watch_fuzz` runs more of it."""

import pytest

from tests.integration.watch_fuzz import KINDS, run

# Different seeds on every push would find more and explain less; the long runs move on.
SHORT_SEEDS = 2
SHORT_STEPS = {kind: 20 if kind.startswith("at-once") else 80 for kind in KINDS}
LONG_SEEDS = 12
LONG_STEPS = {kind: 150 if kind.startswith("at-once") else 800 for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_no_change_is_missed(kind: str) -> None:
    outcome = run(kind, SHORT_SEEDS, SHORT_STEPS[kind])

    assert outcome.misses == 0
    assert outcome.changes > SHORT_STEPS[kind]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_no_change_is_missed_in_a_long_run(kind: str) -> None:
    outcome = run(kind, LONG_SEEDS, LONG_STEPS[kind], first_seed=100)

    assert outcome.misses == 0
