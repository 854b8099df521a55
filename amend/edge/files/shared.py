"""Write a file that others write too, who take no lock: no version of theirs is ever lost.

A step at a time, without clock or loop; the owner says what time it is. To write:

1. Wait until nobody else has changed the file for `quiet_s`. Own writes are recognised by identity.
2. Read it, ask `plan` what should be there, `journal` what was read.
3. Stage the new version beside it, compare the file once more, exchange the two.
4. Look at what was displaced. If it is not what was read, somebody wrote in between: merge that
   into the file at once. Go on looking for `WATCH_S`, for writes through old descriptors.
5. Somebody may have read the file between 3 and 4 and may write that back. So what was recovered
   is put back again until it has been seen in the file for `WATCH_S` without a break.

How recovered changes are applied, when `ours` replaced `base` and `displaced` was found:
`whole = merge(base, displaced, ours)` is what the file should have become. Whatever is there now,
`present`, is brought to it: `merge(ours, present, whole)` adds what changed since, which wins, and
merging that into `present` keeps the present file's form, and its very bytes when nothing is
missing. The newest recovery is applied first, so that older ones are not undone by a version whose
writer had not seen them.

Guarantees: every version that amend displaces is merged, or kept where it cannot be parsed; a
newer change of a key is never overwritten by an older one; a file that cannot be parsed is never
written. Not guaranteed: a deletion within `WATCH_S` of a collision may be undone; what is written
through a descriptor held open for longer than that is kept, but not merged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from amend.edge.files.exchange import Changed, Door, FileDoor, Held, Present, Staged
from amend.errors import AmendError, DocumentInvalid, reason_of

# A write through a descriptor that was opened before the exchange: agents that truncate and write
# hold theirs for milliseconds, and 0.25 s lost none of 25,000 writes. The rest is margin for a disk
# that was asleep.
WATCH_S: Final = 2.0

# When to look at a displaced file after it was displaced: soon, because late writes come soon.
LOOKS_S: Final = (0.01, 0.05, 0.25, 0.5, 1.0, WATCH_S)

# A file that was written in place may be half done; parsing finds that out for JSON, not for lines.
SETTLE_S: Final = 0.1

# How soon to read a file again that was half written; also keeps `quiet_s` 0 from spinning.
POLL_S_MIN: Final = 0.01

# An editor or agent that is half way through a save is done by then.
INVALID_S: Final = 5.0

# After a full disk or an I/O error: soon again, then seldom.
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0

# Each is an open descriptor. Reached only by a writer that never pauses.
DISPLACED_MAX: Final = 128

# Collisions in a row before the step yields; the next step goes on.
_TRIES: Final = 3

_NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class _Displaced:
    """A displaced file under watch. `seen`: its last content that was dealt with."""

    held: Held
    since_s: float
    next_s: float  # when to look again; never: its watch is over
    seen: bytes | None
    key: bytes = b""
    unsettled: bytes | None = None
    unsettled_since_s: float = 0.0
    problem: str = ""


@dataclass(slots=True, eq=False)
class _Recovery:
    """Changes of others that were displaced. `urgent`: not put into the file yet."""

    source: _Displaced
    ours: bytes | None
    whole: bytes
    urgent: bool = True
    present_since_s: float | None = None


class SharedFile:
    """`plan(present)` returns the bytes that amend wants in the file, None for "as it is";
    `present` None: there is no file. It depends on nothing that amend wrote before, and raises
    `DocumentInvalid` for what it cannot parse.

    `merge(base, theirs, onto)` returns `onto` with every change from `base` to `theirs` made, key
    by key; `theirs` wins; `onto` itself, byte for byte, when nothing is to be changed. `base` None:
    an empty document. Raises `DocumentInvalid` when any of them cannot be parsed.

    `journal(bytes)` is called with what is about to be replaced.
    """

    def __init__(
        self,
        root: bytes,
        path: bytes,
        *,
        retain_dir: bytes | None,
        plan: Callable[[bytes | None], bytes | None],
        merge: Callable[[bytes | None, bytes, bytes], bytes],
        journal: Callable[[bytes], None],
        quiet_s: float = 1.0,
        door: Door | None = None,
    ) -> None:
        self.writes = 0
        self.conflicts = 0  # it changed between being read and being written: started over
        self.recovered = 0  # displaced versions that somebody else had written
        self.reasserted = 0  # recovered changes that had to be put back again
        self.unmerged = 0  # displaced versions that could not be parsed, and are kept
        self.last_error: str | None = None  # since the last write
        self.blocked: str | None = None  # why nothing is written until something changes
        self._door = door if door is not None else FileDoor(root, path, retain_dir)
        self._plan = plan
        self._merge = merge
        self._journal = journal
        self._quiet_s = quiet_s
        self._settle_s = min(quiet_s, SETTLE_S)
        self._poll_s = max(self._settle_s, POLL_S_MIN)
        self._wanted = False
        self._key: bytes | None = None  # of the target when it was last looked at
        self._checked: bytes | None = None  # of the target when recoveries were last compared
        self._quiet_since_s = 0.0
        self._invalid_since_s: float | None = None
        self._retry_at_s = 0.0
        self._failures = 0
        self._look_for_leftovers = False
        self._displaced: list[_Displaced] = []  # in the order in which they were displaced
        self._recoveries: list[_Recovery] = []  # likewise

    def noticed(self, now_s: float) -> None:
        """Something touched the file, be it amend itself."""
        self._notice(now_s, self._door.key())

    def request(self, now_s: float) -> None:
        """The owner believes that `plan` would change something."""
        self._wanted = True
        if self._retry_at_s == _NEVER:
            self._retry_at_s = now_s

    @property
    def is_wanted(self) -> bool:
        """Whether a requested write is still to come."""
        return self._wanted

    def recover_leftovers(self) -> None:
        """Take up what an amend that was killed left: call once, before the first step."""
        self._look_for_leftovers = True

    def step(self, now_s: float) -> float | None:
        """Do what is due; returns when to be called again, None when there is nothing to do."""
        try:
            self._notice(now_s, self._door.key())
            if self._look_for_leftovers:
                self._take_up_leftovers(now_s)
            for _ in range(_TRIES):
                self._inspect(now_s)
                if not self._is_due(now_s) or not self._advance(now_s):
                    break
            self._let_go()
        except DocumentInvalid as error:
            self._invalid(now_s, error)
        except AmendError as error:
            self.blocked = error.message
            self._retry_at_s = _NEVER
        except OSError as error:
            self._failed(now_s, error)
        return self._due_s(now_s)

    def close(self) -> None:
        """Let go of displaced files; the next `recover_leftovers` takes them up."""
        for displaced in self._displaced:
            displaced.held.close()
        self._displaced.clear()
        self._recoveries.clear()

    def _notice(self, now_s: float, key: bytes) -> None:
        if key == self._key:
            return
        self._key = key
        self._quiet_since_s = now_s
        self._invalid_since_s = None
        if self._retry_at_s == _NEVER:
            self._retry_at_s = now_s

    def _is_full(self) -> bool:
        """Whether marks must wait; what was recovered never does."""
        return len(self._displaced) >= DISPLACED_MAX

    def _is_quiet(self, now_s: float) -> bool:
        return now_s >= self._quiet_since_s + self._quiet_s

    def _is_due(self, now_s: float) -> bool:
        if now_s < self._retry_at_s:
            return False
        if self._recoveries:
            return True
        return self._wanted and self._is_quiet(now_s)

    def _advance(self, now_s: float) -> bool:
        """Bring the file to what it should be. True: it was written, look at what was displaced."""
        if self._checked == self._key and not self._wanted:
            self._age(now_s)
            if not any(r.urgent or r.present_since_s is None for r in self._recoveries):
                return False
        try:
            present = self._door.read()
        except Changed:
            self._collided(now_s)
            return False
        self._notice(now_s, present.key)
        content = self._with_recovered(present.data)
        complete = content == present.data
        if complete:
            self._seen_complete(now_s, present.key)
        urgent = not complete and any(r.urgent for r in self._recoveries)
        if not urgent and not (self._is_quiet(now_s) and (self._wanted or not complete)):
            self._break_off(complete)
            return False
        planned = self._plan(content)
        final = content if planned is None else planned
        self._parsed()
        if final is None or final == present.data:
            self._wanted = False
            self._seen_complete(now_s, present.key)
            return False
        self._break_off(complete)
        if complete and self._is_full():
            return False
        return self._write(now_s, present, final, again=not complete and not urgent)

    def _with_recovered(self, present: bytes | None) -> bytes | None:
        """The file with all recovered changes in it; an absent one stays absent."""
        if present is None:
            return None
        content = present
        for recovery in reversed(self._recoveries):
            whole = self._merge(recovery.ours, content, recovery.whole)
            content = self._merge(content, whole, content)
        return content

    def _seen_complete(self, now_s: float, key: bytes) -> None:
        self._checked = key
        for recovery in self._recoveries:
            recovery.urgent = False
            if recovery.present_since_s is None:
                recovery.present_since_s = now_s
        self._age(now_s)

    def _break_off(self, complete: bool) -> None:
        if not complete:
            for recovery in self._recoveries:
                recovery.present_since_s = None

    def _age(self, now_s: float) -> None:
        """Let go of recoveries that have been seen in the file for long enough."""
        self._recoveries = [
            recovery
            for recovery in self._recoveries
            if recovery.present_since_s is None or now_s < recovery.present_since_s + WATCH_S
        ]

    def _write(self, now_s: float, present: Present, new: bytes, *, again: bool) -> bool:
        reason = self._door.why_not_writable()
        if reason is not None:
            self.blocked = reason
            self._retry_at_s = _NEVER
            return False
        if present.data is not None:
            self._journal(present.data)
        staged: Staged | None = None
        try:
            staged = self._door.stage(present, new)
            if self._door.read() != present:
                raise Changed
            if present.data is None:
                key = self._door.create(staged)
            else:
                held, key = self._door.exchange(staged)
                self._displaced.append(_Displaced(held, now_s, now_s, present.data))
        except Changed:
            self._collided(now_s)
            return False
        finally:
            if staged is not None:
                self._door.discard(staged)
        self.writes += 1
        self.reasserted += again
        self.last_error = None
        self._failures = 0
        self._wanted = False
        self._key = key
        self._seen_complete(now_s, key)
        return True

    def _collided(self, now_s: float) -> None:
        self.conflicts += 1
        self._notice(now_s, self._door.key())

    def _inspect(self, now_s: float) -> None:
        """Look at displaced files for what others wrote into them."""
        for displaced in self._displaced:
            if displaced.next_s <= now_s:
                self._look_at(displaced, now_s)

    def _let_go(self) -> None:
        """Of displaced files whose watch is over, once all they say is safe in the file."""
        for displaced in tuple(self._displaced):
            if displaced.next_s == _NEVER and all(
                recovery.source is not displaced for recovery in self._recoveries
            ):
                self._release(displaced)

    def _look_at(self, displaced: _Displaced, now_s: float) -> None:
        key = displaced.held.key()
        over = now_s >= displaced.since_s + WATCH_S  # then look even if no stat shows a change
        if key != displaced.key or displaced.unsettled is not None or over:
            try:
                self._look_into(displaced, now_s)
            except AmendError as error:
                displaced.problem = error.message
            displaced.key = key
        looks_s = (displaced.since_s + look_s for look_s in LOOKS_S)
        displaced.next_s = next((look_s for look_s in looks_s if look_s > now_s), _NEVER)
        if displaced.unsettled is not None and displaced.next_s != _NEVER:
            displaced.next_s = min(displaced.next_s, now_s + self._poll_s)

    def _look_into(self, displaced: _Displaced, now_s: float) -> None:
        content = displaced.held.read()
        if content == displaced.seen or displaced.held.knows(content):
            displaced.unsettled, displaced.problem = None, ""
            return
        if content != displaced.unsettled:
            displaced.unsettled, displaced.unsettled_since_s = content, now_s
            displaced.since_s = now_s
        if displaced.held.in_place and now_s < displaced.unsettled_since_s + self._settle_s:
            return
        held = displaced.held
        if held.ours is None:
            whole = self._merge(None, content, content)  # nothing is known but that it must parse
        else:
            whole = self._merge(held.base, content, held.ours)
        self.recovered += 1
        displaced.seen, displaced.unsettled, displaced.problem = content, None, ""
        self._recoveries = [r for r in self._recoveries if r.source is not displaced]
        self._recoveries.append(_Recovery(displaced, held.ours, whole))
        self._recoveries.sort(key=lambda recovery: self._displaced.index(recovery.source))
        self._quiet_since_s = now_s
        self._checked = None

    def _release(self, displaced: _Displaced) -> None:
        self._displaced.remove(displaced)
        merged = not displaced.problem and displaced.unsettled is None
        if not merged:
            self.unmerged += 1
            problem = displaced.problem or "it keeps changing"
            self.last_error = f"a version that was replaced is kept, not merged: {problem}"
        try:
            displaced.held.release(merged=merged)
        except AmendError as error:
            self.last_error = f"a version that was replaced stays beside the file: {error.message}"

    def _take_up_leftovers(self, now_s: float) -> None:
        for held in self._door.leftovers():
            self._displaced.append(_Displaced(held, now_s, now_s, None))
        self._look_for_leftovers = False

    def _parsed(self) -> None:
        self._invalid_since_s = None
        self.blocked = None

    def _invalid(self, now_s: float, error: DocumentInvalid) -> None:
        """Somebody may be half way through writing it; when it stays so, leave it alone."""
        self.last_error = error.message
        self._break_off(False)
        if self._invalid_since_s is None:
            self._invalid_since_s = now_s
        if now_s < self._invalid_since_s + INVALID_S:
            self._retry_at_s = min(now_s + self._poll_s, self._invalid_since_s + INVALID_S)
        else:
            self.blocked = error.message
            self._retry_at_s = _NEVER

    def _failed(self, now_s: float, error: OSError) -> None:
        self.last_error = reason_of(error)
        self._retry_at_s = now_s + min(RETRY_S_MAX, RETRY_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        self._look_for_leftovers = True  # a failure after the exchange leaves one

    def _due_s(self, now_s: float) -> float | None:
        due_s = [displaced.next_s for displaced in self._displaced]
        if self._look_for_leftovers:
            due_s.append(self._retry_at_s)
        quiet_s = max(self._quiet_since_s + self._quiet_s, self._retry_at_s)
        if self._wanted:
            due_s.append(max(quiet_s, now_s + POLL_S_MIN) if self._is_full() else quiet_s)
        for recovery in self._recoveries:
            if recovery.urgent:
                due_s.append(self._retry_at_s)
            elif recovery.present_since_s is None:
                due_s.append(quiet_s)
            else:
                due_s.append(max(recovery.present_since_s + WATCH_S, self._retry_at_s))
        due = min(due_s, default=_NEVER)
        return None if due == _NEVER else max(due, now_s)
