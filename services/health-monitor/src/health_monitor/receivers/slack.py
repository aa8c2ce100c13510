"""Slack incoming webhooks: 200 `ok`, at most one message a second for each channel, `& < >` escaped."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from daggers.v1 import alerts_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import Field, SecretStr

from chassis.durations import format_span
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
PACE: Final = timedelta(seconds=1)
TAKEN: Final = HttpAnswer(200, "ok")
BUTTON: Final = "daggers_acknowledge"
"""Name of the button's action, by which a callback knows that it is ours."""
_TEXT_LIMIT: Final = 4_000
_SECTION_LIMIT: Final = 3_000
_ERROR: Final = re.compile(r"[a-z_]{1,60}")
_MARKS: Final = {
    alerts_pb2.ALERT_SEVERITY_CRITICAL: ":rotating_light:",
    alerts_pb2.ALERT_SEVERITY_ERROR: ":red_circle:",
    alerts_pb2.ALERT_SEVERITY_WARNING: ":warning:",
}


class Settings(ReceiverSettings):
    """Settings of one channel."""

    url: SecretUrl = Field(examples=["https://hooks.slack.com/services/T0/B0/XXXXXXXX"])
    """Slack incoming webhook."""
    signing_secret: SecretStr | None = None
    """Secret that the app signs its requests with, for [callbacks](#acknowledge-where-you-are-told): messages
    have a button with it."""


def request(page: Page, settings: Settings) -> HttpRequest:
    """Build the message. It names incident and attempt, so that a reader recognises one that came twice."""
    alert, fired, notify = page.alert, page.fired, page.notify
    if alert.resolved is None:
        head = f"{_MARKS.get(fired.severity, '')} *{alert.dagger}*: {escape(page.condition)}"
        head += f" and {page.count - 1} more" if page.count > 1 else ""
        facts = [f"{label}: {escape(text)}" for label, text in page.facts.items()]
        lines = [head, escape(fired.summary), f"since {_time(fired.since)}", *facts]
    else:
        head = f":white_check_mark: *{alert.dagger}*: resolved, {escape(page.condition)}"
        lines = [
            head,
            escape(alert.resolved.summary),
            f"it lasted {format_span(alert.lasted)}; it was: {escape(fired.summary)}",
        ]
    lines += [f"{label}: {escape(text)}" for label, text in page.others.items()]
    footer = f"incident {alert.incident}"
    if fired.team:
        footer += f", team {escape(fired.team)}"
    if notify.group is not None and notify.group.number > 1:
        footer += f", notice {notify.group.number}"
    if notify.attempt > 1:
        footer += f", attempt {notify.attempt}: an earlier one may have come through"
    if page.link:
        footer += f", <{page.link}|portal>"
    message: dict[str, Any] = {"text": _cut("\n".join([*lines, footer]))}
    if settings.signing_secret is not None and page.needs_acknowledgement:
        message["blocks"] = [*build_sections(message["text"]), _build_button(page)]
    return json_request(settings.url, message)


def build_sections(text: str) -> list[dict[str, Any]]:
    """Build the blocks of a text, each of whole lines and _SECTION_LIMIT characters at most."""
    parts = [""]
    for whole in text.split("\n"):
        line = whole if len(whole) <= _SECTION_LIMIT else whole[:_SECTION_LIMIT].rpartition(" ")[0]
        if len(parts[-1]) + len(line) >= _SECTION_LIMIT:
            parts.append("")
        parts[-1] += f"\n{line}" if parts[-1] else line
    return [{"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in parts if part]


def _build_button(page: Page) -> dict[str, Any]:
    group = page.notify.group
    value = {
        "receiver": page.notify.receiver,
        "key": page.dedup_key,
        "incident": page.alert.id if group is None else "",
    }
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Acknowledge"},
        "action_id": BUTTON,
        "value": json.dumps(value),
    }
    return {"type": "actions", "elements": [button]}


def is_accepted(answer: HttpAnswer) -> bool:
    """Tell whether Slack has the message: 200, and a body of `ok` alone."""
    return answer.status == 200 and answer.body.strip() == "ok"


def outcome(answer: HttpAnswer) -> Outcome:
    """Interpret Slack's answer. Only its own error words are quoted, as others may be of a proxy."""
    if is_accepted(answer):
        return Success()
    word = answer.body.strip()
    return classify_failure(answer, word if _ERROR.fullmatch(word) else "", who="Slack")


def escape(text: str) -> str:
    """Escape text so that Slack shows it unchanged: no mention, no link, no control character."""
    plain = make_printable(text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(time: Timestamp) -> str:
    """Format a time so that Slack shows it in the reader's time zone."""
    return f"<!date^{time.seconds}^{{date_short_pretty}} {{time_secs}}|{time.ToJsonString()}>"


def _cut(text: str) -> str:
    """Cut text to _TEXT_LIMIT characters at the end of a line, so never in the middle of an escape."""
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT].rpartition("\n")[0]
