"""What the store remembers of agents' sessions: what each was told, what explorations cost.

History: losing it costs a repeated answer or a line in a report, never an entry. An entry is named
by its worktree's id, kind and key; `version` is the id of the version that was told. Times are UTC.
`HookRecords` is not thread-safe, as the store; a `Past` reads beside it, in a worker.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from amend.core.model import EntryName, Kind

# Nobody resumes a session after a quarter of a year; a report looks back a month.
FORGET_AFTER: Final = timedelta(days=90)

# A row is 100 bytes; this is a year of a large team's machine, and 10 MB.
USES_MAX: Final = 100_000

HOOKS_SCHEMA: Final = """
CREATE TABLE openings (repo TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE told (             -- what a session was told of an entry, or did to it
    agent TEXT NOT NULL, session TEXT NOT NULL, repo TEXT NOT NULL,
    kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,
    how TEXT NOT NULL,          -- Told
    at TEXT NOT NULL,
    PRIMARY KEY (agent, session, repo, kind, key, version, how)
) WITHOUT ROWID;
CREATE TABLE explorations (     -- what was stored of them, and what it had cost to find out
    agent TEXT NOT NULL, id TEXT NOT NULL, session TEXT NOT NULL, repo TEXT NOT NULL,
    kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,
    asked BLOB NOT NULL,        -- `core.agent.digest_of` of the whole task; empty: not known
    task TEXT NOT NULL, tokens INTEGER NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (agent, id)
) WITHOUT ROWID;
CREATE INDEX explorations_by_entry ON explorations(repo, kind, key);
CREATE INDEX explorations_by_task ON explorations(repo, asked);
CREATE TABLE uses (             -- what became of each question
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, repo TEXT NOT NULL,
    what TEXT NOT NULL,         -- Use
    kind TEXT, key TEXT,        -- of a miss: none
    tokens INTEGER NOT NULL     -- what that has saved, as far as is known
);
CREATE INDEX uses_by_repo ON uses(repo, what, kind, key);
CREATE TABLE details (          -- all that an exploration said; the entry has its summary
    version INTEGER PRIMARY KEY REFERENCES versions(id) ON DELETE CASCADE, text BLOB NOT NULL
);
"""


class Told(StrEnum):
    SHOWN = "shown"  # beside a prompt or as a head start
    INSTEAD = "instead"  # of an exploration, which was held back
    UNDERMINED = "undermined"  # the session's own edit made it stale
    RECONCILED = "reconciled"  # that was said


class Use(StrEnum):
    HIT = "hit"  # answered instead of an exploration
    HEAD_START = "head_start"
    SHOWN = "shown"  # beside a prompt
    STALE = "stale"  # known, and true no longer
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class Exploration:
    """One that was stored: `tokens` of all its messages, `seconds` from its start to its end."""

    agent: str
    id: str
    session: str
    repo: str
    name: EntryName
    version: int
    asked: bytes
    task: str
    tokens: int
    seconds: float
    at: datetime


@dataclass(frozen=True, slots=True)
class SessionAt:
    """A session of an agent in the worktree with the id `repo`."""

    agent: str
    session: str
    repo: str


@dataclass(frozen=True, slots=True)
class Happened:
    """A verdict change as the store has it. `causes`: JSON."""

    clock: str
    at: str
    repo: str
    kind: str
    key: str
    previous: str
    verdict: str
    causes: str


class HookRecords:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    # -- sessions --------------------------------------------------------------------------------

    def opened(self, repo: str, at: datetime) -> datetime | None:
        """Note that a session opened there; when one did before. Inside a transaction."""
        row = self._db.execute("SELECT at FROM openings WHERE repo=?", (repo,)).fetchone()
        self._db.execute("INSERT OR REPLACE INTO openings VALUES (?,?)", (repo, _stamp(at)))
        return datetime.fromisoformat(row[0]) if row is not None else None

    def tell(
        self,
        to: SessionAt,
        entries: Iterable[tuple[EntryName, int]],
        how: Told,
        at: datetime,
    ) -> None:
        """Inside a transaction."""
        self._db.executemany(
            "INSERT OR IGNORE INTO told VALUES (?,?,?,?,?,?,?,?)",
            (
                (*_of(to), name.kind.value, name.key, version, how.value, _stamp(at))
                for name, version in entries
            ),
        )

    def told(self, to: SessionAt, *hows: Told) -> set[tuple[EntryName, int]]:
        """Entries of which the session was told in one of these ways, with the versions."""
        marks = ",".join("?" * len(hows))
        rows = self._db.execute(
            f"SELECT kind, key, version FROM told WHERE agent=? AND session=? AND repo=?"
            f" AND how IN ({marks})",
            (*_of(to), *(how.value for how in hows)),
        )
        return {(EntryName(Kind(kind), key), version) for kind, key, version in rows}

    # -- explorations ----------------------------------------------------------------------------

    def add_exploration(self, done: Exploration) -> None:
        """One that ended again replaces what it was. Inside a transaction."""
        self._db.execute(
            "INSERT OR REPLACE INTO explorations VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                done.agent,
                done.id,
                done.session,
                done.repo,
                done.name.kind.value,
                done.name.key,
                done.version,
                done.asked,
                done.task,
                done.tokens,
                done.seconds,
                _stamp(done.at),
            ),
        )

    def exploration(self, agent: str, id_: str) -> tuple[str, EntryName, int] | None:
        """The worktree's id, entry and version that the exploration was stored as."""
        row = self._db.execute(
            "SELECT repo, kind, key, version FROM explorations WHERE agent=? AND id=?", (agent, id_)
        ).fetchone()
        return (row[0], EntryName(Kind(row[1]), row[2]), row[3]) if row is not None else None

    def found_by(self, repo: str, asked: bytes) -> EntryName | None:
        """The entry that the last exploration of this very task was stored as."""
        row = self._db.execute(
            "SELECT kind, key FROM explorations WHERE repo=? AND asked=? AND asked<>x''"
            " ORDER BY at DESC LIMIT 1",
            (repo, asked),
        ).fetchone()
        return EntryName(Kind(row[0]), row[1]) if row is not None else None

    def cost(self, repo: str, name: EntryName) -> int | None:
        """The tokens that finding out the entry took the last time; None where nobody knows."""
        row = self._db.execute(
            "SELECT tokens FROM explorations WHERE repo=? AND kind=? AND key=?"
            " ORDER BY at DESC LIMIT 1",
            (repo, name.kind.value, name.key),
        ).fetchone()
        return row[0] if row is not None else None

    def save_detail(self, version: int, text: str) -> None:
        """Inside a transaction."""
        data = text.encode("utf-8", "surrogatepass")
        self._db.execute("INSERT OR REPLACE INTO details VALUES (?,?)", (version, data))

    def detail(self, version: int) -> str | None:
        """All that was said when the version was recorded, where that is more than its summary."""
        row = self._db.execute("SELECT text FROM details WHERE version=?", (version,)).fetchone()
        return row[0].decode("utf-8", "surrogatepass") if row is not None else None

    # -- the ledger ------------------------------------------------------------------------------

    def add_use(
        self,
        by: SessionAt,
        what: Use,
        name: EntryName | None,
        tokens: int,
        at: datetime,
    ) -> None:
        """Inside a transaction."""
        kind, key = (name.kind.value, name.key) if name is not None else (None, None)
        self._db.execute(
            "INSERT INTO uses (at, agent, session, repo, what, kind, key, tokens)"
            " VALUES (?,?,?,?,?,?,?,?)",
            (_stamp(at), *_of(by), what.value, kind, key, tokens),
        )

    def usefulness(self, repo: str) -> dict[EntryName, int]:
        """How often each entry was told of instead of, or before, an exploration."""
        rows = self._db.execute(
            "SELECT kind, key, count(*) FROM uses WHERE repo=? AND what IN (?,?,?)"
            " AND kind IS NOT NULL GROUP BY kind, key",
            (repo, Use.HIT.value, Use.HEAD_START.value, Use.SHOWN.value),
        )
        return {EntryName(Kind(kind), key): count for kind, key, count in rows}

    def totals(self, since: datetime | None = None) -> dict[str, tuple[int, int]]:
        """By `Use`: how many, and the tokens they have saved."""
        rows = self._db.execute(
            "SELECT what, count(*), sum(tokens) FROM uses WHERE at >= ? GROUP BY what",
            (_stamp(since) if since is not None else "",),
        )
        return {what: (count, tokens) for what, count, tokens in rows}

    def forget_old(self, now: datetime) -> None:
        """Inside a transaction."""
        before = _stamp(now - FORGET_AFTER)
        for table in ("openings", "told", "explorations", "uses"):
            self._db.execute(f"DELETE FROM {table} WHERE at < ?", (before,))
        self._db.execute("DELETE FROM uses WHERE n <= (SELECT MAX(n) FROM uses) - ?", (USES_MAX,))


class Past(contextlib.AbstractContextManager["Past"]):
    """A store's history, read through a connection of its own: whoever owns the store goes on
    meanwhile. Belongs into a worker. A `repo` of None: of all repositories."""

    def __init__(self, path: str) -> None:
        """Raises `sqlite3.Error` where it cannot be read now."""
        # Not `immutable`: its owner writes. The name is quoted, since a "?" would end it.
        name = f"file:{quote(os.fsencode(path))}?mode=ro"
        self._db = sqlite3.connect(name, uri=True, isolation_level=None)

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def changes(self, repo: str | None, count: int) -> list[Happened]:
        """The last ones, newest first."""
        rows = self._db.execute(
            "SELECT clock, at, repo, kind, key, previous, verdict, causes FROM changes"
            " WHERE ?1 IS NULL OR repo=?1 ORDER BY n DESC LIMIT ?2",
            (repo, count),
        )
        return [Happened(*row) for row in rows]

    def turns(
        self, repo: str | None, since: datetime, step_s: int, steps: int
    ) -> dict[int, tuple[int, int]]:
        """By the number of the step since then: entries that became stale, and fresh again."""
        rows = self._db.execute(
            f"SELECT {_STEP}, sum(verdict='stale' AND previous<>'stale'),"
            " sum(verdict='fresh' AND previous='stale')"
            " FROM changes WHERE at >= :since AND (:repo IS NULL OR repo=:repo) GROUP BY 1",
            _window(repo, since, step_s, steps),
        )
        return {step: (marks, restores) for step, marks, restores in rows}

    def uses(
        self, repo: str | None, since: datetime, step_s: int, steps: int
    ) -> dict[tuple[int, str], tuple[int, int]]:
        """By step and `Use`: how many, and the tokens they have saved."""
        rows = self._db.execute(
            f"SELECT {_STEP}, what, count(*), sum(tokens) FROM uses"
            " WHERE at >= :since AND (:repo IS NULL OR repo=:repo) GROUP BY 1, 2",
            _window(repo, since, step_s, steps),
        )
        return {(step, what): (count, tokens) for step, what, count, tokens in rows}


# What is later than the last step, as now is by a part of a second, belongs to it.
_STEP: Final = "min(:last, (CAST(strftime('%s', at) AS INTEGER) - :begin) / :step_s)"


def _window(repo: str | None, since: datetime, step_s: int, steps: int) -> dict[str, object]:
    # The tables' times begin alike and end differently; a whole second sorts before both.
    text = since.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
    begin = int(since.timestamp())
    return {"repo": repo, "since": text, "begin": begin, "step_s": step_s, "last": steps - 1}


def _of(session: SessionAt) -> tuple[str, str, str]:
    return session.agent, session.session, session.repo


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
