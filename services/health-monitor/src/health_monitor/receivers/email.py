"""Mail by SMTP submission, always under TLS: 250 to the message. Each incident or group is one thread.

`Message-ID` is the same at every attempt, so a mailbox that has the message already may drop a repeat.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from daggers.v1 import alerts_pb2
from pydantic import AfterValidator, Field, SecretStr

from chassis.durations import format_span
from daggerspec.receivers.email import parse_addresses, parse_sender
from fleet.alerts.alert import severity_name
from health_monitor.drawing import HEIGHT, WIDTH, draw
from health_monitor.page import format_time, shorten, strip_code
from health_monitor.receivers import (
    MailAnswer,
    MailRequest,
    Outcome,
    Permanent,
    ReceiverSettings,
    Success,
    Temporary,
    make_printable,
)

if TYPE_CHECKING:
    from health_monitor.page import Page

IN_SETTINGS: Final = False
PACE: Final = timedelta(seconds=1)
TAKEN: Final = MailAnswer(250, "2.0.0 Ok: queued as 12345")
_SUBJECT_LIMIT: Final = 200
_COLOURS: Final = {
    alerts_pb2.ALERT_SEVERITY_CRITICAL: "#b71c1c",
    alerts_pb2.ALERT_SEVERITY_ERROR: "#c62828",
    alerts_pb2.ALERT_SEVERITY_WARNING: "#8a5a00",
}
_CHART: Final = "chart@daggers"
"""Content-ID of the chart (RFC 2392): each message has one at most."""
_URL: Final = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)]")
_CODE: Final = re.compile(r"`([^`]+)`")
_STATUS: Final = re.compile(r"\b[245]\.\d{1,3}\.\d{1,3}\b")


def _check_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text or parts.path.strip("/"):
        raise ValueError("it is not smtp://USER:PASSWORD@HOST:PORT or smtps://…")
    return url


def _check_recipients(text: str) -> str:
    parse_addresses(text)
    return text


class EmailSettings(ReceiverSettings):
    """Settings of one list of recipients."""

    url: Annotated[SecretStr, AfterValidator(_check_url)] = Field(
        examples=["smtp://daggers:PASSWORD@smtp.example.org:587"]
    )
    """Server of submissions: smtp:// is STARTTLS (port 587), smtps:// is TLS from the start (port 465)."""
    to: Annotated[str, AfterValidator(_check_recipients)] = Field(examples=["on-call@example.org"])
    """Addresses of those who are told, comma-separated."""
    sender: Annotated[str, AfterValidator(parse_sender)] = Field(examples=["daggers@example.org"])
    """Address that the message is from."""


Settings = EmailSettings


def request(page: Page, settings: EmailSettings) -> MailRequest:
    """Build the message: plain text, and the same as HTML with the chart in it. What comes from outside is
    printable, so no header can be injected.
    """
    alert, fired = page.alert, page.fired
    head = f"[{severity_name(fired.severity)}]" if alert.resolved is None else "[resolved]"
    recipients = parse_addresses(settings.to)
    message = EmailMessage(policy=SMTP)
    message["Subject"] = shorten(make_printable(f"{head} {page.headline}"), _SUBJECT_LIMIT)
    message["From"] = settings.sender
    message["To"] = ", ".join(recipients)
    message["Date"] = format_datetime(page.attempted_at)
    message["Message-ID"] = f"<{page.idempotency_key}@daggers>"
    message["References"] = f"<{page.incident_key}@daggers>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's out-of-office answers
    # Seven bits and short lines: any server on the way takes it as it is.
    message.set_content("\n".join(_lines(page)) + "\n", cte="quoted-printable")
    message.add_alternative(_build_html(page), "html", cte="quoted-printable")
    message.set_boundary(_boundary(page, "alternative"))
    if page.chart is not None:
        _, html = message.iter_parts()
        html.add_related(
            draw(page.chart),
            "image",
            "png",
            cid=f"<{_CHART}>",
            filename="chart.png",
            disposition="inline",
        )
        html.set_boundary(_boundary(page, "related"))
    return MailRequest(settings.url.get_secret_value(), settings.sender, recipients, message.as_bytes())


def outcome(answer: MailAnswer) -> Outcome:
    """Interpret the server's reply. Only its status codes are quoted, as its text may name addresses."""
    if answer.code == 250:
        return Success()
    status = _STATUS.search(answer.text)
    detail = f"it answered {answer.code}{f' {status.group()}' if status else ''}"
    if answer.code == 421:
        return Temporary("THROTTLED", detail, throttled=True)
    if 400 <= answer.code < 500:
        return Temporary("RECEIVER_ERROR", detail)
    if 500 <= answer.code < 600:
        return Permanent("REFUSED", detail)
    return Temporary("UNEXPECTED_ANSWER", f"{detail}, which is no mail server's reply to a message")


def _list_facts(page: Page) -> list[tuple[str, str]]:
    """List what stands below the sentence: label and text of each, printable."""
    alert, fired = page.alert, page.fired
    since = fired.since.ToDatetime(tzinfo=UTC)
    if alert.resolved is None:
        age = format_span(page.attempted_at - since)
        facts = {"since": f"{format_time(since)}, {age} before this message", **page.facts}
    else:
        ended = f", from {format_time(since)} to {format_time(alert.until)}" if alert.until else ""
        facts = {"it lasted": f"{format_span(alert.lasted)}{ended}", "it was": fired.summary}
    link = {"portal": page.link} if page.link else {}
    return [(label, make_printable(strip_code(text))) for label, text in (facts | page.others | link).items()]


def _footer(page: Page) -> str:
    team = f", team {make_printable(page.fired.team)}" if page.fired.team else ""
    repeat = f", attempt {page.notify.attempt}: an earlier one may have come through"
    return f"{page.reference}{team}{repeat if page.notify.attempt > 1 else ''}"


def _lines(page: Page) -> list[str]:
    chart = [] if page.chart is None else [("chart", page.chart.alternative)]
    facts = [f"{label}: {text}" for label, text in (*_list_facts(page), *chart)]
    return [make_printable(page.sentence), "", *facts, "", _footer(page)]


def _build_html(page: Page) -> str:
    """Build the same as HTML: styles stand at each element, and nothing is loaded from anywhere."""
    colour = _COLOURS.get(page.fired.severity, "#555555") if page.alert.resolved is None else "#2e7d32"
    turn = severity_name(page.fired.severity) if page.alert.resolved is None else "resolved"
    over = " is over" if page.alert.resolved else ""
    rows = "".join(
        f'<tr><td style="padding:2px 12px 2px 0;color:#555555;vertical-align:top;white-space:nowrap">'
        f'{escape(label)}</td><td style="padding:2px 0;overflow-wrap:anywhere">{_link(text)}</td></tr>'
        for label, text in _list_facts(page)
    )
    picture = ""
    if page.chart is not None:
        picture = (
            f'<p><img src="cid:{_CHART}" width="{WIDTH}" height="{HEIGHT}" style="max-width:100%;height:auto"'
            f' alt="{escape(page.chart.alternative)}"></p>'
        )
    return (
        '<!DOCTYPE html><html lang="en"><body style="margin:0;padding:12px;font:14px/1.4 sans-serif;'
        'color:#222222;background:#ffffff"><div style="max-width:640px">'
        f'<p style="margin:0 0 8px"><b style="padding:2px 8px;color:#ffffff;background:{colour}">{turn}</b>'
        f" <b>{_plain(page.alert.dagger)}</b>: {_plain(page.condition)}{over}{page.more}</p>"
        f'<p style="margin:0 0 8px;font-size:17px;overflow-wrap:anywhere">{_plain(page.sentence)}</p>'
        f"{picture}"
        f'<table style="border-collapse:collapse;font-size:14px">{rows}</table>'
        f'<p style="color:#777777">{escape(_footer(page))}</p></div></body></html>\n'
    )


def _boundary(page: Page, kind: str) -> str:
    """Name the boundary of parts: the same at every attempt, and no text of a part, as each writes `=_`
    otherwise (RFC 2045, 6.7).
    """
    return f"=_{page.idempotency_key}_{kind}"


def _plain(text: str) -> str:
    return escape(make_printable(text))


def _link(text: str) -> str:
    """Escape a text; make a link of an address that is all of it or stands at its end, and set commands apart
    that have ` around them.
    """
    match = None if "`" in text else _URL.search(text)
    if match is None or match.end() != len(text):
        return _CODE.sub(r'<code style="background:#f4f4f4">\1</code>', escape(text))
    url = escape(match.group())
    return f'{escape(text[: match.start()])}<a href="{url}" style="color:#1f5fa8">{url}</a>'
