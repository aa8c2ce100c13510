"""Queues of callers for costly work: each caller has a share, so that nobody blocks the others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from api_gateway.auth.authentication import principal
from chassis.errors import ApiError

T = TypeVar("T")


@dataclass(slots=True)
class _Queue:
    """Queue of one caller."""

    room: asyncio.Semaphore
    pending: int = 0
    """Number of tasks that run or wait."""


class CallerQueues:
    """Starts tasks for the caller of a call: a few run at once, a few more wait."""

    def __init__(self, at_once: int, max_pending: int, refuse: Callable[[], ApiError]) -> None:
        """Limit the tasks of each caller: those that run, and those that run or wait.

        refuse: makes the error for one task too many.
        """
        self._max_pending, self._refuse = max_pending, refuse
        self._queues: defaultdict[str, _Queue] = defaultdict(lambda: _Queue(asyncio.Semaphore(at_once)))
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Start `work` as soon as its caller has room; return its task, which no call that ends cancels if
        it is awaited by `asyncio.shield`. Raises: ApiError for one too many.
        """
        caller = principal().name
        queue = self._queues[caller]
        if queue.pending >= self._max_pending:
            raise self._refuse()
        queue.pending += 1
        task = asyncio.create_task(_run(queue, work))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, caller))
        return task

    async def stop(self) -> None:
        """Cancel all tasks and wait for their ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finish(self, task: asyncio.Task[Any], caller: str) -> None:
        self._tasks.discard(task)
        self._queues[caller].pending -= 1
        if not self._queues[caller].pending:
            del self._queues[caller]
        if not task.cancelled():
            task.exception()  # retrieve it: the call that would may have been cancelled


async def _run(queue: _Queue, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async with queue.room:
        return await work()
