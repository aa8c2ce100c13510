"""Helpers of test_job_driver.py and of its neighbours."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC
from typing import Any

import psycopg
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import query, records
from tests.integration.bookings import booking

Counts = Counter[tuple[str, str]]


def influx_sink(influx: dict[str, str], **changes: str) -> spec_pb2.ResolvedSink:
    sink = spec_pb2.ResolvedSink()
    address = sink.sink.influx.address
    given = influx | changes
    address.url, address.org, address.bucket = given["url"], given["org"], given["bucket"]
    address.token.file = given["token_file"]
    return sink


def kafka_sink(kafka: str, topic: str, message: str = "") -> spec_pb2.ResolvedSink:
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers = kafka
    formats = spec_pb2.KafkaSink
    sink.sink.kafka.topic, sink.sink.kafka.message = topic, message
    sink.sink.kafka.format = formats.FORMAT_PROTOBUF if message else formats.FORMAT_JSON
    return sink


def log_sink(limit: int) -> spec_pb2.ResolvedSink:
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=limit)))


def bookings(events: list[tuple[float, int]]) -> list[bytes]:
    return [booking(second, city_id=city) for second, city in events]


def in_influx(influx: dict[str, str], dagger: Dagger) -> Counts:
    """(window end, city) -> count, as the database has it."""
    found = query(influx, f'SELECT num_of_bookings, tag_city_id FROM "{dagger.name}"')
    rows = [row for series in found.get("series", []) for row in series["values"]]
    return Counter({(time, city): n for time, n, city in rows})


def in_kafka(kafka: str, topic: str) -> list[tuple[tuple[str, str], int]]:
    """The same from JSON records, one entry for each record."""
    rows = [json.loads(record.value() or b"") for record in records(kafka, topic)]
    return [((row["window_timestamp"], str(row["tag_city_id"])), row["num_of_bookings"]) for row in rows]


def written(rows: int) -> Any:
    """Whether a heartbeat says that every sink has this many rows."""
    return lambda beat: beat.rows_out and all(count >= rows for count in beat.rows_out)


def in_postgres(database: str) -> Counts:
    """The same from the rows of a table."""
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT window_timestamp, tag_city_id, num_of_bookings FROM counts")
        return Counter(
            {(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", str(city)): n for time, city, n in rows}
        )
