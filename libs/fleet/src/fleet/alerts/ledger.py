"""The fold of `daggers.alerts`: the leading monitor, every alert, and the pace of each receiver. Pure.

Facts of an epoch that is not the newest change nothing, so a monitor that was replaced cannot disturb. What
was sent while nobody could write is reported later, by whoever sent it: such a report has no epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from itertools import takewhile
from typing import Final

from daggers.v1 import alerts_pb2, rules_pb2
from google.protobuf.message import Message

from eventlog import LogPosition, Record, extend_history
from fleet.alerts.alert import (
    Acknowledgement,
    Alert,
    Condition,
    Event,
    GroupNotification,
    Notification,
    Notify,
    acknowledge,
    apply_report,
    condition_label,
    evolve,
    give_up_untold,
    keep_shown,
    next_notification,
    note_group_attempt,
    subject,
    unacknowledge,
)
from fleet.alerts.ending_silences import EndAnnouncements, EndingSilence, SilenceNotification
from fleet.alerts.receiver_tests import ReceiverTests
from fleet.alerts.routed_groups import Name, RoutedGroups, name_of
from fleet.alerts.routing.inhibition import CAUSE_CONDITIONS, CAUSES, find_causes
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.silences import (
    LONGEST,
    Silence,
    count_matches,
    expire,
    find_release,
    find_silence,
    parse_silence,
)
from fleet.alerts.team_routes import TeamRoutes

_CAUSE_CONDITIONS: Final = frozenset(
    condition
    for condition in alerts_pb2.AlertCondition.values()
    if condition_label(condition) in CAUSE_CONDITIONS
)
_NOTIFICATIONS: Final = (alerts_pb2.NotificationSent, alerts_pb2.NotificationFailed)
_FAILURES: Final = (
    alerts_pb2.NotificationFailed,
    alerts_pb2.GroupNotificationFailed,
    alerts_pb2.SilenceNotificationFailed,
)
_LONGEST_INTERVAL: Final = timedelta(days=1)
"""From look to look at a group, at most."""


@dataclass(frozen=True, slots=True)
class UnreadableAlertRecord:
    """Record that could not be read: set aside, never fatal."""

    sequence: int
    type: str
    digest: bytes
    """16 bytes of BLAKE2b over its value."""


class Ledger:
    """Fold of the alerts topic, up to `sequence`."""

    def __init__(self) -> None:
        self.sequence: int = -1
        """Sequence of the newest record applied; -1 before the first."""
        self.history: bytes = b""
        """Digest of every record up to it (`eventlog.extend_history`)."""
        self.epoch: int = -1
        """Sequence of the newest claim; -1 before the first."""
        self.leader: str = ""
        """Identity of the monitor that made it."""
        self.monitor_conditions: Mapping[str, rules_pb2.ConditionLimits] = {}
        """By condition: what its settings say; empty of monitors from before they said it."""
        self.alerts: dict[tuple[str, Condition], Alert] = {}
        """By subject (`Alert.subject`) and condition: those that ever fired, the one that changed last at the
        end.
        """
        self.unreadable: list[UnreadableAlertRecord] = []
        """Records that could not be read."""
        self.silences: dict[str, Silence] = {}
        """By id, those of the last 30 days."""
        self.routes = TeamRoutes()
        self.routed = RoutedGroups(self.alerts)
        self.receiver_tests = ReceiverTests()
        self._announcements = EndAnnouncements()
        self._claims: set[str] = set()
        self._open: dict[tuple[str, Condition], None] = {}
        """Alerts that are open, the one that changed last at the end."""
        self._undelivered: dict[str, dict[tuple[str, Condition], None]] = {}
        """By receiver, the alerts that it is told of one by one, and has not taken yet; in the same order."""
        self._attempted: dict[str, datetime] = {}
        self._paused: dict[str, datetime] = {}
        self._open_causes: set[tuple[str, Condition]] = set()
        self._causes: dict[tuple[str, Condition], tuple[str, Condition]] | None = None
        """By open alert, the one that holds it back; None: a cause has changed since they were found."""
        self._released: dict[tuple[str, Condition], datetime] = {}
        """By alert that a cause held back, the time when that was over, of the last day."""

    @property
    def position(self) -> LogPosition:
        """Position up to which the log is folded, and digest of that log."""
        return LogPosition(self.sequence, self.history)

    def alert(self, dagger: str, condition: Condition) -> Alert:
        """Return the alert of a dagger and a condition, whether or not it ever fired."""
        return self.alerts.get((dagger, condition)) or Alert(dagger=dagger, condition=condition)

    def alert_of(self, meta: alerts_pb2.AlertMeta) -> Alert:
        """Return the alert that a fact is about, whether or not it ever fired."""
        return self.alerts.get((subject(meta), meta.condition)) or Alert(
            dagger=meta.dagger, condition=meta.condition, rule=meta.rule, key=dict(meta.key)
        )

    def changed_since(self, sequence: int) -> list[Alert]:
        """List the alerts that changed after this sequence, in the order of their newest changes."""
        newest_first = takewhile(lambda alert: alert.sequence > sequence, reversed(self.alerts.values()))
        return list(newest_first)[::-1]

    def list_open(self) -> list[Alert]:
        """List the open alerts, the one that changed last at the end."""
        return [self.alerts[name] for name in self._open]

    def list_receivers(self, now: datetime) -> list[str]:
        """List the receivers that some alert or group may not be told to yet, each once."""
        waiting = (receiver for receiver, alerts in self._undelivered.items() if alerts)
        announced = (notice.receiver for notice in self._announcements.find_turns(self.find_ending(now), now))
        return list(dict.fromkeys((*waiting, *self.routed.list_receivers(now, self.sequence), *announced)))

    def apply(self, record: Record) -> bool:
        """Fold one record in; tell whether it changed anything. Never raises for any record."""
        if record.sequence <= self.sequence:
            return False
        self.sequence = record.sequence
        self.history = extend_history(self.history, record)
        match record.message:
            case None:
                digest = blake2b(record.value, digest_size=16).digest()
                self.unreadable.append(UnreadableAlertRecord(record.sequence, record.type, digest))
                return False
            case alerts_pb2.MonitorStarted() as claim:
                return self._claim(record, claim)
            case (
                alerts_pb2.AlertFired()
                | alerts_pb2.AlertChanged()
                | alerts_pb2.AlertResolved()
                | alerts_pb2.NotificationSent()
                | alerts_pb2.NotificationFailed()
            ) as event:
                return event.meta.epoch == self.epoch and self._evolve(event, record)
            case alerts_pb2.OutageReported() as report:
                meta = report.fired.meta
                before = self.alert_of(meta)
                return self._put(before, apply_report(before, report), record)
            case alerts_pb2.GroupNotificationSent() | alerts_pb2.GroupNotificationFailed() as event:
                return event.notice.epoch == self.epoch and self._note_group_attempt(event, record)
            case alerts_pb2.SilenceNotificationSent() | alerts_pb2.SilenceNotificationFailed() as event:
                return event.notice.epoch == self.epoch and self._note_silence_attempt(event, record)
            case alerts_pb2.ReceiversTested() as tested:
                return tested.epoch == self.epoch and self.receiver_tests.conclude(tested)
            case message:
                return self._apply_request(message, record)

    def _apply_request(self, message: Message, record: Record) -> bool:
        """Fold in what people ask for: a gateway wrote it, so it is no matter of epochs."""
        match message:
            case alerts_pb2.SilenceCreated() as created:
                return self._add_silence(created, record)
            case alerts_pb2.SilenceExpired() as expired:
                return self._expire_silence(expired, record)
            case alerts_pb2.AlertAcknowledged() as event:
                return self._acknowledge(event, record)
            case alerts_pb2.AcknowledgementEnded() as event:
                return self._unacknowledge(event, record)
            case alerts_pb2.ReceiverTestRequested() as requested:
                return self.receiver_tests.request(requested, record)
            case alerts_pb2.RoutesChanged() as changed:
                return self.routes.change(changed, record)
            case _:
                return False

    def awaits(self, event: Event | GroupNotification | SilenceNotification, time: datetime) -> bool:
        """Tell whether the event is the next of its alert, group or silence, and would change it."""
        if isinstance(event, alerts_pb2.SilenceNotificationSent | alerts_pb2.SilenceNotificationFailed):
            return self._announcements.is_next(event)
        if isinstance(event, alerts_pb2.GroupNotificationSent | alerts_pb2.GroupNotificationFailed):
            return self.routed.is_next(event)
        before = self.alert_of(event.meta)
        return evolve(before, event, time) is not before

    def next_notification(self, receiver: str, *, pace: timedelta, now: datetime) -> Notify | None:
        """Return what the receiver is to be sent next, longest waiting first; None while it must be left
        alone.
        """
        attempted = self._attempted.get(receiver)
        if attempted is not None and now < attempted + pace:
            return None
        if now < self._paused.get(receiver, now):
            return None
        causes = self.find_causes()
        list_active = cache(self._list_active)
        due = (
            next_notification(self.alerts[name], receiver, now=now)
            for name in self._undelivered.get(receiver, ())
            if name not in causes
        )
        alone = (notice for notice in due if notice and not _is_silenced(notice.alert, list_active(now), now))
        grouped = self.routed.find_turns(
            receiver,
            now,
            self.sequence,
            is_held=lambda alert, instant: (
                name_of(alert) in causes
                or instant < self._released.get(name_of(alert), instant)
                or _is_silenced(alert, list_active(instant), instant)
            ),
            is_acknowledged=lambda alert, instant: alert.find_acknowledgement(instant) is not None,
        )
        first = min(
            (*alone, *grouped),
            key=lambda notice: (notice.attempt > 1, notice.alert.noticed_at, notice.alert.dagger),
            default=None,
        )
        if first is None:
            turns = self._announcements.find_turns(self.find_ending(now), now)
            return next((notice for notice in turns if notice.receiver == receiver), None)
        if first.group is not None or not self.silences:
            return first
        released_at = find_release(self.silences.values(), list_labels(first.alert), now)
        return replace(first, released_at=released_at)

    def _list_active(self, instant: datetime) -> list[Silence]:
        """List the silences that hold back anything at an instant."""
        return [silence for silence in self.silences.values() if silence.is_active(instant)]

    def find_causes(self) -> dict[tuple[str, Condition], tuple[str, Condition]]:
        """Return the open alerts that another one holds back, with that one; who outlives it is told."""
        if not self._open_causes:
            return {}
        if self._causes is None:
            labels = {name: list_labels(self.alerts[name]) for name in self._open}
            self._causes = find_causes(labels, CAUSES)
        return self._causes

    def list_held(self, alert: Alert) -> list[Alert]:
        """List the open alerts that this one holds back as their cause."""
        name = name_of(alert)
        if name not in self._open_causes:
            return []
        return [self.alerts[name_] for name_, cause in self.find_causes().items() if cause == name]

    def list_open_causes(self, condition: Condition) -> list[str]:
        """List the subjects of which this condition is open, one that is a cause of others."""
        return [subject for subject, cause in self._open_causes if cause == condition]

    def find_cause(self, alert: Alert) -> Alert | None:
        """Return the open alert that holds this one back as its cause; None where none does."""
        cause = self.find_causes().get(name_of(alert))
        return None if cause is None else self.alerts[cause]

    def find_silence(self, alert: Alert, now: datetime) -> Silence | None:
        """Return the silence that holds an alert back now; None without one."""
        return find_silence(self.silences.values(), list_labels(alert), now)

    def find_ending(self, now: datetime) -> list[EndingSilence]:
        """Return the silences that are about to end, and what each holds back, and no cause does."""

        def list_free() -> list[Alert]:
            causes = self.find_causes()
            return [alert for alert in self.list_open() if name_of(alert) not in causes]

        return self._announcements.find(self.silences, list_free, now, self.sequence)

    def count_matches(self, silence: Silence) -> int:
        """Count the open alerts that a silence matches."""
        return count_matches(silence, map(list_labels, self.list_open()))

    def _claim(self, record: Record, claim: alerts_pb2.MonitorStarted) -> bool:
        if record.id in self._claims:
            return False
        self._claims.add(record.id)
        self.epoch, self.leader = record.sequence, claim.monitor_id
        self.monitor_conditions = claim.conditions
        return True

    def _evolve(self, event: Event, record: Record) -> bool:
        time = record.time
        if isinstance(event, _NOTIFICATIONS):
            self._note_attempt(event.receiver, time, event)
        name = subject(event.meta), event.meta.condition
        before = self.alerts.get(name) or self.alert_of(event.meta)
        after = evolve(before, event, time, record.sequence)
        if after is before:
            return False
        if isinstance(event, alerts_pb2.AlertResolved):
            has_cause = name in self.find_causes()
            if has_cause:
                self._note_released((before,), time)  # at looks before its end it was held back
            is_held = has_cause or _is_silenced(before, self._list_active(time), time)
            after = give_up_untold(after) if is_held or after.is_routed else after
        elif isinstance(event, alerts_pb2.AlertFired) and after.is_routed:
            after = keep_shown(after)
        changed = self._put(before, after, record, name)
        if isinstance(event, alerts_pb2.AlertFired):
            self.routed.join(name, after, time)
        elif isinstance(event, alerts_pb2.AlertResolved):
            self.routed.resolve(name, time)
        return changed

    def _note_group_attempt(self, event: GroupNotification, record: Record) -> bool:
        notice = event.notice
        if not self.routed.is_next(event):
            return False
        self._note_attempt(notice.receiver, record.time, event)
        names = {}
        for is_open, metas in ((True, notice.firing), (False, notice.resolved)):
            names[is_open] = frozenset((subject(meta), meta.condition) for meta in metas)
            for meta in metas:
                before = self.alert_of(meta)
                if before.incident == meta.incident:
                    self._put(before, note_group_attempt(before, event, firing=is_open), record)
        self.routed.note(event, names[True], names[False], notice.time.ToDatetime(tzinfo=UTC))
        return True

    def _note_silence_attempt(self, event: SilenceNotification, record: Record) -> bool:
        if not self._announcements.is_next(event):
            return False
        self._note_attempt(event.notice.receiver, record.time, event)
        self._announcements.note(event)
        return True

    def _note_attempt(
        self, receiver: str, time: datetime, event: Notification | GroupNotification | SilenceNotification
    ) -> None:
        """Note an attempt whatever became of it: all of a receiver have one pace."""
        self._attempted[receiver] = max(time, self._attempted.get(receiver, time))
        if isinstance(event, _FAILURES) and event.throttled:
            self._pause(receiver, event.not_before.ToDatetime(tzinfo=UTC))

    def _pause(self, receiver: str, until: datetime) -> None:
        self._paused[receiver] = max(until, self._paused.get(receiver, until))

    def _add_silence(self, created: alerts_pb2.SilenceCreated, record: Record) -> bool:
        try:
            silence = parse_silence(created.silence)
        except ValueError:
            return False  # what cannot be read holds nothing back: people are told
        if silence.id in self.silences:
            return False
        old = [name for name, older in self.silences.items() if older.end < record.time - LONGEST]
        for name in old:
            del self.silences[name]
        self._announcements.forget(old)
        self.silences[silence.id] = silence
        self._note_change(silence, record)
        return True

    def _expire_silence(self, expired: alerts_pb2.SilenceExpired, record: Record) -> bool:
        before = self.silences.get(expired.silence_id)
        after = None if before is None else expire(before, expired.actor, record.time)
        if after is None or after is before:
            return False
        self.silences[after.id] = after
        self._note_change(after, record)
        return True

    def _acknowledge(self, event: alerts_pb2.AlertAcknowledged, record: Record) -> bool:
        given = _read_acknowledgement(event, record.time)
        if given is None:
            return False
        callback, changed = record.id if event.receiver else "", False
        for meta in event.incidents:
            before = self.alert_of(meta)
            changed |= self._put(before, acknowledge(before, meta.incident, given, callback), record)
        return changed

    def _unacknowledge(self, event: alerts_pb2.AcknowledgementEnded, record: Record) -> bool:
        callback, changed = record.id if event.receiver else "", False
        for meta in event.incidents:
            before = self.alert_of(meta)
            after = unacknowledge(before, meta.incident, event.receiver, callback)
            changed |= self._put(before, after, record)
        return changed

    def _note_change(self, silence: Silence, record: Record) -> None:
        """Note that the open alerts of a silence have changed, for those who watch them."""
        for alert in self.list_open():
            if silence.matches(list_labels(alert)):
                self._keep(alert, record, name_of(alert))

    def _put(self, before: Alert, after: Alert, record: Record, name: Name | None = None) -> bool:
        """Keep an alert that has changed; `name`: where the caller knows it."""
        if after is before:
            return False
        name = name or name_of(after)
        if name in self._open_causes and not after.firing:
            self._note_released(self.list_held(before), record.time)
        self._keep(after, record, name)
        if after.condition in _CAUSE_CONDITIONS:
            (self._open_causes.add if after.firing else self._open_causes.discard)(name)
            self._causes = None
        elif self._causes is not None:
            self._find_cause_anew(name)
        return True

    def _note_released(self, alerts: Iterable[Alert], time: datetime) -> None:
        """Note that the cause of some alerts is over: they are told from the next look of their group on."""
        released = {name_of(alert): time for alert in alerts}
        if released:
            begin = time - _LONGEST_INTERVAL
            others = {name: other for name, other in self._released.items() if other > begin}
            self._released = others | released

    def _keep(self, alert: Alert, record: Record, name: Name) -> None:
        """Put an alert behind all others."""
        before = self.alerts.pop(name, None)
        self._open.pop(name, None)
        for receiver in before.deliveries if before else ():
            self._undelivered.get(receiver, {}).pop(name, None)
        is_stamped = alert.sequence == record.sequence
        self.alerts[name] = alert if is_stamped else alert._replace(sequence=record.sequence)
        if alert.firing:
            self._open[name] = None
        for deliveries in () if alert.is_routed else (alert.deliveries, alert.acknowledgement_deliveries):
            for receiver, delivery in deliveries.items():
                if not delivery.done:
                    self._undelivered.setdefault(receiver, {})[name] = None

    def _find_cause_anew(self, key: tuple[str, Condition]) -> None:
        """Find what holds back an alert that has changed and is no cause itself: that of no other changes."""
        assert self._causes is not None
        self._causes.pop(key, None)
        if self.alerts[key].firing:
            labels = {name: list_labels(self.alerts[name]) for name in (*self._open_causes, key)}
            if (cause := find_causes(labels, CAUSES).get(key)) is not None:
                self._causes[key] = cause


def _is_silenced(alert: Alert, active: Sequence[Silence], now: datetime) -> bool:
    return bool(active) and find_silence(active, list_labels(alert), now) is not None


def _read_acknowledgement(event: alerts_pb2.AlertAcknowledged, time: datetime) -> Acknowledgement | None:
    """Convert the event; None where its end is no instant: what cannot be read stops no reminder."""
    try:
        until = event.until.ToDatetime(tzinfo=UTC) if event.HasField("until") else None
    except (ValueError, OverflowError):
        return None
    return Acknowledgement(
        author=event.actor, time=time, comment=event.comment, until=until, receiver=event.receiver
    )
