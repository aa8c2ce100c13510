"""Reads a range of one partition in an executor's Python worker, by a consumer of librdkafka.

Workers outlive tasks, and so do consumers: they are kept for the next batch, which most often begins where
the last one ended. All consumers of a worker share one budget of memory; those unused for longest are closed
first.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from runtime.errors import TemporaryError, external
from runtime.source.kafka_errors import job_error
from runtime.source.offsets import Partition
from runtime.source.plan import ReaderPlan
from runtime.source.tasks import OffsetRange

_log = logging.getLogger(__name__)

# Memory for records that consumers of one worker have fetched ahead, in KiB, and the bounds of one consumer's
# part: any worker may get any partition's next range, so what is fetched ahead is held several times over.
_BUDGET_KIB = 256 * 1024
_MIN_KIB = 2 * 1024
_MAX_KIB = 8 * 1024
# Messages taken at once: what is decoded while it is still in the processor's cache costs a sixth less.
_CHUNK = 10_000
MESSAGES_ALIVE = 10 * _CHUNK
"""More messages than a worker holds at a time."""
_POLL_S = 0.1
_LOG_S = 10.0


class _PositionedConsumer:
    """A consumer of one partition, and where it stands.

    Its next record has an offset of at least `low`, and nothing lies between `low` and `high`: there are gaps
    in a partition where a transaction ended or records were compacted away.
    """

    def __init__(self, plan: ReaderPlan, offsets: OffsetRange, budget_kib: int) -> None:
        self.budget_kib = budget_kib
        self.low = self.high = offsets.start
        self._at = TopicPartition(offsets.partition.topic, offsets.partition.number, offsets.start)
        self._consumer = Consumer(
            {
                "check.crcs": False,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 100,
                "queued.min.messages": 20_000,
                # A full queue is asked again soon: the default, a second, is longer than most batches.
                "fetch.queue.backoff.ms": 5,
                **plan.kafka,
                "group.id": plan.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                # Only for records that retention has deleted meanwhile; that the range exists was checked
                # before.
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": budget_kib,
            }
        )
        self._consumer.assign([self._at])

    def seek(self, offset: int) -> None:
        """Makes the next record the first one from `offset` on."""
        if not self.low <= offset <= self.high:
            self._at.offset = offset
            self._consumer.assign([self._at])
            self.low = self.high = offset

    def next(self, count: int) -> list[Message]:
        """Up to `count` messages, errors among them; empty when none came for a while."""
        messages: list[Message] = self._consumer.consume(count, _POLL_S)
        return messages

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()


class ConsumerCache:
    """The consumers of one Python worker, least recently used first.

    No two launches share one: they may read as different users.
    """

    def __init__(self) -> None:
        self._consumers: OrderedDict[tuple[str, str, Partition], _PositionedConsumer] = OrderedDict()

    def read(self, plan: ReaderPlan, wanted: OffsetRange, siblings: int) -> Iterator[list[Message]]:
        """The records of a range, in order, as lists of at most 10,000 messages without errors.

        `siblings` is the number of partitions the reader reads: each gets an equal part of the memory. While
        Kafka does not answer this waits, and says so in the log; it raises `JobError` (EXTERNAL) when Kafka
        refuses.
        """
        key = (plan.name, wanted.id, wanted.partition)
        consumer = self._consumers.pop(key, None)
        if consumer is None:
            budget_kib = min(max(_BUDGET_KIB // max(siblings, 1), _MIN_KIB), _MAX_KIB)
            self._make_room(budget_kib)
            consumer = _PositionedConsumer(plan, wanted, budget_kib)
        consumer.seek(wanted.start)
        # A consumer whose reading failed half-way is not kept: where it stands is not known.
        try:
            yield from _read(consumer, wanted)
        except BaseException:
            consumer.close()
            raise
        self._consumers[key] = consumer

    def _make_room(self, wanted_kib: int) -> None:
        while self._consumers and wanted_kib + self._held_kib() > _BUDGET_KIB:
            _, oldest = self._consumers.popitem(last=False)
            oldest.close()

    def _held_kib(self) -> int:
        return sum(consumer.budget_kib for consumer in self._consumers.values())


def _read(consumer: _PositionedConsumer, wanted: OffsetRange) -> Iterator[list[Message]]:
    """The records of `wanted` from a consumer that stands at its start; ends by position, not by count."""
    logged = time.monotonic()
    while consumer.high < wanted.end:
        messages = consumer.next(min(_CHUNK, wanted.end - consumer.high))
        records = [message for message in messages if message.error() is None]
        for message in messages if len(records) < len(messages) else ():
            _meet_error(message, consumer, wanted)
        if records:
            first, last = int(records[0].offset() or 0), int(records[-1].offset() or 0)
            if first < wanted.start:
                raise external(
                    "TOPIC_TRUNCATED",
                    f"{wanted.partition} no longer holds the offset {wanted.start}: its records "
                    "were deleted.",
                )
            consumer.low = last + 1
            consumer.high = max(consumer.high, consumer.low)
            if last >= wanted.end:
                records = [record for record in records if int(record.offset() or 0) < wanted.end]
            if records:
                yield records
            logged = time.monotonic()
        elif time.monotonic() - logged > _LOG_S:
            logged = time.monotonic()
            _log.warning(
                "waiting for Kafka: %s, offset %d of %d", wanted.partition, consumer.high, wanted.end
            )


def _meet_error(message: Message, consumer: _PositionedConsumer, wanted: OffsetRange) -> None:
    """Takes in what comes instead of a message: the end of the partition, or a defect."""
    error = message.error()
    if error is None:
        return
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library names its local errors so
        consumer.high = max(consumer.high, int(message.offset() or 0))
        return
    problem = job_error(error, f"reading {wanted.partition}")
    if not isinstance(problem, TemporaryError):
        raise problem
    _log.warning("%s Trying again.", problem.error.detail)
