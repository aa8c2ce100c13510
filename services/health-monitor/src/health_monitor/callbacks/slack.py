"""Slack's interactivity requests: a form with a JSON payload, signed by `v0=` HMAC-SHA256 of time and body.

An app has one address for all of its channels, so the button says which receiver it was sent by: the secret
of that one verifies the request.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import SecretStr

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
from health_monitor.receivers import HttpRequest, json_request, slack

SIGNED_BY: Final = "signing_secret"
_KIND: Final = "slack"
_OLDEST: Final = timedelta(minutes=5)
"""A request that is older may be one that somebody recorded, as Slack says."""
_LONGEST_TIME: Final = 12
_MOST_FIELDS: Final = 10


def find_receiver(request: CallbackRequest) -> str:
    """Return the receiver that the button names. Raises: UnreadableCallbackError."""
    receiver = get_text(_read_value(_read_payload(request.body)), "receiver")
    if receiver.rpartition("/")[2] != _KIND:
        raise UnreadableCallbackError("its button names no receiver of Slack")
    return receiver


def is_signed(request: CallbackRequest, secret: str, now: datetime) -> bool:
    """Tell whether the signature is that of time and body, and the time is not five minutes away from now."""
    text = request.headers.get("x-slack-request-timestamp", "")
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_TIME:
        return False
    expected = f"v0={sign(secret, b'v0:' + text.encode() + b':' + request.body)}"
    is_fresh = abs(now.timestamp() - int(text)) <= _OLDEST.total_seconds()
    return is_same(request.headers.get("x-slack-signature", ""), expected) and is_fresh


def read(request: CallbackRequest, receiver: str, now: datetime) -> Callback | None:
    """Read a click on the button. Raises: UnreadableCallbackError."""
    payload = _read_payload(request.body)
    value, user = _read_value(payload), get_object(payload, "user")
    key, incident = get_text(value, "key"), get_text(value, "incident")
    clicked = _find_action(payload).get("action_ts")
    return Callback(
        id=f"{user.get('id')}/{clicked}/{incident}/{key}",  # who clicks again does it at another time
        receiver=receiver,
        dedup_key=key,
        incident=incident,
        time=now,
        actor=name_actor(_KIND, user.get("id"), user.get("name") or user.get("username")),
        message=payload,
    )


def reply(callback: Callback, detail: str, *, is_acknowledged: bool) -> HttpRequest | None:
    """Put who acknowledged in place of the button; of anything else tell the person alone."""
    payload = callback.message
    address, message = payload.get("response_url"), payload.get("message")
    if not isinstance(address, str) or not address.startswith(("https://", "http://")):
        return None
    url, text = SecretStr(address), slack.escape(detail)
    if not is_acknowledged or not isinstance(message, dict):
        note = {"response_type": "ephemeral", "replace_original": False, "text": text}
        return json_request(url, note)
    blocks = message.get("blocks")
    others = [block for block in blocks if not _has_button(block)] if isinstance(blocks, list) else []
    context = {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}
    document = {"replace_original": True, "text": message.get("text", ""), "blocks": [*others, context]}
    return json_request(url, document)


def _read_payload(body: bytes) -> dict[str, Any]:
    try:
        [text] = parse_qs(body.decode(), max_num_fields=_MOST_FIELDS)["payload"]
    except (ValueError, KeyError):
        raise UnreadableCallbackError("it is no form with a payload") from None
    payload = parse_object(text)
    if payload.get("type") != "block_actions":
        raise UnreadableCallbackError("it is no click on a button")
    return payload


def _find_action(payload: dict[str, Any]) -> dict[str, Any]:
    actions = payload.get("actions")
    for action in actions if isinstance(actions, list) else []:
        if isinstance(action, dict) and action.get("action_id") == slack.BUTTON:
            return action
    raise UnreadableCallbackError("it is no click on a button of Daggers")


def _read_value(payload: dict[str, Any]) -> dict[str, Any]:
    return parse_object(get_text(_find_action(payload), "value"))


def _has_button(block: Any) -> bool:
    elements = block.get("elements") if isinstance(block, dict) else None
    return isinstance(elements, list) and any(
        isinstance(element, dict) and element.get("action_id") == slack.BUTTON for element in elements
    )
