"""The heartbeats topic: what drivers say about themselves, and the leading scheduler's own beat. And how far
the topic goes of what they set aside.

Any number of partitions, nothing committed, only what comes: one that was missed is followed by another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from eventlog import Draft, Record, read_record
from eventlog.reader import TEMPORARY, all_partitions, client, unavailable
from eventlog.topics import QUARANTINE
from kafkaclient import Connection


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
        self._producer = AIOKafkaProducer(**client(connection), request_timeout_ms=5_000)
        self._consumer = AIOKafkaConsumer(
            **client(connection), enable_auto_commit=False, auto_offset_reset="latest"
        )

    async def __aenter__(self) -> Self:
        try:
            await self._producer.start()
            await self._consumer.start()
            partitions = await self._producer.partitions_for(self._topic)
            assigned = [TopicPartition(self._topic, number) for number in partitions]
            self._consumer.assign(assigned)
            await self._consumer.seek_to_end(*assigned)
        except (KafkaError, OSError) as error:
            await self._close()
            raise unavailable(self._connection, error) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def append(self, draft: Draft) -> None:
        """Send one beat; once, because the next one is as good. Raises: LogUnavailable."""
        try:
            await self._producer.send_and_wait(
                self._topic,
                draft.message.SerializeToString(),
                key=draft.subject.encode(),
                headers=draft.headers(),
            )
        except (KafkaError, OSError) as error:
            raise unavailable(self._connection, error) from error

    async def follow(self) -> AsyncIterator[Record]:
        """What comes, for ever. Waits through an outage of the broker."""
        async for message in self._consumer:
            yield read_record(message.offset, message.headers, message.value)

    async def _close(self) -> None:
        await self._consumer.stop()
        await self._producer.stop()
