"""`make e2e`: the real Claude Code and Codex, a scripted model, a real daemon.

Prints what was seen, with the requests that show it, and ends with 1 where something was missed.
Nothing leaves the machine but npm's fetching of the clients; not part of CI.

    python -m tests.e2e.run [plugin] [claude] [codex] [terminal] [delay]

The rig's API server is `fake_api.py` in `AMEND_E2E_RIG`, otherwise in `../shared/agent-rig`.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.running import ROOT
from tests.e2e.claude_story import claude_story
from tests.e2e.clients import Clients, clients
from tests.e2e.codex_story import codex_story
from tests.e2e.failing import delay, notices
from tests.e2e.plugin import plugin
from tests.e2e.seen import Seen
from tests.e2e.stage import Stage

PARTS: Final[Mapping[str, Callable[[Stage, Seen], None]]] = {
    "plugin": plugin,
    "claude": claude_story,
    "codex": codex_story,
    "terminal": notices,
    "delay": delay,
}


def main(names: list[str]) -> int:
    rig = Path(os.environ.get("AMEND_E2E_RIG", ROOT.parent / "shared" / "agent-rig"))
    unknown = set(names) - PARTS.keys()
    if unknown or not (rig / "fake_api.py").is_file():
        what = f"no part {unknown}" if unknown else f"no rig in {rig}; AMEND_E2E_RIG can name it"
        print(f"e2e: error: {what}", file=sys.stderr)
        return 2
    try:
        programs = clients(os.environ)
    except RuntimeError as error:
        print(f"e2e: error: {error}", file=sys.stderr)
        return 2
    seen = Seen()
    for name in names or PARTS:
        seen.part(name)
        _play(PARTS[name], rig, programs, seen)
    return seen.summary()


def _play(part: Callable[[Stage, Seen], None], rig: Path, programs: Clients, seen: Seen) -> None:
    """Each in places of its own, which are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="amend-e2e-", ignore_cleanup_errors=True) as base:
        stage = Stage(Path(base), rig, programs)
        try:
            with stage.daemon:
                stage.daemon.add(stage.root)
                part(stage, seen)
        except Exception as error:
            # The other parts have something to say all the same.
            seen.missed(f"it broke off: {type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
