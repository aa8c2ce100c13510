"""Groups of incidents that are told together, and when. Pure; the semantics are Alertmanager's.

    join      an incident comes to a destination -> the group that it is in
    resolve   it is over
    reopen    it fires anew, and is led elsewhere by now
    plan      what a receiver of the group is to be told now
    record    it was told
    fail      it was not, as far as is known

A group is looked at `group_wait` after its first incident, and then every `group_interval`: these looks are
instants that follow from the group's begin alone, so a monitor that restarts looks at the same ones, and all
is judged as it was at that instant. What comes between two looks waits for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from fleet.alerts.routing.escalation import find_escalation
from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.routes import NEVER, Destination

MOST_MEMBERS: Final = 1_000
"""Incidents of a group: a fact names those of a notice. Further ones are in further groups."""
PART: Final = "part"
"""Label that tells those groups apart; no alert has it."""
Incident: TypeAlias = Any
"""Identity of what fires, hashable: one that is over and fires anew before that was told goes on."""
Judge: TypeAlias = Callable[[Incident, datetime], bool]
"""Tells something of an incident at an instant."""


class GroupKey(NamedTuple):
    """Identity of a group: a route, and the labels that its incidents have in common."""

    team: str
    revision: int
    """Revision of the team's routes."""
    path: tuple[int, ...]
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """Incident in a group."""

    begin: datetime
    end: datetime | None = None
    """Time of its end; None while it is open."""
    first_notice: datetime | None = None
    """Time of the first attempt at a notice that had it; None before."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Message to one receiver about a group."""

    time: datetime
    firing: frozenset[Incident] = frozenset()
    resolved: frozenset[Incident] = frozenset()
    uncertain: frozenset[Incident] = frozenset()
    """Incidents that it does not have, and attempts before it said to be open: these may have arrived."""
    acknowledged: bool = False
    """True if it says that somebody looks after all that fire."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts at the next notice of a receiver, all of which failed."""

    count: int
    first: datetime
    """Time of the first of them."""
    not_before: datetime
    announced: frozenset[Incident]
    """Incidents that were said to be open: an attempt that failed may have arrived all the same."""
    ended: frozenset[Incident] = frozenset()
    """Incidents that were said to be over: one that fires anew is news."""


@dataclass(frozen=True, slots=True)
class IncidentGroup:
    """Incidents of one destination with the same labels of `group_by`, open or not told to be over yet."""

    destination: Destination
    begin: datetime
    """Time of its first incident."""
    members: Mapping[Incident, Member] = field(default_factory=dict)
    notices: Mapping[str, Notice] = field(default_factory=dict)
    """The newest notice of each receiver."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Notices of each receiver so far."""
    attempts: Mapping[str, Attempts] = field(default_factory=dict)
    """By receiver, while its next notice has failed."""

    @property
    def receivers(self) -> tuple[str, ...]:
        """Receivers that may be told of it: those of its route, and those that it is escalated to."""
        further = (name for name in self.destination.escalate_to if name not in self.destination.receivers)
        return (*self.destination.receivers, *further)

    def find_announced(self, receiver: str) -> frozenset[Incident]:
        """Return the incidents that a receiver may take for open."""
        notice, failed = self.notices.get(receiver), self.attempts.get(receiver)
        return (notice.firing if notice else frozenset()) | (failed.announced if failed else frozenset())

    @property
    def is_done(self) -> bool:
        """True if nothing is left to be told of it."""
        return all(self.is_told(name) for name in self.members)

    def is_told(self, incident: Incident) -> bool:
        """Tell whether an incident is over, and no receiver may take it for open."""
        if self.members[incident].end is None:
            return False
        announced = [notice.firing | notice.uncertain for notice in self.notices.values()]
        announced += [failed.announced for failed in self.attempts.values()]
        return not any(incident in names for names in announced)


Groups: TypeAlias = Mapping[GroupKey, IncidentGroup]


def build_key(destination: Destination, labels: Labels, part: int = 0) -> GroupKey:
    """Return the key of the group that an incident of a destination is in; of one that is full, of a further
    part.
    """
    common = {label: labels.get(label, "") for label in destination.group_by}
    if part:
        common[PART] = str(part)
    return GroupKey(
        labels.get("team", ""), destination.revision, destination.path, tuple(sorted(common.items()))
    )


def join(
    groups: Groups, destination: Destination, labels: Labels, incident: Incident, time: datetime
) -> Groups:
    """Put an incident into its group, which begins with the first one. One that is open in it stays."""
    key = find_key(groups, destination, labels, incident)
    group = groups.get(key)
    if group is None or group.is_done:
        group = IncidentGroup(destination, time)
    member = group.members.get(incident)
    if member is not None and member.end is None:
        return groups
    members = {**group.members, incident: _begin_anew(group, incident, time)}
    return {**groups, key: replace(group, destination=destination, members=members)}


def _begin_anew(group: IncidentGroup, incident: Incident, time: datetime) -> Member:
    """Begin an incident in a group. Who takes the one of before for open is not told: so it is escalated as
    if it had been told now.
    """
    is_open_for_some = incident in group.members and not group.is_told(incident)
    return Member(time, first_notice=time if is_open_for_some else None)


def find_key(groups: Groups, destination: Destination, labels: Labels, incident: Incident) -> GroupKey:
    """Return the key of the first group that has the incident, or room for it."""
    keys = (build_key(destination, labels, part) for part in count())
    return next(key for key in keys if _has_room(groups.get(key), incident))


def _has_room(group: IncidentGroup | None, incident: Incident) -> bool:
    return group is None or group.is_done or incident in group.members or len(group.members) < MOST_MEMBERS


def resolve(groups: Groups, keys: Iterable[GroupKey], incident: Incident, time: datetime) -> Groups:
    """Note that an incident is over, in those of the groups that it is in."""
    changed = dict(groups)
    for key in keys:
        group = groups.get(key)
        member = group.members.get(incident) if group else None
        if group is not None and member is not None and member.end is None:
            members = {**group.members, incident: replace(member, end=time)}
            changed[key] = replace(group, members=members)
    return changed


def reopen(groups: Groups, key: GroupKey, incident: Incident, time: datetime) -> Groups:
    """Note that an incident fires anew, which a group has not told to be over yet. What was never told of it
    there is left to where it is led by now.
    """
    group = groups.get(key)
    if group is None or incident not in group.members:
        return groups
    members = dict(group.members)
    if group.is_told(incident):
        del members[incident]
    else:
        members[incident] = _begin_anew(group, incident, time)
    others = {name: other for name, other in groups.items() if name != key}
    return {**others, key: replace(group, members=members)} if members else others


def forget(groups: Groups, before: datetime) -> Groups:
    """Leave out groups of which nothing is left to be told since before an instant."""
    return {
        key: group
        for key, group in groups.items()
        if not group.is_done or any(member.end and member.end >= before for member in group.members.values())
    }


def _is_never(_incident: Incident, _instant: datetime) -> bool:
    return False


def plan(
    group: IncidentGroup,
    receiver: str,
    now: datetime,
    *,
    is_held: Judge,
    is_acknowledged: Judge = _is_never,
    takes_acknowledgements: bool = False,
) -> Notice | None:
    """Return what a receiver is to be told now; None when nothing. Once it is recorded the answer is None.

    `is_held`: whether a silence or a cause held an incident back at an instant, that of the newest look.
    `is_acknowledged`: whether somebody looked after it then. `takes_acknowledgements`: whether the receiver,
    which was told of all that fires, is told that somebody looks after it.
    """
    look, last = find_look(group, now), group.notices.get(receiver)
    if look is None or (last is not None and last.time >= look) or not group.destination.is_active(look):
        return None
    attempts = group.attempts.get(receiver)
    # An end that it has taken is told once, also while another receiver has not taken it.
    announced = _list_announced(last, attempts)
    free = {
        name: member
        for name, member in group.members.items()
        if member.begin <= look and not is_held(name, look)
    }
    resolved = {name for name, member in free.items() if member.end is not None and member.end <= look}
    firing = frozenset(
        name
        for name in free.keys() - resolved
        if name in announced
        or _is_for(group, receiver, free[name], look, is_acknowledged=is_acknowledged(name, look))
    )
    # What is held back by now stays announced: its end is told once nothing holds it back.
    carried = frozenset(last.firing & group.members.keys() - free.keys() if last else ())
    # Who was never told that it began is not told that it is over.
    needs_reminder = any(not is_acknowledged(name, look) for name in firing)
    is_acknowledged_whole = bool(firing) and not needs_reminder
    notice = Notice(
        now,
        firing | carried,
        frozenset(resolved & announced),
        acknowledged=last is not None and last.acknowledged and is_acknowledged_whole,
    )
    if attempts is not None and (firing & attempts.ended or resolved & attempts.announced):
        return notice  # an attempt that failed may have said otherwise
    if takes_acknowledgements and last is not None and firing <= last.firing and is_acknowledged_whole:
        notice = replace(notice, acknowledged=True)
    return notice if _is_news(notice, last, group, look, needs_reminder=needs_reminder) else None


def record(groups: Groups, key: GroupKey, receiver: str, notice: Notice) -> Groups:
    """Note that a receiver has taken a notice. A group ends with the notice that all of it is over."""
    group = groups.get(key)
    if group is None:
        return groups
    # What an attempt said that failed may have arrived: its end is told, and its begin while it lasts.
    before = _list_announced(group.notices.get(receiver), group.attempts.get(receiver))
    uncertain = (before & group.members.keys()) - notice.resolved - notice.firing
    notice = replace(notice, uncertain=uncertain)
    # What was over before this was recorded is still to be told to be over.
    late = {name: Member(notice.time, notice.time) for name in notice.firing - group.members.keys()}
    group = replace(
        group,
        members=_note_first(group.members, notice) | late,
        notices={**group.notices, receiver: notice},
        counts={**group.counts, receiver: group.counts.get(receiver, 0) + 1},
        attempts={name: other for name, other in group.attempts.items() if name != receiver},
    )
    members = {name: member for name, member in group.members.items() if not group.is_told(name)}
    others = {name: other for name, other in groups.items() if name != key}
    return {**others, key: replace(group, members=members)} if members else others


def fail(groups: Groups, key: GroupKey, receiver: str, notice: Notice, not_before: datetime | None) -> Groups:
    """Note that an attempt at a notice failed, and when the next may be made; None: it is given up, and the
    receiver hears of the group again when there is news, or at `repeat_interval`.
    """
    group = groups.get(key)
    if group is None:
        return groups
    before = group.attempts.get(receiver)
    announced = notice.firing | (before.announced if before else frozenset())
    if not_before is None:
        return record(groups, key, receiver, replace(notice, firing=announced))
    failed = Attempts(
        count=before.count + 1 if before else 1,
        first=before.first if before else notice.time,
        not_before=not_before,
        announced=announced,
        ended=notice.resolved | (before.ended if before else frozenset()),
    )
    members = _note_first(group.members, notice)
    attempts = {**group.attempts, receiver: failed}
    return {**groups, key: replace(group, members=members, attempts=attempts)}


def _list_announced(last: Notice | None, attempts: Attempts | None) -> frozenset[Incident]:
    """List what a receiver may take for open."""
    announced = last.firing | last.uncertain if last else frozenset()
    return announced | attempts.announced if attempts else announced


def _note_first(members: Mapping[Incident, Member], notice: Notice) -> dict[Incident, Member]:
    return {
        name: replace(member, first_notice=notice.time)
        if name in notice.firing and member.first_notice is None
        else member
        for name, member in members.items()
    }


def find_look(group: IncidentGroup, now: datetime) -> datetime | None:
    """Return the newest instant at which the group is looked at; None before the first."""
    first = group.begin + group.destination.group_wait
    if now < first:
        return None
    return first + (now - first) // group.destination.group_interval * group.destination.group_interval


def _is_for(
    group: IncidentGroup, receiver: str, member: Member, look: datetime, *, is_acknowledged: bool
) -> bool:
    """Tell whether a receiver is to be told of an open incident: one of the route, or of its escalation."""
    if receiver in group.destination.receivers:
        return True
    return receiver in find_escalation(
        group.destination, first_notice=member.first_notice, is_acknowledged=is_acknowledged, now=look
    )


def _is_news(
    notice: Notice, last: Notice | None, group: IncidentGroup, look: datetime, *, needs_reminder: bool
) -> bool:
    if last is None:
        return bool(notice.firing or notice.resolved)
    if notice.acknowledged and not last.acknowledged:
        return True
    if not notice.firing <= last.firing or not notice.resolved <= last.resolved:
        return True
    interval = group.destination.repeat_interval
    if not needs_reminder or interval == NEVER:
        return False
    # From look to look: a notice that took a moment must not put off its repeat to the look after.
    return (find_look(group, last.time) or last.time) + interval <= look
