"""Everybody who has a hand in a memory tree: whoever changes it, and amend, in three ways.

`Person` makes changes of every kind, by hand and by git. amend is a tree in this process, without a
watch or with inotify on a loop whose clock skips every wait, or the real daemon.
"""

import asyncio
import os
import selectors
import shutil
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from amend.daemon.memory_tree import MemoryTree, TreeKey
from amend.edge.git.places import discover
from amend.edge.store import Store
from amend.edge.watch.interface import Key
from amend.edge.watch.watcher import Watcher
from amend.errors import Refused
from benchmarks.running import Daemon, git
from tests.scenario.memory_tree_oracle import (
    BY_HAND,
    DICTIONARY,
    INDEX,
    SUFFIX,
    Snapshot,
    name_of,
)

NAMES = ("auth", "db", "api", "login")
ODD_NAMES = ("with space", "ünïcode", "a|b", ".hidden", "saved~", "zz-top")
DIRECTORIES = ("decisions", "bugs", "old")
TITLES = ("JWT and Redis", "PostgreSQL", "A queue: RabbitMQ", "")
DEPTH_MAX = 3

# More than amend waits for anything, displaced files under watch included.
SETTLED_S = 30.0


# -- a clock that skips ----------------------------------------------------------------------------


class _Skipping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everything waits for something that never comes"
            self.now_s += max(timeout, 0.0)
        return found


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its clock moves only when there is nothing to do, to the next timer at once; what belongs
    into a worker is done on the spot. The kernel's events are real."""

    def __init__(self) -> None:
        self._clock = _Skipping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


# -- amend -----------------------------------------------------------------------------------------


class Amend(Protocol):
    """Whoever keeps the tree in step. `problems`: of the tree, as a person is told."""

    is_exact: bool  # whether nothing is noticed between two calls of `settle`

    def settle(self, *, at_once: bool) -> None: ...
    def sync(self) -> list[str]: ...
    def rest(self) -> None:
        """Let it do whatever it does by itself."""

    def problems(self) -> list[str]: ...
    def pause(self) -> None: ...
    def stop(self) -> None: ...
    def start(self) -> None: ...
    def close(self) -> None: ...


class InProcess:
    is_exact = True

    def __init__(self, base: Path, root: Path, *, is_watched: bool) -> None:
        self._base = base
        self._root = os.fsencode(root)
        self._is_watched = is_watched
        self._loop = SkippingLoop()
        self.start()

    def start(self) -> None:
        self._store = Store(self._base / "store.db")
        self._watch = Watcher() if self._is_watched else None
        if self._watch is not None:
            self._watch.add_root(self._root)
        self._tree = MemoryTree(
            self._root,
            b"memory",
            places=discover(self._root),
            store=self._store,
            watch=self._watch,
            retain_dir=os.fsencode(self._base / "displaced"),
        )
        if self._watch is not None:
            self._tree.on_failed = self._failed
            self._watch.start(self._loop, self._touched)
            self._loop.call_soon(self._tree.start, self._loop)

    def _touched(self, keys: set[Key]) -> None:
        for key in keys:
            assert isinstance(key, TreeKey)
            key.tree.touched(key.directory)

    def _failed(self, root: bytes, error: BaseException) -> None:
        raise error

    def settle(self, *, at_once: bool) -> None:
        if self._watch is not None:
            self._loop.run_until_complete(asyncio.sleep(0))  # a start may be due
            self._tree.resume()
        if self._watch is not None and not at_once:
            self._loop.run_until_complete(asyncio.sleep(SETTLED_S))
            assert self._tree.is_settled
        elif self._watch is not None:
            self._touched(self._watch.drain())
            self.sync()
        else:
            self.sync()

    def sync(self) -> list[str]:
        return list(self._loop.run_until_complete(self._tree.sync()))

    def rest(self) -> None:
        if self._watch is not None:
            self._loop.run_until_complete(asyncio.sleep(SETTLED_S))

    def learn_and_be_interrupted(self) -> None:
        """Before anything is written, as when git begins something."""

        async def learn() -> None:
            self._tree.touched_everywhere()
            await self._tree.refresh()
            indexes, read, counts = self._tree._indexes, self._tree._read, self._tree._counts
            await indexes.write(read, counts, patiently=False, goes_on=lambda: False)

        self._loop.run_until_complete(learn())

    def problems(self) -> list[str]:
        return self._tree.problems()

    def pause(self) -> None:
        pass

    def stop(self) -> None:
        self._tree.stop()
        if self._watch is not None:
            self._watch.close()
        self._loop.run_until_complete(asyncio.sleep(0))  # what was cancelled ends
        self._store.close()

    def close(self) -> None:
        self.stop()
        self._loop.close()


class ByDaemon:
    """`is_exact`: the daemon stands still between two calls of `settle`."""

    def __init__(self, daemon: Daemon, root: Path, *, is_exact: bool) -> None:
        self.is_exact = is_exact
        self._daemon = daemon
        self._root = root
        self._id = daemon.add(root)["id"]

    def pause(self) -> None:
        if self.is_exact:
            os.kill(self._daemon.pid, signal.SIGSTOP)

    def _go_on(self) -> None:
        os.kill(self._daemon.pid, signal.SIGCONT)

    def settle(self, *, at_once: bool) -> None:
        self._go_on()
        self.sync()
        if not at_once:
            self.sync()

    def sync(self) -> list[str]:
        self._go_on()
        status, answer = self._daemon.request("POST", "/v1/memory/sync", {"cwd": str(self._root)})
        if status == 404 and "there is no memory tree" in str(answer):
            return []
        if status == 409 or (status == 403 and "in the middle" in str(answer)):
            raise Refused(str(answer))
        assert status == 200, (status, answer)
        written: list[str] = answer["written"]
        return written

    def rest(self) -> None:
        self._go_on()
        self._daemon.sync()

    def problems(self) -> list[str]:
        rows = self._daemon.get("/v1/status")["repos"]
        return [p for row in rows if row["id"] == self._id for p in row["problems"]]

    def stop(self) -> None:
        self._go_on()
        self._daemon.stop()

    def start(self) -> None:
        self._daemon.start()

    def close(self) -> None:
        self._go_on()
        assert self._daemon.request("DELETE", f"/v1/repos/{self._id}")[0] == 204


# -- everybody else -------------------------------------------------------------------------------


_templates: list[tempfile.TemporaryDirectory[str]] = []


def new_repository(root: Path) -> None:
    """A copy of one that git made: with a commit, and a branch beside `main`."""
    if not _templates:
        _templates.append(tempfile.TemporaryDirectory(prefix="am-template-"))
        made = Path(_templates[0].name, "repo")
        git(Path(_templates[0].name), "init", "-q", "-b", "main", "--template=", str(made))
        (made / "memory").mkdir()
        (made / "memory" / INDEX).write_text("# memory/ - all of it\n")
        git(made, "add", "-A")
        git(made, "commit", "-qm", "begin")
        git(made, "branch", "other")
    shutil.copytree(Path(_templates[0].name, "repo"), root)


@dataclass(frozen=True, slots=True)
class Change:
    """A verb of `Person`, and what it is to be about: `pick` and `other` choose among what is
    there."""

    verb: str
    pick: int
    other: int
    name: str
    directory: str
    title: str


class Person:
    """Whatever changes a tree beside amend: people, agents, editors and git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "memory"
        self._number = 0
        self.verbs: dict[str, Callable[[Change], None]] = {
            "write a note": self._write_a_note,
            "write a twin": self._write_a_twin,
            "change a title": self._change_a_title,
            "add a bullet": self._add_a_bullet,
            "rename a note": self._rename_a_note,
            "move a note": self._move_a_note,
            "delete a note": self._delete_a_note,
            "write or delete a dictionary": self._write_or_delete_a_dictionary,
            "make a directory": self._make_a_directory,
            "remove a directory": self._remove_a_directory,
            "rename a directory": self._rename_a_directory,
            "move a directory": self._move_a_directory,
            "write another file": self._write_another_file,
            "describe": self._describe,
            "describe by nothing": self._describe_by_nothing,
            "comment": self._comment,
            "delete a line": self._delete_a_line,
            "move a line": self._move_a_line,
            "list something": self._list_something,
            "state a purpose": self._state_a_purpose,
            "use other line endings": self._use_other_line_endings,
            "leave out the last line ending": self._leave_out_the_last_line_ending,
            "delete an index": self._delete_an_index,
            "write an index anew": self._write_an_index_anew,
            "commit": self._commit,
            "switch": self._switch,
            "merge": self._merge,
        }

    def begin(self) -> None:
        """A tree with something of everything in it."""
        for at, path in enumerate(("auth", "db", "decisions/api", "decisions/old/db", "bugs/db")):
            note = self.tree / (path + SUFFIX)
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(f"2026-04-10: {TITLES[at % 3]}\n  - bullet {self._serial()}\n")
        for directory in (self.tree, self.tree / "decisions"):
            self._write_listing(directory)

    def make(self, change: Change) -> None:
        self.verbs[change.verb](change)

    # -- what is there -----------------------------------------------------------------------------

    def _serial(self) -> int:
        self._number += 1
        return self._number

    def look(self) -> Snapshot:
        return Snapshot.of(self.tree)

    def _note(self, pick: int) -> Path | None:
        paths = sorted(self.look().notes)
        return self.tree / paths[pick % len(paths)] if paths else None

    def _directory(self, pick: int) -> Path:
        """Perhaps the tree's own."""
        self.tree.mkdir(exist_ok=True)
        paths = sorted(self.look().directories)
        return self.tree / paths[pick % len(paths)]

    def _index(self, pick: int) -> Path | None:
        paths = sorted(path for path in self.look().files if name_of(path) == INDEX)
        return self.tree / paths[pick % len(paths)] if paths else None

    def _depth(self, path: Path) -> int:
        return len(path.relative_to(self.tree).parts)

    # -- notes -------------------------------------------------------------------------------------

    def _write_a_note(self, change: Change, bullet: str = "") -> None:
        path = self._directory(change.pick) / (change.name + SUFFIX)
        bullet = bullet or f"bullet {self._serial()}"
        entry = f"2026-04-10: {change.title}\n  - {bullet}\n"
        path.write_text(entry if change.title else f"{bullet}\n")

    def _write_a_twin(self, change: Change) -> None:
        self._write_a_note(change, "the same as another")

    def _change_a_title(self, change: Change) -> None:
        path = self._note(change.pick)
        if path is not None:
            _, _, rest = path.read_text().partition("\n")
            path.write_text(f"2026-04-11: {change.title}\n{rest}")

    def _add_a_bullet(self, change: Change) -> None:
        path = self._note(change.pick)
        if path is not None:
            self._save(path, path.read_bytes() + f"  - bullet {self._serial()}\n".encode(), change)

    def _save(self, path: Path, data: bytes, change: Change) -> None:
        """In place, or by rename."""
        beside = path.with_name("saving.tmp~") if change.other % 2 else path
        beside.write_bytes(data)
        beside.rename(path)

    def _rename_a_note(self, change: Change) -> None:
        path = self._note(change.pick)
        if path is not None:
            path.rename(path.with_name(change.name + SUFFIX))

    def _move_a_note(self, change: Change) -> None:
        path = self._note(change.pick)
        if path is not None:
            path.rename(self._directory(change.other) / path.name)

    def _delete_a_note(self, change: Change) -> None:
        path = self._note(change.pick)
        if path is not None:
            path.unlink()

    def _write_or_delete_a_dictionary(self, change: Change) -> None:
        path = self._directory(change.pick) / DICTIONARY
        if path.exists():
            path.unlink()
        else:
            path.write_text("SMS: session management strategy\n")

    # -- directories -------------------------------------------------------------------------------

    def _make_a_directory(self, change: Change) -> None:
        parent = self._directory(change.pick)
        if self._depth(parent) < DEPTH_MAX:
            (parent / change.directory).mkdir(exist_ok=True)

    def _remove_a_directory(self, change: Change) -> None:
        path = self._directory(change.pick)
        if path != self.tree:
            shutil.rmtree(path)

    def _rename_a_directory(self, change: Change) -> None:
        path = self._directory(change.pick)
        if path != self.tree and not path.with_name(change.directory).exists():
            path.rename(path.with_name(change.directory))

    def _move_a_directory(self, change: Change) -> None:
        path, target = self._directory(change.pick), self._directory(change.other)
        inside = target == path or path in target.parents
        if path == self.tree or inside or (target / path.name).exists():
            return
        if self._depth(target) < DEPTH_MAX:
            path.rename(target / path.name)

    def _write_another_file(self, change: Change) -> None:
        name = ("a.png", ".keep", "README.md")[change.other % 3]
        (self._directory(change.pick) / name).write_bytes(b"\x89 none of amend's\xff")

    # -- indexes -----------------------------------------------------------------------------------

    def _edit(self, change: Change, edit: Callable[[list[bytes]], None]) -> None:
        """Read an index, change its lines, write it whole."""
        path = self._index(change.pick)
        if path is None:
            return
        lines = path.read_bytes().splitlines(keepends=True)
        edit(lines)
        # Nothing is to be put behind a line without an ending.
        lines[:-1] = [line if line.endswith(b"\n") else line + b"\n" for line in lines[:-1]]
        self._save(path, b"".join(lines), change)

    def _described(self, change: Change, text: str) -> None:
        def edit(lines: list[bytes]) -> None:
            places = [n for n, line in enumerate(lines) if line.startswith((b"d", b"f"))]
            if places:
                n = places[change.other % len(places)]
                ending = b"\n" if lines[n].endswith(b"\n") else b""
                lines[n] = lines[n].partition(b"|")[0].strip() + text.encode() + ending

        self._edit(change, edit)

    def _describe(self, change: Change) -> None:
        self._described(change, f" | {BY_HAND}{self._serial()}")

    def _describe_by_nothing(self, change: Change) -> None:
        self._described(change, " |" if change.other % 2 else "")

    def _insert(self, change: Change, text: str) -> None:
        def edit(lines: list[bytes]) -> None:
            lines.insert(change.other % (len(lines) + 1), text.encode() + b"\n")

        self._edit(change, edit)

    def _comment(self, change: Change) -> None:
        words = ("# {}", "unknown {}", "# dir: {}/ | x")[change.other % 3]
        self._insert(change, words.format(f"comment {self._serial()}"))

    def _list_something(self, change: Change) -> None:
        """That is there, or is not yet, or is there no longer, or was never."""
        kind, shown = "file", change.name + SUFFIX
        if change.other % 3 == 0:
            kind, shown = "dir", change.directory + "/"
        self._insert(change, f"{kind}: {shown} | {BY_HAND}{self._serial()}")

    def _delete_a_line(self, change: Change) -> None:
        def edit(lines: list[bytes]) -> None:
            if lines:
                del lines[change.other % len(lines)]

        self._edit(change, edit)

    def _move_a_line(self, change: Change) -> None:
        def edit(lines: list[bytes]) -> None:
            if lines:
                lines.insert(change.pick % len(lines), lines.pop(change.other % len(lines)))

        self._edit(change, edit)

    def _state_a_purpose(self, change: Change) -> None:
        def edit(lines: list[bytes]) -> None:
            if lines and lines[0].startswith(b"# "):
                del lines[0]
            lines.insert(0, f"# here/ - {change.title} {self._serial()}\n".encode())

        self._edit(change, edit)

    def _use_other_line_endings(self, change: Change) -> None:
        def edit(lines: list[bytes]) -> None:
            ending = b"\n" if any(line.endswith(b"\r\n") for line in lines) else b"\r\n"
            lines[:] = [line.rstrip(b"\r\n") + ending for line in lines]

        self._edit(change, edit)

    def _leave_out_the_last_line_ending(self, change: Change) -> None:
        def edit(lines: list[bytes]) -> None:
            lines[-1:] = [line.rstrip(b"\r\n") for line in lines[-1:]]

        self._edit(change, edit)

    def _delete_an_index(self, change: Change) -> None:
        path = self._index(change.pick)
        if path is not None:
            path.unlink()

    def _write_an_index_anew(self, change: Change) -> None:
        """As an agent does that knows the format."""
        self._write_listing(self._directory(change.pick))

    def _write_listing(self, directory: Path) -> None:
        path = "" if directory == self.tree else str(directory.relative_to(self.tree))
        text = f"# {directory.name}/ - stated {self._serial()}\n"
        for kind, name in sorted(self.look().children(path)):
            slash = "/" if kind == "dir" else ""
            text += f"{kind}: {name}{slash} | {BY_HAND}{self._serial()}\n"
        (directory / INDEX).write_text(text)

    # -- git ---------------------------------------------------------------------------------------

    def _commit(self, change: Change | None = None) -> None:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", f"change {self._serial()}", "--allow-empty")

    def _other_branch(self) -> str:
        on = git(self.root, "symbolic-ref", "--short", "HEAD").strip()
        return "other" if on == "main" else "main"

    def _switch(self, change: Change) -> None:
        self.switch()

    def switch(self) -> None:
        self._commit()
        git(self.root, "switch", "-q", self._other_branch())

    def _merge(self, change: Change) -> None:
        """Both sides' lines where git can tell, else one side's; given up where a file clashes."""
        self._commit()
        favour = ("-Xours", "-Xtheirs")[change.other % 2]
        if self._begin_merge(favour):
            self.abort_merge()

    def begin_merge(self) -> bool:
        """Whether that leaves something to be resolved."""
        self._commit()
        return self._begin_merge()

    def _begin_merge(self, *favour: str) -> bool:
        git(self.root, "merge", "-q", *favour, self._other_branch(), check=False)
        return (self.root / ".git/MERGE_HEAD").exists()

    def abort_merge(self) -> None:
        git(self.root, "merge", "--abort")
