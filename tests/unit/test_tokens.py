"""Counting tokens: the real tokenizer where it is installed, an estimate that is near it else."""

import importlib.util
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.edge.tokens import ESTIMATE_NAME, REAL_NAME, Counter, estimate, tokenizer
from benchmarks.token_corpus import indexes, notes, pages

HAS_TOKENIZER = importlib.util.find_spec("splintr") is not None
needs_tokenizer = pytest.mark.skipif(
    not HAS_TOKENIZER, reason="splintr-rs is not installed (extra tokens)"
)


@pytest.fixture(scope="module")
def real() -> Counter:
    return tokenizer()


@needs_tokenizer
def test_the_real_tokenizer_says_what_it_is_and_counts_its_vocabulary(real: Counter) -> None:
    assert (real.name, real.is_estimate) == (REAL_NAME, False)
    assert [real.count(text) for text in ("", "hello world", "<|endoftext|>")] == [0, 2, 7]


@needs_tokenizer
@pytest.mark.parametrize("texts", [pages(), notes(), indexes(has_dictionary=True)])
def test_the_estimate_is_within_a_tenth_on_the_corpus(real: Counter, texts: dict[str, str]) -> None:
    guessed = sum(map(estimate().count, texts.values()))
    counted = sum(map(real.count, texts.values()))

    assert abs(guessed - counted) <= 0.10 * counted


@needs_tokenizer
@given(text=st.text())
def test_any_text_has_a_count(real: Counter, text: str) -> None:
    assert 0 <= real.count(text) <= len(text.encode("utf-8", "replace"))


@needs_tokenizer
def test_a_lone_surrogate_is_counted_as_well(real: Counter) -> None:
    assert real.count("a\ud800b") > 0


def test_without_the_package_there_is_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)

    counter = tokenizer()

    assert (counter.name, counter.is_estimate) == (ESTIMATE_NAME, True)
    assert counter.count("hello world") == 2


def test_importing_the_module_loads_no_tokenizer() -> None:
    program = "import sys, amend.edge.tokens; sys.exit('splintr' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text(one: str, other: str) -> None:
    count = estimate().count

    assert 0 <= count(one) <= len(one)
    assert count(f"{one} \n{other}") <= count(one) + count(other) + 2


def test_an_estimate_costs_no_more_than_in_proportion() -> None:
    def cpu_s(text: str) -> float:
        began_s = time.process_time()
        estimate().count(text)
        return time.process_time() - began_s

    for piece in (" ", "\n", " \n", "A", "a", "-", "é", "\t x"):
        little = piece * 20_000
        assert cpu_s(little * 8) < 32 * max(cpu_s(little), 1e-4), piece
