"""The brokers moved to other addresses of the bootstrap list, which no client of aiokafka finds by itself.

Two proxies are those addresses. The second is cut at first; then the first is, as if the broker listened on
another port from now on.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
from daggers.v1 import events_pb2
from tests.proxy import Proxy, port_of

from eventlog import Draft, LogPosition, LogUnavailable, Record, extend_history
from eventlog.follower import Follower
from eventlog.kafka import KafkaLog
from eventlog.tail import KafkaTail
from eventlog.testing import START
from kafkaclient import Connection

pytestmark = pytest.mark.integration
HALF = 500
EVER = datetime(2000, 1, 1, tzinfo=UTC)


class Addresses:
    """Two addresses of one broker, of which it listens at one."""

    def __init__(self, before: Proxy, after: Proxy) -> None:
        self._before, self._after = before, after
        self._after.cut()
        ports = (before.port, after.port)
        self.connection = Connection(",".join(f"127.0.0.1:{port}" for port in ports))

    def deafen(self) -> None:
        """What the broker answers is lost from now on."""
        self._before.deafen()

    def move(self) -> None:
        """The broker listens at the other one from now on."""
        self._before.cut()
        self._after.open()


@pytest.fixture
def addresses(kafka: str) -> Iterator[Addresses]:
    broker = port_of(f"//{kafka}")
    with Proxy(broker, kafka=True) as before, Proxy(broker, kafka=True) as after:
        yield Addresses(before, after)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 4.0)
    monkeypatch.setattr("kafkaclient.replacing._LOOK_AGAIN_S", 1.0)
    monkeypatch.setattr("eventlog.kafka._ACK_S", 3.0)
    monkeypatch.setattr("eventlog.kafka._CHECK_S", 2.0)
    monkeypatch.setattr("eventlog.reader._POLL_MS", 1_000)


def draft(number: int) -> Draft:
    return Draft(f"id-{number}", "/test", "d", START, events_pb2.StartRequested(name="d"))


def topic() -> str:
    return f"moved-{uuid.uuid4().hex[:12]}"


class Once:
    """A fold as the fleet is one: a record whose id it knows changes nothing."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.position = LogPosition()

    def apply(self, record: Record) -> bool:
        new = record.id not in self.taken
        if new:
            self.taken[record.id] += 1
        self.position = LogPosition(record.sequence, extend_history(self.position.history, record))
        return new


@asynccontextmanager
async def following(log: KafkaLog, fold: Once) -> AsyncIterator[Follower[bool]]:
    follower = Follower(log, fold)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_thousand_appends_in_flight_are_each_folded_once_though_the_producer_is_replaced(
    addresses: Addresses,
) -> None:
    fold = Once()
    async with (
        asyncio.timeout(120),
        KafkaLog(addresses.connection, topic()) as log,
        following(log, fold) as follower,
    ):
        await follower.append(draft(0))
        addresses.deafen()
        written = [asyncio.create_task(follower.append(draft(number))) for number in range(1, HALF + 1)]
        await asyncio.sleep(1)  # so these are written, and nobody knows
        addresses.move()
        lost = [asyncio.create_task(follower.append(draft(HALF + number))) for number in range(1, HALF + 1)]
        await asyncio.gather(*written, *lost)
        await follower.catch_up()

    assert fold.taken == Counter(f"id-{number}" for number in range(2 * HALF + 1))


async def test_what_follows_a_topic_hears_of_what_is_written_after_the_move(
    addresses: Addresses, kafka: str
) -> None:
    name = topic()
    async with asyncio.timeout(120), KafkaLog(Connection(kafka), name) as near:
        await near.append(draft(0))
        async with KafkaLog(addresses.connection, name) as far:
            tail = KafkaTail(addresses.connection, name)
            async with aclosing(far.follow()) as records, aclosing(tail.follow(EVER)) as arrivals:
                first = await anext(records), await anext(arrivals)
                addresses.move()
                await near.append(draft(1))
                followed = asyncio.create_task(anext(records))
                with pytest.raises(LogUnavailable):  # whoever follows a tail begins anew
                    await anext(arrivals)
                second = await followed
                await asyncio.sleep(0)
            away = far.away

    assert [first[0].id, first[1].record.id, second.id] == ["id-0", "id-0", "id-1"]
    assert away == "" or "does not answer" in away
