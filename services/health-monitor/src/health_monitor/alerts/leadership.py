"""Leadership: every monitor reads the log of alerts, and the one that leads writes it.

The outcomes of its beats tell the leader whether Kafka takes records at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from daggers.v1 import alerts_pb2, rules_pb2

from chassis.logging import logger, note, unit_of_work
from election import Beats, Election, ElectionEvents, Holder, LeadershipLost
from eventlog import Draft, Log, LogUnavailable
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet.alerts.alert import PLATFORM, TEAM, Event, GroupNotification, dedup_key_of
from fleet.alerts.ending_silences import SilenceNotification
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import outage
from health_monitor.alerts.outage import Reach
from health_monitor.news import News

PATIENCE_S: Final = 10.0
"""Time that an appended record may take to be read back, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity of this monitor in the election."""

    monitor_id: str
    """Unique to the process."""
    host: str


def election_events(
    ledger: Ledger, conditions: Mapping[str, rules_pb2.ConditionLimits] = MappingProxyType({})
) -> ElectionEvents:
    """Describe the election of the leading monitor: its events, and its leader according to the ledger.

    conditions: limits of conditions by the settings of this monitor.
    """
    return ElectionEvents(
        "health-monitor",
        claim=lambda me, host: alerts_pb2.MonitorStarted(monitor_id=me, host=host, conditions=conditions),
        beat=lambda epoch, me: alerts_pb2.MonitorBeat(epoch=epoch, monitor_id=me),
        holder=lambda: Holder(ledger.epoch, ledger.leader) if ledger.epoch >= 0 else None,
    )


class Leadership:
    """One monitor's election, and its access to the log of alerts."""

    def __init__(
        self,
        identity: Identity,
        log: Log,
        beats: Beats,
        *,
        patience: timedelta,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool],
        conditions: Mapping[str, rules_pb2.ConditionLimits] = MappingProxyType({}),
    ) -> None:
        """`patience`: silence of a leader after which another claims. `beats`: log of the beats.
        `conditions`: limits of conditions by the settings.
        `dead`: proves the death of a monitor by its id.
        """
        self.ledger = Ledger()
        self.follower = Follower(log, self.ledger, patience_s=PATIENCE_S, on_step=self._on_step)
        self.reach = Reach()
        """Outcomes of its beats."""
        self.changed = News()
        """Notes each record that changed the ledger."""
        self.draining = False
        """Whether it is shutting down, and begins nothing more."""
        self._clock = clock
        self._election = Election(
            election_events(self.ledger, conditions),
            self.follower,
            beats,
            id=identity.monitor_id,
            host=identity.host,
            patience=patience,
            clock=clock,
            dead=dead,
        )

    @property
    def leads(self) -> bool:
        """True if the newest claim that was read is this monitor's."""
        return self._election.leads

    @property
    def begins(self) -> bool:
        """True if it may begin deliveries and incidents: it leads, and is not draining."""
        return self.leads and not self.draining

    @property
    def epoch(self) -> int:
        """Epoch of its newest claim; -1 while it stands by."""
        return self._election.epoch

    # ---- Election ------------------------------------------------------------------------------------------

    def note_catch_up(self) -> None:
        """Start the wait for a leader's beat, as the log is folded to its end: older beats were not read."""
        self._election.note_claim()

    def note_beat(self, epoch: int) -> None:
        """Note that a monitor's beat arrived."""
        self._election.note_beat(epoch)

    def _on_step(self, step: Step[bool]) -> None:
        if step.applied:
            self.changed.note()
        if step.applied and isinstance(step.record.message, alerts_pb2.MonitorStarted):
            self._election.note_claim()
            if self._election.epoch >= 0 and not self.leads:
                self._election.resign()
                self.reach = Reach()
                logger().warning(
                    "monitor.standby_begun", newer_epoch=self.ledger.epoch, leader=self.ledger.leader
                )

    async def lead(self) -> None:
        """Send a beat as the leader, or claim the lead of a silent one. Raises: LogUnavailable."""
        if self.leads:
            tried = self._clock()
            try:
                if await self._election.beat():
                    self.reach = self.reach.writes(self._clock())
            except LogUnavailable:
                self.reach = self.reach.misses(tried)
                raise
        elif self._election.may_claim():
            with suppress(LeadershipLost):
                await self._election.claim()
                logger().info("monitor.leadership_gained", epoch=self._election.epoch)

    # ---- Writing -------------------------------------------------------------------------------------------

    async def write(self, event: Event | GroupNotification | SilenceNotification) -> None:
        """Append an event with this leader's epoch, and wait until it is folded. Raises: LogUnavailable."""
        if isinstance(event, alerts_pb2.SilenceNotificationSent | alerts_pb2.SilenceNotificationFailed):
            await self._write_of_silence(event)
            return
        if isinstance(event, alerts_pb2.GroupNotificationSent | alerts_pb2.GroupNotificationFailed):
            await self._write_of_group(event)
            return
        event.meta.epoch = self._election.epoch
        meta = event.meta
        key = dedup_key_of(meta)
        turn = event.DESCRIPTOR.name
        fact_id = f"{meta.epoch}/{key}/{meta.incident}/{turn}"
        if isinstance(event, alerts_pb2.NotificationSent | alerts_pb2.NotificationFailed):
            fact_id += f"/{event.notice}/{event.receiver}/{event.attempt}"
        elif isinstance(event, alerts_pb2.AlertChanged):
            fact_id += f"/{event.change}"
        with unit_of_work("alert", turn=turn, key=key, incident=meta.incident):
            match event:
                case alerts_pb2.AlertFired() | alerts_pb2.AlertChanged() | alerts_pb2.AlertResolved():
                    note(summary=event.summary)
                case alerts_pb2.NotificationFailed():
                    note(receiver=event.receiver, attempt=event.attempt)
                    note(reason=event.reason, detail=event.detail)
                case alerts_pb2.NotificationSent():
                    note(receiver=event.receiver, attempt=event.attempt)
            draft = Draft(fact_id, self._election.source, meta.dagger, self._clock(), event)
            await self.follower.append(draft)

    async def _write_of_group(self, event: GroupNotification) -> None:
        event.notice.epoch = self._election.epoch
        notice, turn = event.notice, event.DESCRIPTOR.name
        begin = notice.begin.ToJsonString()
        place = f"{notice.revision}/{'.'.join(map(str, notice.path))}/{sorted(notice.labels.items())}"
        group = f"{TEAM}{notice.team}/{blake2b(f'{place}/{begin}'.encode(), digest_size=8).hexdigest()}"
        attempt = f"{notice.receiver}/{notice.number}/{notice.attempt}"
        with unit_of_work("group", turn=turn, key=group, receiver=notice.receiver, attempt=notice.attempt):
            note(firing=len(notice.firing), resolved=len(notice.resolved))
            if isinstance(event, alerts_pb2.GroupNotificationFailed):
                note(reason=event.reason, detail=event.detail)
            fact_id = f"{notice.epoch}/{group}/{turn}/{attempt}"
            draft = Draft(fact_id, self._election.source, TEAM + notice.team, self._clock(), event)
            await self.follower.append(draft)

    async def _write_of_silence(self, event: SilenceNotification) -> None:
        event.notice.epoch = self._election.epoch
        notice, turn = event.notice, event.DESCRIPTOR.name
        silence, attempt = notice.silence_id, notice.attempt
        with unit_of_work("silence", turn=turn, silence=silence, receiver=notice.receiver, attempt=attempt):
            note(alerts=notice.alerts)
            if isinstance(event, alerts_pb2.SilenceNotificationFailed):
                note(reason=event.reason, detail=event.detail)
            fact_id = f"{notice.epoch}/silence/{silence}/{turn}/{notice.receiver}/{attempt}"
            draft = Draft(fact_id, self._election.source, silence, self._clock(), event)
            await self.follower.append(draft)

    async def write_tested(self, event: alerts_pb2.ReceiversTested) -> None:
        """Append what became of a test of receivers, with this leader's epoch. Raises: LogUnavailable."""
        event.epoch = self._election.epoch
        with unit_of_work("receiver_test", test=event.test_id):
            note(delivered=sum(result.delivered for result in event.results), receivers=len(event.results))
            fact_id = f"{event.epoch}/receiver-test/{event.test_id}"
            draft = Draft(fact_id, self._election.source, event.test_id, self._clock(), event)
            await self.follower.append(draft)

    async def write_callback(
        self, event: alerts_pb2.AlertAcknowledged | alerts_pb2.AcknowledgementEnded, draft_id: str
    ) -> None:
        """Append what somebody did at a receiver, whoever leads. Raises: LogError."""
        subject = event.incidents[0].dagger
        await self.follower.append(Draft(draft_id, self._election.source, subject, self._clock(), event))

    async def bring_in(self, report: alerts_pb2.OutageReported) -> None:
        """Append the report of an outage, whoever leads by now. Raises: LogUnavailable."""
        draft_id = outage.draft_id(report)
        draft = Draft(draft_id, self._election.source, PLATFORM, self._clock(), report)
        with unit_of_work("outage", attempts=len(report.attempts)):
            await self.follower.append(draft)
