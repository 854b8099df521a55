"""What matching claims, held against the labelled set; and what holds for any text at all."""

import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amend.core import matching_words
from amend.core.matching import CANDIDATES_MAX, Index, Match, Texts
from amend.core.matching_question import WORDS_MAX, read
from amend.core.matching_words import TEXT_CHARS_MAX, Stems, stem
from amend.core.model import EntryName, Kind
from tests.matching_questions import QUESTIONS
from tests.matching_set import ENTRIES, Asked

# Measured on the held-out half: 74 of 129 answered without exploring, all of them rightly, and 113
# of 119 offers useful. A change that costs more than a few of them should say why.
CONFIDENT_PRECISION: float = 0.98
CONFIDENT_RECALL: float = 0.53
CLEAR_PRECISION: float = 0.92

HELD_OUT = [asked for asked in QUESTIONS if asked.is_held_out]

# As many as a prompt is offered (issue 5).
OFFERED = 2


def index_of(entries: Iterable[tuple[EntryName, Texts]] = ENTRIES) -> Index:
    index = Index()
    for name, texts in entries:
        index.add(name, texts)
    return index


@pytest.fixture(scope="module")
def index() -> Index:
    return index_of()


def confident(index: Index, question: str) -> str | None:
    return next((m.name.key for m in index.rank(question) if m.is_confident), None)


def topic(key: str, summary: str = "", *paths: str) -> tuple[EntryName, Texts]:
    return EntryName(Kind.TOPIC, key), Texts(key, summary, paths)


# -- the labelled set ----------------------------------------------------------------------------


def test_the_labelled_set_is_as_large_as_it_should_be_and_names_what_exists() -> None:
    keys = {name.key for name, _ in ENTRIES}

    assert len(ENTRIES) >= 40
    assert len({asked.text for asked in QUESTIONS}) == len(QUESTIONS) >= 240
    assert len(HELD_OUT) >= 150
    for asked in QUESTIONS:
        assert {asked.answer or "auth", *asked.useful} <= keys, asked.text


def test_what_is_confident_is_right_on_the_held_out_half(index: Index) -> None:
    answerable = [asked for asked in HELD_OUT if asked.answer is not None]
    told = [(asked, confident(index, asked.text)) for asked in HELD_OUT]
    confident_ones = [(asked, key) for asked, key in told if key is not None]
    wrong = [(asked.text, key) for asked, key in confident_ones if asked.answer != key]
    right = len(confident_ones) - len(wrong)

    print(f"{len(HELD_OUT)} held out, {len(answerable)} have an answer")
    print(f"confident {len(confident_ones)}, right {right}, wrong {wrong}")
    assert right >= CONFIDENT_PRECISION * len(confident_ones)
    assert right >= CONFIDENT_RECALL * len(answerable)


def test_what_is_clear_is_useful_on_the_held_out_half(index: Index) -> None:
    offered = [
        (asked, match.name.key)
        for asked in HELD_OUT
        for match in [m for m in index.rank(asked.text) if m.is_clear][:OFFERED]
    ]
    useful = [each for each in offered if each[1] in (each[0].answer, *each[0].useful)]

    print(f"clear {len(offered)}, useful {len(useful)}")
    assert len(useful) >= CLEAR_PRECISION * len(offered)


def test_the_best_is_right_where_there_is_an_answer(index: Index) -> None:
    answerable = [asked for asked in HELD_OUT if asked.answer is not None]
    right = [a for a in answerable if [m.name.key for m in index.rank(a.text, 1)] == [a.answer]]

    print(f"best {len(right)} of {len(answerable)}")
    assert len(right) >= 0.95 * len(answerable)


def test_an_entry_that_is_gone_leaves_its_questions_unanswered() -> None:
    texts = dict(ENTRIES)
    names = {name.key: name for name in texts}
    index = index_of()
    wrong = []

    for asked in HELD_OUT:
        if asked.answer is not None:
            name = names[asked.answer]
            index.remove(name)
            wrong += [asked.text] if confident(index, asked.text) is not None else []
            index.add(name, texts[name])

    assert wrong == []


def test_short_forms_earn_their_place(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def recall(of: Index) -> int:
        return sum(asked.answer == confident(of, asked.text) is not None for asked in HELD_OUT)

    with_them = recall(index)
    monkeypatch.setattr(matching_words, "_SAME", {})
    without = recall(index_of())

    print(f"right with short forms {with_them}, without {without}")
    assert with_them > without


@pytest.mark.parametrize("group", ["negation", "edit", "other language", "several", "unrelated"])
def test_nothing_is_confident_about(group: str, index: Index) -> None:
    texts = [asked.text for asked in QUESTIONS if asked.group == group]

    assert [text for text in texts if confident(index, text) is not None] == []


# -- what must hold for each question -------------------------------------------------------------


def test_a_question_about_a_part_that_is_not_known_is_left_unanswered(index: Index) -> None:
    [best, *_] = index.rank("how does auth throttling work")

    assert best.name.key == "auth"
    assert not best.is_confident
    assert any("lacks" in reason and "throttling" in reason for reason in best.why)


def test_a_file_that_the_entry_does_not_cite_is_left_unanswered(index: Index) -> None:
    cited = index.rank("how does src/auth/jwt.ts issue the JWT access token at login")[0]
    other = index.rank("how does src/auth/jwt-v2.ts issue the JWT access token at login")[0]

    assert (cited.name.key, other.name.key) == ("auth", "auth")
    assert not any("does not cite" in reason for reason in cited.why)
    assert any("src/auth/jwt-v2.ts" in reason for reason in other.why)
    assert not other.is_confident


@pytest.mark.parametrize(
    ("question", "is_cited"),
    [
        ("routes in /home/ada/shop/src/routes/api.ts", True),
        ("routes in ./src/routes/api.ts:42", True),
        ("routes in src\\routes\\api.ts", True),
        ("routes in `routes/api.ts`", True),
        ("routes in (api.ts)", True),
        ("routes in src/routes/", True),
        ("routes in pages/blog/index.tsx", True),
        ("routes in lib/any/depth.ts", True),
        ("routes in old/routes/", False),
        ("routes in test/api.ts", False),
        ("routes in src/routes/web.ts", False),
        ("routes in https://example.org/src/routes/web.ts", True),
        ("routes in Next.js and/or Node.js, e.g. v1.2", True),
    ],
)
def test_a_path_is_known_from_anywhere_above_it(question: str, is_cited: bool) -> None:
    index = index_of([topic("routes", "", "src/routes/api.ts", "pages/blog/", "lib/any/*.ts")])

    [match] = index.rank(question)

    assert any("does not cite" in reason for reason in match.why) is not is_cited


@pytest.mark.parametrize(
    "question",
    [
        "explore the cart. Do not modify any files, and don't write code",
        "explore the cart, not only the model",
        "explore the cart: how are items added and removed",
    ],
)
def test_how_to_work_is_no_exclusion_and_no_change(question: str) -> None:
    asked = read(question, Stems())

    assert (asked.excluded, asked.is_edit) == ((), False)


@pytest.mark.parametrize(
    "question",
    [
        "we need to add a coupon field",
        "Could you please rename the cart table?",
        "Explore the cart. I'm going to refactor totals, so list what uses them.",
        "the totals are wrong, fix them",
    ],
)
def test_a_change_is_told_from_a_question(question: str) -> None:
    assert read(question, Stems()).is_edit


def test_names_are_found_however_they_are_written() -> None:
    index = index_of([topic("tracing", "OpenTelemetry spans"), topic("graphql-schema", "types")])

    found = [
        [match.name.key for match in index.rank(question)]
        for question in ("opentelemetry", "open telemetry", "GraphQL", "graphql_schema", "Schemas")
    ]

    assert found == [["tracing"]] * 2 + [["graphql-schema"]] * 3


@pytest.mark.parametrize(
    "words",
    [
        "log logs logged logging logger",
        "validate validates validated validating validation validator",
        "notify notifies notified notifying notification",
        "migrate migrations migrating",
        "query queries querying queried",
        "auth authenticate authentication authenticated",
        "db database databases",
        "config configure configuration",
    ],
)
def test_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize(
    "words", ["custom customer", "auth authorization author", "order ordinal", "status stat"]
)
def test_words_of_different_meaning_keep_apart(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == len(words.split())


def test_reasons_say_what_was_found_where_and_what_was_not(index: Index) -> None:
    [best, *_] = index.rank("JWT auth in src/auth/jwt.ts with biometrics, not bcrypt")

    assert [reason.partition(":")[0] for reason in best.why] == [
        "its key",
        "its summary",
        "it lacks",
        "the question leaves something out",
    ]


def test_the_shorter_key_comes_first_where_nothing_else_tells() -> None:
    entries = [topic("cart-merge"), topic("cart"), topic("abandoned-cart-mails")]

    ranked = [match.name.key for match in index_of(entries).rank("cart")]

    assert ranked[0] == "cart"


def test_an_empty_index_and_an_empty_question_have_no_answer(index: Index) -> None:
    assert Index().rank("auth") == []
    assert index.rank("") == []
    assert index.rank("how does it work") == []
    assert index.rank("auth", 0) == []


# -- whatever the order, the seed, the text ------------------------------------------------------


def ranked_all(index: Index, questions: Sequence[Asked] = QUESTIONS) -> list[list[Match]]:
    return [index.rank(asked.text) for asked in questions]


def test_the_order_of_adding_and_removing_does_not_count(index: Index) -> None:
    rng = random.Random(5)
    questions = QUESTIONS[::5]
    expected = ranked_all(index, questions)

    for _ in range(3):
        entries = rng.sample(ENTRIES, len(ENTRIES))
        other = index_of(entries)
        for name, texts in rng.sample(entries, 30):
            other.add(name, Texts("something else", "entirely", ("else.ts",)))
            other.remove(name)
            other.add(name, texts)

        assert ranked_all(other, questions) == expected


def test_removing_all_leaves_nothing() -> None:
    index = index_of()

    for name, _ in ENTRIES:
        index.remove(name)
        index.remove(name)

    assert len(index) == 0
    assert index.rank("auth cart checkout") == []
    assert not index._ids


_SEEDED = """
from tests.unit.test_matching import index_of, ranked_all
from tests.matching_questions import QUESTIONS
print(ranked_all(index_of(), QUESTIONS[::7]))
"""


def test_the_hash_seed_does_not_count() -> None:
    root = Path(__file__).parents[2]
    ways = [
        subprocess.Popen(
            [sys.executable, "-c", _SEEDED],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "20")
    ]

    first, second = (way.communicate()[0] for way in ways)

    assert first == second != b""


_WORDISH = st.lists(
    st.sampled_from(
        ["auth", "cart", "not", "except", "src/a.ts", "add", "(((", "]]", "/", "a.b", ""]
    )
).map(" ".join)
_ANY_TEXT = (
    st.text(max_size=300)
    | _WORDISH
    | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))
)


@given(_ANY_TEXT)
def test_no_question_raises_and_every_score_is_a_share(text: str) -> None:
    index = _SHARED

    matches = index.rank(text)

    assert matches == index.rank(text)
    assert all(0 <= match.score <= 1 for match in matches)
    assert [m.score for m in matches] == sorted((m.score for m in matches), reverse=True)
    assert sum(match.is_confident for match in matches) <= 1
    assert not any(match.is_confident and not match.is_clear for match in matches)


_SHARED = index_of()


@settings(max_examples=50)
@given(st.lists(st.tuples(_ANY_TEXT, _ANY_TEXT, st.lists(_ANY_TEXT, max_size=3)), max_size=6))
def test_no_entry_raises_and_each_can_be_removed(entries: list[tuple[str, str, list[str]]]) -> None:
    index = Index()
    names = [EntryName(Kind.TOPIC, str(at)) for at in range(len(entries))]

    for name, (key, summary, paths) in zip(names, entries, strict=True):
        index.add(name, Texts(key, summary, tuple(paths)))
    for key, summary, _ in entries:
        index.rank(key + summary)
    for name in names:
        index.remove(name)

    assert not index._ids


@pytest.mark.parametrize(
    "piece", ["auth ", "(", "[a", "a/", "a.", "not ", "x-", "é", "'", "\n", "A"]
)
def test_a_question_of_100_kb_is_read_no_further_than_one_of_4_kb(piece: str, index: Index) -> None:
    whole = piece * (100_000 // len(piece))

    assert index.rank(whole) == index.rank(whole[:TEXT_CHARS_MAX])
    asked = read(whole, Stems())
    assert len(asked.head) + len(asked.tail) <= WORDS_MAX


def test_of_two_thousand_entries_the_right_one_is_found() -> None:
    rng = random.Random(2)
    made = ["".join(rng.choices("bcdfglmnprst", k=6)) for _ in range(3_000)]
    crowd = [
        topic(f"cart-{rng.choice(made)}-{at}", " ".join(rng.sample(made, 5))) for at in range(2_000)
    ]
    index = index_of([*crowd, *ENTRIES])

    assert len(crowd) > CANDIDATES_MAX
    assert [m.name.key for m in index.rank("cart", 1)] == ["cart"]
    assert confident(index, "how are anonymous shopping carts merged at login") == "cart"
