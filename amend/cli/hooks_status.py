"""What is installed for an agent, where, and whether it works.

Reads the agent's settings and its trust, and asks the daemon's sockets; changes nothing.
"""

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from amend.agents.install_trust import Trust, states_in, trust_of
from amend.agents.installing import Target, api_socket, client_of, hook_socket
from amend.cli.hooks_files import Place, read, users_place
from amend.errors import AmendError, reason_of
from amend.formats.agent_settings import (
    OwnHook,
    are_hooks_disabled,
    enabled_plugins,
    own_hooks,
)

PLUGIN: Final = "amend"

# A live daemon answers a hook in 50 ms; this is for a machine that is swapping.
_ANSWER_S: Final = 2.0

# All counters of a daemon are some 20 KB.
_ANSWER_BYTES_MAX: Final = 1 << 20

# An event that no agent has: amend has nothing to say to it, and says so by closing.
_QUESTION: Final = b'{"hook_event_name": "Canary", "session_id": "canary", "cwd": "/"}'

_EXCHANGES: Final = re.compile(r"^amend_hook_exchanges_total\{([^}]*)\} (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installed:
    """`state`: absent, installed, partly, other (another amend's, or another socket's), unreadable.
    `trust` is how many hooks the agent would run, for each answer that it has; empty where it asks
    nobody."""

    scope: str
    path: str
    state: str
    clients: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""
    is_switched_off: bool = False
    trust: dict[str, int] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        return self.state in ("installed", "partly", "other")

    def document(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "path": self.path,
            "state": self.state,
            "clients": list(self.clients),
            "missing": list(self.missing),
            "problem": self.problem,
            "hooks_disabled": self.is_switched_off,
            "trust": self.trust,
        }


def installed(
    target: Target, scope: str, place: Place, runtime: str, config: str | None
) -> Installed:
    """What is in one settings file. `config`: the file with what the agent trusts, if it asks."""
    try:
        data = read(place) or b""
        hooks = own_hooks(data)
        is_off = are_hooks_disabled(data)
        states = states_in(_read_all(config)) if config is not None and hooks else {}
    except AmendError as error:
        named = f"{place.shown}: "
        said = error.message.removeprefix(named)
        return Installed(scope, place.shown, "unreadable", problem=named + said)
    if not hooks:
        return Installed(scope, place.shown, "absent", is_switched_off=is_off)
    state, clients, missing = _judged(target, hooks, runtime)
    trust: dict[str, int] = {}
    for hook in hooks if config is not None else ():
        said = _trust(hook, place, states).value
        trust[said] = trust.get(said, 0) + 1
    return Installed(
        scope,
        place.shown,
        state,
        clients=clients,
        missing=missing,
        is_switched_off=is_off,
        trust=trust,
    )


def _trust(hook: OwnHook, place: Place, states: Any) -> Trust:
    """By the path that the agent knows the file by, or by where it really is."""
    found = trust_of(hook, place.shown, states)
    return found if found is not Trust.UNTRUSTED else trust_of(hook, place.real, states)


def _judged(
    target: Target, hooks: Sequence[OwnHook], runtime: str
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The state, the clients, and the events that have no hook."""
    clients: set[str] = set()
    is_other = len(hooks) > len({hook.event for hook in hooks})
    events = {hook.event: hook for hook in hooks}
    for wanted in target.wanted:
        hook = events.pop(wanted.event, None)
        if hook is None:
            continue
        client = client_of(hook.command, target, wanted.bound, runtime)
        if client is not None:
            clients.add(client.value)
        if client is None or (hook.matcher, hook.timeout) != (wanted.matcher, target.timeout_s):
            is_other = True
    missing = tuple(
        wanted.event
        for wanted in target.wanted
        if all(hook.event != wanted.event for hook in hooks)
    )
    state = "other" if is_other or events else "partly" if missing else "installed"
    return state, tuple(sorted(clients)), missing


def plugins(paths: Sequence[str]) -> tuple[str, ...]:
    """amend's plugin, by whichever of the settings switches it on."""
    found: list[str] = []
    for path in paths:
        try:
            found += enabled_plugins(_read_all(path), PLUGIN)
        except AmendError:
            continue
    return tuple(dict.fromkeys(found))


def _read_all(path: str) -> bytes:
    """b"" also for what cannot be read: nothing is known of it then."""
    try:
        return read(users_place(path)) or b""
    except AmendError:
        return b""


# -- the daemon --------------------------------------------------------------------------------


def socket_state(target: Target, runtime: str) -> str:
    """ "answers", or why the hook's socket does not."""
    try:
        _asked(hook_socket(target, runtime), _QUESTION)
    except FileNotFoundError:
        return "there is none; no daemon runs"
    except ConnectionRefusedError:
        return "nobody listens at it; the daemon was killed"
    except PermissionError:
        return "this process may not use it"
    except TimeoutError:
        return "takes the question and gives no answer"
    except OSError as error:
        return reason_of(error)
    return "answers"


def exchanges(target: Target, runtime: str) -> int | None:
    """How many hooks of this agent the daemon has heard since it started; None: not told."""
    question = b"GET /metrics HTTP/1.1\r\nhost: amend\r\nconnection: close\r\n\r\n"
    try:
        text = _asked(api_socket(runtime), question).decode("utf-8", "replace")
    except OSError:
        return None
    found = [
        int(count)
        for labels, count in _EXCHANGES.findall(text)
        if f'agent="{target.name}"' in labels.split(",")
    ]
    return sum(found) if found else None


def _asked(path: str, question: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_ANSWER_S)
        sock.connect(os.fsencode(path))
        sock.sendall(question)
        if not question.startswith(b"GET "):
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        while len(answer) < _ANSWER_BYTES_MAX and (piece := sock.recv(1 << 16)):
            answer += piece
        return answer
