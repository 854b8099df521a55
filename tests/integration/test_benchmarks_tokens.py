"""`benchmarks/tokens.py` runs from a fresh clone and says by what it counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from amend.core.dictionary import Term
from amend.edge.tokens import Counter, estimate
from benchmarks import tokens

SCRIPT = Path(tokens.__file__)


def test_the_script_runs_by_itself_and_prints_the_seeds_figures_beside_its_own(
    tmp_path: Path,
) -> None:
    figures = tmp_path / "figures.json"

    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", str(figures)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert all(figure in done.stdout for figure in ("2,920", "929", "881", "13", "194"))
    document = json.loads(figures.read_text())
    assert [row["seed"] for row in document["rows"]] == [2920, 929, 881, 13, None, 194]
    assert f"counted by {document['tokenizer']}" in done.stdout


def test_it_says_when_it_only_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    assert tokens.main([], estimate()) == 0

    assert "every figure is an estimate" in capsys.readouterr().out


def test_it_says_nothing_of_an_estimate_where_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    tokens.main([], Counter("letters", is_estimate=False, _count=len))

    assert "estimate" not in capsys.readouterr().out


def test_notes_cost_less_than_pages_and_two_levels_less_than_all_notes() -> None:
    raw, everything, _, index, both, one = [row.tokens for row in tokens.measure(estimate())]

    assert raw > everything > one > both > index > 0


def test_the_tree_with_a_dictionary_is_smaller_by_what_was_promised() -> None:
    texts = list(tokens.notes().values())
    found = tokens.suggest(texts, lambda text: len(text.split()) * 2)

    tree = tokens.with_dictionary(found)

    assert ("dict.aicontext" in tree) == bool(found.terms)
    assert set(tokens.notes()) < set(tree)


def test_terms_are_replaced_except_in_paths_and_code() -> None:
    term = Term("DLQ", "dead letter queue", tokens=3, uses=3, saves=6, cost=6)
    text = "Dead letter queue, a (dead letter queue). dead letter queues /dead letter queue.py"

    assert tokens.shortened(text, [term]) == (
        "DLQ, a (DLQ). dead letter queues /dead letter queue.py"
    )
