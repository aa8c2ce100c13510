"""Streams on a real broker and a real Spark: no row lost, no window left open, nothing skipped."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
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
from runtime import errors
from runtime.decode.decoder import find_message, message_pool
from runtime.source import readers, stream
from runtime.source.context import SourceContext
from runtime.source.metrics import SourceMetrics
from runtime.source.watermark import Windows
from runtime.spark import session as spark

pytestmark = pytest.mark.integration

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = timedelta(seconds=10)
WINDOWS = Windows(SIZE // timedelta(milliseconds=1), SIZE // timedelta(milliseconds=1))
COUNT = (
    "SELECT window(rowtime, '10 seconds').start AS start, count(1) AS n FROM data_stream {where} "
    "GROUP BY window(rowtime, '10 seconds')"
)
PATIENCE_S = 60
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
        self.closing, self.gone = bool(who.until), who.missing
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
        stream.begin_batch(self.session)
        found = {row.start.replace(tzinfo=UTC): row.n for row in rows.collect()}
        if self.fail_in is not None and batch >= self.fail_in:
            raise RuntimeError("killed in this batch")
        first = self.context.registry.complete_from()
        self.batches.put({at: n for at, n in found.items() if first is None or at >= first})

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802
    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802
    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.progress.put(stream.record_progress(self.context, event.progress))

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


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        SparkContext(master="local[2]", appName="source", conf=SparkConf().set("spark.ui.enabled", "false"))
        started = spark.start()
        spark.checkpoint_locally(started)
        started.sparkContext.setLogLevel("ERROR")
        yield started
        started.stop()


@pytest.fixture
def context(kafka: str, tmp_path: Path) -> SourceContext:
    return SourceContext(
        dagger=f"d{uuid4().hex[:8]}",
        generation=1,
        checkpoint=str(tmp_path / "checkpoint"),
        run_dir=tmp_path,
        platform=spec_pb2.KafkaAddress(bootstrap_servers=kafka),
        descriptors=FILES,
        windows=WINDOWS,
        late_for=(WINDOWS,),
    )


@pytest.fixture
def feed(kafka: str) -> Feed:
    return Feed(kafka)


@pytest.fixture
def run(session: SparkSession, context: SourceContext) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(
        *streams: spec_pb2.ResolvedStream, equal: tuple[tuple[str, str], ...] = (), **changes: Any
    ) -> Job:
        jobs.append(Job(session, replace(context, **changes), list(streams), equal))
        return jobs[-1]

    yield make
    for job in jobs:
        job.stop()


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


def test_no_filter_stands_between_scan_and_watermark(
    session: SparkSession, feed: Feed, run: Callable[..., Job]
) -> None:
    job = run(feed.create().resolved()).start(COUNT.format(where="WHERE status = 'CANCELLED'"))
    feed.send([booking(1)])
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    assert job.query is not None
    plan = job.execution().optimizedPlan().toString()
    below = plan[plan.index("EventTimeWatermark") :]

    assert ("Filter" in plan, "Filter" in below) == (True, False)


@pytest.mark.parametrize("equal", [(), (("status", "RARE"),)], ids=["in Spark", "in the reader too"])
def test_a_where_that_keeps_one_record_in_a_thousand_closes_its_windows(
    feed: Feed, run: Callable[..., Job], equal: tuple[tuple[str, str], ...]
) -> None:
    feed.create()
    feed.send(booking(i / 50, status="RARE" if i % 1000 == 0 else "COMPLETED") for i in range(3000))

    job = run(feed.resolved(), equal=equal).start(COUNT.format(where="WHERE status = 'RARE'"))
    job.until(lambda job: len(job.rows) >= 3)
    job.until(lambda job: job.total(lambda c: c.rows) >= 3000)

    assert (job.rows, job.total(lambda c: c.rows)) == (windows([0, 20, 40]), 3000)


def test_bad_records_are_set_aside_and_the_silent_streams_last_window_closes(
    kafka: str, feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    future, ahead = Booking(status="NEXT_DAY"), datetime.now(UTC) + timedelta(minutes=50)
    future.event_timestamp.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    # The clock of its producer is wrong, and the Kafka time that it writes is wrong with it.
    feed.send([booking((ahead - BEGIN).total_seconds())], at=lambda _: int(ahead.timestamp() * 1000))
    feed.send([booking(1), b"\x0a\x02OK\xff", None, b"", future.SerializeToString(), booking(3), booking(12)])

    job = run(feed.resolved(idle_timeout={"seconds": 1})).start()
    job.until(lambda job: len(job.rows) == 2)
    records = {record.offset: record for record in quarantined(kafka, job.context.dagger, 5)}

    reasons = {offset: (record.reason, record.decoded_prefix) for offset, record in records.items()}
    early = [reasons.pop(offset)[0] for offset in (0, 5)]
    assert (
        job.rows,
        reasons,
        early,
        records[2].value,
        job.counts[0].rows,
        job.counts[0].quarantined,
    ) == (
        windows([1, 3, 12]),
        {2: ("MALFORMED", '{"status": "OK"}'), 3: ("EMPTY_VALUE", ""), 4: ("NO_EVENT_TIME", "")},
        ["FROM_THE_FUTURE", "FROM_THE_FUTURE"],
        b"\x0a\x02OK\xff",
        3,
        {"MALFORMED": 1, "EMPTY_VALUE": 1, "NO_EVENT_TIME": 1, "FROM_THE_FUTURE": 2},
    )


@pytest.mark.parametrize("kafka_time", ["event time", "now"])
def test_two_uneven_partitions_are_caught_up_without_losing_a_row(
    feed: Feed, run: Callable[..., Job], kafka_time: str
) -> None:
    feed.create(partitions=2)
    dense, sparse = [float(i) for i in range(6000)], [i * 10.0 for i in range(600)]
    begin_ms = int(BEGIN.timestamp() * 1000)
    for partition, seconds in ((0, sparse), (1, dense)):
        at = (lambda i, s=seconds: begin_ms + int(s[i] * 1000)) if kafka_time == "event time" else None
        feed.send(map(booking, seconds), partition, at=at)

    job = run(feed.resolved(idle_timeout={"seconds": 1}), max_rows=600).start()
    job.until(lambda job: sum(job.rows.values()) + job.total(lambda c: c.late) >= 6600)
    batches = sum(1 for count in job.counts if count.rows)

    assert (job.rows, job.total(lambda c: c.late), batches > 9) == (windows(dense + sparse), 0, True)


@pytest.mark.parametrize("kafka_time", ["event time", "now"])
def test_a_backlog_with_gaps_is_caught_up_by_records(
    feed: Feed, run: Callable[..., Job], kafka_time: str
) -> None:
    """Each record stands behind one that was committed and a hundred that were not, and two markers."""
    feed.create()
    seconds = [float(i) for i in range(200)]
    producer = Producer({"bootstrap.servers": feed.kafka, "transactional.id": feed.topic})
    producer.init_transactions()
    for second in seconds:
        stamp = int((BEGIN.timestamp() if kafka_time == "event time" else time.time()) * 1000 + second * 1000)
        for end, count in ((producer.abort_transaction, 100), (producer.commit_transaction, 1)):
            producer.begin_transaction()
            for _ in range(count):
                producer.produce(feed.topic, booking(second), timestamp=stamp)
            producer.flush()
            end()

    job = run(feed.resolved(idle_timeout={"seconds": 1}), max_rows=50).start()
    job.until(lambda job: sum(job.rows.values()) + job.total(lambda c: c.late) >= len(seconds))
    batches = [count.rows for count in job.counts if count.rows]

    assert (job.rows, job.total(lambda c: c.late)) == (windows(seconds), 0)
    assert 4 <= len(batches) <= 12


def test_a_launch_that_finds_nothing_to_read_begins_with_an_empty_batch(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create(partitions=2)
    job = run(feed.resolved()).start()
    job.until(lambda job: len(job.counts) > 0)
    feed.send([booking(1)])
    job.until(lambda job: job.total(lambda c: c.rows) == 1)

    assert [count.rows for count in job.counts][:2] == [0, 1]


def test_a_crash_in_batch_0_skips_nothing_when_the_start_is_latest(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.send([booking(-100), booking(-50)])
    late_start = feed.resolved(start={"latest": True}, idle_timeout={"seconds": 1})
    late_start.input.start.latest = True
    first = run(late_start)
    first.fail_in = 0
    first.start()
    feed.send([booking(1), booking(2)])
    assert first.query is not None
    with pytest.raises(Exception, match="killed in this batch"):
        first.query.awaitTermination(PATIENCE_S)
    first.stop()
    feed.send([booking(13)])

    second = run(late_start, generation=2).start()
    second.until(lambda job: job.total(lambda c: c.rows) == 3 and len(job.rows) == 2)

    assert (second.rows, second.context.registry.complete_from()) == (
        windows([1, 2, 13]),
        BEGIN + timedelta(seconds=-50, microseconds=1),
    )


def test_a_relaunch_knows_which_rows_are_whole_before_its_readers_have_data(
    feed: Feed, run: Callable[..., Job], tmp_path: Path
) -> None:
    feed.create()
    feed.send([booking(-100)])
    jobs = [run(feed.resolved(start={"latest": True}), run_dir=tmp_path / name) for name in ("first", "next")]
    known = BEGIN + timedelta(seconds=-100, microseconds=1)

    assert [job.context.registry.complete_from() for job in jobs] == [known, known]


def test_rows_behind_a_closed_window_are_counted_as_late(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    job = run(feed.resolved()).start()
    feed.send([booking(5), booking(31)])
    job.until(lambda job: len(job.rows) == 1)
    feed.send([booking(6), booking(25), booking(32)])
    job.until(lambda job: job.total(lambda c: c.rows) == 5)

    # On a busy machine the stream may fall silent meanwhile, and the window of 25 and 31 close too.
    (closed,) = windows([5])
    assert (job.total(lambda c: c.late), job.rows[closed]) == (1, 1)


def test_a_silent_topic_does_not_hold_back_one_that_goes_on(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.create(topic=f"{feed.topic}-silent")
    both = feed.resolved(idle_timeout={"seconds": 1})
    both.stream.topics.append(f"{feed.topic}-silent")
    job = run(both).start()
    feed.send([booking(5), booking(31)])
    job.until(lambda job: len(job.rows) == 2)

    assert job.rows == windows([5, 31])


def test_without_idle_timeout_a_silent_topic_holds_its_windows_open(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.create(topic=f"{feed.topic}-silent")
    both = feed.resolved()
    both.stream.topics.append(f"{feed.topic}-silent")
    job = run(both).start()
    for second in range(5, 50, 5):
        feed.send([booking(second)])
        expected = len(range(5, second + 1, 5))
        job.until(lambda job, expected=expected: job.total(lambda c: c.rows) == expected)

    assert (job.rows, job.total(lambda c: c.idle_advances)) == (Counter(), 0)


def test_a_topic_made_anew_ends_the_job_and_says_so(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.send([booking(1)])
    job = run(feed.resolved()).start()
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    feed.admin.delete_topics([feed.topic])[feed.topic].result()
    again = Feed(feed.kafka, feed.topic)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            again.create()
        except Exception:  # noqa: BLE001 - the broker is still deleting it
            continue
        break
    again.send([booking(2), booking(3)])
    assert job.query is not None
    with pytest.raises(Exception, match="TOPIC_") as caught:
        job.query.awaitTermination(PATIENCE_S)

    assert errors.explain(caught.value).reason in {"TOPIC_RECREATED", "TOPIC_MISSING"}


def test_partitions_that_are_added_later_are_read_from_their_beginning(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.send([booking(1)])
    job = run(feed.resolved(start={"latest": True})).start()
    feed.admin.create_partitions([NewPartitions(feed.topic, 2)])[feed.topic].result()
    Feed(feed.kafka, feed.topic).send([booking(2)], partition=1)
    job.until(lambda job: job.total(lambda c: c.rows) >= 1)

    assert job.counts[-1].lag.keys() == {f"{feed.topic}/0", f"{feed.topic}/1"}


def test_topics_come_and_go_and_open_windows_lack_nothing_of_them(
    feed: Feed, run: Callable[..., Job]
) -> None:
    a, b, c = feed.create(), feed.beside(), feed.beside()
    closed_at_29 = {"open": BEGIN + timedelta(seconds=29) - SIZE}
    a.send([booking(5), booking(31)])
    ran = run(a.resolved()).start()
    ran.until(lambda job: job.rows == windows([5])).stop()
    a.send([booking(31.5)])
    b.send([booking(6), booking(25), booking(33)])

    failed = run(a.resolved())
    failed.fail_in = 0
    with pytest.raises(Exception, match="killed in this batch"):
        failed.start().until(lambda _: False)
    failed.stop()
    ending = run(united(a, b), **closed_at_29)
    assert ending.closing
    assert ending.start().query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
    ending.stop()
    both = run(united(a, b), **closed_at_29).start()
    a.send([booking(50)])
    b.send([booking(50)])
    both.until(
        lambda job: job.rows == windows([25, 31, 31.5, 33]) and job.total(lambda c: c.late) == 1
    ).stop()

    b.send([booking(53), booking(70)])
    c.send([booking(47), booking(52), booking(70)])
    closed_at_48 = {"open": BEGIN + timedelta(seconds=48) - SIZE}
    swapped = run(united(b, c), **closed_at_48)
    if swapped.closing:  # the batch that wrote the rows was not committed when it was stopped
        assert swapped.start().query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
        swapped.stop()
        swapped = run(united(b, c), **closed_at_48)
    swapped.start().until(lambda job: job.rows == windows([47, 50, 50, 52, 53]))

    assert swapped.total(lambda c: c.late) == 0


def test_a_topic_that_is_gone_holds_nothing_up_though_a_batch_of_it_was_planned(
    feed: Feed, run: Callable[..., Job]
) -> None:
    a, b = feed.create(), feed.beside()
    of_b = COUNT.format(where="WHERE city = 2")
    a.send([booking(1), booking(11)])
    b.send([booking(second, city=2) for second in (2, 3, 4, 12)])
    failed = run(united(a, b))
    failed.fail_in = 0
    with pytest.raises(Exception, match="killed in this batch"):
        failed.start(of_b).until(lambda _: False)
    failed.stop()
    a.admin.delete_topics([a.topic])[a.topic].result()
    end = time.monotonic() + PATIENCE_S
    while a.topic in a.admin.list_topics(timeout=10).topics:
        assert time.monotonic() < end

    ending = run(b.resolved())
    assert ending.start(of_b).query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
    ending.stop()
    alone = run(b.resolved()).start(of_b)
    b.send([booking(31, city=2)])
    alone.until(lambda job: len(job.rows) == 2)

    assert (ending.gone, alone.closing, alone.rows) == ({a.topic}, False, windows([2, 3, 4, 12]))


def test_the_consumer_group_shows_how_far_the_dagger_has_read(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.send([booking(1), booking(2)])
    job = run(feed.resolved(), consumer_group=f"group-{feed.topic}").start()
    job.until(lambda job: job.total(lambda c: c.rows) == 2)
    feed.send([booking(3)])
    job.until(lambda job: job.total(lambda c: c.rows) == 3)
    tool = Consumer({"bootstrap.servers": feed.kafka, "group.id": f"group-{feed.topic}"})
    job.until(lambda _: tool.committed([TopicPartition(feed.topic, 0)], 10)[0].offset >= 2)
    tool.close()

    assert job.counts[-1].lag == {f"{feed.topic}/0": 0}


def test_no_secret_shows_in_plans(
    session: SparkSession, feed: Feed, run: Callable[..., Job], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2-is-secret\n")
    feed.create()
    feed.send([booking(1)])
    made = feed.resolved()
    made.kafka.secret_properties["sasl.password"].file = str(secret)
    job = run(made).start()
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    assert job.query is not None
    execution = job.execution()
    shown = [execution.toString(), str(job.query.lastProgress), str(session.sparkContext.getConf().getAll())]
    shown += [
        file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file() and file != secret
    ]

    assert [text for text in shown if "hunter2" in text] == []
