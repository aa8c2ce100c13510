"""Read records of one partition by their offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from kafkaclient.tail import is_end

_MOST_A_POLL: Final = 1_000
PATIENCE_S: Final = 60.0
"""Silence of Kafka after which an attempt fails with a retryable error."""
_GAP: Final = 2_000
"""Longest gap between wanted offsets that is read through: a seek costs more than these records."""


def read_range(
    consumer: Consumer, topic: str, partition: int, start: int, end: int
) -> Iterator[tuple[int, Message]]:
    """Yield offset and record from `start` to before `end`. Raises: KafkaException, TimeoutError."""
    if start >= end:
        return
    consumer.assign([TopicPartition(topic, partition, start)])
    deadline = time.monotonic() + PATIENCE_S
    following = start
    while following < end:
        messages = consumer.consume(min(_MOST_A_POLL, end - following), timeout=0.5)
        if not messages and time.monotonic() > deadline:
            raise TimeoutError(f"the topic {topic} gives nothing for {PATIENCE_S:.0f} s")
        for message in messages:
            deadline = time.monotonic() + PATIENCE_S
            if is_end(message):
                following = end  # the last offsets hold no records
                break
            following = (message.offset() or 0) + 1
            if following <= end:
                yield following - 1, message
    consumer.unassign()  # else the client fetches on, into memory that nobody reads


def read_offsets(
    consumer: Consumer, topic: str, partition: int, offsets: Sequence[int], low: int
) -> Iterator[tuple[int, Message | None]]:
    """Yield the records at these sorted offsets; None for one that Kafka has deleted.

    low: the partition's first offset. Raises: KafkaException, TimeoutError.
    """
    for run in _group_runs(offsets):
        wanted = iter(run)
        awaited = next(wanted, None)
        for offset, message in read_range(consumer, topic, partition, max(run[0], low), run[-1] + 1):
            while awaited is not None and awaited < offset:
                yield awaited, None
                awaited = next(wanted, None)
            if awaited == offset:
                yield offset, message
                awaited = next(wanted, None)
        while awaited is not None:
            yield awaited, None
            awaited = next(wanted, None)


def _group_runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Group sorted offsets into runs that are read without a seek."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > _GAP:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run
