"""Real git repositories for tests: private HOME, nobody's configuration, times that move on."""

import os
import random
import subprocess
from pathlib import Path

from amend.edge.git.places import RepositoryPlaces, discover

# 2026-01-01T00:00:00Z; each command of a `Repository` comes a minute after the one before.
FIRST_COMMIT_S = 1_767_225_600

# Commands that commit nothing; while they run, the time stands still.
ASKING = frozenset({"rev-parse", "hash-object", "log", "cat-file", "config", "add"})


class Repository:
    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.clock_s = FIRST_COMMIT_S
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "C",
            "GIT_COMMITTER_EMAIL": "c@example.org",
            "GIT_EDITOR": "true",
        }

    @property
    def places(self) -> RepositoryPlaces:
        places = discover(os.fsencode(self.root))
        assert places is not None
        return places

    def git(self, *arguments: str | bytes, stdin: bytes = b"", fails: bool = False) -> str:
        if arguments[0] not in ASKING:
            self.clock_s += 60
        date = f"{self.clock_s} +0000"
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
            check=False,
        )
        assert fails or done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return os.fsdecode(done.stdout).rstrip("\n")

    def write(self, path: str | bytes, text: str | bytes) -> None:
        full = os.path.join(os.fsencode(self.root), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def commit(self, subject: str = "a change", **files: str) -> str:
        for path, text in files.items():
            self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def blob(self, text: str | bytes) -> bytes:
        data = text if isinstance(text, bytes) else text.encode()
        return bytes.fromhex(self.git("hash-object", "--stdin", stdin=data))


def new_repository(root: Path, home: Path, *options: str) -> Repository:
    root.mkdir(parents=True, exist_ok=True)
    repository = Repository(root, home)
    repository.git("init", "-q", "-b", "main", "--template=", *options)
    return repository


def random_history(repository: Repository, seed: int, count: int) -> list[bytes]:
    """A fast-import of merges of everything into everything; its paths. Clocks
    differ."""
    dice = random.Random(seed)
    paths = [b"p%d" % i for i in range(14)] + [b"d/p%d" % i for i in range(6)] + [b"d/e/\xff"]
    trees: list[dict[bytes, bytes]] = []
    stream = []
    for number in range(1, count + 1):
        parents: list[int] = []
        if number > 1:
            parents = [number - 1 if dice.random() < 0.97 else dice.randrange(1, number)]
            parents += [dice.randrange(1, number) for _ in range(dice.choice([0, 0, 1, 1, 2]))]
        parents = list(dict.fromkeys(parents))
        tree = dict(trees[parents[0] - 1]) if parents else {}
        for other in parents[1:]:
            theirs = trees[other - 1]
            for path in dice.sample(paths, 5):
                if path in theirs:
                    tree[path] = theirs[path]
        for path in dice.sample(paths, dice.choice([0, 1, 2, 3])):
            if dice.random() < 0.25:
                tree.pop(path, None)
            else:
                tree[path] = b"%d" % dice.randrange(4)
        trees.append(tree)
        when = FIRST_COMMIT_S + number * 60 + dice.choice([0, 0, 0, -600, 600])
        stream.append(b"commit refs/heads/main\nmark :%d\n" % number)
        stream.append(b"committer C <c@example.org> %d +0000\ndata 1\nx\n" % when)
        if parents:
            stream.append(b"from :%d\n" % parents[0])
        stream += [b"merge :%d\n" % other for other in parents[1:]]
        stream.append(b"deleteall\n")
        for path, text in tree.items():
            quoted = path.replace(b"\xff", b"\\377")
            stream.append(b'M 100644 inline "%s"\ndata %d\n%s\n' % (quoted, len(text), text))
    repository.git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
    return paths
