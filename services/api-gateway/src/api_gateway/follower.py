"""The fold of the control topic, kept up to date by one task, and those who wait for it.

Everything here runs on the event loop; nothing blocks it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from daggers.v1 import events_pb2

from chassis.logging import logger
from eventlog import Log, LogDamaged, Mark, Record
from fleet import Fleet

# A watch that falls further behind reads on from the log.
_BACKLOG: Final = 1_000
_BREATH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """A record as the fold took it."""

    record: Record
    refused: str
    """Why the fold does not apply it; empty when it does."""


class Subscription:
    """The newest records, for one watch, in order. Overflows rather than slow the fold down."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.overflowed = False


@dataclass(slots=True)
class Touched:
    """What changed since it was last asked: what a projection has to write anew."""

    everything: bool = True
    daggers: set[str] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    schemas: set[int] = field(default_factory=set)
    """Sequences of the registrations."""
    answers: set[str] = field(default_factory=set)


class Follower:
    """Holds the `fleet`, and wakes whoever waits for it to change."""

    def __init__(self, log: Log, seen: Mark = Mark()) -> None:  # noqa: B008 - a constant
        """`seen`: what log was read before, and how far; another one is damage."""
        self.fleet = Fleet()
        self.damage = ""
        """Why the log must not be written to any more; empty while it is sound."""
        self.draining = False
        """No new work; watches end."""
        self._log = log
        self._seen = seen
        self._refused: dict[int, str] = {}
        self._touched = Touched()
        self._subscriptions: set[Subscription] = set()
        self._awaited: dict[str, asyncio.Event] = {}
        """Who waits for the answer to a request, by its id."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Fold for ever. Returns when the log is damaged: what is known stays known.

        Raises: LogUnavailable when the broker does not answer at the start.
        """
        try:
            async with aclosing(self._log.follow()) as records:
                async for record in records:
                    self._apply(record)
                    if record.sequence % _BREATH == 0:
                        await asyncio.sleep(0)  # a long replay leaves room for signals and health checks
        except LogDamaged as error:
            self.mark_damaged(str(error))

    def mark_damaged(self, why: str) -> None:
        """Refuse writes from now on."""
        logger().error("log_damaged", detail=why)
        self.damage = why
        while self._awaited:
            self._awaited.popitem()[1].set()
        self.wake()

    def drain(self) -> None:
        """End watches."""
        self.draining = True
        self.wake()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until `met()`; asked again after each change of the fold, damage and drain."""
        while not met():
            await self._changed.wait()

    async def reached(self, sequence: int) -> bool:
        """Wait until the fold is at `sequence`; False when it will never be, because the log is damaged."""
        await self.until(lambda: self.fleet.sequence >= sequence or bool(self.damage))
        return self.fleet.sequence >= sequence

    async def answered(self, request_id: str) -> None:
        """Wait until the fold holds an answer to this request, or never will, because the log is damaged."""
        if request_id not in self.fleet.answers and not self.damage:
            # Not by `until`: every request that is under way would look again at every record.
            await self._awaited.setdefault(request_id, asyncio.Event()).wait()

    def refused(self, sequence: int) -> str:
        """Why the record at `sequence` is not applied; empty when it is."""
        return self._refused.get(sequence, "")

    def subscribe(self) -> Subscription:
        """The steps after `fleet.sequence`, from now on."""
        subscription = Subscription()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more steps for it."""
        self._subscriptions.discard(subscription)

    def take_touched(self) -> Touched:
        """What changed since the last call; everything at the first."""
        touched, self._touched = self._touched, Touched(everything=False)
        return touched

    def _apply(self, record: Record) -> None:
        applied = self.fleet.apply(record)
        if record.sequence == self._seen.sequence and self.fleet.mark != self._seen:
            self.fleet = Fleet()  # nothing of another log is shown
            raise LogDamaged(
                f"the control topic was read up to sequence {record.sequence} before, and holds other records"
                " there now: it was made anew, or is another one. If it is meant, give the gateway an empty"
                " database"
            )
        if applied.refused:
            self._refused[record.sequence] = applied.refused
        if applied.answer is not None:
            self._touched.answers.add(record.id)
            awaited = self._awaited.pop(record.id, None)
            if awaited is not None:
                awaited.set()
        if applied.changed:
            self._touch(record, applied.subject)
        for subscription in self._subscriptions:
            if len(subscription.steps) < _BACKLOG:
                subscription.steps.append(Step(record, applied.refused))
            else:
                subscription.overflowed = True
        self.wake()

    def _touch(self, record: Record, subject: str) -> None:
        match record.message:
            case events_pb2.ClusterRegistered(cluster=cluster):
                self._touched.clusters.add(cluster.name)
                # Daggers are shown with the addresses of their clusters.
                self._touched.daggers.update(self.fleet.daggers)
            case events_pb2.StreamRegistered(stream=stream):
                self._touched.streams.add(stream.name)
                # And with what their drivers do not know of their streams yet.
                self._touched.daggers.update(self.fleet.daggers)
            case events_pb2.ReferenceRegistered(reference=reference):
                self._touched.references.add(reference.name)
            case events_pb2.SchemaRegistered():
                self._touched.schemas.add(record.sequence)
            case _:
                self._touched.daggers.add(subject)  # a dagger's name, or a scheduler's id: no dagger, no row

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()
