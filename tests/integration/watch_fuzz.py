"""Random filesystem changes against a watch: every changed wanted path must be reported.

`python -m tests.integration.watch_fuzz KIND SEEDS STEPS` runs more of it and prints the figures.
"""

import contextlib
import os
import random
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from amend.edge.watch.inotify import Inotify

NAMES = "abc"
WANTED = (
    [f"{x}/{y}/{z}" for x in NAMES for y in NAMES for z in "fg"] + [f"{x}/f" for x in NAMES] + ["f"]
)

Signature = tuple[object, ...] | None


@dataclass
class Tally:
    misses: int = 0
    changes: int = 0
    spurious: int = 0

    def __iadd__(self, other: "Tally") -> "Tally":
        self.misses += other.misses
        self.changes += other.changes
        self.spurious += other.spurious
        return self


def signature(path: str, *, follow: bool) -> Signature:
    try:
        s = os.stat(path) if follow else os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(s.st_mode):
        return (s.st_dev, s.st_ino, s.st_mode)  # names in it are for `want_names`
    return (s.st_dev, s.st_ino, s.st_mtime_ns, s.st_size, s.st_mode)


def attempt(action: Callable[[], object]) -> None:
    with contextlib.suppress(OSError, shutil.Error):
        action()


def write(path: str, rng: random.Random) -> None:
    with open(path, "w") as file:
        file.write(str(rng.random()))


def random_path(root: str, rng: random.Random) -> str:
    depth = rng.choice([1, 1, 2, 2, 3])
    names = [rng.choice(NAMES) for _ in range(depth - 1)] + [rng.choice("abcfg")]
    return f"{root}/{'/'.join(names)}"


def swap_root(root: str, rng: random.Random) -> None:
    os.rename(root, root + "x")
    if rng.random() < 0.5:
        os.rename(root + "x", root)
    else:
        os.makedirs(root, exist_ok=True)
    shutil.rmtree(root + "x", ignore_errors=True)


def one_change(root: str, rng: random.Random, *, hard: bool, soft: bool) -> None:
    chance = rng.random()
    one, other = random_path(root, rng), random_path(root, rng)
    if chance < 0.30:
        attempt(lambda: os.makedirs(one, exist_ok=True))
    elif chance < 0.55:
        attempt(lambda: write(one, rng))
    elif chance < 0.62:
        attempt(lambda: os.unlink(one))
    elif chance < 0.70:
        attempt(lambda: shutil.rmtree(one))
    elif chance < 0.86:
        attempt(lambda: os.rename(one, other))
    elif chance < 0.90:
        attempt(lambda: os.chmod(one, rng.choice([0o755, 0o700])))
    elif chance < 0.91:
        attempt(lambda: swap_root(root, rng))
    elif chance < 0.94 and not other.startswith(one):
        attempt(lambda: shutil.copytree(one, other, symlinks=True))
    elif chance < 0.97 and hard:
        attempt(lambda: os.link(one, other, follow_symlinks=False))
    elif soft:
        target = os.path.relpath(one, os.path.dirname(other))
        attempt(lambda: os.symlink(rng.choice([target, one, "missing"]), other))


def in_turns(
    seed: int, steps: int, *, hard: bool = True, soft: bool = False, say: bool = False
) -> Tally:
    """Change, drain, compare; one process. `hard` and `soft`: with links of that kind."""
    rng, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as base:
        root = base + "/repo"
        os.makedirs(root)
        watch = Inotify()
        watch.add_root(os.fsencode(root))
        for path in WANTED:
            watch.want(os.fsencode(root), path.encode(), path)
        watch.drain()
        before = {path: signature(f"{root}/{path}", follow=soft) for path in WANTED}
        for step in range(steps):
            for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
                one_change(root, rng, hard=hard, soft=soft)
                os.makedirs(root, exist_ok=True)
            reported = watch.drain()
            after = {path: signature(f"{root}/{path}", follow=soft) for path in WANTED}
            changed = {path for path in WANTED if before[path] != after[path]}
            if missed := changed - reported:
                tally.misses += 1
                if say:
                    print(f"seed {seed} step {step}: missed {sorted(missed)}")
            tally.changes += len(changed)
            tally.spurious += len(reported - changed)
            before = after
        watch.close()
    return tally


def at_once(seed: int, rounds: int, *, soft: bool = False, say: bool = False) -> Tally:
    """A child changes while the parent drains; at each barrier the reports cover the changes."""
    rng, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as base:
        root = base + "/repo"
        os.makedirs(root)
        watch = Inotify()
        watch.add_root(os.fsencode(root))
        for path in WANTED:
            watch.want(os.fsencode(root), path.encode(), path)
        watch.drain()
        done_read, done_write = os.pipe()
        go_read, go_write = os.pipe()
        child = os.fork()
        if child == 0:
            while os.read(go_read, 1) == b"g":
                for _ in range(60):
                    one_change(root, rng, hard=False, soft=soft)
                    os.makedirs(root, exist_ok=True)
                os.write(done_write, b".")
            os._exit(0)
        os.set_blocking(done_read, False)
        before = {path: signature(f"{root}/{path}", follow=soft) for path in WANTED}
        for number in range(rounds):
            os.write(go_write, b"g")
            reported: set[object] = set()
            while True:
                reported |= watch.drain()
                try:
                    os.read(done_read, 1)
                    break
                except BlockingIOError:
                    pass
            reported |= watch.drain()
            after = {path: signature(f"{root}/{path}", follow=soft) for path in WANTED}
            changed = {path for path in WANTED if before[path] != after[path]}
            if missed := changed - reported:
                tally.misses += 1
                if say:
                    print(f"seed {seed} round {number}: missed {sorted(missed)}")
            tally.changes += len(changed)
            before = after
        os.write(go_write, b"q")
        os.waitpid(child, 0)
        watch.close()
        for fd in (done_read, done_write, go_read, go_write):
            os.close(fd)
    return tally


KINDS: dict[str, Callable[[int, int], Tally]] = {
    "hard": lambda seed, steps: in_turns(seed, steps, say=True),
    "soft": lambda seed, steps: in_turns(seed, steps, hard=False, soft=True, say=True),
    "both": lambda seed, steps: in_turns(seed, steps, soft=True, say=True),
    "at-once": lambda seed, steps: at_once(seed, steps, say=True),
    "at-once-soft": lambda seed, steps: at_once(seed, steps, soft=True, say=True),
}

if __name__ == "__main__":
    kind, seeds, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    total = Tally()
    for seed in range(seeds):
        total += KINDS[kind](seed, steps)
    print(f"{kind}: {total}")
    sys.exit(1 if total.misses else 0)
