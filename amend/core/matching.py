"""A question in words → the entries it may be about, best first, each with the reasons.

An entry's texts are its key, its summary and the paths it cites; each of its words counts in the
best of these three only. What a question's word weighs is how rare it is among the entries
(`_rarity`, the idf of BM25), less in all but the first sentence, and less for words that agents say
of everything. Then, for each entry:

    coverage   the share of the question's weight that the entry's words have, each by its field
    support    how much of the key the question names; or, where that is more, how many words the
               two share, as a share of `EVIDENCE` of the rarest
    strength   coverage, less where support is (`UNSUPPORTED` of it is left with none)
    score      strength, less where another entry is nearly as strong

Words that no entry has count as the rarest: a question about "auth logging" is not answered by what
is known of auth. A match is *confident*, good enough to be told instead of exploring anew, when its
score reaches `CONFIDENT` and nothing in the question speaks against it: an exclusion ("not the auth
part"), a request for a change, a file that the entry does not cite, another entry that the first
sentence names in full. It is *clear*, good enough to be offered beside a prompt, when its strength
reaches `CLEAR`.

Guarantees: the same entries and the same question give the same matches, whatever the order of
`add` and `remove` and whatever the hash seed; no text raises; time is bounded by `CANDIDATES_MAX`,
`READ_MAX` and what of a question is read. Every constant below that says "tuned" was chosen on the
tuning half of the labelled set (tests/matching_set.py) and holds what is claimed on the other half.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final
from zlib import crc32

from amend.core.matching_question import Path, Question, read
from amend.core.matching_words import LIGHT, LIGHT_STEMS, Stems, Word
from amend.core.model import EntryName

# Tuned, as shares of what a word in the key counts. At 1 a tenth more is confident in the tuning
# half, and not one wrongly; but a small memory then answers by two words of somebody's summary.
SUMMARY_CREDIT: Final = 0.95
PATH_CREDIT: Final = 0.8

# Tuned: what is left of the strength of an entry of whose key the question has nothing, and how
# many of the rarest words the two must share for that not to matter.
UNSUPPORTED: Final = 0.5
EVIDENCE: Final = 2.5

# Tuned (0.3 to 1 differ by two answers): what all later sentences together weigh at most, as a
# share of the first one's weight.
TAIL_SHARE: Final = 0.5

# Tuned (0.6 to 0.9 give the same): up to this share of the best strength another entry does not
# disturb; at 1 the two cannot be told apart, and the score is halved.
RIVAL_FROM: Final = 0.75

# Tuned: the highest score of a wrong one was 0.734 (memories of eight of the entries, drawn at
# random, had 6 wrong among 429 confident ones), and nine in ten offers shall be of use.
# tests/unit/test_matching.py holds what they give on the other half: none of 74 confident ones
# wrong, 113 of 119 clear ones useful.
CONFIDENT: Final = 0.8
CLEAR: Final = 0.65

# A memory of three entries knows little about which words are rare: as if it had so many more,
# which have none of its words. Tuned: with 20 a little less is confident, with 100 memories of
# eight entries are wrong half as often again.
UNSEEN_ENTRIES: Final = 50

# An entry's words past these are left out, key first: a summary of 300 characters has 40, and one
# of 4,000 would make its entry match everything.
ENTRY_WORDS_MAX: Final = 192

# Entries that are looked at closely, and occurrences of words that are read to find them, each some
# 10 us and 0.2 us: about 1 ms, of the 5 that an answer may take. The weightiest word is read whole
# unless it is in so many entries that it says nothing.
CANDIDATES_MAX: Final = 24
READ_MAX: Final = 3_000
READ_ALONE_MAX: Final = 20_000

# Of a list of words in a reason: a line of a terminal.
SHOWN_MAX: Final = 8

_KEY, _SUMMARY, _PATHS = range(3)
_CREDITS: Final = (1.0, SUMMARY_CREDIT, PATH_CREDIT)
_FIELDS: Final = ("key", "summary", "paths")
_HEADER: Final = len(_FIELDS)


@dataclass(frozen=True, slots=True)
class Texts:
    """What an entry says. `paths` as in a `files` list: directories end in `/`."""

    key: str
    summary: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """`score`: 0 to 1. `why`: a reason each, in plain words; numbers are shares of the question."""

    name: EntryName
    score: float
    is_confident: bool
    is_clear: bool
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A word of the question among the entries. `id` -1: none has it."""

    word: Word
    id: int
    weight: float
    in_head: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """`wanted`: the weightiest first. `weights`: by id, of those that some entry has."""

    question: Question
    wanted: tuple[_Wanted, ...]
    weights: dict[int, float]
    head: frozenset[int]
    total: float


@dataclass(frozen=True, slots=True)
class _Found:
    """`key`: the ids of the key's words. `is_named`: the first sentence has all of them."""

    slot: int
    strength: float
    key: frozenset[int]
    is_named: bool


class Index:
    def __init__(self) -> None:
        self._stems = Stems()
        self._slots: dict[EntryName, int] = {}
        self._names: list[EntryName | None] = []
        self._free: list[int] = []
        # By slot: how many words of each field, their ids in that order, the marks of the paths.
        # One object an entry: there may be 100,000.
        self._forward: list[bytes] = []
        # By slot: orders those that are else alike, short keys first.
        self._order = array("I")
        self._ids: dict[str, int] = {}
        self._words: list[str] = []
        self._free_ids: list[int] = []
        # By id: each slot that has the word, with the field; sorted. A number where there is one.
        self._slots_of: list[array[int] | int] = []

    def __len__(self) -> int:
        return len(self._slots)

    # -- entries ---------------------------------------------------------------------------------

    def add(self, name: EntryName, texts: Texts) -> None:
        """Take the entry in, instead of what was known under the name."""
        self.remove(name)
        words: dict[str, int] = {}
        counts = []
        for field, parts in enumerate(((texts.key,), (texts.summary,), texts.paths)):
            before = len(words)
            for part in parts:
                for word in self._stems.of_text(part):
                    words.setdefault(word, field)
                if len(words) >= ENTRY_WORDS_MAX:
                    break
            counts.append(len(words) - before)
        slot = self._slot()
        self._names[slot] = name
        self._slots[name] = slot
        ids = [self._having(word, slot << 2 | field) for word, field in words.items()]
        self._forward[slot] = array("I", (*counts, *ids, *_marks(texts.paths))).tobytes()
        self._order[slot] = min(counts[_KEY], 255) << 24 | _mark(name.kind, (name.key,)) >> 8

    def remove(self, name: EntryName) -> None:
        """Forget the entry, if it is known."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return
        packed = array("I", self._forward[slot])
        for word_id in packed[_HEADER : _HEADER + sum(packed[:_HEADER])]:
            self._not_having(word_id, slot)
        self._names[slot] = None
        self._forward[slot] = b""
        self._free.append(slot)

    def settle(self) -> None:
        """Let go of what only helps adding many."""
        self._stems.forget()

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._names.append(None)
        self._forward.append(b"")
        self._order.append(0)
        return len(self._names) - 1

    def _having(self, word: str, packed: int) -> int:
        """The word's id, with the occurrence noted."""
        word_id = self._ids.get(word)
        if word_id is None:
            return self._new_word(word, packed)
        slots = self._slots_of[word_id]
        if isinstance(slots, int):
            self._slots_of[word_id] = array("I", sorted((slots, packed)))
        elif packed > slots[-1]:
            slots.append(packed)
        else:
            slots.insert(bisect_left(slots, packed), packed)
        return word_id

    def _new_word(self, word: str, packed: int) -> int:
        if self._free_ids:
            word_id = self._free_ids.pop()
            self._words[word_id], self._slots_of[word_id] = word, packed
        else:
            word_id = len(self._words)
            self._words.append(word)
            self._slots_of.append(packed)
        self._ids[word] = word_id
        return word_id

    def _not_having(self, word_id: int, slot: int) -> None:
        slots = self._slots_of[word_id]
        if isinstance(slots, int):
            del self._ids[self._words[word_id]]
            self._words[word_id] = ""
            self._free_ids.append(word_id)
            return
        del slots[bisect_left(slots, slot << 2)]
        if len(slots) == 1:
            self._slots_of[word_id] = slots[0]

    # -- questions -------------------------------------------------------------------------------

    def rank(self, question: str, limit: int = 5) -> list[Match]:
        """Up to `limit` entries that have a word of the question, best first."""
        asked = self._asked(read(question, self._stems))
        rarest, order = self._rarity(-1), self._order
        found = [self._judge(slot, asked, rarest) for slot in self._candidates(asked)]
        found.sort(key=lambda each: (-each.strength, order[each.slot], self._shown(each.slot)))
        return [self._match(each, found, asked) for each in found[: max(limit, 0)]]

    def _asked(self, question: Question) -> _Asked:
        seen: set[str] = set()
        head = [self._wanted(word, in_head=True) for word in self._apart(question.head, seen)]
        tail = [self._wanted(word, in_head=False) for word in self._apart(question.tail, seen)]
        in_head, in_tail = (sum(each.weight for each in part) for part in (head, tail))
        if in_head and in_tail > TAIL_SHARE * in_head:
            less = TAIL_SHARE * in_head / in_tail
            tail = [replace(each, weight=each.weight * less) for each in tail]
        wanted = sorted(head + tail, key=lambda each: (-each.weight, each.word.stem))
        return _Asked(
            question,
            tuple(wanted),
            {each.id: each.weight for each in wanted if each.id >= 0},
            frozenset(each.id for each in head if each.id >= 0),
            sum(each.weight for each in wanted),
        )

    def _apart(self, words: Iterable[Word], seen: set[str]) -> Iterator[Word]:
        """Each once; names that no entry has as they are stand for their parts."""
        for word in words:
            for each in (word,) if word.stem in self._ids or not word.parts else word.parts:
                if each.stem not in seen:
                    seen.add(each.stem)
                    yield each

    def _wanted(self, word: Word, *, in_head: bool) -> _Wanted:
        word_id = self._ids.get(word.stem, -1)
        return _Wanted(word, word_id, word.weight * self._rarity(word_id), in_head)

    def _rarity(self, word_id: int) -> float:
        having = 0
        if word_id >= 0:
            slots = self._slots_of[word_id]
            having = 1 if isinstance(slots, int) else len(slots)
        return math.log((len(self._slots) + UNSEEN_ENTRIES) / (having + 1))

    def _candidates(self, asked: _Asked) -> Iterable[int]:
        """The slots that have most of the question's weight, judged by its weightiest words."""
        covered: dict[int, float] = {}
        left = READ_MAX
        for word_id, weight in asked.weights.items():
            slots = self._slots_of[word_id]
            if isinstance(slots, int):
                slots = array("I", (slots,))
            left -= len(slots)
            if (left < 0 and covered) or len(slots) > READ_ALONE_MAX:
                break
            credits = [weight * credit for credit in _CREDITS]
            for packed in slots:
                slot = packed >> 2
                covered[slot] = covered.get(slot, 0.0) + credits[packed & 3]
        if len(covered) <= CANDIDATES_MAX:
            return covered
        least = sorted(covered.values(), reverse=True)[CANDIDATES_MAX - 1]
        best = [slot for slot, weight in covered.items() if weight > least]
        alike = [slot for slot, weight in covered.items() if weight == least]
        return best + nsmallest(CANDIDATES_MAX - len(best), alike, key=self._order.__getitem__)

    def _judge(self, slot: int, asked: _Asked, rarest: float) -> _Found:
        weights = asked.weights
        packed = array("I", self._forward[slot])
        covered = shared = 0.0
        start = _HEADER
        for count, credit in zip(packed[:_HEADER], _CREDITS, strict=True):
            here = sum(weights[i] for i in filter(weights.__contains__, packed[start:][:count]))
            covered += here * credit
            shared += here
            start += count
        key = packed[_HEADER : _HEADER + packed[_KEY]]
        of_key = named = 0.0
        for word_id in key:
            weight = self._rarity(word_id)
            if self._words[word_id] in LIGHT_STEMS:
                weight *= LIGHT
            of_key += weight
            if word_id in weights:
                named += weight
        support = min(1.0, max(named / of_key if of_key else 0.0, shared / (EVIDENCE * rarest)))
        strength = covered / asked.total * (UNSUPPORTED + (1 - UNSUPPORTED) * support)
        return _Found(slot, strength, frozenset(key), bool(key) and asked.head.issuperset(key))

    def _match(self, found: _Found, ranked: Sequence[_Found], asked: _Asked) -> Match:
        name = self._names[found.slot]
        assert name is not None
        is_first = found is ranked[0]
        rival = ranked[1].strength / ranked[0].strength if len(ranked) > 1 else 0.0
        nearness = max(0.0, (rival - RIVAL_FROM) / (1 - RIVAL_FROM))
        score = found.strength * (1 - nearness / 2)
        fields = self._fields(found.slot)
        excluded = [fields.get(self._ids.get(word, -1)) for word in asked.question.excluded]
        against = [*self._against(found, asked.question), *self._rivals(found, ranked)]
        why = [*_reasons(fields, asked), *against]
        if nearness and is_first:
            why.append(f"{self._shown(ranked[1].slot)} is nearly as near")
        return Match(
            name,
            round(score, 4),
            is_confident=is_first and score >= CONFIDENT and not against,
            is_clear=found.strength >= CLEAR and _KEY not in excluded,
            why=tuple(why),
        )

    # -- what speaks for it and against it ---------------------------------------------------------

    def _fields(self, slot: int) -> dict[int, int]:
        """Word id → the best field that has it."""
        packed = array("I", self._forward[slot])
        fields = (field for field, count in enumerate(packed[:_HEADER]) for _ in range(count))
        return dict(zip(packed[_HEADER:], fields, strict=False))

    def _shown(self, slot: int) -> str:
        name = self._names[slot]
        assert name is not None
        return f"{name.kind} {name.key!r}"

    def _against(self, found: _Found, question: Question) -> Iterator[str]:
        if question.excluded:
            left_out = ", ".join(question.excluded[:SHOWN_MAX])
            yield f"the question leaves something out: {left_out}"
        if question.is_edit:
            yield "the question asks for a change"
        packed = array("I", self._forward[found.slot])
        marks = packed[_HEADER + sum(packed[:_HEADER]) :]
        for path in question.paths[:SHOWN_MAX]:
            if not _is_cited(path, marks):
                yield f"the question names {path.text}, which it does not cite"

    def _rivals(self, found: _Found, ranked: Sequence[_Found]) -> Iterator[str]:
        """Others that the first sentence names in full as well."""
        for each in ranked if found.is_named else ():
            if each.is_named and not (each.key <= found.key or found.key <= each.key):
                yield f"the question is as much about {self._shown(each.slot)}"


def _reasons(fields: Mapping[int, int], asked: _Asked) -> Iterator[str]:
    """Where the question's words are, each with its share of the question."""
    said: dict[int | None, list[str]] = {}
    for each in asked.wanted:
        words = said.setdefault(fields.get(each.id), [])
        if len(words) < SHOWN_MAX:
            words.append(f"{each.word.shown} {each.weight / asked.total:.2f}")
    for field, name in enumerate(_FIELDS):
        if field in said:
            yield f"its {name}: {', '.join(said[field])}"
    if None in said:
        yield f"it lacks: {', '.join(said[None])}"


# -- paths ---------------------------------------------------------------------------------------


def _mark(role: str, parts: Sequence[str]) -> int:
    """Stands for the path's end: a question may name it from anywhere above. Two parts, so that
    `index.ts` of one directory is not that of another."""
    return crc32(f"{role}{'/'.join(parts[-2:])}".encode("utf-8", "surrogatepass"))


def _marks(paths: Iterable[str]) -> list[int]:
    """Of the files among them by name with and without directory, of directories and patterns by
    what is below them, and of the directories that files are in."""
    marks: dict[int, None] = {}
    for path in paths:
        parts = [part for part in path.removeprefix("!").split("/") if part not in ("", ".")]
        if parts and ":" in parts[0]:
            parts[0] = parts[0].partition(":")[2]
        below = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), None)
        if below is not None or path.endswith("/"):
            marks[_mark("below ", parts[:below])] = None
        elif parts:
            marks[_mark("file ", parts)] = None
            marks[_mark("file ", parts[-1:])] = None
            marks[_mark("in ", parts[:-1])] = None
    return list(marks)


def _is_cited(path: Path, marks: Sequence[int]) -> bool:
    parts = path.parts
    if _mark("in " if path.is_directory else "file ", parts) in marks:
        return True
    above = len(parts) + 1 if path.is_directory else len(parts)
    return any(_mark("below ", parts[:end]) in marks for end in range(1, above))
