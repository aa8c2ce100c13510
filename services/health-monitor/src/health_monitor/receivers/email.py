"""Mail by SMTP submission, always under TLS: 250 to the message. Each incident or group is one thread.

`Message-ID` is the same at every attempt, so a mailbox that has the message already may drop a repeat.
"""

from __future__ import annotations

import re
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from chassis.durations import format_span
from daggerspec.receivers.email import parse_addresses, parse_sender
from fleet.alerts.alert import severity_name
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
    """Build the message, plain text. What comes from outside is printable, so no header can be injected."""
    alert, fired = page.alert, page.fired
    head = f"[{severity_name(fired.severity)}]" if alert.resolved is None else "[resolved]"
    recipients = parse_addresses(settings.to)
    message = EmailMessage(policy=SMTP)
    several = f"{page.count} alerts, the first: " if page.count > 1 else ""
    subject = f"{head} {several}{alert.dagger}: {page.condition}: {_sentence(page)}"
    message["Subject"] = make_printable(subject)[:_SUBJECT_LIMIT]
    message["From"] = settings.sender
    message["To"] = ", ".join(recipients)
    message["Date"] = format_datetime(page.attempted_at)
    message["Message-ID"] = f"<{page.idempotency_key}@daggers>"
    message["References"] = f"<{page.incident_key}@daggers>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's out-of-office answers
    # Seven bits and short lines: any server on the way takes it as it is.
    message.set_content("\n".join(_lines(page)) + "\n", cte="quoted-printable")
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


def _sentence(page: Page) -> str:
    return page.fired.summary if page.alert.resolved is None else page.alert.resolved.summary


def _lines(page: Page) -> list[str]:
    alert, fired = page.alert, page.fired
    lines = [make_printable(_sentence(page)), ""]
    if alert.resolved is None:
        lines.append(f"since: {fired.since.ToJsonString()}")
        lines += [f"{label}: {make_printable(text)}" for label, text in page.facts.items()]
    else:
        lines += [f"it lasted: {format_span(alert.lasted)}", f"it was: {make_printable(fired.summary)}"]
    lines += [f"{label}: {make_printable(text)}" for label, text in page.others.items()]
    if page.link:
        lines.append(f"page: {page.link}")
    team = f", team {make_printable(fired.team)}" if fired.team else ""
    repeat = f", attempt {page.notify.attempt}: an earlier one may have come through"
    lines += ["", f"incident {alert.incident}{team}{repeat if page.notify.attempt > 1 else ''}"]
    return lines
