"""The seed's published shapes of trees: lint says exactly what is wrong, and sync keeps words."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from amend.core import index_sync
from amend.core.aicontext import LISTS, AddLine, Directory, LineKind
from amend.core.tree_lint import Rule, fixed_index, fixed_note, lint
from amend.formats.aicontext import apply, parse_index, render
from tests import memory_trees

Write = Callable[[Path], None]

FOUND: dict[Write, list[tuple[str, int, Rule]]] = {
    memory_trees.template_tree: [
        ("memory/decisions/index.aicontext", 3, Rule.DANGLING_LINE),
        ("memory/decisions/index.aicontext", 4, Rule.DANGLING_LINE),
    ],
    memory_trees.ten_topics_tree: [
        ("memory/dict.aicontext", 7, Rule.SHORT_TERM),
        ("memory/dict.aicontext", 7, Rule.UNUSED_TERM),
        ("memory/dict.aicontext", 8, Rule.UNUSED_TERM),
        ("memory/index.aicontext", 1, Rule.UNLISTED_DICTIONARY),
    ],
    memory_trees.unlisted_dictionary_tree: [
        ("memory/index.aicontext", 1, Rule.UNLISTED_DICTIONARY),
    ],
    memory_trees.bare_tree: [],
    memory_trees.unkempt_tree: [
        ("memory/notes/conflict.aicontext", 1, Rule.CONFLICT_MARKERS),
        ("memory/notes/latin.aicontext", 1, Rule.NOT_UTF8),
        ("memory/notes/tabs.aicontext", 2, Rule.BAD_INDENTATION),
        ("memory/notes/tabs.aicontext", 3, Rule.BAD_INDENTATION),
    ],
}

ids = [write.__name__ for write in FOUND]
every_tree = pytest.mark.parametrize("write", FOUND, ids=ids)


def written(write: Write, tmp_path: Path) -> list[Directory]:
    write(tmp_path / "memory")
    return memory_trees.read_tree(tmp_path / "memory")


def found(tree: list[Directory]) -> list[tuple[str, int, Rule]]:
    findings = lint(
        "memory",
        tree,
        today=date(2026, 11, 30),
        exists=lambda _: None,
        cited=lambda _: (),
        count_tokens=lambda text: len(text.split()),
    )
    return [(each.path, each.line, each.rule) for each in findings]


@every_tree
def test_lint_says_exactly_what_is_wrong(write: Write, tmp_path: Path) -> None:
    assert found(written(write, tmp_path)) == FOUND[write]


@every_tree
def test_the_sync_keeps_every_line_that_a_person_wrote(write: Write, tmp_path: Path) -> None:
    for directory in written(write, tmp_path):
        assert directory.index is not None
        plan = index_sync.plan(
            directory.index,
            directory.children,
            was_seen=lambda *_: False,
            is_derived=lambda *_: False,
            came_from={},
        )

        synced = parse_index(apply(directory.index, plan.edits))

        kept = [line for line in synced.lines if line in directory.index.lines]
        lists = [line for line in directory.index.lines if line.kind in LISTS]
        assert all(isinstance(edit, AddLine) for edit in plan.edits)
        assert [line for line in kept if line.kind in LISTS] == lists


def test_the_sync_lists_the_dictionary_and_then_nothing_is_missing(tmp_path: Path) -> None:
    root = written(memory_trees.unlisted_dictionary_tree, tmp_path)[0]
    assert root.index is not None
    plan = index_sync.plan(
        root.index,
        root.children,
        was_seen=lambda *_: False,
        is_derived=lambda *_: False,
        came_from={},
    )

    (tmp_path / "memory/index.aicontext").write_bytes(apply(root.index, plan.edits))

    assert found(memory_trees.read_tree(tmp_path / "memory")) == []


def test_every_description_of_the_ten_topics_is_another_one_than_the_title(tmp_path: Path) -> None:
    tree = {each.path: each for each in written(memory_trees.ten_topics_tree, tmp_path)}

    decisions = tree["decisions"]
    assert decisions.index is not None
    said = {line.name: line.text for line in decisions.index.lines if line.kind is LineKind.FILE}
    titles = {child.name: child.title for child in decisions.children}
    assert said.keys() == titles.keys()
    assert len(said) == 10
    assert all(said[name] != titles[name] for name in said)


def test_mending_the_unkempt_tree_leaves_what_only_a_person_can_mend(tmp_path: Path) -> None:
    at = tmp_path / "memory"
    for directory in written(memory_trees.unkempt_tree, tmp_path):
        assert fixed_index(directory) is None
        for name, note in directory.notes.items():
            mended = fixed_note(note)
            if mended is not None:
                (at / directory.path / name).write_bytes(mended)

    left = {rule for _, _, rule in found(memory_trees.read_tree(at))}

    assert left == {Rule.CONFLICT_MARKERS, Rule.NOT_UTF8}


@every_tree
def test_reading_a_tree_gives_its_very_bytes(write: Write, tmp_path: Path) -> None:
    for directory in written(write, tmp_path):
        at = tmp_path / "memory" / directory.path
        assert directory.index is not None
        assert render(directory.index) == (at / "index.aicontext").read_bytes()
        for name, note in directory.notes.items():
            assert render(note) == (at / name).read_bytes()
