"""The daemon: builds everything, owns the loop, stops it.

Order of a start: directories, lock, store, worktrees (every entry verified), sockets, ready. A
start that fails leaves nothing behind; a stop removes its own sockets only. A signal ends a start
at once, and a stop waits for no worker.
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import secrets
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import uvloop

from amend.agents.known import AGENTS
from amend.daemon.answers import Answers
from amend.daemon.captures import Captures, Stored
from amend.daemon.changes import Changes
from amend.daemon.doors import Doors
from amend.daemon.ground import INLINE_BYTES_MAX
from amend.daemon.handover import (
    Inherited,
    Listening,
    become_next,
    keep_listening,
    told_by_manager,
)
from amend.daemon.happenings import Happenings
from amend.daemon.hooks import Hooks, HookSettings
from amend.daemon.lapses import Lapses
from amend.daemon.log_file import LogFile, is_wanted, log_path
from amend.daemon.log_traces import bug_id
from amend.daemon.logs import Log
from amend.daemon.settings import configured_of, options_of, read_config
from amend.daemon.socket_keeper import SocketKeeper
from amend.daemon.tending import Configured, Tending
from amend.daemon.upgrade import Installation, Upgrade, this_installation
from amend.daemon.watchdog import Watchdog
from amend.daemon.workers import Workers
from amend.edge.serve.hook_exchange import Exchange, TimelyExchange
from amend.edge.serve.hook_sockets import HookSockets
from amend.edge.serve.server import DRAIN_S, ApiServer
from amend.edge.service import (
    DaemonLock,
    config_path,
    package_version,
    prepare_private_dir,
    runtime_dir,
    state_dir,
)
from amend.edge.service_activation import Passed, take_passed
from amend.edge.service_notify import Notifier, take_notifier
from amend.edge.store import SCHEMA_VERSION, Store
from amend.edge.watch.watcher import Watcher
from amend.errors import AmendError
from amend.formats.config import Config

# Silence is trusted for no longer than this; a little different each time, so that the daemons of
# a team's machines do not all wake at once.
VERIFY_S: Final = 3600.0
VERIFY_JITTER_S: Final = 600.0

# A deleted socket heals within this; it costs one lstat each.
SOCKET_CHECK_S: Final = 10.0


# Many editors save by emptying a file and then writing it; longer than one takes between the two.
SAVE_S: Final = 0.1

STDERR_FD: Final = 2

STORE: Final = "amend.db"


class Daemon:
    def __init__(
        self,
        env: Mapping[str, str],
        exchange: Exchange | None = None,
        installation: Installation | None = None,
    ) -> None:
        """`exchange`: what answers hooks instead of amend's own (tests of the sockets).

        `installation`: another amend there is handed over to; the process is the daemon's then.
        """
        self.env = env
        self._installation = installation
        self._exchange = exchange
        self._hooks: Hooks | None = None
        self.runtime = runtime_dir(env)
        self.state = state_dir(env)
        self.config_file = config_path(env)
        self.config = Config()
        self._stop = asyncio.Event()
        self.version = package_version()
        self._log = Log(self.version)
        self._notifier = Notifier()
        self._passed: list[Passed] = []
        self._lapsed = asyncio.Event()  # everything is to be looked at again, soon
        self._hands_over = False
        self._kept: list[Listening] = []  # for the next daemon, when this one has ended

    async def run(self) -> None:
        """Serve until a signal says stop. Raises `AmendError` when it cannot start."""
        # Bringing in many entries does not yield: asyncio would hold a Ctrl-C back until it is
        # done. SIGTERM just ends the process until `_handle_signals`.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        told = told_by_manager(self.env)
        self._notifier = take_notifier(self.env)
        self._passed = take_passed(self.env, AGENTS)
        inherited = Inherited(self._passed)
        asyncio.get_running_loop().set_default_executor(Workers())
        prepare_private_dir(self.runtime)
        prepare_private_dir(self.state)
        self.config = read_config(self.env)  # a bad one at the start is an error, not a surprise
        lock = DaemonLock(self.runtime)
        try:
            store = Store(str(self.state / STORE))
            try:
                await self._serve(lock, store)
            finally:
                store.close()
            if self._kept:
                become_next(self._kept, told)
        finally:
            inherited.remove()
            lock.release()

    async def _serve(self, lock: DaemonLock, store: Store) -> None:
        loop = asyncio.get_running_loop()
        changes = Changes(store)
        self._configure_log(changes.instance)
        tending = Tending(
            store,
            changes,
            Watcher(),
            options_of(self.config, self.env),
            inline_bytes_max=INLINE_BYTES_MAX,
        )
        answers = Answers(tending, self.version)
        answers.config_file = str(self.config_file) if self.config_file.exists() else None
        answers.log_problem = lambda: self._log.problem
        happenings = Happenings(self._log, tending, answers, loop)
        changes.on_published = happenings.changed
        tending.on_added, tending.on_removed = happenings.added, happenings.removed
        tending.on_failed = lambda root, error: self._tending_failed(answers, root, error)
        for problem in store.problems:
            self._log.warning("store_replaced", detail=problem)
        if store.migrated_from is not None:
            self._log.info("store_migrated", before=store.migrated_from, after=SCHEMA_VERSION)
        # What is brought in stays: looking through it for garbage would cost a third of a start.
        gc.collect()
        gc.disable()
        self._add_repos(tending, store)
        self._handle_signals(loop, tending, answers)
        captures = Captures(
            tending, settings=self._hook_settings, on_stored=self._stored, on_bug=self._bug
        )
        happenings.captures = captures
        hooks = self._answering(tending, answers, captures)
        doors = self._claim(lock, answers, hooks)
        try:
            tending.start(loop)
            await doors.open()
            answers.is_ready = True
            self._log.info(
                "daemon_ready",
                version=self.version,
                socket=str(doors.api_socket),
                repos=len(tending.worktrees),
                entries=_entries(tending),
            )
            self._notifier.ready(_summary(tending))
            _give_back_memory()
            keeper = doors.keeper(answers.unready, self._log)
            await self._live(tending, keeper, answers, happenings)
        finally:
            self._leave(doors)
            changes.close()
            await doors.stop()
            await hooks.stop(DRAIN_S)
            captures.stop()
            await captures.settle()
            await tending.stop()
            happenings.finish()
            if self._kept and not self._hands_over:  # a signal came meanwhile
                self._leave(doors)
            self._log.info("daemon_stopped")
            self._log.use_file(None)

    def _leave(self, doors: Doors) -> None:
        """Nobody comes in any more; for the next daemon they stay where they are."""
        if self._hands_over:
            self._notifier.reloading()
            self._kept = keep_listening(doors.listening, self._passed)
        else:
            self._notifier.stopping()
            doors.remove()
            self._kept = []

    def _answering(self, tending: Tending, answers: Answers, captures: Captures) -> TimelyExchange:
        self._hooks = Hooks(
            tending, answers, captures, settings=self._hook_settings(), on_bug=self._bug
        )
        exchange = self._exchange or self._hooks.exchange
        answers.hooks = TimelyExchange(exchange, AGENTS, on_bug=self._bug)
        answers.settle = captures.settle
        return answers.hooks

    def _hook_settings(self) -> HookSettings:
        hooks = self.config.hooks
        return HookSettings(hooks.explore, frozenset(hooks.explorers))

    def _claim(self, lock: DaemonLock, answers: Answers, hooks: TimelyExchange) -> Doors:
        agents = list(hooks.tallies)
        api = ApiServer(
            answers,
            version=self.version,
            on_request=self._requested(answers),
            on_bug=self._bug,
            agents=agents,
        )
        sockets = HookSockets(hooks)
        answers.connections, answers.hook_connections = api.stats, sockets.stats
        return Doors(lock, self.runtime, agents, api, sockets, passed=self._passed)

    def _configure_log(self, instance: str | None = None) -> None:
        """Level, form and file as the configuration says now."""
        said = self.config.daemon
        self._log.configure(said.log_level, said.log_format, instance)
        has_file = self._log.file is not None
        if is_wanted(said.log_file, STDERR_FD, self.env) != has_file:
            self._log.use_file(None if has_file else LogFile(log_path(self.state)))

    async def _live(
        self, tending: Tending, keeper: SocketKeeper, answers: Answers, happenings: Happenings
    ) -> None:
        """Until stopped: the hourly round, the socket's health, a config file that changes."""
        has_watchdog = self._notifier.watchdog_s is not None
        lapses = Lapses(tending, self._log, self._lapsed.set, listens=not has_watchdog)
        ticks = [lapses.tick, happenings.look]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._verify_hourly(tending)),
                group.create_task(self._keep_socket(keeper, ticks)),
            ]
            if self._installation is not None and tending.watch is not None:
                upgrade = Upgrade(self._installation, self._log)
                upgrade.watch(tending.watch)
                ticks.append(upgrade.tick)
                tasks.append(group.create_task(self._follow(upgrade)))
            if self._notifier.watchdog_s is not None and tending.watch is not None:
                half_s = self._notifier.watchdog_s / 2
                dog = Watchdog(tending.watch, self._notifier, self.state, half_s, self._log)
                tasks.append(group.create_task(dog.run()))
            self._watch_config(tending, answers)
            await self._stop.wait()
            for task in tasks:
                task.cancel()
        lapses.close()

    async def _verify_hourly(self, tending: Tending) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(VERIFY_S - secrets.randbelow(int(VERIFY_JITTER_S))):
                    await self._lapsed.wait()
            after_lapse = self._lapsed.is_set()
            self._lapsed.clear()
            begun_s = time.monotonic()
            await tending.verify_everything(forgets=not after_lapse)
            seconds = round(time.monotonic() - begun_s, 3)
            self._log.info("everything_verified", entries=_entries(tending), seconds=seconds)

    async def _keep_socket(self, keeper: SocketKeeper, ticks: list[Callable[[], None]]) -> None:
        while True:
            await asyncio.sleep(SOCKET_CHECK_S)
            if not await keeper.check():
                self._stop.set()
                return
            for tick in ticks:
                tick()

    async def _follow(self, upgrade: Upgrade) -> None:
        successor = await upgrade.wait()
        self._log.info("upgrade_found", before=self.version, after=successor.version)
        self._hands_over = True
        self._stop.set()

    # -- repositories ----------------------------------------------------------------------------

    def _add_repos(self, tending: Tending, store: Store) -> None:
        configured = configured_of(self.config)
        for root in dict.fromkeys([*configured, *(row.root for row in store.repos())]):
            try:
                tending.add(root, configured=configured.get(root, Configured()))
            except AmendError as error:
                self._log.warning(
                    "repo_not_tended",
                    kind=type(error).__name__,
                    root=os.fsdecode(root),
                    reason=error.message,
                )

    def _tending_failed(self, answers: Answers, root: bytes, error: BaseException) -> None:
        bug = self._bug(error)
        answers.unready.append(f"{os.fsdecode(root)} is no longer tended as it should ({bug})")

    # -- configuration ---------------------------------------------------------------------------

    def _reload(self, tending: Tending, answers: Answers, *, is_saved: bool = False) -> None:
        """Take the config as it is now; keep the old one, and say so, when it is bad.

        `is_saved`: an empty file is not half of a save.
        """
        if not is_saved and self.config != Config() and _is_empty(self.config_file):
            later = functools.partial(self._reload, tending, answers, is_saved=True)
            asyncio.get_running_loop().call_later(SAVE_S, later)
            return
        self._notifier.reloading()
        try:
            self._take_config(tending, answers)
        finally:
            if answers.is_ready:  # a signal may come while the daemon still starts
                self._notifier.ready(_summary(tending, answers.config_error))

    def _take_config(self, tending: Tending, answers: Answers) -> None:
        try:
            config = read_config(self.env)
        except AmendError as error:
            if answers.config_error != error.message:
                problems = len(error.message.splitlines())
                self._log.error(
                    "config_rejected", problems=problems, reason=error.message, hint=error.hint
                )
            answers.config_error = error.message
            return
        answers.config_error = None
        if config == self.config:
            return
        self.config = config
        answers.config_file = str(self.config_file) if self.config_file.exists() else None
        self._configure_log()
        tending.apply_options(options_of(self.config, self.env))
        if self._hooks is not None:
            self._hooks.settings = self._hook_settings()
        self._add_repos(tending, tending.store)
        self._log.info("config_reloaded", file=str(self.config_file))

    def _watch_config(self, tending: Tending, answers: Answers) -> None:
        """A config file that changes reloads by itself, wherever its directory is."""
        directory = os.fsencode(os.path.realpath(self.config_file.parent))
        name = os.fsencode(self.config_file.name)
        tending.watch_config(directory, name, lambda: self._reload(tending, answers))

    # -- signals, requests, bugs -----------------------------------------------------------------

    def _handle_signals(
        self, loop: asyncio.AbstractEventLoop, tending: Tending, answers: Answers
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._reload(tending, answers))

    def _end(self) -> None:
        self._hands_over = False
        self._stop.set()

    def _requested(self, answers: Answers) -> Callable[[str, str, int, float], None]:
        def requested(method: str, route: str, status: int, seconds: float) -> None:
            answers.on_request(method, route, status, seconds)
            if self._log.is_enabled("debug"):
                ms = round(seconds * 1e3, 3)
                self._log.debug("request", method=method, route=route, status=status, ms=ms)
            if status >= 500:
                ms = round(seconds * 1e3, 3)
                self._log.error("request_failed", method=method, route=route, status=status, ms=ms)

        return requested

    def _stored(self, stored: Stored) -> None:
        self._log.info(
            "exploration_stored",
            agent=stored.agent,
            repo=stored.repo,
            exploration=stored.exploration,
            key=stored.name.key,
            sources=stored.sources,
        )

    def _bug(self, error: BaseException) -> str:
        name = bug_id(error)
        self._log.error("bug", id=name, error=error)
        return name


def _entries(tending: Tending) -> int:
    return sum(len(worktree.memory.names()) for worktree in tending.worktrees.values())


def _summary(tending: Tending, config_error: str | None = None) -> str:
    """What a service manager shows about this service, in one line."""
    rejected = f"; the new configuration is wrong: {config_error}" if config_error else ""
    return f"worktrees: {len(tending.worktrees)}, entries: {_entries(tending)}{rejected}"


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _give_back_memory() -> None:
    """What starting needed goes back to the system; what stays is never looked through again.

    Saves 1 to 2 MiB of 60, and the pauses of collecting what lives as long as the daemon.
    """
    gc.freeze()
    gc.enable()
    with contextlib.suppress(AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


def run_daemon(env: Mapping[str, str], exchange: Exchange | None = None) -> None:
    """Run the daemon on uvloop until it is told to stop."""

    async def main() -> None:
        await Daemon(env, exchange, this_installation()).run()

    uvloop.run(main())
