"""The agents amend understands, by the name of their hook socket."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from amend.agents.claude import Claude
from amend.agents.codex import Codex
from amend.core.agent import Answer, Question


class Agent(Protocol):
    """Turns one agent's hook JSON into questions, and answers into its replies."""

    @property
    def name(self) -> str: ...

    def question(self, document: Mapping[str, object]) -> Question | None:
        """What `document` asks; None: nothing. Raises DocumentInvalid for what is no hook input."""
        ...

    def reply(self, document: Mapping[str, object], answer: Answer) -> bytes:
        """`answer` in the words that this agent knows for the event of `document`; b"": none.

        Never raises: what is no hook input is answered with nothing.
        """
        ...


_ALL: Final[tuple[Agent, ...]] = (Claude(), Codex())

AGENTS: Final[Mapping[str, Agent]] = MappingProxyType({agent.name: agent for agent in _ALL})
