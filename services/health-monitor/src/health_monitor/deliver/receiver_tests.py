"""Tests of receivers: sends each a begin and an end of what is no alert, and records what it answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec.receivers import name
from fleet import Fleet
from fleet.alerts.alert import PLATFORM, TEAM, Alert, Notify
from fleet.alerts.receiver_tests import IN_TIME, ReceiverTest
from health_monitor.alerts.leadership import Leadership
from health_monitor.deliver.team_receivers import receivers_of_team, resolve_channel
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.receivers import Outcome, Success

_NAME = "receiver test"
"""Name in place of a rule's: no rule's name has a space."""


class ReceiverTests:
    """Carries out the tests that the log asks for."""

    def __init__(
        self,
        leadership: Leadership,
        fleet: Fleet,
        channels: Sequence[Channel],
        webhooks: Webhooks,
        clock: Callable[[], datetime],
    ) -> None:
        """`channels`: receivers of the platform that the monitor's settings name."""
        self._leadership, self._fleet, self._clock = leadership, fleet, clock
        self._channels = {channel.name: channel for channel in channels}
        self._webhooks = webhooks
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By test."""

    async def run(self) -> None:
        """Start a task for each test that is due and has none. Raises: LogUnavailable of ended ones."""
        if self._leadership.begins:
            for test in self._leadership.ledger.receiver_tests.list_due(self._clock()):
                if test.id not in self._tasks:
                    self._tasks[test.id] = asyncio.create_task(self._carry_out(test))
        for id_, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[id_]
                task.result()

    def stop(self) -> None:
        """Cancel the tests that are under way."""
        for task in self._tasks.values():
            task.cancel()

    async def _carry_out(self, test: ReceiverTest) -> None:
        # A monitor that was suspended may have been replaced, so the decision needs the log's newest state.
        await self._leadership.follower.catch_up()
        if not self._leadership.leads or test not in self._leadership.ledger.receiver_tests.list_due(
            self._clock()
        ):
            return
        results = await asyncio.gather(*(self._try(receiver, test) for receiver in self._select(test)))
        if self._leadership.leads:
            event = alerts_pb2.ReceiversTested(test_id=test.id, results=results)
            await self._leadership.write_tested(event)

    def _select(self, test: ReceiverTest) -> list[str]:
        """List the receivers of a test: those of the platform have those of the monitor's settings, too."""
        of_team = receivers_of_team(self._fleet, test.team)
        receivers = [*self._channels, *of_team] if test.team == PLATFORM else of_team
        wanted = (test.kind, name(test.team, test.kind))
        return [receiver for receiver in receivers if not test.kind or receiver in wanted]

    async def _try(self, receiver: str, test: ReceiverTest) -> alerts_pb2.ReceiverTestResult:
        begun = self._clock()
        try:
            async with asyncio.timeout(IN_TIME.total_seconds()):
                outcome = await self._send(receiver, test)
        except TimeoutError:
            detail = f"it did not answer in {IN_TIME.total_seconds():g} s"
            result = alerts_pb2.ReceiverTestResult(receiver=receiver, reason="TIMEOUT", detail=detail)
        else:
            result = _describe(receiver, outcome)
        result.duration.FromTimedelta(self._clock() - begun)
        return result

    async def _send(self, receiver: str, test: ReceiverTest) -> Outcome:
        """Send the begin and, once that is taken, the end: whoever keeps incidents has none left open."""
        channel = self._channels.get(receiver) or await resolve_channel(self._fleet, receiver)
        if not isinstance(channel, Channel):
            return channel
        alert = _build_alert(test, self._clock())
        notify = Notify(alert, receiver, 1, is_test=True)
        outcome = await self._webhooks.send(channel, notify, now=self._clock())
        if not isinstance(outcome, Success):
            return outcome
        await asyncio.sleep(channel.receiver.PACE.total_seconds())
        resolved = alerts_pb2.AlertResolved(meta=alert.meta(), summary="The test is over. Nothing is wrong.")
        resolved.until.FromDatetime(self._clock())
        over = alert._replace(resolved=resolved, resolved_at=self._clock())
        return await self._webhooks.send(channel, replace(notify, alert=over), now=self._clock())


def _describe(receiver: str, outcome: Outcome) -> alerts_pb2.ReceiverTestResult:
    if isinstance(outcome, Success):
        return alerts_pb2.ReceiverTestResult(receiver=receiver, delivered=True)
    return alerts_pb2.ReceiverTestResult(receiver=receiver, reason=outcome.reason, detail=outcome.detail)


def _build_alert(test: ReceiverTest, now: datetime) -> Alert:
    """Build what is told: an alert of the team that nothing else has, with a key of its own."""
    subject = PLATFORM if test.team == PLATFORM else TEAM + test.team
    alert = Alert(dagger=subject, condition=alerts_pb2.ALERT_CONDITION_RULE, rule=_NAME, incident=1)
    fired = alerts_pb2.AlertFired(
        meta=alert.meta(),
        dedup_key=f"daggers/{subject}/test/{test.id}",
        severity=alerts_pb2.ALERT_SEVERITY_WARNING,
        summary=f"This is a test of {test.actor or 'somebody'}: nothing is wrong, and nobody has to act.",
        team=test.team,
        domain=events_pb2.ERROR_DOMAIN_UNSPECIFIED,
    )
    fired.since.FromDatetime(now)
    return alert._replace(fired=fired, fired_at=now)
