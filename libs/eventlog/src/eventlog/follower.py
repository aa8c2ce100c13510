"""Keeps a fold at the end of a log: one task reads, whoever needs something of it waits.

Everything here runs on one event loop, and nothing blocks it. What a record means is the fold's to say, which
is pure; what is due because of it, the service's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from chassis.logging import logger
from eventlog.fold import Fold, Seen, Step, Subscription
from eventlog.log import Log, LogDamaged, LogError, LogUnavailable
from eventlog.record import Draft, Record

A = TypeVar("A")

_RETRY_S: Final = 1.0
_BREATH: Final = 1_000


class Follower(Generic[A]):
    """Follows a log into a fold, from where the fold is."""

    def __init__(
        self,
        log: Log,
        fold: Fold[A],
        *,
        seen: Seen = Seen(),  # noqa: B008 - a constant
        patience_s: float | None = None,
        on_step: Callable[[Step[A]], None] = lambda _: None,
    ) -> None:
        """`seen`: what log was read before; another one is damage. `on_step` hears of every step.

        `patience_s`: how long a record may take to come back. None: a log that does not answer is asked
        again, for as long as it takes, and nothing here raises LogUnavailable.
        """
        self.failure: LogError | None = None
        """Why nothing is read any more; None while all is well."""
        self.draining = False
        """Whether subscribers are to leave."""
        self._log, self._fold, self._on_step = log, fold, on_step
        self._seen, self._patience_s = seen, patience_s
        self._begun = False
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        """Who waits, and for what."""
        self._awaited: dict[str, list[asyncio.Future[Step[A]]]] = {}
        self._subscriptions: set[Subscription[A]] = set()

    @property
    def sequence(self) -> int:
        """How far the log is folded."""
        return self._fold.position.sequence

    @property
    def damage(self) -> str:
        """Why the log must not be written to any more; empty while it is sound."""
        return str(self.failure) if isinstance(self.failure, LogDamaged) else ""

    # ---- Reading -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fold what stands in the log and what comes, for ever.

        Raises: LogDamaged; LogUnavailable when the log does not answer at the start, unless that is borne.
        """
        try:
            while True:
                try:
                    await self._follow()
                except LogUnavailable as error:
                    await self._bear(error)
        except LogError as error:
            self.fail(error)
            raise

    async def _follow(self) -> None:
        if self.sequence < self._seen.position.sequence:
            self._seen.check_end(await self._log.end())
        self._begun = True
        self.wake()
        async with aclosing(self._log.follow(self.sequence)) as records:
            async for record in records:
                self._take(record)
                if record.sequence % _BREATH == 0:
                    await asyncio.sleep(0)  # a long replay leaves room for signals and health checks

    def _take(self, record: Record) -> None:
        step = Step(record, self._fold.apply(record))
        self._seen.check(self._fold.position)
        for expected in self._awaited.pop(record.id, ()):
            if not expected.done():
                expected.set_result(step)
        for subscription in self._subscriptions:
            subscription.take(step)
        self._on_step(step)
        self.wake()

    def fail(self, error: LogError) -> None:
        """Nothing more is read or written: whoever waits is told why."""
        if isinstance(error, LogDamaged):
            logger().error("log.damaged", detail=str(error))
        self.failure = error
        while self._awaited:
            for expected in self._awaited.popitem()[1]:
                if not expected.done():
                    expected.set_exception(error)
        self.wake()

    async def _bear(self, error: LogUnavailable) -> None:
        if self._patience_s is not None:
            raise error
        logger().warning("log.lost", detail=str(error))
        await asyncio.sleep(_RETRY_S)

    # ---- Waiting -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let go on whoever has what it waits for."""
        for waiting, met in self._waiting.items():
            if not waiting.done() and _looks_again(met):
                waiting.set_result(None)

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until `met()`; asked again after each step, a failure, a drain and a `wake`. Raises: as it."""
        while not met():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting[waiting] = met
            try:
                await waiting
            finally:
                del self._waiting[waiting]

    async def reached(self, sequence: int) -> None:
        """Wait until the log is folded to `sequence`. Raises: what ended `run`, when it never will be."""
        await self.until(lambda: self._holds(sequence) or self.failure is not None)
        if not self._holds(sequence) and self.failure is not None:
            raise self.failure.with_traceback(None)

    async def catch_up(self) -> None:
        """Wait until everything is folded that stands in the log now. Raises: as `append`."""
        while True:
            try:
                end = await self._log.end()
                break
            except LogUnavailable as error:
                await self._bear(error)
        while not self._holds(end):
            before = self.sequence
            try:
                async with asyncio.timeout(self._patience_s):
                    await self.reached(end)
            except TimeoutError as error:
                if self.sequence == before:  # else it only takes long
                    raise LogUnavailable(f"nothing was read in {self._patience_s:g} s") from error

    def _holds(self, sequence: int) -> bool:
        # An empty log that is not the one read before holds everything, too, until that is known.
        return self._begun and self.sequence >= sequence

    # ---- Writing -------------------------------------------------------------------------------------------

    async def append(self, draft: Draft) -> Step[A]:
        """Append a record and read it back: the first with its id that comes, and what the fold made of it.

        Raises: LogUnavailable, unless that is borne: it may stand in the log all the same; LogDamaged;
        RecordTooLarge.
        """
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        expected: asyncio.Future[Step[A]] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(draft.id, []).append(expected)
        try:
            async with asyncio.timeout(None) as limit:
                while not expected.done():
                    try:
                        await self._log.append(draft)
                        break
                    except LogUnavailable as error:
                        if self._patience_s is not None and not expected.done():
                            raise
                        logger().warning("log.lost", detail=str(error))
                        await asyncio.wait([expected], timeout=_RETRY_S)
                if self._patience_s is not None:
                    limit.reschedule(asyncio.get_running_loop().time() + self._patience_s)
                return await expected
        except TimeoutError as error:
            raise LogUnavailable(f"a record did not come back in {self._patience_s:g} s") from error
        except LogDamaged as error:
            if self.failure is None:
                self.fail(error)
            raise
        finally:
            self._forget(draft.id, expected)

    def _forget(self, id_: str, expected: asyncio.Future[Step[A]]) -> None:
        if expected.done() and not expected.cancelled():
            expected.exception()  # whoever waited may have been cancelled meanwhile
        waiting = self._awaited.get(id_)
        if waiting is not None and expected in waiting:
            waiting.remove(expected)
            if not waiting:
                del self._awaited[id_]

    # ---- Subscribers ---------------------------------------------------------------------------------------

    def subscribe(self) -> Subscription[A]:
        """The steps after `sequence`, from now on."""
        subscription: Subscription[A] = Subscription()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription[A]) -> None:
        """No more steps for it."""
        self._subscriptions.discard(subscription)

    def drain(self) -> None:
        """Ask subscribers to leave."""
        self.draining = True
        self.wake()


def _looks_again(met: Callable[[], bool]) -> bool:
    """Whether who waits has something to see: what it waits for, or an error."""
    try:
        return met()
    except Exception:  # noqa: BLE001 - it is asked again where it is waited for, and raises there
        return True
