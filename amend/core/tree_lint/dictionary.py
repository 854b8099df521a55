"""What is wrong with a dictionary, given how the tree uses its abbreviations."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from amend.core.aicontext import Directory, Document, LineKind
from amend.core.tree_lint.rules import TERM_TOKENS_MIN, TERM_USES_MIN, Finding, Rule, excerpt, shown

Uses = Mapping[str, int] | None
"""How often each abbreviation is used; None where a file could not be read, so nobody knows."""


def uses(directories: Sequence[Directory]) -> Uses:
    """How often notes and indexes of the tree use each abbreviation of its dictionaries, as a word
    of its own, in the same case. Its plural is a use."""
    terms = {term for directory in directories for term in _terms(directory.dictionary)}
    if not terms:
        return {}
    # The longest first: where "JWT-R" is a term as well, it is no use of "JWT".
    choice = "|".join(
        re.escape(term) for term in sorted(terms, key=lambda term: (-len(term), term))
    )
    used = re.compile(rf"(?<!\w)({choice})(?=s?(?!\w))")
    counts: Counter[str] = Counter()
    for document in _documents(directories):
        if document.problem is not None and not document.lines:
            return None
        counts.update(used.findall(_text(document)))
    return counts


def dictionary_findings(
    path: str, dictionary: Document, used: Uses, count_tokens: Callable[[str], int]
) -> Iterable[Finding]:
    """All but what keeps amend from understanding the dictionary."""
    first: dict[str, int] = {}
    for number, line in enumerate(dictionary.lines, 1):
        if line.kind is LineKind.TERM:
            term = line.name
            if term in first:
                message = f"{shown(term)} is explained in line {first[term]} too: keep one of them"
                yield Finding(path, number, Rule.DUPLICATE_LINE, message)
                continue
            first[term] = number
            yield from _use(path, number, term, used)
            tokens = count_tokens(line.text)
            if tokens < TERM_TOKENS_MIN:
                message = (
                    f"{shown(line.text)} has {_count(tokens, 'token')}, below {TERM_TOKENS_MIN} "
                    f"nothing is saved: write it out for {shown(term)} and remove the line"
                )
                yield Finding(path, number, Rule.SHORT_TERM, message)
        elif line.kind not in (LineKind.BLANK, LineKind.COMMENT, LineKind.CONFLICT):
            text = excerpt(line.raw)
            message = f"{text} explains nothing: write `ABBR: phrase` or `# text`"
            yield Finding(path, number, Rule.UNKNOWN_LINE, message)


def _use(path: str, number: int, term: str, used: Uses) -> Iterable[Finding]:
    if used is None:
        return
    count = used.get(term, 0)
    if count == 0:
        message = f"{shown(term)} is used nowhere in the tree: remove the line"
        yield Finding(path, number, Rule.UNUSED_TERM, message)
    elif count < TERM_USES_MIN:
        message = (
            f"{shown(term)} is used {_count(count, 'time')}, worth a line from {TERM_USES_MIN} on: "
            "write it out and remove the line"
        )
        yield Finding(path, number, Rule.RARE_TERM, message)


def _terms(dictionary: Document | None) -> Iterable[str]:
    lines = dictionary.lines if dictionary is not None else ()
    return (line.name for line in lines if line.kind is LineKind.TERM and line.name)


def _documents(directories: Sequence[Directory]) -> Iterable[Document]:
    for directory in directories:
        if directory.index is not None:
            yield directory.index
        yield from directory.notes.values()


def _text(document: Document) -> str:
    return b"".join(line.raw for line in document.lines).decode(errors="replace")


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
