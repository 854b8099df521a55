"""Where the Claude Code plugin is that comes with amend, and how it is added."""

import shlex
from pathlib import Path
from typing import Final

# The plugin directory is its own marketplace, and both are named in its manifests.
NAME: Final = "amend@amend"


def plugin_dir() -> Path:
    """The directory with `.claude-plugin/`, `hooks/`, `agents/` and `skills/`, absolute."""
    return Path(__file__).resolve().parent.parent / "plugin"


def try_command() -> str:
    """The command that starts one session with the plugin."""
    return f"claude --plugin-dir {_quoted()}"


def install_commands() -> tuple[str, str]:
    """The commands that add it for good, in this order."""
    return f"claude plugin marketplace add {_quoted()}", f"claude plugin install {NAME}"


def _quoted() -> str:
    return shlex.quote(str(plugin_dir()))
