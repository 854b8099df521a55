"""Whether Codex runs a hook: it runs none that a person has not agreed to in its own screen.

Codex names a hook by its file, event and place, and remembers the hash of what was agreed to in
`config.toml`, below `hooks.state`. A hook that changed since must be agreed to again, and until
then it is left out without a word.

Source: codex-rs/hooks/src/engine/discovery.rs and codex-rs/config/src/fingerprint.rs of
openai/codex, compared with what 0.171.0 writes.
"""

import enum
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Final

from amend.errors import DocumentInvalid
from amend.formats.agent_settings import OwnHook

# Events whose matcher Codex does not look at, so that it is no part of what was agreed to.
_UNMATCHED: Final = frozenset({"UserPromptSubmit", "Stop"})


class Trust(enum.Enum):
    TRUSTED = "trusted"
    CHANGED = "changed since trusted"
    UNTRUSTED = "not trusted yet"
    OFF = "switched off"


def states_in(config: bytes) -> Mapping[str, object]:
    """What Codex remembers of hooks. Raises `DocumentInvalid` where `config` is no TOML."""
    try:
        document = tomllib.loads(config.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DocumentInvalid(f"config.toml is no TOML: {error}", hint="mend it") from None
    hooks = document.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    return states if isinstance(states, dict) else {}


def trust_of(hook: OwnHook, path: str, states: Mapping[str, object]) -> Trust:
    """`path`: of the hooks file, as Codex names it."""
    state = states.get(f"{path}:{_snake(hook.event)}:{hook.group}:{hook.handler}")
    if not isinstance(state, Mapping):
        return Trust.UNTRUSTED
    if state.get("enabled") is False:
        return Trust.OFF
    trusted = state.get("trusted_hash")
    if not isinstance(trusted, str):
        return Trust.UNTRUSTED
    return Trust.TRUSTED if trusted == _hash(hook) else Trust.CHANGED


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _hash(hook: OwnHook) -> str:
    handler = {
        "async": False,
        "command": hook.command,
        "timeout": max(1, int(hook.timeout or 0)),
        "type": "command",
    }
    identity: dict[str, object] = {"event_name": _snake(hook.event), "hooks": [handler]}
    if hook.matcher is not None and hook.event not in _UNMATCHED:
        identity["matcher"] = hook.matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
