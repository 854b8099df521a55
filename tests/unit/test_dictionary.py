"""`suggest` proposes terms that pay for their line, and says when a dictionary is not worth it."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.dictionary import SHARE_MIN, TERMS_MAX, Suggestions, suggest


def two_a_word(text: str) -> int:
    """Two tokens for each word, one for each in capitals: easy to add up by hand."""
    return sum(1 if word.isupper() else 2 for word in text.split())


def five_a_word(text: str) -> int:
    return sum(1 if word.isupper() else 5 for word in text.split())


def phrases(found: Suggestions) -> list[str]:
    return [term.phrase for term in found.terms]


def replaced(text: str, found: Suggestions) -> str:
    for term in found.terms:
        text = re.sub(rf"(?i)(?<!\S){re.escape(term.phrase)}(?!\S)", term.abbreviation, text)
    return text


def test_a_term_says_what_it_saves_and_what_its_line_costs() -> None:
    texts = ["the session management strategy is stateless", *["session management strategy"] * 4]

    (term,) = suggest(texts, two_a_word).terms

    assert (term.abbreviation, term.phrase) == ("SMS", "session management strategy")
    assert (term.tokens, term.uses) == (6, 5)
    assert (term.saves, term.cost, term.net) == (5 * (6 - 1), 1 + 6, 18)
    assert term.line == "SMS: session management strategy\n"


def test_a_phrase_used_twice_is_no_term() -> None:
    assert phrases(suggest(["dead letter queue", "dead letter queue"], two_a_word)) == []


def test_a_phrase_of_two_tokens_is_no_term_however_often_it_is_used() -> None:
    assert phrases(suggest(["redis"] * 100, two_a_word)) == []


def test_a_single_word_of_many_tokens_is_a_term() -> None:
    found = suggest(["idempotency"] * 9, lambda text: 1 + len(text) // 5)

    assert [(term.abbreviation, term.phrase) for term in found.terms] == [("IDE", "idempotency")]


def test_a_term_that_costs_more_than_it_saves_is_not_suggested() -> None:
    texts = ["dead letter queue"] * 3

    assert phrases(suggest(texts, lambda text: 3 if "dead" in text else 2)) == []


def test_a_longer_phrase_absorbs_what_occurs_only_inside_it() -> None:
    found = suggest(["row level security policy"] * 5, two_a_word)

    assert phrases(found) == ["row level security policy"]


def test_a_shorter_phrase_stays_where_it_is_mostly_used_alone() -> None:
    texts = ["row level security"] * 20 + ["row level security policy"] * 3

    found = suggest(texts, two_a_word)

    assert [(term.phrase, term.uses) for term in found.terms] == [("row level security", 23)]


def test_both_are_terms_where_each_pays_by_itself() -> None:
    texts = ["blue green deployment of api"] * 10 + ["blue green"] * 10

    found = suggest(texts, two_a_word)

    assert [(term.phrase, term.uses) for term in found.terms] == [
        ("blue green deployment of api", 10),
        ("blue green", 10),
    ]


def test_terms_neither_begin_nor_end_with_little_words() -> None:
    found = suggest(["and the state of the art for it"] * 5, two_a_word)

    assert phrases(found) == ["state of the art"]


@pytest.mark.parametrize(
    "line",
    ["dead letter. queue x", "dead\nletter queue", "dead  letter queue", "a dead (letter) queue"],
)
def test_a_phrase_crosses_no_sign_and_no_line(line: str) -> None:
    assert "dead letter queue" not in phrases(suggest([line] * 9, two_a_word))


def test_paths_and_code_are_never_abbreviated() -> None:
    text = "see `dead letter queue` src/dead/letter/queue.py dead_letter_queue x2y.z dead.letter"

    assert phrases(suggest([text] * 9, five_a_word)) == ["see"]


def test_uses_in_another_case_count_and_the_usual_spelling_is_taken() -> None:
    texts = ["Dead letter queue", "dead letter queue", "a dead letter queue", "dead letter queue."]

    (term,) = suggest(texts, two_a_word).terms

    assert (term.phrase, term.uses) == ("dead letter queue", 4)


def test_no_abbreviation_is_a_word_in_use_or_known_or_given_twice() -> None:
    texts = [
        *["session management strategy"] * 9,
        *["simple mail service"] * 8,
        "an sms/mms gateway, SMT_2",
    ]

    found = suggest(texts, two_a_word, known={"SMSE": "some other thing"})

    names = [term.abbreviation for term in found.terms]
    assert len(set(names)) == len(names) == 2
    assert not {"SMS", "SMT", "SMSE"} & set(names)
    assert all(name.isupper() for name in names)


def test_a_known_phrase_is_not_suggested_again() -> None:
    texts = ["dead letter queue"] * 9

    assert phrases(suggest(texts, two_a_word, known={"DLQ": "Dead letter queue"})) == []


def test_terms_are_sorted_by_what_is_left_of_their_saving() -> None:
    texts = ["dead letter queue"] * 5 + ["row level security policy"] * 9 + ["blue green"] * 4

    nets = [term.net for term in suggest(texts, two_a_word).terms]

    assert len(nets) == 3
    assert nets == sorted(nets, reverse=True)


def test_it_says_plainly_that_a_small_saving_is_not_worth_it() -> None:
    texts = [f"{word} row level security" for word in ("one", "two", "three", "four")]
    filler = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)} unlike" for n in range(120)]

    found = suggest(texts + filler, two_a_word)

    assert 0 < found.share < SHARE_MIN
    assert not found.is_worth_it
    assert "not worth its upkeep" in found.reason
    assert f"{sum(term.net for term in found.terms)} of {found.total_tokens} tokens" in found.reason


def test_it_says_that_a_large_saving_is_worth_it() -> None:
    found = suggest(["row level security policy"] * 50, two_a_word)

    assert found.is_worth_it
    assert found.share == sum(term.net for term in found.terms) / found.total_tokens
    assert "enough for its upkeep" in found.reason


@pytest.mark.parametrize("texts", [[], [""], ["2026-04-10: title\n  - one\n"]])
def test_where_no_term_pays_it_says_so(texts: list[str]) -> None:
    found = suggest(texts, two_a_word)

    assert (found.terms, found.share, found.is_worth_it) == ((), 0.0, False)
    assert "no term" in found.reason


WORD = st.sampled_from(["red", "blue", "green", "grey", "of", "the"])
LINES = st.lists(st.lists(WORD, min_size=1, max_size=14).map(" ".join), max_size=12)


@given(LINES)
def test_what_it_says_is_saved_is_what_replacing_every_term_saves(lines: list[str]) -> None:
    found = suggest(lines, two_a_word)

    after = sum(two_a_word(replaced(line, found)) for line in lines)
    assert after == found.total_tokens - sum(term.saves for term in found.terms)


@given(st.lists(st.text("ab \n.-'\u00e9\u00df`/:", max_size=60), max_size=8))
def test_any_text_gives_terms_that_keep_the_rules(texts: list[str]) -> None:
    found = suggest(texts * 3, two_a_word)

    assert all(term.tokens >= 3 and term.uses >= 3 and term.net > 0 for term in found.terms)
    assert all(re.fullmatch(r"[A-Z0-9]{2,}", term.abbreviation) for term in found.terms)
    assert len({term.abbreviation for term in found.terms}) == len(found.terms)


def test_four_times_the_notes_cost_about_four_times_as_much() -> None:
    def notes(count: int) -> list[str]:
        rows = range(count * 8)
        return [f"note {n % 97} of row {n % 89} level x{n * 7919 % 997:o} queue" for n in rows]

    def cpu_s(texts: list[str]) -> float:
        began_s = time.process_time()
        suggest(texts, two_a_word)
        return time.process_time() - began_s

    assert cpu_s(notes(1_000)) < 10 * cpu_s(notes(250)), "quadratic cost would be 16 times"


def test_the_list_is_no_longer_than_anybody_reads() -> None:
    def spelled(n: int) -> str:
        return "".join(chr(97 + int(digit)) for digit in f"{n:04}")

    texts = [f"{spelled(n)} level policy{spelled(n)}" for n in range(TERMS_MAX + 50)] * 4

    assert len(suggest(texts, two_a_word).terms) == TERMS_MAX
