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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec.alertrules import key_digest
from daggerspec.receivers import acknowledges

if TYPE_CHECKING:
    from fleet.alerts.ending_silences import EndingSilence

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
HOST: Final = "host/"
"""Prefix of a host's name in alerts of the host: no dagger's name has a slash."""
CLUSTER: Final = "cluster/"
"""Prefix of a cluster's name in alerts of its Spark: no dagger's name has a slash."""
STORE: Final = "store/"
"""Prefix of a store, HOST:PORT, in alerts of the store: no dagger's name has a slash."""
WEEK: Final = timedelta(days=7)
MOST_PAST: Final = 100
"""Incidents of an alert that are remembered when they are over."""
PREFIXES: Final = (TEAM, PRINCIPAL, HOST, CLUSTER, STORE)


def remove_prefix(name: str) -> str:
    """Return the name of the team, host … that an alert is of; of a dagger its own."""
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)


Turn: TypeAlias = alerts_pb2.AlertFired | alerts_pb2.AlertChanged | alerts_pb2.AlertResolved
Event: TypeAlias = Turn | Notification
GroupNotification: TypeAlias = alerts_pb2.GroupNotificationSent | alerts_pb2.GroupNotificationFailed

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

# ---- State -------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """From when an incident was open until when."""

    begin: datetime
    end: datetime


class Delivery(NamedTuple):  # as Alert
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
class Acknowledgement:
    """Word of somebody that they look after an incident."""

    author: str
    time: datetime
    comment: str = ""
    until: datetime | None = None
    """The first instant at which it does not count any more; None: as long as the incident lasts."""
    receiver: str = ""
    """Name of the receiver that called back; empty of one that a gateway was asked for."""


class Alert(NamedTuple):  # a frozen dataclass takes five times as long to change; a start changes millions
    """The newest incident of a dagger and a condition."""

    dagger: str
    condition: Condition
    rule: str = ""
    """Name of the rule, of ALERT_CONDITION_RULE; empty of all others."""
    key: Mapping[str, str] = _NOTHING
    """Key that the rule is true of: values by column."""
    incident: int = 0
    """Its ordinal; 0 before the first."""
    fired: alerts_pb2.AlertFired | None = None
    fired_at: datetime | None = None
    changes: int = 0
    """Count of the changes of what it says since it fired; `fired` has the newest summary."""
    changed_at: datetime | None = None
    """Time of the newest of them; None before the first."""
    resolved: alerts_pb2.AlertResolved | None = None
    """None while it is open."""
    resolved_at: datetime | None = None
    deliveries: Mapping[str, Delivery] = _NOTHING
    """By receiver: the newest notice's."""
    acknowledgement: Acknowledgement | None = None
    """The newest, whether or not it still counts."""
    acknowledgement_deliveries: Mapping[str, Delivery] = _NOTHING
    """By receiver that takes acknowledgements: the newest one's."""
    callbacks: frozenset[str] = frozenset()
    """Ids of the callbacks of receivers that changed who looks after the incident."""
    past: tuple[Span, ...] = ()
    """Incidents of the week before the newest end, the oldest first, MOST_PAST at most."""
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
    def id(self) -> str:
        """Name of the incident in notifications and commands, ten hexadecimal digits."""
        return blake2b(f"{dedup_key_of(self.meta())}/{self.incident}".encode(), digest_size=5).hexdigest()

    def list_week(self, now: datetime) -> list[Span]:
        """List the incidents of the last seven days, open ones up to now, each from the begin of the week
        on.
        """
        spans = [*self.past]
        if self.firing and self.fired is not None:
            spans.append(Span(self.fired.since.ToDatetime(tzinfo=UTC), now))
        return [Span(max(span.begin, now - WEEK), span.end) for span in spans if span.end > now - WEEK]

    def find_acknowledgement(self, now: datetime) -> Acknowledgement | None:
        """Return who looks after the incident now, or did when it was over; None where nobody does."""
        given, instant = self.acknowledgement, self.resolved_at or now
        return None if given is None or (given.until is not None and given.until <= instant) else given

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

    def may_tell(self, receiver: str) -> bool:
        """Tell whether the receiver is one of those that are told of the incident, now or by escalation."""
        if receiver in self.deliveries:
            return True
        destinations = self.fired.destinations if self.fired else ()
        return any(receiver in destination.escalate_to for destination in destinations)

    @property
    def is_routed(self) -> bool:
        """True if routes of its team lead it, so that it is told with the groups that it is in."""
        return self.fired is not None and bool(self.fired.destinations)

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


def dedup_key_of_group(team: str, revision: int, path: tuple[int, ...], labels: Mapping[str, str]) -> str:
    """Return that key for a group of alerts: its route, and the labels that they have in common."""
    place = f"{revision}/{path}/{sorted(labels.items())}"
    digest = blake2b(place.encode(), digest_size=8).hexdigest()
    return f"daggers/{TEAM}{team}/group/{digest}"


# ---- Evolve: an event -> the alert after it ----------------------------------------------------------------


def evolve(alert: Alert, event: Event, time: datetime, sequence: int = -1) -> Alert:
    """Fold one event in, with the sequence of its record. One that is not the next changes nothing."""
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
                past=alert.past,
                sequence=sequence,
                deliveries={name: _begin_delivery(alert, name) for name in event.receivers},
            )
        case alerts_pb2.AlertChanged():
            return _change(alert, event, time, sequence)
        case alerts_pb2.AlertResolved():
            if not alert.firing or incident != alert.incident:
                return alert
            untold = {name: _begin_delivery(alert, name) for name in alert.deliveries}
            return alert._replace(
                resolved=event,
                resolved_at=time,
                deliveries=untold,
                acknowledgement_deliveries={},
                past=_add_past(alert, event, time),
                sequence=sequence,
            )
        case alerts_pb2.NotificationSent() | alerts_pb2.NotificationFailed():
            return _record_attempt(alert, event, sequence)


def _change(alert: Alert, event: alerts_pb2.AlertChanged, time: datetime, sequence: int) -> Alert:
    """Replace what an open incident says. No delivery begins: who was told of it is not told again."""
    is_next = event.meta.incident == alert.incident and event.change == alert.changes + 1
    if alert.fired is None or not alert.firing or not is_next:
        return alert
    fired = alerts_pb2.AlertFired()
    fired.CopyFrom(alert.fired)
    fired.summary = event.summary
    return alert._replace(fired=fired, changes=event.change, changed_at=time, sequence=sequence)


def _add_past(alert: Alert, resolved: alerts_pb2.AlertResolved, time: datetime) -> tuple[Span, ...]:
    """Add an incident that is over to those of the week before."""
    assert alert.fired is not None
    end = resolved.until.ToDatetime(tzinfo=UTC) if resolved.HasField("until") else time
    own = Span(alert.fired.since.ToDatetime(tzinfo=UTC), end)
    return (*(span for span in alert.past if span.end > time - WEEK), own)[-MOST_PAST:]


def apply_report(alert: Alert, report: alerts_pb2.OutageReported) -> Alert:
    """Fold a report's notices and attempts in. One that was folded, or is not the next, changes nothing."""
    alert = evolve(alert, report.fired, report.time.ToDatetime(tzinfo=UTC))
    for attempt in report.attempts:
        outcome = attempt.sent if attempt.HasField("sent") else attempt.failed
        alert = evolve(alert, outcome, attempt.time.ToDatetime(tzinfo=UTC))
    return alert


def acknowledge(alert: Alert, incident: int, given: Acknowledgement, callback: str = "") -> Alert:
    """Note who looks after an open incident. The same word again changes nothing, nor does one about an
    incident that is not open.

    callback: id of the callback by which a receiver says it, which need not be told; empty without one.
    """
    if not alert.firing or incident != alert.incident or callback in alert.callbacks:
        return alert
    before = alert.acknowledgement
    if before is not None and replace(before, time=given.time) == given:
        return alert
    others = () if alert.is_routed else (name for name in alert.deliveries if name != given.receiver)
    return alert._replace(
        acknowledgement=given,
        acknowledgement_deliveries=dict.fromkeys(filter(acknowledges, others), Delivery()),
        callbacks=_add_callback(alert, callback),
    )


def unacknowledge(alert: Alert, incident: int, receiver: str = "", callback: str = "") -> Alert:
    """Note that nobody looks after an open incident any more.

    receiver: what was acknowledged elsewhere stays; empty: whatever there is ends. callback: as above.
    """
    before = alert.acknowledgement
    is_current = alert.firing and incident == alert.incident and callback not in alert.callbacks
    if before is None or not is_current or (receiver and before.receiver != receiver):
        return alert
    callbacks = _add_callback(alert, callback)
    return alert._replace(acknowledgement=None, acknowledgement_deliveries={}, callbacks=callbacks)


def _add_callback(alert: Alert, callback: str) -> frozenset[str]:
    return alert.callbacks | {callback} if callback else alert.callbacks


def keep_shown(alert: Alert) -> Alert:
    """Take a routed alert that fires anew for told where it is shown as open still: groups tell no more."""
    deliveries = {
        name: delivery._replace(done=delivery.shows_open, attempts=int(delivery.shows_open))
        for name, delivery in alert.deliveries.items()
    }
    return alert._replace(deliveries=deliveries)


def note_group_attempt(alert: Alert, event: GroupNotification, *, firing: bool) -> Alert:
    """Note what became of a group's notice that had this incident, as one that fires or one that is over."""
    notice, before = event.notice, alert.deliveries.get(event.notice.receiver, Delivery())
    if isinstance(event, alerts_pb2.GroupNotificationSent):
        # Over meanwhile: the end is still to be told.
        after = Delivery(notice.attempt, done=alert.firing == firing, shows_open=firing)
    else:
        again = event.HasField("not_before")
        failure = alerts_pb2.NotificationFailed(
            reason=event.reason, detail=event.detail, not_before=event.not_before if again else None
        )
        not_before = event.not_before.ToDatetime(tzinfo=UTC) if again else None
        shows_open = firing or before.shows_open
        after = Delivery(notice.attempt, not_before, done=not again, failure=failure, shows_open=shows_open)
    return alert._replace(deliveries={**alert.deliveries, notice.receiver: after})


def give_up_untold(alert: Alert) -> Alert:
    """Tell nobody of an end who was not told of a begin: the alert was held back until it was over."""
    deliveries = {
        name: delivery._replace(done=not delivery.shows_open) for name, delivery in alert.deliveries.items()
    }
    return alert._replace(deliveries=deliveries)


def _begin_delivery(alert: Alert, receiver: str) -> Delivery:
    """Return the delivery of the next notice, of which nothing was sent yet."""
    before = alert.deliveries.get(receiver)
    return Delivery(shows_open=before is not None and before.shows_open)


def _record_attempt(alert: Alert, event: Notification, sequence: int) -> Alert:
    is_acknowledgement = event.notice == alerts_pb2.ALERT_NOTICE_ACKNOWLEDGED
    deliveries = alert.acknowledgement_deliveries if is_acknowledgement else alert.deliveries
    delivery = deliveries.get(event.receiver)
    current = event.meta.incident == alert.incident and (is_acknowledgement or event.notice == alert.notice)
    if delivery is None or not current or delivery.done or event.attempt != delivery.attempts + 1:
        return alert
    failure = event if isinstance(event, alerts_pb2.NotificationFailed) else None
    again = failure is not None and failure.HasField("not_before")
    not_before = failure.not_before.ToDatetime(tzinfo=UTC) if failure is not None and again else None
    # An attempt that failed may have arrived all the same.
    shows_open = alert.firing or (failure is not None and delivery.shows_open)
    after = Delivery(event.attempt, not_before, done=not again, failure=failure, shows_open=shows_open)
    noted = {**deliveries, event.receiver: after}
    if is_acknowledgement:
        return alert._replace(acknowledgement_deliveries=noted, sequence=sequence)
    return alert._replace(deliveries=noted, sequence=sequence)


# ---- Next notification -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTurn:
    """Notice of a group of incidents to one receiver."""

    team: str
    revision: int
    """Revision of the team's routes."""
    path: tuple[int, ...]
    """Place of the route in their tree."""
    labels: Mapping[str, str]
    """Labels that the incidents have in common."""
    begin: datetime
    """Time of the group's first incident."""
    number: int
    """Number of the notice among those of the receiver, from 1."""
    time: datetime
    """Instant of which it speaks."""
    first_attempt: datetime
    """Time of the first attempt at it."""
    firing: tuple[Alert, ...]
    """Incidents that are open, the gravest and oldest first."""
    resolved: tuple[Alert, ...]
    """Incidents that are over, in the same order."""
    acknowledged: bool = False
    """True if somebody looks after all that fire, and the receiver takes acknowledgements."""

    @property
    def dedup_key(self) -> str:
        """Key that receivers fold repeats by: of the group, at most 255 characters."""
        return dedup_key_of_group(self.team, self.revision, self.path, self.labels)

    def build_message(self, receiver: str, attempt: int) -> alerts_pb2.GroupNotice:
        """Build the message of an attempt. It has no epoch."""
        notice = alerts_pb2.GroupNotice(
            team=self.team,
            revision=self.revision,
            path=self.path,
            labels=self.labels,
            receiver=receiver,
            number=self.number,
            attempt=attempt,
            acknowledged=self.acknowledged,
            firing=[alert.meta() for alert in self.firing],
            resolved=[alert.meta() for alert in self.resolved],
        )
        notice.begin.FromDatetime(self.begin)
        notice.time.FromDatetime(self.time)
        return notice


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell a receiver the newest notice of an alert, or of a group of alerts."""

    alert: Alert
    """The alert; of a group the first that fires, or that is over where none does."""
    receiver: str
    attempt: int
    """From 1."""
    released_at: datetime | None = None
    """End of the newest silence that held the alert back; None where none did."""
    group: GroupTurn | None = None
    """The group; None of an alert that is told by itself."""
    is_acknowledgement: bool = False
    """True if the receiver, which was told of the alert, is told that somebody looks after it."""
    is_test: bool = False
    """True if nothing is wrong: somebody wants to know whether the receiver takes it."""
    ending: EndingSilence | None = None
    """Silence whose end is announced; `alert` is one that it holds back. None of all else."""

    @property
    def notice(self) -> Notice:
        """Turn of the alert that is told."""
        return alerts_pb2.ALERT_NOTICE_ACKNOWLEDGED if self.is_acknowledgement else self.alert.notice


def next_notification(alert: Alert, receiver: str, *, now: datetime) -> Notify | None:
    """Return what the receiver is to be sent now; None when it has been, is not to be, or must be
    waited for.
    """
    delivery = alert.deliveries.get(receiver)
    if delivery is None or alert.is_routed:  # `ledger` has the groups of those that are routed
        return None
    is_acknowledgement = delivery.done and delivery.shows_open
    if is_acknowledgement:
        delivery = alert.acknowledgement_deliveries.get(receiver, delivery)
    if delivery.done or (delivery.not_before is not None and now < delivery.not_before):
        return None
    return Notify(alert, receiver, delivery.attempts + 1, is_acknowledgement=is_acknowledgement)
