"""Whether another amend is installed than the one that runs, and whether that one could take over.

An installation is told by its record (`RECORD` in the `.dist-info` that pip and uv write last): a
new one is another file. Of an editable one, or a bare checkout, each source file counts as well. A
change is looked into when it has been quiet for a while, for installers take their time; then the
other amend is run as `python -m amend.daemon.upgrade`, which imports all that a daemon needs, reads
the configuration and says what it is. Only one that can do so, and that knows the store's schema,
is handed over to. With any other, half an installation among them, the daemon goes on as it is and
looks again.

That command and its answer (one line of JSON with `version` and `schema`) stay as they are, in
every later version: an older daemon asks.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import amend
from amend.daemon.logs import Log
from amend.daemon.tending import ConfigKey
from amend.edge.store import SCHEMA_VERSION
from amend.edge.watch.interface import Watch
from amend.errors import AmendError

DISTRIBUTION: Final = "amend-daemon"
_RECORDS: Final = "amend_daemon-*.dist-info"

# pip takes up to a second between removing the old one's files and writing the new one's record.
QUIET_S: Final = 2.0

# Who edits amend itself saves often, and half a change does not start.
EDITED_QUIET_S: Final = 60.0

# Importing everything takes a second, several on a machine that is just upgrading.
PROBE_S: Final = 60.0

# What cannot start now may when its dependencies are there, or its configuration is right.
RETRY_S: Final = 10.0
RETRY_S_MAX: Final = 600.0

# A traceback's last line says what is missing.
_REASON_CHARS: Final = 300

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of each file that counts; none: there is no installation now."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`record_dir`: the directory that has the record, and no other one has. `package` None: the
    record tells of every file."""

    record_dir: Path | None
    package: Path | None

    @property
    def quiet_s(self) -> float:
        return QUIET_S if self.package is None else EDITED_QUIET_S

    def stamp(self) -> Stamp:
        records = self.record_dir.glob(f"{_RECORDS}/RECORD") if self.record_dir else ()
        found = []
        for path in (*map(str, records), *_sources(self.package)):
            with contextlib.suppress(OSError):  # it goes just now
                stat = os.stat(path)
                found.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return tuple(sorted(found))


def _sources(package: Path | None) -> Iterator[str]:
    for directory, _, names in os.walk(package) if package else ():
        yield from (f"{directory}/{name}" for name in names if name.endswith(".py"))


def this_installation() -> Installation | None:
    """Where this process's amend comes from; None where nobody could tell a new one (a zip)."""
    package = Path(amend.__file__).parent
    if not package.is_dir():
        return None
    try:
        beside = Path(str(metadata.distribution(DISTRIBUTION).locate_file("")))
    except metadata.PackageNotFoundError:
        return Installation(None, package)
    if os.path.realpath(beside / package.name) == os.path.realpath(package):
        return Installation(beside, None)
    return Installation(beside, package)


@dataclass(frozen=True, slots=True)
class Successor:
    version: str
    schema: int


class NotReady(Exception):
    """The other amend cannot take over; the text says why."""


async def probe() -> Successor:
    """What is installed now, by its own word. Raises `NotReady`."""
    # -P: not from whatever directory the daemon was started in.
    words = (sys.executable, "-P", "-m", "amend.daemon.upgrade")
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NotReady(f"{sys.executable}: {error.strerror}") from error
    try:
        async with asyncio.timeout(PROBE_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise NotReady(f"it does not start within {PROBE_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise NotReady(lines[-1][:_REASON_CHARS] if lines else "it ends without a word")
    return successor_of(out)


def successor_of(answer: bytes) -> Successor:
    """Raises `NotReady`, also where its store is older than this one's."""
    try:
        said: Any = json.loads(answer)
        successor = Successor(str(said["version"]), int(said["schema"]))
    except (ValueError, KeyError, TypeError):
        raise NotReady("it does not say what it is") from None
    if successor.schema < SCHEMA_VERSION:
        raise NotReady(
            f"version {successor.version} knows the store's schema {successor.schema}, "
            f"which is {SCHEMA_VERSION} by now; a copy from before is kept beside the store"
        )
    return successor


class Upgrade:
    """Waits for another amend that is able to take over."""

    def __init__(
        self,
        installation: Installation,
        log: Log,
        *,
        probe: Callable[[], Awaitable[Successor]] = probe,
        now_s: Callable[[], float] = time.monotonic,
        quiet_s: float | None = None,
    ) -> None:
        self._installation = installation
        self._log = log
        self._probe = probe
        self._now_s = now_s
        self._quiet_s = installation.quiet_s if quiet_s is None else quiet_s
        self._running = installation.stamp()
        self._suspected = asyncio.Event()
        self._refused: Stamp | None = None
        self._refusals = 0
        self._not_before_s = 0.0

    def watch(self, watch: Watch) -> None:
        """Hear of a new record at once; where that cannot be watched, `tick` sees it."""
        directory = self._installation.record_dir
        if directory is not None:
            root = os.fsencode(os.path.realpath(directory))
            watch.add_root(root)
            watch.want_names(root, b"", ConfigKey(self._suspected.set))

    def tick(self) -> None:
        """Look whether it changed: a few stats, or 200 where amend's sources are edited."""
        if self._is_due(self._installation.stamp()):
            self._suspected.set()

    async def wait(self) -> Successor:
        """Return when another one is there and able to start."""
        while True:
            await self._suspected.wait()
            self._suspected.clear()
            stamp = self._installation.stamp()
            if not self._is_due(stamp):
                continue
            await asyncio.sleep(self._quiet_s)
            if self._installation.stamp() != stamp:
                self._suspected.set()
                continue
            try:
                return await self._probe()
            except NotReady as error:
                self._refuse(stamp, str(error))

    def _is_due(self, stamp: Stamp) -> bool:
        """Whether this is another installation, and none that was refused just now."""
        if stamp in ((), self._running):
            return False
        return stamp != self._refused or self._now_s() >= self._not_before_s

    def _refuse(self, stamp: Stamp, reason: str) -> None:
        self._refusals = self._refusals + 1 if stamp == self._refused else 0
        self._refused = stamp
        self._not_before_s = self._now_s() + min(RETRY_S_MAX, RETRY_S * 2**self._refusals)
        self._log.warning("upgrade_unusable", reason=reason)


def main() -> int:
    """What is installed here says that it could take over; or, on stderr, why it could not."""
    from amend.daemon.run import run_daemon  # noqa: PLC0415  # which imports this module
    from amend.daemon.settings import read_config  # noqa: PLC0415
    from amend.edge.service import package_version  # noqa: PLC0415

    assert run_daemon is not None
    try:
        read_config(os.environ)
    except AmendError as error:
        print(error.message, file=sys.stderr)
        return 1
    print(json.dumps({"version": package_version(), "schema": SCHEMA_VERSION}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
