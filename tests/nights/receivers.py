"""Receivers of a night, and what they know by what they were sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from fleet.alerts.alert import Alert, Notify
from fleet.alerts.routed_groups import Name, name_of
from health_monitor.receivers import Outcome, Success, Temporary

RETRY_AFTER: Final = timedelta(seconds=20)
Incident: TypeAlias = tuple[Name, int]
"""Name of an alert, and ordinal of its incident."""


def incident_of(alert: Alert) -> Incident:
    """Return the newest incident of an alert."""
    return name_of(alert), alert.incident


@dataclass
class SimulatedReceiver:
    """A receiver, and what it knows."""

    trouble: str = ""
    """`limits`, `away`, or `late`: it takes the message, and the answer is lost."""
    well_since: datetime | None = None
    """Since when it has had no trouble; None while it has."""
    open: set[Incident] = field(default_factory=set)
    """Incidents that it shows as open."""
    announced: set[Incident] = field(default_factory=set)
    """Incidents whose begin was sent to it, whether or not it came."""
    suspected: set[Name] = field(default_factory=set)
    """Alerts that it may show as open: what was sent may have come, and no end has."""
    announced_in: set[tuple[Hashable, Name]] = field(default_factory=set)
    """Groups and alerts of which it was sent a begin in them, and has taken no end."""
    forgotten: set[Name] = field(default_factory=set)
    """Alerts of a message that nobody has recorded: its sender was replaced behind it."""
    unrecorded: set[Name] = field(default_factory=set)
    """Alerts whose begin it may have, of a monitor that was replaced before its record: decision 314."""
    accepted: Counter[Hashable] = field(default_factory=Counter)
    """Count of how often it took each notice."""
    excused: Counter[Hashable] = field(default_factory=Counter)
    """Count of how much more often than once it may: its record, or an answer, was lost."""
    limited_until: datetime | None = None
    """It has said, and that is recorded, that it takes nothing before."""
    attempted_at: datetime | None = None
    """Time of the newest attempt that is recorded."""

    def answer(self) -> tuple[Outcome, bool]:
        """Return the outcome of a call as its sender sees it, and whether the message came through."""
        match self.trouble:
            case "limits":
                return Temporary("THROTTLED", "it answered 429", RETRY_AFTER, throttled=True), False
            case "away":
                return Temporary("NOT_REACHED", "it could not be reached"), False
            case "late":
                return Temporary("TIMEOUT", "it did not answer in 10 s"), True
        return Success(), True

    def shows(self, name: Name) -> bool:
        """Tell whether it shows an incident of an alert as open."""
        return any(own == name for own, _ in self.open)


def list_firing(notify: Notify) -> tuple[Alert, ...]:
    """List the alerts that a message says to be open."""
    if notify.group is not None:
        return notify.group.firing
    return (notify.alert,) if notify.alert.firing and notify.ending is None else ()


def list_resolved(notify: Notify) -> tuple[Alert, ...]:
    """List the alerts that a message says to be over."""
    if notify.group is not None:
        return notify.group.resolved
    return () if notify.alert.firing or notify.ending is not None else (notify.alert,)


def name_notice(notify: Notify) -> tuple[Hashable, ...]:
    """Name a message: two of one name say the same."""
    group = notify.group
    if notify.ending is not None:
        return "silence", notify.ending.silence.id
    if group is not None:
        return group.revision, group.path, tuple(sorted(group.labels.items())), group.begin, group.number
    # Of an acknowledgement, which one: several may be sent of an incident.
    given = notify.alert.acknowledgement if notify.is_acknowledgement else None
    return incident_of(notify.alert), notify.notice, given.time if given else None
