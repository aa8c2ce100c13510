"""The scheduler's beats and what it hears, where Kafka answers others and not its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from daggers.v1 import telemetry_pb2
from tests.contracts.beats import first_heard
from tests.proxy import LOOPBACK, Proxy, port_of

from eventlog import Draft, LogUnavailable
from eventlog.admin import ensure_topics
from eventlog.topics import Topic
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


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients look after a second, and each time, whether another one is answered."""
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 1.0)
    monkeypatch.setattr("kafkaclient.replacing._LOOK_AGAIN_S", 0.0)


class Counted(Heartbeats):
    """Beats whose producers are counted."""

    def _unstarted_producer(self) -> AIOKafkaProducer:
        producer = super()._unstarted_producer()
        self.__dict__.setdefault("producers", []).append(producer)
        return producer


def beat(number: int) -> Draft:
    message = telemetry_pb2.SchedulerBeat()
    return Draft(f"beat-{number}", "/test", "scheduler", datetime.now(UTC), message)


@pytest.mark.usefixtures("hasty")
async def test_beats_that_fail_together_bring_one_producer_in_place_of_a_stuck_one(
    ways: tuple[Proxy, Proxy],
) -> None:
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


@pytest.mark.usefixtures("hasty")
async def test_beats_are_heard_again_once_the_broker_has_moved(ways: tuple[Proxy, Proxy], kafka: str) -> None:
    before, after = ways
    after.cut()
    topic = f"heartbeats-{uuid4().hex}"
    await ensure_topics(Connection(kafka), (Topic(topic, 1, {}),))
    moving = Connection(f"{LOOPBACK}:{before.port},{LOOPBACK}:{after.port}")
    async with (
        asyncio.timeout(120),
        Heartbeats(Connection(kafka), topic) as others,
        Heartbeats(moving, topic) as beats,
        aclosing(beats.follow()) as heard,
    ):
        names = [(await first_heard(others, heard, "before")).message.dagger]
        before.cut()
        after.open()
        while names[-1] == "before":  # some were fetched already
            names.append((await first_heard(others, heard, "behind")).message.dagger)

    assert names[-1] == "behind"
