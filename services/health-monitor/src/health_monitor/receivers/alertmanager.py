"""Alertmanager, `POST /api/v2/alerts`: 200 with an empty body; its own routes and silences come after it.

It takes an alert without an end for over after its `resolve_timeout`. So an incident that goes on is sent
with an end a year ahead, and with its own end once it is over. The labels of both are the same.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from chassis.durations import format_span
from fleet.alerts.alert import condition_name
from fleet.alerts.routing.labels import list_labels
from health_monitor.page import strip_code
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
from health_monitor.silence_page import NAME, SilencePage

if TYPE_CHECKING:
    from health_monitor.page import Page

IN_SETTINGS: Final = False
PACE: Final = timedelta(milliseconds=100)
TAKEN: Final = HttpAnswer(200)
_PATH: Final = "/api/v2/alerts"
_OPEN_END: Final = timedelta(days=365)
_QUOTE_LIMIT: Final = 200


class AlertmanagerSettings(ReceiverSettings):
    """Settings of one Alertmanager."""

    url: SecretUrl = Field(examples=["https://alertmanager.example.org"])
    """Base URL, with USER:PASSWORD@ before the host where it asks for them."""


Settings = AlertmanagerSettings


def request(page: Page, settings: AlertmanagerSettings) -> HttpRequest:
    """Build the alerts. A repeat changes nothing there: alerts are known by their labels."""
    call = json_request(settings.url, [_build_document(own) for own in page.pages])
    return HttpRequest(call.url.rstrip("/") + _PATH, call.body, headers=call.headers)


def _build_document(page: Page) -> dict[str, Any]:
    alert, fired = page.alert, page.fired
    labels = {"alertname": _name_alert(page), **list_labels(alert)}
    facts = page.facts if alert.firing else {"lasted": format_span(alert.lasted), "was": fired.summary}
    since = fired.since.ToDatetime(tzinfo=UTC)
    until = page.attempted_at + _OPEN_END if alert.firing else alert.until or page.attempted_at
    if isinstance(page, SilencePage):
        until = page.ending.silence.end  # nobody says that it is over
    document: dict[str, Any] = {
        "labels": labels,
        "annotations": {
            "summary": make_printable(page.sentence),
            "incident": str(alert.incident),
            **{label.replace(" ", "_"): make_printable(strip_code(text)) for label, text in facts.items()},
        },
        "startsAt": _rfc3339(since),
        # An end before the begin is refused; a clock that was set back may give one.
        "endsAt": _rfc3339(max(until, since)),
    }
    if page.link:
        document["generatorURL"] = page.link
    return document


def outcome(answer: HttpAnswer) -> Outcome:
    """Interpret Alertmanager's answer."""
    if answer == TAKEN:
        return Success()
    return classify_failure(answer, _quote_error(answer.body), who="Alertmanager")


def _name_alert(page: Page) -> str:
    name = NAME if isinstance(page, SilencePage) else condition_name(page.alert.condition)
    return f"Daggers{name.title().replace(' ', '')}"


def _quote_error(body: str) -> str:
    """Return the error that an answer has: a JSON string, printable and cut; empty without one."""
    try:
        text = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(text, dict):
        text = text.get("message")  # of what checks requests before Alertmanager's own code
    if not isinstance(text, str):
        return ""
    return make_printable(text)[:_QUOTE_LIMIT]


def _rfc3339(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")
