"""What an exploration was asked, which files it read, what it said, and what it cost.

Values that `formats.transcript` makes of an agent's own record of its work. Paths are text as the
agent gave it, absolute or relative to `Explored.cwd`; whether one lies in a repository, and what
it holds, is for others to say.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input`: sent and not cached; `cache_read`, `cache_created`: sent besides that."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_created: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_created

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_created + other.cache_created,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """One look at one file.

    `start` to `end`: the lines that were seen, counted from 1, both included; both None for the
    whole file, `end` alone for all from `start` on. `at`: no later than the look itself. `failed`:
    the path was asked for and did not exist. `is_guess`: a command line or its output says so, no
    tool that reads files: the path may be no file at all. `is_glob`: where no such file is, the
    path is a pattern that a shell or `find` put files in the place of.
    """

    path: str
    start: int | None = None
    end: int | None = None
    at: datetime | None = None
    failed: bool = False
    is_guess: bool = False
    is_glob: bool = False


@dataclass(frozen=True, slots=True)
class Explored:
    """What a transcript tells so far.

    `text`: what the agent said last, which is its finding when `is_finished`. `reads`: in their
    order, a file as often as it was looked at. `spawned`: the calls by which it started
    explorations of its own, whose reads stand in their transcripts. `call`: the call that started
    it, "" where the transcript does not tell. `is_cut`: more was there than is read of one.
    """

    prompt: str
    text: str
    reads: tuple[Read, ...]
    cwd: str
    tokens: Usage
    started_at: datetime | None
    ended_at: datetime | None
    is_finished: bool
    call: str = ""
    spawned: tuple[str, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Meta:
    """What is kept beside a transcript. "" for what it does not tell.

    `call`: the tool call that started the exploration; `parent`: the exploration that made it.
    """

    call: str
    agent_type: str
    description: str
    is_finished: bool
    parent: str = ""
