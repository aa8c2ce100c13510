"""Facts of a notification, the same for receivers of every kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from daggers.v1 import alerts_pb2, events_pb2

from chassis.durations import format_measure, format_span
from daggerspec.alertrules import format_key
from fleet.alerts.alert import PLATFORM, PRINCIPAL, TEAM, Alert, Condition, Notify, condition_name
from fleet.health import advice
from fleet.health.advice import Advice

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
RUNBOOK: Final = "docs/operations.md"
_WHOSE: Final = {
    events_pb2.ERROR_DOMAIN_UNSPECIFIED: "not known yet",
    events_pb2.ERROR_DOMAIN_USER: "USER, whoever wrote the dagger",
    events_pb2.ERROR_DOMAIN_EXTERNAL: "EXTERNAL: Kafka, a host, a producer or a sink",
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
        if self.alert.rule:
            key = format_key(self.alert.key)
            return f"{self.alert.rule} ({key})" if key else self.alert.rule
        return condition_name(self.alert.condition)

    @property
    def incident_key(self) -> str:
        """Key of the incident, 32 hexadecimal digits: the same for its begin and its end."""
        return _hash(f"{self.fired.dedup_key}/{self.alert.incident}")

    @property
    def idempotency_key(self) -> str:
        """Key of the notice, 32 hexadecimal digits: the same at every attempt."""
        return _hash(f"{self.fired.dedup_key}/{self.alert.incident}/{self.alert.notice}")

    @property
    def facts(self) -> dict[str, str]:
        """Facts beside the summary, by label: measure, owner, last change, next step, runbook. Unknown ones
        are left out.
        """
        texts = {
            "measured": self._measure_text(),
            "who has to act": _WHOSE[self.fired.domain or self._advice.domain],
            "last change": self._change_text(),
            "next": self.fired.next or self._advice.next_of(self.alert.dagger),
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

    def _change_text(self) -> str:
        if not self.fired.HasField("last_change"):
            return ""
        change = self.fired.last_change
        changed = change.time.ToDatetime(tzinfo=UTC)
        before = (self.alert.fired_at or changed) - changed
        return f"revision {change.revision} by {change.actor or 'nobody known'}, {format_span(before)} before"


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def runbook(condition: Condition) -> str:
    """Build the link to the condition's section of the runbook."""
    return f"{RUNBOOK}#alert-{condition_name(condition).replace(' ', '-')}"
