"""Facts of a notification, the same for receivers of every kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from daggers.v1 import alerts_pb2, events_pb2

from chassis.durations import format_measure, format_span
from daggerspec.alertrules import format_key
from fleet.alerts.alert import (
    CLUSTER,
    HOST,
    PLATFORM,
    PRINCIPAL,
    STORE,
    TEAM,
    Alert,
    Condition,
    Notify,
    condition_name,
)
from fleet.health import advice
from fleet.health.advice import Advice

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_SHOWN: Final = 3
"""Alerts of a group that a message names beside the first."""
RUNBOOK: Final = "docs/operations.md"
_WHOSE: Final = {
    events_pb2.ERROR_DOMAIN_UNSPECIFIED: "not known yet",
    events_pb2.ERROR_DOMAIN_USER: "USER, whoever wrote the dagger",
    events_pb2.ERROR_DOMAIN_EXTERNAL: "EXTERNAL: Kafka, Spark, a host, a producer or a sink",
    events_pb2.ERROR_DOMAIN_INTERNAL: "INTERNAL, Daggers itself",
}


@dataclass(frozen=True, slots=True)
class Page:
    """Texts of one notification, for a person."""

    notify: Notify
    portal: str = ""
    """Base URL of the portal; empty without one."""
    attempted_at: datetime = _NEVER
    """Time of this attempt, for receivers that are told it."""

    @property
    def alert(self) -> Alert:
        """The alert that fired or resolved."""
        return self.notify.alert

    @property
    def fired(self) -> alerts_pb2.AlertFired:
        """Event that began the incident."""
        assert self.alert.fired is not None
        return self.alert.fired

    @property
    def condition(self) -> str:
        """Name of the condition, in words; of a rule on rows, the rule and its key."""
        return _name_condition(self.alert)

    @property
    def dedup_key(self) -> str:
        """Key that receivers fold repeats by, of the alert or the group."""
        group = self.notify.group
        return self.fired.dedup_key if group is None else group.dedup_key

    @property
    def incident_key(self) -> str:
        """Key of the incident or group, 32 hexadecimal digits: the same for its begin and its end."""
        return _hash(self._incident)

    @property
    def idempotency_key(self) -> str:
        """Key of the notice, 32 hexadecimal digits: the same at every attempt that says the same."""
        group = self.notify.group
        if group is None:
            return _hash(f"{self._incident}/{self.notify.notice}")
        names = [",".join(sorted(alert.id for alert in alerts)) for alerts in (group.firing, group.resolved)]
        return _hash("/".join((self._incident, self.notify.receiver, str(group.number), *names)))

    @property
    def _incident(self) -> str:
        group = self.notify.group
        of = self.alert.incident if group is None else group.begin.timestamp()
        return f"{self.dedup_key}/{of}"

    @property
    def pages(self) -> list[Page]:
        """Pages of each alert by itself: of a group of all that fire, then of all that are over."""
        group = self.notify.group
        if group is None:
            return [self]
        alerts = (*group.firing, *group.resolved)
        return [replace(self, notify=replace(self.notify, alert=alert, group=None)) for alert in alerts]

    @property
    def is_acknowledgement(self) -> bool:
        """True if somebody looks after all that the receiver was told of, and that is what it is told."""
        group = self.notify.group
        return self.notify.is_acknowledgement if group is None else group.acknowledged

    @property
    def needs_acknowledgement(self) -> bool:
        """True if nobody looks after an alert that fires, or after one of a group."""
        group = self.notify.group
        firing = [self.alert] if group is None else group.firing
        return any(alert.firing and alert.find_acknowledgement(self.attempted_at) is None for alert in firing)

    @property
    def count(self) -> int:
        """Count of the alerts that fire."""
        group = self.notify.group
        return int(self.alert.firing) if group is None else len(group.firing)

    @property
    def others(self) -> dict[str, str]:
        """Alerts of the group beside this one, by label: three of them, and the number of the rest."""
        group = self.notify.group
        if group is None:
            return {}
        also = [alert for alert in group.firing if alert.id != self.alert.id]
        over = [alert for alert in group.resolved if alert.id != self.alert.id]
        ended = "resolved" if self.alert.firing else "also resolved"
        texts = {"also open": _list_alerts(also), ended: _list_alerts(over)}
        return {label: text for label, text in texts.items() if text}

    @property
    def facts(self) -> dict[str, str]:
        """Facts beside the summary, by label: measure, owner, last change, what to do, runbook. Unknown ones
        are left out. A test has none.
        """
        if self.notify.is_test:
            return {}
        texts = {
            "measured": self._measure_text(),
            "who has to act": _WHOSE[self.fired.domain or self._advice.domain],
            "last change": self._change_text(),
            "next": self.fired.next or self._advice.next_of(self.alert.dagger),
            **self._acknowledgement_text(),
            "runbook": runbook(self.alert.condition),
        }
        return {label: text for label, text in texts.items() if text}

    @property
    def link(self) -> str:
        """URL of the page in the portal; empty without a portal."""
        if not self.portal:
            return ""
        base = self.portal.rstrip("/")
        if self.alert.dagger.startswith(TEAM):
            return f"{base}/teams/{self.alert.dagger.removeprefix(TEAM)}"
        if self.alert.dagger.startswith(HOST):
            return f"{base}/hosts"
        if self.alert.dagger.startswith(CLUSTER):
            return f"{base}/clusters/{self.alert.dagger.removeprefix(CLUSTER)}"
        if self.alert.dagger.startswith(STORE):
            return base
        if self.alert.dagger.startswith(PRINCIPAL):
            return f"{base}/audit?principal={quote(self.alert.dagger.removeprefix(PRINCIPAL), safe=':@')}"
        return base if self.alert.dagger == PLATFORM else f"{base}/daggers/{self.alert.dagger}"

    @property
    def _advice(self) -> Advice:
        """Advice of the condition, for events of releases that did not record any."""
        return advice.advise_condition(self.alert.condition)

    def _measure_text(self) -> str:
        if not self.fired.HasField("value"):
            return ""
        value, limit = (
            format_measure(number, self.fired.unit) for number in (self.fired.value, self.fired.limit)
        )
        return f"{value}, limit {limit}"

    def _acknowledgement_text(self) -> dict[str, str]:
        """Say who looks after an open alert, or how somebody says that they do."""
        given = self.alert.find_acknowledgement(self.attempted_at)
        if not self.alert.firing:
            return {}
        if given is None:
            return {"acknowledge": f"`daggers alerts ack {self.alert.id}`"}
        until = f" until {given.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if given.until else ""
        comment = f": {given.comment}" if given.comment else ""
        return {"acknowledged": f"by {given.author or 'nobody known'}{until}{comment}"}

    def _change_text(self) -> str:
        if not self.fired.HasField("last_change"):
            return ""
        change = self.fired.last_change
        changed = change.time.ToDatetime(tzinfo=UTC)
        before = (self.alert.fired_at or changed) - changed
        return f"revision {change.revision} by {change.actor or 'nobody known'}, {format_span(before)} before"


def _name_condition(alert: Alert) -> str:
    if alert.rule:
        key = format_key(alert.key)
        return f"{alert.rule} ({key})" if key else alert.rule
    return condition_name(alert.condition)


def _list_alerts(alerts: Sequence[Alert]) -> str:
    texts = [f"{alert.dagger} {_name_condition(alert)} [{alert.id}]" for alert in alerts[:_SHOWN]]
    more = len(alerts) - len(texts)
    return "; ".join([*texts, *([f"{more} more"] if more else [])])


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def runbook(condition: Condition) -> str:
    """Build the link to the condition's section of the runbook."""
    return f"{RUNBOOK}#alert-{condition_name(condition).replace(' ', '-')}"
