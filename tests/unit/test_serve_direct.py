"""Answers that are begun without a task."""

import asyncio

import pytest

from amend.edge.serve.direct import begin


async def test_what_waits_for_nothing_has_ended_and_cost_no_task() -> None:
    done = []

    async def answer() -> None:
        done.append(len(asyncio.all_tasks()))

    assert begin(answer(), asyncio.get_running_loop()) is None
    assert done == [1]  # the test's own


async def test_what_waits_is_a_task_from_there_on() -> None:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()
    done: list[object] = []

    async def answer() -> None:
        done.append(await first)
        done.append(await asyncio.to_thread(lambda: "hashed"))
        try:
            await refused
        except ValueError as error:
            done.append(str(error))

    refused: asyncio.Future[None] = loop.create_future()
    task = begin(answer(), loop)
    assert task is not None
    assert done == []
    refused.set_exception(ValueError("changed meanwhile"))
    first.set_result(1)
    await task

    assert done == [1, "hashed", "changed meanwhile"]


async def test_a_cancelled_rest_ends_the_coroutine_where_it_waits() -> None:
    ended = []

    async def answer() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    task = begin(answer(), asyncio.get_running_loop())
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended == [True]
