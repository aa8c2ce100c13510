"""The monitor: puts its rooms together. It folds the logs, and acts as the pure parts decide.

    observe/observer      watches by heartbeats and probes
    conditions/refusals   refused calls by the audit
    conditions/row_rules  what drivers observe by rules on rows
    alerts/judge          findings that have lasted long enough turn an alert
    alerts/routing        routes of its team say who is told
    alerts/leadership     the election, and the log of alerts
    alerts/journal        the outage that the log does not hold yet
    deliver/deliveries    notifications and their outcomes
    deliver/receiver_tests  tests of receivers that people ask for
    deliver/watchdog      the dead man's switch

Level-triggered: every timer looks at the whole state and does the next thing that is due, so nothing depends
on a single event. Nothing is sent before its alert is in the log; every attempt is recorded afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import httpx
from daggers.v1 import alerts_pb2, gateway_pb2, rules_pb2
from pydantic import SecretStr

from election import Beats, proven_dead
from eventlog import Log, Record
from eventlog.fold import Step
from eventlog.follower import Follower
from eventlog.tail import KafkaTail, Tail
from fleet import ApplyResult, Fleet
from fleet.alerts.alert import PLATFORM, PRINCIPAL, TEAM, Turn
from fleet.alerts.ledger import Ledger
from fleet.conditions.condition_limits import describe_limits
from fleet.conditions.dagger_conditions import OF_DAGGERS, OF_PLATFORM, OF_PRINCIPALS, OF_TEAMS
from fleet.decide.rounds import Rounds
from fleet.health.degradation import Limits
from health_monitor.alerts import alert, outage, routing
from health_monitor.alerts.journal import PendingOutage
from health_monitor.alerts.judge import Judge
from health_monitor.alerts.leadership import PATIENCE_S, Identity, Leadership
from health_monitor.alerts.outage import Journal, Outage
from health_monitor.conditions import (
    host_away,
    kafka_away,
    refusals,
    row_rules,
    spark_away,
    store_away,
    team_quota,
)
from health_monitor.conditions.cause import Cause, Observation, SlowCause
from health_monitor.conditions.refusals import Refusals
from health_monitor.conditions.row_rules import RowRules
from health_monitor.deliver.deliveries import Deliveries
from health_monitor.deliver.receiver_tests import ReceiverTests
from health_monitor.deliver.team_receivers import TeamDeliveries, receivers_of_team
from health_monitor.deliver.watchdog import INTERVAL, Watchdog
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.news import News
from health_monitor.observe.observer import Observer

_EACH_CALL: Final = timedelta(0)
_WRITTEN_AT_ONCE: Final = 100
_CAUSES: Final[tuple[Cause, ...]] = (host_away, spark_away, store_away)


class Monitor:
    """One monitor; leading, or standing by with the same state."""

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
        """`patience`: time without a leader's beat after which another monitor claims. `beats`: log of the
        beats. `dead`: proves the death of a monitor by its id. `watchdog`: URL of the dead man's switch.
        """
        self.channels = tuple(channels)
        self.fleet = Fleet()
        self.leadership = Leadership(
            identity,
            alerts,
            beats,
            patience=patience,
            clock=clock,
            dead=dead,
            conditions=describe_limits(limits, policy.hold),
        )
        gap = max(limits.silence, patience)
        self.observer = Observer(self.fleet, spark=spark, limits=limits, gap=gap, clock=clock)
        self.refusals = Refusals()
        self.row_rules = RowRules()
        self.observed = News()
        """Notes each observation by rules on rows."""
        self._rounds = Rounds(_EACH_CALL)
        self._rounds.begin(self.fleet.living_names)
        self._control = Follower(control, self.fleet, patience_s=PATIENCE_S, on_step=self._on_step)
        self._platforms = [channel.name for channel in channels]
        self._judge = Judge(self.leadership.ledger, receivers=self._receivers_of, policy=policy)
        self._outage = PendingOutage(journal)
        self.deliveries = Deliveries(
            self.leadership,
            self._outage,
            webhooks=webhooks,
            policy=policy,
            clock=clock,
            build_chart=self.observer.build_chart,
        )
        self.team_deliveries = TeamDeliveries(self.deliveries, self.fleet, self.leadership, clock)
        self.receiver_tests = ReceiverTests(self.leadership, self.fleet, channels, webhooks, clock)
        self._watchdog = Watchdog(watchdog, webhooks, clock)
        self._limits, self._clock = limits, clock
        self._judged_at: datetime | None = None

    @property
    def leads(self) -> bool:
        """True if the newest claim that was read is this monitor's."""
        return self.leadership.leads

    @property
    def judged_at(self) -> datetime | None:
        """Time of the last judgement; None before the first."""
        return self._judged_at

    @property
    def ledger(self) -> Ledger:
        """The fold of the log of alerts."""
        return self.leadership.ledger

    @property
    def followers(self) -> tuple[Follower[Any], ...]:
        """Followers that the caller must run for as long as the monitor."""
        return self._control, self.leadership.follower

    def _on_step(self, step: Step[ApplyResult]) -> None:
        self.observer.on_step(step)
        self._rounds.note(step.applied.subject)

    async def catch_up(self) -> None:
        """Wait until both logs are folded to their ends, before all else. Raises: LogError."""
        await self._catch_up()
        self.leadership.note_catch_up()
        self._outage.load(self.ledger)

    async def _catch_up(self) -> None:
        for follower in self.followers:
            await follower.catch_up()

    def receive(self, record: Record, came: datetime | None = None) -> None:
        """Fold a record of the heartbeats topic, of a driver or a monitor. Raises: UnreadableHeartbeat.

        `came`: time of arrival of a recalled record; None: now.
        """
        self.observer.receive(record, came)
        if isinstance(record.message, alerts_pb2.MonitorBeat) and came is None:
            self.leadership.note_beat(record.message.epoch)  # a recalled one proves no living leader

    # ---- Timers --------------------------------------------------------------------------------------------

    async def judge(self) -> None:
        """Judge the daggers that have changed or may turn, a part of all others, all teams and principals;
        write the alerts that turn. Raises: LogUnavailable.
        """
        if not self.observer.begun:
            return
        # a cause fires before what follows from it, and is over behind that
        await self._judge_causes(self._observe(), alerts_pb2.AlertFired)
        names = {*self._rounds.take(self._clock()), *self._judge.open}
        for name in sorted(names & self.fleet.daggers.keys()):
            while (turn := self._next_turn(name)) is not None:
                await self._write(turn)
        await self._judge_causes(self._observe(), alerts_pb2.AlertResolved)
        for team in team_quota.teams_to_judge(self.fleet, self.ledger):
            while (turn := self._next_turn_of_team(team)) is not None:
                await self._write(turn)
        for principal in self.refusals.principals_to_judge(self.ledger, self._clock()):
            while (turn := self._next_turn_of_principal(principal)) is not None:
                await self._write(turn)
        self._judged_at = self._clock()

    async def judge_rules(self) -> None:
        """Write the turns of rules on rows, many at once: each of another alert. Raises: LogUnavailable."""
        if not self.observer.begun or not self.leadership.begins:
            return
        turns = self.row_rules.turns(
            self.fleet, self.ledger, self._receivers_of, self._clock(), self.observer.change
        )
        while some := list(islice(turns, _WRITTEN_AT_ONCE)):
            outcomes = await asyncio.gather(*map(self._write, some), return_exceptions=True)
            for failure in filter(None, outcomes):
                raise failure

    def _next_turn(self, name: str) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        """Judge a dagger by its state now, which may have changed while the turn before was written."""
        dagger = self.fleet.daggers[name]
        settings = self.observer.settings(dagger)
        turn = self._judge.next_turn(
            name,
            self.observer.findings(dagger, settings),
            of=OF_DAGGERS,
            now=self._clock(),
            dagger=dagger,
            team=dagger.spec.team,
            store=self.observer.find_store(dagger),
            change=self.observer.change(name),
            settings=settings,
            launched=self.observer.watches[name].launched,
        )
        return turn if self.leadership.begins else None

    def _observe(self) -> Observation:
        return Observation(
            self.fleet,
            self.ledger,
            self.observer.watches,
            self.observer.list_hindered(),
            now=self._clock(),
            hearing=self.observer.hears,
            limits=self._limits,
        )

    async def _judge_causes(
        self, observation: Observation, kind: type[alerts_pb2.AlertFired | alerts_pb2.AlertResolved]
    ) -> None:
        """Write the turns of one kind of what holds back alerts of daggers. Raises: LogUnavailable."""
        for cause in _CAUSES:
            for name, finding in cause.find(observation).items():
                subject, findings = cause.PREFIX + name, {cause.CONDITION: finding}
                turn = self._judge.next_turn(subject, findings, of=(cause.CONDITION,), now=observation.now)
                if not self.leadership.begins or not isinstance(turn, kind):
                    continue
                if not self._is_recovering(cause, subject, observation):
                    await self._write(turn)

    def _is_recovering(self, cause: SlowCause, subject: str, observation: Observation) -> bool:
        """Tell whether something that a cause holds back is about to end, so that its own end waits."""
        followers = self.ledger.list_held(self.ledger.alert(subject, cause.CONDITION))
        return any(cause.is_recovering(follower, observation) for follower in followers)

    def _next_turn_of_team(self, team: str) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        finding = self.observer.finding_of_team(team)
        findings = {} if finding is None else {team_quota.CONDITION: finding}
        turn = self._judge.next_turn(TEAM + team, findings, of=OF_TEAMS, now=self._clock(), team=team)
        return turn if self.leadership.begins else None

    def _next_turn_of_principal(
        self, principal: str
    ) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        now = self._clock()
        finding = self.refusals.judge(principal, now)
        findings = {} if finding is None else {refusals.CONDITION: finding}
        turn = self._judge.next_turn(PRINCIPAL + principal, findings, of=OF_PRINCIPALS, now=now)
        return turn if self.leadership.begins else None

    async def follow_audit(self, tail: Tail) -> None:
        """Count refused calls of the audit until the tail fails. Raises: LogUnavailable."""
        self.refusals.begin()
        try:
            async with aclosing(tail.follow(self._clock() - refusals.WITHIN)) as arrivals:
                async for arrival in arrivals:
                    self.refusals.add(arrival.record, self._clock())
        finally:
            self.refusals.hears = False

    async def follow_observations(self, tail: KafkaTail) -> None:
        """Take what drivers observe by rules until the tail fails. Raises: LogUnavailable."""
        async with aclosing(
            tail.follow(self._clock() - row_rules.RETENTION, self.row_rules.note_read)
        ) as arrivals:
            async for arrival in arrivals:
                if isinstance(arrival.record.message, rules_pb2.RuleObserved):
                    self.row_rules.add(arrival.record.message)
                    self.observed.note()

    async def _write(self, turn: Turn) -> None:
        """Write a turn; of one that fires also where routes of its team lead it. Raises: LogUnavailable."""
        if isinstance(turn, alerts_pb2.AlertFired):
            own = receivers_of_team(self.fleet, turn.team)
            routing.route(turn, self.ledger, own=own, fallback=self._receivers_of_platform())
        await self.leadership.write(turn)

    def _receivers_of(self, team: str) -> Sequence[str]:
        return receivers_of_team(self.fleet, team) or self._receivers_of_platform()

    def _receivers_of_platform(self) -> Sequence[str]:
        return [*self._platforms, *receivers_of_team(self.fleet, PLATFORM)]

    async def judge_platform(self) -> None:
        """Judge Kafka itself, and journal an outage until the log has it. Raises: LogUnavailable."""
        if not self.observer.begun:
            return
        if self._outage.current is not None:
            await self._bring_in(self._outage.current)
            return
        now = self._clock()
        away = outage.kafka_away(
            self.leadership.reach, now=now, limit=self._limits.kafka, count_daggers=self._count_running
        )
        findings = {} if away is None else {kafka_away.CONDITION: away}
        turn = self._judge.next_turn(PLATFORM, findings, of=OF_PLATFORM, now=now)
        if not self.leadership.begins:
            return
        match turn:
            case alerts_pb2.AlertFired() as fired:
                fired.meta.epoch = self.leadership.epoch
                logged_alert = self.ledger.alert(PLATFORM, kafka_away.CONDITION)
                self._outage.keep(outage.begin_outage(fired, logged_alert, now))
            case alerts_pb2.AlertResolved() as resolved:
                if not self._is_recovering(kafka_away, PLATFORM, self._observe()):
                    await self.leadership.write(resolved)

    def _count_running(self) -> int:
        """Count the daggers that are to run."""
        desired = gateway_pb2.DESIRED_RUNNING
        return sum(dagger.desired == desired for dagger in self.fleet.daggers.values())

    async def _bring_in(self, pending: Outage) -> None:
        """Write the outage to the log when that takes records again, and no delivery is under way: from then
        on the leader delivers by the log. Raises: LogUnavailable.
        """
        if self.deliveries.under_way or (self.leads and self.leadership.reach.missing is not None):
            return
        await self.leadership.bring_in(pending.report)
        if self._outage.current is pending:
            self._outage.keep(None)

    async def call_watchdog(self) -> None:
        """Call the watchdog if this monitor leads, judges, is caught up and hears. Raises: LogUnavailable."""
        has_judged = self._judged_at is not None and self._clock() - self._judged_at < INTERVAL
        if self._watchdog.url is None or not self.leadership.begins or not has_judged:
            return
        await self._catch_up()
        if self.observer.hears is None or self.leadership.reach.missing is not None:
            return
        await self._watchdog.call()

    async def drain(self, grace: timedelta) -> None:
        """Begin nothing more, and record deliveries under way, for `grace`; the followers must still run."""
        self.leadership.draining = True
        self.team_deliveries.stop()
        self.receiver_tests.stop()
        await self.deliveries.drain(grace)
