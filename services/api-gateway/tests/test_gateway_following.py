"""A gateway answers calls while it takes in a fetch of many records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from daggers.v1 import telemetry_pb2

from api_gateway.state.following import follow_on
from eventlog.tail import Arrival
from eventlog.testing import START, record


class FullTail:
    """Has all its records at once, as a fetch has."""

    def __init__(self, count: int) -> None:
        beat = record(telemetry_pb2.Heartbeat(dagger="d"), sequence=0)
        self._arrivals = [Arrival(beat, past=False)] * count

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        for arrival in self._arrivals:
            yield arrival
        await asyncio.Event().wait()


async def test_other_tasks_have_their_turns_within_a_fetch_of_thousands() -> None:
    count, turns, arrived = 5_000, 0, 0

    async def call() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    calling = asyncio.create_task(call())
    async with aclosing(follow_on(FullTail(count), lambda: START, lambda _: None)) as arrivals:
        async for _ in arrivals:
            arrived += 1
            if arrived == count:
                break
    calling.cancel()

    assert turns >= count // 200
