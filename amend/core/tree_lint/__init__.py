"""What is wrong with a memory tree, by the seed's rules, and how to mend what is mechanical.

Guarantees: findings are sorted and the same for the same tree; a file that amend leaves alone gets
findings for that and no others; mending changes how a line begins or drops a line that says nothing
of its own, and never changes or loses a word. `rules` says what each rule is for.
"""

from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise

from amend.core.aicontext import DICTIONARY_NAME, INDEX_NAME, Directory, Document
from amend.core.tree_lint.alone import left_alone
from amend.core.tree_lint.dictionary import dictionary_findings, uses
from amend.core.tree_lint.index import Elsewhere, fixed_index, folded, index_findings
from amend.core.tree_lint.notes import fixed_note, note_findings
from amend.core.tree_lint.rules import REASONS, Finding, Rule, rules_page, shown

__all__ = ["REASONS", "Finding", "Rule", "fixed_index", "fixed_note", "lint", "rules_page"]


def lint(
    tree: str,
    directories: Sequence[Directory],
    *,
    today: date,
    exists: Callable[[str], bool | None],
    cited: Callable[[Document], Sequence[tuple[int, str]]],
    count_tokens: Callable[[str], int],
) -> list[Finding]:
    """Every finding in the tree at `tree`, sorted by path and line.

    `exists`: whether a path below the repository's root is there, None where that cannot be told.
    `cited`: the paths that a note names, each with its line.
    """
    elsewhere = Elsewhere(directories)
    used = uses(directories)
    findings: list[Finding] = []
    for directory in directories:
        at = _joined(tree, directory.path)
        findings += _clashes(at, directory)
        findings += _index(at, directory, elsewhere, exists)
        for name, note in directory.notes.items():
            path = _joined(at, name)
            findings += left_alone(path, note) or note_findings(path, note, today, exists, cited)
        if directory.dictionary is not None:
            path = _joined(at, DICTIONARY_NAME)
            findings += left_alone(path, directory.dictionary) or dictionary_findings(
                path, directory.dictionary, used, count_tokens
            )
    return sorted(findings, key=lambda found: (found.path, found.line, found.rule, found.message))


def _index(
    at: str, directory: Directory, elsewhere: Elsewhere, exists: Callable[[str], bool | None]
) -> list[Finding]:
    path = _joined(at, INDEX_NAME)
    if directory.index is not None:
        return left_alone(path, directory.index) or index_findings(
            path, directory, elsewhere, exists
        )
    if not directory.children:
        return []  # git knows no empty directory, and an index of nothing helps nobody
    message = f"{shown(at)} has no index: run `amend memory sync`, or add {shown(path)}"
    return [Finding(path, 1, Rule.NO_INDEX, message, is_fixable=True)]


def _clashes(at: str, directory: Directory) -> list[Finding]:
    names = sorted(
        (child.name for child in directory.children), key=lambda name: (folded(name), name)
    )
    return [
        Finding(
            _joined(at, second),
            1,
            Rule.NAME_CLASH,
            f"{shown(first)} and {shown(second)} are one name on some filesystems: rename one",
        )
        for first, second in pairwise(names)
        if folded(first) == folded(second)
    ]


def _joined(*parts: str) -> str:
    return "/".join(part.strip("/") for part in parts if part.strip("/") not in ("", "."))
