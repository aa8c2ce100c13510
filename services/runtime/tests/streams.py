"""Streams on a real broker and a real Spark: topics to feed, and queries over them that tests wait for."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from queue import Empty, Queue
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import spec_pb2, telemetry_pb2
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

import daggersql
from daggerspec.topics import QUARANTINE
from runtime.decode.decoder import find_message, message_pool
from runtime.source import metrics, readers, stream
from runtime.source.context import SourceContext
from runtime.source.metrics import SourceMetrics
from runtime.source.watermark import Windows
from runtime.spark import session as spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = timedelta(seconds=10)
WINDOWS = Windows(SIZE // timedelta(milliseconds=1), SIZE // timedelta(milliseconds=1))
COUNT = (
    "SELECT window(rowtime, '10 seconds').start AS start, count(1) AS n FROM data_stream {where} "
    "GROUP BY window(rowtime, '10 seconds')"
)
PATIENCE_S = 180
# The events are old: by its usual retention the broker would soon delete what is written with their time.
KEPT = {"retention.ms": "-1"}


def schema() -> FileDescriptorSet:
    """t.Booking: status, city, event_timestamp, address.street."""
    files = FileDescriptorSet()
    files.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = files.file.add(
        name="booking.proto", package="t", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    fields = [("status", 9, None), ("city", 5, None), ("event_timestamp", 11, ".google.protobuf.Timestamp")]
    message = file.message_type.add(name="Booking")
    for number, (name, kind, type_name) in enumerate(fields, 1):
        added = message.field.add(
            name=name, number=number, type=FieldDescriptorProto.Type.ValueType(kind), label="LABEL_OPTIONAL"
        )
        if type_name:
            added.type_name = type_name
    return files


FILES = schema()
Booking: Any = GetMessageClass(find_message(message_pool(FILES), "t.Booking"))


def booking(second: float, *, status: str = "COMPLETED", city: int = 1) -> bytes:
    """A record's value; its event time is `second` seconds after BEGIN."""
    message = Booking(status=status, city=city)
    message.event_timestamp.FromDatetime(BEGIN + timedelta(seconds=second))
    value: bytes = message.SerializeToString()
    return value


@dataclass
class Feed:
    """Topics of one test, and what is written to them."""

    kafka: str
    topic: str = field(default_factory=lambda: f"source-{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.kafka})
        self.producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5})

    def create(self, partitions: int = 1, topic: str | None = None) -> Feed:
        name = topic or self.topic
        self.admin.create_topics([NewTopic(name, partitions, 1, config=KEPT)])[name].result()
        # The controller has made it; the broker that is asked for it may not have heard of it yet.
        end = time.monotonic() + 30
        while len(self.admin.list_topics(name, 10).topics[name].partitions) < partitions:
            assert time.monotonic() < end
        return self

    def send(
        self, values: Iterable[bytes | None], partition: int = 0, *, at: Callable[[int], int] | None = None
    ) -> None:
        """Writes values; `at` gives each one's Kafka time (ms) by its index, else it is now."""
        for index, value in enumerate(values):
            stamp = at(index) if at else int(time.time() * 1000)
            while True:
                try:
                    self.producer.produce(self.topic, value, partition=partition, timestamp=stamp)
                except BufferError:
                    self.producer.poll(1)
                else:
                    break
        self.producer.flush()

    def beside(self) -> Feed:
        """Another topic."""
        return Feed(self.kafka).create()

    def resolved(self, **given: Any) -> spec_pb2.ResolvedStream:
        """The stream as a job sees it: earliest, delay 2 s, no idle timeout, unless told otherwise."""
        made = spec_pb2.ResolvedStream(kafka={"bootstrap_servers": self.kafka})
        made.stream.MergeFrom(
            spec_pb2.Stream(topics=[self.topic], message="t.Booking", time_field="event_timestamp")
        )
        made.input.start.earliest = True
        made.input.watermark_delay.seconds = 2
        made.input.idle_timeout.seconds = 0
        made.input.future_tolerance.seconds = 300
        made.input.MergeFrom(spec_pb2.StreamInput(**given))
        return made


class Job(StreamingQueryListener):
    """A query over streams, as the runtime runs one: rows and counts are queued for the test to wait on."""

    def __init__(
        self,
        session: SparkSession,
        context: SourceContext,
        streams: list[spec_pb2.ResolvedStream],
        equal: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.session, self.context = session, context
        self.rows: Counter[datetime] = Counter()
        self.counts: list[SourceMetrics] = []
        self.batches: Queue[dict[datetime, int]] = Queue()
        self.progress: Queue[SourceMetrics] = Queue()
        self.fail_in: int | None = None
        paths = ("status", "city")
        by_table = {f"s{i}": one for i, one in enumerate(streams)}
        who = readers.assign(session, by_table, context)
        frames = [stream.open_stream(session, one, daggersql.Read(table, paths, equal), context, who)
                  for table, one in by_table.items()]  # fmt: skip
        self.closing, self.missing = bool(who.until), who.missing
        for table, frame in zip(by_table, frames, strict=True):
            frame.createOrReplaceTempView(table)
        self.frame = frames[0]
        for more in frames[1:]:
            self.frame = self.frame.unionByName(more)
        self.frame.createOrReplaceTempView("data_stream")
        self.query: StreamingQuery | None = None

    def start(self, sql: str = COUNT.format(where="")) -> Job:
        self.session.streams.addListener(self)
        writer = self.session.sql(sql).writeStream.outputMode("append").foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self.context.checkpoint)
        ends, goes_on = {"availableNow": True}, {"processingTime": "200 milliseconds"}
        self.query = writer.trigger(**(ends if self.closing else goes_on)).start()
        return self

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self.session.streams.removeListener(self)

    def _batch(self, rows: DataFrame, batch: int) -> None:
        running = stream.begin_batch(self.session)
        found: Counter[datetime] = Counter()
        for row in rows.collect():
            found[row.start.replace(tzinfo=UTC)] += row.n
        if self.fail_in is not None and batch >= self.fail_in:
            raise RuntimeError("killed in this batch")
        stream.end_batch(running, self.context)
        first = self.context.registry.state().complete_from()
        self.batches.put({at: n for at, n in found.items() if first is None or at >= first})

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802
    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802
    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.progress.put(metrics.of(event.progress))

    def until(self, done: Callable[[Job], bool]) -> Job:
        """Takes in batches and progress until `done`; fails with what came when that takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._take(0.05)
            if done(self):
                return self
            if self.query is not None and (failure := self.query.exception()):
                raise failure
            assert time.monotonic() < deadline, f"rows {self.rows}, counts {self.counts[-3:]}"

    def _take(self, timeout: float) -> None:
        try:
            self.rows.update(self.batches.get(timeout=timeout))
            while True:
                self.rows.update(self.batches.get_nowait())
        except Empty:
            pass
        while not self.progress.empty():
            self.counts.append(self.progress.get())

    def execution(self) -> Any:
        """Spark's own view of the last batch."""
        assert self.query is not None
        return self.query._jsq.streamingQuery().lastExecution()

    def total(self, what: Callable[[SourceMetrics], int]) -> int:
        return sum(what(one) for one in self.counts)


def windows(seconds: Iterable[float]) -> Counter[datetime]:
    """The right answer: how many of these event times fall into each window."""
    return Counter(BEGIN + int(second // 10) * SIZE for second in seconds)


def united(*feeds: Feed) -> spec_pb2.ResolvedStream:
    """One stream of several topics."""
    made = feeds[0].resolved()
    made.stream.topics[:] = [feed.topic for feed in feeds]
    return made


def quarantined(kafka: str, dagger: str, count: int) -> list[telemetry_pb2.Quarantined]:
    """The first `count` records of this dagger in the quarantine."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([QUARANTINE])
    found: list[telemetry_pb2.Quarantined] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None and message.key() == dagger.encode():
            found.append(telemetry_pb2.Quarantined.FromString(message.value() or b""))
    consumer.close()
    return found


@contextmanager
def source_session() -> Iterator[SparkSession]:
    """A session as a driver starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # What a context has read before the session's settings come it keeps.
        conf = {**spark.SETTINGS, "spark.ui.enabled": "false"}
        SparkContext(master="local[2]", appName="source", conf=SparkConf().setAll(conf.items()))
        started = spark.start()
        spark.checkpoint_locally(started)
        started.sparkContext.setLogLevel("ERROR")
        yield started
        started.stop()


@contextmanager
def running(session: SparkSession, context: SourceContext) -> Iterator[Callable[..., Job]]:
    """Makes jobs over streams, with changes of their context, and stops them in the end."""
    jobs: list[Job] = []

    def make(
        *streams: spec_pb2.ResolvedStream, equal: tuple[tuple[str, str], ...] = (), **changes: Any
    ) -> Job:
        jobs.append(Job(session, replace(context, **changes), list(streams), equal))
        return jobs[-1]

    yield make
    for job in jobs:
        job.stop()
