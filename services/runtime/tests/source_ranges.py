"""Helpers of test_source_ranges.py and of its neighbours."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Producer

from runtime.source.offsets import Partition


def send(kafka: str, partition: Partition, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for number in numbers:
        producer.produce(partition.topic, str(number).encode(), partition=0)
    producer.flush()


def send_in_transactions(kafka: str, partition: Partition, numbers: range) -> None:
    """Each number in a transaction of its own; odd ones are aborted. Each leaves a marker behind it."""
    settings = {"bootstrap.servers": kafka, "transactional.id": uuid4().hex}
    producer = Producer(settings)
    producer.init_transactions()
    for number in numbers:
        producer.begin_transaction()
        producer.produce(partition.topic, str(number).encode(), partition=0)
        if number % 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    # Kafka answers before it has written the last marker; who takes the id over waits for that.
    Producer(settings).init_transactions()
