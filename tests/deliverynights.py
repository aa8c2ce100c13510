"""Simulated nights of on-call: alerts, routes, silences, acknowledgements, receivers that limit, are away or
late, and two monitors of which the leader may die between a message and its record. The clock is a value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from fleet.alerts.alert import Alert, Notify
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import routing
from health_monitor.alerts.alert import Policy, conclude
from health_monitor.receivers import Outcome, Success, Temporary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED
STALL = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
DAGGERS = tuple(f"dagger_{number}" for number in range(8))
RECEIVERS = ("pricing/slack", "pricing/pagerduty")
PACE = SECOND
POLICY = Policy()
BUSY, CALM = 40 * MINUTE, 120 * MINUTE
"""Time in which things happen, and time behind it in which all receivers take messages."""
Incident = tuple[str, int, int]
"""Dagger, condition and ordinal."""


@dataclass
class SimulatedReceiver:
    """A receiver, and what it has been told."""

    trouble: str = ""
    """`limits`, `away`, or `late`: it takes the message, and the answer is lost."""
    open: set[Incident] = field(default_factory=set)
    """Incidents that it shows as open."""
    announced: set[tuple[str, int]] = field(default_factory=set)
    """Dagger and condition of incidents that it was told of, or was tried to be told of: it may have come."""
    forgotten: set[tuple[str, int]] = field(default_factory=set)
    """Those of a message that nobody has recorded: its sender died behind it."""
    accepted: Counter[Any] = field(default_factory=Counter)
    """Count of how often it took each notice."""

    def answer(self) -> tuple[Outcome, bool]:
        """Return the outcome of a call as the monitor sees it, and whether the message came through."""
        match self.trouble:
            case "limits":
                return Temporary("THROTTLED", "it answered 429", 20 * SECOND, throttled=True), False
            case "away":
                return Temporary("NOT_REACHED", "it could not be reached"), False
            case "late":
                return Temporary("TIMEOUT", "it did not answer in 10 s"), True
        return Success(), True


def incident_of(alert: Alert) -> Incident:
    return alert.dagger, alert.condition, alert.incident


class DeliveryNight:
    """One night, of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = NOON
        self.ledger = Ledger()
        self.receivers = {name: SimulatedReceiver() for name in RECEIVERS}
        self.faults: list[str] = []
        """What should not have happened."""
        self.excused: Counter[Any] = Counter()
        """Notices that may come once more: the leader died before their record, or an answer was lost."""
        self.incidents: dict[Incident, list[str]] = defaultdict(list)
        """Who is to be told of each."""
        self._leads()
        self.is_routed = self.random.random() < 0.6
        if self.is_routed:
            self._write(self._draw_routes())

    # ---- The log -------------------------------------------------------------------------------------------

    def _write(self, message: Message) -> None:
        sequence = self.ledger.sequence + 1
        draft = Draft(f"r{sequence}", "/test", "s", self.now, message)
        self.ledger.apply(read_record(sequence, draft.headers(), message.SerializeToString()))

    def _leads(self) -> None:
        """Give the lead to a monitor: another one, or the same anew."""
        self._write(alerts_pb2.MonitorStarted(monitor_id=f"monitor-{self.random.randrange(2)}"))

    def _draw_routes(self) -> alerts_pb2.RoutesChanged:
        tree = alerts_pb2.AlertRoute(receivers=["slack"])
        tree.group_by.names.extend(self.random.choice(([], ["dagger"], ["condition"])))
        tree.group_wait.FromSeconds(self.random.choice((0, 10, 30)))
        tree.group_interval.FromSeconds(self.random.choice((10, 60, 300)))
        tree.repeat_interval.FromSeconds(self.random.choice((0, 3_600)))
        child = tree.routes.add(match=["condition=failed"], receivers=["slack", "pagerduty"])
        child.continues = self.random.random() < 0.3
        return alerts_pb2.RoutesChanged(team="pricing", routes=tree)

    # ---- What happens --------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Let the night pass; return what should not have happened."""
        while self.now < NOON + BUSY:
            self._step(1 + self.random.randrange(5))
            self._happen()
        for receiver in self.receivers.values():
            receiver.trouble = ""
        for silence in list(self.ledger.silences.values()):
            self._write(alerts_pb2.SilenceExpired(silence_id=silence.id, actor="ann"))
        while self.now < NOON + BUSY + CALM:
            self._step(15)
        self._judge_end()
        return self.faults

    def _happen(self) -> None:
        chance = self.random.random()
        if chance < 0.15:
            self._turn_alert()
        elif chance < 0.18:
            self._silence()
        elif chance < 0.21:
            opened = [alert for alert in self.ledger.alerts.values() if alert.firing]
            if opened:
                metas = [self.random.choice(opened).meta()]
                self._write(alerts_pb2.AlertAcknowledged(incidents=metas, actor="ann"))
        elif chance < 0.26:
            name = self.random.choice(RECEIVERS)
            self.receivers[name].trouble = self.random.choice(("", "", "limits", "away", "late"))
        elif chance < 0.27:
            self._leads()

    def _turn_alert(self) -> None:
        """Let an alert fire, or end."""
        before = self.ledger.alert(self.random.choice(DAGGERS), self.random.choice((FAILED, STALL)))
        if before.firing:
            resolved = alerts_pb2.AlertResolved(meta=before.meta(), summary="it is well")
            resolved.meta.epoch = self.ledger.epoch
            self._write(resolved)
            return
        meta = before.meta(incident=before.incident + 1)
        meta.epoch = self.ledger.epoch
        fired = alerts_pb2.AlertFired(
            meta=meta, severity=alerts_pb2.ALERT_SEVERITY_ERROR, team="pricing", receivers=RECEIVERS
        )
        fired.since.FromDatetime(self.now)
        if routes := self.ledger.routes.in_force("pricing"):
            routing.route(fired, routes, own=RECEIVERS, fallback=())
        self._write(fired)
        self.incidents[meta.dagger, meta.condition, meta.incident] = list(fired.receivers)

    def _silence(self) -> None:
        silence = alerts_pb2.AlertSilence(
            id=f"pricing/{self.ledger.sequence:010x}",
            team="pricing",
            matchers=[f"dagger={self.random.choice((*DAGGERS, 'dagger_*'))}"],
            author="ann",
            reason="work",
        )
        silence.begin.FromDatetime(self.now)
        silence.end.FromDatetime(self.now + self.random.randrange(1, 20) * MINUTE)
        self._write(alerts_pb2.SilenceCreated(silence=silence))

    # ---- Delivery ------------------------------------------------------------------------------------------

    def _step(self, seconds: int) -> None:
        self.now += seconds * SECOND
        for name, receiver in self.receivers.items():
            notify = self.ledger.next_notification(name, pace=PACE, now=self.now)
            if notify is not None:
                self._deliver(notify, receiver)

    def _deliver(self, notify: Notify, receiver: SimulatedReceiver) -> None:
        notice = self._name(notify)
        outcome, came = receiver.answer()
        for alert in notify.group.firing if notify.group else (notify.alert,):
            receiver.announced.add((alert.dagger, alert.condition))
        if came:
            self._take(notify, notice, receiver)
        dies = self.random.random() < 0.03 and self.now < NOON + BUSY
        if came and (dies or not isinstance(outcome, Success)):
            self.excused[notice] += 1
        if dies:  # behind its message, and before the record
            group = notify.group
            for alert in (*group.firing, *group.resolved) if group else ():
                receiver.forgotten.add((alert.dagger, alert.condition))
            self._leads()
            return
        event = conclude(notify, outcome, now=self.now, policy=POLICY)
        target: Any = event.notice if notify.group is not None else event.meta  # type: ignore[union-attr]
        target.epoch = self.ledger.epoch
        if not self.ledger.awaits(event, self.now):
            self.faults.append(f"{notice}: its outcome is not the next")
        self._write(event)

    def _name(self, notify: Notify) -> Any:
        """Name what is told: two messages of one name say the same."""
        group = notify.group
        if group is None:
            return notify.receiver, incident_of(notify.alert), self._name_turn(notify)
        return notify.receiver, group.path, tuple(sorted(group.labels.items())), group.begin, group.number

    def _name_turn(self, notify: Notify) -> tuple[int, str]:
        """Name the turn of an alert; of an acknowledgement, which one: several may be told of an incident."""
        given = notify.alert.acknowledgement if notify.is_acknowledgement else None
        return notify.notice, given.time.isoformat() if given else ""

    def _take(self, notify: Notify, notice: Any, receiver: SimulatedReceiver) -> None:
        group = notify.group
        firing = group.firing if group else ((notify.alert,) if notify.alert.firing else ())
        resolved = group.resolved if group else (() if notify.alert.firing else (notify.alert,))
        if notify.is_acknowledgement and incident_of(notify.alert) not in receiver.open:
            self.faults.append(f"{notice}: acknowledged, and its begin was never told")
        receiver.accepted[notice] += 1
        if receiver.accepted[notice] > 1 + self.excused[notice]:
            self.faults.append(f"{notice}: told {receiver.accepted[notice]} times")
        for alert in firing:
            receiver.open.add(incident_of(alert))
        for alert in resolved:
            if group is not None and incident_of(alert)[:2] not in receiver.announced:
                self.faults.append(f"{notice}: {incident_of(alert)} is over, and its begin was never told")
            receiver.open = {name for name in receiver.open if name[:2] != incident_of(alert)[:2]}
        if group is None and self.ledger.find_silence(notify.alert, self.now) is not None:
            self.faults.append(f"{notice}: told while it is silenced")

    def _judge_end(self) -> None:
        newest = {(alert.dagger, alert.condition): alert for alert in self.ledger.alerts.values()}
        for alert in newest.values():
            names = self.incidents[incident_of(alert)]
            for name in names:
                subjects = {each[:2] for each in self.receivers[name].open}
                if incident_of(alert)[:2] in self.receivers[name].forgotten:
                    continue  # decision 273: what a message without a record said is not known
                if alert.firing and incident_of(alert)[:2] not in subjects:
                    self.faults.append(f"{name}: {incident_of(alert)} is open, and it does not know")
                if not alert.firing and incident_of(alert)[:2] in subjects:
                    self.faults.append(f"{name}: {incident_of(alert)} is over, and it does not know")
