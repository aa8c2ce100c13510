"""PagerDuty's webhooks, version 3: an event of an incident, signed by `v1=` HMAC-SHA256 of the body.

There are several signatures while the secret is replaced; one that matches is enough. Events of people count:
an incident that Daggers itself, or a rule of PagerDuty's, acknowledged is nobody's.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from daggerspec import receivers
from health_monitor.callbacks import (
    Callback,
    CallbackRequest,
    UnreadableCallbackError,
    get_object,
    get_text,
    is_same,
    name_actor,
    parse_object,
    sign,
)

SIGNED_BY: Final = "webhook_secret"
_KIND: Final = "pagerduty"
_MOST_SIGNATURES: Final = 8
_ACKNOWLEDGED: Final = "incident.acknowledged"
_UNACKNOWLEDGED: Final = "incident.unacknowledged"
_PERSONS: Final = frozenset({"user", "user_reference"})


def find_receiver(request: CallbackRequest) -> str:
    """Return the receiver of the team in the path: an event names none. Raises: UnreadableCallbackError."""
    if not request.team:
        raise UnreadableCallbackError("its path names no team: /callbacks/pagerduty/TEAM")
    return receivers.name(request.team, _KIND)


def is_signed(request: CallbackRequest, secret: str, now: datetime) -> bool:
    """Tell whether one of the signatures is that of the body."""
    expected = f"v1={sign(secret, request.body)}"
    signatures = request.headers.get("x-pagerduty-signature", "").split(",")[:_MOST_SIGNATURES]
    return any(is_same(signature.strip(), expected) for signature in signatures)


def read(request: CallbackRequest, receiver: str, now: datetime) -> Callback | None:
    """Read an event. None: of another type, not of a person, or of an incident without a key.

    Raises: UnreadableCallbackError.
    """
    event = get_object(parse_object(request.body), "event")
    kind = event.get("event_type")
    if kind not in (_ACKNOWLEDGED, _UNACKNOWLEDGED):
        return None
    agent = event.get("agent")
    is_person = isinstance(agent, dict) and agent.get("type") in _PERSONS
    key = get_object(event, "data").get("incident_key")
    # Acknowledgements end by themselves, too: that has no agent.
    if not isinstance(key, str) or not key or (kind == _ACKNOWLEDGED and not is_person):
        return None
    person = agent if isinstance(agent, dict) and is_person else {}
    return Callback(
        id=get_text(event, "id"),
        receiver=receiver,
        dedup_key=get_text(event["data"], "incident_key"),
        time=_parse_time(event.get("occurred_at")),
        actor=name_actor(_KIND, person.get("id"), person.get("summary")) if person else _KIND,
        is_taken_back=kind == _UNACKNOWLEDGED,
    )


def reply(callback: Callback, detail: str, *, is_acknowledged: bool) -> None:
    """Build no reply: PagerDuty shows who acknowledged by itself."""


def _parse_time(text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise UnreadableCallbackError("its event has no time, occurred_at") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
