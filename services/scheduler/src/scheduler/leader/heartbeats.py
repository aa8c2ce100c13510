"""The heartbeats topic: reads those of drivers, agents and schedulers, and sends the leading scheduler's own
beat.
And reads how far the quarantine goes.

Any number of partitions, nothing committed, only what comes: one that was missed is followed by another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from chassis.logging import logger
from eventlog import Draft, LogUnavailable, Record
from eventlog.reader import TEMPORARY, all_partitions, client, unavailable
from eventlog.tail import KafkaTail
from eventlog.topics import QUARANTINE
from kafkaclient import Connection
from kafkaclient.replacing import Spell

_AGAIN_S: Final = 1.0


async def set_aside_ends(connection: Connection) -> Mapping[int, int]:
    """Return the offset behind the last record of each partition of the quarantine. Raises:
    LogUnavailable.
    """
    try:
        async with all_partitions(connection, QUARANTINE, begin="latest") as (consumer, partitions):
            ends = await consumer.end_offsets(partitions)
    except TEMPORARY as error:
        raise unavailable(connection, error) from error
    return {partition.partition: end for partition, end in ends.items()}


class Heartbeats:
    """An async context manager; entering connects. Raises on entering: LogUnavailable."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._producer = self._unstarted_producer()
        self._sending = Spell()
        self._replacing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            await self._producer.start()
        except (KafkaError, OSError) as error:
            await self._producer.stop()
            raise unavailable(self._connection, error) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()

    async def append(self, draft: Draft) -> None:
        """Send one beat; once, because the next one is as good. Raises: LogUnavailable.

        After half a minute of failures beside a Kafka that answers a fresh producer that one sends.
        """
        now = asyncio.get_running_loop().time
        began, producer = now(), self._producer
        try:
            await producer.send_and_wait(
                self._topic,
                draft.message.SerializeToString(),
                key=draft.subject.encode(),
                headers=draft.headers(),
            )
        except (KafkaError, OSError) as error:
            async with self._replacing:  # else two beats that fail together would each bring a producer
                if producer is self._producer:
                    self._sending = self._sending.fails(began)
                    if self._sending.due(now()):
                        self._sending = self._sending.looks(now())
                        await self._replace_producer()
            raise unavailable(self._connection, error) from error
        self._sending = Spell()

    async def follow(self) -> AsyncGenerator[Record]:
        """Yield what comes from now on, for ever. Waits through outages; begins anew when its consumer is
        stuck.
        """
        lost = False
        while True:
            try:
                # By whose clock a record is stamped, nobody knows: one of before is no sign of life now.
                async with aclosing(KafkaTail(self._connection, self._topic).follow(None)) as arrivals:
                    async for arrival in arrivals:
                        lost = False
                        yield arrival.record
            except LogUnavailable as error:
                if not lost:  # once for each outage
                    logger().warning("scheduler.heartbeats_lost", detail=str(error))
                lost = True
            await asyncio.sleep(_AGAIN_S)

    async def _replace_producer(self) -> None:
        fresh, stuck = self._unstarted_producer(), self._producer
        try:
            await fresh.start()
        except (KafkaError, OSError):
            await fresh.stop()
            return
        logger().warning("scheduler.beat_producer_replaced")
        self._producer, self._sending = fresh, Spell()
        await stuck.stop()

    def _unstarted_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(**client(self._connection), request_timeout_ms=5_000)
