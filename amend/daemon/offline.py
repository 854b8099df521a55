"""Answers without a daemon: the files are read and verified here and now.

Works on a copy of the store in memory, so that fingerprints are known and nothing is written.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

from amend.daemon.answers import Answers
from amend.daemon.settings import configured_of, options_of, read_config
from amend.daemon.tending import Tending, nearest_root
from amend.daemon.workers import Workers
from amend.edge.service import package_version, state_dir
from amend.edge.store import Store
from amend.errors import NotFound


@asynccontextmanager
async def open_offline(cwd: Path, env: Mapping[str, str]) -> AsyncIterator[Answers]:
    """A backend for the repository that `cwd` is in. Raises `NotFound` when it is in none."""
    asyncio.get_running_loop().set_default_executor(Workers())  # a Ctrl-C waits for no file
    with closing(Store.scratch_copy(str(state_dir(env) / "amend.db"))) as store:
        config = read_config(env)
        tending = Tending(store, None, None, options_of(config, env), inline_bytes_max=None)
        root = os.path.realpath(os.fsencode(cwd))
        if not os.path.isdir(root):
            raise NotFound(f"{cwd} is no directory", hint="pass --cwd")
        registered = {row.root for row in store.repos()}
        configured = configured_of(config)
        root = nearest_root(root, {*registered, *configured}) or root
        worktree = tending.add(root, configured=configured.get(root))
        for tree in worktree.trees:
            await tree.refresh()
        while not worktree.settled:
            await worktree.ask_git()
        yield Answers(tending, package_version())
