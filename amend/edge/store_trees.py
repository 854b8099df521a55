"""What the store remembers of memory trees: what was last in each, and which words were amend's.

A tree is its repository's root and its path there. What was ever seen and derived is shared by the
worktrees of a repository (`repository`: its common git directory, or the root where there is none),
since a branch takes its indexes along. Not thread-safe, as the store.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from amend.core.model import path_bytes, path_text

# A title that was changed more often than this has no old index left that says so.
DERIVED_MAX: Final = 16

TREES_SCHEMA: Final = """
CREATE TABLE tree_notes (       -- what was there when amend last looked
    root BLOB NOT NULL, tree BLOB NOT NULL, path BLOB NOT NULL,  -- below the tree
    stat BLOB NOT NULL, blob BLOB NOT NULL, title BLOB NOT NULL,
    PRIMARY KEY (root, tree, path)
) WITHOUT ROWID;
CREATE TABLE tree_lines (       -- what was ever seen, and how amend described it
    repository BLOB NOT NULL, tree BLOB NOT NULL, directory BLOB NOT NULL, name BLOB NOT NULL,
    description BLOB NOT NULL,  -- empty for what was only seen
    at_ns INTEGER NOT NULL,
    PRIMARY KEY (repository, tree, directory, name, description)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class NoteRow:
    """`blob`: git's hash of the note's bytes."""

    stat: bytes
    blob: bytes
    title: str


class TreeRecords:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def notes(self, root: bytes, tree: bytes) -> dict[str, NoteRow]:
        """By path below the tree."""
        rows = self._db.execute(
            "SELECT path, stat, blob, title FROM tree_notes WHERE root=? AND tree=?", (root, tree)
        )
        return {
            path_text(path): NoteRow(stat, blob, path_text(title))
            for path, stat, blob, title in rows
        }

    def save_notes(
        self, root: bytes, tree: bytes, gone: Iterable[str], there: Mapping[str, NoteRow]
    ) -> None:
        """Inside a transaction."""
        self._db.executemany(
            "DELETE FROM tree_notes WHERE root=? AND tree=? AND path=?",
            ((root, tree, path_bytes(path)) for path in gone),
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO tree_notes VALUES (?,?,?,?,?,?)",
            (
                (root, tree, path_bytes(path), row.stat, row.blob, path_bytes(row.title))
                for path, row in there.items()
            ),
        )

    def lines(self, repository: bytes, tree: bytes, directory: str) -> dict[str, set[str]]:
        """Every child that was ever seen in the directory, with what amend called it."""
        found: dict[str, set[str]] = {}
        for name, description in self._db.execute(
            "SELECT name, description FROM tree_lines"
            " WHERE repository=? AND tree=? AND directory=?",
            (repository, tree, path_bytes(directory)),
        ):
            known = found.setdefault(path_text(name), set())
            if description:
                known.add(path_text(description))
        return found

    def add_lines(
        self, repository: bytes, tree: bytes, directory: str, rows: Iterable[tuple[str, str]]
    ) -> None:
        """Remember (name, description) pairs, "" for what was only seen. Inside a transaction."""
        where = (repository, tree, path_bytes(directory))
        self._db.executemany(
            "INSERT OR REPLACE INTO tree_lines VALUES (?,?,?,?,?,?)",
            (
                (*where, path_bytes(name), path_bytes(description), time.time_ns())
                for name, description in rows
            ),
        )
        often = self._db.execute(
            "SELECT name FROM tree_lines WHERE repository=? AND tree=? AND directory=?"
            " AND description<>x'' GROUP BY name HAVING count(*)>?",
            (*where, DERIVED_MAX),
        ).fetchall()
        for (name,) in often:
            place = (*where, name)
            self._db.execute(
                "DELETE FROM tree_lines WHERE repository=? AND tree=? AND directory=? AND name=?"
                " AND description<>x'' AND description NOT IN ("
                "  SELECT description FROM tree_lines WHERE repository=? AND tree=?"
                "  AND directory=? AND name=? AND description<>x'' ORDER BY at_ns DESC LIMIT ?)",
                (*place, *place, DERIVED_MAX),
            )

    def forget(self, root: bytes) -> None:
        """The worktree is no longer tended. Inside a transaction."""
        self._db.execute("DELETE FROM tree_notes WHERE root=?", (root,))
