"""The heartbeats topic: what drivers say about themselves, and the leading scheduler's own beat. And how far
the topic goes of what they set aside.

Any number of partitions, nothing committed, only what comes: one that was missed is followed by another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from chassis.logging import logger
from eventlog import Draft, Record, read_record
from eventlog.reader import TEMPORARY, all_partitions, client, unavailable
from eventlog.topics import QUARANTINE
from kafkaclient import Connection
from kafkaclient.behind import Listener, stopped
from kafkaclient.replacing import Spell

_POLL_MS: Final = 1_000


async def set_aside_ends(connection: Connection) -> Mapping[int, int]:
    """The offset behind the last record of each partition of the quarantine. Raises: LogUnavailable."""
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
        self._consumer = self._unstarted_consumer()
        self._sending = Spell()
        self._replacing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            await self._producer.start()
            await self._listen(self._consumer)
        except (KafkaError, OSError) as error:
            await self._close()
            raise unavailable(self._connection, error) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

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

    async def follow(self) -> AsyncIterator[Record]:
        """What comes, for ever. Waits through an outage of the broker; replaces a consumer that is stuck."""
        listener = Listener(self._connection, self._consumer)
        while True:
            fetched = await self._consumer.getmany(timeout_ms=_POLL_MS)
            for messages in fetched.values():
                for message in messages:
                    yield read_record(message.offset, message.headers, message.value)
            try:
                await listener.check(heard=bool(fetched))
            except KafkaConnectionError as error:
                logger().warning("kafka.reader_replaced", topic=self._topic, detail=str(error))
                await self._replace_consumer()
                listener = Listener(self._connection, self._consumer)

    async def _replace_producer(self) -> None:
        fresh, stuck = self._unstarted_producer(), self._producer
        try:
            await fresh.start()
        except (KafkaError, OSError):
            await fresh.stop()
            return
        logger().warning("kafka.producer_replaced", topic=self._topic)
        self._producer, self._sending = fresh, Spell()
        await stuck.stop()

    async def _replace_consumer(self) -> None:
        fresh, stuck = self._unstarted_consumer(), self._consumer
        try:
            await self._listen(fresh)
        except (KafkaError, OSError):
            await stopped(fresh)
            return
        self._consumer = fresh
        await stopped(stuck)

    async def _listen(self, consumer: AIOKafkaConsumer) -> None:
        """Begin to hear what comes. Raises: KafkaError, OSError."""
        await consumer.start()
        partitions = await self._producer.partitions_for(self._topic)
        assigned = [TopicPartition(self._topic, number) for number in partitions]
        consumer.assign(assigned)
        await consumer.seek_to_end(*assigned)

    def _unstarted_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(**client(self._connection), request_timeout_ms=5_000)

    def _unstarted_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **client(self._connection), enable_auto_commit=False, auto_offset_reset="latest"
        )

    async def _close(self) -> None:
        await stopped(self._consumer)
        await self._producer.stop()
