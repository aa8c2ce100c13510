"""Callbacks over real HTTP: what a receiver signs is acknowledged once, all else is refused within bounds."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import structlog
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

from chassis import logging
from chassis.egress.addresses import EgressRules
from chassis.endpoint import CannotBind
from eventlog import Draft
from fleet.alerts.alert import Alert
from health_monitor.callbacks import sign
from health_monitor.deliver.webhook import Webhooks
from health_monitor.listen import listener
from health_monitor.listen.acknowledgements import Acknowledgements

FAILED = alerts_pb2.ALERT_CONDITION_FAILED
KEY = "daggers/bookings/failed"
SECRETS = {"slack": "8f742231b10e8888abcd99yyyzzz85a5", "pagerduty": "lDQHScfUeXUKaQRNF"}
WAIT_S = 30
PATHS = {"slack": "/callbacks/slack", "pagerduty": "/callbacks/pagerduty/pricing"}


@dataclass
class CallbackSenders:
    """Slack and PagerDuty, as they call a listener back."""

    world: Any
    client: httpx.AsyncClient
    acknowledgements: Acknowledgements
    results: list[tuple[str, str]] = field(default_factory=list)
    """Answers that were counted, by kind and result."""

    async def acknowledge(self, **changes: Any) -> httpx.Response:
        """Tell that a person acknowledged at PagerDuty."""
        return await self.post("pagerduty", self.event(**changes))

    async def click(self, value: dict[str, str] | None = None, *, user: str = "U1") -> httpx.Response:
        """Tell that a person clicked on the button of the newest message."""
        [button] = self.buttons()[-1:]
        action = {**button, "action_ts": str(self.world.now.timestamp())}
        if value is not None:
            action["value"] = json.dumps({**json.loads(button["value"]), **value})
        payload = {
            "type": "block_actions",
            "user": {"id": user, "name": "ada"},
            "actions": [action],
            "message": {"text": "a", "blocks": self.messages()[-1]["blocks"]},
            "response_url": f"{self.world.receiver.slack_url}?reply",
        }
        return await self.post("slack", urlencode({"payload": json.dumps(payload)}).encode())

    async def post(self, kind: str, body: bytes, *, path: str = "", **headers: str) -> httpx.Response:
        """Send a signed request; `headers` replace its own."""
        seconds = str(int(self.world.now.timestamp()))
        secret = SECRETS[kind]
        signed = (
            {
                "x-slack-request-timestamp": seconds,
                "x-slack-signature": f"v0={sign(secret, f'v0:{seconds}:'.encode() + body)}",
            }
            if kind == "slack"
            else {"x-pagerduty-signature": f"v1={sign(secret, body)}"}
        )
        own = {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.client.post(path or PATHS[kind], content=body, headers=signed | own)

    def event(self, kind: str = "incident.acknowledged", key: str = KEY, **changes: Any) -> bytes:
        event = {
            "id": "01BWDWL3NYY7LUFPZCC28QUCMK",
            "event_type": kind,
            "occurred_at": self.world.now.isoformat(),
            "agent": {"id": "PLH1HKV", "type": "user_reference", "summary": "Tenex Engineer"},
            "data": {"incident_key": key},
            **changes,
        }
        return json.dumps({"event": event}).encode()

    def messages(self) -> list[dict[str, Any]]:
        return [call.body for call in self.world.receiver.received if "text" in call.body]

    def buttons(self) -> list[dict[str, Any]]:
        blocks = [block for message in self.messages() for block in message.get("blocks", ())]
        return [element for block in blocks for element in block.get("elements", ()) if "value" in element]


def team(folder: Path, world: Any, name: str = "pricing", **secrets: dict[str, str]) -> Any:
    """Registers a team with these receivers, their secrets in files."""
    own = []
    for kind, values in secrets.items():
        references = {}
        for key, value in values.items():
            file = folder / f"{name}-{kind}-{key}"
            file.write_text(value)
            references[key] = spec_pb2.SecretRef(file=str(file))
        own.append(access_pb2.TeamReceiver(kind=kind, secrets=references))
    return events_pb2.TeamRegistered(team=access_pb2.Team(name=name, receivers=own))


def secrets_of(world: Any) -> dict[str, dict[str, str]]:
    return {
        "slack": {"url": world.receiver.slack_url, "signing_secret": SECRETS["slack"]},
        "pagerduty": {
            "url": world.receiver.pagerduty_url,
            "routing_key": "f" * 32,
            "webhook_secret": SECRETS["pagerduty"],
        },
    }


@asynccontextmanager
async def listening(world: Any, running: Any, **limits: float) -> AsyncIterator[CallbackSenders]:
    """Let a monitor listen for callbacks."""
    monitor = running.monitor
    results: list[tuple[str, str]] = []
    webhooks = Webhooks(EgressRules.parse(f"127.0.0.1:{world.receiver.port}"), timeout=timedelta(seconds=30))
    acknowledgements = Acknowledgements(monitor.leadership, monitor.fleet, webhooks, lambda: world.now)
    async with (
        listener.serving(
            "127.0.0.1:0",
            acknowledgements,
            lambda kind, result: results.append((kind, result)),
            **limits,
        ) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=WAIT_S) as client,
    ):
        yield CallbackSenders(world, client, acknowledgements, results)


@pytest.fixture
async def receivers(world: Any, tmp_path: Path) -> AsyncIterator[CallbackSenders]:
    """Let receivers that were told of a dagger that failed call a monitor back."""
    await world.tell(team(tmp_path, world, **secrets_of(world)))
    async with world.monitor() as running:
        await running.run(3)
        await world.fail_dagger()
        await running.run(8)
        world.running = running
        async with listening(world, running) as senders:
            yield senders


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Lines that a service writes."""
    stream = io.StringIO()
    logging.configure("health-monitor", stream=stream)
    yield stream
    structlog.reset_defaults()


def alert(world: Any) -> Alert:
    found: Alert = world.running.monitor.ledger.alert("bookings", FAILED)
    return found


def author(world: Any) -> str | None:
    acknowledgement = alert(world).find_acknowledgement(world.now)
    return acknowledgement and acknowledgement.author


async def count_events(world: Any) -> int:
    events = await world.events()
    return sum(event.startswith(("AlertAcknowledged", "AcknowledgementEnded")) for event in events)


# ---- Acknowledged ------------------------------------------------------------------------------------------


async def test_who_acknowledges_at_pagerduty_looks_after_the_incident_and_pagerduty_is_not_told(
    world: Any, receivers: CallbackSenders
) -> None:
    answer = await receivers.acknowledge()
    await world.running.run(5)

    assert (answer.status_code, answer.json()["result"]) == (200, "acknowledged")
    assert author(world) == "pagerduty:PLH1HKV (Tenex Engineer)"
    assert world.kinds() == ["pagerduty triggered"]
    assert receivers.results == [("pagerduty", "acknowledged")]


async def test_a_click_acknowledges_pagerduty_is_told_and_the_button_becomes_who_did(
    world: Any, receivers: CallbackSenders
) -> None:
    answer = await receivers.click()
    await world.running.run(5)
    await receivers.acknowledgements.drain(timedelta(seconds=WAIT_S))
    reply = receivers.messages()[-1]

    assert (answer.status_code, answer.json()["result"]) == (200, "acknowledged")
    assert author(world) == "slack:U1 (ada)"
    assert world.kinds() == ["pagerduty triggered", "pagerduty acknowledged"]
    assert reply["replace_original"] is True
    assert [block["type"] for block in reply["blocks"]] == ["section", "context"]
    assert reply["blocks"][1]["elements"][0]["text"] == "acknowledged by slack:U1 (ada)"
    assert len(receivers.buttons()) == 1


@pytest.mark.parametrize("kind", ["slack", "pagerduty"])
async def test_the_same_again_writes_nothing(world: Any, receivers: CallbackSenders, kind: str) -> None:
    send = receivers.click if kind == "slack" else receivers.acknowledge
    answers = [(await send()).json()["result"] for _ in range(3)]

    assert answers == ["acknowledged", "unchanged", "unchanged"]
    assert await count_events(world) == 1


async def test_a_webhook_that_comes_again_late_does_not_undo_what_came_between(
    world: Any, receivers: CallbackSenders
) -> None:
    event = receivers.event()
    await receivers.post("pagerduty", event)
    gateway = alerts_pb2.AlertAcknowledged(incidents=[alert(world).meta()], actor="user:bob")
    await world.alerts.append(Draft("ack", "/api-gateway/test", "bookings", world.now, gateway))
    answer = await receivers.post("pagerduty", event)

    assert (answer.json()["result"], author(world)) == ("unchanged", "user:bob")


async def test_pagerduty_takes_its_own_acknowledgement_back_and_no_others(
    world: Any, receivers: CallbackSenders
) -> None:
    await receivers.acknowledge(id="1")
    own = await receivers.acknowledge(kind="incident.unacknowledged", agent=None, id="2")
    nobody = author(world)
    await receivers.click()
    others = await receivers.acknowledge(kind="incident.unacknowledged", agent=None, id="3")

    assert (own.json()["result"], nobody) == ("unacknowledged", None)
    assert (others.json()["result"], author(world)) == ("unchanged", "slack:U1 (ada)")


async def test_a_monitor_that_stands_by_takes_what_it_gets(world: Any, receivers: CallbackSenders) -> None:
    async with world.monitor("two") as standby, listening(world, standby) as others:
        assert not standby.monitor.leads
        answers = await asyncio.gather(others.acknowledge(), receivers.acknowledge())
        await standby.monitor.leadership.follower.catch_up()

    results = sorted(answer.json()["result"] for answer in answers)
    assert results in (["acknowledged", "acknowledged"], ["acknowledged", "unchanged"])
    assert author(world) == "pagerduty:PLH1HKV (Tenex Engineer)"
    assert len(alert(world).callbacks) == 1


async def test_a_group_is_acknowledged_by_its_key_as_far_as_the_receiver_was_told(
    world: Any, tmp_path: Path
) -> None:
    await world.tell(team(tmp_path, world, **secrets_of(world)))
    routes = alerts_pb2.AlertRoute(
        receivers=["pagerduty", "slack"], group_wait={"seconds": 2}, group_interval={"seconds": 10}
    )
    changed = alerts_pb2.RoutesChanged(team="pricing", routes=routes, actor="user:ada")
    await world.alerts.append(Draft("routes", "/api-gateway/test", "pricing", world.now, changed))
    async with world.monitor() as running:
        world.running = running
        await running.run(3)
        await world.fail_dagger()
        await running.run(10)
        async with listening(world, running) as receivers:
            button = json.loads(receivers.buttons()[-1]["value"])
            answer = await receivers.acknowledge(key=button["key"])
            by_pager = author(world)
            await running.run(30)
            clicked = await receivers.click()

    assert "/group/" in button["key"]
    assert (answer.json()["result"], by_pager) == ("acknowledged", "pagerduty:PLH1HKV (Tenex Engineer)")
    assert world.kinds() == ["pagerduty triggered"]
    assert (clicked.json()["result"], author(world)) == ("acknowledged", "slack:U1 (ada)")


# ---- Nothing to acknowledge --------------------------------------------------------------------------------


async def test_what_is_over_or_of_another_incident_is_not_open(
    world: Any, receivers: CallbackSenders
) -> None:
    early = receivers.event()
    await world.mend_dagger()
    await world.running.run(6)
    over = await receivers.acknowledge()
    world.now += timedelta(minutes=1)
    await world.fail_dagger()
    await world.running.run(8)
    late = await receivers.post("pagerduty", early)
    old = await receivers.click({"incident": "0123456789"})

    assert [answer.json()["result"] for answer in (over, late, old)] == ["not_open"] * 3
    assert [answer.status_code for answer in (over, late, old)] == [200] * 3
    assert (alert(world).incident, author(world)) == (2, None)
    assert await count_events(world) == 0


async def test_a_teams_secret_acknowledges_nothing_of_another_team(
    world: Any, receivers: CallbackSenders, tmp_path: Path
) -> None:
    await world.tell(team(tmp_path, world, "supply", **secrets_of(world)))
    await world.running.run(1)
    path = "/callbacks/pagerduty/supply"
    others = await receivers.post("pagerduty", receivers.event(), path=path)
    unknown = await receivers.post("pagerduty", receivers.event(key="daggers/nothing/failed"), path=path)
    clicked = await receivers.click({"receiver": "supply/slack"})

    assert [answer.json()["result"] for answer in (others, unknown, clicked)] == ["not_open"] * 3
    assert others.json()["detail"].replace(KEY, "") == unknown.json()["detail"].replace(
        "daggers/nothing/failed", ""
    )
    assert await count_events(world) == 0


async def test_what_daggers_itself_acknowledged_there_is_ignored(
    world: Any, receivers: CallbackSenders
) -> None:
    agent = {"id": "P1", "type": "inbound_integration_reference"}
    answers = [await receivers.acknowledge(agent=agent), await receivers.acknowledge(kind="pagey.ping")]

    assert [(answer.status_code, answer.json()["result"]) for answer in answers] == [(200, "ignored")] * 2
    assert await count_events(world) == 0


# ---- Refused -----------------------------------------------------------------------------------------------


async def test_what_is_not_signed_by_a_receiver_is_refused_the_same_whoever_exists(
    world: Any, receivers: CallbackSenders
) -> None:
    event = receivers.event()
    answers = [
        await receivers.client.post(PATHS["pagerduty"], content=event),
        await receivers.post("pagerduty", event, x_pagerduty_signature=f"v1={'0' * 64}"),
        await receivers.post("pagerduty", event, path="/callbacks/pagerduty/nobody"),
        await receivers.click({"receiver": "nobody/slack"}),
        await receivers.click({"receiver": "slack"}),
    ]

    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert await count_events(world) == 0


async def test_a_receiver_without_a_secret_for_callbacks_takes_none(
    world: Any, receivers: CallbackSenders, tmp_path: Path
) -> None:
    without = {
        kind: {key: value for key, value in own.items() if not key.endswith("_secret")}
        for kind, own in secrets_of(world).items()
    }
    await world.tell(team(tmp_path, world, **without))
    await world.running.run(1)

    assert (await receivers.acknowledge()).status_code == 401


async def test_a_click_of_six_minutes_ago_is_refused(world: Any, receivers: CallbackSenders) -> None:
    body = urlencode({"payload": "{}"}).encode()
    assert (await receivers.post("slack", body)).status_code == 400
    [button] = receivers.buttons()
    payload = {"type": "block_actions", "user": {"id": "U1"}, "actions": [button]}
    body = urlencode({"payload": json.dumps(payload)}).encode()
    before = str(int(world.now.timestamp()) - 360)
    signature = f"v0={sign(SECRETS['slack'], f'v0:{before}:'.encode() + body)}"
    answer = await receivers.post(
        "slack", body, x_slack_request_timestamp=before, x_slack_signature=signature
    )

    assert answer.status_code == 401


async def test_requests_have_bounds(world: Any, receivers: CallbackSenders) -> None:
    most = listener.MOST_BYTES
    large = [await receivers.post("pagerduty", b" " * size) for size in (most, most + 1)]
    bomb = gzip.compress(b" " * 10 * most)

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * (most // 2)

    chunked = await receivers.client.post(PATHS["pagerduty"], content=stream())
    packed = await receivers.post("pagerduty", bomb, content_encoding="gzip")
    elsewhere = await receivers.client.post("/metrics")
    read = await receivers.client.get(PATHS["slack"])

    assert [answer.status_code for answer in (*large, chunked, packed, elsewhere, read)] == [
        400, 413, 413, 415, 404, 405,
    ]  # fmt: skip


async def test_a_body_that_does_not_come_is_waited_for_a_few_seconds(
    world: Any, receivers: CallbackSenders
) -> None:
    async with listening(world, world.running, body_s=0.2) as impatient:
        port = impatient.client.base_url.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /callbacks/slack HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            status = await reader.readline()
        writer.close()

    assert b"408" in status


async def test_refusals_of_a_network_are_paced_and_others_are_not(
    world: Any, receivers: CallbackSenders
) -> None:
    begun = time.monotonic()
    refused = await asyncio.gather(
        *(receivers.client.post(PATHS["pagerduty"], content=b"{}") for _ in range(110))
    )
    lasted = time.monotonic() - begun

    assert {answer.status_code for answer in refused} == {401}
    assert lasted > 0.4  # ten behind the hundred that wait for nothing, twenty a second
    assert (await receivers.acknowledge()).status_code == 200


async def test_a_line_says_what_was_refused_and_what_was_taken_and_no_secret(
    world: Any, receivers: CallbackSenders, lines: io.StringIO
) -> None:
    await receivers.post("pagerduty", receivers.event(), path="/callbacks/pagerduty/x%1b%5b31m")
    await receivers.click()
    text = lines.getvalue()
    by_event = {line["event"]: line for line in map(json.loads, text.splitlines())}

    assert by_event["callback.refused"]["network"] == "127.0.0.1"
    assert by_event["callback"]["actor"] == "slack:U1 (ada)"
    assert by_event["callback"]["result"] == "acknowledged"
    assert [secret for secret in SECRETS.values() if secret in text] == []
    assert "\\u001b" not in text


# ---- Away --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["slack", "pagerduty"])
async def test_while_kafka_is_away_the_sender_is_told_to_repeat_and_nothing_is_lost(
    world: Any, receivers: CallbackSenders, kind: str
) -> None:
    world.refuses = lambda message: isinstance(message, alerts_pb2.AlertAcknowledged)
    send = receivers.click if kind == "slack" else receivers.acknowledge
    away = await send()
    world.refuses = lambda _: False
    again = await send()

    assert (away.status_code, away.headers["retry-after"]) == (503, "5")
    assert (again.status_code, again.json()["result"]) == (200, "acknowledged")
    assert author(world) is not None


async def test_a_log_that_hangs_is_answered_in_time_and_what_it_takes_later_counts_once(
    world: Any, receivers: CallbackSenders
) -> None:
    hangs = asyncio.Event()

    async def hang(draft: Draft) -> None:
        if isinstance(draft.message, alerts_pb2.AlertAcknowledged):
            await hangs.wait()

    world.alerts.before = hang
    event = receivers.event()
    away = await receivers.post("pagerduty", event)
    hangs.set()
    again = await receivers.post("pagerduty", event)

    assert (away.status_code, again.status_code) == (503, 200)
    assert author(world) == "pagerduty:PLH1HKV (Tenex Engineer)"
    assert len(alert(world).callbacks) == 1


async def test_a_secret_that_cannot_be_read_here_makes_the_sender_repeat(
    world: Any, receivers: CallbackSenders, tmp_path: Path
) -> None:
    file = tmp_path / "pricing-pagerduty-webhook_secret"
    text = file.read_text()
    file.unlink()
    missing = await receivers.acknowledge()
    file.write_text(text)

    assert (missing.status_code, (await receivers.acknowledge()).status_code) == (503, 200)


async def test_a_port_that_is_taken_ends_the_service_in_words(world: Any, receivers: CallbackSenders) -> None:
    bind = f"127.0.0.1:{receivers.client.base_url.port}"
    monitor = world.running.monitor
    acknowledgements = Acknowledgements(
        monitor.leadership, monitor.fleet, Webhooks(EgressRules.parse("")), lambda: world.now
    )

    with pytest.raises(CannotBind, match="cannot take callbacks on"):
        async with listener.serving(bind, acknowledgements, lambda *_: None):
            pass


async def test_nothing_listens_by_default(world: Any, receivers: CallbackSenders) -> None:
    monitor = world.running.monitor
    acknowledgements = Acknowledgements(
        monitor.leadership, monitor.fleet, Webhooks(EgressRules.parse("")), lambda: world.now
    )
    async with listener.serving("", acknowledgements, lambda *_: None) as port:
        assert port == 0
