"""The monitor: folds the logs, keeps the watches, and does what the pure parts say. The only interpreter.

Level-triggered: every timer looks at all that is known and does the next thing that is due, so nothing hangs
on a single event. Nothing is sent before its alert stands in the log; every attempt is recorded afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import httpx
from daggers.v1 import alerts_pb2, telemetry_pb2
from pydantic import SecretStr

from chassis.logging import logger, note, unit_of_work
from election import Beats, Deposed, Election, Holder, Office, proven_dead
from eventlog import Draft, Log, LogUnavailable, Record
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet import Applied, Dagger, Fleet, watch
from fleet.alert import PLATFORM, Condition, Event, Notify, dedup_key
from fleet.health import Limits
from fleet.ledger import Ledger
from fleet.watch import Hearing, Watch
from health_monitor import alert, history, liveness, outage
from health_monitor.condition import OF_DAGGERS, diagnose, to_probe
from health_monitor.finding import Finding
from health_monitor.history import History
from health_monitor.outage import Journal, Outage, Reach
from health_monitor.receivers import Answer, Request, Temporary
from health_monitor.webhook import Channel, Webhooks

_PATIENCE_S: Final = 10.0
"""How long an appended record may take to come back, in seconds."""
_APPEND_AGAIN_S: Final = 1.0
WATCHDOG: Final = timedelta(minutes=1)
"""How often whoever watches the monitor is called; it has judged in that time."""
_PROBES: Final = 16
"""Spark drivers that are asked at the same time."""


class UnreadableHeartbeat(Exception):  # noqa: N818 - reads as what is wrong
    """A record of the heartbeats topic that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this monitor is."""

    monitor_id: str
    """Unique to the process."""
    host: str


def office(ledger: Ledger) -> Office:
    """What monitors are elected to."""
    return Office(
        "health-monitor",
        claim=lambda me, host: alerts_pb2.MonitorStarted(monitor_id=me, host=host),
        beat=lambda epoch, me: alerts_pb2.MonitorBeat(epoch=epoch, monitor_id=me),
        holder=lambda: Holder(ledger.epoch, ledger.leader) if ledger.epoch >= 0 else None,
    )


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
        self.ledger = Ledger()
        self.fleet = Fleet()
        self._control = Follower(control, self.fleet, patience_s=_PATIENCE_S, on_step=self._on_control)
        self._alerts = Follower(alerts, self.ledger, patience_s=_PATIENCE_S, on_step=self._on_alert)
        self._election = Election(
            office(self.ledger),
            self._alerts,
            beats,
            id=identity.monitor_id,
            host=identity.host,
            patience=patience,
            clock=clock,
            dead=dead,
        )
        self._webhooks, self._spark = webhooks, spark
        self._limits, self._policy, self._clock = limits, policy, clock
        self._watches: dict[str, Watch] = {}
        self._lives: dict[str, int] = {}
        self._histories: dict[str, History] = {}
        self._held: dict[tuple[str, Condition], alert.Held] = {}
        self._hearing = Hearing(gap=max(limits.silence, patience))
        self._recalls_since: datetime | None = None
        self.judges = False
        """Whether it judges already: not while it recalls."""
        self._judged: datetime | None = None
        self._reach = Reach()
        self._outage: Outage | None = None
        self._journal, self._watchdog = journal, watchdog
        self._unnoticed = False
        self._under_way: set[asyncio.Task[None]] = set()
        self._draining = False

    @property
    def leads(self) -> bool:
        """Whether this monitor's claim is the newest, as far as it has read."""
        return self._election.leads

    # ---- What comes in -------------------------------------------------------------------------------------

    @property
    def followers(self) -> tuple[Follower[Applied], Follower[bool]]:
        """What must run for as long as the monitor does."""
        return self._control, self._alerts

    async def catch_up(self) -> None:
        """Wait until both logs are folded to their ends. Nothing is done before. Raises: LogError."""
        await self._control.catch_up()
        await self._alerts.catch_up()
        self._election.claimed()  # a leader is heard anew: what it said before we came is not known
        report = self._journal.load()
        if report is not None:
            self._outage = Outage(report, self.ledger.alert(PLATFORM, outage.CONDITION))

    def recall(self, since: datetime) -> None:
        """What came `since` then is heard again first. Called between `catch_up` and `begin`, or never."""
        self._recalls_since = since

    def begin(self) -> None:
        """Judge from now on: what there is to recall was heard."""
        if self.judges:
            return
        now = self._clock()
        for name, dagger in self.fleet.daggers.items():
            since = self._recalls_since or now
            launched = min(max(since, dagger.phase_time), now)
            watched = self._watches.get(name) or watch.begin(
                min(max(since, dagger.create_time), now), dagger.generation, launched=launched
            )
            self._watches[name] = watch.launch(watched, dagger.generation, launched)
            self._lives[name] = dagger.create_sequence
        self.judges = True

    def _on_control(self, step: Step[Applied]) -> None:
        dagger = self.fleet.daggers.get(step.applied.subject)
        if not step.applied.changed or dagger is None:
            return
        known = self._histories.get(dagger.name, History())
        self._histories[dagger.name] = history.after(known, step.record, dagger)
        if self.judges:
            self._attend(dagger)

    def _on_alert(self, step: Step[bool]) -> None:
        if step.applied and isinstance(step.record.message, alerts_pb2.MonitorStarted):
            self._election.claimed()
            if self._election.epoch >= 0 and not self.leads:
                self._election.resign()
                self._reach = Reach()
                logger().warning("standing by", newer_epoch=self.ledger.epoch, leader=self.ledger.leader)

    def heard(self, record: Record, came: datetime | None = None) -> None:
        """Take in a record of the heartbeats topic. Raises: UnreadableHeartbeat, to have it set aside.

        `came`: when it came, of one that is recalled.
        """
        now = self._clock()
        at = now if came is None else min(came, now)
        self._hearing = self._hearing.hears(now) if came is None else self._hearing.recalls(at)
        message = record.message
        match message:
            case telemetry_pb2.Heartbeat():
                self._hear(message, at)
            case alerts_pb2.MonitorBeat() if came is None:  # whether a leader lives now is heard now
                self._election.heard(message.epoch)
            case None:
                raise UnreadableHeartbeat(f"a record of type {record.type or 'unknown'!r} cannot be read")

    def _hear(self, heartbeat: telemetry_pb2.Heartbeat, at: datetime) -> None:
        watched = self._watches.get(heartbeat.dagger)
        if watched is None and not self.judges:
            dagger = self.fleet.daggers.get(heartbeat.dagger)
            if dagger is not None and heartbeat.generation > dagger.create_sequence:
                watched = watch.begin(at, heartbeat.generation)
        if watched is None:  # the control topic is still to tell of the dagger
            return
        if not self.judges:  # two of its drivers need not have one clock
            at = max(at, watched.heard or at)
        self._watches[heartbeat.dagger] = watch.hear(watched, heartbeat, at, self._limits)

    def _attend(self, dagger: Dagger) -> None:
        now = self._clock()
        if self._lives.get(dagger.name) != dagger.create_sequence:
            self._lives[dagger.name] = dagger.create_sequence
            self._watches[dagger.name] = watch.begin(now)
        self._watches[dagger.name] = watch.launch(self._watches[dagger.name], dagger.generation, now)

    # ---- What is done, each by a timer ---------------------------------------------------------------------

    async def lead(self) -> None:
        """Keep the lead with a beat, or claim it when its holder is silent. Raises: LogUnavailable."""
        if self.leads:
            tried = self._clock()
            try:
                if await self._election.beat():
                    self._reach = self._reach.writes(self._clock())
            except LogUnavailable:
                self._reach = self._reach.misses(tried)
                raise
        elif self._election.may_claim():
            with suppress(Deposed):
                await self._election.claim()
                logger().info("leading", epoch=self._election.epoch)

    async def probe(self) -> None:
        """Ask the Spark drivers of silent daggers whether they live."""
        if not self.judges:
            return
        now = self._clock()
        hearing = self._hearing.begin(now)
        asked = []
        for dagger in self.fleet.daggers.values():
            watched = self._watches[dagger.name]
            url = to_probe(dagger, watched, now=now, hearing=hearing, limits=self._limits)
            if url is not None:
                asked.append((dagger, watched, url))
        room = asyncio.Semaphore(_PROBES)

        async def ask(dagger: Dagger, watched: Watch, url: str) -> None:
            async with room:
                answers = await liveness.answers(self._spark, url, dagger.name, watched.generation)
            if self._watches[dagger.name] is watched:  # else it was heard, or launched anew, in the meantime
                self._watches[dagger.name] = watch.probe(watched, answers=answers)

        await asyncio.gather(*(ask(*silent) for silent in asked))

    async def judge(self) -> None:
        """Look at every dagger, and write what begins or is over. Raises: LogUnavailable."""
        if not self.judges:
            return
        for name in tuple(self.fleet.daggers):
            while (event := self._due(name)) is not None:
                await self._write_fact(event)
        self._judged = self._clock()

    async def judge_platform(self) -> None:
        """Look at Kafka itself. What begins is journaled until the log has it. Raises: LogUnavailable."""
        if not self.judges:
            return
        if self._outage is not None:
            await self._bring_in(self._outage)
            return
        now = self._clock()
        finding = outage.kafka_away(self._reach, now=now, limit=self._limits.kafka)
        held = self._hold(PLATFORM, outage.CONDITION, finding, now)
        match self._decide(PLATFORM, outage.CONDITION, held):
            case alerts_pb2.AlertFired() as fired:
                fired.meta.epoch = self._election.epoch
                self._keep(outage.begun(fired, self.ledger.alert(PLATFORM, outage.CONDITION), now))
            case alerts_pb2.AlertResolved() as resolved:
                await self._write_fact(resolved)

    async def _bring_in(self, brought: Outage) -> None:
        """Write what was told without the log, when it takes records again. Who leads then tells the rest, so
        nothing is under way. Raises: LogUnavailable.
        """
        if self._under_way or (self.leads and self._reach.missing is not None):
            return
        draft_id = outage.draft_id(brought.report)
        draft = Draft(draft_id, self._election.source, PLATFORM, self._clock(), brought.report)
        with unit_of_work("outage", attempts=len(brought.report.attempts)):
            await self._alerts.append(draft)
        if self._outage is brought:
            self._keep(None)

    def _keep(self, kept: Outage | None) -> None:
        """Remember it, here and where a restart finds it. Told it is all the same where that fails."""
        self._outage = kept
        try:
            self._journal.save(None if kept is None else kept.report)
        except OSError as error:
            logger().error("outage not kept", detail=str(error))

    def _due(self, name: str) -> Event | None:
        """What is to be written of a dagger next, as it is now: the fleet goes on while the fact before is
        written.
        """
        now = self._clock()
        dagger, past = self.fleet.daggers[name], self._histories.get(name, History())
        findings = diagnose(
            dagger,
            self._watches[name],
            now=now,
            hearing=self._hearing.begin(now),
            limits=self._limits,
            history=past,
        )
        due = None
        for condition in OF_DAGGERS:
            held = self._hold(name, condition, findings.get(condition), now)
            due = due or self._decide(name, condition, held, dagger, past.change)
        return due

    def _decide(
        self,
        name: str,
        condition: Condition,
        held: alert.Held | None,
        dagger: Dagger | None = None,
        change: alerts_pb2.LastChange | None = None,
    ) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        if not self.leads or self._draining:
            return None
        return alert.decide(
            self.ledger.alert(name, condition),
            held,
            dagger=dagger,
            receivers=[channel.name for channel in self.channels],
            now=self._clock(),
            policy=self._policy,
            change=change,
        )

    def _hold(
        self, name: str, condition: Condition, finding: Finding | None, now: datetime
    ) -> alert.Held | None:
        held = alert.hold(self._held.get((name, condition)), finding, now)
        if held is None:
            self._held.pop((name, condition), None)
        else:
            self._held[name, condition] = held
        return held

    async def notify(self, channel: Channel) -> None:
        """Send a receiver its next notification, and record what became of it. Raises: LogUnavailable."""
        if self._draining or not self.leads or self._outage is not None or self._due_to(channel) is None:
            return
        # A monitor that was suspended may have been replaced: nothing is sent on old knowledge.
        await self._alerts.catch_up()
        due = self._due_to(channel)
        if due is None or not self.leads:
            return
        await self._unbroken(self._deliver(channel, due))

    async def notify_outage(self, channel: Channel) -> None:
        """Tell a receiver that Kafka is away, while it is: the outcome is kept in the journal."""
        if self._draining or not self.leads or self._outage is None or self._reach.missing is None:
            return
        due = self._outage.next_notification(channel.name, pace=channel.receiver.PACE, now=self._clock())
        if due is not None:
            await self._unbroken(self._deliver_outage(channel, due))

    async def _unbroken(self, delivery: Coroutine[None, None, None]) -> None:
        """Not cancelled with its timer: what was sent shall be recorded."""
        task = asyncio.create_task(delivery)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)

    async def call_watchdog(self) -> None:
        """Say outside that somebody leads, is caught up, hears and judges. Raises: LogUnavailable."""
        now = self._clock()
        judged = self._judged is not None and now - self._judged < WATCHDOG
        if self._watchdog is None or self._draining or not self.leads or not judged:
            return
        await self._control.catch_up()
        await self._alerts.catch_up()
        if self._hearing.begin(self._clock()) is None or self._reach.missing is not None:
            return
        answer = await self._webhooks.call(Request(self._watchdog.get_secret_value(), b""), self._clock())
        taken = isinstance(answer, Answer) and 200 <= answer.status < 300
        if not taken and not self._unnoticed:  # once until it is taken again
            why = answer.detail if isinstance(answer, Temporary) else f"it answered {answer.status}"
            logger().warning("watchdog not called", detail=why)
        self._unnoticed = not taken

    async def drain(self, grace: timedelta) -> None:
        """Begin nothing more, and let what is under way be recorded; the followers must still run."""
        self._draining = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=grace.total_seconds())

    # ---- Acts ----------------------------------------------------------------------------------------------

    def _due_to(self, channel: Channel) -> Notify | None:
        return self.ledger.next_notification(channel.name, pace=channel.receiver.PACE, now=self._clock())

    async def _deliver(self, channel: Channel, due: Notify) -> None:
        outcome = await self._webhooks.send(channel, due, now=self._clock())
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        while self.leads:  # sent again only if this process dies before the log takes it
            with suppress(LogUnavailable):
                await self._write_fact(event)
                return
            await asyncio.sleep(_APPEND_AGAIN_S)

    async def _deliver_outage(self, channel: Channel, due: Notify) -> None:
        outcome = await self._webhooks.send(channel, due, now=self._clock())
        event = alert.conclude(due, outcome, now=self._clock(), policy=self._policy)
        assert self._outage is not None  # it is brought in when nothing is under way
        event.meta.epoch = self._outage.report.fired.meta.epoch
        self._keep(self._outage.told(event, self._clock()))
        logger().info("outage told", receiver=channel.name, turn=event.DESCRIPTOR.name)

    async def _write_fact(self, event: Event) -> None:
        """Write a fact as the leader, and wait until it is folded. Raises: LogUnavailable."""
        event.meta.epoch = self._election.epoch
        meta = event.meta
        key = dedup_key(meta.dagger, meta.condition)
        turn = event.DESCRIPTOR.name
        fact_id = f"{meta.epoch}/{key}/{meta.incident}/{turn}"
        if isinstance(event, alerts_pb2.NotificationSent | alerts_pb2.NotificationFailed):
            fact_id += f"/{event.notice}/{event.receiver}/{event.attempt}"
        with unit_of_work("alert", turn=turn, key=key, incident=meta.incident):
            match event:
                case alerts_pb2.AlertFired() | alerts_pb2.AlertResolved():
                    note(summary=event.summary)
                case alerts_pb2.NotificationFailed():
                    note(receiver=event.receiver, attempt=event.attempt)
                    note(reason=event.reason, detail=event.detail)
                case alerts_pb2.NotificationSent():
                    note(receiver=event.receiver, attempt=event.attempt)
            draft = Draft(fact_id, self._election.source, meta.dagger, self._clock(), event)
            await self._alerts.append(draft)
