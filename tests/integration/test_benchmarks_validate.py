"""`benchmarks/validate.py` measures both sides on a repository; the figures are not judged here."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import validate
from benchmarks.sizes import TINY
from tests.conftest import Repository


def test_both_sides_are_measured_for_each_number_of_files(
    tmp_path: Path, git: Callable[..., Repository], capsys: pytest.CaptureFixture[str]
) -> None:
    repository = git("cited", {f"file{n}.py": f"number {n}\n" for n in range(5)})
    figures = tmp_path / "figures.json"

    code = validate.main(
        [str(repository.root), "--json", str(figures)], replace(TINY, seed_files=(1, 3))
    )

    rows = json.loads(figures.read_text())["rows"]
    assert "skipped" not in capsys.readouterr().out
    assert code in (0, 1)
    assert [row["what"].split()[1] for row in rows if "the seed" in row["what"]] == [
        *("1", "1", "3", "3")
    ]
    assert all(row["measured"] > 0 and row["floor"] > 0 for row in rows)


def test_without_a_path_it_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate.main([]) == 2

    assert "benchmarks/validate.py PATH" in capsys.readouterr().err
