"""PagerDuty Events API v2: 202 with `"status": "success"`, 120 calls a minute a key; it folds repeats."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from daggers.v1 import alerts_pb2
from pydantic import AfterValidator, Field, SecretStr

from health_monitor.receivers import (
    Answer,
    Outcome,
    ReceiverSettings,
    Request,
    SecretUrl,
    Sent,
    json_request,
    refused,
)

if TYPE_CHECKING:
    from health_monitor.page import Page

PACE: Final = timedelta(milliseconds=500)
TAKEN: Final = Answer(202, '{"status":"success","message":"Event processed","dedup_key":"daggers/a/failed"}')
_KEY_LENGTH: Final = 32
_SUMMARY_LIMIT: Final = 1024
_SAID_LIMIT: Final = 200
_SEVERITIES: Final = {
    alerts_pb2.ALERT_SEVERITY_CRITICAL: "critical",
    alerts_pb2.ALERT_SEVERITY_ERROR: "error",
    alerts_pb2.ALERT_SEVERITY_WARNING: "warning",
}


def _check_key(key: SecretStr) -> SecretStr:
    length = len(key.get_secret_value())
    if length != _KEY_LENGTH:
        raise ValueError(f"it has {length} characters, not {_KEY_LENGTH}")
    return key


class Settings(ReceiverSettings):
    """One service of PagerDuty's."""

    routing_key: Annotated[SecretStr, AfterValidator(_check_key)] = Field(examples=["0" * _KEY_LENGTH])
    """PagerDuty Events v2 routing key, 32 characters."""
    url: SecretUrl = SecretStr("https://events.pagerduty.com/v2/enqueue")
    """PagerDuty Events v2 endpoint."""


def request(page: Page, settings: Settings) -> Request:
    """The event."""
    alert, fired = page.alert, page.fired
    event: dict[str, Any] = {
        "routing_key": settings.routing_key.get_secret_value(),
        "event_action": "trigger" if alert.firing else "resolve",
        "dedup_key": fired.dedup_key,
    }
    if not alert.firing:
        return json_request(settings.url, event)
    summary = f"{alert.dagger}: {page.condition}: {fired.summary}"
    event["client"] = "Daggers"
    if page.link:
        event["client_url"] = page.link
    event["payload"] = {
        "summary": summary[:_SUMMARY_LIMIT],
        "source": alert.dagger,
        "severity": _SEVERITIES.get(fired.severity, "error"),
        "timestamp": fired.since.ToJsonString(),
        "component": alert.dagger,
        "group": fired.team,
        "class": page.condition.replace(" ", "_"),
        "custom_details": {"incident": alert.incident, "generation": fired.generation, **page.facts},
    }
    return json_request(settings.url, event)


def taken(answer: Answer) -> bool:
    """Whether PagerDuty has the event: 202, and `"status": "success"` in its JSON."""
    return answer.status == 202 and _document(answer.body).get("status") == "success"


def outcome(answer: Answer) -> Outcome:
    """What PagerDuty's answer means."""
    return Sent() if taken(answer) else refused(answer, _said(answer.body), who="PagerDuty")


def _document(body: str) -> dict[str, Any]:
    """The JSON object of an answer; empty when it has none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _said(body: str) -> str:
    """The errors an answer names; empty when it is none of PagerDuty's."""
    errors = _document(body).get("errors")
    if not isinstance(errors, list):
        return ""
    said = "; ".join(error for error in errors if isinstance(error, str))
    return "".join(character if character.isprintable() else " " for character in said)[:_SAID_LIMIT]
