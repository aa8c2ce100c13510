"""Keep a fold at the end of a log: one task reads, all others wait for what they need of it.

All runs on one event loop, and nothing blocks it. The fold, which is pure, decides what a record means; the
service decides what to do about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from chassis.logging import logger
from eventlog.fold import Fold, LogBaseline, Step, Subscription
from eventlog.log import Log, LogDamaged, LogError, LogUnavailable
from eventlog.record import Draft, Record

A = TypeVar("A")

_RETRY_S: Final = 1.0
_YIELD_EVERY: Final = 1_000
"""Records between two turns for the other tasks of the event loop."""


class Follower(Generic[A]):
    """Reads a log into a fold, from the fold's position on."""

    def __init__(
        self,
        log: Log,
        fold: Fold[A],
        *,
        baseline: LogBaseline = LogBaseline(),  # noqa: B008 - a constant
        patience_s: float | None = None,
        on_step: Callable[[Step[A]], None] = lambda _: None,
    ) -> None:
        """`baseline`: the log that was read before; another one is damage. `on_step` is called for each step.

        `patience_s`: how long a record may take to come back. None: retry without end while the log does not
        answer; then no method raises LogUnavailable.
        """
        self.failure: LogError | None = None
        """Error that ended reading; None while it goes on."""
        self.draining = False
        """Whether subscribers should leave."""
        self._log, self._fold, self._on_step = log, fold, on_step
        self._baseline, self._patience_s = baseline, patience_s
        self._begun = False
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        """Futures of waiting tasks, with the condition that each waits for."""
        self._awaited: dict[str, list[asyncio.Future[Step[A]]]] = {}
        self._subscriptions: set[Subscription[A]] = set()

    @property
    def sequence(self) -> int:
        """Sequence of the newest record that is folded in; -1 before the first."""
        return self._fold.position.sequence

    @property
    def damage(self) -> str:
        """Reason why the log must not be written to any more; empty while it is sound."""
        return str(self.failure) if isinstance(self.failure, LogDamaged) else ""

    # ---- Reading -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fold the records of the log, then new ones for ever.

        Raises: LogDamaged; with a `patience_s` also LogUnavailable, if the log does not answer at the start.
        """
        try:
            while True:
                try:
                    await self._follow()
                except LogUnavailable as error:
                    await self._wait_to_retry(error)
        except LogError as error:
            self.fail(error)
            raise

    async def _follow(self) -> None:
        if self.sequence < self._baseline.position.sequence:
            self._baseline.check_end(await self._log.end())
        self._begun = True
        self.wake()
        async with aclosing(self._log.follow(self.sequence)) as records:
            async for record in records:
                self._take(record)
                if record.sequence % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # signals and health checks must be served during a long replay

    def _take(self, record: Record) -> None:
        step = Step(record, self._fold.apply(record))
        self._baseline.check(self._fold.position)
        for expected in self._awaited.pop(record.id, ()):
            if not expected.done():
                expected.set_result(step)
        for subscription in self._subscriptions:
            subscription.take(step)
        self._on_step(step)
        self.wake()

    def fail(self, error: LogError) -> None:
        """Stop reading and writing for good, and raise the error in all tasks that wait."""
        if isinstance(error, LogDamaged):
            logger().error("log.damaged", detail=str(error))
        self.failure = error
        while self._awaited:
            for expected in self._awaited.popitem()[1]:
                if not expected.done():
                    expected.set_exception(error)
        self.wake()

    async def _wait_to_retry(self, error: LogUnavailable) -> None:
        """Sleep before a retry. Raises: `error`, where the follower has a `patience_s`."""
        if self._patience_s is not None:
            raise error
        logger().warning("log.lost", detail=str(error))
        await asyncio.sleep(_RETRY_S)

    # ---- Waiting -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Check all conditions that tasks wait for, and resume those that are met."""
        for waiting, met in self._waiting.items():
            if not waiting.done() and _is_due(met):
                waiting.set_result(None)

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until `met()` is true. It is called after each step, failure, drain and `wake`.

        Raises: what `met` raises.
        """
        while not met():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting[waiting] = met
            try:
                await waiting
            finally:
                del self._waiting[waiting]

    async def wait_for(self, sequence: int) -> None:
        """Wait until the log is folded to `sequence`. Raises: what ended `run`, when it never will be."""
        await self.until(lambda: self._holds(sequence) or self.failure is not None)
        if not self._holds(sequence) and self.failure is not None:
            raise self.failure.with_traceback(None)

    async def catch_up(self) -> None:
        """Wait until all that the log holds now is folded in.

        Raises: LogUnavailable (see __init__); LogDamaged.
        """
        while True:
            try:
                end = await self._log.end()
                break
            except LogUnavailable as error:
                await self._wait_to_retry(error)
        while not self._holds(end):
            before = self.sequence
            try:
                async with asyncio.timeout(self._patience_s):
                    await self.wait_for(end)
            except TimeoutError as error:
                if self.sequence == before:  # otherwise the log is only long: patience is for standstill
                    raise LogUnavailable(f"nothing was read in {self._patience_s:g} s") from error

    def _holds(self, sequence: int) -> bool:
        # Before `_begun` an empty log would hold everything, too, though it may not be the baseline's.
        return self._begun and self.sequence >= sequence

    # ---- Writing -------------------------------------------------------------------------------------------

    async def append(self, draft: Draft) -> Step[A]:
        """Append a record, and wait until the first with its id is read back; return that step.

        Raises: LogUnavailable (see __init__): the record may be in the log all the same; LogDamaged;
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
            expected.exception()  # mark it retrieved: the waiting task may have been cancelled meanwhile
        waiting = self._awaited.get(id_)
        if waiting is not None and expected in waiting:
            waiting.remove(expected)
            if not waiting:
                del self._awaited[id_]

    # ---- Subscribers ---------------------------------------------------------------------------------------

    def subscribe(self) -> Subscription[A]:
        """Queue all steps after `sequence`, from now on."""
        subscription: Subscription[A] = Subscription()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription[A]) -> None:
        """Stop queueing steps."""
        self._subscriptions.discard(subscription)

    def drain(self) -> None:
        """Ask subscribers to leave."""
        self.draining = True
        self.wake()


def _is_due(met: Callable[[], bool]) -> bool:
    """Decide whether to resume the task that waits: the condition is met, or raises."""
    try:
        return met()
    except Exception:  # noqa: BLE001 - the task calls it again, and it raises there
        return True
