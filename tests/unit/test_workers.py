"""Threads that a stop does not wait for."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from amend.daemon.workers import Workers

WAIT_S = 20.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs in a test goes on after it."""
    made = threading.Event()
    yield made
    made.set()


def test_a_job_gives_its_result_or_its_error() -> None:
    workers = Workers()

    assert workers.submit(divmod, 7, 2).result(WAIT_S) == (3, 1)
    assert workers.submit(int, "11", base=2).result(WAIT_S) == 3
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 7, 0).result(WAIT_S)


def test_no_more_jobs_run_at_once_than_there_may_be_threads(gate: threading.Event) -> None:
    workers = Workers(2)
    started = threading.Semaphore(0)

    def job() -> int:
        started.release()
        gate.wait(WAIT_S)
        return threading.get_ident()

    jobs = [workers.submit(job) for _ in range(6)]
    assert started.acquire(timeout=WAIT_S)
    assert started.acquire(timeout=WAIT_S)
    running = [job for job in jobs if job.running()]
    gate.set()
    threads = {job.result(WAIT_S) for job in jobs}

    assert running == jobs[:2]
    assert len(threads) == 2


def test_a_job_that_hangs_holds_up_none_that_finds_a_thread(gate: threading.Event) -> None:
    workers = Workers(2)
    workers.submit(gate.wait, WAIT_S)

    results = [workers.submit(int, "7").result(WAIT_S) for _ in range(50)]

    assert results == [7] * 50


def test_a_job_that_was_cancelled_while_it_waited_is_never_run(gate: threading.Event) -> None:
    workers = Workers(1)
    first = workers.submit(gate.wait, WAIT_S)
    ran: list[int] = []
    second = workers.submit(ran.append, 2)
    third = workers.submit(ran.append, 3)

    assert second.cancel()
    gate.set()

    assert first.result(WAIT_S)
    third.result(WAIT_S)
    assert ran == [3]


async def test_a_loop_takes_it_for_its_own_threads() -> None:
    asyncio.get_running_loop().set_default_executor(Workers())

    assert await asyncio.to_thread(int, "7") == 7


HANGING = """
import asyncio, sys, threading, uvloop
from amend.daemon.workers import Workers

async def main():
    asyncio.get_running_loop().set_default_executor(Workers())
    started = threading.Event()

    def hang():
        started.set()
        threading.Event().wait()

    task = asyncio.create_task(asyncio.to_thread(hang))
    while not started.is_set():
        await asyncio.sleep(0)
    if sys.argv[1] == "fail":
        raise SystemExit(7)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

uvloop.run(main())
"""


@pytest.mark.parametrize(("how", "code"), [("stop", 0), ("fail", 7)])
def test_a_process_ends_while_a_job_hangs(how: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING, how], timeout=WAIT_S, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (code, b"")
