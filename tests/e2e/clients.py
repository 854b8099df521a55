"""Where the real Claude Code and Codex are: programs that npm fetches once, outside the repository.

`CLAUDE_BIN` and `CODEX_BIN` name programs that are there already; `AMEND_E2E_CLIENTS` names the
directory of those that are not (otherwise one in the person's cache). Both are native programs:
npm only fetches them, and none of their scripts runs.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

# The versions whose hooks were measured. A newer one is a matter for research first.
PACKAGES: Final = {
    "claude": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
}
_VARIABLES: Final = {"claude": "CLAUDE_BIN", "codex": "CODEX_BIN"}

# What npm unpacks for this machine's platform.
_PROGRAMS: Final = {
    "claude": "node_modules/@anthropic-ai/claude-code-*/claude",
    "codex": "node_modules/@openai/codex-*/vendor/*/bin/codex",
}

# Half a gigabyte over a line of 10 Mbit/s.
_FETCH_S: Final = 900


@dataclass(frozen=True)
class Clients:
    claude: Path
    codex: Path


def clients(env: Mapping[str, str]) -> Clients:
    """The programs, fetched where they are not there. Raises `RuntimeError` where that fails."""
    return Clients(_client("claude", env), _client("codex", env))


def _client(name: str, env: Mapping[str, str]) -> Path:
    if given := env.get(_VARIABLES[name]):
        return Path(given)
    base = env.get("AMEND_E2E_CLIENTS") or platformdirs.user_cache_path("amend") / "e2e-clients"
    prefix = Path(base) / PACKAGES[name].rpartition("@")[2]
    found = _found(prefix, name)
    if found is None:
        _fetch(prefix, PACKAGES[name])
        found = _found(prefix, name)
    if found is None:
        raise RuntimeError(
            f"{PACKAGES[name]} has no program for this machine below {prefix}; "
            f"{_VARIABLES[name]} can name one"
        )
    return found


def _found(prefix: Path, name: str) -> Path | None:
    return next((path for path in prefix.glob(_PROGRAMS[name]) if os.access(path, os.X_OK)), None)


def _fetch(prefix: Path, package: str) -> None:
    prefix.mkdir(parents=True, exist_ok=True)
    print(f"fetching {package} with npm, once, into {prefix}", flush=True)
    command = ["npm", "install", "--prefix", str(prefix), "--ignore-scripts", "--no-audit"]
    try:
        subprocess.run([*command, "--no-fund", package], check=True, timeout=_FETCH_S)
    except FileNotFoundError:
        raise RuntimeError("npm is not installed, and it fetches the clients") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"npm could not fetch {package}: {error}") from None
