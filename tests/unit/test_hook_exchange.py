"""An exchange answers soon or says nothing, and what it began goes on."""

import asyncio

from amend.edge.serve.hook_exchange import Tally, TimelyExchange

SOON_S = 0.005


class Agents:
    """An exchange that answers as its agent is called, and what became of it."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.ended: list[str] = []
        self.tasks = 0
        self.bugs: list[Exception] = []

    async def exchange(self, agent: str, body: bytes) -> bytes:
        self.tasks = len(asyncio.all_tasks())
        if agent == "broken":
            raise ValueError("secret")
        if agent == "waiting":
            await asyncio.sleep(0)
        if agent == "slow":
            try:
                await self.release.wait()
            finally:
                self.ended.append(agent)
        return b"" if agent == "silent" else body

    def on_bug(self, error: Exception) -> str:
        self.bugs.append(error)
        return "id"

    def timely(self, answer_s: float = 10.0) -> TimelyExchange:
        names = ("told", "silent", "waiting", "slow", "broken")
        return TimelyExchange(self.exchange, names, on_bug=self.on_bug, answer_s=answer_s)


async def test_what_is_at_hand_is_answered_without_a_task() -> None:
    agents = Agents()
    timely = agents.timely()

    reply = await timely.exchange("told", b"{}")

    assert (reply, agents.tasks) == (b"{}", 1)
    assert timely.tallies["told"] == Tally(told=1)


async def test_what_waits_a_little_is_answered_too() -> None:
    timely = Agents().timely()

    reply = await timely.exchange("waiting", b"{}")

    assert reply == b"{}"
    assert timely.tallies["waiting"] == Tally(told=1)


async def test_nothing_to_say_is_counted_as_silence() -> None:
    timely = Agents().timely()

    reply = await timely.exchange("silent", b"{}")

    assert reply == b""
    assert timely.tallies["silent"] == Tally(silent=1)


async def test_what_takes_too_long_says_nothing_and_goes_on_to_its_end() -> None:
    agents = Agents()
    timely = agents.timely(SOON_S)

    reply = await timely.exchange("slow", b"{}")
    ended_before = list(agents.ended)
    agents.release.set()
    await timely.stop(10)

    assert (reply, ended_before, agents.ended) == (b"", [], ["slow"])
    assert timely.tallies["slow"] == Tally(late=1)


async def test_a_bug_is_told_once_and_the_agent_hears_nothing() -> None:
    agents = Agents()
    timely = agents.timely()

    reply = await timely.exchange("broken", b"{}")

    assert reply == b""
    assert [str(bug) for bug in agents.bugs] == ["secret"]
    assert timely.tallies["broken"] == Tally(bugs=1)


async def test_a_client_that_gives_up_takes_nothing_with_it() -> None:
    agents = Agents()
    timely = agents.timely()
    asking = asyncio.create_task(timely.exchange("slow", b"{}"))
    await asyncio.sleep(0)

    asking.cancel()
    await asyncio.wait((asking,))
    ended_before = list(agents.ended)
    agents.release.set()
    await timely.stop(10)

    assert asking.cancelled()
    assert (ended_before, agents.ended) == ([], ["slow"])


async def test_a_stop_cuts_what_does_not_end() -> None:
    agents = Agents()
    timely = agents.timely(SOON_S)
    await timely.exchange("slow", b"{}")

    await timely.stop(SOON_S)

    assert agents.ended == ["slow"]
    assert not agents.release.is_set()
