"""Rows from a Kafka topic, JSON or Protobuf."""

import json
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from cli.errors import RefusedError, UnreachableError
from cli.secret import resolve
from cli.sinks.row import Row, from_columns, newest

TIMEOUT_S = 20.0
MOVING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
MOVING_S = 5.0
Decode = Callable[[bytes], dict[str, Any]]


def read(address: spec_pb2.KafkaAddress, topic: str, decode: Decode, limit: int) -> list[Row]:
    """The newest rows of a topic; a row that was written more than once stands here once, at its last place.

    Rows without a time are ordered by the times of their records.
    """
    rows: dict[str, Row] = {}
    for message in sorted(tail(address, topic, limit), key=_written):
        try:
            columns = decode(message.value() or b"")
        except (ValueError, DecodeError):
            continue  # not ours: somebody else writes to this topic too
        identity = _identity(message)
        rows.pop(identity, None)
        rows[identity] = from_columns(columns, identity)
    return newest(reversed(rows.values()), limit)


def decode_json(value: bytes) -> dict[str, Any]:
    """The columns of a JSON row."""
    columns = json.loads(value)
    if not isinstance(columns, dict):
        raise ValueError("not a row")  # noqa: TRY004 - a wrong value, as json's own errors are
    return columns


def protobuf_decoder(schema: spec_pb2.Schema, message: str) -> Decode:
    """How the columns of a Protobuf row are read."""
    pool = descriptor_pool.DescriptorPool()
    for file in schema.files.file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))

    def decode(value: bytes) -> dict[str, Any]:
        columns: dict[str, Any] = json_format.MessageToDict(
            kind.FromString(value),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        return columns

    return decode


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, Any]:
    """The librdkafka properties of a cluster, secrets resolved here."""
    secrets = {name: resolve(reference) for name, reference in address.secret_properties.items()}
    return {
        "bootstrap.servers": address.bootstrap_servers,
        "log_level": 0,
        **address.properties,
        **secrets,
    }


def tail(address: spec_pb2.KafkaAddress, topic: str, limit: int) -> list[Message]:
    """The last records of each partition, at most `limit` of each."""
    consumer = Consumer(
        client_properties(address)
        | {"group.id": "daggers-cli", "enable.auto.commit": False, "enable.partition.eof": True}
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
            f"Kafka at {address.bootstrap_servers} does not answer: {error.args[0].str()}",
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


def _written(message: Message) -> tuple[int, int]:
    """When a record was written; its offset tells those of one millisecond apart within a partition."""
    _, milliseconds = message.timestamp()
    return milliseconds, message.offset() or 0


def _identity(message: Message) -> str:
    """The row's CloudEvents id, which repeats with the row; its place where it has none."""
    headers: Any = message.headers()  # the stubs allow shapes that librdkafka never gives
    for name, value in headers or ():
        if name == "ce_id" and isinstance(value, bytes):
            return value.decode(errors="replace")
    return f"{message.partition()}/{message.offset()}"
