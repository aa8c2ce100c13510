"""Messages of every kind keep to what receivers take, and to what on-call needs, at every receiver."""

from __future__ import annotations

import json
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from tests.messages.message_cases import MessageCase, list_cases
from tests.messages.message_sheets import build_request, draw_mrkdwn, draw_sheet

from health_monitor.receiver import event_errors
from health_monitor.receivers import HttpRequest, MailRequest

CASES = [pytest.param(case, id=case.name) for case in list_cases()]
every_case = pytest.mark.parametrize("case", CASES)


def body_of(kind: str, case: MessageCase) -> Any:
    request = build_request(kind, case.page)
    assert isinstance(request, HttpRequest)
    return json.loads(request.body)


def mail_of(case: MessageCase) -> EmailMessage:
    request = build_request("email", case.page)
    assert isinstance(request, MailRequest)
    return message_from_bytes(request.message, _class=EmailMessage, policy=default)


@every_case
def test_slack_shows_the_dagger_first_and_the_reference_and_link_last(case: MessageCase) -> None:
    text = body_of("slack", case)["text"]
    lines = text.split("\n")

    assert len(text) <= 4_000
    assert f"*{case.page.alert.dagger}*: " in lines[0]
    assert lines[-1].startswith(case.page.reference)
    assert f"<{case.page.link}|portal>" in lines[-1]
    assert "<!channel" not in text


@every_case
def test_a_sheet_has_each_receiver_that_is_sent_it(case: MessageCase) -> None:
    sheet = draw_sheet(case.name, case.page)

    assert ("<h2>pagerduty</h2>" in sheet) == (case.name != "silence-ends")
    assert all(f"<h2>{kind}</h2>" in sheet for kind in ("slack", "email", "webhook", "alertmanager"))


def test_the_end_of_a_silence_is_said_with_what_it_holds_back_and_how_to_go_on() -> None:
    page = next(case.page for case in list_cases() if case.name == "silence-ends")

    assert page.sentence == (
        "the silence of dagger=bookings_* severity!=critical ends at 2026-01-31 03:10:00 UTC, and holds back"
        " 5 open alerts"
    )
    assert list(page.facts) == ["silenced by", "reason", "it holds back", "next", "runbook"]
    assert page.facts["next"] == (
        "`daggers alerts silence 'dagger=bookings_*' 'severity!=critical' --team pricing --for 2h --reason"
        " 'new disk on host 2'` goes on with it for 2h"
    )
    assert page.facts["it holds back"].endswith("; 2 more")
    assert page.link == "https://daggers.example.org/silences"


def test_programs_get_the_end_of_a_silence_as_what_it_is() -> None:
    case = next(case for case in list_cases() if case.name == "silence-ends")
    called, (alert,) = body_of("webhook", case), body_of("alertmanager", case)

    assert (called["type"], called["data"]["silence"], called["data"]["alerts"]) == (
        "silence.ending", "pricing/1f3c9a0b52", 5,
    )  # fmt: skip
    assert called["timestamp"] == "2026-01-31T02:55:00+00:00"
    assert alert["labels"]["alertname"] == "DaggersSilenceEnds"
    assert alert["endsAt"] == "2026-01-31T03:10:00.000+00:00"


@every_case
def test_pagerduty_takes_it(case: MessageCase) -> None:
    event = body_of("pagerduty", case)

    assert event_errors(event, size=len(json.dumps(event))) == []


@every_case
def test_both_parts_of_a_mail_have_every_fact_and_nothing_unprintable(case: MessageCase) -> None:
    mail = mail_of(case)
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    labels = [*(case.page.facts if case.page.alert.firing else {}), *case.page.others]

    assert [label for label in labels if f"\n{label}: " not in text.get_content().replace("\r", "")] == []
    assert [label for label in labels if f">{label}</td>" not in html.get_content()] == []
    assert all(character.isprintable() or character in "\r\n" for character in text.get_content())
    assert len(mail["Subject"]) <= 200


@every_case
def test_annotations_of_alertmanager_are_printable(case: MessageCase) -> None:
    annotations = [text for alert in body_of("alertmanager", case) for text in alert["annotations"].values()]

    assert [text for text in annotations if not text.isprintable()] == []


@every_case
def test_what_is_over_says_nothing_of_what_to_do(case: MessageCase) -> None:
    if case.page.alert.firing:
        assert case.page.notify.is_test or "next: " in body_of("slack", case)["text"]
    else:
        assert "next: " not in body_of("slack", case)["text"]
        assert all("next" not in alert["annotations"] for alert in body_of("alertmanager", case))


def test_slacks_markup_is_drawn_as_slack_draws_it() -> None:
    text = ":warning: *bookings*: a &lt;b&gt; `daggers get`\n<!date^0^{date_short_pretty} {time_secs}|x>, <https://a|b>"

    assert draw_mrkdwn(text) == (
        '<span style="color: gold">●</span> <b>bookings</b>: a &lt;b&gt; <code>daggers get</code>'
        '<br>Jan 1, 1970 12:00:00 AM, <a href="https://a">b</a>'
    )
