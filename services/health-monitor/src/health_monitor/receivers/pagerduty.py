"""PagerDuty Events API v2: 202, at most 120 calls a minute for each routing key; it folds repeats."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from daggers.v1 import alerts_pb2

from health_monitor.receivers import Outcome, Sent, refused

if TYPE_CHECKING:
    from health_monitor.alert import Notify

URL: Final = "https://events.pagerduty.com/v2/enqueue"
PACE: Final = timedelta(milliseconds=500)
KEY_LENGTH: Final = 32
"""Characters of a routing key."""
_SUMMARY_LIMIT: Final = 1024
_SAID_LIMIT: Final = 200
_SEVERITIES: Final = {
    alerts_pb2.ALERT_SEVERITY_CRITICAL: "critical",
    alerts_pb2.ALERT_SEVERITY_ERROR: "error",
    alerts_pb2.ALERT_SEVERITY_WARNING: "warning",
}


def request(notify: Notify, key: str) -> dict[str, Any]:
    """The event; `key` is the routing key."""
    alert, fired = notify.alert, notify.alert.fired
    assert fired is not None
    event: dict[str, Any] = {
        "routing_key": key,
        "event_action": "trigger" if alert.firing else "resolve",
        "dedup_key": fired.dedup_key,
    }
    if not alert.firing:
        return event
    condition = alerts_pb2.AlertCondition.Name(alert.condition).removeprefix("ALERT_CONDITION_").lower()
    summary = f"{alert.dagger}: {condition.replace('_', ' ')}: {fired.summary}"
    event["client"] = "Daggers"
    event["payload"] = {
        "summary": summary[:_SUMMARY_LIMIT],
        "source": alert.dagger,
        "severity": _SEVERITIES.get(fired.severity, "error"),
        "timestamp": fired.since.ToJsonString(),
        "component": alert.dagger,
        "group": fired.team,
        "class": condition,
        "custom_details": {"incident": alert.incident, "generation": fired.generation},
    }
    return event


def outcome(status: int, body: str, after: timedelta | None) -> Outcome:
    """What PagerDuty's answer means."""
    if status in (200, 202):
        return Sent()
    return refused(status, _said(body), after)


def _said(body: str) -> str:
    """The errors an answer names; empty when it is none of PagerDuty's."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if not isinstance(errors, list):
        return ""
    said = "; ".join(each for each in errors if isinstance(each, str))
    return "".join(each if each.isprintable() else " " for each in said)[:_SAID_LIMIT]
