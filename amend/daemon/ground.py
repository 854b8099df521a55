"""What one worktree's sources look like now.

Compares stat tuples by inequality, hashes what differs or is racy, and remembers the look. The
watch is armed before the first look, so that nothing changes unseen between the two.

Guarantees: `look` never returns a fingerprint that was not checked after the call began. `last`
does: it is for marks, which the watcher drives, never for an answer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from amend.core.model import CauseKind, Fingerprint, NoPrint, Source, SourceKind
from amend.edge.files.look import (
    Look,
    look_at_absence,
    look_at_file,
    look_at_glob,
    look_at_listing,
    stat_key,
)
from amend.edge.watch.interface import Watch

# SHA-1 runs at about 1 GB/s, so 1 MiB holds the loop for a millisecond; a larger file is hashed
# in a worker.
INLINE_BYTES_MAX: Final = 1 << 20


class NeedsWorker(Exception):
    """A file too large to hash on the loop: `await hash_in_worker(source)`, then ask again."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.source = source


class Seen:
    """A source with its last look; also the key under which the watch reports it."""

    __slots__ = ("directories", "ground", "look", "source")

    def __init__(self, ground: "Ground", source: Source) -> None:
        self.ground = ground
        self.source = source
        self.look: Look | None = None
        self.directories: tuple[bytes, ...] = ()  # of a glob: whose names decide it


class Ground:
    def __init__(
        self,
        root: bytes,
        watch: Watch | None,
        shared: Callable[[Fingerprint], Fingerprint],
        *,
        inline_bytes_max: int | None = INLINE_BYTES_MAX,
    ) -> None:
        self.root = root
        self.hashes = 0
        self.stats = 0
        self._watch = watch
        self._shared = shared
        self._inline_bytes_max = inline_bytes_max
        self._seen: dict[Source, Seen] = {}
        self._changed: set[Source] = set()

    def hold(self, sources: Iterable[Source]) -> None:
        """Watch these from now on."""
        for source in sources:
            if source not in self._seen:
                seen = self._seen[source] = Seen(self, source)
                self._arm(seen, (source.path,) if source.kind is SourceKind.LISTING else ())

    def same(self, sources: Iterable[Source]) -> tuple[Source, ...]:
        """These, each by the one object that is held for it."""
        return tuple(self._seen[s].source if s in self._seen else s for s in sources)

    def drop(self, sources: Iterable[Source]) -> None:
        for source in sources:
            seen = self._seen.pop(source, None)
            if seen is not None:
                self._disarm(seen)

    def look(self, source: Source) -> Fingerprint:
        """What `source` looks like now. `NeedsWorker`: a large file that must be hashed."""
        if source.repository is not None:
            return NoPrint(CauseKind.UNREADABLE, f"no sibling is named {source.repository}")
        seen = self._seen.get(source)
        if seen is None:
            seen = Seen(self, source)  # not held: looked at afresh each time
        before = seen.look
        if before is not None and not before.racy:
            if source.kind is SourceKind.GLOB:
                self.stats += len(seen.directories)
                stat = b"".join([stat_key(self.root, directory) for directory in seen.directories])
            else:
                self.stats += 1
                stat = stat_key(self.root, source.path)
            if before.stat == stat:
                return before.fingerprint
        return self._look_again(seen, before)

    def last(self, source: Source) -> Fingerprint:
        """What `source` looked like when it was last looked at; now, if never."""
        seen = self._seen.get(source)
        if seen is None or seen.look is None:
            return self.look(source)
        return seen.look.fingerprint

    def last_look(self, source: Source) -> Look | None:
        seen = self._seen.get(source)
        return seen.look if seen is not None else None

    def forget_looks(self) -> None:
        """Distrust every stat: the next look at each source hashes it."""
        for seen in self._seen.values():
            seen.look = None

    def take_changed(self) -> set[Source]:
        """Held sources whose fingerprint has changed since this was last called."""
        changed, self._changed = self._changed, set()
        return changed

    async def look_patiently(self, source: Source) -> Fingerprint:
        """`look`, with a large file hashed in a worker for as often as it changes meanwhile."""
        while True:
            try:
                return self.look(source)
            except NeedsWorker:
                await self.hash_in_worker(source)

    async def hash_in_worker(self, source: Source) -> None:
        seen = self._seen.get(source)
        if seen is None:
            return
        look = await asyncio.to_thread(
            look_at_file, self.root, source.path, now_ns=time.time_ns(), inline_bytes_max=None
        )
        self.hashes += 1
        self._remember(seen, look)

    def _look_again(self, seen: Seen, before: Look | None) -> Fingerprint:
        source, now_ns = seen.source, time.time_ns()
        look: Look | None
        if source.kind is SourceKind.FILE:
            look = look_at_file(
                self.root, source.path, now_ns=now_ns, inline_bytes_max=self._inline_bytes_max
            )
            if look is None:
                if source not in self._seen:
                    self.hold((source,))
                raise NeedsWorker(source)
            self.hashes += 1
        elif source.kind is SourceKind.ABSENT:
            look = look_at_absence(self.root, source.path, now_ns=now_ns)
        elif source.kind is SourceKind.LISTING:
            look = look_at_listing(self.root, source.path, now_ns=now_ns)
        else:
            look, directories = look_at_glob(self.root, source.path, now_ns=now_ns)
            if directories != seen.directories and source in self._seen:
                # Arm what is new, then look once more: a name may have come in between.
                self._arm(seen, directories)
                look, seen.directories = look_at_glob(self.root, source.path, now_ns=now_ns)
            else:
                seen.directories = directories
        return self._remember(seen, look)

    def _remember(self, seen: Seen, look: Look | None) -> Fingerprint:
        assert look is not None
        fingerprint = self._shared(look.fingerprint)
        before = seen.look.fingerprint if seen.look is not None else None
        seen.look = Look(fingerprint, look.stat, look.racy, look.links)
        if before is not None and before is not fingerprint and seen.source in self._seen:
            self._changed.add(seen.source)
        return fingerprint

    def _arm(self, seen: Seen, directories: tuple[bytes, ...]) -> None:
        if self._watch is None:
            return
        if seen.source.kind in (SourceKind.FILE, SourceKind.ABSENT):
            self._watch.want(self.root, seen.source.path, seen)
            return
        old = set(seen.directories)
        for directory in set(directories) - old:
            self._watch.want_names(self.root, directory, seen)
        for directory in old - set(directories):
            self._watch.unwant_names(self.root, directory, seen)
        seen.directories = directories

    def _disarm(self, seen: Seen) -> None:
        if self._watch is None:
            return
        if seen.source.kind in (SourceKind.FILE, SourceKind.ABSENT):
            self._watch.unwant(self.root, seen.source.path, seen)
        else:
            self._arm(seen, ())

    def held(self) -> Iterable[Source]:
        return self._seen.keys()
