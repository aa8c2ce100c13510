"""The log of alerts: read by every monitor, written by the one that leads.

What became of the leader's beats is how it knows whether Kafka takes records at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2

from chassis.logging import logger, note, unit_of_work
from election import Beats, Election, Holder, LeadershipLost, Office
from eventlog import Draft, Log, LogUnavailable
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet.alerts.alert import PLATFORM, Event, dedup_key
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import outage
from health_monitor.alerts.outage import Reach

PATIENCE_S: Final = 10.0
"""How long an appended record may take to come back, in seconds."""


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


class Leadership:
    """One monitor's part in the log of alerts."""

    def __init__(
        self,
        identity: Identity,
        log: Log,
        beats: Beats,
        *,
        patience: timedelta,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool],
    ) -> None:
        """As the monitor's."""
        self.ledger = Ledger()
        self.follower = Follower(log, self.ledger, patience_s=PATIENCE_S, on_step=self._folded)
        self.reach = Reach()
        """What became of its beats."""
        self.draining = False
        """Whether it begins nothing more."""
        self._clock = clock
        self._election = Election(
            office(self.ledger),
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
        """Whether this monitor's claim is the newest, as far as it has read."""
        return self._election.leads

    @property
    def begins(self) -> bool:
        """Whether it may begin anything: who drains only ends what is under way."""
        return self.leads and not self.draining

    @property
    def epoch(self) -> int:
        """Of its newest claim; -1 while it stands by."""
        return self._election.epoch

    # ---- Who leads -----------------------------------------------------------------------------------------

    def caught_up(self) -> None:
        """The log is folded to its end: a leader is heard anew, what it said before we came is not known."""
        self._election.note_claim()

    def heard(self, epoch: int) -> None:
        """The beat of a monitor came."""
        self._election.note_beat(epoch)

    def _folded(self, step: Step[bool]) -> None:
        if step.applied and isinstance(step.record.message, alerts_pb2.MonitorStarted):
            self._election.note_claim()
            if self._election.epoch >= 0 and not self.leads:
                self._election.resign()
                self.reach = Reach()
                logger().warning(
                    "monitor.standby_begun", newer_epoch=self.ledger.epoch, leader=self.ledger.leader
                )

    async def lead(self) -> None:
        """Keep the lead with a beat, or claim it when its holder is silent. Raises: LogUnavailable."""
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

    # ---- What it writes ------------------------------------------------------------------------------------

    async def write(self, event: Event) -> None:
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
            await self.follower.append(draft)

    async def bring_in(self, report: alerts_pb2.OutageReported) -> None:
        """Write what was told without the log, whoever leads by now. Raises: LogUnavailable."""
        draft_id = outage.draft_id(report)
        draft = Draft(draft_id, self._election.source, PLATFORM, self._clock(), report)
        with unit_of_work("outage", attempts=len(report.attempts)):
            await self.follower.append(draft)
