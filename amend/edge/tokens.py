"""How many tokens a text costs a model: by a real tokenizer where there is one, else estimated.

The real one is `o200k_base` of the package splintr-rs (extra `tokens`), which carries its
vocabulary inside, so nothing is ever downloaded. Other models count differently; what is compared
here are texts with each other, and their order hardly depends on the vocabulary.
Imports nothing heavy until `tokenizer()` is called.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

REAL_NAME: Final = "o200k_base"
ESTIMATE_NAME: Final = "estimate"

# One match is about one token. A word is one token up to ten letters, capitals up to four, digits
# go by threes, signs by twos with the line's end, an indentation is one. Ten, four and two were
# chosen among a few neighbours as the least wrong on this project's own notes and documents.
_PIECE: Final = re.compile(
    r"[A-Z]?[a-z]{1,10}|[A-Z]{1,4}|[0-9]{1,3}"
    r"|[!-/:-@\[-`{-~]{1,2}[\r\n]*|\s*[\r\n]+|[ \t]{2,}|[^\x00-\x7f]"
)


@dataclass(frozen=True, slots=True)
class Counter:
    """`name`: by what it counts. `is_estimate`: no tokenizer is installed."""

    name: str
    is_estimate: bool
    _count: Callable[[str], int]

    def count(self, text: str) -> int:
        """The number of tokens in `text`, which may hold anything that a str can hold."""
        return self._count(text)


def tokenizer() -> Counter:
    """The best counter that is installed here.

    Loading the vocabulary takes about 40 ms and 32 MB (measured) each time: keep what you get.
    """
    try:
        from splintr import Tokenizer  # noqa: PLC0415 - most commands count nothing
    except ImportError:
        return estimate()
    loaded = Tokenizer.from_pretrained(REAL_NAME)

    def count(text: str) -> int:
        # A lone surrogate is no text to a tokenizer. Ordinary: what looks like a control token is
        # only what somebody wrote.
        return len(loaded.encode_ordinary(text.encode("utf-8", "replace").decode()))

    return Counter(REAL_NAME, is_estimate=False, _count=count)


def estimate() -> Counter:
    """A counter that needs nothing.

    On the corpus of `benchmarks/token_corpus.py` it is within 10 % of the real count, both for the
    documents and for the notes (held by a test where the tokenizer is installed); source code and
    text in capitals it overrates by up to a fifth, and a language that is not English by more.
    """
    return Counter(ESTIMATE_NAME, is_estimate=True, _count=_pieces)


def _pieces(text: str) -> int:
    return sum(1 for _ in _PIECE.finditer(text))
