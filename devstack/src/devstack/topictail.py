"""The last records of a topic of the stack."""

from confluent_kafka import Consumer, KafkaException, Message

import kafkaclient.tail
from cli.errors import RefusedError, UnreachableError
from kafkaclient import Connection
from kafkaclient.tail import READER


def tail(bootstrap_servers: str, topic: str, limit: int) -> list[Message]:
    """Return the last `limit` records of each partition. Raises: UnreachableError, RefusedError."""
    consumer = Consumer({**Connection(bootstrap_servers).librdkafka(), **READER, "group.id": "daggers-local"})
    try:
        return kafkaclient.tail.tail(consumer, topic, limit)
    except TimeoutError as error:
        raise RefusedError(str(error)) from error
    except KafkaException as error:
        raise UnreachableError(
            f"Kafka at {bootstrap_servers} does not answer: {error.args[0].str()}",
            reason="KAFKA_UNREACHABLE",
        ) from error
    finally:
        consumer.close()
