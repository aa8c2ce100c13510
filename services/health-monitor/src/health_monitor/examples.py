"""Messages of an example incident, as docs/receivers.md shows them, by kind of receiver. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Final

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import Alert, Notify, dedup_key_of, evolve
from health_monitor.page import Page
from health_monitor.receivers import MailRequest, Receiver

_NOON: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_PORTAL: Final = "https://daggers.example.org"
_META: Final = alerts_pb2.AlertMeta(
    dagger="api_calls",
    condition=alerts_pb2.ALERT_CONDITION_RULE,
    incident=3,
    rule="api_errors",
    key={"tag_api": "pay"},
    values={"error_rate": "0.081", "requests": "4210"},
)


def write_messages(kind: Receiver) -> list[tuple[str, str]]:
    """Write what a kind is sent when a rule fires and when it is over: a name and a text for each."""
    fired = _fire()
    over = alerts_pb2.AlertResolved(meta=_META, summary="api_errors is over: error_rate 0.011, requests 4102")
    over.until.FromDatetime(_NOON + 12 * _MINUTE)
    resolved = evolve(fired, over, _NOON + 13 * _MINUTE)
    return [
        ("fires", _write(kind, fired, _NOON + _MINUTE)),
        ("is over", _write(kind, resolved, _NOON + 13 * _MINUTE)),
    ]


def _fire() -> Alert:
    event = alerts_pb2.AlertFired(
        meta=_META,
        dedup_key=dedup_key_of(_META),
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary="pay: 8.1% of 4,210 calls fail",
        generation=41,
        team="pricing",
        value=0.081,
        limit=0.05,
        unit="number",
        next="Read https://wiki.example.org/api-errors",
        last_change=alerts_pb2.LastChange(revision=7, actor="user:ada@example.org"),
    )
    event.since.FromDatetime(_NOON)
    event.last_change.time.FromDatetime(_NOON - 4 * _MINUTE)
    before = Alert(
        dagger=_META.dagger, condition=_META.condition, rule=_META.rule, key=dict(_META.key), incident=2
    )
    return evolve(before, event, _NOON + _MINUTE)


def _write(kind: Receiver, alert: Alert, time: datetime) -> str:
    fields = kind.Settings.model_fields.items()
    given: dict[str, Any] = {name: info.examples[0] for name, info in fields if info.examples}
    request = kind.request(Page(Notify(alert, "pricing", 1), _PORTAL, time), kind.Settings(**given))
    if isinstance(request, MailRequest):
        mail = message_from_bytes(request.message, _class=EmailMessage, policy=default)
        text = mail.get_body(("plain",))
        assert text is not None
        return f"{mail['Subject'].strip()}\n\n{text.get_content().strip()}"
    if request.headers.get("content-type") != "application/json":
        return request.body.decode()
    document = json.loads(request.body)
    if isinstance(document, dict) and document.keys() == {"text"}:
        return str(document["text"])
    return json.dumps(document, indent=2, ensure_ascii=False)
