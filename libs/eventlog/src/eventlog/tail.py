"""The tail of a topic: its last minutes, then new records, for readers that need no history.

All partitions are read, without a consumer group or commits; there is no order across partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlog.heartbeats import unpack
from eventlog.reader import TEMPORARY, all_partitions, offsets_since, unavailable
from eventlog.record import Record, read_record
from kafkaclient import Connection
from kafkaclient.behind import Listener

_POLL_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record, and whether it is old."""

    record: Record
    past: bool
    """True of a record that was in the topic before reading began: its arrival was not observed, and its time
    is that of the writer's clock."""


class Tail(Protocol):
    """Topic of which only the newest records matter."""

    def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """Yield the records that arrived since, then new ones for ever. Raises: LogUnavailable."""


class KafkaTail:
    """Tail of a topic in Kafka."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    async def follow(
        self, since: datetime | None, on_read: Callable[[], None] | None = None
    ) -> AsyncGenerator[Arrival]:
        """Yield the records that Kafka stamped since, then new ones for ever; None: only new ones.

        Heartbeats that travelled in one of their host are yielded one by one.

        on_read: called once, when all that was in the topic before has been yielded.

        Waits through outages once it has begun. Raises: LogUnavailable, when Kafka does not answer at the
        start, or answers other clients but not this one: then follow again.
        """
        try:
            async with all_partitions(self._connection, self._topic, begin="latest") as (
                consumer,
                partitions,
            ):
                if since is None:
                    starts = ends = await consumer.end_offsets(partitions)
                else:
                    starts, ends = await offsets_since(consumer, partitions, since)
                for partition, start in starts.items():
                    consumer.seek(partition, start)
                listener = Listener(self._connection, consumer)
                while True:
                    fetched = await consumer.getmany(timeout_ms=_POLL_MS)
                    await listener.check(received=bool(fetched))
                    for partition, messages in fetched.items():
                        for message in messages:
                            packed = read_record(message.offset, message.headers, message.value)
                            for record in unpack(packed):
                                yield Arrival(record, past=message.offset < ends[partition])
                    if on_read is not None and await _has_read(consumer, ends):
                        on_read()
                        on_read = None
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error


async def _has_read(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Tell whether a consumer stands at or behind these offsets."""
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])


class SilentTail:
    """Tail of a topic that nobody writes to."""

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """Wait for ever, and yield nothing."""
        await asyncio.Event().wait()
        yield  # type: ignore[misc] # what makes it a generator
