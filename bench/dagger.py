"""The seed query, or another, as a dagger on the embedded stack, and what its heartbeats say."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import workload
from confluent_kafka import Consumer, TopicPartition
from daggers.v1.telemetry_pb2 import Heartbeat
from stack import Stack

SQL = """\
SELECT city_id AS tag_city_id, S2Id(lat,long,13) AS tag_s2id, vehicle_type AS tag_vehicle_type,
       count(1) AS num_of_bookings, TUMBLE_END(rowtime,INTERVAL '60' SECOND) AS window_timestamp,
FROM `data_stream` WHERE status='COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id, S2Id(lat, long, 13), vehicle_type"""
TOPIC, ROWS_TOPIC = "bookings", "rows"
SEED = {"sql": SQL, "sinks": [{"kafka": {"topic": ROWS_TOPIC, "format": "json"}}]}


def prepare(
    on: Stack,
    topic: str = TOPIC,
    partitions: int = workload.PARTITIONS,
    *,
    proto: Path = workload.PROTO,
    message: str = workload.MESSAGE,
    time_field: str = workload.TIME_FIELD,
) -> None:
    """Topic, schema and stream."""
    workload.create_topic(on.kafka, topic, partitions)
    on.daggers("schema", "register", proto)
    on.daggers(
        "stream", "register", topic, "--cluster", "local", "--topic", topic,
        "--message", message, "--time-field", time_field,
    )  # fmt: skip


def apply(
    on: Stack,
    name: str,
    what: Mapping[str, Any] = SEED,
    *,
    trigger: str = "1s",
    driver_memory: str = "",
    reads: str = TOPIC,
) -> None:
    """Apply a dagger that computes `what` of the stream that it `reads`, and wait until it is RUNNING."""
    stream = {"stream": reads, "table": "data_stream", "start": "earliest", "idle_timeout": "1s"}
    dagger = {
        "name": name, "team": "bench", "cluster": "local", "trigger": trigger, "streams": [stream], **what,
    }  # fmt: skip
    if driver_memory:
        dagger["driver_memory"] = driver_memory
    on.run_with_file(dagger, "apply", "--wait")


def heartbeats(bootstrap_servers: str, name: str, seconds: float) -> Iterator[Heartbeat]:
    """What the dagger says during the next `seconds`: every 5 s, and when its state changes."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
    )
    topic = "daggers.heartbeats"
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    places = [TopicPartition(topic, number) for number in partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, 30)[1]
    consumer.assign(places)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is not None and message.error() is None:
            beat = Heartbeat.FromString(message.value() or b"")
            if beat.dagger == name:
                yield beat
    consumer.close()
