"""Facts of a notification, the same for receivers of every kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
from health_monitor.chart import Chart

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_SHOWN: Final = 3
"""Alerts of a group that a message names beside the first."""
_NEW: Final = timedelta(minutes=5)
"""Age up to which what was measured when an alert fired is taken for what is so now."""
_VALUE_LIMIT: Final = 60
"""Characters of a value of a key in a message: a row may have any text."""
RUNBOOK: Final = "docs/operations.md"
_WHOSE: Final = {
    events_pb2.ERROR_DOMAIN_UNSPECIFIED: "not known yet",
    events_pb2.ERROR_DOMAIN_USER: "USER, whoever wrote the dagger",
    events_pb2.ERROR_DOMAIN_EXTERNAL: "EXTERNAL: Kafka, Spark, a host, a producer or a sink",
    events_pb2.ERROR_DOMAIN_INTERNAL: "INTERNAL, Daggers itself",
}
_COUNTED: Final[Mapping[Condition, str]] = {
    alerts_pb2.ALERT_CONDITION_RECORDS_EXPIRED: "records",
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP: "ends of its driver",
    alerts_pb2.ALERT_CONDITION_REFUSALS: "refused calls",
    alerts_pb2.ALERT_CONDITION_SPARK_AWAY: "daggers",
    alerts_pb2.ALERT_CONDITION_STORE_AWAY: "daggers",
}
"""Nouns of the conditions whose measure is a count of one kind of thing."""


@dataclass(frozen=True, slots=True)
class Page:
    """Texts of one notification, for a person."""

    notify: Notify
    portal: str = ""
    """Base URL of the portal; empty without one."""
    attempted_at: datetime = _NEVER
    """Time of this attempt, for receivers that are told it."""
    chart: Chart | None = None
    """Chart of the alert, for receivers that take pictures; None where it would say nothing more."""
    runbook_url: str = ""
    """URL of the runbook; empty: messages name the file."""

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
    def sentence(self) -> str:
        """Sentence of the alert's newest turn: what is wrong, or why it is over."""
        return self.fired.summary if self.alert.resolved is None else self.alert.resolved.summary

    @property
    def headline(self) -> str:
        """Line that says all in one: how many alerts, dagger, condition, and the sentence. A condition that
        the sentence begins with is said once.
        """
        over = "" if self.alert.firing or " is over" in self.sentence else " is over"
        are_over = "" if self.alert.firing else " are over"
        several = f"{self.total} alerts{are_over}, the first: " if self.total > 1 else ""
        repeats = self.sentence.startswith(self.condition)
        condition = "" if repeats else f"{self.condition}{over}: "
        return f"{several}{self.alert.dagger}: {condition}{self.sentence}"

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
        return self._hash_with(group.firing, group.resolved, number=group.number)

    def _hash_with(self, *several: Sequence[Alert], number: int = 1) -> str:
        """Build the key of a notice that names several alerts: another attempt may name others."""
        names = [",".join(sorted(alert.id for alert in alerts)) for alerts in several]
        return _hash("/".join((self._incident, self.notify.receiver, str(number), *names)))

    @property
    def _incident(self) -> str:
        group = self.notify.group
        of = self.alert.incident if group is None else group.begin.timestamp()
        return f"{self.dedup_key}/{of}"

    @property
    def reference(self) -> str:
        """Name of what the message is about, at its foot."""
        return f"incident {self.alert.incident}"

    @property
    def pages(self) -> list[Page]:
        """Pages of each alert by itself: of a group of all that fire, then of all that are over."""
        group = self.notify.group
        if group is None:
            return [self]
        alerts = (*group.firing, *group.resolved)
        return [
            replace(self, notify=replace(self.notify, alert=alert, group=None), chart=None)
            for alert in alerts
        ]

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
    def total(self) -> int:
        """Count of the alerts that fire, or of those that are over where none fires."""
        group = self.notify.group
        return self.count or (1 if group is None else len(group.resolved))

    @property
    def more(self) -> str:
        """Text behind the first alert of several, such as ` and 39 more alerts`; empty of one."""
        rest = self.total - 1
        return f" and {rest} more alert{'' if rest == 1 else 's'}" if rest else ""

    @property
    def others(self) -> dict[str, str]:
        """Alerts of the group beside this one, by label: three of them, and the number of the rest."""
        group = self.notify.group
        if group is None:
            return {}
        also = [alert for alert in group.firing if alert.id != self.alert.id]
        over = [alert for alert in group.resolved if alert.id != self.alert.id]
        ended = "resolved" if self.alert.firing else "also resolved"
        texts = {"also open": list_alerts(also), ended: list_alerts(over)}
        return {label: text for label, text in texts.items() if text}

    @property
    def facts(self) -> dict[str, str]:
        """Facts beside the summary, by label: why it is told only now, measure, owner, last change, what to
        do, runbook. Unknown ones are left out. A test has none.
        """
        if self.notify.is_test:
            return {}
        texts = {
            "escalated": self._escalation_text(),
            "held back": self._release_text(),
            "measured": self._measure_text(),
            "who has to act": self._owner_text(),
            "last change": self._change_text(),
            "next": self.fired.next or self._advice.next_of(self.alert.dagger),
            **self._acknowledgement_text(),
            "runbook": runbook(self.alert.condition, self.runbook_url),
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
        noun = _COUNTED.get(self.alert.condition, "")
        fired_at = self.alert.fired_at or self.attempted_at
        is_old = self.attempted_at - fired_at > _NEW
        return f"{value}{f' {noun}' if noun else ''}, limit {limit}{', when it fired' if is_old else ''}"

    def _owner_text(self) -> str:
        """Say who has to act: what a rule finds in rows is its team's matter, not the query's author's."""
        if self.alert.rule and not self.fired.domain and self.fired.team:
            return f"team {self.fired.team}, whose rule it is"
        return _WHOSE[self.fired.domain or self._advice.domain]

    def _escalation_text(self) -> str:
        """Say that the receiver is told next, as nobody has acknowledged; empty where it is told first."""
        group, receiver = self.notify.group, self.notify.receiver
        if group is None or not self.alert.firing:
            return ""
        for route in self.fired.destinations:
            is_own = (route.revision, tuple(route.path)) == (group.revision, group.path)
            if is_own and receiver in route.escalate_to and receiver not in route.receivers:
                return f"nobody acknowledged it in {format_span(route.escalate_after.ToTimedelta())}"
        return ""

    def _release_text(self) -> str:
        """Say until when a silence held back what is told only now."""
        released_at = self.notify.released_at
        if released_at is None or self.alert.fired_at is None or released_at <= self.alert.fired_at:
            return ""
        return f"by a silence until {format_time(released_at)}"

    def _acknowledgement_text(self) -> dict[str, str]:
        """Say who looks after an open alert, or how somebody says that they do."""
        given = self.alert.find_acknowledgement(self.attempted_at)
        if not self.alert.firing:
            return {}
        if given is None:
            return {"acknowledge": f"`daggers alerts ack {self.alert.id}`"}
        until = f" until {format_time(given.until)}" if given.until else ""
        comment = f": {given.comment}" if given.comment else ""
        return {"acknowledged": f"by {given.author or 'nobody known'}{until}{comment}"}

    def _change_text(self) -> str:
        if not self.fired.HasField("last_change"):
            return ""
        change = self.fired.last_change
        changed = change.time.ToDatetime(tzinfo=UTC)
        before = (self.alert.fired_at or changed) - changed
        author = change.actor or "nobody known"
        return f"revision {change.revision} by {author}, {format_span(before)} before it fired"


def format_time(time: datetime) -> str:
    """Format an instant for a reader of any time zone: `2026-01-31 12:00:00 UTC`."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def strip_code(text: str) -> str:
    """Return a command without the ` around it, for who shows no markup: a shell runs what is between them.
    A text that has more than the command stays as it is.
    """
    return text[1:-1] if text.count("`") == 2 and text[0] == text[-1] == "`" else text


def shorten(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, with … in place of what is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _name_condition(alert: Alert) -> str:
    if alert.rule:
        values = {column: shorten(value, _VALUE_LIMIT) for column, value in alert.key.items()}
        key = format_key(values)
        return f"{alert.rule} ({key})" if key else alert.rule
    return condition_name(alert.condition)


def list_alerts(alerts: Sequence[Alert]) -> str:
    """Name the first alerts of some, and how many more there are; empty of none."""
    texts = [f"{alert.dagger} {_name_condition(alert)} [{alert.id}]" for alert in alerts[:_SHOWN]]
    more = len(alerts) - len(texts)
    return "; ".join([*texts, *([f"{more} more"] if more else [])])


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def runbook(condition: Condition, url: str = "") -> str:
    """Build the link to the condition's section of the runbook, which is at `url` or in our documents."""
    return f"{url or RUNBOOK}#alert-{condition_name(condition).replace(' ', '-')}"
