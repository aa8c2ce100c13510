"""One alert: the incidents of one dagger and condition, of a rule also of its key, and what was sent. Pure.

    state              Alert: the newest incident, and what each receiver has taken of it
    evolve             any event of the alert -> the alert after it
    next_notification  the next notification of a receiver -> Notify

Every event names its incident and attempt by number, and the fold takes only the next one: any record
applied twice is applied once. Only the newest notice is sent: one that was never delivered is replaced by the
next, which says all of it. The health monitor decides when an alert fires, `routing` what else holds it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec.alertrules import key_digest

Condition: TypeAlias = "alerts_pb2.AlertCondition.ValueType"
Severity: TypeAlias = "alerts_pb2.AlertSeverity.ValueType"
Notice: TypeAlias = "alerts_pb2.AlertNotice.ValueType"
Notification: TypeAlias = alerts_pb2.NotificationSent | alerts_pb2.NotificationFailed
PLATFORM: Final = "platform"
"""Name in place of the dagger's in alerts of the platform itself."""
TEAM: Final = "team/"
"""Prefix of a team's name in alerts of the team: no dagger's name has a slash."""
PRINCIPAL: Final = "principal/"
"""Prefix of a principal in alerts about who calls: no dagger's name has a slash."""
Event: TypeAlias = alerts_pb2.AlertFired | alerts_pb2.AlertResolved | Notification

# ---- State -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivery:
    """Progress of delivering the newest notice to one receiver."""

    attempts: int = 0
    not_before: datetime | None = None
    """The next attempt may be made from then on."""
    done: bool = False
    """Taken, or given up."""
    failure: alerts_pb2.NotificationFailed | None = None
    """Failure of the newest attempt; None when it was taken, and before the first."""
    shows_open: bool = False
    """The receiver may take an incident for open: it was sent a begin, and has taken no end since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """The newest incident of a dagger and a condition."""

    dagger: str
    condition: Condition
    rule: str = ""
    """Name of the rule, of ALERT_CONDITION_RULE; empty of all others."""
    key: Mapping[str, str] = field(default_factory=dict)
    """Key that the rule is true of: values by column."""
    incident: int = 0
    """Its ordinal; 0 before the first."""
    fired: alerts_pb2.AlertFired | None = None
    fired_at: datetime | None = None
    resolved: alerts_pb2.AlertResolved | None = None
    """None while it is open."""
    resolved_at: datetime | None = None
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """By receiver: the newest notice's."""
    sequence: int = -1
    """Of the newest record that changed it."""

    @property
    def subject(self) -> str:
        """Subject: the dagger, or a rule and key of it."""
        return _subject(self.dagger, self.rule, self.key)

    def meta(self, *, incident: int | None = None) -> alerts_pb2.AlertMeta:
        """Build the meta of a fact about an incident: the newest one, if none is given. It has no epoch."""
        return alerts_pb2.AlertMeta(
            dagger=self.dagger,
            condition=self.condition,
            incident=self.incident if incident is None else incident,
            rule=self.rule,
            key=self.key,
        )

    @property
    def firing(self) -> bool:
        """True when an incident is open."""
        return self.fired is not None and self.resolved is None

    @property
    def notice(self) -> Notice:
        """The newest turn of the incident."""
        if self.fired is None:
            return alerts_pb2.ALERT_NOTICE_UNSPECIFIED
        return alerts_pb2.ALERT_NOTICE_FIRED if self.firing else alerts_pb2.ALERT_NOTICE_RESOLVED

    @property
    def until(self) -> datetime | None:
        """Time since when it has been over, as far as is known; None while it is not."""
        if self.resolved is not None and self.resolved.HasField("until"):
            return self.resolved.until.ToDatetime(tzinfo=UTC)
        return self.resolved_at

    @property
    def lasted(self) -> timedelta:
        """From when the condition first held until it was over; 0 while it is not."""
        if self.fired is None or self.until is None:
            return timedelta()
        return max(self.until - self.fired.since.ToDatetime(tzinfo=UTC), timedelta())

    @property
    def noticed_at(self) -> datetime | None:
        """Time of that turn."""
        return self.resolved_at or self.fired_at


def condition_name(condition: Condition) -> str:
    """Return a condition in words, as receivers, the command and the runbook have it: `no progress`."""
    name = alerts_pb2.AlertCondition.Name(condition).removeprefix("ALERT_CONDITION_")
    return name.lower().replace("_", " ")


def condition_label(condition: Condition) -> str:
    """Return a condition as a value of a label, and in keys: `no_progress`; of every rule on rows `rule`."""
    return condition_name(condition).replace(" ", "_")


def severity_name(severity: Severity) -> str:
    """Return a severity in a word: critical, error, warning."""
    return alerts_pb2.AlertSeverity.Name(severity).removeprefix("ALERT_SEVERITY_").lower()


def domain_name(domain: events_pb2.ErrorDomain.ValueType) -> str:
    """Return who has to act: USER, EXTERNAL, INTERNAL; empty where nobody knows."""
    return events_pb2.ErrorDomain.Name(domain).removeprefix("ERROR_DOMAIN_") if domain else ""


def subject(meta: alerts_pb2.AlertMeta) -> str:
    """Return what a fact is of: the dagger; of a rule `DAGGER rule/NAME/KEY`, with a digest of the key. No
    name of a dagger has a space.
    """
    return _subject(meta.dagger, meta.rule, meta.key)


def _subject(dagger: str, rule: str, key: Mapping[str, str]) -> str:
    return f"{dagger} rule/{rule}/{key_digest(key)}" if rule else dagger


def dedup_key(dagger: str, condition: Condition) -> str:
    """Return the key that receivers fold repeats by. At most 255 characters, for PagerDuty."""
    return f"daggers/{dagger}/{condition_label(condition)}"[:255]


def dedup_key_of(meta: alerts_pb2.AlertMeta) -> str:
    """Return that key for any alert: of a rule, rule and key are part of it."""
    if not meta.rule:
        return dedup_key(meta.dagger, meta.condition)
    digest = key_digest(meta.key)
    return f"daggers/{meta.dagger}/rule/{meta.rule}{f'/{digest}' if digest else ''}"


# ---- Evolve: an event -> the alert after it ----------------------------------------------------------------


def evolve(alert: Alert, event: Event, time: datetime) -> Alert:
    """Fold one event in. One that is not the next changes nothing."""
    incident = event.meta.incident
    match event:
        case alerts_pb2.AlertFired():
            if alert.firing or incident != alert.incident + 1:
                return alert
            return Alert(
                dagger=alert.dagger,
                condition=alert.condition,
                rule=alert.rule,
                key=alert.key,
                incident=incident,
                fired=event,
                fired_at=time,
                deliveries={name: _begin_delivery(alert, name) for name in event.receivers},
            )
        case alerts_pb2.AlertResolved():
            if not alert.firing or incident != alert.incident:
                return alert
            untold = {name: _begin_delivery(alert, name) for name in alert.deliveries}
            return replace(alert, resolved=event, resolved_at=time, deliveries=untold)
        case alerts_pb2.NotificationSent() | alerts_pb2.NotificationFailed():
            return _record_attempt(alert, event)


def apply_report(alert: Alert, report: alerts_pb2.OutageReported) -> Alert:
    """Fold a report's notices and attempts in. One that was folded, or is not the next, changes nothing."""
    alert = evolve(alert, report.fired, report.time.ToDatetime(tzinfo=UTC))
    for attempt in report.attempts:
        outcome = attempt.sent if attempt.HasField("sent") else attempt.failed
        alert = evolve(alert, outcome, attempt.time.ToDatetime(tzinfo=UTC))
    return alert


def give_up_untold(alert: Alert) -> Alert:
    """Tell nobody of an end who was not told of a begin: the alert was held back until it was over."""
    deliveries = {
        name: replace(delivery, done=not delivery.shows_open) for name, delivery in alert.deliveries.items()
    }
    return replace(alert, deliveries=deliveries)


def _begin_delivery(alert: Alert, receiver: str) -> Delivery:
    """Return the delivery of the next notice, of which nothing was sent yet."""
    before = alert.deliveries.get(receiver)
    return Delivery(shows_open=before is not None and before.shows_open)


def _record_attempt(alert: Alert, event: Notification) -> Alert:
    delivery = alert.deliveries.get(event.receiver)
    current = event.meta.incident == alert.incident and event.notice == alert.notice
    if delivery is None or not current or delivery.done or event.attempt != delivery.attempts + 1:
        return alert
    failure = event if isinstance(event, alerts_pb2.NotificationFailed) else None
    again = failure is not None and failure.HasField("not_before")
    not_before = failure.not_before.ToDatetime(tzinfo=UTC) if failure is not None and again else None
    # An attempt that failed may have arrived all the same.
    shows_open = alert.firing or (failure is not None and delivery.shows_open)
    after = Delivery(event.attempt, not_before, done=not again, failure=failure, shows_open=shows_open)
    return replace(alert, deliveries={**alert.deliveries, event.receiver: after})


# ---- Next notification -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell a receiver the newest notice of an alert."""

    alert: Alert
    receiver: str
    attempt: int
    """From 1."""
    released_at: datetime | None = None
    """End of the newest silence that held the alert back; None where none did."""


def next_notification(alert: Alert, receiver: str, *, now: datetime) -> Notify | None:
    """Return what the receiver is to be sent now; None when it has been, is not to be, or must be
    waited for.
    """
    delivery = alert.deliveries.get(receiver)
    if delivery is None or delivery.done or (delivery.not_before is not None and now < delivery.not_before):
        return None
    return Notify(alert, receiver, delivery.attempts + 1)
