"""Outages of Kafka: how the monitor detects one, and alerts about it while it cannot write its log. Pure.

    Reach      outcomes of the leader's own writes
    kafka_away Reach -> Finding
    Outage     the incident that is alerted without the log: decide, journal, notify, journal the outcome

The order is that of the log: decide, append, act, append the outcome. Only the place is another one. The
journal has one message, `OutageReported`, which the log gets unchanged when it takes records again (ADR 47).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from daggers.v1 import alerts_pb2

from chassis.durations import format_span
from fleet.alerts.alert import (
    PLATFORM,
    Alert,
    Notification,
    Notify,
    apply_report,
    dedup_key,
    next_notification,
)
from fleet.conditions.finding import Finding, seconds
from health_monitor.conditions.kafka_away import CONDITION

_FAILURES: Final = 2


class Journal(Protocol):
    """Storage of an outage until the log has it."""

    def load(self) -> alerts_pb2.OutageReported | None:
        """Read the report; None when there is none. Raises: OSError."""

    def save(self, report: alerts_pb2.OutageReported | None) -> None:
        """Replace the report; None: remove it. Raises: OSError."""


# ---- Detection ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """Outcomes of the leader's beats, which are written every few seconds."""

    wrote: datetime | None = None
    """Time of the last beat that Kafka acknowledged."""
    missing: datetime | None = None
    """Time of the first attempt that failed since; None while none has."""
    failures: int = 0
    """Beats that have failed since."""

    def writes(self, now: datetime) -> Reach:
        """Note that Kafka acknowledged a beat."""
        return Reach(wrote=now)

    def misses(self, tried: datetime) -> Reach:
        """Note that a beat failed; `tried`: its first attempt."""
        return Reach(self.wrote, self.missing or tried, self.failures + 1)

    @property
    def away(self) -> bool:
        """True if Kafka takes no beats. One failure is no proof: the process may have been suspended."""
        return self.failures >= _FAILURES


def kafka_away(
    reach: Reach, *, now: datetime, limit: timedelta, count_daggers: Callable[[], int]
) -> Finding | None:
    """Judge whether Kafka has acknowledged nothing of this monitor for too long; None without evidence.

    `count_daggers`: counts those that are to run, none of which can be judged while it is away.
    """
    if reach.missing is None:
        return None if reach.wrote is None else Finding(False, "Kafka takes records again", reach.wrote)
    lasted = now - reach.missing
    if not reach.away or lasted < limit:
        return None
    daggers = count_daggers()
    summary = (
        f"Kafka has taken no record of the health monitor for {format_span(lasted)}: nothing is known of"
        f" {daggers:,} {'dagger' if daggers == 1 else 'daggers'} that should run, and those that need the"
        " same Kafka stand still"
    )
    return Finding(True, summary, reach.missing, measure=seconds(lasted, limit))


# ---- The incident ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outage:
    """Incident that the log does not hold yet."""

    report: alerts_pb2.OutageReported
    """Event that the log will get: the incident and all attempts to notify. Never changed in place."""
    logged_alert: Alert
    """The alert according to the log, before this incident."""

    @property
    def alert(self) -> Alert:
        """The alert with this incident folded in."""
        return apply_report(self.logged_alert, self.report)

    def with_attempt(self, outcome: Notification, now: datetime) -> Outage:
        """Add the outcome of an attempt to notify a receiver."""
        report = alerts_pb2.OutageReported()
        report.CopyFrom(self.report)
        attempt = report.attempts.add()
        attempt.time.FromDatetime(now)
        if isinstance(outcome, alerts_pb2.NotificationSent):
            attempt.sent.CopyFrom(outcome)
        else:
            attempt.failed.CopyFrom(outcome)
        return Outage(report, self.logged_alert)

    def next_notification(self, receiver: str, *, pace: timedelta, now: datetime) -> Notify | None:
        """Return the receiver's next notification; None when it has it, or its pace does not allow it yet."""
        newest = [
            attempt.time.ToDatetime(tzinfo=UTC)
            for attempt in self.report.attempts
            if receiver in (attempt.sent.receiver, attempt.failed.receiver)
        ]
        if newest and now < newest[-1] + pace:
            return None
        return next_notification(self.alert, receiver, now=now)


def begin_outage(fired: alerts_pb2.AlertFired, logged_alert: Alert, now: datetime) -> Outage:
    """Build the outage of an incident that fires now."""
    report = alerts_pb2.OutageReported(fired=fired)
    report.time.FromDatetime(now)
    return Outage(report, logged_alert)


def draft_id(report: alerts_pb2.OutageReported) -> str:
    """Build the ce_id of the report's record, equal for equal reports, so that a repeat changes nothing."""
    meta = report.fired.meta
    return (
        f"{meta.epoch}/{dedup_key(PLATFORM, CONDITION)}/{meta.incident}/OutageReported/{len(report.attempts)}"
    )
