"""Helpers of test_sink_contract.py and of its neighbours."""

import importlib
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import spec_pb2

from daggersql import Column, Role
from runtime import sinks
from runtime.encode.rows import Layout
from runtime.sinks import BatchRef, Part, Target

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("tag_city", pa.string()), ("n", pa.int64()), ("window_timestamp", TIME),
     ("__window_start", TIME), ("__window_end", TIME), ("__key_0", pa.string())]
)  # fmt: skip
LAYOUT = Layout(
    (
        Column("tag_city", Role.TAG, "tag_city", "string"),
        Column("n", Role.FIELD, "n", "bigint"),
        Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    ),
    hidden=("__window_start", "__window_end", "__key_0"),
)
Counts = dict[tuple[str, str], Any]
COUNTS: Counts = {("2026-01-01T12:01:00Z", "1"): 5, ("2026-01-01T12:01:00Z", "2"): 7,
                  ("2026-01-01T12:02:00Z", "1"): 9}  # fmt: skip
Reader = Callable[[], Counts]
_ON = " on "
"""Between a kind and a further server that it is for."""
Case = tuple[spec_pb2.ResolvedSink, Reader]


def batch(counts: Counts) -> pa.RecordBatch:
    """Rows that count per (window end, city)."""
    rows = []
    for (end, city), n in counts.items():
        time = datetime.fromisoformat(end)
        start = time - timedelta(minutes=1)
        rows.append({"tag_city": city, "n": n, "window_timestamp": time, "__window_start": start,
                     "__window_end": time, "__key_0": city})  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def target(dagger: str, sink: spec_pb2.ResolvedSink, descriptors: bytes = b"") -> Target:
    return Target(
        dagger, sink.SerializeToString(), LAYOUT, SCHEMA, descriptors, updates=False, part=part("c", 0)
    )


def part(checkpoint: str, batch_id: int) -> Part:
    """The only partition of a batch."""
    return Part(BatchRef(checkpoint, batch_id, generation=1), 0)


def influx_sink(influx: dict[str, str], measurement: str) -> spec_pb2.ResolvedSink:
    sink = spec_pb2.ResolvedSink()
    sink.sink.influx.measurement = measurement
    address = sink.sink.influx.address
    address.url, address.org, address.bucket = influx["url"], influx["org"], influx["bucket"]
    address.token.file = influx["token_file"]
    return sink


def query(influx: dict[str, str], text: str) -> Any:
    """The answer of InfluxDB to an InfluxQL text."""
    parts = {"db": influx["bucket"], "q": text}
    request = urllib.request.Request(
        f"{influx['url']}/query",
        data=urllib.parse.urlencode(parts).encode(),
        headers={"Authorization": f"Token {influx['token']}"} if influx["token"] else {},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["results"][0]


def points(influx: dict[str, str], measurement: str) -> list[list[Any]]:
    """time, n and tag_city of every point, by time."""
    found = query(influx, f'SELECT n, tag_city FROM "{measurement}"')
    return [list(row) for series in found.get("series", []) for row in series["values"]]


def ends(kafka: str, topic: str) -> dict[int, int]:
    """Where each partition of a topic ends now."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        return {p: _end(consumer, TopicPartition(topic, p)) for p in partitions}
    finally:
        consumer.close()


def records(kafka: str, topic: str, since: Mapping[int, int] = MappingProxyType({})) -> list[Message]:
    """Every record of a topic, in the order of each partition; of some from an offset on."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex, "enable.auto.commit": False})
    try:
        partitions = [
            TopicPartition(topic, p, since.get(p, 0))
            for p in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        expected = sum(_end(consumer, partition) - partition.offset for partition in partitions)
        consumer.assign(partitions)
        found: list[Message] = []
        while len(found) < expected:
            got = consumer.consume(expected - len(found), 10)
            assert got, f"only {len(found)} of {expected} records came"
            found += got
        return found
    finally:
        consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The partition's end; of a new topic no broker knows for a moment that it leads it."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return consumer.get_watermark_offsets(partition, 10)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # polling a broker; bounded by the deadline


def fresh_topic(kafka: str) -> str:
    return create(kafka, NewTopic(f"sink-{uuid4().hex[:8]}", 2, 1))


def create(kafka: str, topic: NewTopic) -> str:
    admin = AdminClient({"bootstrap.servers": kafka})  # a name of its own: its end would end the request
    for done in admin.create_topics([topic]).values():
        done.result(30)
    return str(topic.topic)


class Bench:
    """One sink with a place of its own, and a way to read what it wrote there: `sink_cases/NAME.py`."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        self.dagger = f"d-{uuid4().hex[:8]}"
        self.printed: list[str] = []
        name, _, server = name.partition(_ON)
        self.case = case_of(name)
        where = {"server": server} if server else {}
        self.resolved, self.read = self.case.case(self.dagger, request, self.printed, **where)
        self.target = self.aimed(self.resolved)
        sinks.check(self.target)  # as every launch does, before anything is written

    def aimed(self, sink: spec_pb2.ResolvedSink) -> Target:
        """This sink of the dagger, with the messages that its case has."""
        return target(self.dagger, sink, getattr(self.case, "DESCRIPTORS", b""))

    def allow(self, **share: float) -> None:
        """From now on no more is allowed than this."""
        self.resolved.share.CopyFrom(spec_pb2.RateLimit(**share))
        self.target = self.aimed(self.resolved)

    def write(
        self, *batches: Counts, batch_id: int = 0, checkpoint: str = "c", is_finished: bool = True
    ) -> list[Any]:
        """Write a partition as a task does, in so many batches, and commit it; the refusals of the last."""
        own = part(checkpoint, batch_id)
        writer = sinks.open_writer(replace(self.target, part=own))
        for each in batches:
            outcome = writer.write(batch(each), batch_id)
            self.printed += outcome.printed
        if is_finished:
            end = writer.finish()
            assert end.refused == ()
            sinks.commit(self.target, own.batch, [end.receipt] if end.receipt else [])
        return list(outcome.refused)


def case_of(name: str) -> Any:
    """The module of a kind's case."""
    return importlib.import_module(f"services.runtime.tests.sink_cases.{name}")


def on_servers(names: Iterable[str]) -> list[Any]:
    """These kinds, and once more on each further server that a case names (make test-long)."""
    made = list[Any]()
    for name in names:
        others = (f"{name}{_ON}{server}" for server in getattr(case_of(name), "OTHERS", ()))
        made += [name, *(pytest.param(other, marks=pytest.mark.long) for other in others)]
    return made


def having(what: str) -> list[Any]:
    """The kinds whose case has this."""
    return on_servers(name for name in sinks.names() if hasattr(case_of(name), what))


def many(rows: int) -> Counts:
    """A row for each of so many cities."""
    return {("2026-01-01T12:01:00Z", f"city {number}"): number for number in range(rows)}
