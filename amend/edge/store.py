"""What amend remembers across restarts: one SQLite file, WAL, migrated forward by `user_version`.

Holds the registered repositories, every entry's versions (payload, fingerprints, where recorded),
what each entry's place is, and the bounded history of verdict changes. Payloads are read when they
are asked for; memory gets only what verdicts need. Losing the file loses history, never an entry.

Guarantees: a committed write survives a crash (`synchronous=FULL`); a file that is no sound
database is moved aside, never deleted, and reported; one that a newer amend wrote is refused.
Not thread-safe: it belongs to the loop that opened it.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import orjson

from amend.core.evidence import Remembered, from_json, to_json
from amend.core.model import (
    ABSENT,
    VERSIONS_MAX,
    AbsentPrint,
    CauseKind,
    EntryName,
    FilePrint,
    Fingerprint,
    Kind,
    ListingPrint,
    NoPrint,
    Place,
    Problem,
    RelPath,
    SiblingRule,
    Source,
    SourceKind,
    Version,
    path_bytes,
    path_text,
)
from amend.core.policy import Mark
from amend.edge.store_hooks import HOOKS_SCHEMA, HookRecords
from amend.edge.store_trees import TREES_SCHEMA, TreeRecords
from amend.errors import Refused, Unavailable

SCHEMA_VERSION: Final = 3

# An enum's own call takes four times as long, and a start has 300,000 of them.
_KINDS: Final = {kind.value: kind for kind in Kind}
_PLACES: Final = {place.value: place for place in Place}

_T = TypeVar("_T")

# A change is about 300 bytes; 20,000 are a busy month and 6 MB.
CHANGES_MAX: Final = 20_000

# An entry whose key left the file is kept this long, so that a file which comes back by a branch
# switch finds its fingerprints: longer than anybody leaves a branch alone, short enough to bound.
FORGET_AFTER_DAYS: Final = 90

_SCHEMA: Final = """
CREATE TABLE repos (
    id TEXT PRIMARY KEY, root BLOB NOT NULL UNIQUE, common_dir BLOB, added_at TEXT NOT NULL,
    siblings TEXT NOT NULL      -- JSON: [name, root, track] each
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    repo TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    place TEXT NOT NULL,        -- core.policy's Place
    file_digest BLOB NOT NULL,  -- of the payload the cache file held when last seen, or empty
    mark TEXT,                  -- the `stale` field it has there, as JSON; "" one not amend's
    removed_at TEXT,            -- somebody took it out; its versions wait for it to come back
    verdict TEXT, since TEXT,
    UNIQUE (repo, kind, key)
);
CREATE TABLE versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- an ETag: never the same again
    entry INTEGER NOT NULL REFERENCES entries(id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,      -- higher is newer
    payload BLOB NOT NULL, digest BLOB NOT NULL, ts TEXT, sources BLOB NOT NULL,
    recorded_at TEXT NOT NULL, recorded_in BLOB NOT NULL
);
CREATE INDEX versions_by_entry ON versions(entry, rank);
CREATE TABLE cache_files (
    repo TEXT PRIMARY KEY,
    digest BLOB,                -- of the bytes that the entries above were last learnt from
    max_age_days REAL NOT NULL, problem TEXT
);
CREATE TABLE changes (
    n INTEGER PRIMARY KEY AUTOINCREMENT, clock TEXT NOT NULL, at TEXT NOT NULL,
    repo TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    previous TEXT NOT NULL, verdict TEXT NOT NULL, causes TEXT NOT NULL
);
"""

# What each later schema adds to the one before.
_STEPS: Final = {2: TREES_SCHEMA, 3: HOOKS_SCHEMA}


@dataclass(frozen=True, slots=True)
class RepoRow:
    id: str
    root: bytes
    common_dir: bytes | None
    siblings: tuple[SiblingRule, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry as it was when the store last heard of it. `versions` newest first."""

    id: int
    name: EntryName
    place: Place
    file_digest: bytes
    mark: Mark | None  # as it stands in the file
    has_stale_field: bool
    verdict: str | None
    since: datetime | None
    versions: tuple[Version, ...]
    digests: tuple[bytes, ...]  # of the versions' payloads


@dataclass(frozen=True, slots=True)
class CacheFileRow:
    """What was last learnt from a cache file as a whole. `digest` None: there was no file."""

    digest: bytes | None
    max_age_days: float
    problem: str | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A version's payload and origin, read when asked for."""

    payload: bytes
    recorded_at: str
    recorded_in: bytes


@dataclass(frozen=True, slots=True)
class ChangeRow:
    clock: str
    at: str
    repo: str
    name: EntryName
    previous: str
    verdict: str
    causes: str  # JSON


class Store:
    def __init__(self, path: str) -> None:
        """`path` may be ":memory:". `Refused`: a newer schema. `Unavailable`: the disk says no."""
        self.path = path
        self.problems: list[str] = []
        self.migrated_from: int | None = None  # the schema it had, where it was taken forward
        self._prints: dict[Fingerprint, Fingerprint] = {}
        self._db = self._open_sound()
        self.trees = TreeRecords(self._db)
        self.hooks = HookRecords(self._db)

    # -- opening ---------------------------------------------------------------------------------

    def _open_sound(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise Unavailable(
                    f"{self.path}: the store cannot be opened: {error}",
                    hint="check that the state directory is yours, writable and not full",
                ) from error
            aside = f"{self.path}.corrupt-{time.time_ns()}"
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(self.path + suffix, aside + suffix)
            self.problems.append(f"the store was no sound database ({error}); kept as {aside}")
            return self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA foreign_keys=ON")
            db.execute("PRAGMA cache_size=-256")  # KiB; the kernel caches the file as well
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise Refused(
                    f"{self.path}: written by a newer amend (schema {version}, "
                    f"this one knows {SCHEMA_VERSION})",
                    hint="upgrade amend, or set AMEND_STATE_DIR to another directory",
                )
            if version < SCHEMA_VERSION:
                self._migrate(db, version)
            # A damaged page shows here rather than in the middle of an answer.
            (sound,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            if self.path != ":memory:":
                os.chmod(self.path, 0o600)
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection, version: int) -> None:
        """All steps or none; what an older amend could still open is kept beside it."""
        if version > 0 and self.path != ":memory:":
            kept = f"{self.path}.schema-{version}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(kept)
            db.execute("VACUUM INTO ?", (kept,))
            os.chmod(kept, 0o600)
            self.migrated_from = version
        steps = "".join(step for to, step in _STEPS.items() if to > version)
        first = _SCHEMA if version == 0 else ""
        db.executescript(
            f"BEGIN IMMEDIATE;{first}{steps}PRAGMA user_version={SCHEMA_VERSION};COMMIT;"
        )

    @classmethod
    def scratch_copy(cls, path: str) -> "Store":
        """A private copy in memory of the store at `path`, or an empty one; `path` is only read."""
        copy = cls(":memory:")
        if os.path.exists(path):
            try:
                with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
                    db.backup(copy._db)
                (version,) = copy._db.execute("PRAGMA user_version").fetchone()
                if version < SCHEMA_VERSION:
                    copy._migrate(copy._db, version)
            except sqlite3.DatabaseError as error:
                copy.problems.append(f"{path}: the store cannot be read: {error}")
        return copy

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """All writes inside are committed together or not at all. Not nested.

        Not `durable`: the commit waits for no disk, and a power failure may take it back.
        """
        if not durable:
            self._db.execute("PRAGMA synchronous=NORMAL")
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        finally:
            if not durable:
                self._db.execute("PRAGMA synchronous=FULL")

    # -- repositories ----------------------------------------------------------------------------

    def repos(self) -> list[RepoRow]:
        rows = self._db.execute(
            "SELECT id, root, common_dir, siblings FROM repos ORDER BY added_at, id"
        )
        return [
            RepoRow(id_, root, common_dir, _unpack_siblings(siblings))
            for id_, root, common_dir, siblings in rows
        ]

    def add_repo(self, repo: RepoRow, at: datetime) -> None:
        self._db.execute(
            "INSERT INTO repos VALUES (?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET root=excluded.root,"
            " common_dir=excluded.common_dir, siblings=excluded.siblings",
            (repo.id, repo.root, repo.common_dir, _stamp(at), _pack_siblings(repo.siblings)),
        )

    def remove_repo(self, repo_id: str) -> None:
        """Its entries stay, so that adding it again finds their fingerprints."""
        self._db.execute("DELETE FROM repos WHERE id=?", (repo_id,))

    # -- entries and versions --------------------------------------------------------------------

    def entries(self, repo: str) -> Iterator[EntryRow]:
        """The repository's entries with up to `VERSIONS_MAX` versions; not the removed ones."""
        yield from self._entries("e.repo=? AND e.removed_at IS NULL", (repo,))

    def removed_entry(self, repo: str, name: EntryName) -> EntryRow | None:
        """The entry of that name which left the cache file, if it is still remembered."""
        where = "e.repo=? AND e.kind=? AND e.key=? AND e.removed_at IS NOT NULL"
        return next(self._entries(where, (repo, name.kind.value, name.key)), None)

    def _entries(self, where: str, values: tuple[str, ...]) -> Iterator[EntryRow]:
        versions: dict[int, list[Version]] = {}
        digests: dict[int, list[bytes]] = {}
        # Shared between versions: 100,000 entries cite few files.
        sources = _Made(_unpack_source)
        prints = _Made(lambda packed: self.shared(_unpack_print(packed)))
        rows = self._db.execute(
            "SELECT v.entry, v.id, v.digest, v.ts, v.sources FROM versions v"
            f" JOIN entries e ON e.id=v.entry WHERE {where} ORDER BY v.entry, v.rank DESC",
            values,
        )
        for entry, version_id, digest, ts, packed in rows:
            digests.setdefault(entry, []).append(digest)
            version = _unpack(version_id, ts, packed, sources, prints)
            versions.setdefault(entry, []).append(version)
        rows = self._db.execute(
            "SELECT id, kind, key, place, file_digest, verdict, since, mark FROM entries e"
            f" WHERE {where}",
            values,
        )
        for row in rows:
            yield EntryRow(
                id=row[0],
                name=EntryName(_KINDS[row[1]], row[2]),
                place=_PLACES[row[3]],
                file_digest=row[4],
                verdict=row[5],
                since=datetime.fromisoformat(row[6]) if row[6] else None,
                mark=_unpack_mark(row[7]) if row[7] else None,
                has_stale_field=row[7] is not None,
                versions=tuple(versions.get(row[0], ())),
                digests=tuple(digests.get(row[0], ())),
            )

    def save_entry(
        self,
        repo: str,
        name: EntryName,
        *,
        place: Place,
        file_digest: bytes,
        removed_at: datetime | None = None,
    ) -> int:
        """The entry's row id, written or made."""
        removed = _stamp(removed_at) if removed_at else None
        (row_id,) = self._db.execute(
            "INSERT INTO entries (repo, kind, key, place, file_digest, removed_at)"
            " VALUES (?,?,?,?,?,?) ON CONFLICT(repo, kind, key) DO UPDATE SET place=excluded.place,"
            " file_digest=excluded.file_digest, removed_at=excluded.removed_at RETURNING id",
            (repo, name.kind.value, name.key, place.value, file_digest, removed),
        ).fetchone()
        return int(row_id)

    def delete_entry(self, entry: int) -> None:
        """With all its versions."""
        self._db.execute("DELETE FROM entries WHERE id=?", (entry,))

    def save_mark(self, entry: int, mark: Mark | None, *, has_stale_field: bool) -> None:
        packed = _pack_mark(mark) if mark is not None else "" if has_stale_field else None
        self._db.execute("UPDATE entries SET mark=? WHERE id=?", (packed, entry))

    def cache_file(self, repo: str) -> CacheFileRow | None:
        row = self._db.execute(
            "SELECT digest, max_age_days, problem FROM cache_files WHERE repo=?", (repo,)
        ).fetchone()
        return CacheFileRow(*row) if row is not None else None

    def save_cache_file(self, repo: str, row: CacheFileRow) -> None:
        """To be called once all of it is recorded: a start trusts it."""
        self._db.execute(
            "INSERT OR REPLACE INTO cache_files VALUES (?,?,?,?)",
            (repo, row.digest, row.max_age_days, row.problem),
        )

    def save_verdicts(self, rows: Iterable[tuple[int, str, datetime | None]]) -> None:
        """(entry row id, verdict, since when) each."""
        self._db.executemany(
            "UPDATE entries SET verdict=?, since=? WHERE id=?",
            [(verdict, _stamp(since) if since else None, row) for row, verdict, since in rows],
        )

    def add_version(
        self,
        entry: int,
        version: Version,
        payload: bytes,
        *,
        recorded_at: datetime,
        recorded_in: bytes,
    ) -> int:
        """The id of `version`, now the entry's newest. Versions past the limit go."""
        cursor = self._db.execute(
            "INSERT INTO versions"
            " (entry, rank, payload, digest, ts, sources, recorded_at, recorded_in) VALUES"
            " (?, 1 + COALESCE((SELECT MAX(rank) FROM versions WHERE entry=?), 0), ?,?,?,?,?,?)",
            (
                entry,
                entry,
                payload,
                payload_digest(payload),
                _stamp(version.ts) if version.ts else None,
                _pack(version),
                _stamp(recorded_at),
                recorded_in,
            ),
        )
        self._db.execute(
            "DELETE FROM versions WHERE entry=? AND id NOT IN"
            " (SELECT id FROM versions WHERE entry=? ORDER BY rank DESC LIMIT ?)",
            (entry, entry, VERSIONS_MAX),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def promote_version(self, entry: int, version_id: int) -> None:
        """Make an old version the entry's newest again: its payload came back."""
        self._db.execute(
            "UPDATE versions SET rank=1 + (SELECT MAX(rank) FROM versions WHERE entry=?)"
            " WHERE id=?",
            (entry, version_id),
        )

    def update_version(self, version: Version) -> None:
        """Write fingerprints and moves that became known after the version was recorded."""
        self._db.execute("UPDATE versions SET sources=? WHERE id=?", (_pack(version), version.id))

    def recorded(self, version_id: int) -> Recorded:
        row = self._db.execute(
            "SELECT payload, recorded_at, recorded_in FROM versions WHERE id=?", (version_id,)
        ).fetchone()
        return Recorded(*row)

    def forget_old(self, now: datetime) -> None:
        """Drop what was removed long ago and the oldest verdict changes."""
        self.hooks.forget_old(now)
        self._db.execute(
            "DELETE FROM entries WHERE julianday(?) - julianday(removed_at) > ?",
            (_stamp(now), FORGET_AFTER_DAYS),
        )
        self._db.execute(
            "DELETE FROM changes WHERE n <= (SELECT MAX(n) FROM changes) - ?", (CHANGES_MAX,)
        )

    # -- verdict changes -------------------------------------------------------------------------

    def add_changes(self, rows: Iterable[ChangeRow]) -> None:
        self._db.executemany(
            "INSERT INTO changes (clock, at, repo, kind, key, previous, verdict, causes)"
            " VALUES (?,?,?,?,?,?,?,?)",
            [
                (
                    r.clock,
                    r.at,
                    r.repo,
                    r.name.kind.value,
                    r.name.key,
                    r.previous,
                    r.verdict,
                    r.causes,
                )
                for r in rows
            ],
        )

    def shared(self, look: Fingerprint) -> Fingerprint:
        """The one object that stands for every fingerprint equal to `look`."""
        return self._prints.setdefault(look, look)


def payload_digest(payload: bytes) -> bytes:
    """16 bytes that stand for a payload in memory."""
    return hashlib.blake2b(payload, digest_size=16).digest()


# -- packing -------------------------------------------------------------------------------------


class _Made(dict[str, _T]):
    """What each text stands for, made once."""

    def __init__(self, make: Callable[[str], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> _T:
        made = self[text] = self._make(text)
        return made


def _pack(version: Version) -> bytes:
    texts: list[str] = []
    for source, look in zip(version.sources, version.fingerprints, strict=True):
        texts += (_pack_source(source), _pack_print(look))
    document: dict[str, Any] = {"sources": texts}
    if version.problems:
        document["problems"] = [[p.pointer, p.rule] for p in version.problems]
    if version.moves:
        document["moves"] = [[path_text(old), path_text(new)] for old, new in version.moves]
    if version.evidence:
        document["evidence"] = [
            [_pack_source(source), to_json(remembered)] for source, remembered in version.evidence
        ]
    return json.dumps(document, separators=(",", ":")).encode()


def _unpack(
    version_id: int,
    ts: str | None,
    packed: bytes,
    sources: Mapping[str, Source],
    prints: Mapping[str, Fingerprint],
) -> Version:
    try:
        document = orjson.loads(packed)
    except orjson.JSONDecodeError:  # a name that is no UTF-8
        document = json.loads(packed)
    texts = document["sources"]
    return Version(
        id=version_id,
        sources=tuple(map(sources.__getitem__, texts[::2])),
        fingerprints=tuple(map(prints.__getitem__, texts[1::2])),
        ts=datetime.fromisoformat(ts) if ts else None,
        problems=tuple(Problem(*problem) for problem in document.get("problems", ())),
        moves=tuple(
            (RelPath(path_bytes(old)), RelPath(path_bytes(new)))
            for old, new in document.get("moves", ())
        ),
        evidence=tuple(_unpack_evidence(document.get("evidence", ()), sources)),
    )


def _unpack_evidence(
    packed: Iterable[Sequence[Any]], sources: Mapping[str, Source]
) -> Iterator[tuple[Source, Remembered]]:
    """What an older amend remembered otherwise is left out: then any byte of the file counts."""
    for source, remembered in packed:
        with contextlib.suppress(ValueError):
            yield sources[source], from_json(remembered)


def _pack_siblings(rules: Iterable[SiblingRule]) -> str:
    return json.dumps([[rule.name, path_text(rule.root), rule.track] for rule in rules])


def _unpack_siblings(packed: str) -> tuple[SiblingRule, ...]:
    rules = json.loads(packed)
    return tuple(SiblingRule(name, path_bytes(root), track) for name, root, track in rules)


def _pack_mark(mark: Mark) -> str:
    return json.dumps([_stamp(mark.since), mark.cause, mark.files])


def _unpack_mark(packed: str) -> Mark:
    since, cause, files = json.loads(packed)
    return Mark(datetime.fromisoformat(since), cause, tuple(files))


def _pack_source(source: Source) -> str:
    return f"{source.kind.value}:{source.repository or ''}:{path_text(source.path)}"


def _unpack_source(packed: str) -> Source:
    kind, repository, path = packed.split(":", 2)
    return Source(SourceKind(kind), RelPath(path_bytes(path)), repository or None)


def _pack_print(look: Fingerprint) -> str:
    match look:
        case FilePrint(blob, mode, size):
            return f"file:{blob.hex()}:{mode}:{size}"
        case ListingPrint(names):
            return f"names:{path_text(names)}"
        case AbsentPrint():
            return "absent:"
        case NoPrint(reason, detail):
            return f"none:{reason.value}:{detail}"


def _unpack_print(packed: str) -> Fingerprint:
    kind, _, rest = packed.partition(":")
    match kind:
        case "file":
            blob, mode, size = rest.split(":")
            return FilePrint(bytes.fromhex(blob), int(mode), int(size))
        case "names":
            return ListingPrint(path_bytes(rest))
        case "absent":
            return ABSENT
        case _:
            reason, _, detail = rest.partition(":")
            return NoPrint(CauseKind(reason), detail)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
