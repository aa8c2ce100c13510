"""Reads: wait until the state is where the caller needs it, then ask for it.

What is registered is read from the fold, which has it in memory; lists of daggers, and what was set aside,
from the database, in a thread.
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
from fleet import Applied, Fleet

DEGRADED: Final = "x-daggers-degraded"
"""Trailing metadata of an answer that may be behind the truth: why."""
_RETRY: Final = timedelta(seconds=1)
_MARGIN_S: Final = 0.05
T = TypeVar("T")


def say_degraded(context: Context, why: str) -> None:
    """Say beside an answer why it may be behind the truth; nothing when `why` is empty."""
    if why:
        extra = ((DEGRADED, why.encode("ascii", "replace").decode()),)
        context.set_trailing_metadata((*(context.trailing_metadata() or ()), *extra))


class Reader:
    """Asks the fold or the projection, never a state older than what this gateway has answered before."""

    def __init__(
        self,
        follower: Follower[Applied],
        fold: Fold,
        projector: Projector,
        away: Callable[[], str] = lambda: "",
    ) -> None:
        """`away`: why nothing new can be known of the log now; empty when it is followed."""
        self._away = away
        self._follower = follower
        self._fold = fold
        self._projector = projector

    async def state(self, context: Context, min_sequence: int) -> Fleet:
        """What the fold holds, once that is `min_sequence`.

        Raises: ApiError, DEADLINE_EXCEEDED when it is not there in the call's time, FAILED_PRECONDITION when
        it never will be.
        """
        asked = min_sequence or -1
        async with self._in_time(context, asked, lambda: self._fold.fleet.sequence):
            with suppress(LogDamaged):
                await self._follower.wait_for(asked)
        if not self._fold.known or self._fold.fleet.sequence < asked:
            raise self._damaged(self._fold.fleet.sequence)
        return self._fold.fleet

    async def read(self, context: Context, min_sequence: int, query: Callable[[], T]) -> T:
        """The query's answer, once the projection holds `min_sequence` and what the fold holds now.

        Raises: ApiError, UNAVAILABLE when the database does not answer, DEADLINE_EXCEEDED when the state is
        not there in the call's time, FAILED_PRECONDITION when it never will be.
        """
        async with self._in_time(context, min_sequence, lambda: self._projector.sequence):
            await self._wait(min_sequence)
            try:
                return await asyncio.to_thread(query)
            except SQLAlchemyError as error:
                raise no_database(type(error).__name__) from error

    @asynccontextmanager
    async def _in_time(
        self, context: Context, asked: int, reached: Callable[[], int]
    ) -> AsyncGenerator[None, None]:
        """The block ends before the call's deadline. Raises: ApiError, DEADLINE_EXCEEDED."""
        say_degraded(context, self._follower.damage or self._away())
        remaining = context.time_remaining()
        try:
            async with asyncio.timeout(max(remaining - _MARGIN_S, 0) if remaining is not None else None):
                yield
        except TimeoutError as error:
            raise ApiError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "NOT_REACHED",
                f"the state is at sequence {reached()}, not at {asked} yet",
                {"asked": str(asked), "reached": str(reached())},
            ) from error

    async def _wait(self, min_sequence: int) -> None:
        # 0 is also what an unset field reads as: it asks for nothing.
        asked = min_sequence or -1
        with suppress(LogDamaged):
            await self._follower.wait_for(asked)
        needed = self._follower.sequence
        await self._projector.reached(needed)
        if self._projector.sequence < needed:
            raise no_database(self._projector.failure)
        if self._projector.sequence < asked or not self._fold.known:
            raise self._damaged(self._projector.sequence)

    def _damaged(self, reached: int) -> ApiError:
        return ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "LOG_DAMAGED",
            f"the state stays at sequence {reached}, because the control log is damaged:"
            f" {self._follower.damage}",
            {"reached": str(reached)},
        )


def no_database(why: str) -> ApiError:
    """What is asked of the database cannot be answered now."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "DATABASE_UNAVAILABLE",
        f"the gateway's database does not answer ({why}); writes go on",
        {"why": why},
        retry_after=_RETRY,
    )
