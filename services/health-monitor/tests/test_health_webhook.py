"""Notifications over real HTTP to a real local server, in good health and in bad."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2
from hypothesis import given as for_all
from hypothesis import strategies as st
from pydantic import SecretStr
from tests.contracts.webhooks import WebhooksContract

from chassis.egress.addresses import EgressRules
from fleet.alerts.alert import Alert, Notify, evolve
from health_monitor.deliver.webhook import Channel, Webhooks, retry_after
from health_monitor.page import Page
from health_monitor.receiver import AlertReceiver, ReceivedCall, event_errors
from health_monitor.receivers import Outcome, Permanent, Success, Temporary, pagerduty, slack

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROUTING_KEY = "0123456789abcdef0123456789abcdef"
CANARY = "canary-of-the-webhook"


def notify(
    *, summary: str = "it was given up", resolved: bool = False, attempt: int = 1, team: str = "pricing"
) -> Notify:
    meta = alerts_pb2.AlertMeta(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key="daggers/bookings/failed",
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary=summary,
        generation=7,
        team=team,
        receivers=["slack"],
    )
    fired.since.FromDatetime(NOON)
    alert = evolve(Alert(dagger="bookings", condition=meta.condition), fired, NOON)
    if resolved:
        over = alerts_pb2.AlertResolved(meta=meta, summary="it runs again")
        over.until.FromDatetime(NOON + timedelta(minutes=2, seconds=43))
        alert = evolve(alert, over, NOON + timedelta(minutes=3))
    return Notify(alert, "slack", attempt)


def key(url: str = "https://pagerduty.example") -> pagerduty.Settings:
    return pagerduty.Settings(url=SecretStr(url), routing_key=SecretStr(ROUTING_KEY))


def slack_text(notice: Notify) -> str:
    body = slack.request(Page(notice), slack.Settings(url=SecretStr("https://slack.example"))).body
    text: str = json.loads(body)["text"]
    return text


def answering(
    response: Callable[[], web.Response],
) -> Callable[[ReceivedCall], Awaitable[web.StreamResponse]]:
    async def misbehave(_: ReceivedCall) -> web.StreamResponse:
        return response()

    return misbehave


async def send(
    kind: Any,
    misbehave: Any = None,
    *,
    notice: Notify | None = None,
    timeout_s: float = 5,
    allow: bool = True,
) -> tuple[Outcome, list[str], list[ReceivedCall]]:
    """What became of a notification, what a person was shown, and what the server got."""
    shown: list[str] = []
    arguments = {} if misbehave is None else {"misbehave": misbehave}
    async with AlertReceiver(show=shown.append, **arguments) as receiver:
        webhooks = Webhooks(
            EgressRules.parse(f"127.0.0.1:{receiver.port}" if allow else ""),
            timeout=timedelta(seconds=timeout_s),
        )
        channel = (
            Channel("slack", slack, slack.Settings(url=SecretStr(f"{receiver.slack_url}?{CANARY}")))
            if kind is slack
            else Channel("pagerduty", pagerduty, key(receiver.pagerduty_url))
        )
        outcome = await webhooks.send(channel, notice or notify(), now=NOON)
    return outcome, shown, receiver.received


class Listening:
    """A real receiver that is well or in trouble."""

    def __init__(self) -> None:
        self.told, self._trouble = 0, ""
        self.receiver = AlertReceiver(show=lambda _: None, misbehave=self._misbehave)

    async def _misbehave(self, _: ReceivedCall) -> web.StreamResponse | None:
        if self._trouble == "failing":
            return web.Response(status=503)
        if self._trouble == "throttling":
            return web.Response(status=429, headers={"Retry-After": "20"})
        self.told += 1
        if self._trouble == "late":
            await asyncio.Event().wait()
        return None

    async def send(self, notify: Notify, trouble: str) -> Outcome:
        self._trouble = trouble
        listed = EgressRules.parse(f"127.0.0.1:{self.receiver.port}")
        webhooks = Webhooks(listed, timeout=timedelta(seconds=1 if trouble == "late" else 30))
        return await webhooks.send(
            Channel("slack", slack, slack.Settings(url=SecretStr(self.receiver.slack_url))), notify, now=NOON
        )


class TestWebhooks(WebhooksContract):
    @pytest.fixture
    async def outside(self) -> AsyncIterator[Listening]:
        made = Listening()
        async with made.receiver:
            yield made


async def test_slack_takes_what_fired() -> None:
    outcome, shown, _ = await send(slack)

    assert outcome == Success()
    assert "*bookings*: critical, failed" in shown[0]
    assert "it was given up" in shown[0]


async def test_slack_gets_the_time_for_its_readers_time_zone_and_a_person_reads_it() -> None:
    _, shown, received = await send(slack, notice=notify(summary="a < b"))

    assert (
        "since <!date^1767268800^{date_short_pretty} {time_secs}|2026-01-01T12:00:00Z>"
        in received[0].body["text"]
    )
    assert ("a < b" in shown[0], "since 2026-01-01T12:00:00Z" in shown[0]) == (True, True)


async def test_slack_is_told_how_long_it_lasted() -> None:
    _, shown, _ = await send(slack, notice=notify(resolved=True))

    assert "resolved, was: failed" in shown[0]
    assert "it lasted 2 min 43 s; it was: it was given up" in shown[0]


async def test_pagerduty_is_told_since_when_and_which_incident_of_which_launch() -> None:
    _, _, received = await send(pagerduty)
    payload = received[0].body["payload"]

    assert payload["timestamp"] == "2026-01-01T12:00:00Z"
    assert (payload["custom_details"]["incident"], payload["custom_details"]["generation"]) == (1, 7)


async def test_slack_is_told_which_incident_and_attempt_it_is() -> None:
    _, shown, _ = await send(slack, notice=notify(attempt=3))

    assert "incident 1, team pricing, attempt 3: an earlier one may have come through" in shown[0]


async def test_pagerduty_takes_what_fired_and_what_is_over_under_one_key() -> None:
    fired, _, triggered = await send(pagerduty)
    over, _, resolved = await send(pagerduty, notice=notify(resolved=True))

    assert (fired, over) == (Success(), Success())
    assert [
        (request.body["event_action"], request.body["dedup_key"]) for request in triggered + resolved
    ] == [
        ("trigger", "daggers/bookings/failed"),
        ("resolve", "daggers/bookings/failed"),
    ]


async def test_what_slack_says_is_shown_when_it_is_one_of_its_words() -> None:
    outcome, _, _ = await send(slack, answering(lambda: web.Response(status=404, text="channel_not_found")))

    assert outcome == Permanent("REFUSED", "it answered 404: channel_not_found")


async def test_what_pagerduty_says_is_shown_without_the_routing_key() -> None:
    said = web.json_response({"errors": [f"no such key {ROUTING_KEY}"]}, status=400)
    outcome, _, _ = await send(pagerduty, answering(lambda: said))

    assert outcome == Permanent("REFUSED", "it answered 400: no such key ***")


async def test_a_200_that_is_not_slacks_is_not_believed() -> None:
    outcome, _, _ = await send(slack, answering(lambda: web.Response(text="<html>sign in</html>")))

    assert outcome == Temporary("UNEXPECTED_ANSWER", "it answered 200, but not as Slack does")


async def test_a_receiver_that_hangs_is_left_in_time() -> None:
    gone = asyncio.Event()

    async def hang(_: ReceivedCall) -> None:
        await gone.wait()

    outcome, _, received = await send(pagerduty, hang, timeout_s=2)

    assert outcome == Temporary("TIMEOUT", "it did not answer in 2 s; it may have it all the same")
    assert len(received) == 1


async def test_nobody_listening_is_tried_again() -> None:
    async with AlertReceiver(show=print) as receiver:
        url = receiver.slack_url
    outcome = await Webhooks(EgressRules.parse("127.0.0.1")).send(
        Channel("slack", slack, slack.Settings(url=SecretStr(url))), notify(), now=NOON
    )

    assert outcome == Temporary("NOT_REACHED", "it could not be reached (ConnectError)")


async def test_loopback_is_refused_unless_it_is_listed_and_no_secret_is_told() -> None:
    outcome, _, received = await send(slack, allow=False)

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, received) == ("ADDRESS_REFUSED", [])
    assert CANARY not in outcome.detail


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30),
        ("0.5", 0.5),
        ("Thu, 01 Jan 2026 12:01:00 GMT", 60),
        ("999999999999", 3600),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str, seconds: float | None) -> None:
    assert retry_after(header, NOON) == (None if seconds is None else timedelta(seconds=seconds))


@for_all(st.text())
def test_any_retry_after_is_survived(header: str) -> None:
    wait = retry_after(header, NOON)

    assert wait is None or timedelta() <= wait <= timedelta(hours=1)


# ---- Payloads ----------------------------------------------------------------------------------------------


@for_all(summary=st.text(max_size=500), team=st.text(max_size=100), resolved=st.booleans())
def test_slack_gets_no_mention_no_link_and_no_line_from_what_others_wrote(
    summary: str, team: str, *, resolved: bool
) -> None:
    mine = slack_text(notify(summary="", team="t" if team else "", resolved=resolved))
    text = slack_text(notify(summary=summary, team=team, resolved=resolved))

    assert (text.count("<"), text.count("\n")) == (mine.count("<"), mine.count("\n"))
    assert len(text) <= 4_000


@for_all(st.text(min_size=1, max_size=3_000), st.text(max_size=100))
def test_whatever_is_said_pagerduty_would_take_it(summary: str, team: str) -> None:
    body = pagerduty.request(Page(notify(summary=summary, team=team)), key()).body

    assert event_errors(json.loads(body), size=len(body)) == []


def test_a_repeat_says_that_it_may_be_one() -> None:
    text = slack_text(notify(attempt=3))

    assert "attempt 3: an earlier one may have come through" in text
