"""A private home, repository and daemon, and the real clients run in them.

Nothing of the person's own is read or written: the clients get an environment of four variables
and what they need to find the scripted model.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.running import Daemon, git
from tests.e2e.clients import Clients
from tests.e2e.model import Lanes, Model

FILES: Final = {
    "README.md": "# demo\nA tiny web service.\n",
    "src/auth.py": "import session\n\n\ndef login(user, password):\n"
    "    token = session.issue(user)\n    return token\n\n\n"
    "def logout(token):\n    session.revoke(token)\n",
    "src/session.py": "TOKENS = {}\n\n\ndef issue(user):\n    TOKENS[user] = 'token'\n"
    "    return TOKENS[user]\n\n\ndef revoke(token):\n    TOKENS.clear()\n",
    "src/db.py": "def connect():\n    return None\n",
}

# A run of a client against a model that answers at once takes two seconds; with a daemon that
# hangs, six.
RUN_S: Final = 90.0


@dataclass(frozen=True)
class Played:
    """A client's run: what its model was asked, and how long it took."""

    model: Model
    elapsed_s: float
    code: int
    out: str
    err: str


class Stage:
    def __init__(self, base: Path, rig: Path, clients: Clients) -> None:
        self.rig = rig
        self.clients = clients
        self.daemon = Daemon(base / "daemon")
        self.home = Path(self.daemon.env["HOME"])
        self.root = base / "shop"
        self.tmp = base / "tmp"
        self.tmp.mkdir()
        for path, words in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(words)
        git(self.root, "init", "-q", "-b", "main")
        self.commit("first")

    def commit(self, subject: str) -> str:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", subject)
        return git(self.root, "rev-parse", "HEAD").strip()

    def amend(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "amend.cli.main", *arguments],
            env=self.daemon.env,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"amend {' '.join(arguments)}: {done.returncode} {done.stderr}")
        return done.stdout

    def entries(self) -> list[dict[str, Any]]:
        """What is known, when all that the hooks have told is done."""
        self.daemon.sync()
        return list(self.daemon.entries(self.root).values())

    def hang(self) -> None:
        os.kill(self.daemon.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.daemon.pid, signal.SIGCONT)

    # -- the clients -----------------------------------------------------------------------------

    def env(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.tmp),
            **more,
        }

    def claude_env(self, model: Model) -> dict[str, str]:
        return self.env(
            {
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "sk-ant-dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CODE_TMPDIR": str(self.tmp),
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_TELEMETRY": "1",
            }
        )

    def claude(self, prompt: str, lanes: Lanes) -> Played:
        """`claude -p`, which may edit."""
        with Model(self.rig, lanes) as model:
            command = [str(self.clients.claude), "-p", prompt, "--verbose"]
            command += ["--output-format", "stream-json", "--permission-mode", "acceptEdits"]
            return self._played(model, command, self.claude_env(model))

    def codex(self, prompt: str, lanes: Lanes) -> Played:
        """`codex exec`, with hooks that nobody was asked to trust."""
        home = self.home / ".codex"
        home.mkdir(exist_ok=True)
        with Model(self.rig, lanes) as model:
            (home / "config.toml").write_text(_codex_config(model.url, self.root))
            command = [str(self.clients.codex), "exec", "--json"]
            command += ["--dangerously-bypass-hook-trust", prompt]
            env = self.env({"CODEX_HOME": str(home), "FAKE_KEY": "dummy"})
            return self._played(model, command, env)

    def _played(self, model: Model, command: Sequence[str], env: Mapping[str, str]) -> Played:
        begun_s = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=RUN_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return Played(model, time.monotonic() - begun_s, process.returncode, out, err)


def _codex_config(url: str, root: Path) -> str:
    provider = {
        "name": "scripted",
        "base_url": f"{url}/v1",
        "env_key": "FAKE_KEY",
        "wire_api": "responses",
    }
    lines = [
        'model = "gpt-5.5"',
        'model_provider = "scripted"',
        'approval_policy = "never"',
        'sandbox_mode = "danger-full-access"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[features]",
        "daemon_auto_start = false",  # or an app server stays behind
        "[model_providers.scripted]",
        *(f"{key} = {json.dumps(value)}" for key, value in provider.items()),
        "requires_openai_auth = false",
        "supports_websockets = false",
        f"[projects.{json.dumps(str(root))}]",
        'trust_level = "trusted"',
    ]
    return "\n".join(lines) + "\n"
