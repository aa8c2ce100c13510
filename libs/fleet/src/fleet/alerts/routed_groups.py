"""Groups of the alerts that routes of teams lead, folded from `daggers.alerts`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import alerts_pb2

from daggerspec.receivers import acknowledges
from fleet.alerts.alert import (
    Alert,
    Condition,
    GroupNotification,
    GroupTurn,
    Notify,
    dedup_key_of_group,
)
from fleet.alerts.routing import grouping
from fleet.alerts.routing.grouping import GroupKey, Groups, IncidentGroup, Notice
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.trees import parse_destination

Name: TypeAlias = tuple[str, Condition]
"""Subject and condition of an alert, as the ledger has them."""
Judge: TypeAlias = Callable[[Alert, datetime], bool]
_FORGET_AFTER: Final = timedelta(days=1)
_FORGET_EVERY: Final = timedelta(hours=1)


class RoutedGroups:
    """Groups by key, and what their receivers are to be told."""

    def __init__(self, alerts: Mapping[Name, Alert]) -> None:
        """`alerts`: every alert, as they are folded."""
        self.groups: Groups = {}
        self._alerts = alerts
        self._open: dict[Name, set[GroupKey]] = {}
        """Groups that alerts have joined since they fired."""
        self._ended: dict[Name, set[GroupKey]] = {}
        """Groups in which alerts were when they were over the last time."""
        self._forgotten_at = datetime.min.replace(tzinfo=UTC)
        self._quiet: dict[tuple[GroupKey, str], tuple[datetime, int]] = {}
        """Look and sequence at which a receiver of a group was to be told nothing."""

    # ---- Fold ----------------------------------------------------------------------------------------------

    def join(self, name: Name, alert: Alert, time: datetime) -> None:
        """Put an alert that has fired into the groups that it belongs to. It is open again in others that
        have not told yet that it was over: these tell its end, too, and no end of what is open.
        """
        destinations = alert.fired.destinations if alert.fired is not None else ()
        if destinations and time - self._forgotten_at >= _FORGET_EVERY:  # it looks at all groups
            self.groups = grouping.forget(self.groups, time - _FORGET_AFTER)
            self._forgotten_at = time
        for message in destinations:
            try:
                destination = parse_destination(message)
            except (ValueError, OverflowError):
                continue
            labels = list_labels(alert)
            key = grouping.find_key(self.groups, destination, labels, name)
            self._open.setdefault(name, set()).add(key)
            self.groups = grouping.join(self.groups, destination, labels, name, time)
        for key in self._ended.pop(name, set()) - self._open.get(name, set()):
            self.groups = grouping.reopen(self.groups, key, name, time)
            if key in self.groups and name in self.groups[key].members:
                self._open.setdefault(name, set()).add(key)

    def resolve(self, name: Name, time: datetime) -> None:
        """Note that an alert is over."""
        if keys := self._open.pop(name, None):
            self._ended[name] = keys
            self.groups = grouping.resolve(self.groups, keys, name, time)

    def is_next(self, event: GroupNotification) -> bool:
        """Tell whether an attempt is the next one of its receiver and group."""
        notice = event.notice
        group = self.groups.get(_read_key(notice))
        if group is None or group.begin != notice.begin.ToDatetime(tzinfo=UTC):
            return False
        number, attempt = _next_attempt(group, notice.receiver)
        return (notice.number, notice.attempt) == (number, attempt)

    def note(
        self, event: GroupNotification, firing: frozenset[Name], resolved: frozenset[Name], time: datetime
    ) -> None:
        """Note what became of the next attempt."""
        key, receiver = _read_key(event.notice), event.notice.receiver
        notice = Notice(time, firing, resolved, acknowledged=event.notice.acknowledged)
        if isinstance(event, alerts_pb2.GroupNotificationSent):
            self.groups = grouping.record(self.groups, key, receiver, notice)
        else:
            not_before = event.not_before.ToDatetime(tzinfo=UTC) if event.HasField("not_before") else None
            self.groups = grouping.fail(self.groups, key, receiver, notice, not_before)

    # ---- What is due ---------------------------------------------------------------------------------------

    def list_receivers(self, now: datetime, sequence: int) -> list[str]:
        """List the receivers that may have to be told of a group now, each once."""
        return list(dict.fromkeys(receiver for _, _, receiver, _ in self._find_looks(now, sequence)))

    def find_turns(
        self, receiver: str, now: datetime, sequence: int, *, is_held: Judge, is_acknowledged: Judge
    ) -> Iterator[Notify]:
        """Yield what a receiver is to be told now of each group. `sequence`: of the newest record."""
        for key, group, name, look in self._find_looks(now, sequence):
            if name != receiver:
                continue
            notice = grouping.plan(
                group,
                receiver,
                now,
                is_held=lambda incident, instant: is_held(self._alerts[incident], instant),
                is_acknowledged=lambda incident, instant: is_acknowledged(self._alerts[incident], instant),
                takes_acknowledgements=acknowledges(receiver) and self._is_news_to(receiver, group),
            )
            if notice is None:
                self._quiet[key, receiver] = look, sequence
            else:
                yield self._build(key, group, receiver, notice)
        if len(self._quiet) > 4 * len(self.groups) + 100:
            self._quiet.clear()  # of groups that are over

    def _find_looks(
        self, now: datetime, sequence: int
    ) -> Iterator[tuple[GroupKey, IncidentGroup, str, datetime]]:
        """Yield receivers of groups that have not heard of the newest look, unless they need not."""
        for key, group in self.groups.items():
            look = grouping.find_look(group, now)
            if look is None:
                continue
            for receiver in group.receivers:
                last, failed = group.notices.get(receiver), group.attempts.get(receiver)
                is_over = last is not None and last.time >= look
                is_early = failed is not None and now < failed.not_before
                if not is_over and not is_early and self._quiet.get((key, receiver)) != (look, sequence):
                    yield key, group, receiver, look

    def _is_news_to(self, receiver: str, group: IncidentGroup) -> bool:
        """Tell whether somebody acknowledged any of a group elsewhere than at the receiver itself."""
        open_alerts = (self._alerts[name] for name, member in group.members.items() if member.end is None)
        acknowledgements = filter(None, (alert.acknowledgement for alert in open_alerts))
        return any(acknowledgement.receiver != receiver for acknowledgement in acknowledgements)

    def list_announced(self, dedup_key: str, receiver: str, instant: datetime) -> list[Alert]:
        """List the open alerts of a group that began by an instant, and that the receiver may have been told
        of.
        """
        groups = (
            group
            for key, group in self.groups.items()
            if dedup_key_of_group(key.team, key.revision, key.path, dict(key.labels)) == dedup_key
        )
        return [
            self._alerts[name]
            for group in groups
            for name in group.find_announced(receiver)
            if (member := group.members.get(name)) is not None
            and member.end is None
            and member.begin <= instant
        ]

    def _build(self, key: GroupKey, group: IncidentGroup, receiver: str, notice: Notice) -> Notify:
        firing = sorted((_open(self._alerts[name]) for name in notice.firing), key=_rank)
        resolved = sorted((self._alerts[name] for name in notice.resolved), key=_rank)
        number, attempt = _next_attempt(group, receiver)
        failed = group.attempts.get(receiver)
        turn = GroupTurn(
            team=key.team,
            revision=key.revision,
            path=key.path,
            labels=dict(key.labels),
            begin=group.begin,
            number=number,
            time=notice.time,
            first_attempt=failed.first if failed else notice.time,
            firing=tuple(firing),
            resolved=tuple(resolved),
            acknowledged=notice.acknowledged,
        )
        return Notify((firing or resolved)[0], receiver, attempt, group=turn)


def name_of(alert: Alert) -> Name:
    """Return the name by which the ledger and groups have an alert."""
    return alert.subject, alert.condition


def _open(alert: Alert) -> Alert:
    """Return an alert as it was while it was open: it may be over since the look."""
    return alert if alert.firing else alert._replace(resolved=None, resolved_at=None)


def _rank(alert: Alert) -> tuple[int, datetime, str]:
    """Return the order of alerts in a message: the gravest first, then the oldest."""
    severity = alert.fired.severity if alert.fired else 0
    return -severity, alert.fired_at or datetime.max.replace(tzinfo=UTC), alert.subject


def _next_attempt(group: IncidentGroup, receiver: str) -> tuple[int, int]:
    """Return the number of a receiver's next notice, and of the next attempt at it."""
    failed = group.attempts.get(receiver)
    return group.counts.get(receiver, 0) + 1, (failed.count if failed else 0) + 1


def _read_key(notice: alerts_pb2.GroupNotice) -> GroupKey:
    return GroupKey(notice.team, notice.revision, tuple(notice.path), tuple(sorted(notice.labels.items())))
