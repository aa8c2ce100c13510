"""Read the state once it has reached the sequence that the caller needs.

Registered resources are read from the fold in memory; lists of daggers, and quarantined records, from the
database in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final, TypeVar

import grpc
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.state.fold import Fold
from api_gateway.state.projector import Projector
from chassis.errors import ApiError
from chassis.interceptors import Context
from eventlog import LogDamaged
from eventlog.follower import Follower
from fleet import ApplyResult, Fleet

DEGRADED: Final = "x-daggers-degraded"
"""Key of trailing metadata with the reason why a response may be outdated."""
_RETRY: Final = timedelta(seconds=1)
_MARGIN_S: Final = 0.05
T = TypeVar("T")


def set_degraded(context: Context, why: str) -> None:
    """Add the reason why a response may be outdated to its metadata; nothing where `why` is empty."""
    if why:
        extra = ((DEGRADED, why.encode("ascii", "replace").decode()),)
        context.set_trailing_metadata((*(context.trailing_metadata() or ()), *extra))


class StateReader:
    """Reads the fold or the projection, never at a state older than an earlier response of this gateway."""

    def __init__(
        self,
        follower: Follower[ApplyResult],
        fold: Fold,
        projector: Projector,
        away: Callable[[], str] = lambda: "",
    ) -> None:
        """Remember the sources. `away`: why the log cannot be followed now; empty while it is."""
        self._away = away
        self._follower = follower
        self._fold = fold
        self._projector = projector

    async def state(self, context: Context, min_sequence: int) -> Fleet:
        """Return the fleet once it has reached `min_sequence`.

        Raises: ApiError, DEADLINE_EXCEEDED where it does not in the call's time, FAILED_PRECONDITION where it
        never will.
        """
        sequence = min_sequence or -1
        async with self._in_time(context, sequence, lambda: self._fold.fleet.sequence):
            with suppress(LogDamaged):
                await self._follower.wait_for(sequence)
        if not self._fold.is_of_this_log or self._fold.fleet.sequence < sequence:
            raise self._damage_error(self._fold.fleet.sequence)
        return self._fold.fleet

    async def read(self, context: Context, min_sequence: int, query: Callable[[], T]) -> T:
        """Run a query once the projection has reached `min_sequence` and the fold's present sequence.

        Raises: ApiError, UNAVAILABLE where the database does not answer, DEADLINE_EXCEEDED where the state is
        not reached in the call's time, FAILED_PRECONDITION where it never will be.
        """
        async with self._in_time(context, min_sequence, lambda: self._projector.sequence):
            await self._wait(min_sequence)
            try:
                return await asyncio.to_thread(query)
            except SQLAlchemyError as error:
                raise database_error(type(error).__name__) from error

    @asynccontextmanager
    async def _in_time(
        self, context: Context, sequence: int, reached: Callable[[], int]
    ) -> AsyncGenerator[None, None]:
        """Limit the block to the call's deadline, less a margin for the response. Raises: ApiError,
        DEADLINE_EXCEEDED.
        """
        set_degraded(context, self._follower.damage or self._away())
        remaining = context.time_remaining()
        try:
            async with asyncio.timeout(max(remaining - _MARGIN_S, 0) if remaining is not None else None):
                yield
        except TimeoutError as error:
            raise ApiError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "NOT_REACHED",
                f"the state is at sequence {reached()}, not at {sequence} yet",
                {"asked": str(sequence), "reached": str(reached())},
            ) from error

    async def _wait(self, min_sequence: int) -> None:
        # 0 is also the value of an unset field: no sequence is required
        sequence = min_sequence or -1
        with suppress(LogDamaged):
            await self._follower.wait_for(sequence)
        needed = self._follower.sequence
        await self._projector.wait_for(needed)
        if self._projector.sequence < needed:
            raise database_error(self._projector.failure)
        if self._projector.sequence < sequence or not self._fold.is_of_this_log:
            raise self._damage_error(self._projector.sequence)

    def _damage_error(self, reached: int) -> ApiError:
        return ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "LOG_DAMAGED",
            f"the state stays at sequence {reached}, because the control log is damaged:"
            f" {self._follower.damage}",
            {"reached": str(reached)},
        )


def database_error(why: str) -> ApiError:
    """Build the error for a database that does not answer."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "DATABASE_UNAVAILABLE",
        f"the gateway's database does not answer ({why}); writes go on",
        {"why": why},
        retry_after=_RETRY,
    )
