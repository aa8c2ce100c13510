"""Groups of incidents that are told together, and when. Pure; the semantics are Alertmanager's.

    join      an incident comes to a destination -> the group that it is in
    resolve   it is over
    plan      what a receiver of the group is to be told now
    record    it was told

A group is looked at `group_wait` after its first incident, and then every `group_interval`: these looks are
instants that follow from the group's begin alone, so a monitor that restarts looks at the same ones, and all
is judged as it was at that instant. What comes between two looks waits for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.routes import NEVER, Destination

Incident: TypeAlias = str
"""Identity of one incident: no two have the same, also of one dagger and condition."""
GroupKey: TypeAlias = tuple[tuple[int, ...], tuple[tuple[str, str], ...]]
"""Route of a group, and the labels that its incidents have in common."""


@dataclass(frozen=True, slots=True)
class Member:
    """Incident in a group."""

    begin: datetime
    end: datetime | None = None
    """Time of its end; None while it is open."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Message to one receiver about a group."""

    time: datetime
    firing: frozenset[Incident] = frozenset()
    resolved: frozenset[Incident] = frozenset()


@dataclass(frozen=True, slots=True)
class IncidentGroup:
    """Incidents of one destination with the same labels of `group_by`, open or not told to be over yet."""

    destination: Destination
    begin: datetime
    """Time of its first incident."""
    members: Mapping[Incident, Member] = field(default_factory=dict)
    notices: Mapping[str, Notice] = field(default_factory=dict)
    """The newest notice of each receiver."""


Groups: TypeAlias = Mapping[GroupKey, IncidentGroup]


def build_key(destination: Destination, labels: Labels) -> GroupKey:
    """Return the key of the group that an incident of a destination is in."""
    return destination.path, tuple((label, labels.get(label, "")) for label in destination.group_by)


def join(
    groups: Groups, destination: Destination, labels: Labels, incident: Incident, time: datetime
) -> Groups:
    """Put an incident into its group, which begins with the first one. One that is in it stays as it is."""
    key = build_key(destination, labels)
    group = groups.get(key)
    if group is None or all(_is_done(name, member, group.notices) for name, member in group.members.items()):
        group = IncidentGroup(destination, time)
    if incident in group.members:
        return groups
    members = {**group.members, incident: Member(time)}
    return {**groups, key: replace(group, destination=destination, members=members)}


def resolve(groups: Groups, incident: Incident, time: datetime) -> Groups:
    """Note that an incident is over, in every group that it is in."""
    changed = dict(groups)
    for key, group in groups.items():
        member = group.members.get(incident)
        if member is not None and member.end is None:
            members = {**group.members, incident: replace(member, end=time)}
            changed[key] = replace(group, members=members)
    return changed


def plan(
    group: IncidentGroup, receiver: str, now: datetime, *, is_held: Callable[[Incident, datetime], bool]
) -> Notice | None:
    """Return what a receiver is to be told now; None when nothing. Once it is recorded the answer is None.

    `is_held`: whether a silence or a cause held an incident back at an instant, that of the newest look.
    """
    look, last = find_look(group, now), group.notices.get(receiver)
    if look is None or (last is not None and last.time >= look) or not group.destination.is_active(look):
        return None
    announced = last.firing | last.resolved if last else frozenset()
    free = {
        name: member
        for name, member in group.members.items()
        if member.begin <= look and not is_held(name, look)
    }
    resolved = {name for name, member in free.items() if member.end is not None and member.end <= look}
    firing = frozenset(free.keys() - resolved)
    # Who was never told that it began is not told that it is over.
    notice = Notice(now, firing, frozenset(resolved & announced))
    return notice if _is_news(notice, last, group, look) else None


def record(groups: Groups, key: GroupKey, receiver: str, notice: Notice) -> Groups:
    """Note that a receiver has taken a notice. A group ends with the notice that all of it is over."""
    group = groups.get(key)
    if group is None:
        return groups
    notices = {**group.notices, receiver: notice}
    # What was over before this was recorded is still to be told to be over.
    late = {name: Member(notice.time, notice.time) for name in notice.firing - group.members.keys()}
    members = {
        name: member
        for name, member in (*group.members.items(), *late.items())
        if not _is_done(name, member, notices)
    }
    others = {name: other for name, other in groups.items() if name != key}
    if not members:
        return others
    return {**others, key: replace(group, members=members, notices=notices)}


def find_look(group: IncidentGroup, now: datetime) -> datetime | None:
    """Return the newest instant at which the group is looked at; None before the first."""
    first = group.begin + group.destination.group_wait
    if now < first:
        return None
    return first + (now - first) // group.destination.group_interval * group.destination.group_interval


def _is_news(notice: Notice, last: Notice | None, group: IncidentGroup, look: datetime) -> bool:
    if last is None:
        return bool(notice.firing)
    if not notice.firing <= last.firing or not notice.resolved <= last.resolved:
        return True
    interval = group.destination.repeat_interval
    if not notice.firing or interval == NEVER:
        return False
    # From look to look: a notice that took a moment must not put off its repeat to the look after.
    return (find_look(group, last.time) or last.time) + interval <= look


def _is_done(incident: Incident, member: Member, notices: Mapping[str, Notice]) -> bool:
    """Tell whether an incident is over, and no receiver takes it for open: nothing is left to be told."""
    return member.end is not None and not any(incident in notice.firing for notice in notices.values())
