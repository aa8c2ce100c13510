"""Prometheus's Alertmanager and our own routes make the same notifications of the same alerts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from pydantic import SecretStr
from tests.alertmanager import alertmanager
from tests.alertmanager.scenarios import (
    LENGTH_S,
    RECEIVERS,
    SCENARIOS,
    TICK,
    Night,
    Notification,
    Step,
    list_steps,
)
from tests.maven import LackingError

from chassis.egress.addresses import EgressRules
from fleet.alerts.alert import Alert, Notify
from fleet.alerts.routing.inhibition import CAUSES
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.receivers import Success
from health_monitor.receivers import alertmanager as receiver

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3_900)]

SLACK_S = 2 * TICK.total_seconds()
"""A tick of ours, and what a busy machine takes."""


class Endpoint:
    """Endpoint of an Alertmanager's webhooks: what each said, and at which second."""

    def __init__(self) -> None:
        self.begin = datetime.now(UTC)
        self.notifications: list[tuple[float, Notification]] = []

    async def take(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        names = {
            status: tuple(
                sorted(each["labels"]["dagger"] for each in body["alerts"] if each["status"] == status)
            )
            for status in ("firing", "resolved")
        }
        second = (datetime.now(UTC) - self.begin).total_seconds()
        self.notifications.append(
            (second, Notification(request.path.removeprefix("/"), names["firing"], names["resolved"]))
        )
        return web.Response()


def build_route(team: str, routes: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a route."""
    label, value = routes.get("match", ("team", team))
    route: dict[str, Any] = {
        "receiver": f"{team}/{routes['receivers'][0]}",
        "matchers": [f'{label}="{value}"'],
        "continue": routes.get("continue", False),
        "routes": [build_route(team, child) for child in routes.get("routes", ())],
    }
    if "group_by" in routes:
        route["group_by"] = routes["group_by"]
    times = ("group_wait", "group_interval", "repeat_interval")
    return route | {name: f"{routes[name]}s" for name in times if name in routes}


def build_configuration(endpoint: str) -> dict[str, Any]:
    """Translate the routes of all scenarios, and our rules of causes."""
    names = [f"{team}/{kind}" for team in SCENARIOS for kind in RECEIVERS]
    hooks = [{"name": name, "webhook_configs": [{"url": f"{endpoint}/{name}"}]} for name in names]
    return {
        "route": {
            "receiver": "nobody",
            "routes": [build_route(team, scenario.routes) for team, scenario in SCENARIOS.items()],
        },
        "receivers": [{"name": "nobody"}, *hooks],
        "inhibit_rules": [
            {
                "source_matchers": [f'{each.label}="{each.pattern}"' for each in rule.source],
                "target_matchers": [f'{each.label}="{each.pattern}"' for each in rule.target],
                "equal": list(rule.equal),
            }
            for rule in CAUSES
        ],
    }


async def happen(step: Step, team: str, night: Night, url: str, silences: dict[str, str]) -> None:
    """Tell an Alertmanager what happens: alerts by our receiver, silences by its API."""
    night.now = datetime.now(UTC)
    alert = night.happen(step, team)
    if alert is not None:
        await post(alert, url)
        return
    async with httpx.AsyncClient(trust_env=False, base_url=f"{url}/api/v2") as client:
        if step.kind == "unsilence":
            answer = await client.delete(f"/silence/{silences[team]}")
        else:
            matchers = [
                {"name": name, "value": value, "isRegex": False, "isEqual": True}
                for name, value in (("team", team), ("dagger", f"{team}_{step.dagger}"))
            ]
            document = {
                "matchers": matchers, "createdBy": "ann", "comment": "work",
                "startsAt": night.now.isoformat(),
                "endsAt": (night.now + timedelta(hours=1)).isoformat(),
            }  # fmt: skip
            answer = await client.post("/silences", json=document)
            silences[team] = answer.json()["silenceID"]
        answer.raise_for_status()


async def post(alert: Alert, url: str) -> None:
    """Post an alert as the health monitor does."""
    channel = Channel("team/alertmanager", receiver, receiver.Settings(url=SecretStr(url)))
    webhooks = Webhooks(EgressRules.parse("127.0.0.1"))
    outcome = await webhooks.send(channel, Notify(alert, channel.name, 1), now=datetime.now(UTC))
    assert outcome == Success()


async def live_through(url: str, endpoint: Endpoint) -> None:
    """Let everything happen at its second."""
    night, silences = Night(), dict[str, str]()
    night.begin()
    endpoint.begin = datetime.now(UTC)
    for step, team in list_steps():
        passed = (datetime.now(UTC) - endpoint.begin).total_seconds()
        await asyncio.sleep(max(step.second - passed, 0))  # its own second: time is what is tested
        await happen(step, team, night, url, silences)
    passed = (datetime.now(UTC) - endpoint.begin).total_seconds()
    await asyncio.sleep(LENGTH_S - passed)


def by_receiver(notifications: list[tuple[float, Notification]]) -> list[tuple[float, Notification]]:
    return sorted(notifications, key=lambda pair: (pair[1].receiver, pair[0], pair[1]))


async def test_an_alertmanager_and_our_routes_tell_the_same_at_the_same_time(tmp_path: Path) -> None:
    endpoint, application = Endpoint(), web.Application()
    application.router.add_post("/{tail:.*}", endpoint.take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with alertmanager(tmp_path / "alertmanager", build_configuration(address)) as url:
            await live_through(url, endpoint)
    except LackingError as why:
        pytest.skip(f"no Alertmanager: {why}")
    finally:
        await runner.cleanup()
    theirs, ours = by_receiver(endpoint.notifications), by_receiver(Night().play())

    assert [each for _, each in ours] == [each for _, each in theirs]
    late = [(each, mine, other) for (mine, each), (other, _) in zip(ours, theirs, strict=True)]
    assert [each for each in late if abs(each[1] - each[2]) > SLACK_S] == []
