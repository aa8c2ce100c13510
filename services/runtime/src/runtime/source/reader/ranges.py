"""Reads a range of one partition in an executor's Python worker.

Workers outlive tasks, and so do consumers: they are kept for the next batch, which most often begins where
the last one ended. All consumers of a worker share one budget of memory; those unused for longest are closed
first.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from runtime.errors import TemporaryError, external
from runtime.source.offsets import Partition
from runtime.source.planner.broker import failure

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
_TASK = 10_000  # records that are worth a task
_POLL_S = 0.1
_SAY_S = 10.0


@dataclass(frozen=True, slots=True)
class Range:
    """Records to read: offsets from `start` up to, not including, `end`; `id` is the topic's."""

    partition: Partition
    id: str
    start: int
    end: int


def tasks(ranges: Iterable[Range]) -> list[tuple[Range, ...]]:
    """The ranges, each group to be read by one task: small ones together, in order.

    A task costs Spark and its workers a tenth of a second, whatever it reads.
    """
    groups: list[list[Range]] = []
    room = 0
    for one in ranges:
        size = one.end - one.start
        if not groups or size > room:
            groups.append([])
            room = _TASK
        groups[-1].append(one)
        room -= size
    return [tuple(group) for group in groups]


class _Place:
    """A consumer, and where it stands.

    Its next record has an offset of at least `low`, and nothing lies between `low` and `high`: there are gaps
    in a partition where a transaction ended or records were compacted away.
    """

    def __init__(self, properties: Mapping[str, str], group: str, budget_kib: int, at: Range) -> None:
        self.budget_kib = budget_kib
        self.low = self.high = at.start
        self._at = TopicPartition(at.partition.topic, at.partition.number, at.start)
        self._consumer = Consumer(
            {
                "check.crcs": False,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 100,
                "queued.min.messages": 20_000,
                # A full queue is asked again soon: the default, a second, is longer than most batches.
                "fetch.queue.backoff.ms": 5,
                **properties,
                "group.id": group,
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

    def go_to(self, offset: int) -> None:
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
        self._consumer.close()


class Consumers:
    """The consumers of one Python worker, least recently used first."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str, Partition], _Place] = OrderedDict()

    def read(
        self, what: Range, properties: Mapping[str, str], group: str, siblings: int
    ) -> Iterator[list[Message]]:
        """The records of a range, in order, as lists of at most 10,000 messages without errors.

        `siblings` is the number of partitions the job reads: each gets an equal part of the memory. While
        Kafka does not answer this waits, and says so in the log; it raises `JobError` (EXTERNAL) when Kafka
        refuses.
        """
        key = (f"{properties['bootstrap.servers']}|{group}", what.id, what.partition)
        place = self._places.pop(key, None)
        if place is None:
            budget_kib = min(max(_BUDGET_KIB // max(siblings, 1), _MIN_KIB), _MAX_KIB)
            self._make_room(budget_kib)
            place = _Place(properties, group, budget_kib, what)
        place.go_to(what.start)
        # A place whose reading failed half-way is not kept: where it stands is not known.
        try:
            yield from _read(place, what)
        except BaseException:
            place.close()
            raise
        self._places[key] = place

    def _make_room(self, wanted_kib: int) -> None:
        while self._places and wanted_kib + sum(p.budget_kib for p in self._places.values()) > _BUDGET_KIB:
            _, oldest = self._places.popitem(last=False)
            oldest.close()


def _read(place: _Place, what: Range) -> Iterator[list[Message]]:
    """The records of `what` from a consumer that stands at its start; ends by position, not by count."""
    said = time.monotonic()
    while place.high < what.end:
        messages = place.next(min(_CHUNK, what.end - place.high))
        records = [message for message in messages if message.error() is None]
        for message in messages if len(records) < len(messages) else ():
            _meet_error(message, place, what)
        if records:
            first, last = int(records[0].offset() or 0), int(records[-1].offset() or 0)
            if first < what.start:
                raise external(
                    "TOPIC_TRUNCATED",
                    f"{what.partition} no longer holds the offset {what.start}: its records were deleted.",
                )
            place.low = last + 1
            place.high = max(place.high, place.low)
            if last >= what.end:
                records = [record for record in records if int(record.offset() or 0) < what.end]
            if records:
                yield records
            said = time.monotonic()
        elif time.monotonic() - said > _SAY_S:
            said = time.monotonic()
            _log.warning("waiting for Kafka: %s, offset %d of %d", what.partition, place.high, what.end)


def _meet_error(message: Message, place: _Place, what: Range) -> None:
    """Takes in what stands in a message's place: the end of the partition, or a defect."""
    error = message.error()
    if error is None:
        return
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library names its local errors so
        place.high = max(place.high, int(message.offset() or 0))
        return
    problem = failure(error, f"reading {what.partition}")
    if not isinstance(problem, TemporaryError):
        raise problem
    _log.warning("%s Trying again.", problem.error.detail)
