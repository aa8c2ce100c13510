"""Standard Webhooks: a JSON document that is signed; any 2xx but a page for browsers accepts it.

`webhook-id` is the same at every attempt, so a receiver may drop what it has taken already;
`webhook-signature` is HMAC-SHA256 of id, time and body (https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import AfterValidator, Field, SecretStr
from standardwebhooks import Webhook

from fleet.alerts.alert import condition_label, domain_name, severity_name
from fleet.alerts.routing.silences import ENDS_SOON
from health_monitor.receivers import (
    HttpAnswer,
    HttpRequest,
    Outcome,
    ReceiverSettings,
    SecretUrl,
    Success,
    classify_failure,
    is_page,
    json_request,
)
from health_monitor.silence_page import SilencePage

if TYPE_CHECKING:
    from health_monitor.page import Page

IN_SETTINGS: Final = False
PACE: Final = timedelta(milliseconds=100)
TAKEN: Final = HttpAnswer(204)
_EXAMPLE_KEY: Final = "whsec_MfKQ9r8GKYqUTwjUPD8ILPZIo2LaLjSw"
_SHOWN: Final = 100
"""Alerts of a group that a body has, at most."""
_KEY_BYTES: Final = range(24, 65)
"""Lengths of a key by the standard."""


def _check_key(key: SecretStr) -> SecretStr:
    length = len(_decode_key(key.get_secret_value()))
    if length not in _KEY_BYTES:
        raise ValueError(f"it has {length} bytes, not {_KEY_BYTES.start} to {_KEY_BYTES.stop - 1}")
    return key


def _decode_key(text: str) -> bytes:
    if not text.startswith("whsec_"):
        raise ValueError("it does not begin with whsec_")
    try:
        return base64.b64decode(text.removeprefix("whsec_") + "==", validate=True)
    except ValueError:
        raise ValueError("what stands behind whsec_ is no base64") from None


class WebhookSettings(ReceiverSettings):
    """Settings of one endpoint."""

    url: SecretUrl = Field(examples=["https://hooks.example.org/daggers"])
    """URL that is called by POST."""
    key: Annotated[SecretStr, AfterValidator(_check_key)] = Field(examples=[_EXAMPLE_KEY])
    """Key of the signature: whsec_ and 24 to 64 bytes in base64."""


Settings = WebhookSettings


def request(page: Page, settings: WebhookSettings) -> HttpRequest:
    """Build the signed call. Its body is the same at every attempt."""
    call = json_request(settings.url, _document(page))
    time, key = page.attempted_at, settings.key.get_secret_value()
    headers = {
        "webhook-id": page.idempotency_key,
        "webhook-timestamp": str(int(time.timestamp())),
        "webhook-signature": Webhook(key).sign(page.idempotency_key, time, call.body.decode()),
    }
    return HttpRequest(call.url, call.body, headers={**call.headers, **headers})


def outcome(answer: HttpAnswer) -> Outcome:
    """Interpret the answer: the standard takes any 2xx for success."""
    if 200 <= answer.status < 300 and not is_page(answer.body):
        return Success()
    return classify_failure(answer, "", who="an endpoint of webhooks")


def _document(page: Page) -> dict[str, Any]:
    """Build the body: type, time and data, as the standard proposes. Fields without a value are left out."""
    alert, group = page.alert, page.notify.group
    noticed = alert.noticed_at or page.attempted_at
    if isinstance(page, SilencePage):
        time = page.ending.silence.end - ENDS_SOON
        return {"type": "silence.ending", "timestamp": time.isoformat(), "data": page.describe()}
    data = _describe(page)
    if group is not None:
        data |= {
            "dedup_key": page.dedup_key,
            "group": dict(group.labels),
            "firing": len(group.firing),
            "resolved": len(group.resolved),
            "alerts": [_describe(own) for own in page.pages[:_SHOWN]],
        }
    turn = "alert.fired" if alert.firing else "alert.resolved"
    return {
        "type": "receiver.test" if page.notify.is_test else turn,
        "timestamp": noticed.astimezone(UTC).isoformat(),
        "data": data,
    }


def _describe(page: Page) -> dict[str, Any]:
    alert, fired = page.alert, page.fired
    data: dict[str, Any] = {
        "dagger": alert.dagger,
        "condition": condition_label(alert.condition),
        "incident": alert.incident,
        "id": alert.id,
        "dedup_key": fired.dedup_key,
        "severity": severity_name(fired.severity),
        "summary": fired.summary,
        "since": _iso(fired.since),
        "team": fired.team,
        "generation": fired.generation,
        "next": page.facts.get("next", ""),
        "last_change": page.facts.get("last change", ""),
        "acknowledged": page.facts.get("acknowledged", ""),
        "escalated": page.facts.get("escalated", ""),
        "runbook": page.facts.get("runbook", ""),
        "link": page.link,
        "domain": domain_name(fired.domain),
    }
    if alert.rule:
        data |= {"rule": alert.rule, "key": _sort(alert.key), "values": _sort(fired.meta.values)}
    if fired.HasField("value"):
        data |= {"value": fired.value, "limit": fired.limit, "unit": fired.unit}
    if alert.resolved is not None:
        until = alert.until or page.attempted_at
        data |= {"until": until.astimezone(UTC).isoformat(), "resolution": alert.resolved.summary}
    return {key: value for key, value in data.items() if value != ""}


def _sort(values: Mapping[str, str]) -> dict[str, str]:
    """Sort by names: a map of a record has any order, and a body is the same at every attempt."""
    return dict(sorted(values.items()))


def _iso(time: Timestamp) -> str:
    return time.ToDatetime(tzinfo=UTC).isoformat()
