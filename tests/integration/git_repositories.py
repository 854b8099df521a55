"""Real git repositories for tests: private HOME, nobody's configuration, times that move on."""

import os
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
