"""Deliveries: receivers are told what is due, and what became of each attempt is recorded.

In the log; during an outage of Kafka in the journal, which the log gets later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from chassis.logging import logger
from eventlog import LogUnavailable
from fleet.alerts.alert import Notify
from health_monitor.alerts import alert
from health_monitor.alerts.journal import KeptOutage
from health_monitor.alerts.leadership import Leadership
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.receivers import Outcome, Permanent, Temporary

_APPEND_AGAIN_S: Final = 1.0

Reached: TypeAlias = Callable[[], Awaitable[Channel | Temporary | Permanent]]
"""Gives a receiver as it is now, or why it cannot be told."""


class Deliveries:
    """What is told to receivers."""

    def __init__(
        self,
        leadership: Leadership,
        kept: KeptOutage,
        *,
        webhooks: Webhooks,
        policy: alert.Policy,
        clock: Callable[[], datetime],
    ) -> None:
        self.under_way: set[asyncio.Task[None]] = set()
        """Those that were begun, and are not recorded yet."""
        self._leadership, self._kept = leadership, kept
        self._webhooks, self._policy, self._clock = webhooks, policy, clock

    async def notify(self, channel: Channel) -> None:
        """Send a receiver its next notification, and record what became of it. Raises: LogUnavailable."""

        async def reached() -> Channel:
            return channel

        await self.notify_named(channel.name, channel.receiver.PACE, reached)

    async def notify_named(self, receiver: str, pace: timedelta, reached: Reached) -> None:
        """The same, of a receiver that is looked up when there is something to tell it."""
        leadership = self._leadership
        if not leadership.begins or self._kept.current is not None or self._due_to(receiver, pace) is None:
            return
        # A monitor that was suspended may have been replaced: nothing is sent on old knowledge.
        await leadership.follower.catch_up()
        due = self._due_to(receiver, pace)
        if due is None or not leadership.leads:
            return
        await self._unbroken(self._deliver(reached, due))

    async def notify_outage(self, channel: Channel) -> None:
        """Tell a receiver that Kafka is away, while it is: the outcome is kept in the journal."""
        if self._due_in_outage(channel) is None:
            return
        # Nothing is sent on old knowledge here either, as far as the log can be read.
        with suppress(LogUnavailable):
            await self._leadership.follower.catch_up()
        due = self._due_in_outage(channel)
        if due is not None:
            await self._unbroken(self._deliver_outage(channel, due))

    async def drain(self, grace: timedelta) -> None:
        """Let what is under way be recorded; the followers must still run."""
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=grace.total_seconds())

    def _due_to(self, receiver: str, pace: timedelta) -> Notify | None:
        return self._leadership.ledger.next_notification(receiver, pace=pace, now=self._clock())

    def _due_in_outage(self, channel: Channel) -> Notify | None:
        current, leadership = self._kept.current, self._leadership
        if not leadership.begins or current is None or leadership.reach.missing is None:
            return None
        return current.next_notification(channel.name, pace=channel.receiver.PACE, now=self._clock())

    async def _unbroken(self, delivery: Coroutine[None, None, None]) -> None:
        """Not cancelled with its timer: what was sent shall be recorded."""
        task = asyncio.create_task(delivery)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        await asyncio.shield(task)

    async def _deliver(self, reached: Reached, due: Notify) -> None:
        there = await reached()
        outcome: Outcome = (
            await self._webhooks.send(there, due, now=self._clock()) if isinstance(there, Channel) else there
        )
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        leadership = self._leadership
        # Sent again only if this process dies before the log takes it. Of a write that failed nobody knows
        # whether the log took it, until the log has been read: it may say so by the time that we lead again.
        while leadership.leads and leadership.ledger.awaits(event, self._clock()):
            with suppress(LogUnavailable):
                await leadership.write(event)
                return
            await asyncio.sleep(_APPEND_AGAIN_S)

    async def _deliver_outage(self, channel: Channel, due: Notify) -> None:
        outcome = await self._webhooks.send(channel, due, now=self._clock())
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        current = self._kept.current
        assert current is not None  # it is brought in when nothing is under way
        event.meta.epoch = current.report.fired.meta.epoch
        self._kept.keep(current.told(event, self._clock()))
        logger().info("outage.reported", receiver=channel.name, turn=event.DESCRIPTOR.name)
