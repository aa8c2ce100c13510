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
from fleet.alerts.alert import severity_name
from health_monitor.page import shorten
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
_LINE_LIMIT: Final = 1_000
_ESCAPE_LENGTH: Final = len("&amp;")
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
        mark, turn = _MARKS.get(fired.severity, ""), f"{severity_name(fired.severity)},"
        lines = [f"since {_time(fired.since)}"]
        facts = page.facts | page.others
    else:
        mark, turn = ":white_check_mark:", "resolved, was:"
        lines = [f"it lasted {format_span(alert.lasted)}; it was: {_escape_within(fired.summary)}"]
        facts = page.others
    head = f"{mark} *{escape(alert.dagger)}*: {turn} {_escape_within(page.condition)}{page.more}"
    lines = [head, _escape_within(page.sentence), *lines]
    footer = page.reference
    if fired.team:
        footer += f", team {escape(fired.team)}"
    if notify.group is not None and notify.group.number > 1:
        footer += f", notice {notify.group.number}"
    if notify.attempt > 1:
        footer += f", attempt {notify.attempt}: an earlier one may have come through"
    if page.link:
        footer += f", <{page.link}|portal>"
    texts = [f"{label}: {_escape_within(text)}" for label, text in facts.items()]
    message: dict[str, Any] = {"text": _join(lines, texts, footer)}
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


def _escape_within(text: str) -> str:
    """Escape text, and cut it before that where it would be longer than _LINE_LIMIT: never in an escape."""
    escaped = escape(text)
    return escaped if len(escaped) <= _LINE_LIMIT else escape(shorten(text, _LINE_LIMIT // _ESCAPE_LENGTH))


def _join(head: list[str], facts: list[str], footer: str) -> str:
    """Join the lines, within _TEXT_LIMIT: head and footer stay, of the facts the last are left out first."""
    room = _TEXT_LIMIT - len("\n".join([*head, "", footer])) - len("…\n")
    lines = list[str]()
    for fact in facts:
        room -= len(fact) + 1
        if room < 0:
            lines.append("…")
            break
        lines.append(fact)
    return "\n".join([*head, *lines, footer])
