"""Compiles Protobuf files of callers, each in a process of its own; a caller has one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import grpc

from api_gateway.validate.caller_queues import CallerQueues
from chassis.errors import ApiError
from chassis.logging import logger
from protofiles import Compilation, UploadedFile, compile_files
from protofiles.compiling import CompilerError

PROCESSES: Final = 2
"""Compilations that run at once."""
MAX_PENDING: Final = 8
"""Compilations of one caller that run or wait."""


class SchemaCompiler:
    """Compiles for callers, at most PROCESSES at once, and MAX_PENDING for one caller."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(PROCESSES)
        self._queues = CallerQueues(1, MAX_PENDING, _build_busy_error)

    async def __call__(self, files: Sequence[UploadedFile]) -> Compilation:
        """Compile files for the principal of the call.

        Raises: ApiError, RESOURCE_EXHAUSTED when the caller has MAX_PENDING already, UNAVAILABLE when the
        process fails.
        """
        # A cancelled call keeps its slot until its process ends: PROCESSES bounds processes, not calls.
        return await asyncio.shield(self._queues.start(lambda: self._compile(files)))

    async def _compile(self, files: Sequence[UploadedFile]) -> Compilation:
        async with self._slots:
            try:
                return await asyncio.to_thread(compile_files, files)
            except (CompilerError, OSError) as error:
                logger().error("schema.compile_failed", error=str(error))
                raise _build_failure_error() from error


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
