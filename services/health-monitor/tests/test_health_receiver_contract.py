"""What every kind of receiver keeps to. A new file in `health_monitor/receivers` is found by its existing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2
from hypothesis import given as for_all
from hypothesis import strategies as st

from chassis.egress.addresses import EgressRules
from fleet.alerts.alert import Alert, Notify, evolve
from health_monitor import receivers
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.page import Page
from health_monitor.receivers import (
    HttpAnswer,
    HttpRequest,
    Permanent,
    Receiver,
    ReceiverSettings,
    Success,
    Temporary,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CANARY = "canary-of-the-address"
KINDS = {name: receivers.kind(name) for name in receivers.names()}
BY_STATUS = {"webhook"}
"""Kinds whose standard takes any 2xx for success, whatever stands in the body."""


def each(names: set[str]) -> Any:
    return pytest.mark.parametrize("kind", [pytest.param(KINDS[name], id=name) for name in sorted(names)])


OVER_HTTP = {name for name, kind in KINDS.items() if isinstance(kind.TAKEN, HttpAnswer)}
every_kind = each(set(KINDS))
every_http_kind = each(OVER_HTTP)
every_kind_with_a_word_of_its_own = each(OVER_HTTP - BY_STATUS)


def example(kind: Receiver, url: str = "") -> ReceiverSettings:
    """Settings of a kind as its own examples have them, at another address, with the canary in its secret."""
    over_http = isinstance(kind.TAKEN, HttpAnswer)
    url = url or (
        f"https://receiver.example/{CANARY}" if over_http else f"smtp://daggers:{CANARY}@mail.example"
    )
    fields = kind.Settings.model_fields
    return kind.Settings(
        **{name: info.examples[0] for name, info in fields.items() if info.examples} | {"url": url}
    )


def notify(*, resolved: bool) -> Notify:
    meta = alerts_pb2.AlertMeta(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=41)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key="daggers/bookings/failed",
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary="it was given up",
    )
    alert = evolve(Alert(dagger="bookings", condition=meta.condition, incident=40), fired, NOON)
    if resolved:
        alert = evolve(alert, alerts_pb2.AlertResolved(meta=meta, summary="it runs again"), NOON)
    return Notify(alert, "team", 1)


@asynccontextmanager
async def answering(
    answer: HttpAnswer, headers: dict[str, str]
) -> AsyncIterator[tuple[int, list[web.Request]]]:
    """A server on loopback that answers everything so: its port, and what came."""
    came: list[web.Request] = []

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        came.append(request)
        return web.Response(status=answer.status, text=answer.body, headers=headers)

    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], came
    finally:
        await runner.cleanup()


async def told(kind: Receiver, answer: HttpAnswer, **headers: str) -> tuple[Any, list[web.Request]]:
    """What became of a notification over real HTTP, and what came."""
    async with answering(answer, headers) as (port, came):
        channel = Channel("team", kind, example(kind, f"http://127.0.0.1:{port}/{CANARY}"))
        outcome = await Webhooks(EgressRules.parse("127.0.0.1")).send(
            channel, notify(resolved=False), now=NOON
        )
    return outcome, came


@every_kind
@pytest.mark.parametrize("resolved", [False, True])
def test_a_request_goes_where_it_is_told_and_names_the_dagger(kind: Receiver, resolved: bool) -> None:
    settings = example(kind)
    request = kind.request(Page(notify(resolved=resolved), attempted_at=NOON), settings)

    assert request.url.startswith(settings.url.get_secret_value())
    assert b"bookings" in (request.body if isinstance(request, HttpRequest) else request.message)


@every_kind
def test_another_attempt_is_the_same_message_to_who_has_it_already(kind: Receiver) -> None:
    """Build the same call twice: what receivers know a repeat by differs between notices alone."""
    settings = example(kind)
    first, again = (
        kind.request(Page(replace(notify(resolved=False), attempt=1), attempted_at=NOON), settings)
        for _ in range(2)
    )

    assert first == again


@every_http_kind
async def test_what_is_taken_is_sent_once_with_the_body_as_it_is(kind: Receiver) -> None:
    outcome, came = await told(kind, kind.TAKEN)

    page = Page(notify(resolved=False), attempted_at=NOON)
    request = kind.request(page, example(kind, f"http://{came[0].host}/{CANARY}"))
    assert isinstance(request, HttpRequest)
    assert (outcome, len(came), came[0].method, str(came[0].url), await came[0].read()) == (
        Success(),
        1,
        request.method,
        request.url,
        request.body,
    )


@every_http_kind
async def test_429_waits_as_asked_and_stops_everything_to_that_receiver(kind: Receiver) -> None:
    outcome, _ = await told(kind, HttpAnswer(429, "rate_limited"), **{"Retry-After": "30"})

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, outcome.after, outcome.throttled) == ("THROTTLED", timedelta(seconds=30), True)


@every_http_kind
@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_error_is_tried_again(kind: Receiver, status: int) -> None:
    assert (await told(kind, HttpAnswer(status)))[0] == Temporary("RECEIVER_ERROR", f"it answered {status}")


@every_http_kind
@pytest.mark.parametrize("status", [400, 403, 404, 410])
async def test_a_refusal_is_never_tried_again(kind: Receiver, status: int) -> None:
    assert (await told(kind, HttpAnswer(status)))[0] == Permanent("REFUSED", f"it answered {status}")


@every_http_kind
@pytest.mark.parametrize("status", [301, 308])
async def test_a_redirect_that_lasts_is_not_followed(kind: Receiver, status: int) -> None:
    outcome, came = await told(kind, HttpAnswer(status), Location="/elsewhere")

    assert isinstance(outcome, Permanent)
    assert (outcome.reason, len(came)) == ("REDIRECTED", 1)


@every_http_kind
@pytest.mark.parametrize("status", [300, 302, 303, 304, 307])
async def test_a_redirect_as_login_pages_use_it_is_not_followed_and_tried_again(
    kind: Receiver, status: int
) -> None:
    outcome, came = await told(kind, HttpAnswer(status), Location="/login")

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, len(came)) == ("REDIRECTED", 1)


PAGE = "<!DOCTYPE html><html><body>Log in to go on</body></html>"


STRANGE = ["", PAGE, f"\ufeff\n<!-- portal -->{PAGE}", "{}", "[]", "null", '"ok"', "ok.", "OK!", "true", "1"]
STRANGE += ['{"status":"failure"}', '{"status":null}', '{"status":["success"]}', '{"ok":true}']


@every_kind_with_a_word_of_its_own
def test_an_answer_that_is_not_the_receivers_own_is_tried_again(kind: Receiver) -> None:
    told = [
        HttpAnswer(status, body) for status in (200, 201, 202, 203, 206, 207, 208, 226) for body in STRANGE
    ]
    others = [answer for answer in [*told, HttpAnswer(204)] if answer != kind.TAKEN]

    outcomes = {type(kind.outcome(answer)): answer for answer in others}

    assert outcomes.keys() == {Temporary}, outcomes


@every_kind_with_a_word_of_its_own
def test_its_own_word_with_another_status_or_cut_off_is_no_proof(kind: Receiver) -> None:
    own = kind.TAKEN
    others = {200, 201, 202, 204} - {own.status}
    cut = {own.body[:length] for length in range(len(own.body))}

    doubted = [
        *(HttpAnswer(status, own.body) for status in others),
        *(HttpAnswer(own.status, body) for body in cut),
    ]

    assert {type(kind.outcome(answer)) for answer in doubted} == {Temporary}


@every_http_kind
@pytest.mark.parametrize("status", [400, 401, 403, 404, 407, 451])
async def test_a_page_that_refuses_is_of_something_in_between(kind: Receiver, status: int) -> None:
    assert isinstance((await told(kind, HttpAnswer(status, PAGE)))[0], Temporary)


@pytest.mark.parametrize("name", sorted(BY_STATUS))
def test_where_a_status_is_the_word_a_page_is_none(name: str) -> None:
    outcome = KINDS[name].outcome

    assert {type(outcome(HttpAnswer(status, '{"ok":true}'))) for status in range(200, 300)} == {Success}
    assert {type(outcome(HttpAnswer(status, PAGE))) for status in range(200, 300)} == {Temporary}


@every_kind
@for_all(status=st.integers(100, 599), body=st.text())
def test_any_answer_is_survived(kind: Receiver, status: int, body: str) -> None:
    answer = type(kind.TAKEN)(status, body)

    assert isinstance(kind.outcome(answer), Success | Temporary | Permanent)


@every_kind
def test_no_secret_is_in_what_settings_and_requests_look_like(kind: Receiver) -> None:
    settings = example(kind)
    request = kind.request(Page(notify(resolved=False), attempted_at=NOON), settings)

    assert CANARY not in f"{settings!r} {request!r}"
    assert CANARY not in settings.redact(f"no such address {settings.url.get_secret_value()}")


@every_kind
def test_a_kind_says_what_it_is_how_fast_it_may_be_called_and_what_each_setting_is(kind: Receiver) -> None:
    fields = kind.Settings.model_fields.values()
    lacking = [info for info in fields if not info.description or (info.is_required() and not info.examples)]

    assert (kind.__doc__ or "").strip()
    assert timedelta(0) < kind.PACE
    assert lacking == []
