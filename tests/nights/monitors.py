"""Monitors of a night. One is a generator that yields wherever a real one waits for something: there it may
stand still while the other takes the lead, or die.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from datetime import timedelta
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, Protocol

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import PLATFORM, GroupNotification, Notify, Turn
from fleet.alerts.ending_silences import SilenceNotification
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import routing
from health_monitor.alerts.alert import Policy, conclude
from health_monitor.alerts.judge import Judge
from health_monitor.conditions.row_rules import RowRules
from health_monitor.receivers import Outcome

POLICY: Final = Policy()
PACE: Final = timedelta(seconds=2)
WRITTEN_AT_ONCE: Final = 100


class Wait(Enum):
    """Point at which a monitor waits."""

    TURN = auto()
    """All is done: for its next timer."""
    WRITE = auto()
    """For the log, before a turn of an alert is in it."""
    SEND = auto()
    """For a receiver, before it is sent anything."""
    RECORD = auto()
    """For the log, after the receiver has answered."""


class Around(Protocol):
    """The night around a monitor."""

    now: Any
    fleet: Any
    records: list[Any]
    observations: list[Any]

    def append(self, message: Any) -> bool:
        """Write to the log of alerts; tell whether that changed anything."""

    def list_findings(self, open_: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield names and arguments of `Judge.next_turn`, of daggers of which something is wrong, and those
        of `open_`.
        """

    def list_causes(self, open_: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the same of what holds alerts of daggers back."""

    def list_receivers(self, team: str) -> Sequence[str]:
        """List who is sent alerts of a team."""

    def list_own(self, team: str) -> Sequence[str]:
        """List all receivers of a team."""

    def note_decision(self, notify: Notify) -> None:
        """Note that something is to be sent."""

    def send(self, monitor: SimulatedMonitor, notify: Notify) -> Outcome:
        """Send it."""

    def note_unrecorded(self, monitor: SimulatedMonitor, notify: Notify) -> None:
        """Note that a message has no record."""


class SimulatedMonitor:
    """A monitor: what it has folded, and what it does next."""

    def __init__(self, name: str, night: Around) -> None:
        self.name, self._night = name, night
        self.ledger, self._row_rules = Ledger(), RowRules()
        self._judge = Judge(self.ledger, receivers=night.list_receivers, policy=POLICY)
        self._read = self._observed = 0
        self.epoch = -1
        self.unrecorded: Notify | None = None
        """Message that was sent and has no record yet."""
        self.waits = self._run()

    @property
    def leads(self) -> bool:
        """Tell whether it takes itself for the leader."""
        return self.ledger.epoch == self.epoch >= 0

    def catch_up(self) -> None:
        """Fold what the topics have by now."""
        for record in islice(self._night.records, self._read, None):
            self.ledger.apply(record)
        self._read = len(self._night.records)
        for observed in islice(self._night.observations, self._observed, None):
            self._row_rules.add(observed)
        self._observed = len(self._night.observations)
        self._row_rules.note_read()

    def claim(self) -> None:
        """Take the lead."""
        self.catch_up()
        self._night.append(alerts_pb2.MonitorStarted(monitor_id=self.name))
        self.catch_up()
        self.epoch = self.ledger.epoch

    def _run(self) -> Generator[Wait]:
        while True:
            self.catch_up()
            yield from self._judge_rules()
            yield from self._judge_causes(alerts_pb2.AlertFired)
            yield from self._judge_all(self._night.list_findings(self._list_open()), Turn)
            yield from self._judge_causes(alerts_pb2.AlertResolved)
            if self.leads:
                yield from self._deliver()
            yield Wait.TURN

    # ---- Turns ---------------------------------------------------------------------------------------------

    def _judge_rules(self) -> Iterator[Wait]:
        night = self._night
        turns = self._row_rules.turns(
            night.fleet, self.ledger, night.list_receivers, night.now, lambda _: None
        )
        while self.leads and (some := list(islice(turns, WRITTEN_AT_ONCE))):
            for turn in some:
                yield from self._write(turn)

    def _judge_causes(self, kind: type[Turn]) -> Iterator[Wait]:
        yield from self._judge_all(self._night.list_causes(self._list_open()), kind)

    def _list_open(self) -> set[str]:
        """List what a monitor looks at each time; its rounds through all others find what is open."""
        return {*self._judge.open, *(alert.dagger for alert in self.ledger.list_open())}

    def _judge_all(self, findings: Iterator[tuple[str, dict[str, Any]]], kind: Any) -> Iterator[Wait]:
        for name, arguments in findings:
            while True:
                turn = self._judge.next_turn(name, **arguments, now=self._night.now)
                if not self.leads or not isinstance(turn, kind):
                    break
                yield from self._write(turn)

    def _write(self, turn: Turn) -> Iterator[Wait]:
        """Write a turn with the epoch that was this monitor's when it began to."""
        night = self._night
        if isinstance(turn, alerts_pb2.AlertFired):
            own, fallback = night.list_own(turn.team), night.list_receivers("")
            routing.route(turn, self.ledger, own=own, fallback=fallback)
        turn.meta.epoch = self.epoch
        yield Wait.WRITE
        if turn.meta.dagger == PLATFORM and isinstance(turn, alerts_pb2.AlertFired):
            report = alerts_pb2.OutageReported(fired=turn)  # as the journal of an outage of Kafka gives it
            report.time.FromDatetime(night.now)
            night.append(report)
        else:
            night.append(turn)
        self.catch_up()

    # ---- Delivery ------------------------------------------------------------------------------------------

    def _deliver(self) -> Iterator[Wait]:
        night = self._night
        for receiver in self.ledger.list_receivers(night.now):
            self.catch_up()
            notify = self.ledger.next_notification(receiver, pace=PACE, now=night.now)
            if notify is None or not self.leads:
                continue
            night.note_decision(notify)
            yield Wait.SEND
            outcome = night.send(self, notify)
            self.unrecorded = notify
            yield Wait.RECORD
            event = conclude(notify, outcome, now=night.now, policy=POLICY)
            if self.leads and self.ledger.awaits(event, night.now):
                self._target(event).epoch = self.epoch
                if night.append(event):
                    self.unrecorded = None
            if self.unrecorded is not None:
                night.note_unrecorded(self, notify)
                self.unrecorded = None
            self.catch_up()

    @staticmethod
    def _target(event: Any) -> Any:
        return event.notice if isinstance(event, GroupNotification | SilenceNotification) else event.meta
