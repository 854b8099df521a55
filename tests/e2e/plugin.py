"""The plugin directory, as Claude Code itself judges it."""

import subprocess

from amend.agents.plugin import plugin_dir
from tests.e2e.seen import Seen
from tests.e2e.stage import Stage

_VALIDATE_S = 60.0


def plugin(stage: Stage, seen: Seen) -> None:
    command = [str(stage.clients.claude), "plugin", "validate", "--strict", str(plugin_dir())]
    done = subprocess.run(
        command,
        env={**stage.env({}), "DISABLE_AUTOUPDATER": "1"},
        capture_output=True,
        text=True,
        timeout=_VALIDATE_S,
        check=False,
    )
    said = (done.stdout + done.stderr).replace(str(plugin_dir()), "amend/plugin").splitlines()
    # What it resolves, each hook's command among it, is long and passes.
    shown = "\n".join(line for line in said if line and (done.returncode or line[0] in "✔⚠✘"))
    seen.that("`claude plugin validate --strict` passes", done.returncode == 0, shown)
