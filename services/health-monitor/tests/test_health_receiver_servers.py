"""Receivers against servers that speak their protocols strictly: signatures, labels, SMTP under TLS."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2, events_pb2
from pydantic import SecretStr
from standardwebhooks import Webhook
from tests.contracts.mailserver import PASSWORD, USER, MailServer, certificate, serving

from chassis.egress.addresses import EgressRules
from chassis.egress.addresses import parse as parse_address
from fleet.alerts.alert import Alert, GroupTurn, Notify, dedup_key_of, evolve
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.page import Page
from health_monitor.receiver import AlertReceiver
from health_monitor.receivers import (
    Outcome,
    Permanent,
    Success,
    Temporary,
    alertmanager,
    email,
    pagerduty,
    slack,
    webhook,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
"""Time at which the incident is told; messages are sent, and signed, at the real one."""
KEY = "whsec_MfKQ9r8GKYqUTwjUPD8ILPZIo2LaLjSw"
GIVEN_UP = alerts_pb2.AlertMeta(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=3)
OF_A_RULE = alerts_pb2.AlertMeta(
    dagger="bookings",
    condition=alerts_pb2.ALERT_CONDITION_RULE,
    incident=3,
    rule="api_errors",
    key={"tag_api": "<!channel>", "tag-city": "7"},
    values={"error_rate": "0.08"},
)
LONGEST = "ä<&>\"'\r\nBcc: evil@example.org\x00" * 40


def notify(
    *,
    resolved: bool = False,
    attempt: int = 1,
    summary: str = "it was given up: BAD_SQL",
    meta: alerts_pb2.AlertMeta = GIVEN_UP,
) -> Notify:
    """Build a notice of the incident 3 of a dagger, which began four minutes ago."""
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key_of(meta),
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary=summary[:500],
        generation=7,
        team="pricing",
        receivers=["r"],
        value=1.5,
        limit=1,
        unit="s",
        domain=events_pb2.ERROR_DOMAIN_USER,
    )
    fired.since.FromDatetime(NOW - timedelta(minutes=4))
    before = Alert(
        dagger=meta.dagger, condition=meta.condition, rule=meta.rule, key=dict(meta.key), incident=2
    )
    alert = evolve(before, fired, NOW)
    if resolved:
        over = alerts_pb2.AlertResolved(meta=meta, summary="it runs again")
        over.until.FromDatetime(NOW - timedelta(minutes=1))
        alert = evolve(alert, over, NOW)
    return Notify(alert, "r", attempt)


def text_of(notice: Notify) -> str:
    """Return the text that Slack shows."""
    call = slack.request(Page(notice), slack.Settings(url=SecretStr("https://slack.example")))
    return str(json.loads(call.body)["text"])


def text_in(mail: EmailMessage) -> str:
    """Return the plain text of a mail."""
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


@asynccontextmanager
async def http(handle: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Yield the address of a server on loopback."""
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def send(kind: Any, settings: Any, notice: Notify) -> Outcome:
    webhooks = Webhooks(EgressRules.parse("127.0.0.1"), portal="https://portal.example")
    return await webhooks.send(Channel("r", kind, settings), notice, now=datetime.now(UTC))


# ---- Standard Webhooks -------------------------------------------------------------------------------------


class Endpoint:
    """An endpoint that trusts what is signed and fresh alone, and takes each message once."""

    def __init__(self) -> None:
        self.messages: dict[str, Any] = {}
        self.calls = 0

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.calls += 1
        if len(body) > 20_000 or request.content_type != "application/json":
            return web.Response(status=413)
        document = Webhook(KEY).verify(body, dict(request.headers))
        self.messages.setdefault(request.headers["webhook-id"], document)
        return web.Response(status=204)


async def test_an_endpoint_trusts_the_signature_and_knows_a_repeat_by_its_id() -> None:
    endpoint = Endpoint()
    async with http(endpoint.handle) as url:
        settings = webhook.Settings(url=SecretStr(f"{url}/hook"), key=SecretStr(KEY))
        notices = [notify(resolved=over, attempt=attempt) for over in (False, True) for attempt in (1, 2)]
        outcomes = [await send(webhook, settings, notice) for notice in notices]
    fired, resolved = endpoint.messages.values()

    assert outcomes == [Success()] * 4
    assert endpoint.calls == 4
    assert (fired["type"], resolved["type"]) == ("alert.fired", "alert.resolved")
    assert {key: fired["data"][key] for key in ("dagger", "condition", "severity", "incident", "team")} == {
        "dagger": "bookings", "condition": "failed", "severity": "critical", "incident": 3, "team": "pricing",
    }  # fmt: skip
    assert fired["data"]["link"] == "https://portal.example/daggers/bookings"
    assert resolved["data"]["resolution"] == "it runs again"
    assert fired["data"]["dedup_key"] == resolved["data"]["dedup_key"]
    assert not {"rule", "key", "values"} & fired["data"].keys()


async def test_a_webhook_tells_rule_key_and_values_beside_the_condition() -> None:
    endpoint = Endpoint()
    async with http(endpoint.handle) as url:
        settings = webhook.Settings(url=SecretStr(url), key=SecretStr(KEY))
        assert await send(webhook, settings, notify(meta=OF_A_RULE)) == Success()
    [document] = endpoint.messages.values()
    data = document["data"]

    assert (data["condition"], data["rule"]) == ("rule", "api_errors")
    assert (data["key"], data["values"]) == (
        {"tag_api": "<!channel>", "tag-city": "7"},
        {"error_rate": "0.08"},
    )
    assert data["dedup_key"].startswith("daggers/bookings/rule/api_errors/")


async def test_a_signature_with_another_key_is_refused_for_good() -> None:
    async def refuse(request: web.Request) -> web.Response:
        with pytest.raises(Exception, match="No matching signature"):
            Webhook(KEY).verify(await request.read(), dict(request.headers))
        return web.Response(status=401, text="signature")

    other = SecretStr("whsec_" + "A" * 32)
    async with http(refuse) as url:
        outcome = await send(webhook, webhook.Settings(url=SecretStr(url), key=other), notify())

    assert outcome == Permanent("REFUSED", "it answered 401")


def test_the_signature_is_that_of_the_standard() -> None:
    """Compare with the example that the standard's authors publish."""
    signed = Webhook("whsec_plJ3nmyCDGBKInavdOK15jsl").sign(
        "msg_loFOjxBNrRLzqYUf",
        datetime.fromtimestamp(1731705121, UTC),
        '{"event_type":"ping","data":{"success":true}}',
    )

    assert signed == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


@pytest.mark.parametrize("key", ["whsec_", "whsec_short", "whsec_not base64 at all, but long", "A" * 44])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        webhook.Settings(url=SecretStr("https://hooks.example"), key=SecretStr(key))


# ---- Alertmanager ------------------------------------------------------------------------------------------


class StrictAlertmanager:
    """Server with the checks of Alertmanager's API v2; alerts by their labels."""

    def __init__(self) -> None:
        self.alerts: dict[frozenset[tuple[str, str]], dict[str, Any]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        if (request.method, request.path) != ("POST", "/api/v2/alerts"):
            return web.Response(status=404, text="404 page not found")
        for alert in json.loads(await request.read()):
            labels, annotations = alert["labels"], alert["annotations"]
            good = all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in {**labels, **annotations})
            good = good and all(labels.values()) and "alertname" in labels
            begin, end = (datetime.fromisoformat(alert[key]) for key in ("startsAt", "endsAt"))
            if not good or end < begin:
                return web.json_response("bad alert", status=400)
            self.alerts[frozenset(labels.items())] = alert
        return web.Response()


async def test_alertmanager_has_one_alert_that_ends_when_the_incident_does() -> None:
    server = StrictAlertmanager()
    async with http(server.handle) as url:
        settings = alertmanager.Settings(url=SecretStr(url))
        outcomes = [await send(alertmanager, settings, notify(summary=LONGEST))]
        [open_alert] = server.alerts.values()
        outcomes.append(await send(alertmanager, settings, notify(resolved=True)))
    [(labels, over)] = server.alerts.items()

    assert outcomes == [Success(), Success()]
    assert datetime.fromisoformat(open_alert["endsAt"]) > NOW + timedelta(days=300)
    assert datetime.fromisoformat(over["endsAt"]) == NOW - timedelta(minutes=1)
    assert over["startsAt"] == open_alert["startsAt"]
    assert dict(labels) == {
        "alertname": "DaggersFailed", "dagger": "bookings", "condition": "failed", "severity": "critical",
        "team": "pricing", "domain": "user",
    }  # fmt: skip


async def test_alertmanager_has_rule_and_key_as_labels_of_their_own() -> None:
    server = StrictAlertmanager()
    async with http(server.handle) as url:
        settings = alertmanager.Settings(url=SecretStr(url))
        assert await send(alertmanager, settings, notify(meta=OF_A_RULE)) == Success()
    [labels] = map(dict, server.alerts)

    assert (labels["alertname"], labels["condition"], labels["rule"]) == ("DaggersRule", "rule", "api_errors")
    assert (labels["key_tag_api"], labels["key_tag_2d_city"]) == ("<!channel>", "7")


def test_a_key_of_rows_mentions_nobody_in_slack() -> None:
    for resolved in (False, True):
        text = text_of(notify(meta=OF_A_RULE, resolved=resolved))

        assert "api_errors (tag-city=7 tag_api=&lt;!channel&gt;)" in text
        assert "<!channel>" not in text


async def test_what_alertmanager_refuses_is_quoted() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response("start time must be before end time", status=400)

    async with http(refuse) as url:
        outcome = await send(alertmanager, alertmanager.Settings(url=SecretStr(url)), notify())

    assert outcome == Permanent("REFUSED", "it answered 400: start time must be before end time")


# ---- Mail --------------------------------------------------------------------------------------------------


left_to_the_collector = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""aiosmtpd leaves a connection to the garbage collector that ends before its handshake does."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("mail"), "mail.example")


@pytest.fixture
def trust_server(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment's authorities be the server's own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(paths[0]))


async def mail(
    server: MailServer,
    notice: Notify,
    *,
    scheme: str = "smtp",
    password: str = PASSWORD,
    to: str = "a@example.org, b@example.org",
    host: str = "mail.example",
    allowed: str = "mail.example",
) -> Outcome:
    """Send a mail, and return its outcome; the server's name leads to loopback."""

    async def resolve(_: str, __: int) -> list[Any]:
        return [parse_address("127.0.0.1")]

    url = SecretStr(f"{scheme}://{USER}:{password}@{host}:{server.port}")
    settings = email.Settings(url=url, to=to, sender="daggers@example.org")
    webhooks = Webhooks(EgressRules.parse(allowed), resolver=resolve, timeout=timedelta(seconds=20))
    return await webhooks.send(Channel("r", email, settings), notice, now=NOW)


@pytest.mark.usefixtures("trust_server")
@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_mail_is_submitted_under_tls_and_is_a_thread_of_its_incident(
    paths: tuple[Path, Path], scheme: str
) -> None:
    server = MailServer()
    async with serving(server, paths, implicit=scheme == "smtps"):
        notices = [notify(), notify(attempt=2), notify(resolved=True)]
        outcomes = [await mail(server, notice, scheme=scheme) for notice in notices]

    assert (outcomes, server.submitted) == ([Success()] * 3, 3)
    fired, resolved = server.mailbox.values()
    assert fired["Subject"] == "[critical] bookings: failed: it was given up: BAD_SQL"
    assert resolved["Subject"] == "[resolved] bookings: failed is over: it runs again"
    assert fired["References"] == resolved["References"]
    assert (fired["To"], fired["From"]) == ("a@example.org, b@example.org", "daggers@example.org")
    assert "who has to act: USER, whoever wrote the dagger" in text_in(fired)


@pytest.mark.usefixtures("trust_server")
async def test_what_comes_from_rows_and_specs_makes_no_header_and_no_long_line(
    paths: tuple[Path, Path],
) -> None:
    server = MailServer()
    async with serving(server, paths):
        outcome = await mail(server, notify(summary=LONGEST))
    [message] = server.mailbox.values()

    assert outcome == Success()
    assert message["Bcc"] is None
    assert max(map(len, message.as_bytes().splitlines())) <= 998


@pytest.mark.usefixtures("trust_server")
@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ({"DATA": "451 4.7.1 Greylisted"}, Temporary("RECEIVER_ERROR", "it answered 451 4.7.1")),
        (
            {"MAIL": "421 4.7.0 Too many messages"},
            Temporary("THROTTLED", "it answered 421 4.7.0", throttled=True),
        ),
        ({"DATA": "554 5.7.1 Spam of a@example.org"}, Permanent("REFUSED", "it answered 554 5.7.1")),
        (
            {"a@example.org": "550 5.1.1 a@example.org?", "b@example.org": "450 4.2.1 busy"},
            Temporary("RECEIVER_ERROR", "it answered 450 4.2.1"),
        ),
        ({"a@example.org": "550 5.1.1 no such user"}, Success()),
    ],
)
async def test_replies_say_whether_another_attempt_may_help(
    paths: tuple[Path, Path], answers: dict[str, str], outcome: Outcome
) -> None:
    server = MailServer(answers)
    async with serving(server, paths):
        assert await mail(server, notify()) == outcome


@pytest.mark.usefixtures("trust_server")
async def test_a_wrong_password_is_refused_and_never_shown(paths: tuple[Path, Path]) -> None:
    server = MailServer()
    async with serving(server, paths):
        outcome = await mail(server, notify(), password="wrong-canary")

    assert isinstance(outcome, Permanent)
    assert outcome.detail.startswith("it answered 535")
    assert "canary" not in repr(outcome)


@left_to_the_collector
@pytest.mark.usefixtures("trust_server")
async def test_nothing_is_sent_to_a_server_without_starttls(paths: tuple[Path, Path]) -> None:
    server = MailServer(offers_tls=False)
    async with serving(server, paths):
        outcome = await mail(server, notify())

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, server.submitted) == ("NOT_ENCRYPTED", 0)


@left_to_the_collector
@pytest.mark.usefixtures("trust_server")
@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_certificate_of_another_name_is_refused(paths: tuple[Path, Path], scheme: str) -> None:
    server = MailServer()
    async with serving(server, paths, implicit=scheme == "smtps"):
        outcome = await mail(server, notify(), scheme=scheme, host="other.example", allowed="other.example")

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, server.submitted) == ("NOT_REACHED", 0)


@pytest.mark.usefixtures("trust_server")
async def test_a_server_at_a_private_address_is_not_called(paths: tuple[Path, Path]) -> None:
    server = MailServer()
    async with serving(server, paths):
        outcome = await mail(server, notify(), allowed="")

    assert isinstance(outcome, Temporary)
    assert (outcome.reason, server.submitted) == ("ADDRESS_REFUSED", 0)


@pytest.mark.parametrize(
    "url", ["https://mail.example", "smtp://", "smtp://a b@c", "smtp://mail.example/inbox"]
)
def test_a_url_that_is_no_mail_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        email.Settings(url=SecretStr(url), to="a@example.org", sender="d@example.org")


# ---- Groups ------------------------------------------------------------------------------------------------


def group(*, firing: int, resolved: int, number: int = 1, attempt: int = 1) -> Notify:
    """Build a notice of a group whose incidents are of as many daggers; those that are over come behind."""

    def build(place: int, *, over: bool) -> Alert:
        meta = alerts_pb2.AlertMeta(
            dagger=f"d{place:03}", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=3
        )
        return notify(meta=meta, resolved=over).alert

    opened = tuple(build(place, over=False) for place in range(firing))
    ended = tuple(build(firing + place, over=True) for place in range(resolved))
    turn = GroupTurn(
        team="pricing",
        revision=3,
        path=(0,),
        labels={"condition": "failed"},
        begin=NOW - timedelta(minutes=4),
        number=number,
        time=NOW,
        first_attempt=NOW,
        firing=opened,
        resolved=ended,
    )
    return Notify((opened or ended)[0], "pricing/r", attempt, group=turn)


async def test_an_endpoint_gets_every_alert_of_a_group_once_and_knows_what_is_new() -> None:
    endpoint = Endpoint()
    notices = [
        group(firing=5, resolved=1),
        group(firing=5, resolved=1, attempt=2),  # the same again
        group(firing=6, resolved=1, attempt=3),  # it says more
        group(firing=0, resolved=6, number=2),
    ]
    async with http(endpoint.handle) as url:
        settings = webhook.Settings(url=SecretStr(f"{url}/hook"), key=SecretStr(KEY))
        outcomes = [await send(webhook, settings, notice) for notice in notices]
    first, more, over = endpoint.messages.values()

    assert outcomes == [Success()] * 4
    assert [each["dagger"] for each in first["data"]["alerts"]] == [f"d{n:03}" for n in range(6)]
    counts = [
        (each["type"], each["data"]["firing"], each["data"]["resolved"]) for each in (first, more, over)
    ]
    assert counts == [("alert.fired", 5, 1), ("alert.fired", 6, 1), ("alert.resolved", 0, 6)]
    assert len({each["data"]["dedup_key"] for each in (first, more, over)}) == 1
    assert "resolution" in first["data"]["alerts"][5]


async def test_a_group_is_one_incident_of_slack_and_pagerduty_that_names_three_more_and_their_number() -> (
    None
):
    async with AlertReceiver(show=lambda _: None) as receiver:
        channel = slack.Settings(url=SecretStr(receiver.slack_url))
        pager = pagerduty.Settings(url=SecretStr(receiver.pagerduty_url), routing_key=SecretStr("0" * 32))
        notices = [group(firing=40, resolved=2), group(firing=0, resolved=40, number=2)]
        outcomes = [
            await send(kind, settings, notice)
            for kind, settings in ((slack, channel), (pagerduty, pager))
            for notice in notices
        ]
        text, end, event, over = [call.body for call in receiver.received]

    assert outcomes == [Success()] * 4
    lines = text["text"].split("\n")
    assert lines[0] == ":rotating_light: *d000*: critical, failed and 39 more alerts"
    [also] = [line for line in lines if line.startswith("also open: ")]
    assert [part.split()[0] for part in also.removeprefix("also open: ").split("; ")] == [
        "d001", "d002", "d003", "36",
    ]  # fmt: skip
    assert any(line.startswith("resolved: d040 failed [") for line in lines)
    assert end["text"].split("\n")[0] == ":white_check_mark: *d000*: resolved, was: failed and 39 more alerts"
    assert "notice 2" in end["text"]
    assert event["payload"]["summary"].startswith("40 alerts, the first: d000: failed")
    assert (event["dedup_key"], over["event_action"]) == (over["dedup_key"], "resolve")


async def test_alertmanager_gets_every_alert_of_a_group_with_its_own_labels() -> None:
    bodies = list[Any]()

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.Response()

    async with http(handle) as url:
        settings = alertmanager.Settings(url=SecretStr(url))
        outcome = await send(alertmanager, settings, group(firing=40, resolved=2))
    [alerts] = bodies

    assert (outcome, len(alerts)) == (Success(), 42)
    assert len({alert["labels"]["dagger"] for alert in alerts}) == 42
    ends = [datetime.fromisoformat(alert["endsAt"]) for alert in alerts]
    assert [end > datetime.now(UTC) for end in ends] == [True] * 40 + [False] * 2


@pytest.mark.usefixtures("trust_server")
async def test_a_group_is_one_thread_of_mail(paths: tuple[Path, Path]) -> None:
    server = MailServer()
    async with serving(server, paths):
        notices = [group(firing=5, resolved=0), group(firing=0, resolved=5, number=2)]
        outcomes = [await mail(server, notice) for notice in notices]
    fired, over = server.mailbox.values()

    assert outcomes == [Success()] * 2
    assert fired["Subject"].strip().startswith("[critical] 5 alerts, the first: d000: failed")
    assert "also open: d001 failed" in text_in(fired)
    assert "also resolved: d001 failed" in text_in(over)
    assert fired["References"] == over["References"]
