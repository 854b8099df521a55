"""A hook's exchange, soon or not at all.

An agent waits for its hook at every step, so what does not answer in `ANSWER_S` has answered
nothing; its work goes on all the same, since it may be in the middle of writing something down.
Counts how each exchange ended, by agent, for whoever asks: a hook's socket or HTTP.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from amend.core.metrics import Histogram
from amend.edge.serve.direct import begin
from amend.edge.serve.problems import OnBug

Exchange = Callable[[str, bytes], Awaitable[bytes]]
"""From an agent's name and its words to what it is told; b"": nothing.

It begins in no task of its own (see `direct.begin`), so it must not use `asyncio.timeout` before it
first waits.
"""

# Issue 5: a person notices no hook that takes less, and six come to a turn.
ANSWER_S: Final = 0.05


@dataclass(slots=True)
class Tally:
    """How the exchanges of one agent ended."""

    told: int = 0
    silent: int = 0
    late: int = 0  # nothing was said because the answer took too long
    bugs: int = 0  # nothing was said because amend made a mistake


class TimelyExchange:
    def __init__(
        self,
        exchange: Exchange,
        agents: Iterable[str],
        *,
        on_bug: OnBug,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.tallies = {agent: Tally() for agent in agents}
        self.seconds = Histogram()  # by agent, whichever way it asked
        self._exchange = exchange
        self._on_bug = on_bug
        self._answer_s = answer_s
        self._unfinished: set[asyncio.Task[None]] = set()

    async def exchange(self, agent: str, body: bytes) -> bytes:
        """Never raises for an agent of `tallies`. Costs no task where the answer is at hand."""
        begun_s = time.perf_counter()
        reply = await self._timely(agent, body)
        self.seconds.observe(time.perf_counter() - begun_s, agent=agent)
        return reply

    async def _timely(self, agent: str, body: bytes) -> bytes:
        tally = self.tallies[agent]
        replies: list[bytes | None] = []  # of one; None: a bug
        task = begin(self._reply(agent, body, replies), asyncio.get_running_loop())
        if task is not None:
            task.add_done_callback(self._unfinished.discard)
            self._unfinished.add(task)
            await asyncio.wait((task,), timeout=self._answer_s)
            if not replies:
                tally.late += 1
                return b""
        reply = replies[0]
        if reply is None:
            tally.bugs += 1
            return b""
        if reply:
            tally.told += 1
        else:
            tally.silent += 1
        return reply

    async def _reply(self, agent: str, body: bytes, replies: list[bytes | None]) -> None:
        try:
            replies.append(await self._exchange(agent, body))
        except Exception as error:
            self._on_bug(error)
            replies.append(None)

    async def stop(self, deadline_s: float) -> None:
        """What is unfinished gets so long, and is cut then."""
        if self._unfinished:
            await asyncio.wait(tuple(self._unfinished), timeout=deadline_s)
        cut = tuple(self._unfinished)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
