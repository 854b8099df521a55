"""Threads for what would hold the loop: git's answers, and the hashing of large files.

All they do is read, so nobody waits for them to end. Python's own pool is waited for twice, by the
loop that closes and by the interpreter that exits, and one filesystem that hangs would keep a
daemon that was told to stop alive for as long as it does.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Condition, Thread
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# As many as Python's own pool has: they wait for a disk more than they compute.
THREADS_MAX: Final = min(32, (os.cpu_count() or 1) + 4)


class Workers(ThreadPoolExecutor):
    """A loop's default executor, which has to be of this type; the type's own threads are never
    started. Runs jobs in the order they came, `threads_max` at once."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        super().__init__(threads_max)
        self._threads_left = threads_max
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = 0
        self._came = Condition()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._came:
            self._jobs.append((future, partial(fn, *args, **kwargs)))
            if len(self._jobs) > self._idle and self._threads_left > 0:
                self._threads_left -= 1
                Thread(target=self._work, name="amend-worker", daemon=True).start()
            self._came.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Returns at once, whatever is asked for; what still runs ends with the process."""

    def _work(self) -> None:
        while True:
            with self._came:
                self._idle += 1
                while not self._jobs:
                    self._came.wait()
                self._idle -= 1
                future, job = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    result = job()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, job  # what they hold is not to wait for the next one
