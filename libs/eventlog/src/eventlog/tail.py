"""The last minutes of a topic, and what comes: for who needs what is said now, and no history.

Any number of partitions, no group, nothing committed. Records of several partitions come in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from eventlog.reader import TEMPORARY, all_partitions, offsets_since, unavailable
from eventlog.record import Record, read_record
from kafkaclient import Connection
from kafkaclient.behind import Listener

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

    async def follow(self, since: datetime | None) -> AsyncGenerator[Arrival]:
        """As `Tail.follow`; None: only what comes. An outage in between is waited for.

        Raises: LogUnavailable, also where Kafka answers others: whoever follows begins anew.
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
                            record = read_record(message.offset, message.headers, message.value)
                            yield Arrival(record, past=message.offset < ends[partition])
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error


class Silence:
    """A topic that nobody writes to."""

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """As `Tail.follow`."""
        await asyncio.Event().wait()
        yield  # type: ignore[misc] # what makes it a generator
