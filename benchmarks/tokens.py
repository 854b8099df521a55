"""What a memory tree costs to read, in tokens: the seed's table, with a real tokenizer.

    python benchmarks/tokens.py [--json FILE]

Reads the ten topics of `token_corpus`: all wiki pages, all files of the tree, with and without the
dictionary that amend would suggest, the root's index alone, and what two-level access loads for
one topic. The seed's figures (Lean-Mnemo, "Token Efficiency") stand beside them; its absolute ones
are words times 0.77 and less than half of what a tokenizer counts (research/landscape.md, section
1), so percentages are what to compare. Nothing is judged: it exits 0.
"""

import argparse
import json
import platform
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from amend.core.dictionary import Suggestions, Term, suggest
from amend.edge.tokens import Counter, tokenizer
from benchmarks.token_corpus import indexes, notes, pages


@dataclass(frozen=True, slots=True)
class Row:
    """`seed`: the seed's own figure, None where it gives none. `percent`s: of the documents."""

    what: str
    tokens: float
    percent: float
    seed: int | None
    seed_percent: float | None
    note: str = ""


# What the seed's table says.
_SEED_RAW: Final = 2920
_SEED_ALL: Final = 929
_SEED_WITH_DICTIONARY: Final = 881
_SEED_INDEX: Final = 13
_SEED_ONE: Final = 194


def measure(counter: Counter) -> list[Row]:
    """The rows of the table, all counted by `counter`."""
    raw = _total(counter, pages())
    plain = notes()
    found = suggest(list(plain.values()), counter.count)
    root, category = indexes(has_dictionary=False).values()
    one = statistics.mean(map(counter.count, plain.values()))
    both = counter.count(root) + counter.count(category)

    def row(what: str, tokens: float, seed: int | None, note: str = "") -> Row:
        seed_percent = None if seed is None else 100 * seed / _SEED_RAW
        return Row(what, tokens, 100 * tokens / raw, seed, seed_percent, note)

    return [
        row("raw documents, all", raw, _SEED_RAW),
        row("notes and indexes, all", both + _total(counter, plain), _SEED_ALL),
        row(
            "the same with a dictionary",
            _total(counter, with_dictionary(found)),
            _SEED_WITH_DICTIONARY,
            f"{len(found.terms)} terms; {found.reason}",
        ),
        row("index only", counter.count(root), _SEED_INDEX, "the root's, which names categories"),
        row("index and category index", both, None, "where the topics can be seen"),
        row("indexes and one note", both + one, _SEED_ONE, "mean of all notes"),
    ]


def with_dictionary(found: Suggestions) -> dict[str, str]:
    """The whole tree with what was found applied; without a dictionary where nothing was."""
    tree = {
        **indexes(has_dictionary=bool(found.terms)),
        **{name: shortened(text, found.terms) for name, text in notes().items()},
    }
    if found.terms:
        tree["dict.aicontext"] = "".join(term.line for term in found.terms)
    return tree


def shortened(text: str, terms: Sequence[Term]) -> str:
    """The text with each term's phrase replaced, except inside paths and code."""
    for term in terms:
        alone = rf"(?i)(?<![\w/.`'’-]){re.escape(term.phrase)}(?![\w/`'’-]|\.\w)"
        text = re.sub(alone, term.abbreviation, text)
    return text


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'what is loaded':<28}{'tokens':>8}{'of raw':>9}{'seed':>9}{'of raw':>9}"]
    lines.append("-" * len(lines[0]))
    for row in rows:
        line = f"{row.what:<28}{row.tokens:>8,.0f}{row.percent:>8.1f}%"
        if row.seed is not None:
            line += f"{row.seed:>9,}{row.seed_percent:>8.1f}%"
        lines.append(line)
        if row.note:
            lines.append(f"    {row.note}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, counter: Counter | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    chosen = parser.parse_args(arguments)
    counter = counter or tokenizer()
    rows = measure(counter)
    print(f"python {platform.python_version()}  counted by {counter.name}")
    if counter.is_estimate:
        print("no tokenizer is installed (extra tokens): every figure is an estimate")
    print(f"\n{table(rows)}")
    if chosen.json is not None:
        chosen.json.write_text(as_json(counter, rows))
    return 0


def as_json(counter: Counter, rows: Sequence[Row]) -> str:
    document = {
        "tokenizer": counter.name,
        "is_estimate": counter.is_estimate,
        "rows": [{"group": "tokens", **asdict(row)} for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _total(counter: Counter, files: Mapping[str, str]) -> int:
    return sum(map(counter.count, files.values()))


if __name__ == "__main__":
    sys.exit(main())
