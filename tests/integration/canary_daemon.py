"""A real daemon for a hostile repository, and a healthy one that it is to go on answering for."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amend.edge.git import run
from benchmarks.running import Daemon, UnixConnection
from tests.integration.git_repositories import Repository, new_repository

# git's own limit is 5 s; a loop that waited for it once is far beyond this.
STALL_S: Final = 2.0

# The daemon as it is, except that what is asked of git is written down, and that git may be given
# less time than its 5 s.
RECORDED: Final = """
import os, sys
from amend.edge.git import run
run.LIMIT_S = float(os.environ["GIT_LIMIT_S"])
start, path = run._start, os.environ["ASKED"]
def recorded(root, command, *rest, **more):
    with open(path, "a") as file:
        print(*command.words, file=file)
    return start(root, command, *rest, **more)
run._start = recorded
from amend.cli.main import main
sys.exit(main(["run"]))
"""


@contextmanager
def recorded_daemon(base: Path, limit_s: float = run.LIMIT_S) -> Iterator[Daemon]:
    daemon = Daemon(base / "daemon")
    daemon.command = [sys.executable, "-c", RECORDED]
    daemon.env |= {"GIT_LIMIT_S": str(limit_s), "ASKED": str(base / "asked")}
    with daemon:
        yield daemon


class Neighbour:
    """A healthy repository beside, asked about all the time from a connection of its own."""

    def __init__(self, daemon: Daemon, base: Path) -> None:
        self.repository = new_repository(base / "healthy", base)
        self.repository.commit("begin", **{"a.py": "healthy\n"})
        daemon.add(self.repository.root)
        daemon.put(self.repository.root, "healthy", ["a.py"])
        self.answers: list[str] = []
        self.slowest_s = 0.0
        self._socket = daemon.socket
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Neighbour":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        question = json.dumps({"cwd": str(self.repository.root), "key": "healthy"})
        connection = UnixConnection(self._socket)
        while not self._done.wait(0.01):
            began_s = time.monotonic()
            connection.request("POST", "/v1/lookup", question, {"content-type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            self.answers.append(answer.get("verdict", str(answer)))
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        connection.close()


def write_older_entries(root: Path) -> None:
    """Entries of before amend's time, which history has to judge."""
    for when, key in ((datetime(2026, 1, 1, tzinfo=UTC), "old"), (datetime.now(UTC), "new")):
        path = root / ".agent-cache.json"
        cache = json.loads(path.read_text()) if path.exists() else {"topics": {}}
        cache["topics"][key] = {"ts": when.isoformat(), "summary": key, "files": ["a.py", "b.py"]}
        path.write_text(json.dumps(cache))


def include_a_fifo(repository: Repository) -> Path:
    """Every git in the repository waits for somebody to write into this."""
    fifo = repository.root.parent / "fifo"
    os.mkfifo(fifo)
    with (repository.root / ".git" / "config").open("a") as config:
        config.write(f"[include]\npath = {fifo}\n")
    return fifo


def children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # no process, or one that has ended
        if entry.isdigit() and fields[1] == str(pid):
            found.append(int(entry))
    return found


def is_tied(pid: int) -> bool:
    """Whether the process holds a lifeline that the kernel ends it by."""
    try:
        told = [path.read_text() for path in Path(f"/proc/{pid}/fdinfo").iterdir()]
    except OSError:  # it is about to become git, and closes what it does not hand on
        return False
    return any(int(each.partition("flags:")[2].split()[0], 8) & os.O_ASYNC for each in told)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
