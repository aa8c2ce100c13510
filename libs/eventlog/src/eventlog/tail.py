"""The last minutes of a topic, and what comes: for who needs what is said now, and no history.

Any number of partitions, no group, nothing committed. Records of several partitions come in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlog.log import Log
from eventlog.reader import BACKOFF_MS, REQUEST_TIMEOUT_MS, TEMPORARY, client, unavailable
from eventlog.record import Record, read_record
from kafkaclient import Connection

_POLL_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record as it came."""

    record: Record
    past: bool
    """Whether it stood there before the reading began: nobody knows by whose clock it came when."""


class Tail(Protocol):
    """A topic of which only the newest is of use."""

    def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """What came `since` then, and then what comes, for ever. Raises: LogUnavailable."""


class KafkaTail:
    """The tail of a topic in Kafka."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """As `Tail.follow`. An outage in between is waited for."""
        consumer = AIOKafkaConsumer(
            self._topic,
            **client(self._connection),
            group_id=None,
            auto_offset_reset="latest",
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=BACKOFF_MS,
        )
        try:
            await consumer.start()
            consumer.unsubscribe()  # its partitions are known now
            numbers = sorted(consumer.partitions_for_topic(self._topic) or ())
            partitions = [TopicPartition(self._topic, number) for number in numbers]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            instant_ms = int(since.timestamp() * 1000)
            starts = await consumer.offsets_for_times(dict.fromkeys(partitions, instant_ms))
            for partition in partitions:
                start = starts[partition]
                consumer.seek(partition, start.offset if start else ends[partition])
            while True:
                fetched = await consumer.getmany(timeout_ms=_POLL_MS)
                for partition, messages in fetched.items():
                    for message in messages:
                        record = read_record(message.offset, message.headers, message.value)
                        yield Arrival(record, past=message.offset < ends[partition])
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error
        finally:
            await consumer.stop()


class LogTail:
    """The tail of a log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """As `Tail.follow`."""
        end = await self._log.end()
        async with aclosing(self._log.follow()) as records:
            async for record in records:
                if record.sequence > end or record.time >= since:
                    yield Arrival(record, past=record.sequence <= end)


class Silence:
    """A topic that nobody writes to."""

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """As `Tail.follow`."""
        await asyncio.Event().wait()
        yield  # type: ignore[misc] # what makes it a generator
