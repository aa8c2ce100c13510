"""Check queries in warm processes: a costly check delays no other call, and can be killed.

Each caller has a limit of running and of waiting checks.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final, TypeAlias

import grpc

from api_gateway.auth.authentication import principal
from api_gateway.validate.caller_queues import CallerQueues
from api_gateway.validate.query_check_process import HEAD, OUT_OF_MEMORY, Question, answer
from chassis.errors import ApiError
from chassis.logging import logger
from daggersql import CheckResult, Finding, Severity

Checker: TypeAlias = Callable[[Question], Awaitable[CheckResult]]
"""Answers a question. Raises: ApiError where it cannot now."""

CPU_S: Final = 2.0
"""Limit of one check, in CPU-seconds."""
PROCESSES: Final = 2
AT_ONCE: Final = 1
"""Running checks per caller; fewer than PROCESSES, so that nobody occupies them all."""
MOST_WAITING: Final = 32
"""Waiting checks per caller."""
_PATIENCE_S: Final = 60.0
"""Longest wait for an answer, in seconds: far more than its CPU-seconds take on a busy machine."""


async def in_thread(question: Question) -> CheckResult:
    """Check in a thread of this process, for callers that trust the query."""
    return await asyncio.to_thread(answer, question)


class CheckProcesses:
    """A few checking processes, which are replaced when they die. Built by `check_processes`."""

    def __init__(self, cpu_s: float, after: asyncio.Event | None) -> None:
        self._cpu_s, self._after = cpu_s, after
        self._idle: asyncio.Queue[Process | None] = asyncio.Queue()
        """Idle processes; None for one that has yet to be started."""
        self._queues = CallerQueues(AT_ONCE, AT_ONCE + MOST_WAITING, _busy)
        self._running: dict[tuple[str, Question], asyncio.Task[CheckResult]] = {}
        """Running checks by caller and question."""
        for _ in range(PROCESSES):
            self._idle.put_nowait(None)
        self._starting = [asyncio.create_task(self._start()) for _ in range(PROCESSES)]

    async def __call__(self, question: Question) -> CheckResult:
        """Check a query; a finding CHECK_TOO_COSTLY where it exceeds its limits.

        A question that the caller asks again meanwhile shares the check. Raises: ApiError.
        """
        who = principal().name
        task = self._running.get((who, question))
        if task is None:
            task = self._running[who, question] = self._queues.start(lambda: self._check(question))
            task.add_done_callback(lambda _: self._running.pop((who, question)))
        # a cancelled call does not cancel its check, which ends by itself, and soon
        return await asyncio.shield(task)

    async def _start(self) -> None:
        """Start a process, unless a check has started it."""
        if self._after is not None:
            await self._after.wait()
        process = await self._idle.get()
        try:
            with suppress(ApiError):  # the first check tries again, and reports the error
                process = process or await _start_process(self._cpu_s)
        finally:
            self._idle.put_nowait(process)

    async def stop(self) -> None:
        """Stop all processes and their checks."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await self._queues.stop()
        while not self._idle.empty():
            await _end(self._idle.get_nowait())

    async def _check(self, question: Question) -> CheckResult:
        process = await self._idle.get()
        try:
            if process is None or process.returncode is not None:
                process = await _start_process(self._cpu_s)
            checked = await _ask_process(process, question)
            return _too_costly(self._cpu_s) if checked is None else checked
        except BaseException:
            await _end(process)
            process = None
            raise
        finally:
            alive = process is not None and process.returncode is None
            self._idle.put_nowait(process if alive else None)


@asynccontextmanager
async def check_processes(
    cpu_s: float = CPU_S, *, after: asyncio.Event | None = None
) -> AsyncIterator[CheckProcesses]:
    """Run processes that check queries inside the block.

    cpu_s: the limit of one check. after: they start once it is set, as they would slow down what starts
    before; a check that does not wait for it starts its own.
    """
    processes = CheckProcesses(cpu_s, after)
    try:
        yield processes
    finally:
        await processes.stop()


async def _start_process(cpu_s: float) -> Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "api_gateway.validate.query_check_process", str(cpu_s)),
        stdin=PIPE,
        stdout=PIPE,
        env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},  # no variable of the gateway's, which may be secret
    )
    try:
        await _frame(process)
    except BaseException:
        await _end(process)
        raise
    return process


async def _ask_process(process: Process, question: Question) -> CheckResult | None:
    """Send a question to a process; return None where the check exceeded its limits. Raises: ApiError."""
    text = pickle.dumps(question)
    assert process.stdin is not None
    with suppress(ConnectionError):  # the process has ended: its exit code says why
        process.stdin.write(len(text).to_bytes(HEAD, "big") + text)
        await process.stdin.drain()
    reply = await _frame(process)
    checked: CheckResult | None = None if reply is None else pickle.loads(reply)  # noqa: S301 - of our own process
    return checked


async def _frame(process: Process) -> bytes | None:
    """Read the next frame of a process; return None where it died of its limits. Raises: ApiError."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            head = await process.stdout.readexactly(HEAD)
            return await process.stdout.readexactly(int.from_bytes(head, "big"))
    except TimeoutError:
        raise _died_error("no answer") from None
    except asyncio.IncompleteReadError:
        code = await process.wait()
        if code in (-signal.SIGPROF, OUT_OF_MEMORY):
            logger().warning("check.limit_exceeded", code=code)
            return None
        raise _died_error(str(code)) from None


async def _end(process: Process | None) -> None:
    if process is None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _too_costly(cpu_s: float) -> CheckResult:
    text = f"The check of this query takes more than {cpu_s:g} CPU-seconds: split it into several daggers."
    return CheckResult(None, (Finding("CHECK_TOO_COSTLY", Severity.ERROR, text, 1, 1, 1, 1),))


def _busy() -> ApiError:
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MANY_CHECKS",
        f"{MOST_WAITING} checks of yours wait already: ask again when they have been answered",
        {"limit": str(MOST_WAITING)},
        retry_after=timedelta(seconds=1),
    )


def _died_error(code: str) -> ApiError:
    logger().error("check.process_died", code=code)
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "CHECK_PROCESS_DIED",
        "the process that checks queries has died: ask again",
        {"exit_code": code},
        retry_after=timedelta(seconds=1),
    )
