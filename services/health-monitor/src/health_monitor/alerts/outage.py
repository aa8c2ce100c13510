"""Kafka is away: how the monitor knows, and what it did about it while its log could not be written. Pure.

    Reach      what became of the monitor's own writes
    kafka_away what that tells -> Finding
    Outage     the incident that is told without the log: decided, kept, told, kept again

The order is the log's: decide, append, act, append what came of it. Only the place is another one. What is
kept is one message, `OutageReported`, which the log gets as it is when it takes records again (ADR 47).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from daggers.v1 import alerts_pb2

from chassis.durations import spoken
from fleet.alerts.alert import PLATFORM, Alert, Notification, Notify, dedup_key, next_notification, reported
from health_monitor.conditions.finding import Finding, seconds

CONDITION: Final = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY
_FAILURES: Final = 2


class Journal(Protocol):
    """Where an outage is kept until the log has it."""

    def load(self) -> alerts_pb2.OutageReported | None:
        """What is kept; None when nothing is."""

    def save(self, report: alerts_pb2.OutageReported | None) -> None:
        """Keep it in place of what was kept; None: nothing any more. Raises: OSError."""


# ---- How the monitor knows ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """What became of the leader's beats, which are written every few seconds."""

    wrote: datetime | None = None
    """When Kafka took one last."""
    missing: datetime | None = None
    """When the first was tried that it did not take; None while it takes them."""
    failures: int = 0
    """How many it has not taken since."""

    def writes(self, now: datetime) -> Reach:
        """Kafka took one."""
        return Reach(wrote=now)

    def misses(self, tried: datetime) -> Reach:
        """It did not take one that was first tried then."""
        return Reach(self.wrote, self.missing or tried, self.failures + 1)

    @property
    def away(self) -> bool:
        """Whether it does not take them. One alone proves nothing: the process may have been suspended."""
        return self.failures >= _FAILURES


def kafka_away(reach: Reach, *, now: datetime, limit: timedelta) -> Finding | None:
    """Whether Kafka has taken nothing of this monitor for too long."""
    if reach.missing is None:
        return None if reach.wrote is None else Finding(False, "Kafka takes records again", reach.wrote)
    lasted = now - reach.missing
    if not reach.away or lasted < limit:
        return None
    what = (
        f"Kafka has taken no record of the health monitor for {spoken(lasted)}: no dagger can be judged, and"
        " those that need the same Kafka stand still"
    )
    return Finding(True, what, reach.missing, measure=seconds(lasted, limit))


# ---- What was done about it --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outage:
    """An incident that the log does not hold yet."""

    report: alerts_pb2.OutageReported
    """All that happened in it. Not to be changed."""
    known: Alert
    """The alert as the log had it."""

    @property
    def alert(self) -> Alert:
        """The alert as it is."""
        return reported(self.known, self.report)

    def told(self, outcome: Notification, now: datetime) -> Outage:
        """The outage after an attempt to tell somebody."""
        report = alerts_pb2.OutageReported()
        report.CopyFrom(self.report)
        attempt = report.attempts.add()
        attempt.time.FromDatetime(now)
        if isinstance(outcome, alerts_pb2.NotificationSent):
            attempt.sent.CopyFrom(outcome)
        else:
            attempt.failed.CopyFrom(outcome)
        return Outage(report, self.known)

    def next_notification(self, receiver: str, *, pace: timedelta, now: datetime) -> Notify | None:
        """What the receiver is to be told next; None when it was told, or must be left alone."""
        newest = [
            attempt.time.ToDatetime(tzinfo=UTC)
            for attempt in self.report.attempts
            if receiver in (attempt.sent.receiver, attempt.failed.receiver)
        ]
        if newest and now < newest[-1] + pace:
            return None
        return next_notification(self.alert, receiver, now=now)


def begun(fired: alerts_pb2.AlertFired, known: Alert, now: datetime) -> Outage:
    """The outage of an incident that fires now."""
    report = alerts_pb2.OutageReported(fired=fired)
    report.time.FromDatetime(now)
    return Outage(report, known)


def draft_id(report: alerts_pb2.OutageReported) -> str:
    """ce_id of the record that a report becomes: the same as long as it says the same."""
    meta = report.fired.meta
    return (
        f"{meta.epoch}/{dedup_key(PLATFORM, CONDITION)}/{meta.incident}/OutageReported/{len(report.attempts)}"
    )
