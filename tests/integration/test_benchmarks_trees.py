"""The benchmark of memory trees runs and judges; what it finds is not judged here.

The tree is tiny, and the figures of a busy machine mean nothing, so no budget is held.
"""

import json
from pathlib import Path

from benchmarks import memory_trees
from benchmarks.memory_trees import TINY
from benchmarks.trees import INDEX, NOTES, indexed, indexes, make_notes, note_title, out_of_step


def test_every_figure_of_a_memory_tree_is_measured_and_written_as_json(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    memory_trees.main(["--json", str(figures)], TINY)

    rows = json.loads(figures.read_text())["rows"]
    assert list(dict.fromkeys(row["group"] for row in rows)) == ["first", *memory_trees.GROUPS]
    assert all(row["measured"] is not None for row in rows)
    assert rows[0]["measured"] > 0.3  # the settle time is in it
    modified = next(row for row in rows if "files modified" in row["what"])
    assert modified["measured"] == 0


def test_a_made_up_tree_is_the_same_each_time_and_has_as_many_notes_as_it_says(
    tmp_path: Path,
) -> None:
    one = make_notes(tmp_path / "one", 2, 3, each=4, sources=5)
    two = make_notes(tmp_path / "two", 2, 3, each=4, sources=5)

    assert len(one.directories) == 2 * (1 + 3)
    assert len(one.notes) == 4 * len(one.directories)
    assert [(one.root / name).read_text() for name in one.notes] == [
        (two.root / name).read_text() for name in two.notes
    ]
    assert sum("`src/" in (one.root / name).read_text() for name in one.notes) == 16


def test_an_index_that_is_missing_or_lists_something_else_is_out_of_step(tmp_path: Path) -> None:
    tree = make_notes(tmp_path / "tree", 1, 1, each=1, sources=1)
    area = tree.directories[0]

    (tree.root / NOTES / INDEX).write_text("# memory/ - all\n\ndir: area-00/ | first\n")
    (tree.root / area / INDEX).write_text("file: gone.aicontext | was here\n")

    assert indexes(tree)[0] == f"{NOTES}/{INDEX}"
    assert indexed(tree, NOTES) == {"area-00": "first"}
    assert out_of_step(tree) == tree.directories


def test_a_title_says_which_note_it_is_and_which_turn() -> None:
    assert note_title(7) == note_title(7)
    assert len({note_title(number, turn) for number in range(50) for turn in range(2)}) == 100
