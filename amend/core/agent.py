"""What a coding agent tells amend, and what amend answers, whichever agent it is.

One module in `amend.agents` for each agent turns its hooks' JSON into a question of these and an
answer of these into its own words. Paths are text as the agent gives it, absolute or relative to
the session's directory.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Session:
    """Who asks. `directory`: absolute, where the session works now. `subagent`: the id of the
    subagent that the question comes from, None for the session itself."""

    agent: str  # the name of the module: "claude", "codex"
    id: str
    directory: str
    subagent: str | None = None


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session: Session
    source: str  # "startup", "resume", "clear", "compact", "fork"


@dataclass(frozen=True, slots=True)
class PromptGiven:
    session: Session
    text: str


@dataclass(frozen=True, slots=True)
class ExplorationStarting:
    """`call` names the tool call. `given`: all of the tool's input, to be sent back complete."""

    session: Session
    call: str
    agent_type: str
    description: str
    prompt: str
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExplorationLaunched:
    """The exploration that a call has started. It may come before or after its other questions."""

    session: Session
    call: str
    exploration: str


@dataclass(frozen=True, slots=True)
class ExplorationEnded:
    """It may come several times for one exploration; the last counts. "": not told.

    `transcript`: where the agent keeps what it did; `text`: what it found.
    """

    session: Session
    exploration: str
    agent_type: str
    text: str
    transcript: str = ""
    call: str = ""
    prompt: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExplorationFailed:
    """It was killed or broke off: what it said is no finding. One of the two names is given."""

    session: Session
    exploration: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class FilesEdited:
    session: Session
    paths: tuple[str, ...]


Question = (
    SessionOpened
    | PromptGiven
    | ExplorationStarting
    | ExplorationLaunched
    | ExplorationEnded
    | ExplorationFailed
    | FilesEdited
)


@dataclass(frozen=True, slots=True)
class Answer:
    """At most one of the three says something.

    `context` is told beside what happens anyway; `instead`: told, and the exploration does not
    run; `head_start`: the exploration runs, and its prompt goes on with this.
    """

    context: str = ""
    instead: str = ""
    head_start: str = ""


NOTHING = Answer()


def digest_of(description: str, prompt: str) -> bytes:
    """Stands for a task, whatever its case and white space; b"" where the prompt is not told."""
    if not prompt.strip():
        return b""
    words = " ".join(f"{description}\n{prompt}".casefold().split())
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).digest()
