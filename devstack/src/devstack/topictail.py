"""The last records of a topic of the stack."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from cli.errors import RefusedError, UnreachableError
from kafkaclient import Connection

TIMEOUT_S = 20.0
MOVING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
MOVING_S = 5.0


def tail(bootstrap_servers: str, topic: str, limit: int) -> list[Message]:
    """The last records of each partition, at most `limit` of each."""
    consumer = Consumer(
        {
            **Connection(bootstrap_servers).librdkafka(),
            "log_level": 0,
            "group.id": "daggers-local",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        metadata = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        starts = []
        for partition in metadata.partitions:
            low, high = _bounds(consumer, TopicPartition(topic, partition))
            if high > low:
                starts.append(TopicPartition(topic, partition, max(low, high - limit)))
        consumer.assign(starts)
        return _until_end(consumer, {start.partition for start in starts}, topic)
    except KafkaException as error:
        raise UnreachableError(
            f"Kafka at {bootstrap_servers} does not answer: {error.args[0].str()}",
            reason="KAFKA_UNREACHABLE",
        ) from error
    finally:
        consumer.close()


def _bounds(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Where a partition begins and ends. Of a new topic no broker knows for a moment that it leads it."""
    deadline = time.monotonic() + MOVING_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _until_end(consumer: Consumer, open_partitions: set[int], topic: str) -> list[Message]:
    messages = []
    deadline = time.monotonic() + TIMEOUT_S
    while open_partitions:
        if time.monotonic() > deadline:
            raise RefusedError(f"the topic {topic} could not be read to its end in {TIMEOUT_S:.0f} s")
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - how librdkafka names it
                open_partitions.discard(message.partition())
    return messages
