"""Recall: re-reads the heartbeats of the minutes before this monitor began.

The topic is the changelog of the watches; a table beside it would be a second truth (ADR 35). Faust's agent
reads it by a consumer group, so going back is a commit of the group, and no `KafkaTail` (ADR 195).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlog import reader
from eventlog.admin import open_admin_client
from kafkaclient import Connection
from kafkaclient.behind import stop_consumer


class Recall:
    """Progress of a recall: which of the topic's old records were read. Pure."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        """`ends`: offset behind the last old record of each partition that has any."""
        self.ends: Mapping[int, int] = dict(ends)
        """Offset behind the last old record, by partition."""
        self._unread = set(ends)
        self.count = 0
        """Old records that were read."""

    def holds(self, partition: int, offset: int) -> bool:
        """Tell whether a record is one of the old ones."""
        return offset < self.ends.get(partition, 0)

    def read(self, partition: int, offset: int) -> None:
        """Count a record that was read."""
        self.count += self.holds(partition, offset)
        if offset + 1 >= self.ends.get(partition, 0):
            self._unread.discard(partition)

    @property
    def done(self) -> bool:
        """True once all old records were read."""
        return not self._unread


async def rewind(connection: Connection, *, topic: str, group: str, since: datetime) -> Recall:
    """Commit offsets so that an empty consumer group begins `since` then. Raises: LogUnavailable."""
    async with open_admin_client(connection) as admin:
        (described,) = await admin.describe_topics([topic])
        partitions = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
        consumer = AIOKafkaConsumer(**reader.client(connection), group_id=group, enable_auto_commit=False)
        try:
            await consumer.start()
            consumer.assign(partitions)
            begins, ends = await reader.offsets_since(consumer, partitions, since)
            await consumer.commit(begins)
        finally:
            await stop_consumer(consumer)
    return Recall({place.partition: ends[place] for place in partitions if begins[place] < ends[place]})
