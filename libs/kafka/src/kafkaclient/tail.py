"""The last records of a topic, and those that come."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

TIMEOUT_S: Final = 20.0
READER: Final = {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
"""Properties that a consumer needs for it."""
_MOVING: Final = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
_MOVING_S: Final = 5.0
_COME_S: Final = 0.05
_WAIT_S: Final = 0.5
_AT_ONCE: Final = 1000
_FIRST_BLOCK: Final = 500
_LAST_BLOCK: Final = 20_000


def tail(consumer: Consumer, topic: str, limit: int) -> list[Message]:
    """Read the last records of each partition, at most `limit` of each; none of a topic that does not exist.

    consumer: has the properties `READER`, and no assignment yet.
    Raises: KafkaException; TimeoutError when the end is not reached within `TIMEOUT_S`.
    """
    starts, expected = [], 0
    for partition in _partitions(consumer, topic):
        low, high = bounds(consumer, TopicPartition(topic, partition))
        start = max(low, high - limit)
        starts.append(TopicPartition(topic, partition, start))
        expected += high - start + 1  # one for the message that says that the partition ends
    if not starts:
        return []
    consumer.assign(starts)
    return _until_end(consumer, {start.partition for start in starts}, topic, expected)


def backwards(consumer: Consumer, topic: str, since: datetime | None) -> Iterator[Iterator[Message]]:
    """Yield the records of one partition after another, the last one first; none before `since`.

    Records are read as they are consumed.
    Raises: KafkaException; TimeoutError when a block is not read within `TIMEOUT_S`.
    """
    partitions = _partitions(consumer, topic)
    starts = dict.fromkeys(partitions, 0)
    if since is not None:
        milliseconds = math.ceil(since.timestamp() * 1000)
        times = [TopicPartition(topic, partition, max(milliseconds, 0)) for partition in partitions]
        offsets = consumer.offsets_for_times(times, timeout=TIMEOUT_S) if times else []
        starts = {partition.partition: partition.offset for partition in offsets}
    for partition in partitions:
        low, high = bounds(consumer, TopicPartition(topic, partition))
        # A negative offset: no record of the partition is as late as `since`.
        start = starts[partition] if starts[partition] >= 0 else high
        yield _backwards(consumer, TopicPartition(topic, partition, high), max(low, start))


def _backwards(consumer: Consumer, end: TopicPartition, low: int) -> Iterator[Message]:
    """Yield the records of a partition before `end`, the last one first, read in blocks that grow."""
    high, size = end.offset, _FIRST_BLOCK
    while high > low:
        start = max(low, high - size)
        consumer.assign([TopicPartition(end.topic, end.partition, start)])
        block: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while (following := (block[-1].offset() or 0) + 1 if block else start) < high:
            if time.monotonic() > deadline:
                raise _late(end.topic)
            messages = _consume(consumer, high - following)
            block += [message for message in messages if not is_end(message)]
            if any(map(is_end, messages)):
                break  # the last offsets hold no records
        yield from (message for message in reversed(block) if (message.offset() or 0) < high)
        high, size = start, min(2 * size, _LAST_BLOCK)


def further(consumer: Consumer, topic: str, limit: int) -> list[Message]:
    """Read what came since the last call; the first one, and any before the topic exists, is `tail`.

    Raises: KafkaException; TimeoutError.
    """
    if not consumer.assignment():
        return tail(consumer, topic, limit)
    arrived = []
    while messages := consumer.consume(_AT_ONCE, timeout=_COME_S):
        arrived += [message for message in messages if not is_end(message)]
        if len(messages) < _AT_ONCE:
            break
    return arrived


def bounds(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Read the offsets at which a partition begins and ends. Raises: KafkaException.

    Asks again for up to 5 s while no broker leads the partition, as of a new topic.
    """
    deadline = time.monotonic() + _MOVING_S
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    """List the partitions of a topic; none of one that does not exist."""
    metadata = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return []
    return sorted(metadata.partitions)


def _until_end(consumer: Consumer, unread: set[int], topic: str, expected: int) -> list[Message]:
    messages = []
    deadline = time.monotonic() + TIMEOUT_S
    while unread:
        if time.monotonic() > deadline:
            raise _late(topic)
        batch = _consume(consumer, expected)
        expected -= len(batch)
        for message in batch:
            if is_end(message):
                unread.discard(message.partition())
            else:
                messages.append(message)
    return messages


def _consume(consumer: Consumer, expected: int) -> list[Message]:
    """Consume at most `expected` messages, of which all must come."""
    # A consumer waits until it has as many as it was asked for: for more it would wait in vain.
    return consumer.consume(min(max(expected, 1), _AT_ONCE), timeout=_WAIT_S)


def is_end(message: Message) -> bool:
    """Tell whether a message says that a partition ends here. Raises: KafkaException for any other error."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - how librdkafka names it
        raise KafkaException(error)
    return True


def _late(topic: str) -> TimeoutError:
    return TimeoutError(f"the topic {topic} could not be read to its end in {TIMEOUT_S:.0f} s")
