"""The scheduler's producer of beats, where Kafka answers others and not this one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from aiokafka import AIOKafkaProducer
from daggers.v1 import telemetry_pb2
from tests.proxy import LOOPBACK, Proxy, port_of

from eventlog import Draft, LogUnavailable
from kafkaclient import Connection
from scheduler.leader.heartbeats import Heartbeats

pytestmark = pytest.mark.integration
BEATS = 20


@pytest.fixture
def ways(kafka: str) -> Iterator[tuple[Proxy, Proxy]]:
    """Two addresses of one broker: who knows it by the first one never asks at the second."""
    broker = port_of(f"//{kafka}")
    with Proxy(broker, kafka=True) as before, Proxy(broker, kafka=True) as after:
        yield before, after


class Counted(Heartbeats):
    """Beats whose producers are counted."""

    def _unstarted_producer(self) -> AIOKafkaProducer:
        producer = super()._unstarted_producer()
        self.__dict__.setdefault("producers", []).append(producer)
        return producer


def beat(number: int) -> Draft:
    message = telemetry_pb2.SchedulerBeat()
    return Draft(f"beat-{number}", "/test", "scheduler", datetime.now(UTC), message)


async def test_beats_that_fail_together_bring_one_producer_in_place_of_a_stuck_one(
    ways: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 1.0)
    monkeypatch.setattr("kafkaclient.replacing._LOOK_AGAIN_S", 0.0)
    before, after = ways
    after.cut()
    connection = Connection(f"{LOOPBACK}:{before.port},{LOOPBACK}:{after.port}")
    async with asyncio.timeout(120), Counted(connection, "daggers.heartbeats") as beats:
        await beats.append(beat(0))
        before.cut()
        after.open()
        found = await asyncio.gather(
            *(beats.append(beat(number)) for number in range(1, BEATS)), return_exceptions=True
        )
        await beats.append(beat(BEATS))
        producers = beats.__dict__["producers"]

    assert {type(each) for each in found} == {LogUnavailable}
    assert len(producers) == 2
    assert all(producer._closed for producer in producers)
