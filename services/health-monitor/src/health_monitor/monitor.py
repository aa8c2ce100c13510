"""The monitor: its rooms put together. It folds the logs and does what the pure parts say; nobody else acts.

    leadership   the log of alerts: who leads, what is written
    observer     what is heard and watched
    refusals     what the audit said of late
    judge        what has held, and the turn of an alert that follows
    deliveries   who is told, and what became of it
    journal      the outage that the log does not hold yet
    watchdog     who is called while all is well

Level-triggered: every timer looks at all that is known and does the next thing that is due, so nothing hangs
on a single event. Nothing is sent before its alert stands in the log; every attempt is recorded afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import httpx
from daggers.v1 import alerts_pb2
from pydantic import SecretStr

from election import Beats, proven_dead
from eventlog import Log, Record
from eventlog.follower import Follower
from eventlog.tail import Tail
from fleet import Fleet
from fleet.alerts.alert import PLATFORM, PRINCIPAL, TEAM
from fleet.alerts.ledger import Ledger
from fleet.health.degradation import Limits
from health_monitor.alerts import alert, outage
from health_monitor.alerts.journal import KeptOutage
from health_monitor.alerts.judge import Judge
from health_monitor.alerts.leadership import PATIENCE_S, Identity, Leadership
from health_monitor.alerts.outage import Journal, Outage
from health_monitor.conditions import refusals, team_quota
from health_monitor.conditions.dagger_conditions import OF_DAGGERS, OF_PLATFORM, OF_PRINCIPALS, OF_TEAMS
from health_monitor.conditions.refusals import Refusals
from health_monitor.deliver.deliveries import Deliveries
from health_monitor.deliver.team_receivers import TeamDeliveries, of_team
from health_monitor.deliver.watchdog import INTERVAL, Watchdog
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.observe.observer import Observer


class Monitor:
    """One monitor; leading, or standing by with the same knowledge."""

    def __init__(
        self,
        identity: Identity,
        *,
        control: Log,
        alerts: Log,
        beats: Beats,
        channels: Sequence[Channel],
        webhooks: Webhooks,
        spark: httpx.AsyncClient,
        limits: Limits,
        policy: alert.Policy,
        patience: timedelta,
        clock: Callable[[], datetime],
        journal: Journal,
        watchdog: SecretStr | None = None,
        dead: Callable[[str], bool] = proven_dead,
    ) -> None:
        """`patience`: how long a leader's missing beat is borne. `beats`: where its own go. `dead` proves the
        death of a monitor by its identity. `watchdog`: URL of who notices when it is called no more.
        """
        self.channels = tuple(channels)
        self.fleet = Fleet()
        self.leadership = Leadership(identity, alerts, beats, patience=patience, clock=clock, dead=dead)
        gap = max(limits.silence, patience)
        self.observer = Observer(self.fleet, spark=spark, limits=limits, gap=gap, clock=clock)
        self.refusals = Refusals()
        self._control = Follower(control, self.fleet, patience_s=PATIENCE_S, on_step=self.observer.folded)
        self._platforms = [channel.name for channel in channels]
        self._judge = Judge(self.leadership.ledger, receivers=self._told, policy=policy)
        self._kept = KeptOutage(journal)
        self.deliveries = Deliveries(
            self.leadership, self._kept, webhooks=webhooks, policy=policy, clock=clock
        )
        self.team_deliveries = TeamDeliveries(self.deliveries, self.fleet, self.leadership)
        self._watchdog = Watchdog(watchdog, webhooks, clock)
        self._limits, self._clock = limits, clock
        self._judged: datetime | None = None

    @property
    def leads(self) -> bool:
        """Whether this monitor's claim is the newest, as far as it has read."""
        return self.leadership.leads

    @property
    def judged(self) -> datetime | None:
        """When every dagger was last judged."""
        return self._judged

    @property
    def ledger(self) -> Ledger:
        """The fold of the log of alerts."""
        return self.leadership.ledger

    @property
    def followers(self) -> tuple[Follower[Any], ...]:
        """What must run for as long as the monitor does."""
        return self._control, self.leadership.follower

    async def catch_up(self) -> None:
        """Wait until both logs are folded to their ends. Nothing is done before. Raises: LogError."""
        await self._catch_up()
        self.leadership.caught_up()
        self._kept.load(self.ledger)

    async def _catch_up(self) -> None:
        for follower in self.followers:
            await follower.catch_up()

    def heard(self, record: Record, came: datetime | None = None) -> None:
        """Take in a record of the heartbeats topic. Raises: UnreadableHeartbeat, to have it set aside.

        `came`: when it came, of one that is recalled.
        """
        self.observer.heard(record, came)
        if isinstance(record.message, alerts_pb2.MonitorBeat) and came is None:
            self.leadership.heard(record.message.epoch)  # whether a leader lives now is heard now

    # ---- What is done, each by a timer ---------------------------------------------------------------------

    async def judge(self) -> None:
        """Look at every dagger, and write what begins or is over. Raises: LogUnavailable."""
        if not self.observer.begun:
            return
        for name in tuple(self.fleet.daggers):
            while (turn := self._next_turn(name)) is not None:
                await self.leadership.write(turn)
        for team in team_quota.watched(self.fleet, self.ledger):
            while (turn := self._next_turn_of_team(team)) is not None:
                await self.leadership.write(turn)
        for principal in self.refusals.watched(self.ledger, self._clock()):
            while (turn := self._next_turn_of_principal(principal)) is not None:
                await self.leadership.write(turn)
        self._judged = self._clock()

    def _next_turn(self, name: str) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        """Of a dagger as it is now: the fleet goes on while the fact before is written."""
        dagger = self.fleet.daggers[name]
        turn = self._judge.next_turn(
            name,
            self.observer.findings(dagger),
            of=OF_DAGGERS,
            now=self._clock(),
            dagger=dagger,
            team=dagger.spec.team,
            change=self.observer.change(name),
        )
        return turn if self.leadership.begins else None

    def _next_turn_of_team(self, team: str) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        finding = self.observer.of_team(team)
        findings = {} if finding is None else {team_quota.CONDITION: finding}
        turn = self._judge.next_turn(TEAM + team, findings, of=OF_TEAMS, now=self._clock(), team=team)
        return turn if self.leadership.begins else None

    def _next_turn_of_principal(
        self, principal: str
    ) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        now = self._clock()
        finding = self.refusals.judged(principal, now)
        findings = {} if finding is None else {refusals.CONDITION: finding}
        turn = self._judge.next_turn(PRINCIPAL + principal, findings, of=OF_PRINCIPALS, now=now)
        return turn if self.leadership.begins else None

    async def follow_audit(self, tail: Tail) -> None:
        """Hear what the audit says, for as long as it does. Raises: LogUnavailable."""
        self.refusals.begin()
        try:
            async with aclosing(tail.follow(self._clock() - refusals.WITHIN)) as arrivals:
                async for arrival in arrivals:
                    self.refusals.heard(arrival.record, self._clock())
        finally:
            self.refusals.hears = False

    def _told(self, team: str) -> Sequence[str]:
        return of_team(self.fleet, team) or self._platforms

    async def judge_platform(self) -> None:
        """Look at Kafka itself. What begins is journaled until the log has it. Raises: LogUnavailable."""
        if not self.observer.begun:
            return
        if self._kept.current is not None:
            await self._bring_in(self._kept.current)
            return
        now = self._clock()
        away = outage.kafka_away(self.leadership.reach, now=now, limit=self._limits.kafka)
        findings = {} if away is None else {outage.CONDITION: away}
        turn = self._judge.next_turn(PLATFORM, findings, of=OF_PLATFORM, now=now)
        if not self.leadership.begins:
            return
        match turn:
            case alerts_pb2.AlertFired() as fired:
                fired.meta.epoch = self.leadership.epoch
                self._kept.keep(outage.begun(fired, self.ledger.alert(PLATFORM, outage.CONDITION), now))
            case alerts_pb2.AlertResolved() as resolved:
                await self.leadership.write(resolved)

    async def _bring_in(self, brought: Outage) -> None:
        """Write what was told without the log, when it takes records again. Who leads then tells the rest, so
        nothing is under way. Raises: LogUnavailable.
        """
        if self.deliveries.under_way or (self.leads and self.leadership.reach.missing is not None):
            return
        await self.leadership.bring_in(brought.report)
        if self._kept.current is brought:
            self._kept.keep(None)

    async def call_watchdog(self) -> None:
        """Say outside that somebody leads, is caught up, hears and judges. Raises: LogUnavailable."""
        judged = self._judged is not None and self._clock() - self._judged < INTERVAL
        if self._watchdog.url is None or not self.leadership.begins or not judged:
            return
        await self._catch_up()
        if self.observer.hears is None or self.leadership.reach.missing is not None:
            return
        await self._watchdog.call()

    async def drain(self, grace: timedelta) -> None:
        """Begin nothing more, and let what is under way be recorded; the followers must still run."""
        self.leadership.draining = True
        self.team_deliveries.stop()
        await self.deliveries.drain(grace)
