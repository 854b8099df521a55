"""How much one client may take, and how often one tried to take more."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """A hook's whole exchange takes milliseconds; these meet only the stuck and the hostile.

    `connections`: 20 agents with a few hooks each, twice over. `body_bytes`: a finding with a
    thousand files is 100 KB. `quiet_s`: an event stream says that it lives at least so often; a
    client that is gone is noticed by a write that fails, and 15 s is what browsers count on too.
    `linger_s`: closing with unread bytes breaks a client's writing before it has read why; a second
    is a guess at how long it goes on writing.
    """

    header_s: float = 2.0
    body_s: float = 5.0
    idle_s: float = 10.0
    quiet_s: float = 15.0
    linger_s: float = 1.0
    header_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    connections: int = 128


@dataclass(slots=True)
class Stats:
    """What `/metrics` tells of connections: open ones, and how many came to each bad end."""

    connections: int = 0
    refused_peers: int = 0  # of another user
    refused_full: int = 0  # beyond `Limits.connections`
    timeouts: int = 0
    rejected: int = 0  # answered by the protocol, not by a route; timeouts included


@dataclass(slots=True)
class HookStats:
    """Connections to all hook sockets: open ones, and how many came to each bad end."""

    connections: int = 0
    refused_peers: int = 0  # of another user
    refused_full: int = 0  # beyond `Limits.connections`
    too_large: int = 0  # more than `Limits.body_bytes`
    unfinished: int = 0  # not whole within `Limits.body_s`
