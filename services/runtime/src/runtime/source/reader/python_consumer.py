"""Read a partition by Python's client: where the native reader was not built, to compare it with, and for
headers, which the native one does not read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from runtime.clients.kafka import LOG
from runtime.source.offsets import Partition
from runtime.source.records import LIMITS, Limits, Notice, Properties, Records


class PythonConsumer:
    """A client of one partition at a time; see `consumers.RecordConsumer`. Raises: KafkaException."""

    def __init__(
        self,
        properties: Properties,
        partition: Partition,
        limits: Limits = LIMITS,
        *,
        headers: bool = False,
    ) -> None:
        """Open the client; with `headers`, records have them."""
        self._headers = headers
        self._position = TopicPartition(partition.topic, partition.number)
        self._limits = limits
        self._waiting: Sequence[Message] = ()
        self._consumer = Consumer(dict(properties), logger=LOG)

    def move(self, partition: Partition) -> None:
        """Read this partition from the next `assign` on."""
        self._position = TopicPartition(partition.topic, partition.number)

    def assign(self, offset: int) -> None:
        """Make the next record the first one from `offset` on."""
        self._waiting = ()
        self._position.offset = offset
        self._consumer.assign([self._position])

    def unassign(self) -> None:
        """Fetch no more, until it is assigned again."""
        self._waiting = ()
        self._consumer.unassign()

    def next(self, count: int, timeout_s: float) -> Records | Notice | None:
        """Return what comes next, up to `count` records; None when nothing came for a while."""
        if not self._waiting:
            self._waiting = self._consumer.consume(min(count, self._limits.records), timeout_s)
        if not self._waiting:
            return None
        count = _piece(self._waiting, self._limits.bytes)
        messages, self._waiting = self._waiting[: count or 1], self._waiting[count or 1 :]
        if count:
            return Records.of(messages, headers=self._headers)
        (message,) = messages
        error = message.error()
        assert error is not None
        return Notice(error, int(message.offset() or 0))

    def close(self) -> None:
        """Close its connections."""
        self._waiting = ()
        self._consumer.close()


def _piece(messages: Sequence[Message], most: int) -> int:
    """Count the first that are records and have at most `most` bytes, at least one; 0 where an error is
    first.
    """
    errors = (index for index, message in enumerate(messages) if message.error() is not None)
    records = messages[: next(errors, len(messages))]
    keys = (len(key or b"") for key in map(Message.key, records))
    sizes = np.fromiter(map(len, records), np.int64) + np.fromiter(keys, np.int64)
    return max(int(np.searchsorted(np.cumsum(sizes), most, "right")), min(1, len(records)))
