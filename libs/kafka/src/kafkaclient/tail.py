"""The last records of a topic, and those that come."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

TIMEOUT_S: Final = 20.0
READER: Final = {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
"""Properties that a consumer needs for it."""
_MOVING: Final = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
_MOVING_S: Final = 5.0
_COME_S: Final = 0.05


def tail(consumer: Consumer, topic: str, limit: int) -> list[Message]:
    """The last records of each partition, at most `limit` of each; none of a topic that does not exist.

    consumer: one that has `READER`, and reads nothing yet. Raises: KafkaException; TimeoutError when the end
    is not reached within `TIMEOUT_S`.
    """
    metadata = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return []
    starts = []
    for partition in metadata.partitions:
        low, high = _bounds(consumer, TopicPartition(topic, partition))
        starts.append(TopicPartition(topic, partition, max(low, high - limit)))
    consumer.assign(starts)
    return _until_end(consumer, {start.partition for start in starts}, topic)


def further(consumer: Consumer, topic: str, limit: int) -> list[Message]:
    """What came since the last call; in the first, and while there is no such topic, as `tail`.

    Raises: as `tail`.
    """
    if not consumer.assignment():
        return tail(consumer, topic, limit)
    arrived = []
    while messages := consumer.consume(1000, timeout=_COME_S):
        for message in messages:
            error = message.error()
            if error is None:
                arrived.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - how librdkafka names it
                raise KafkaException(error)
        if len(messages) < 1000:
            break
    return arrived


def _bounds(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Where a partition begins and ends. Of a new topic no broker knows for a moment that it leads it."""
    deadline = time.monotonic() + _MOVING_S
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _until_end(consumer: Consumer, unread: set[int], topic: str) -> list[Message]:
    messages = []
    deadline = time.monotonic() + TIMEOUT_S
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the topic {topic} could not be read to its end in {TIMEOUT_S:.0f} s")
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - how librdkafka names it
                unread.discard(message.partition())
    return messages
