"""What drivers said before this monitor began: it is read again from the heartbeats topic.

The topic is the changelog of the watches. A table of ours beside it would be a second truth (ADR 35). Faust's
agent reads it, so a window back is a commit of its group, and no `eventlog.tail.KafkaTail` (ADR 195).
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
    """How much of what stood in a topic was read; pure."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        """`ends`: the offset behind the last record of each partition that has something to recall."""
        self.ends: Mapping[int, int] = dict(ends)
        """The same."""
        self._unread = set(ends)
        self.count = 0
        """Records of it that were read."""

    def holds(self, partition: int, offset: int) -> bool:
        """Whether a record stood there before."""
        return offset < self.ends.get(partition, 0)

    def read(self, partition: int, offset: int) -> None:
        """A record was read."""
        self.count += self.holds(partition, offset)
        if offset + 1 >= self.ends.get(partition, 0):
            self._unread.discard(partition)

    @property
    def done(self) -> bool:
        """Whether all of it was read."""
        return not self._unread


async def rewind(connection: Connection, *, topic: str, group: str, since: datetime) -> Recall:
    """Have a consumer group that nobody is in begin at what came `since` then. Raises: LogUnavailable."""
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
