"""Read a range of one partition in an executor's Python worker, by a consumer of librdkafka.

The native consumer reads where it was built, else Python's. Both give the same records.

Workers outlive tasks, and so do consumers. Of a large range the consumer is kept for the next batch, which
most often begins where that ended, and fetches ahead. Small ranges are read one after the other by one
consumer of their cluster, of whatever partition and launch: a consumer has four threads and connections of
its own, and a driver of 40 daggers reads hundreds of partitions. All consumers of a worker share one budget
of memory; those unused for longest are closed first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from typing import Protocol, TypeAlias

from confluent_kafka import KafkaError

from chassis.logging import logger
from kafkaclient import replacing
from kafkaclient.replacing import Spell, answers
from runtime.clients import kafka
from runtime.errors import TemporaryError, external
from runtime.source.kafka_errors import job_error
from runtime.source.offsets import Partition
from runtime.source.plan import ReaderPlan
from runtime.source.reader import native_library
from runtime.source.reader.native_consumer import NativeConsumer
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.records import HEADERS_COLUMN, LIMITS, Notice, Properties, Records
from runtime.source.tasks import OffsetRange

# Memory for records that consumers of one worker have fetched ahead, in KiB, and the bounds of one consumer's
# part: any worker may get any partition's next range, so several workers fetch the same records ahead.
_BUDGET_KIB = 256 * 1024
_MIN_KIB = 2 * 1024
_MAX_KIB = 8 * 1024
MESSAGES_ALIVE = 10 * LIMITS.records
"""Count above the messages that a worker has at a time."""
# A broker answers at the end of a partition after so long (ms): soon where the same connection is to read the
# next partition.
_WAIT_MS, _SHARED_WAIT_MS = 50, 10
_POLL_S = 0.1
_LOG_S = 10.0


class RecordConsumer(Protocol):
    """A client of one partition at a time. All of it raises KafkaException where librdkafka refuses."""

    def move(self, partition: Partition) -> None:
        """Read this partition from the next `assign` on."""

    def assign(self, offset: int) -> None:
        """Make the next record the first one from `offset` on."""

    def unassign(self) -> None:
        """Fetch no more, until it is assigned again."""

    def next(self, count: int, timeout_s: float) -> Records | Notice | None:
        """Return what comes next, up to `count` records; None when nothing came for a while."""

    def close(self) -> None:
        """Close its connections."""


Open: TypeAlias = Callable[[Properties, Partition], RecordConsumer]
# The cluster's properties, with who reads, and whether with headers. Nobody joins the consumer group.
_Connection: TypeAlias = tuple[kafka.PropertiesKey, bool]


def open_fastest(properties: Properties, partition: Partition) -> RecordConsumer:
    """Open the native consumer where it was built, else Python's. Raises: JobError (EXTERNAL)."""
    library = native_library.load()
    with kafka.hiding_secrets(properties):
        if library is None:
            return PythonConsumer(properties, partition)
        return NativeConsumer(library, properties, partition)


def open_with_headers(properties: Properties, partition: Partition) -> RecordConsumer:
    """Open Python's client: the native one reads no headers. Raises: JobError (EXTERNAL)."""
    with kafka.hiding_secrets(properties):
        return PythonConsumer(properties, partition, headers=True)


class _PositionedConsumer:
    """Consumer of one partition, and its position.

    Its next record has an offset of at least `low`, and nothing lies between `low` and `high`: there are gaps
    in a partition where a transaction ended or records were compacted away.
    """

    def __init__(
        self,
        open_: Open,
        plan: ReaderPlan,
        offsets: OffsetRange,
        budget_kib: int,
        wait_ms: int = _WAIT_MS,
    ) -> None:
        self.budget_kib = budget_kib
        self.low = self.high = offsets.start
        self._properties: Properties = {
            "check.crcs": False,
            "fetch.wait.max.ms": wait_ms,
            "fetch.error.backoff.ms": 100,
            "queued.min.messages": 20_000,
            # A full queue is polled again soon: the default, a second, is longer than most batches.
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
        self._open = partial(open_, self._properties)
        self._partition = offsets.partition
        self._consumer = self._open(self._partition)
        self._consumer.assign(offsets.start)
        self._assigned = True

    def replace_if_stuck(self) -> bool:
        """Go on by another client from this position, if Kafka answers a fresh one; tell whether so."""
        if not answers(self._properties):
            return False
        fresh, stuck = self._open(self._partition), self._consumer
        fresh.assign(self.high)
        self._consumer, self.low = fresh, self.high
        Thread(target=stuck.close, name="kafka-discard", daemon=True).start()  # it may not end
        return True

    def move(self, offsets: OffsetRange) -> None:
        """Read another partition, after `leave`."""
        self._partition = offsets.partition
        self._consumer.move(offsets.partition)

    def seek(self, offset: int) -> None:
        """Make the next record the first one from `offset` on."""
        if not (self._assigned and self.low <= offset <= self.high):
            self._consumer.assign(offset)
            self._assigned = True
            self.low = self.high = offset

    def leave(self) -> None:
        """Fetch nothing ahead, until the next `seek`."""
        self._consumer.unassign()
        self._assigned = False

    def next(self, count: int) -> Records | Notice | None:
        """Return up to `count` records, or a notice instead; None when nothing came for a while."""
        return self._consumer.next(count, _POLL_S)

    def close(self) -> None:
        """Close its connections."""
        self._consumer.close()


class ConsumerCache:
    """The consumers of one Python worker, least recently used first."""

    def __init__(self, open_: Open = open_fastest) -> None:
        self._open = open_
        self._consumers: OrderedDict[tuple[str, str, Partition], _PositionedConsumer] = OrderedDict()
        """Those of large ranges, by reader, topic and partition."""
        self._shared: OrderedDict[_Connection, _PositionedConsumer] = OrderedDict()
        """Those of small ranges, which rest: one for all who read a cluster as the same user."""

    def read(self, plan: ReaderPlan, wanted: OffsetRange, siblings: int) -> Iterator[Records]:
        """Yield the records of a range, in order, at most 10,000 or 16 MiB at a time.

        `siblings` is as in `ReadRanges`: each partition gets an equal part of the memory. While Kafka does
        not answer this waits, with a warning in the log; it raises `JobError` (EXTERNAL) when Kafka refuses.
        """
        if plan.range_end is not None:
            self._leave(plan.launch)
        key = (plan.name, wanted.id, wanted.partition)
        is_small = wanted.end - wanted.start < LIMITS.records
        consumer = self._consumers.pop(key, None)
        connection = kafka.key_of(plan.kafka), HEADERS_COLUMN in plan.paths
        is_shared = is_small and consumer is None
        if consumer is None and is_shared:
            consumer = self._share(connection, plan, wanted)
        elif consumer is None:
            budget_kib = min(max(_BUDGET_KIB // max(siblings, 1), _MIN_KIB), _MAX_KIB)
            self._make_room(budget_kib)
            consumer = _PositionedConsumer(self._opener_of(plan), plan, wanted, budget_kib)
        # A consumer whose reading failed half-way is closed: its position is not known.
        try:
            consumer.seek(wanted.start)
            yield from _read(consumer, wanted)
            if is_shared:
                # It is at the end of its partition: there it would ask for more 20 times a second.
                consumer.leave()
        except BaseException:
            consumer.close()
            raise
        if is_shared:
            self._rest(connection, consumer)
        elif is_small:  # it has caught up: from now on the shared one does
            consumer.close()
        else:
            self._consumers[key] = consumer

    def _share(self, connection: _Connection, plan: ReaderPlan, wanted: OffsetRange) -> _PositionedConsumer:
        """Take the consumer that rests of the cluster, or open one. Nobody else has it meanwhile."""
        consumer = self._shared.pop(connection, None)
        if consumer is not None:
            consumer.move(wanted)
            return consumer
        self._make_room(_MAX_KIB)
        return _PositionedConsumer(self._opener_of(plan), plan, wanted, _MAX_KIB, _SHARED_WAIT_MS)

    def _rest(self, connection: _Connection, consumer: _PositionedConsumer) -> None:
        other = self._shared.pop(connection, None)
        if other is not None:  # two readings went on at a time, as in a test
            other.close()
        self._shared[connection] = consumer

    def _opener_of(self, plan: ReaderPlan) -> Open:
        return open_with_headers if HEADERS_COLUMN in plan.paths else self._open

    def close(self) -> None:
        """Close all connections."""
        for consumers in (self._consumers, self._shared):
            while consumers:
                consumers.popitem()[1].close()

    def _leave(self, launch: str) -> None:
        """Close what is not of this launch, a preview: one goes on at a time, and none comes again.

        A client has threads, whose stacks count as a worker's memory: those of 16 previews were all it has.
        """
        for key in [key for key in self._consumers if not key[0].startswith(f"{launch}.")]:
            self._consumers.pop(key).close()

    def _make_room(self, wanted_kib: int) -> None:
        for consumers in (self._consumers, self._shared):
            while consumers and wanted_kib + self._held_kib() > _BUDGET_KIB:
                _, oldest = consumers.popitem(last=False)
                oldest.close()

    def _held_kib(self) -> int:
        all_of_them = (*self._consumers.values(), *self._shared.values())
        return sum(consumer.budget_kib for consumer in all_of_them)


def _read(consumer: _PositionedConsumer, wanted: OffsetRange) -> Iterator[Records]:
    """Yield the records of `wanted` from a consumer that stands at its start; end by position, not count."""
    logged = time.monotonic()
    silence, patience_s = Spell(), replacing.PATIENCE_S
    while consumer.high < wanted.end:
        came = consumer.next(min(LIMITS.records, wanted.end - consumer.high))
        if isinstance(came, Records):
            if came.offsets[0] < wanted.start:
                raise external(
                    "TOPIC_TRUNCATED",
                    f"{wanted.partition} no longer holds the offset {wanted.start}: its records "
                    "were deleted.",
                )
            consumer.low = int(came.offsets[-1]) + 1
            consumer.high = max(consumer.high, consumer.low)
            if len(records := came.before(wanted.end)):
                yield records
            logged = time.monotonic()
            silence = Spell()
            continue
        if came is not None:
            _meet(came, consumer, wanted)
        silence = silence.fails(time.monotonic())
        if silence.due(time.monotonic(), patience_s):
            silence = silence.looks(time.monotonic())
            if consumer.replace_if_stuck():
                logger().warning(
                    "kafka.consumer_replaced", partition=str(wanted.partition), silent_s=patience_s
                )
                # Nothing comes, either, of a gap of gigabytes, which the next one begins again.
                silence, patience_s = Spell(), 2 * patience_s
        if time.monotonic() - logged > _LOG_S:
            logged = time.monotonic()
            logger().warning(
                "kafka.read_delayed", partition=str(wanted.partition), offset=consumer.high, end=wanted.end
            )


def _meet(notice: Notice, consumer: _PositionedConsumer, wanted: OffsetRange) -> None:
    """Handle a notice instead of a record: the end of the partition, or a defect."""
    if notice.error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library names its local errors so
        consumer.high = max(consumer.high, notice.offset)
        return
    problem = job_error(notice.error, f"reading {wanted.partition}")
    if not isinstance(problem, TemporaryError):
        raise problem
    logger().warning("kafka.read_failed", detail=problem.error.detail)
