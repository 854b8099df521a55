"""One worktree's `.agent-cache.json`: read when it changes, written when a verdict settles.

Reading is cheap to ask for: a stat says whether anything changed. Writing is `SharedFile`'s, with
`core.policy` to say what the file should hold. A file that cannot be parsed changes nothing in
memory and is never written.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from amend.core import policy
from amend.core.model import Place
from amend.core.policy import Held, OnStale, PutBack, Remove, prunable, wanted_edits
from amend.daemon.lock_wait import LockWait
from amend.daemon.memory import Known, Memory
from amend.edge.files.beneath import read_file
from amend.edge.files.look import RACY_NS, changed_at_ns, stat_key
from amend.edge.files.shared import SharedFile
from amend.edge.store import CacheFileRow, Store, payload_digest
from amend.errors import AmendError, DocumentInvalid
from amend.formats.agent_cache import FILE_NAME, TEMPLATE, Edit, Put, apply, merge, parse
from amend.formats.json_text import DOCUMENT_BYTES_MAX

# While git rewrites the worktree nothing is written.
GIT_POLL_S: Final = 0.1

# A verdict that flips back within this costs no write; one that keeps flipping is written at last.
# An editor's save, an undo and git's checkout of a file are over sooner.
SETTLE_S: Final = 0.3
SETTLE_S_MAX: Final = 3.0

_MOVABLE: Final = (Place.FILE, Place.AWAY)
_EMPTY: Final = b"{}"


class CacheFile:
    def __init__(
        self,
        memory: Memory,
        store: Store,
        *,
        on_stale: OnStale,
        write_tracked: bool,
        retain_dir: bytes | None,
        quiet_s: float,
        is_busy: Callable[[], bool],
    ) -> None:
        """`is_busy`: whether git is rewriting the worktree."""
        self.learnt = 0  # how often the file's contents were taken in
        self.problem: str | None = None  # why the file as a whole cannot be understood
        self.tracked: bool | None = None  # by git; None: not known yet, so nothing is written
        self._memory = memory
        self._store = store
        self.on_stale = on_stale
        self._write_tracked = write_tracked
        self._lock_wait = LockWait(is_busy)
        self._stat: bytes | None = None
        self._racy = False
        self._digest: bytes | None = None  # digest of the bytes; None: there was no file
        self._first = True
        self._timer: asyncio.TimerHandle | None = None
        self._ask_timer: asyncio.TimerHandle | None = None
        self._asked_since_s: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.shared = SharedFile(
            memory.root,
            FILE_NAME,
            retain_dir=retain_dir,
            plan=self._plan,
            merge=merge,
            journal=self._journal,
            quiet_s=quiet_s,
        )

    # -- reading ---------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Learn what the file holds if it has changed since it was last read."""
        now = stat_key(self._memory.root, FILE_NAME)
        if now == self._stat and not self._racy:
            return
        try:
            data: bytes | None = read_file(
                self._memory.root, FILE_NAME, bytes_max=DOCUMENT_BYTES_MAX
            )
        except FileNotFoundError:
            data = None
        except (AmendError, OSError) as error:
            self._stat, self._racy = now, False
            self.problem = f"{FILE_NAME.decode()}: {getattr(error, 'message', error)}"
            return
        self._stat = now
        self._racy = time.time_ns() - changed_at_ns(now) < RACY_NS
        self._learn(data)

    def _learn(self, data: bytes | None) -> None:
        """Take in the file's bytes. Keeps what was known when they cannot be parsed."""
        digest = payload_digest(data) if data is not None else None
        if digest == self._digest and not self._first:
            return
        if self._first and self._is_remembered(digest):
            return
        try:
            document = parse(data if data is not None else _EMPTY)
        except DocumentInvalid as error:
            if not data:  # truncated, about to be written
                return
            self.problem = f"{FILE_NAME.decode()}: {error.message}"
            return
        self.problem = None
        if document.problems:
            first = document.problems[0]
            self.problem = f"{FILE_NAME.decode()}: {first.pointer} {first.rule}"
        written_ns = changed_at_ns(stat_key(self._memory.root, FILE_NAME))
        self._memory.ingest(
            document, written_ns=written_ns, by_time=self._first or self.tracked is True
        )
        self.learnt += 1
        self._digest, self._first = digest, False
        row = CacheFileRow(digest, document.max_age_days, self.problem)
        self._store.save_cache_file(self._memory.id, row)
        self.request()

    def _is_remembered(self, digest: bytes | None) -> bool:
        """At the start: whether the store knows all that these bytes say."""
        row = self._store.cache_file(self._memory.id)
        if row is None or row.digest != digest or self._memory.is_between_places:
            return False
        self._memory.max_age = timedelta(days=row.max_age_days)
        self.problem = row.problem
        self._digest, self._first = digest, False
        self.request()
        return True

    # -- writing ---------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write from now on."""
        self._loop = loop
        self.shared.recover_leftovers()
        self._schedule(0.0)

    def may_write(self) -> str | None:
        """Why the file is not written, None when it is."""
        return self._forbidden() or self.shared.blocked

    def _forbidden(self) -> str | None:
        """Why amend chooses not to write; `shared.blocked` is why it could not."""
        if self.on_stale is OnStale.OBSERVE:
            return "policy.on_stale is observe"
        if self.tracked and not self._write_tracked:
            return "git tracks the file, and policy.write_tracked is false"
        return None

    def request(self) -> None:
        """A verdict changed: the file may need a write once verdicts have settled."""
        if self._loop is None or self._forbidden():
            return
        now_s = self._loop.time()
        if self._asked_since_s is None:
            self._asked_since_s = now_s
        due_s = min(now_s + SETTLE_S, self._asked_since_s + SETTLE_S_MAX)
        if self._ask_timer is not None:
            self._ask_timer.cancel()
        self._ask_timer = self._loop.call_at(due_s, self._ask)

    def _ask(self) -> None:
        assert self._loop is not None
        self._ask_timer = self._asked_since_s = None
        self.shared.request(self._loop.time())
        self._schedule(0.0)

    def noticed(self) -> None:
        """The watch saw the file's name touched."""
        if self._loop is not None:
            self.shared.noticed(self._loop.time())
            self._schedule(0.0)

    def apply_policy(self, on_stale: OnStale, *, write_tracked: bool) -> None:
        """Another policy wants other things of every entry."""
        self._memory.unwritten.update(self._memory.all_known())
        self.on_stale, self._write_tracked = on_stale, write_tracked
        self.request()

    def set_tracked(self, tracked: bool) -> None:
        self.tracked = tracked
        self.request()

    def _schedule(self, delay_s: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._step)

    def _step(self) -> None:
        assert self._loop is not None
        self._timer = None
        now_s = self._loop.time()
        if self.tracked is None:
            return  # `set_tracked` asks again
        if self._lock_wait.lasts(now_s):
            self._schedule(GIT_POLL_S)
            return
        due_s = self.shared.step(now_s)
        if due_s is not None:
            self._schedule(max(0.0, due_s - now_s))

    def _journal(self, data: bytes) -> None:
        """What is about to be replaced; `_plan` has recorded every payload in it durably."""

    def _plan(self, present: bytes | None) -> bytes | None:
        if self._forbidden():
            return None
        self._learn(present)
        now = datetime.now(UTC)
        known = self._memory.all_known()
        held = [self._held(known[name]) for name in self._memory.unwritten if name in known]
        edits = wanted_edits(self.on_stale, held, now)
        if present is None:
            edits = [edit for edit in edits if isinstance(edit, PutBack)]
        if not edits:
            self._note_places((), ())
            self._memory.unwritten.clear()
            return None
        document = parse(present if present is not None else TEMPLATE)
        in_file = (
            (name, each.place, version.ts)
            for name, each in known.items()
            if (version := each.version_in_file()) is not None
        )
        old = prunable(in_file, now, timedelta(days=document.prune_after_days))
        self._note_places(edits, old)
        return apply(document, [self._to_format(edit) for edit in (*edits, *old)])

    def _note_places(self, edits: Sequence[object], old: Sequence[Remove]) -> None:
        """Noted before the write, so that what leaves by amend's hand is not taken for deleted.

        A write that was planned before and did not happen is forgotten.
        """
        leaving = {edit.name: Place.AWAY for edit in edits if isinstance(edit, Remove)}
        leaving.update({edit.name: Place.LEAVING for edit in old})
        for name in {*self._memory.unwritten, *leaving}:
            known = self._memory.all_known().get(name)
            if known is not None and known.file_digest and known.place in _MOVABLE:
                self._memory.replace_in_file(known, leaving.get(name, Place.FILE))

    def _held(self, known: Known) -> Held:
        verdict, causes = self._memory.verdict_in_file(known)
        return Held(
            known.entry.name,
            known.place,
            bool(known.file_digest),
            known.mark,
            known.has_stale_field,
            verdict,
            causes,
            known.since,
        )

    def _to_format(self, edit: policy.Edit) -> Edit:
        if isinstance(edit, PutBack):
            known = self._memory.all_known()[edit.name]
            version = known.entry.versions[0]
            if known.place is Place.AWAY and known.judgement.version is not None:
                version = known.judgement.version
            return Put(edit.name, self._store.recorded(version.id).payload, edit.mark)
        return edit

    def close(self) -> None:
        for timer in (self._timer, self._ask_timer):
            if timer is not None:
                timer.cancel()
        self.shared.close()

    @property
    def path(self) -> str:
        return os.fsdecode(self._memory.root + b"/" + FILE_NAME)
