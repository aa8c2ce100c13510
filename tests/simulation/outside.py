"""What services meet outside: webhook receivers that fail, Spark UIs, a database that is away at times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx
from sqlalchemy.exc import OperationalError
from tests.simulation.hosts import Host
from tests.simulation.world import World

from api_gateway.state.projection import Projection
from api_gateway.state.rows import Change
from fleet.alerts.alert import Notify
from health_monitor.chart import Chart
from health_monitor.deliver.webhook import Channel
from health_monitor.receivers import Outcome, Success, Temporary

RECEIVERS = ("slack", "pager")


class SimulatedWebhooks:
    """Receivers, in place of `deliver.webhook.Webhooks`: slow, failing, throttling, or too late.

    `told` holds what they took: dagger, condition, incident, notice and receiver, as often as they took it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.told: list[tuple[str, int, int, int, str]] = []

    async def send(
        self, channel: Channel, notify: Notify, *, now: datetime, chart: Chart | None = None
    ) -> Outcome:
        """As Webhooks'."""
        world, alert = self._world, notify.alert
        if world.chance(0.15, "receiver failed"):
            return Temporary("RECEIVER_ERROR", "it answered 503")
        if world.chance(0.05, "receiver throttles"):
            return Temporary("THROTTLED", "it answered 429", timedelta(seconds=20), throttled=True)
        await asyncio.sleep(world.random.uniform(0.01, 1))
        self.told.append((alert.dagger, alert.condition, alert.incident, alert.notice, channel.name))
        if world.chance(0.1, "receiver answers too late"):
            return Temporary("TIMEOUT", "it did not answer in 10 s; it may have it all the same")
        return Success()


class SimulatedSpark(httpx.AsyncBaseTransport):
    """The Spark UIs of all drivers: http://HOST/DAGGER/GENERATION answers while that driver lives.

    Where it does not, another driver may have its port by now; one that lives may not answer, or nonsense.
    """

    def __init__(self, world: World, hosts: Sequence[Host]) -> None:
        self._world, self._hosts = world, hosts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As a transport's. Raises: httpx.ConnectError."""
        host = next((host for host in self._hosts if host.name == request.url.host), None)
        name, generation = request.url.path.split("/")[1:3]
        driver = host.drivers.get((name, int(generation))) if host is not None and not host.cut else None
        alive = driver is not None and driver.alive
        if not alive and self._world.chance(0.3, "Spark UI of another"):
            return _applications(f"daggers.{name}.{int(generation) + 1}")
        if not alive or self._world.chance(0.05, "Spark UI away"):
            raise httpx.ConnectError("nobody answers")
        if self._world.chance(0.05, "Spark UI hung"):
            await asyncio.sleep(3600)
        if self._world.chance(0.05, "Spark UI broken"):
            return httpx.Response(200, stream=httpx.ByteStream(b"<html>"))
        await asyncio.sleep(self._world.random.uniform(0.01, 0.5))
        return _applications(f"daggers.{name}.{generation}")


def _applications(name: str) -> httpx.Response:
    """The answer of the Spark UI of an application."""
    told = json.dumps([{"id": "1", "name": name}])
    return httpx.Response(200, stream=httpx.ByteStream(told.encode()))


class SimulatedProjection(Projection):
    """The gateways' one database, away at times."""

    def __init__(self, world: World) -> None:
        super().__init__("sqlite://")
        self._world = world
        self.prepare()

    def write(self, change: Change, *, before: int) -> bool:
        """As Projection's. Raises: OperationalError."""
        if self._world.chance(0.01, "database away"):
            raise OperationalError("COMMIT", {}, Exception("it does not answer"))
        return super().write(change, before=before)
