"""Compiles Protobuf files of callers, each in a process of its own; a caller has one at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import grpc

from api_gateway.auth.authentication import principal
from chassis.errors import ApiError
from chassis.logging import logger
from protofiles import Compilation, UploadedFile, compile_files
from protofiles.compiling import CompilerError

PROCESSES: Final = 2
"""Compilations that run at once."""
MAX_PENDING: Final = 8
"""Compilations of one caller that run or wait."""


@dataclass(slots=True)
class _CallerQueue:
    """Compilations of one caller: one runs, the others wait for it."""

    slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    pending: int = 0
    """Number of compilations that run or wait."""


class SchemaCompiler:
    """Compiles for callers, at most PROCESSES at once, and MAX_PENDING for one caller."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(PROCESSES)
        self._queues: defaultdict[str, _CallerQueue] = defaultdict(_CallerQueue)
        self._tasks: set[asyncio.Task[Compilation]] = set()

    async def __call__(self, files: Sequence[UploadedFile]) -> Compilation:
        """Compile files for the principal of the call.

        Raises: ApiError, RESOURCE_EXHAUSTED when the caller has MAX_PENDING already, UNAVAILABLE when the
        process fails.
        """
        caller = principal().name
        queue = self._queues[caller]
        if queue.pending >= MAX_PENDING:
            raise _build_busy_error()
        queue.pending += 1
        task = asyncio.create_task(self._compile(queue, files))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._release(done, caller))
        # A cancelled call keeps its slot until its process ends: PROCESSES bounds processes, not calls.
        return await asyncio.shield(task)

    async def _compile(self, queue: _CallerQueue, files: Sequence[UploadedFile]) -> Compilation:
        async with queue.slot, self._slots:
            try:
                return await asyncio.to_thread(compile_files, files)
            except (CompilerError, OSError) as error:
                logger().error("schema.compile_failed", error=str(error))
                raise _build_failure_error() from error

    def _release(self, task: asyncio.Task[Compilation], caller: str) -> None:
        self._tasks.discard(task)
        self._queues[caller].pending -= 1
        if not self._queues[caller].pending:
            del self._queues[caller]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: after a cancelled call nobody else does


def _build_busy_error() -> ApiError:
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MANY_COMPILATIONS",
        f"{MAX_PENDING} compilations of yours wait already: ask again when they have been answered",
        {"limit": str(MAX_PENDING)},
        retry_after=timedelta(seconds=1),
    )


def _build_failure_error() -> ApiError:
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "SCHEMA_COMPILER_FAILED",
        "the process that compiles Protobuf files cannot be started or has died: ask again",
        {},
        retry_after=timedelta(seconds=1),
    )
