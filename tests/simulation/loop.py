"""An event loop without time or chance of its own: virtual seconds, and processes interleaved by the seed.

Real coroutines run on it unchanged. A callback belongs to the simulated process in whose context it was made,
so a process can be killed before any of its steps, or stand still while time goes on. A killed process runs
nothing more, also no `finally`. Within one process callbacks run in the order in which they became ready, as
asyncio promises; between processes the order is the seed's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any


class Stuck(Exception):  # noqa: N818 - reads as what happened
    """Nothing is ready and no timer runs: the simulated world has come to a standstill."""


@dataclass(eq=False)
class Process:
    """A simulated process: everything that was started in its context."""

    name: str
    alive: bool = True
    paused: bool = False
    steps: int = 0
    """Steps taken so far."""
    dies_at: int | None = None
    """It is killed instead of taking this step."""
    held: list[_Turn] = field(default_factory=list)
    """What became ready while it was paused; of a dead one, what never runs."""


THREAD_S = 0.5
"""What another thread does takes up to this long, in simulated seconds."""
OWNER: ContextVar[Process | None] = ContextVar("owner", default=None)


@dataclass(eq=False)
class _Turn:
    """One callback, and whose it is."""

    callback: Callable[..., object]
    args: tuple[object, ...]
    context: Context
    handle: asyncio.Handle | None = None
    """As its maker may cancel it, also while its process stands still."""

    @property
    def process(self) -> Process | None:
        return self.context.get(OWNER)

    def __call__(self) -> None:
        if self.handle is not None and self.handle.cancelled():
            return
        process = self.process
        if process is not None:
            process.steps += process.alive and not process.paused
            if process.steps == process.dies_at:
                process.alive = False
            if not process.alive or process.paused:
                process.held.append(self)
                return
        self.callback(*self.args)


def _hand_over(answer: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
    error = answer.exception()
    if done.cancelled():
        return
    if error is None:
        done.set_result(answer.result())
    else:
        done.set_exception(error)


class _Selector:
    """In place of sockets: waiting is moving the clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Interleave what is ready, or move on to the next timer."""
        self._loop.wait(timeout)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module. Not for threads: an executor's work is done at once, as one step."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._seconds = 0.0
        self._clock_resolution = 1e-9
        self._selector = _Selector(self)
        # Those of the dead must not be collected, which would end them.
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._task)

    def time(self) -> float:
        """Simulated seconds since the beginning."""
        return self._seconds

    def wait(self, timeout: float | None) -> None:
        """What a selector does. Raises: Stuck."""
        if timeout is None:
            raise Stuck
        ready: Any = self._ready
        if len(ready) > 1:
            lines: dict[Process | None, deque[Any]] = {}
            for handle in ready:
                lines.setdefault(handle._callback.process, deque()).append(handle)
            ready.clear()
            waiting = list(lines.values())
            while len(waiting) > 1:
                line = self._random.choice(waiting)
                ready.append(line.popleft())
                if not line:
                    waiting.remove(line)
            ready.extend(waiting[0])
        self._seconds += timeout

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """As asyncio's, in the name of the process whose context it is."""
        turn = _Turn(callback, args, copy_context() if context is None else context)
        turn.handle = super().call_soon(turn, context=turn.context)
        return turn.handle

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, in the name of the process whose context it is."""
        turn = _Turn(callback, args, copy_context() if context is None else context)
        timer = super().call_at(when, turn, context=turn.context)
        turn.handle = timer
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Do it now; the answer comes later."""
        done: asyncio.Future[Any] = self.create_future()
        answer: asyncio.Future[Any] = self.create_future()
        try:
            answer.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed to who waits, as an executor does
            answer.set_exception(error)
        self.call_later(self._random.uniform(0, THREAD_S), _hand_over, answer, done)
        return done

    def spawn(self, process: Process, body: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that belongs to a process, as all do that it starts."""
        context = copy_context()
        context.run(OWNER.set, process)
        return self.create_task(body, context=context)

    def resume(self, process: Process) -> None:
        """Let a paused process run again: what had become ready runs now, unless it was cancelled."""
        process.paused = False
        held, process.held = process.held, []
        for turn in held:
            super().call_soon(turn, context=turn.context)

    def close(self) -> None:
        """End what never ended. What cleanup does now can reach no world: the loop is over."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(RuntimeError):  # its cleanup awaits
                    task.get_coro().close()  # type: ignore[union-attr]  # every task of ours has a coroutine
        super().close()

    def _task(self, _: Any, body: Any, **how: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(body, loop=self, **how)
        self._tasks.append(task)
        return task

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""
