"""All worktrees that amend tends, the watch over them, and what to do when it speaks.

Owns no policy and answers nobody: it adds and drops worktrees, hands touched keys to the worktrees
they belong to, saves verdicts, and knows when everything has settled.
"""

import asyncio
import os
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from amend.core.metrics import Histogram
from amend.core.model import SiblingRule, Source
from amend.core.policy import OnStale
from amend.daemon.cache_file import CacheFile
from amend.daemon.changes import Changes
from amend.daemon.contracts import PATTERNS
from amend.daemon.ground import Ground, Seen
from amend.daemon.memory import Memory, finish_large
from amend.daemon.memory_tree import MemoryTree, TreeKey
from amend.daemon.notes import Notes, key_of
from amend.daemon.siblings import merged
from amend.daemon.worktree import Signal, SignalKey, Worktree, worktree_id
from amend.edge.files.look import changed_at_ns
from amend.edge.git.head import is_locked
from amend.edge.git.linked import linked_worktrees
from amend.edge.git.places import RepositoryPlaces, discover, discover_bare, verify
from amend.edge.store import RepoRow, Store
from amend.edge.watch.interface import Key, Watch
from amend.errors import AmendError, NotFound, Refused

# DESIGN section 10; one that is not the default is the configuration's.
MEMORY_TREES: Final = (b"memory",)

# A checkout touches thousands of files in bursts; one round of judging for each 5 ms of it costs a
# fraction of a core, and a lone edit is still judged at once.
GATHER_S: Final = 0.005

# git appends its reflog before it moves the ref; the last event follows the final state.
HEAD_SETTLE_S: Final = 0.005

# Verdicts and changes reach the disk this much later: history, which a crash may cost.
SAVE_S: Final = 0.2

# `git worktree add` names a worktree before it makes it; a large checkout takes seconds.
LINKED_RETRY_S: Final = 0.25
LINKED_TRIES: Final = 120

# A question may wait for git's answers this long; then it is told what is known.
SYNC_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    on_stale: OnStale = OnStale.MARK
    write_tracked: bool = False
    # Whether a file that changed still supports what cites lines of it that stand.
    is_lenient: bool = True
    # DESIGN section 9: an agent's read-modify-write of the cache is over in a second.
    quiet_s: float = 1.0
    retain_dir: bytes | None = None


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration says of one repository."""

    siblings: tuple[SiblingRule, ...] = ()
    contracts: tuple[bytes, ...] = PATTERNS
    memory: tuple[bytes, ...] = MEMORY_TREES  # `sibling:path` for one in a sibling


@dataclass(frozen=True, slots=True, eq=False)
class ConfigKey:
    """What the watch gives back for the configuration file."""

    changed: Callable[[], None]


class Tending:
    def __init__(
        self,
        store: Store,
        changes: Changes | None,
        watch: Watch | None,
        options: Options,
        *,
        inline_bytes_max: int | None,
    ) -> None:
        """`watch` None: nothing is watched or written, questions are answered all the same."""
        self.store = store
        self.changes = changes
        self.watch = watch
        self.worktrees: dict[str, Worktree] = {}
        self.mark_seconds = Histogram()
        self._options = options
        self._inline_bytes_max = inline_bytes_max
        self._configured: dict[bytes, Configured] = {}
        self._linked: set[str] = set()  # ids of worktrees that nobody registered by name
        self._declined: set[bytes] = set()  # roots that somebody removed
        self._by_root: dict[bytes, Worktree] = {}
        self._by_ground: dict[Ground, Worktree] = {}
        self._trees: dict[tuple[bytes, bytes], MemoryTree] = {}  # by root and path
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._large: set[asyncio.Task[None]] = set()
        self._gathered: set[Key] = set()
        self._gather_timer: asyncio.TimerHandle | None = None
        self._judged_at_s = 0.0
        self._save_timer: asyncio.TimerHandle | None = None
        self.on_failed: Callable[[bytes, BaseException], None] = lambda root, error: None
        # Once it is started; the second says whether nobody named it.
        self.on_added: Callable[[Worktree, bool], None] = lambda worktree, is_linked: None
        self.on_removed: Callable[[Worktree], None] = lambda worktree: None

    # -- worktrees -------------------------------------------------------------------------------

    def add(
        self,
        root: bytes,
        *,
        siblings: Iterable[SiblingRule] = (),
        configured: Configured | None = None,
        is_linked: bool = False,
        is_verified: bool = False,
    ) -> Worktree:
        """Tend the repository at `root`: its worktree, or the directory itself where git has none.

        `siblings` join those that were added before and are remembered; what the configuration says
        now (`configured`) wins. One that `is_linked` is tended for as long as another
        worktree of its repository is registered. Not `is_verified`: git is asked whether it agrees,
        for up to its time limit. Raises `NotFound`, or `Refused` for what is not yours.
        """
        if not os.path.isdir(root):
            raise NotFound(
                f"{os.fsdecode(root)} is no directory", hint="name the root of a repository"
            )
        if discover_bare(root) is not None:
            raise Refused(
                f"{os.fsdecode(root)} is a bare repository and has no files",
                hint="name a worktree of it, or cite it as a sibling: --sibling PATH --track head",
            )
        places = discover(root)
        real = places.root if places is not None else os.path.realpath(root)
        if places is None and os.stat(real).st_uid != os.geteuid():
            raise Refused(f"{os.fsdecode(real)} is not yours", hint="add your own directories")
        if real == b"/":
            raise Refused("the root directory is no repository", hint="name a repository")
        if configured is not None:
            self._configured[real] = configured
        known = self._by_root.get(real)
        if known is None and places is not None and not is_verified:
            verify(places)
        id_ = worktree_id(places, real)
        before = next((row.siblings for row in self.store.repos() if row.id == id_), ())
        added = merged(before, siblings)
        row = RepoRow(id_, real, places.common_dir if places else None, added)
        if not is_linked:
            self._linked.discard(id_)
            self._declined.discard(real)
            with self.store.transaction():
                self.store.add_repo(row, datetime.now(UTC))
        said = self._configured.get(real, Configured())
        rules = merged(added, said.siblings)
        if known is not None:
            self._say(known, rules, said)
            known.contracts.refresh()
            return known
        if self.watch is not None:
            self.watch.add_root(real)
        memory = Memory(
            row.id,
            real,
            store=self.store,
            changes=self.changes,
            watch=self.watch,
            inline_bytes_max=self._inline_bytes_max,
        )
        worktree = self._build(real, places, memory)
        self.worktrees[row.id] = self._by_root[real] = worktree
        self._by_ground[memory.ground] = worktree
        self._say(worktree, rules, said)
        if self.watch is not None:
            worktree.arm()
        worktree.cache_file.refresh()
        worktree.contracts.refresh()
        memory.rejudge(memory.unjudged())
        memory.settle()
        if self._loop is not None:
            self._tend(worktree)
            self.on_added(worktree, is_linked)
            if not is_linked:
                self._linked_soon()
        return worktree

    def _say(
        self, worktree: Worktree, rules: Iterable[SiblingRule], configured: Configured
    ) -> None:
        worktree.set_siblings(rules)
        worktree.contracts.look_for(configured.contracts)
        self._set_trees(worktree, configured.memory)

    # -- linked worktrees ------------------------------------------------------------------------

    def refresh_linked(self) -> bool:
        """Tend the linked worktrees of every registered repository, and those gone no longer.

        Whether each that git names is tended: one that is being made may not be there yet.
        """
        registered = [w for w in self.worktrees.values() if w.id not in self._linked]
        common_dirs = {w.places.common_dir for w in registered if w.places is not None}
        roots: set[bytes] = set()
        complete = True
        for directory in common_dirs:
            for each in linked_worktrees(directory):
                if each.root in self._by_root:
                    roots.add(each.root)
                    continue
                # One that git is just making is no worktree yet, and would be taken for none.
                places = discover(each.root) if each.root is not None else None
                if places is not None and places.common_dir == directory:
                    roots.add(places.root)
                else:
                    complete = False
        for gone in [self.worktrees[i] for i in self._linked]:
            if gone.root not in roots:
                self.remove(gone.id)
                self._declined.discard(gone.root)
        for root in roots - self._by_root.keys() - self._declined:
            try:
                # No question to git on the loop: only its own files name such a root.
                self._linked.add(self.add(root, is_linked=True, is_verified=True).id)
            except (AmendError, OSError):
                complete = False
        return complete

    def _linked_soon(self, tries: int = LINKED_TRIES) -> None:
        """On the loop's next turn; again a little later for as long as git is not done."""

        def refresh(left: int) -> None:
            if not self.refresh_linked() and left > 0 and self._loop is not None:
                self._loop.call_later(LINKED_RETRY_S, refresh, left - 1)

        if self._loop is not None:
            self._loop.call_soon(refresh, tries)

    def beside(self, worktree: Worktree) -> list[Worktree]:
        """The other worktrees of the same repository."""
        if worktree.places is None:
            return []
        common_dir = worktree.places.common_dir
        return [
            other
            for other in self.worktrees.values()
            if other is not worktree
            and other.places is not None
            and other.places.common_dir == common_dir
        ]

    # -- memory trees ----------------------------------------------------------------------------

    def _set_trees(self, worktree: Worktree, specs: Iterable[bytes]) -> None:
        """Keep these in step for the worktree from now on, and none that nobody names."""
        trees: list[MemoryTree] = []
        own: list[bytes] = []
        for spec in dict.fromkeys(specs):
            name, colon, path = spec.partition(b":")
            sibling = worktree.siblings.get(os.fsdecode(name)) if colon else None
            if sibling is None:
                own.append(spec)
                tree = self._tree(worktree.root, spec, worktree.places)
                tree.teach(Notes(worktree.memory), partial(key_of, tuple(own), spec))
                trees.append(tree)
            elif sibling.is_worktree:
                trees.append(self._tree(sibling.root, path, sibling.places))
        worktree.trees = tuple(trees)
        self._forget_trees()

    def _tree(self, root: bytes, path: bytes, places: RepositoryPlaces | None) -> MemoryTree:
        tree = self._trees.get((root, path))
        if tree is None:
            tree = self._trees[root, path] = MemoryTree(
                root,
                path,
                places=places,
                store=self.store,
                watch=self.watch,
                retain_dir=self._options.retain_dir,
            )
            tree.on_failed = self.on_failed
            if self._loop is not None:
                tree.start(self._loop)
        return tree

    def _forget_trees(self) -> None:
        used = {tree for worktree in self.worktrees.values() for tree in worktree.trees}
        for place, tree in list(self._trees.items()):
            if tree not in used:
                del self._trees[place]
                tree.stop()
                if self.watch is not None:
                    tree.disarm()

    def _build(self, root: bytes, places: RepositoryPlaces | None, memory: Memory) -> Worktree:
        options = self._options
        memory.is_lenient = options.is_lenient
        memory.on_unmarked = partial(self._unmarked, memory)
        cache_file = CacheFile(
            memory,
            self.store,
            on_stale=options.on_stale,
            write_tracked=options.write_tracked,
            retain_dir=options.retain_dir,
            quiet_s=options.quiet_s,
            is_busy=lambda: places is not None and is_locked(places),
        )
        return Worktree(root, places, memory, cache_file, self.watch, store=self.store)

    def remove(self, repo_id: str) -> None:
        worktree = self.worktrees.pop(repo_id, None)
        if worktree is None:
            raise NotFound(f"no repository has the id {repo_id}", hint="`amend status` lists them")
        self._linked.discard(repo_id)
        self._declined.add(worktree.root)
        with self.store.transaction():
            self.store.save_verdicts(worktree.memory.unsaved_verdicts())
            self.store.remove_repo(repo_id)
        del self._by_root[worktree.root], self._by_ground[worktree.memory.ground]
        task = self._tasks.pop(repo_id, None)
        if task is not None:
            task.cancel()
        worktree.stop()
        self.on_removed(worktree)
        self._forget_trees()
        if self.watch is not None:
            unused = worktree.watched_roots
            worktree.disarm()
            for other in self.worktrees.values():
                unused -= other.watched_roots
            for root in unused:
                self.watch.drop_root(root)

    def find(self, cwd: bytes) -> Worktree:
        """The worktree of the nearest registered root above. Raises `NotFound`."""
        exact = self._by_root.get(cwd)
        if exact is not None:
            return exact  # a registered root is its own real path; resolving it costs 50 µs
        real = os.path.realpath(cwd)
        root = nearest_root(real, self._by_root)
        if root is not None:
            own = self._other_worktree(real, self._by_root[root])
            if own is None:
                return self._by_root[root]
            self.refresh_linked()
            if own in self._by_root:
                return self._by_root[own]
        raise NotFound(
            f"{os.fsdecode(cwd)} is in no repository that amend tends",
            hint="`amend add PATH` registers one",
        )

    def _other_worktree(self, path: bytes, around: Worktree) -> bytes | None:
        """The root of the linked worktree that `path` is in, where that lies inside of another
        worktree of its repository: files there are not the other one's."""
        while path != around.root:
            if around.places is not None and os.path.isfile(path + b"/.git"):
                places = discover(path)
                if places is not None and places.common_dir == around.places.common_dir:
                    return places.root
            path = os.path.dirname(path)
        return None

    def watch_config(self, directory: bytes, name: bytes, changed: Callable[[], None]) -> None:
        """Call `changed` whenever that file does."""
        assert self.watch is not None
        self.watch.add_root(directory)
        self.watch.want(directory, name, ConfigKey(changed))

    def apply_options(self, options: Options) -> None:
        self._options = options
        for worktree in self.worktrees.values():
            worktree.cache_file.apply_policy(options.on_stale, write_tracked=options.write_tracked)
            worktree.memory.be_lenient(options.is_lenient)

    # -- living ----------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        for worktree in self.worktrees.values():
            self._tend(worktree)
        for tree in self._trees.values():
            tree.start(loop)
        self._linked_soon()
        if self.watch is not None:
            self.watch.start(loop, self._gather)

    def _tend(self, worktree: Worktree) -> None:
        assert self._loop is not None
        worktree.cache_file.start(self._loop)
        task = self._loop.create_task(worktree.tend())
        task.add_done_callback(lambda done: self._ended(worktree, done))
        self._tasks[worktree.id] = task

    def _ended(self, worktree: Worktree, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_failed(worktree.root, error)

    def _gather(self, keys: set[Key]) -> None:
        """The watch's background delivery: at once when it was quiet, else a round each 5 ms."""
        assert self._loop is not None
        self._gathered |= keys
        if self._gather_timer is not None:
            return
        wait_s = self._judged_at_s + GATHER_S - self._loop.time()
        if wait_s <= 0:
            self._judge_gathered(in_burst=False)
        else:
            self._gather_timer = self._loop.call_later(wait_s, self._judge_gathered, True)

    def _judge_gathered(self, in_burst: bool) -> None:
        self._gather_timer = None
        keys, self._gathered = self._gathered, set()
        self.touched(keys, in_burst=in_burst)
        if self._loop is not None:
            self._judged_at_s = self._loop.time()

    def drain(self) -> None:
        """Take in everything that was written before the call, as far as the watch can tell."""
        if self.watch is not None:
            keys = self.watch.drain() | self._gathered
            self._gathered.clear()
            if keys:
                self.touched(keys, in_burst=True)

    def touched(self, keys: set[Key], *, in_burst: bool) -> None:
        sources: dict[Worktree, list[Source]] = {}
        for key in keys:
            if isinstance(key, Seen):
                worktree = self._by_ground.get(key.ground)
                if worktree is not None:
                    sources.setdefault(worktree, []).append(key.source)
            elif isinstance(key, SignalKey):
                if key.signal is Signal.CACHE_FILE:
                    key.worktree.cache_file.refresh()
                    key.worktree.cache_file.noticed()
                elif key.signal is Signal.WORKTREES:
                    self._linked_soon()
                elif key.signal is Signal.CONTRACTS:
                    key.worktree.contracts.noticed()
                    key.worktree.contracts.refresh()
                else:
                    self._head_touched(key.worktree)
            elif isinstance(key, TreeKey):
                key.tree.touched(key.directory)
            elif isinstance(key, ConfigKey):
                key.changed()
        for worktree, some in sources.items():
            self._sources_touched(worktree, some, in_burst)
        self._save_soon()

    def _unmarked(self, memory: Memory, sources: list[Source]) -> None:
        """An answer has found these changed before any mark: is the event on its way, or lost?

        The answer is true either way; a watch that loses events makes no early marks.
        """
        if self.watch is None or self._loop is None or self._large:
            return
        self._gathered |= self.watch.drain()
        self._loop.call_soon(self._gather, set())
        told = {
            key.source
            for key in self._gathered | self.watch.unwatched_keys()
            if isinstance(key, Seen) and key.ground is memory.ground
        }
        watched = [source for source in sources if memory.ground.is_watched(source)]
        if any(source not in told for source in watched):
            memory.unreported += 1

    def _sources_touched(self, worktree: Worktree, sources: list[Source], in_burst: bool) -> None:
        memory = worktree.memory
        before = memory.marks
        large = memory.touched(sources, in_burst=in_burst)
        if memory.marks != before:
            looks = [memory.ground.last_look(source) for source in sources]
            changed_ns = max((changed_at_ns(look.stat) for look in looks if look), default=0)
            if changed_ns:
                self.mark_seconds.observe(max(0.0, (time.time_ns() - changed_ns) / 1e9))
        if large and self._loop is not None:
            task = self._loop.create_task(finish_large(memory, large))
            self._large.add(task)
            task.add_done_callback(self._large.discard)

    def _head_touched(self, worktree: Worktree) -> None:
        worktree.refresh_head()
        if self._loop is not None:
            self._loop.call_later(HEAD_SETTLE_S, worktree.refresh_head)

    def _save_soon(self) -> None:
        if self._loop is not None and self._save_timer is None:
            self._save_timer = self._loop.call_later(SAVE_S, self.save)

    def save(self) -> None:
        self._save_timer = None
        rows = [
            row
            for worktree in self.worktrees.values()
            for row in worktree.memory.unsaved_verdicts()
        ]
        if rows or (self.changes is not None and self.changes.unsaved):
            # History: every verdict is found anew at the next start.
            with self.store.transaction(durable=False):
                self.store.save_verdicts(rows)
                if self.changes is not None:
                    self.changes.save()
        if self.changes is not None and self.changes.unsaved:
            self._save_soon()

    async def sync(self) -> None:
        """Return when everything written before the call is reflected, git's answers included."""
        until_s = time.monotonic() + SYNC_S
        while True:
            self.drain()
            self.refresh_linked()
            for worktree in self.worktrees.values():
                worktree.cache_file.refresh()
                worktree.contracts.refresh()
                worktree.refresh_head()
            for tree in self._trees.values():
                if not tree.is_settled:
                    await tree.refresh()
            waiting = bool(self._large) or not all(w.settled for w in self.worktrees.values())
            if not waiting or time.monotonic() > until_s:
                self.save()
                return
            await asyncio.sleep(0.002)

    async def verify_everything(self, *, forgets: bool = True) -> None:
        """The slow round: look at every source again, trusting no event and no stat.

        Not `forgets`: what is old is kept, since the clock may be wrong about it.
        """
        if forgets:
            with self.store.transaction():
                self.store.forget_old(datetime.now(UTC))
        if self.watch is not None:
            self.watch.retry_unwatched()
        self.refresh_linked()
        for tree in self._trees.values():
            tree.touched_everywhere()
        for worktree in list(self.worktrees.values()):
            worktree.cache_file.refresh()
            worktree.contracts.noticed()
            worktree.contracts.refresh()
            worktree.refresh_head()
            worktree.memory.ground.forget_looks()
            for name in worktree.memory.names():
                known = worktree.memory.known(name)
                if known is not None:
                    await worktree.memory.answer(known)
                    await asyncio.sleep(0)  # questions go first
        self._save_soon()

    async def stop(self) -> None:
        if self._gather_timer is not None:
            self._gather_timer.cancel()
        if self._save_timer is not None:
            self._save_timer.cancel()
        for task in (*self._tasks.values(), *self._large):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._large, return_exceptions=True)
        self._loop = None  # no timer is left behind
        self.save()
        while self.changes is not None and self.changes.unsaved:
            self.save()
        for tree in self._trees.values():
            tree.stop()
        for worktree in self.worktrees.values():
            worktree.stop()
        if self.watch is not None:
            self.watch.close()


def vet(root: bytes) -> None:
    """Ask git whether the repository at `root` is what its files say; `add` says the rest."""
    places = discover(root)
    if places is not None:
        verify(places)


def nearest_root(path: bytes, roots: Container[bytes]) -> bytes | None:
    """The deepest of `roots` that `path` is or is in; None when it is in none."""
    while path not in roots:
        if path in (b"/", b""):
            return None
        path = os.path.dirname(path)
    return path
