"""Random filesystem changes against a watch: every change of a wanted path must be reported.

A small tree of a few names makes collisions common: files become directories and back, directories
swap, the root itself is renamed and made again, files get second names, links chain and dangle.
Every run is decided by its seed; a miss prints it. For more of one kind:

    python -m tests.integration.watch_fuzz KIND SEEDS STEPS [FIRST_SEED]
"""

import contextlib
import os
import random
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Flag, auto

from amend.edge.watch.inotify import Inotify
from amend.edge.watch.interface import Key

NAMES = "abc"
DIRECTORIES = ["", *NAMES, *(f"{x}/{y}" for x in NAMES for y in NAMES)]
WANTED = (
    [f"{x}/{y}/{z}" for x in NAMES for y in NAMES for z in "fg"]
    + [f"{x}/f" for x in NAMES]
    + ["f", *NAMES]
)

# How many changes come between two drains: mostly one, sometimes a burst.
BURSTS = [1, 1, 1, 2, 5, 20]
CHANGES_A_ROUND = 60

Signature = tuple[object, ...]


class Spice(Flag):
    """What a run mixes into plain writes, renames and deletes."""

    PLAIN = 0
    HARD = auto()  # hard links
    SOFT = auto()  # symbolic links
    HANDLES = auto()  # writes through descriptors that were opened long ago
    WISHES = auto()  # paths are unwanted and wanted again while things change
    NESTED = auto()  # half of the tree is wanted through a root of its own


@dataclass
class Tally:
    misses: int = 0
    changes: int = 0
    spurious: int = 0
    rounds: int = 0

    def __iadd__(self, other: "Tally") -> "Tally":
        self.misses += other.misses
        self.changes += other.changes
        self.spurious += other.spurious
        self.rounds += other.rounds
        return self


@dataclass
class Mischief:
    """Changes at random below `root`; the same seed makes the same ones."""

    root: str
    rng: random.Random
    spice: Spice
    handles: list[int] = field(default_factory=list)

    def path(self) -> str:
        depth = self.rng.choice([1, 1, 2, 2, 3])
        names = [self.rng.choice(NAMES) for _ in range(depth - 1)] + [self.rng.choice("abcfg")]
        return "/".join((self.root, *names))

    def change(self) -> None:
        change = self.rng.choices(
            (
                self._make_directory,
                self._write,
                self._unlink,
                self._remove_tree,
                self._rename,
                self._change_mode,
                self._swap_root,
                self._copy_tree,
                self._save_atomically,
                self._symlink,
                self._write_through_handle,
            ),
            weights=(
                *(28, 22, 6, 7, 17, 4, 1, 3, 4),
                12 if Spice.SOFT in self.spice else 0,
                15 if Spice.HANDLES in self.spice else 0,
            ),
        )[0]
        one, other = self.path(), self.path()
        with contextlib.suppress(OSError, shutil.Error):
            change(one, other)
        os.makedirs(self.root, exist_ok=True)

    def burst(self) -> None:
        """The changes between two drains. A second name comes last and is perhaps written through:
        one that is made, used and removed unseen is beyond inotify, and said to be."""
        for _ in range(self.rng.choice(BURSTS)):
            self.change()
        if Spice.HARD in self.spice and self.rng.random() < 0.4:
            one, other = self.path(), self.path()
            with contextlib.suppress(OSError, shutil.Error):
                if self._is_watched(os.path.dirname(other)):
                    self._link(one, other)
                if self.rng.random() < 0.5:
                    self._write(self.rng.choice([one, other]), other)

    def _is_watched(self, directory: str) -> bool:
        """Links lead to deeper directories and out of the root, where new names go unseen."""
        real = os.path.realpath(directory)
        return os.path.relpath(real, self.root) in (".", *DIRECTORIES)

    def close(self) -> None:
        for handle in self.handles:
            os.close(handle)

    def _make_directory(self, one: str, other: str) -> None:
        os.makedirs(one, exist_ok=True)

    def _write(self, one: str, other: str) -> None:
        with open(one, "w") as file:
            file.write(str(self.rng.random()))

    def _unlink(self, one: str, other: str) -> None:
        os.unlink(one)

    def _remove_tree(self, one: str, other: str) -> None:
        shutil.rmtree(one)

    def _rename(self, one: str, other: str) -> None:
        os.rename(one, other)

    def _change_mode(self, one: str, other: str) -> None:
        os.chmod(one, self.rng.choice([0o755, 0o700]))

    def _swap_root(self, one: str, other: str) -> None:
        aside = self.root + ".aside"
        os.rename(self.root, aside)
        if self.rng.random() < 0.5:
            os.rename(aside, self.root)
        else:
            os.makedirs(self.root)
        shutil.rmtree(aside, ignore_errors=True)

    def _copy_tree(self, one: str, other: str) -> None:
        source, target = os.path.realpath(one), os.path.realpath(other)
        if not target.startswith(source):  # a tree copied into itself never ends
            shutil.copytree(source, target, symlinks=True)

    def _save_atomically(self, one: str, other: str) -> None:
        self._write(one + ".tmp", other)
        os.rename(one + ".tmp", one)

    def _link(self, one: str, other: str) -> None:
        self._put(other, lambda new: os.link(one, new, follow_symlinks=False))

    def _symlink(self, one: str, other: str) -> None:
        relative = os.path.relpath(one, os.path.dirname(other))
        target = self.rng.choice([relative, relative, relative, one, "missing", "../a/f"])
        self._put(other, lambda new: os.symlink(target, new))

    def _put(self, path: str, make: Callable[[str], None]) -> None:
        """Make it in place of what is there: at one stroke, or with a gap."""
        if self.rng.random() < 0.5:
            new = f"{self.root}/new"
            make(new)
            with contextlib.suppress(OSError):
                os.rename(new, path)
            if os.path.lexists(new):  # refused, or both were names of one file
                os.unlink(new)
        else:
            self._clear(path)
            make(path)

    def _clear(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def _write_through_handle(self, one: str, other: str) -> None:
        if len(self.handles) < 4 or self.rng.random() < 0.3:
            self.handles.append(os.open(one, os.O_WRONLY))
        if len(self.handles) > 4:
            os.close(self.handles.pop(0))
        os.write(self.rng.choice(self.handles), b"more")


def signature_of_file(path: str) -> Signature:
    """What is at the path, and what it leads to. The names in a directory are another key's."""
    return (_stamp(path, follow=False), _stamp(path, follow=True))


def _stamp(path: str, *, follow: bool) -> Signature:
    try:
        found = os.stat(path, follow_symlinks=follow)
    except OSError as error:
        return (error.errno,)
    if stat.S_ISDIR(found.st_mode):
        return (found.st_dev, found.st_ino, found.st_mode)
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


def signature_of_names(path: str) -> Signature:
    try:
        return (os.stat(path).st_ino, *sorted(os.listdir(path)))
    except OSError as error:
        return (error.errno,)


class Subject:
    """A watch over everything wanted, and what all of it looked like."""

    def __init__(self, root: str, spice: Spice) -> None:
        self.root = root
        self.watch = Inotify()
        self._root_of: dict[str, str] = {}
        nested = f"{root}/b"
        roots = [root, nested] if Spice.NESTED in spice else [root]
        for each in roots:
            self.watch.add_root(os.fsencode(each))
        self.keys: list[tuple[str, bool]] = []
        for names, paths in ((False, WANTED), (True, DIRECTORIES)):
            for path in paths:
                self.keys.append((path, names))
                self._root_of[path] = nested if path.startswith("b/") and nested in roots else root
        for key in self.keys:
            self.want(key)
        self.watch.drain()

    def want(self, key: tuple[str, bool]) -> None:
        want = self.watch.want_names if key[1] else self.watch.want
        want(*self._place(key), key)

    def unwant(self, key: tuple[str, bool]) -> None:
        unwant = self.watch.unwant_names if key[1] else self.watch.unwant
        unwant(*self._place(key), key)

    def _place(self, key: tuple[str, bool]) -> tuple[bytes, bytes]:
        root = self._root_of[key[0]]
        absolute = f"{self.root}/{key[0]}".rstrip("/")
        return os.fsencode(root), os.fsencode(absolute[len(root) + 1 :])

    def look(self, key: tuple[str, bool]) -> Signature:
        path = f"{self.root}/{key[0]}".rstrip("/")
        return signature_of_names(path) if key[1] else signature_of_file(path)

    def look_at_all(self) -> dict[tuple[str, bool], Signature]:
        return {key: self.look(key) for key in self.keys}


@contextlib.contextmanager
def subject(spice: Spice, seed: int) -> Iterator[Subject]:
    # Every other run in memory, where far more changes happen between two drains.
    memory = "/dev/shm" if seed % 2 and os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="amend-fuzz-", dir=memory) as base:
        root = os.path.realpath(base) + "/repo"
        os.makedirs(root)
        it = Subject(root, spice)
        try:
            yield it
        finally:
            it.watch.close()


def judge(
    tally: Tally,
    before: dict[tuple[str, bool], Signature],
    after: dict[tuple[str, bool], Signature],
    reported: set[Key],
    unwatched: set[Key],
    *,
    where: str,
) -> None:
    """Count; a key that was listed as unwatched before the changes may stay silent."""
    changed: set[Key] = {key for key in before if before[key] != after[key]}
    missed = changed - reported - unwatched
    if missed:
        tally.misses += 1
        print(f"{where}: missed {sorted(map(str, missed))}", flush=True)
    tally.changes += len(changed)
    tally.spurious += len(reported - changed)
    tally.rounds += 1


def in_turns(seed: int, steps: int, spice: Spice = Spice.HARD) -> Tally:
    """Change, drain, compare, in one process."""
    rng, tally = random.Random(seed), Tally()
    with subject(spice, seed) as it:
        mischief = Mischief(it.root, rng, spice)
        before, unwatched = it.look_at_all(), it.watch.unwatched_keys()
        for step in range(steps):
            mischief.burst()
            reported = it.watch.drain()
            after = it.look_at_all()
            judge(tally, before, after, reported, unwatched, where=f"seed {seed} step {step}")
            if Spice.WISHES in spice:
                for key in rng.sample(it.keys, 5):
                    it.unwant(key)
                    if rng.random() < 0.5:
                        mischief.change()
                    it.want(key)
                it.watch.drain()
                after = it.look_at_all()
            before, unwatched = after, it.watch.unwatched_keys()
        mischief.close()
    return tally


def at_once(seed: int, rounds: int, spice: Spice = Spice.PLAIN) -> Tally:
    """A child changes while the parent drains; at each barrier the reports cover the changes."""
    tally = Tally()
    with subject(spice, seed) as it, writer(it.root, seed, spice) as (go, is_done):
        rng = random.Random(seed)
        before, unwatched = it.look_at_all(), it.watch.unwatched_keys()
        for number in range(rounds):
            go()
            reported: set[Key] = set()
            while not is_done():
                reported |= it.watch.drain()
                if Spice.WISHES in spice:
                    key = rng.choice(it.keys)
                    it.unwant(key)
                    reported.discard(key)
                    it.want(key)
                    before[key] = it.look(key)
            reported |= it.watch.drain()
            # A link may have led out while the child was at it.
            unwatched |= it.watch.unwatched_keys()
            after = it.look_at_all()
            judge(tally, before, after, reported, unwatched, where=f"seed {seed} round {number}")
            before, unwatched = after, it.watch.unwatched_keys()
    return tally


@contextlib.contextmanager
def writer(
    root: str, seed: int, spice: Spice
) -> Iterator[tuple[Callable[[], object], Callable[[], bool]]]:
    """A child process that makes a round of changes each time it is told to go."""
    done_read, done_write = os.pipe()
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mischief = Mischief(root, random.Random(seed), spice)
            while os.read(go_read, 1) == b"g":
                for _ in range(CHANGES_A_ROUND):
                    mischief.change()
                os.write(done_write, b".")
        finally:
            os._exit(0)
    os.set_blocking(done_read, False)

    def is_done() -> bool:
        try:
            return os.read(done_read, 1) == b"."
        except BlockingIOError:
            return False

    try:
        yield lambda: os.write(go_write, b"g"), is_done
    finally:
        os.write(go_write, b"q")
        os.waitpid(child, 0)
        for fd in (done_read, done_write, go_read, go_write):
            os.close(fd)


KINDS: dict[str, Callable[[int, int], Tally]] = {
    "hard": lambda seed, steps: in_turns(seed, steps, Spice.HARD),
    "soft": lambda seed, steps: in_turns(seed, steps, Spice.SOFT),
    "both": lambda seed, steps: in_turns(seed, steps, Spice.HARD | Spice.SOFT),
    "handles": lambda seed, steps: in_turns(seed, steps, Spice.HANDLES),
    "nested": lambda seed, steps: in_turns(
        seed, steps, Spice.HARD | Spice.SOFT | Spice.NESTED | Spice.WISHES
    ),
    "at-once": lambda seed, steps: at_once(seed, steps, Spice.HANDLES),
    "at-once-soft": lambda seed, steps: at_once(seed, steps, Spice.SOFT | Spice.NESTED),
    "at-once-wishes": lambda seed, steps: at_once(seed, steps, Spice.SOFT | Spice.WISHES),
}


def run(kind: str, seeds: int, steps: int, first_seed: int = 0) -> Tally:
    total = Tally()
    for seed in range(first_seed, first_seed + seeds):
        total += KINDS[kind](seed, steps)
    return total


if __name__ == "__main__":
    began_s = time.monotonic()
    outcome = run(sys.argv[1], *map(int, sys.argv[2:]))
    print(f"{sys.argv[1]}: {outcome} in {time.monotonic() - began_s:.1f} s")
    sys.exit(1 if outcome.misses else 0)
