"""Compiles what callers bring of Protobuf, in processes of their own: each caller has one at once."""

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
from protofiles import Brought, Compiled, compile_files
from protofiles.compiling import CompilerFailed

PROCESSES: Final = 2
"""Compilations that go on at once."""
MOST_WAITING: Final = 8
"""Compilations of one caller, the one that goes on among them."""


@dataclass(slots=True)
class _Caller:
    """Of one caller: room for a compilation, and how many there are."""

    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    pending: int = 0


class SchemaCompiler:
    """Compiles for callers."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(PROCESSES)
        self._callers: defaultdict[str, _Caller] = defaultdict(_Caller)
        self._tasks: set[asyncio.Task[Compiled]] = set()

    async def __call__(self, files: Sequence[Brought]) -> Compiled:
        """What comes of the files. Raises: ApiError."""
        who = principal().name
        caller = self._callers[who]
        if caller.pending >= MOST_WAITING:
            raise _busy()
        caller.pending += 1
        task = asyncio.create_task(self._compiled(caller, files))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._end(done, who))
        # Who goes away frees no room: the process ends by itself, and soon.
        return await asyncio.shield(task)

    async def _compiled(self, caller: _Caller, files: Sequence[Brought]) -> Compiled:
        async with caller.room, self._room:
            try:
                return await asyncio.to_thread(compile_files, files)
            except (CompilerFailed, OSError) as error:
                logger().error("schema.compile_failed", error=str(error))
                raise _failed() from error

    def _end(self, task: asyncio.Task[Compiled], who: str) -> None:
        self._tasks.discard(task)
        self._callers[who].pending -= 1
        if not self._callers[who].pending:
            del self._callers[who]
        if not task.cancelled():
            task.exception()  # of a call that has gone away nobody else looks


def _busy() -> ApiError:
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MANY_COMPILATIONS",
        f"{MOST_WAITING} compilations of yours wait already: ask again when they have been answered",
        {"limit": str(MOST_WAITING)},
        retry_after=timedelta(seconds=1),
    )


def _failed() -> ApiError:
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "SCHEMA_COMPILER_FAILED",
        "the process that compiles Protobuf files cannot be started or has died: ask again",
        {},
        retry_after=timedelta(seconds=1),
    )
