"""Receivers are tested when the log asks for it: each is sent a begin and an end that say so."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

from eventlog import Draft
from fleet.alerts.receiver_tests import IN_TIME

WAIT_S = 30
KEY = "whsec_MfKQ9r8GKYqUTwjUPD8ILPZIo2LaLjSw"


@pytest.fixture
async def team(world: Any, tmp_path: Path) -> None:
    """Register a team with a channel, a pager, and an endpoint that nothing listens at."""
    files = {
        "slack": {"url": world.receiver.slack_url},
        "pagerduty": {"url": world.receiver.pagerduty_url, "routing_key": "0" * 32},
        "webhook": {"url": "http://127.0.0.1:9", "key": KEY},
    }
    receivers = []
    for kind, secrets in files.items():
        places = {}
        for key, value in secrets.items():
            place = tmp_path / f"{kind}-{key}"
            place.write_text(value)
            places[key] = spec_pb2.SecretRef(file=str(place))
        receivers.append(access_pb2.TeamReceiver(kind=kind, secrets=places))
    await world.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=receivers)))


async def ask(
    world: Any, team: str, kind: str = "", *, ago: timedelta = timedelta(), id_: str = "one"
) -> None:
    """Ask for a test, as a gateway does."""
    event = alerts_pb2.ReceiverTestRequested(test_id=id_, team=team, kind=kind, actor="ann")
    await world.alerts.append(Draft(f"test-{id_}", "/gateway", id_, world.now - ago, event))


async def results(world: Any, running: Any) -> dict[str, alerts_pb2.ReceiverTestResult]:
    """Step until the log says what became of the test."""
    async with asyncio.timeout(WAIT_S):
        while True:
            await running.step(0.1)
            await asyncio.sleep(0.05)  # what is told is under way beside the timers
            async for record in world.alerts.replay():
                if isinstance(record.message, alerts_pb2.ReceiversTested):
                    return {result.receiver: result for result in record.message.results}


@pytest.mark.usefixtures("team")
async def test_each_receiver_says_whether_it_takes_messages_and_no_incident_stays_open(world: Any) -> None:
    world.allowed = "127.0.0.1:9"
    async with world.monitor() as running:
        await running.steps(2)
        await ask(world, "pricing")
        tested = await results(world, running)
        events = await world.events()
    texts = [call.body["text"] for call in world.receiver.received if "text" in call.body]

    assert {name: result.delivered for name, result in tested.items()} == {
        "pricing/slack": True,
        "pricing/pagerduty": True,
        "pricing/webhook": False,
    }
    assert tested["pricing/webhook"].reason == "NOT_REACHED"
    assert "This is a test of ann" in texts[0]
    assert "daggers alerts ack" not in texts[0]  # there is nothing to acknowledge
    assert ["resolved" in text for text in texts] == [False, True]
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]
    assert "AlertFired" not in events


@pytest.mark.usefixtures("team")
async def test_what_the_far_side_says_to_a_test_is_passed_on_without_secrets(world: Any) -> None:
    world.answer = lambda _: web.Response(status=403, text="channel_is_archived")
    async with world.monitor() as running:
        await running.steps(2)
        await ask(world, "pricing", "slack")
        tested = await results(world, running)

    (refused,) = tested.values()
    assert (refused.receiver, refused.delivered, refused.reason) == ("pricing/slack", False, "REFUSED")
    assert refused.detail == "it answered 403: channel_is_archived"
    assert len(world.receiver.received) == 1  # no end of what was refused


async def test_the_platforms_receivers_are_those_of_the_settings_as_well(world: Any) -> None:
    async with world.monitor() as running:
        await running.steps(2)
        await ask(world, "platform", "slack")
        tested = await results(world, running)

    assert {name: result.delivered for name, result in tested.items()} == {"slack": True}


@pytest.mark.usefixtures("team")
async def test_a_test_that_nobody_waits_for_any_more_is_not_sent_nor_one_twice(world: Any) -> None:
    async with world.monitor() as running:
        await running.steps(2)
        await ask(world, "pricing", "slack", ago=IN_TIME, id_="old")
        await ask(world, "pricing", "slack", id_="new")
        await results(world, running)
        await running.steps(5)
        tested = (await world.events()).count("ReceiversTested")
    async with world.monitor("two") as running:
        await running.steps(15)

    assert tested == 1
    assert len(world.receiver.received) == 2


async def test_a_webhook_is_told_a_test_by_a_type_of_its_own(world: Any, tmp_path: Path) -> None:
    bodies = []

    async def take(request: web.Request) -> web.Response:
        bodies.append(json.loads(await request.read()))
        return web.Response(status=204)

    application = web.Application()
    application.router.add_post("/", take)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    places = {}
    for key, value in {"url": f"http://127.0.0.1:{port}", "key": KEY}.items():
        (tmp_path / key).write_text(value)
        places[key] = spec_pb2.SecretRef(file=str(tmp_path / key))
    world.allowed = f"127.0.0.1:{port}"
    own = access_pb2.TeamReceiver(kind="webhook", secrets=places)
    await world.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=[own])))
    async with world.monitor() as running:
        await running.steps(2)
        await ask(world, "pricing")
        tested = await results(world, running)
    await runner.cleanup()

    assert tested["pricing/webhook"].delivered
    assert [body["type"] for body in bodies] == ["receiver.test"] * 2
