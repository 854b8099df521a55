"""Which terms of a memory tree would be worth an abbreviation, and whether a dictionary is at all.

A term is a phrase of plain words inside one line: three tokens or more, used three times or more
(the seed's rule). It is suggested only where it saves more than its own line in the dictionary
costs, because that line is loaded each time. Uses are counted without overlap, the most worthwhile
term first, so what is said to be saved is what replacing all of them saves.

Memory grows with the texts, at most `PHRASES_MAX` phrases are remembered beside them.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, islice, pairwise
from typing import Final

# The seed's rule for what may be abbreviated.
TOKENS_MIN: Final = 3
USES_MIN: Final = 3

# Longer phrases are sentences that were copied, not terms.
WORDS_MAX: Final = 6

# The seed measured 5 % at about 100 topics and judged that not worth the upkeep; what is worth it
# should be clearly more, and twice as much is the least that one may call so.
SHARE_MIN: Final = 0.10

# Enough for every pair of words in 10,000 notes; about 100 MB. Beyond it what was seen only once
# is forgotten: a rare phrase may be overlooked.
PHRASES_MAX: Final = 1_000_000

# Nobody reads a longer list, and what comes later saves least.
TERMS_MAX: Final = 200

# Candidates that are weighed against each other, best first; far more than are ever suggested.
_CANDIDATES_MAX: Final = 5_000

# How a phrase is spelled is seen in its first uses.
_SPELLINGS_MAX: Final = 50

_ABBREVIATIONS_TRIED: Final = 3

_RUN: Final = re.compile(r"[^\W_]+")
_CODE: Final = re.compile(r"`[^`]*`")
_PLAIN: Final = re.compile(r"[^\W\d_][^\W_]*(?:['’-][^\W_]+)*")
_OPENING: Final = "(\"'“‘"
_CLOSING: Final = ".,;:!?)\"'”’"

# A term neither begins nor ends with these; inside one they are part of its name.
_LITTLE_WORDS: Final = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "do", "for", "from", "has", "have", "if"}
    | {"in", "into", "is", "it", "its", "no", "not", "of", "on", "one", "only", "or", "our", "per"}
    | {"so", "than", "that", "the", "their", "then", "this", "to", "was", "we", "when", "with"}
)

_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Term:
    """`saves`: over all uses. `cost`: its line in the dictionary. All but `uses` in tokens."""

    abbreviation: str
    phrase: str
    tokens: int
    uses: int
    saves: int
    cost: int

    @property
    def net(self) -> int:
        return self.saves - self.cost

    @property
    def line(self) -> str:
        return f"{self.abbreviation}: {self.phrase}\n"


@dataclass(frozen=True, slots=True)
class Suggestions:
    """`terms`: the most worthwhile first. `share`: of all tokens, what all of them save, net."""

    terms: tuple[Term, ...]
    total_tokens: int
    share: float
    is_worth_it: bool
    reason: str


def suggest(
    texts: Sequence[str],
    count_tokens: Callable[[str], int],
    *,
    known: Mapping[str, str] | None = None,
) -> Suggestions:
    """What to put into the dictionary of `texts`. `known`: what is in it, phrases by abbreviation.

    Known phrases are not suggested again, and no abbreviation is given that is known or is a word
    of the texts.
    """
    known = known or {}
    words = _Words(texts)
    candidates = _candidates(words, count_tokens)
    used = bytearray(len(words.sequence))
    phrases = {phrase.casefold() for phrase in known.values()}
    for each in candidates:
        if each.phrase.casefold() in phrases:
            _use(each, used)
    names = {name.casefold() for name in known}
    candidates = [each for each in candidates if each.phrase.casefold() not in names]
    terms = _chosen(candidates, count_tokens, used, taken=words.spelled | names)
    return _judged(terms, sum(map(count_tokens, texts)), len(texts))


def _judged(terms: Sequence[Term], total_tokens: int, texts: int) -> Suggestions:
    if not terms:
        reason = "no term is long and frequent enough to pay for its own line in a dictionary"
        return Suggestions((), total_tokens, 0.0, is_worth_it=False, reason=reason)
    net, cost = sum(term.net for term in terms), sum(term.cost for term in terms)
    share = net / total_tokens
    is_worth_it = share >= SHARE_MIN
    verdict = "enough for its upkeep" if is_worth_it else "not worth its upkeep"
    reason = (
        f"a dictionary would save {net:,} of {total_tokens:,} tokens ({share:.1%}) where everything"
        f" is read, which is {verdict} (from {SHARE_MIN:.0%} on); a reader of one text loads"
        f" {cost:,} tokens of dictionary and saves {(net + cost) / texts:,.0f} on average"
    )
    return Suggestions(tuple(terms), total_tokens, share, is_worth_it, reason)


# -- the texts as numbers --------------------------------------------------------------------------


class _Words:
    """All words in order as numbers, `_NONE` where a phrase cannot go on.

    `spelled`: whatever is a word in some sense, also inside paths and code, with its case folded.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.words: list[str] = []
        self.spelled: set[str] = set()
        self.sequence = array("i")
        self._numbers: dict[str, int] = {}
        seen: dict[str, tuple[int, ...]] = {}
        for text in texts:
            for line in text.splitlines():
                for chunk in self._plain(line.strip()).split(" "):
                    numbers = seen.get(chunk)
                    if numbers is None:
                        numbers = seen[chunk] = self._numbers_of(chunk)
                    self.sequence.extend(numbers)
                self.sequence.append(_NONE)

    def _plain(self, line: str) -> str:
        """The line without what stands in backticks, which is code and no term."""
        if "`" not in line:
            return line
        self.spelled.update(_RUN.findall(line.casefold()))
        return _CODE.sub(" ` ", line)

    def _numbers_of(self, chunk: str) -> tuple[int, ...]:
        """A word, with a break on the sides where a sign stands; only a break for all else."""
        self.spelled.update(_RUN.findall(chunk.casefold()))
        word = chunk.strip(_OPENING + _CLOSING)
        if _PLAIN.fullmatch(word) is None:
            return (_NONE,)
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        opened, _, closed = chunk.partition(word)
        return (*((_NONE,) if opened else ()), number, *((_NONE,) if closed else ()))

    def folded(self) -> "array[int]":
        """The sequence with words that differ only in case made one, and rare ones as breaks."""
        first: dict[str, int] = {}
        same = [first.setdefault(word.casefold(), at) for at, word in enumerate(self.words)]
        level = array("i", [same[each] if each != _NONE else _NONE for each in self.sequence])
        counts = Counter(level)
        return array("i", [each if counts[each] >= USES_MIN else _NONE for each in level])

    def phrase(self, start: int, length: int) -> str:
        return " ".join(self.words[number] for number in self.sequence[start : start + length])


@dataclass(slots=True)
class _Candidate:
    """A phrase as it is mostly written, and where in the sequence its uses start."""

    phrase: str
    tokens: int
    length: int
    starts: list[int]

    @property
    def net_max(self) -> int:
        """What it saves at best: with an abbreviation of one token, and a line of no more."""
        return len(self.starts) * (self.tokens - 1) - self.tokens


# -- which phrases there are -----------------------------------------------------------------------


def _candidates(words: _Words, count_tokens: Callable[[str], int]) -> list[_Candidate]:
    """The phrases that may be terms, the best first.

    Phrases of n words are looked for only where both phrases of n - 1 words inside are frequent.
    """
    firsts = level = words.folded()
    may_end = [word.casefold() not in _LITTLE_WORDS for word in words.words]
    found: list[_Candidate] = []
    for length in range(1, WORDS_MAX + 1):
        starts: defaultdict[int, list[int]] = defaultdict(list)
        for start, number in enumerate(level):
            if number != _NONE and may_end[firsts[start]] and may_end[firsts[start + length - 1]]:
                starts[number].append(start)
        weighed = (_weighed(words, each, length, count_tokens) for each in starts.values())
        found += (each for each in weighed if each.tokens >= TOKENS_MIN and each.net_max > 0)
        found.sort(key=lambda each: (-each.net_max, each.phrase))
        del found[_CANDIDATES_MAX:]
        level = _longer(level)
    return found


def _weighed(
    words: _Words, starts: list[int], length: int, count_tokens: Callable[[str], int]
) -> _Candidate:
    spellings = Counter(words.phrase(start, length) for start in starts[:_SPELLINGS_MAX])
    phrase = min(spellings, key=lambda each: (-spellings[each], each))
    return _Candidate(phrase, count_tokens(f" {phrase}"), length, starts)


def _longer(level: "array[int]") -> "array[int]":
    """The frequent phrases that are one word longer, numbered anew, by where they start."""
    counts: dict[tuple[int, int], int] = {}
    for pair in pairwise(level):
        if pair[0] == _NONE or pair[1] == _NONE:
            continue
        counts[pair] = counts.get(pair, 0) + 1
        if len(counts) > PHRASES_MAX:
            counts = {each: count for each, count in counts.items() if count > 1}
            if len(counts) > PHRASES_MAX // 2:
                break
    frequent = (pair for pair, count in counts.items() if count >= USES_MIN)
    numbers = {pair: number for number, pair in enumerate(frequent)}
    longer = array("i", [numbers.get(pair, _NONE) for pair in pairwise(level)])
    longer.append(_NONE)
    return longer


# -- which of them become terms --------------------------------------------------------------------


def _chosen(
    candidates: Sequence[_Candidate],
    count_tokens: Callable[[str], int],
    used: bytearray,
    taken: set[str],
) -> list[Term]:
    """The terms, the most worthwhile first; a use inside a better term's use does not count.

    Whoever is at the head of the queue is counted again, and goes back where that was too high.
    """
    queue = [(-each.net_max, at) for at, each in enumerate(candidates)]
    heapify(queue)
    terms: list[Term] = []
    while queue and len(terms) < TERMS_MAX:
        believed, at = heappop(queue)
        each = candidates[at]
        each.starts = _free(each, used)
        if len(each.starts) < USES_MIN or each.net_max <= 0:
            continue
        if each.net_max < -believed:
            heappush(queue, (-each.net_max, at))
            continue
        term = _term(each, count_tokens, taken)
        if term.net > 0:
            terms.append(term)
            taken.add(term.abbreviation.casefold())
            _use(each, used)
    return sorted(terms, key=lambda term: -term.net)


def _use(candidate: _Candidate, used: bytearray) -> None:
    for start in candidate.starts:
        used[start : start + candidate.length] = b"\1" * candidate.length


def _free(candidate: _Candidate, used: bytearray) -> list[int]:
    """The uses that overlap neither with a term's nor with each other."""
    free, end = [], 0
    for start in candidate.starts:
        if start >= end and used.find(1, start, start + candidate.length) < 0:
            free.append(start)
            end = start + candidate.length
    return free


def _term(candidate: _Candidate, count_tokens: Callable[[str], int], taken: set[str]) -> Term:
    abbreviation = _abbreviation(candidate.phrase, count_tokens, taken)
    saved_each = candidate.tokens - count_tokens(f" {abbreviation}")
    uses = len(candidate.starts)
    return Term(
        abbreviation,
        candidate.phrase,
        tokens=candidate.tokens,
        uses=uses,
        saves=uses * saved_each,
        cost=count_tokens(f"{abbreviation}: {candidate.phrase}\n"),
    )


def _abbreviation(phrase: str, count_tokens: Callable[[str], int], taken: set[str]) -> str:
    """The cheapest of the first few that are free; the initials where they cost no more."""
    free = (each for each in _abbreviations(phrase) if each.casefold() not in taken)
    return min(islice(free, _ABBREVIATIONS_TRIED), key=lambda each: count_tokens(f" {each}"))


def _abbreviations(phrase: str) -> Iterator[str]:
    """The initials, then with more of the last word's letters, then numbered; without an end."""
    parts = [re.sub(r"[^A-Z0-9]", "", part.upper()) for part in re.split(r"[ '’-]", phrase)]
    parts = [part for part in parts if part] or ["X"]
    initials = "".join(part[0] for part in parts)
    for letters in range(3 if len(parts) == 1 else 1, 5):
        yield initials[:-1] + parts[-1][:letters]
    for number in count(2):
        yield f"{initials}{number}"
