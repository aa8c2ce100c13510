"""The simulated log is a log: it passes the contract of every other one while nothing goes wrong."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.simulation.log import SimulatedLog
from tests.simulation.world import World

from eventlog.testing import LogContract


class TestSimulatedLog(LogContract):
    @pytest.fixture
    async def log(self) -> SimulatedLog:
        world = World(asyncio.get_running_loop(), Random(1))
        world.faulty = False
        return SimulatedLog(world)

    async def write_raw(self, log: SimulatedLog, headers: list[tuple[str, bytes]], value: bytes) -> None:
        log.place(headers, value)
