"""Deliveries: send due notifications to receivers, and record the outcome of each attempt.

Outcomes are recorded in the log; during an outage of Kafka in the journal, which the log gets later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from chassis.logging import logger
from eventlog import LogUnavailable
from fleet.alerts.alert import Alert, Notification, Notify
from health_monitor.alerts import alert
from health_monitor.alerts.journal import PendingOutage
from health_monitor.alerts.leadership import Leadership
from health_monitor.chart import Chart
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.receivers import Outcome, Permanent, Temporary

_APPEND_AGAIN_S: Final = 1.0

BuildChart: TypeAlias = Callable[[Alert], Chart | None]
"""Builds the chart of an alert by what is known now."""
ResolveChannel: TypeAlias = Callable[[], Awaitable[Channel | Temporary | Permanent]]
"""Looks up a receiver as it is configured now; an outcome: why it cannot be notified."""


class Deliveries:
    """Sends notifications, and records their outcomes."""

    def __init__(
        self,
        leadership: Leadership,
        outage: PendingOutage,
        *,
        webhooks: Webhooks,
        policy: alert.Policy,
        clock: Callable[[], datetime],
        build_chart: BuildChart,
    ) -> None:
        self.under_way: set[asyncio.Task[None]] = set()
        """Deliveries that have begun, and whose outcome is not recorded yet."""
        self._leadership, self._outage = leadership, outage
        self._webhooks, self._policy, self._clock = webhooks, policy, clock
        self._build_chart = build_chart

    @property
    def has_outage(self) -> bool:
        """True while an outage of Kafka is journalled, and the log does not hold it yet."""
        return self._outage.current is not None

    async def notify(self, channel: Channel) -> None:
        """Send a receiver its next notification, and record the outcome. Raises: LogUnavailable."""

        async def resolve() -> Channel:
            return channel

        await self.notify_named(channel.name, channel.receiver.PACE, resolve)

    async def notify_named(self, receiver: str, pace: timedelta, resolve: ResolveChannel) -> None:
        """Notify a receiver that is resolved only when a notification is due. Raises: LogUnavailable."""
        leadership = self._leadership
        if not leadership.begins or self._outage.current is not None or self._due_to(receiver, pace) is None:
            return
        # A monitor that was suspended may have been replaced, so the decision needs the log's newest state.
        await leadership.follower.catch_up()
        due = self._due_to(receiver, pace)
        if due is None or not leadership.leads:
            return
        await self._shield(self._deliver(resolve, due))

    async def notify_outage(self, channel: Channel) -> None:
        """Notify a receiver during an outage of Kafka; the outcome is recorded in the journal."""
        if self._due_in_outage(channel) is None:
            return
        # The decision needs the newest state here, too, as far as the log can be read.
        with suppress(LogUnavailable):
            await self._leadership.follower.catch_up()
        due = self._due_in_outage(channel)
        if due is not None:
            await self._shield(self._deliver_outage(channel, due))

    async def drain(self, grace: timedelta) -> None:
        """Wait until deliveries under way are recorded, for `grace` at most; followers must still run."""
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=grace.total_seconds())

    def _due_to(self, receiver: str, pace: timedelta) -> Notify | None:
        return self._leadership.ledger.next_notification(receiver, pace=pace, now=self._clock())

    def _due_in_outage(self, channel: Channel) -> Notify | None:
        current, leadership = self._outage.current, self._leadership
        if not leadership.begins or current is None or leadership.reach.missing is None:
            return None
        now = self._clock()
        if leadership.ledger.find_silence(current.alert, now) is not None:
            return None
        return current.next_notification(channel.name, pace=channel.receiver.PACE, now=now)

    async def _shield(self, delivery: Coroutine[None, None, None]) -> None:
        """Run a delivery that cancelling the timer does not cancel: its outcome must be recorded."""
        task = asyncio.create_task(delivery)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        await asyncio.shield(task)

    async def _deliver(self, resolve: ResolveChannel, due: Notify) -> None:
        channel = await resolve()
        chart = self._build_chart(due.alert) if due.ending is None else None
        outcome: Outcome = (
            await self._webhooks.send(channel, due, now=self._clock(), chart=chart)
            if isinstance(channel, Channel)
            else channel
        )
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        leadership = self._leadership
        # Write until the log has it: only if this process dies before, the notification is sent twice. A
        # failed write may be in the log all the same; `awaits` is false once it has been read back.
        while leadership.leads and leadership.ledger.awaits(event, self._clock()):
            with suppress(LogUnavailable):
                await leadership.write(event)
                return
            await asyncio.sleep(_APPEND_AGAIN_S)

    async def _deliver_outage(self, channel: Channel, due: Notify) -> None:
        outcome = await self._webhooks.send(channel, due, now=self._clock())
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        assert isinstance(event, Notification)  # an outage is told by itself
        current = self._outage.current
        assert current is not None  # it is brought into the log only when no delivery is under way
        event.meta.epoch = current.report.fired.meta.epoch
        self._outage.keep(current.with_attempt(event, self._clock()))
        logger().info("outage.reported", receiver=channel.name, turn=event.DESCRIPTOR.name)
