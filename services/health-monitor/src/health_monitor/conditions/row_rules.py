"""Turns what drivers observe by rules on rows into alerts: one for each dagger, rule and key. Pure.

Level-triggered: the newest observation of a key says whether its incident is to be open, as long as the
dagger has the very rule that was observed. What is not known, because its observation is older than the
topic, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import alerts_pb2, rules_pb2

from daggerspec import alertrules
from fleet import Dagger, Fleet
from fleet.alerts.alert import Alert, Turn, dedup_key_of, subject
from fleet.alerts.ledger import Ledger
from fleet.fold.phases import DELETED, STOPPED

CONDITION: Final = alerts_pb2.ALERT_CONDITION_RULE
MOST: Final = 1_000_000
"""Keys whose newest observations are remembered; the oldest are forgotten first."""
CHANGED_EVERY: Final = timedelta(minutes=1)
"""Time from an incident's begin or change to the next change at least: its number may be another with each
window, and the log is kept for ever.
"""
RETENTION: Final = timedelta(days=7)
"""Retention of the topic of observations."""
_FIRES: Final = (rules_pb2.RULE_STATE_FIRED, rules_pb2.RULE_STATE_CHANGED)

FindChange: TypeAlias = Callable[[str], alerts_pb2.LastChange | None]


class RowRules:
    """The newest observations by rules on rows, of all daggers."""

    def __init__(self) -> None:
        self.is_read = False
        """True once the topic is read to its end: before, no observation is known to be the newest."""
        self._newest: dict[str, rules_pb2.RuleObserved] = {}
        """By subject of the alert."""
        self._due: dict[str, None] = {}
        """Subjects to look at: those with new observations, and those that fire."""

    def note_read(self) -> None:
        """Note that all observations of before are known."""
        self.is_read = True

    def add(self, observed: rules_pb2.RuleObserved) -> None:
        """Take an observation. One that is older than the newest of its key, or the same, changes nothing."""
        name = subject(_meta(observed))
        before = self._newest.get(name)
        if before is not None and observed.window.ToMicroseconds() < before.window.ToMicroseconds():
            return
        self._newest.pop(name, None)
        self._newest[name] = observed
        self._due[name] = None
        if len(self._newest) > MOST:
            del self._newest[next(iter(self._newest))]

    def turns(
        self,
        fleet: Fleet,
        ledger: Ledger,
        receivers: Callable[[str], Sequence[str]],
        now: datetime,
        find_change: FindChange,
    ) -> Iterator[Turn]:
        """Yield the turns that are due. Once one is folded in, it is not due any more; receivers: by team.
        find_change: returns the newest request that changed a dagger.

        The events have no epoch: the leader sets it when it writes.
        """
        if not self.is_read:
            return
        open_ = {alert.subject: alert for alert in ledger.list_open() if alert.condition == CONDITION}
        for name in [*self._due, *(name for name in open_ if name not in self._due)]:
            observed, alert = self._newest.get(name), open_.get(name)
            if alert is None and observed is not None:
                alert = ledger.alert_of(_meta(observed))
            turn = None if alert is None else _turn(alert, observed, fleet, receivers, now)
            if isinstance(turn, alerts_pb2.AlertFired) and (change := find_change(turn.meta.dagger)):
                turn.last_change.CopyFrom(change)
            if turn is not None:
                yield turn
            elif observed is None or observed.state not in _FIRES:
                self._due.pop(name, None)


def _turn(
    alert: Alert,
    observed: rules_pb2.RuleObserved | None,
    fleet: Fleet,
    receivers: Callable[[str], Sequence[str]],
    now: datetime,
) -> Turn | None:
    dagger = fleet.daggers.get(alert.dagger)
    if why := _why_over(dagger, alert.rule, observed):
        return _resolve(alert, why, now) if alert.firing else None
    if observed is None or dagger is None:
        return None
    fires = observed.state in _FIRES
    if alert.firing and fires:
        return _change(alert, observed, now)
    if fires and not alert.firing:
        return _fire(alert, observed, dagger, receivers(dagger.spec.team))
    if alert.firing and not fires:
        return _resolve(alert, observed.summary, observed.window.ToDatetime(tzinfo=now.tzinfo))
    return None


def _why_over(dagger: Dagger | None, rule: str, observed: rules_pb2.RuleObserved | None) -> str:
    """Say why no incident of a rule is open, whatever was observed; empty where one may be."""
    if dagger is None or dagger.phase == DELETED:
        return "the dagger was deleted"
    if dagger.phase == STOPPED:
        return "the dagger was stopped"
    own = next((one for one in dagger.spec.alerts if one.name == rule), None)
    if own is None:
        return f"the rule {rule} was removed"
    if observed is not None and alertrules.digest(own) != observed.digest:
        return f"the rule {rule} was changed"
    return ""


def _meta(observed: rules_pb2.RuleObserved) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(
        dagger=observed.dagger, condition=CONDITION, rule=observed.rule, key=observed.key
    )


def _fire(
    alert: Alert, observed: rules_pb2.RuleObserved, dagger: Dagger, receivers: Sequence[str]
) -> alerts_pb2.AlertFired:
    meta = alert.meta(incident=alert.incident + 1)
    for column, value in observed.values.items():
        meta.values[column] = value
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key_of(meta),
        severity=alerts_pb2.AlertSeverity.ValueType(observed.severity),
        summary=observed.summary,
        since=observed.since,
        generation=observed.generation,
        team=dagger.spec.team,
        receivers=receivers,
        next=f"Read {observed.runbook}" if observed.runbook else "",
    )
    if observed.HasField("value") and observed.HasField("limit"):
        fired.value, fired.limit, fired.unit = observed.value, observed.limit, "number"
    return fired


def _change(alert: Alert, observed: rules_pb2.RuleObserved, now: datetime) -> alerts_pb2.AlertChanged | None:
    """Build the change of how many further keys a rule is true of; no other alert has one."""
    since = alert.changed_at or alert.fired_at
    is_new = alert.fired is not None and observed.summary != alert.fired.summary
    if not observed.others or not is_new or since is None or now - since < CHANGED_EVERY:
        return None
    return alerts_pb2.AlertChanged(meta=alert.meta(), change=alert.changes + 1, summary=observed.summary)


def _resolve(alert: Alert, why: str, until: datetime) -> alerts_pb2.AlertResolved:
    resolved = alerts_pb2.AlertResolved(meta=alert.meta(), summary=why)
    resolved.until.FromDatetime(until)
    return resolved
