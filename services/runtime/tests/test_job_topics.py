"""Topics of a stream that change between two launches, on a real driver: every window recounted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests.job_driver import bookings, in_kafka, kafka_sink, written
from services.runtime.tests.launches import Beat, Dagger, Launch
from services.runtime.tests.sink_contract import create, records
from tests.integration.bookings import booking, recount, spread

pytestmark = [pytest.mark.integration, pytest.mark.long]

FORWARDED = "SELECT order_number AS tag_order, fare FROM data_stream"
_PAIR = """
SELECT a.order_number AS tag_order, b.fare AS fare FROM data_stream AS a JOIN {} AS b
 ON a.order_number = b.order_number
 AND b.rowtime BETWEEN a.rowtime - INTERVAL '10' SECOND AND a.rowtime + INTERVAL '10' SECOND
WHERE a.status = 'COMPLETED' AND b.status = 'CANCELLED'"""
PAIRS = {1: _PAIR.format("data_stream"), 2: _PAIR.format("cancellations")}


@dataclass
class Topics(Dagger):
    """A dagger whose stream has the topics named, of those it made."""

    reads: list[str] = field(default_factory=list)

    def made(self, count: int) -> list[str]:
        """Fresh topics; the stream begins with the first of them."""
        topics = [create(self.kafka, NewTopic(f"{at}-{self.name}", 1, 1)) for at in range(count)]
        self.reads = topics[:1]
        return topics

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file."""
        job = super().spec(run_dir)
        job.streams[0].stream.topics[:] = self.reads
        return job

    def send(self, topic: str, events: list[tuple[float, int]]) -> None:
        """Append bookings to a topic."""
        self.topic = topic
        self.write(*bookings(events))


@dataclass
class Joined(Topics):
    """The same over one stream, or two."""

    partners: list[str] = field(default_factory=list)

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file."""
        job = super().spec(run_dir)
        if "cancellations" in self.sql:
            second = job.streams.add()
            second.CopyFrom(job.streams[0])
            second.input.table, second.stream.name = "cancellations", "cancellations"
            second.stream.topics[:] = self.partners
        return job


def test_a_topic_added_while_windows_are_open_is_counted_in_them_after_a_kill(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Topics(tmp_path, kafka, idle_timeout_s=0)
    a, b = dagger.made(2)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    before, joined = spread(range(90), cities=2), spread(range(60, 150), cities=3)
    after = spread(range(90, 150), cities=2)

    with dagger.launch() as launch:
        dagger.send(a, before)
        launch.until(written(2))
        launch.kill()
    dagger.reads = [a, b]
    dagger.send(b, joined)
    dagger.send(a, after)
    for topic in (a, b):
        dagger.topic = topic
        dagger.write(booking(400))
    expected = recount([*before, *joined, *after])
    with dagger.launch() as relaunch:
        relaunch.until(lambda _: len(dict(in_kafka(kafka, rows))) >= len(expected))
        code = relaunch.stop()

    assert Counter(dict(in_kafka(kafka, rows))) == expected
    assert code == 0


def test_records_of_a_deleted_topic_that_a_batch_was_to_read_are_told_of(tmp_path: Path, kafka: str) -> None:
    dagger = Topics(tmp_path, kafka, idle_timeout_s=0, sql=FORWARDED)
    kept, deleted = dagger.made(2)
    dagger.reads = [kept, deleted]
    rows = f"rows-{dagger.name}"
    for topic, orders in ((kept, range(3)), (deleted, range(3, 8))):
        dagger.topic = topic
        dagger.write(*(booking(second, order=f"o{second}") for second in orders))

    dagger.sinks = [
        kafka_sink("127.0.0.1:1", rows)
    ]  # nobody is there: the batch is planned, and not committed
    with dagger.launch() as launch:
        launch.until(lambda beat: beat.retrying)
        launch.kill()
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([deleted])[deleted].result()
    dagger.reads, dagger.sinks = [kept], [kafka_sink(kafka, rows)]
    with dagger.launch() as relaunch:
        relaunch.until(lambda _: forwarded(kafka, rows) == {"o0", "o1", "o2"})
        relaunch.running()
        code = relaunch.stop()

    assert (
        f"TOPIC_GONE {deleted}: up to 5 of its records, which a batch was to read when the driver ended, "
        "are in no row: the topic was deleted before they were read"
    ) in relaunch.beats[-1].warnings
    assert (code, forwarded(kafka, rows)) == (0, {"o0", "o1", "o2"})


@pytest.mark.long
def test_ten_topics_share_eight_readers_and_two_of_them_end_later(tmp_path: Path, kafka: str) -> None:
    dagger = Topics(tmp_path, kafka, idle_timeout_s=0)
    topics = dagger.made(10)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    sent: list[tuple[float, int]] = []

    def launched(reads: list[str], events: Mapping[str, list[tuple[float, int]]], windows: int) -> Launch:
        """A launch that reads these topics, and ends once it wrote so many windows of two cities."""
        dagger.reads = reads
        for topic, some in events.items():
            dagger.send(topic, some)
            sent.extend(some)
        with dagger.launch() as launch:
            launch.until(lambda beat: len(dict(in_kafka(kafka, rows))) >= 2 * windows and not unread(beat))
            launch.kill()
        return launch

    first = {topic: spread(range(90), cities=2) for topic in topics[:8]}
    launched(topics[:8], first, 1)
    # The two that come have records of the window that is open.
    more = {topic: spread(range(90, 180), cities=2) for topic in topics[:8]}
    more |= {topic: spread(range(60, 180), cities=2) for topic in topics[8:]}
    launched(topics, more, 2)
    # The first two end where they were read to: what they get now is not of the stream.
    for topic in topics[:2]:
        dagger.send(topic, spread(range(180, 240), cities=2))
    launched(topics[2:], {topic: [*spread(range(180, 240), cities=2), (400, 9)] for topic in topics[2:]}, 4)

    assert Counter(dict(in_kafka(kafka, rows))) == recount([event for event in sent if event[1] != 9])


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.long
def test_topics_of_joined_streams_come_and_go_and_every_pair_is_found(
    tmp_path: Path, kafka: str, streams: int
) -> None:
    dagger = Joined(tmp_path, kafka, idle_timeout_s=0, sql=PAIRS[streams])
    a, b, *others = dagger.made(4)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    expected: set[str] = set()

    def stage(number: int, reads: list[str], partners: list[str]) -> None:
        """Orders and their cancellations in all topics that are read; killed when all pairs are written."""
        dagger.reads, dagger.partners = reads, partners
        for n in range(20):
            second, order = number * 60 + n * 2, f"o{number}-{n}"
            dagger.topic = reads[n % len(reads)]
            dagger.write(booking(second, order=order))
            dagger.topic = partners[n // 2 % len(partners)]
            dagger.write(booking(second + 5, order=order, status="CANCELLED"))
            expected.add(order)
        with dagger.launch() as launch:
            launch.until(lambda beat: forwarded(kafka, rows) >= expected and not unread(beat))
            launch.kill()

    second = others if streams == 2 else [a, b]
    stage(0, [a], second[:1])
    stage(1, [a, b], second)
    stage(2, [b], second[1:])
    stage(3, [a, b], second)

    assert forwarded(kafka, rows) == expected


def forwarded(kafka: str, topic: str) -> set[str]:
    """The orders among the rows."""
    return {json.loads(record.value() or b"")["tag_order"] for record in records(kafka, topic)}


def unread(beat: Beat) -> int:
    """How many records wait to be read, as far as a heartbeat knows."""
    return sum(beat.lag.values())
