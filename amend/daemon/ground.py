"""What one worktree's sources look like now.

Compares stat tuples by inequality, hashes what differs or is racy, and remembers the look. The
watch is armed before the first look, so that nothing changes unseen between the two.

Guarantees: `look` never returns a fingerprint that was not checked after the call began. `last`
does: it is for marks, which the watcher drives, never for an answer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from amend.core.model import CauseKind, FilePrint, Fingerprint, NoPrint, Source, SourceKind
from amend.daemon.siblings import Commit, Sibling, print_in_tree
from amend.edge.files.beneath import read_file
from amend.edge.files.look import (
    Look,
    blob_hash,
    look_at_absence,
    look_at_file,
    look_at_glob,
    look_at_listing,
    stat_key,
)
from amend.edge.watch.interface import Watch
from amend.errors import AmendError

# SHA-1 runs at about 1 GB/s, so 1 MiB holds the loop for a millisecond; a larger file is hashed
# in a worker.
INLINE_BYTES_MAX: Final = 1 << 20


# Cited lines are searched for on the loop, once for each state of the file: 25 ms for this much,
# which is 3,000 lines of source. Of a larger
# file any byte counts.
TEXT_BYTES_MAX: Final = 128 << 10

ON_THE_NETWORK: Final = NoPrint(
    CauseKind.UNREADABLE, "is on the network, where amend does not look"
)


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
        self.siblings: Mapping[str, Sibling] = {}
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
        if source.kind is SourceKind.URL:
            return ON_THE_NETWORK
        seen = self._seen.get(source)
        if seen is None:
            seen = Seen(self, source)  # not held: looked at afresh each time
        before = seen.look
        root = self.root
        if source.repository is not None:
            where = self._where(source.repository)
            if not isinstance(where, bytes):
                return self._look_elsewhere(seen, where)
            root = where
        if before is not None and not before.racy:
            if source.kind is SourceKind.GLOB:
                self.stats += len(seen.directories)
                stat = b"".join([stat_key(root, directory) for directory in seen.directories])
            else:
                self.stats += 1
                stat = stat_key(root, source.path)
            if before.stat == stat:
                return before.fingerprint
        return self._look_again(seen, root)

    def text(self, source: Source, now: FilePrint) -> bytes | None:
        """The bytes that `now` is the print of; None when they are not at hand, or too many."""
        where = self.root if source.repository is None else self._where(source.repository)
        if not isinstance(where, bytes):
            return None
        try:
            data = read_file(where, source.path, bytes_max=TEXT_BYTES_MAX)
        except (AmendError, OSError):
            return None
        return data if blob_hash(data) == now.blob else None

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
        where = self.root if source.repository is None else self._where(source.repository)
        if isinstance(where, bytes):
            look = await asyncio.to_thread(
                look_at_file, where, source.path, now_ns=time.time_ns(), inline_bytes_max=None
            )
            self.hashes += 1
        elif isinstance(where, Commit):
            found = await asyncio.to_thread(print_in_tree, where, source)
            look = Look(found, where.oid.encode(), racy=False)
        else:
            return
        self._remember(seen, look)

    def _where(self, name: str) -> bytes | Commit | NoPrint:
        sibling = self.siblings.get(name)
        if sibling is None:
            return NoPrint(CauseKind.UNREADABLE, f"no sibling is named {name}")
        return sibling.now()

    def _look_elsewhere(self, seen: Seen, where: Commit | NoPrint) -> Fingerprint:
        """At what a commit holds, which never changes; or at nothing."""
        if isinstance(where, NoPrint):
            return self._remember(seen, Look(where, b"", racy=True))
        if seen.look is not None and seen.look.stat == where.oid.encode():
            return seen.look.fingerprint
        if seen.source not in self._seen:
            self.hold((seen.source,))
        raise NeedsWorker(seen.source)

    def _look_again(self, seen: Seen, root: bytes) -> Fingerprint:
        source, now_ns = seen.source, time.time_ns()
        look: Look | None
        if source.kind is SourceKind.FILE:
            look = look_at_file(
                root, source.path, now_ns=now_ns, inline_bytes_max=self._inline_bytes_max
            )
            if look is None:
                if source not in self._seen:
                    self.hold((source,))
                raise NeedsWorker(source)
            self.hashes += 1
        elif source.kind is SourceKind.ABSENT:
            look = look_at_absence(root, source.path, now_ns=now_ns)
        elif source.kind is SourceKind.LISTING:
            look = look_at_listing(root, source.path, now_ns=now_ns)
        else:
            look, directories = look_at_glob(root, source.path, now_ns=now_ns)
            if directories != seen.directories and source in self._seen:
                # Arm what is new, then look once more: a name may have come in between.
                self._arm(seen, directories)
                look, seen.directories = look_at_glob(root, source.path, now_ns=now_ns)
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
        root = self._watched_root(seen.source)
        if self._watch is None or root is None:
            return
        if seen.source.kind in (SourceKind.FILE, SourceKind.ABSENT):
            self._watch.want(root, seen.source.path, seen)
            return
        old = set(seen.directories)
        for directory in set(directories) - old:
            self._watch.want_names(root, directory, seen)
        for directory in old - set(directories):
            self._watch.unwant_names(root, directory, seen)
        seen.directories = directories

    def _disarm(self, seen: Seen) -> None:
        root = self._watched_root(seen.source)
        if self._watch is None or root is None:
            return
        if seen.source.kind in (SourceKind.FILE, SourceKind.ABSENT):
            self._watch.unwant(root, seen.source.path, seen)
        else:
            self._arm(seen, ())

    def _watched_root(self, source: Source) -> bytes | None:
        """None for what stands in a tree of git, in a sibling that is not known, or nowhere."""
        if source.kind is SourceKind.URL:
            return None
        if source.repository is None:
            return self.root
        sibling = self.siblings.get(source.repository)
        return sibling.root if sibling is not None and sibling.is_worktree else None

    def set_siblings(self, siblings: Mapping[str, Sibling]) -> list[Source]:
        """Look there from now on; the sources that this concerns, to be looked at again."""
        concerned = [seen for seen in self._seen.values() if seen.source.repository is not None]
        for seen in concerned:
            self._disarm(seen)
        self.siblings = siblings
        for seen in concerned:
            is_names = seen.source.kind is SourceKind.LISTING
            self._arm(seen, (seen.source.path,) if is_names else ())
            if seen.look is not None:
                seen.look = Look(seen.look.fingerprint, b"", racy=True)
        return [seen.source for seen in concerned]

    def in_sibling(self, name: str) -> list[Source]:
        return [source for source in self._seen if source.repository == name]

    def is_watched(self, source: Source) -> bool:
        """Whether the watch is asked to tell of it."""
        return self._watch is not None and self._watched_root(source) is not None

    def holds(self, source: Source) -> bool:
        return source in self._seen

    def held(self) -> Iterable[Source]:
        return self._seen.keys()
