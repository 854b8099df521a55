"""Writers that never pause, and an amend that never waits: nothing is lost, nothing is torn."""

from pathlib import Path

import pytest

from tests.integration.shared_file_stress import MODES, Outcome, run


def assert_nothing_lost(outcomes: list[Outcome]) -> None:
    assert [outcome.mode for outcome in outcomes] == list(MODES)
    for outcome in outcomes:
        assert outcome.lost == [], outcome
        assert outcome.torn == 0, outcome
        assert outcome.unmarked == 0, outcome
        assert outcome.beside == [], outcome
        assert outcome.amend["unmerged"] == 0, outcome


def test_no_write_of_three_kinds_of_writers_is_lost_or_torn(tmp_path: Path) -> None:
    outcomes = run(tmp_path, 1500)

    assert_nothing_lost(outcomes)
    assert sum(outcome.amend["writes"] for outcome in outcomes) > 0


def test_no_write_is_lost_while_amend_is_killed_again_and_again(tmp_path: Path) -> None:
    assert_nothing_lost(run(tmp_path, 400, kill_every_s=0.4))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kill_every_s", [None, 0.5])
def test_no_write_of_a_hundred_thousand_is_lost_or_torn(
    tmp_path: Path, kill_every_s: float | None
) -> None:
    outcomes = run(tmp_path, 33_400, kill_every_s=kill_every_s, seed=1, timeout_s=3000.0)

    assert_nothing_lost(outcomes)
