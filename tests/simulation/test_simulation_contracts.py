"""What is simulated keeps the promises of what it stands for, while nothing goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import httpx
import pytest
from daggers.v1 import spec_pb2
from pydantic import SecretStr
from tests.contracts.beats import BeatsContract
from tests.contracts.drivers import NAME, DriversContract, Handle
from tests.contracts.leases import StoreContract
from tests.contracts.projections import ProjectionContract
from tests.contracts.spark_ui import SparkUiContract
from tests.contracts.webhooks import NOON, WebhooksContract
from tests.simulation.hosts import Host, SimulatedDriver, SimulatedDrivers, SimulatedStore, Sinks
from tests.simulation.log import SimulatedBeats, SimulatedLog
from tests.simulation.outside import SimulatedProjection, SimulatedSpark, SimulatedWebhooks
from tests.simulation.world import World

from daggerspec.rundir import DriverIdentity
from eventlog.testing import LogContract
from fleet.alerts.alert import Notify
from health_monitor.deliver.webhook import Channel
from health_monitor.receivers import Outcome, slack


class Rigged(World):
    """A world without chance: only what is `sure` goes wrong. What takes a while there takes no time here."""

    def __init__(self, sure: str = "") -> None:
        super().__init__(asyncio.get_running_loop(), Random(1))
        self.sure = sure

    def chance(self, probability: float, fault: str) -> bool:
        """Whether a fault is sure."""
        return fault == self.sure

    def later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        """At once, as far as a test can tell."""
        super().later(seconds / 100, act, *args)


@pytest.fixture
async def world() -> Rigged:
    return Rigged()


class TestSimulatedLog(LogContract):
    @pytest.fixture
    async def log(self, world: Rigged) -> SimulatedLog:
        return SimulatedLog(world)

    async def write_raw(self, log: SimulatedLog, headers: list[tuple[str, bytes]], value: bytes) -> None:
        log.place(headers, value)


class TestSimulatedBeats(BeatsContract):
    @pytest.fixture
    async def topic(self, world: Rigged) -> SimulatedBeats:
        return SimulatedBeats(world)

    @asynccontextmanager
    async def connected(self, topic: SimulatedBeats) -> AsyncIterator[SimulatedBeats]:
        yield topic


class TestSimulatedDrivers(DriversContract):
    @pytest.fixture
    async def drivers(self, world: Rigged) -> SimulatedDrivers:
        return SimulatedDrivers(world, Sinks(world), Host("here"), "/scheduler/one")

    def start(self, drivers: SimulatedDrivers, generation: int) -> Handle:
        # Somebody has to have intended it.
        drivers._world.control_witness.intents[generation] = (NAME, "/scheduler/one", "")
        return drivers.start(spec_pb2.JobSpec(dagger=NAME, generation=generation), [], {})

    def spare(self, drivers: SimulatedDrivers) -> DriverIdentity:
        run_dir = f"runs/_spare/{drivers._host.started}"
        return drivers.start_spare(spec_pb2.JobSpec(dagger="_spare", run_dir=run_dir), [], {})

    def job(self, drivers: SimulatedDrivers, generation: int) -> spec_pb2.JobSpec:
        drivers._world.control_witness.intents[generation] = (NAME, "/scheduler/one", "")
        return spec_pb2.JobSpec(dagger=NAME, generation=generation)

    def shadow(self, drivers: SimulatedDrivers, job: spec_pb2.JobSpec) -> Handle:
        return drivers.start(job, [], {})

    def told(self, drivers: SimulatedDrivers, handle: Handle, file: str) -> str:
        return drivers._host.told[handle.run_dir, file]

    def restarted(self, drivers: SimulatedDrivers) -> SimulatedDrivers:
        return SimulatedDrivers(drivers._world, drivers._sinks, drivers._host, "/scheduler/two")


class TestSimulatedStore(StoreContract):
    @pytest.fixture
    async def stores(self, world: Rigged) -> Callable[[], SimulatedStore]:
        return lambda: SimulatedStore(world)


class TestSimulatedProjection(ProjectionContract):
    @pytest.fixture
    async def projection(self, world: Rigged) -> AsyncIterator[SimulatedProjection]:
        made = SimulatedProjection(world)
        yield made
        made.close()


SURE = {
    "": "",
    "failing": "receiver failed",
    "throttling": "receiver throttles",
    "late": "receiver answers too late",
}


class Receivers:
    """The simulated receivers, of which one is well or in trouble."""

    def __init__(self, world: Rigged) -> None:
        self._world, self._webhooks = world, SimulatedWebhooks(world)

    async def send(self, notify: Notify, trouble: str) -> Outcome:
        self._world.sure = SURE[trouble]
        channel = Channel("slack", slack, slack.Settings(url=SecretStr("https://slack.invalid")))
        return await self._webhooks.send(channel, notify, now=NOON)

    @property
    def told(self) -> int:
        return len(self._webhooks.told)


class TestSimulatedWebhooks(WebhooksContract):
    @pytest.fixture
    async def outside(self, world: Rigged) -> Receivers:
        return Receivers(world)


class TestSimulatedSpark(SparkUiContract):
    @pytest.fixture
    async def ui(self, world: Rigged) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
        host = Host("here")
        key = self.DAGGER, self.GENERATION
        identity = DriverIdentity(
            dagger=key[0], generation=key[1], run_dir="runs", boot_id="boot", pid=1, start_ticks=1
        )
        host.drivers[key] = SimulatedDriver(world, Sinks(world), host, identity, spec_pb2.JobSpec())
        async with httpx.AsyncClient(transport=SimulatedSpark(world, [host])) as client:
            yield client, f"http://here/{key[0]}/{key[1]}"
