"""PagerDuty Events API v2: 202 with `"status": "success"`, 120 calls a minute a key; it folds repeats.

An acknowledgement of an incident, or of all incidents of a group, is told there, too.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from daggers.v1 import alerts_pb2
from pydantic import AfterValidator, Field, SecretStr

from fleet.alerts.alert import condition_label
from health_monitor.page import shorten, strip_code
from health_monitor.receivers import (
    HttpAnswer,
    HttpRequest,
    Outcome,
    ReceiverSettings,
    SecretUrl,
    Success,
    classify_failure,
    json_request,
    make_printable,
)

if TYPE_CHECKING:
    from health_monitor.page import Page

IN_SETTINGS: Final = True
PACE: Final = timedelta(milliseconds=500)
TAKEN: Final = HttpAnswer(
    202, '{"status":"success","message":"Event processed","dedup_key":"daggers/a/failed"}'
)
_KEY_LENGTH: Final = 32
_SUMMARY_LIMIT: Final = 1024
_QUOTE_LIMIT: Final = 200
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
    """Settings of one service of PagerDuty's."""

    routing_key: Annotated[SecretStr, AfterValidator(_check_key)] = Field(examples=["0" * _KEY_LENGTH])
    """PagerDuty Events v2 routing key, 32 characters."""
    url: SecretUrl = SecretStr("https://events.pagerduty.com/v2/enqueue")
    """PagerDuty Events v2 endpoint."""
    webhook_secret: SecretStr | None = None
    """Secret that PagerDuty signs its webhooks with, for [callbacks](#acknowledge-where-you-are-told)."""


def request(page: Page, settings: Settings) -> HttpRequest:
    """Build the event; its dedup key joins events of one incident or group."""
    alert, fired = page.alert, page.fired
    event: dict[str, Any] = {
        "routing_key": settings.routing_key.get_secret_value(),
        "event_action": _choose_action(page),
        "dedup_key": page.dedup_key,
    }
    if event["event_action"] != "trigger":
        return json_request(settings.url, event)
    event["client"] = "Daggers"
    if page.link:
        event["client_url"] = page.link
    event["payload"] = {
        "summary": shorten(make_printable(page.headline), _SUMMARY_LIMIT),
        "source": alert.dagger,
        "severity": _SEVERITIES.get(fired.severity, "error"),
        "timestamp": fired.since.ToJsonString(),
        "component": alert.dagger,
        "group": fired.team,
        "class": condition_label(alert.condition),
        "custom_details": {
            **{label: strip_code(text) for label, text in page.facts.items()},
            **page.others,
            "incident": alert.incident,
            **({"generation": fired.generation} if fired.generation else {}),
        },
    }
    return json_request(settings.url, event)


def _choose_action(page: Page) -> str:
    if not page.alert.firing:
        return "resolve"
    return "acknowledge" if page.is_acknowledgement else "trigger"


def is_accepted(answer: HttpAnswer) -> bool:
    """Tell whether PagerDuty has the event: 202, and `"status": "success"` in its JSON."""
    return answer.status == 202 and _document(answer.body).get("status") == "success"


def outcome(answer: HttpAnswer) -> Outcome:
    """Interpret PagerDuty's answer."""
    if is_accepted(answer):
        return Success()
    return classify_failure(answer, _quote_errors(answer.body), who="PagerDuty")


def _document(body: str) -> dict[str, Any]:
    """Parse the JSON object of an answer; empty when it has none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _quote_errors(body: str) -> str:
    """Join the errors that an answer names, cut and printable; empty when it is not one of PagerDuty's."""
    errors = _document(body).get("errors")
    if not isinstance(errors, list):
        return ""
    text = "; ".join(error for error in errors if isinstance(error, str))
    return make_printable(text)[:_QUOTE_LIMIT]
