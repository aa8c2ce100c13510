"""Previews on a real broker and a real Spark: rows, parts of windows, what is set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from daggers.v1 import gateway_pb2, spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.launches import Dagger
from services.runtime.tests.range_previews import Done, RangePreview, everything
from services.runtime.tests.streams import source_session
from tests.integration.bookings import booking, recount, spread

from daggerspec.row import from_proto
from daggerspec.topics import HEARTBEATS, QUARANTINE
from runtime.preview.run import empty
from runtime.source.planner import firstrows

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A host's."""
    with source_session() as session:
        yield session


def told_of(kafka: str, dagger: str) -> list[bytes]:
    """What the platform's topics have of a dagger."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "looks", "enable.auto.commit": False})
    topics = consumer.list_topics(timeout=30).topics
    found: list[bytes] = []
    for name in (HEARTBEATS, QUARANTINE):
        for number in topics[name].partitions:
            place = TopicPartition(name, number, 0)
            begin, end = consumer.get_watermark_offsets(place, 30)
            if begin == end:
                continue
            consumer.assign([place])
            while consumer.position([place])[0].offset < end and (record := consumer.poll(10)) is not None:
                found += [record.value() or b""] if record.key() == dagger.encode() else []
    consumer.close()
    return found


def test_rows_are_those_of_a_dagger_and_open_windows_are_partial(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = spread([s / 4 for s in range(4 * 170)], cities=3)
    dagger.write(*(booking(second, city_id=city) for second, city in events), b"\xff broken")

    told = RangePreview(session, dagger, everything())

    expected = recount(events)
    last = max(end for end, _ in expected)
    assert told.counts(partial=False) == {key: n for key, n in expected.items() if key[0] != last}
    assert told.counts(partial=True) == {key: n for key, n in expected.items() if key[0] == last}
    done = told.done
    assert (done.reason, done.records, done.late) == (Done.REASON_END_OF_RANGE, len(events), 0)
    assert (done.rows, done.rows_left_out, done.series) == (9, 0, 3)
    assert done.empty == Done.EMPTY_UNSPECIFIED
    assert dict(done.quarantined) == {"MALFORMED": 1}
    assert [(example.topic, example.offset, example.value) for example in done.examples] == [
        (dagger.topic, len(events), b"\xff broken")
    ]
    assert 0 < done.first_row_ms <= done.total_ms
    assert done.cpu_seconds > 0
    assert told_of(kafka, dagger.name) == []
    admin = AdminClient({"bootstrap.servers": kafka})  # a name of its own: its end would end the request
    groups = admin.list_consumer_groups().result(60).valid
    assert not [group.group_id for group in groups if dagger.name in group.group_id]


def test_the_first_window_comes_before_the_rest_is_read_and_all_rows_are_the_same(
    tmp_path: Path, kafka: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = spread([s / 4 for s in range(4 * 290)], cities=3)
    dagger.write(*(booking(second, city_id=city) for second, city in events))

    at_once = RangePreview(session, dagger, everything())
    monkeypatch.setattr(firstrows, "WORTH", len(events))
    in_parts = RangePreview(session, dagger, everything())

    assert in_parts.counts(partial=False) == at_once.counts(partial=False)
    assert in_parts.counts(partial=True) == at_once.counts(partial=True)
    assert (in_parts.done.records, in_parts.done.late) == (len(events), 0)
    assert (in_parts.done.rows, in_parts.done.rows_left_out) == (15, 0)
    assert in_parts.first_windows() == {"2026-01-01T12:01:00Z"}
    assert len(at_once.first_windows()) > 1


@pytest.mark.parametrize("first_part", [0, 700], ids=["at once", "in two parts"])
def test_what_is_in_order_in_a_partition_that_is_behind_is_never_late(
    tmp_path: Path, kafka: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch, first_part: int
) -> None:
    """One partition ends 100 s before the other, and is not idle yet: windows behind its end are partial."""
    dagger = Dagger(tmp_path, kafka, partitions=2, idle_timeout_s=300)
    ahead = spread([s / 4 for s in range(4 * 230)], cities=3)
    behind = spread([s / 4 for s in range(4 * 130)], cities=3)
    for partition, events in enumerate((ahead, behind)):
        values = (booking(second, city_id=city) for second, city in events)
        dagger.write(*values, partition=partition)
    if first_part:
        monkeypatch.setattr(firstrows, "WORTH", first_part)

    told = RangePreview(session, dagger, everything())

    expected = recount([*ahead, *behind])
    whole = {key: n for key, n in expected.items() if key[0] <= "2026-01-01T12:02:00Z"}
    assert (told.done.records, told.done.late) == (len(ahead) + len(behind), 0)
    assert told.counts(partial=False) == whole
    assert told.counts(partial=True) == expected - Counter(whole)


def test_windows_that_the_range_begins_in_are_partial(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = [(float(second), 1) for second in range(180)]
    dagger.write(*(booking(second, city_id=city) for second, city in events))

    told = RangePreview(session, dagger, gateway_pb2.PreviewRange(last_records=90))

    expected = recount(events[90:])
    first, last = min(end for end, _ in expected), max(end for end, _ in expected)
    assert told.counts(partial=False) == Counter()
    assert told.counts(partial=True) == expected
    assert told.done.empty == Done.EMPTY_WINDOWS_OPEN
    assert (first, last) == ("2026-01-01T12:02:00Z", "2026-01-01T12:03:00Z")


def test_a_range_of_kafkas_time_ends_before_what_came_later(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    dagger.write(*(booking(second) for second in range(100)))
    split = datetime.now(UTC) + timedelta(milliseconds=50)
    while datetime.now(UTC) <= split + timedelta(milliseconds=50):
        pass  # Kafka's times are those of the producer, in milliseconds
    dagger.write(*(booking(second) for second in range(100, 250)))
    range_ = gateway_pb2.PreviewRange()
    getattr(range_.between, "from").FromDatetime(split - timedelta(hours=1))
    range_.between.to.FromDatetime(split)

    told = RangePreview(session, dagger, range_)

    assert told.done.records == 100
    assert sum(told.counts(partial=False).values()) == 60
    assert sum(told.counts(partial=True).values()) == 40
    assert told.done.cost.records_per_second == pytest.approx(100 / 3600)


def test_rows_beyond_the_limit_are_counted(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger = Dagger(tmp_path, kafka)
    dagger.write(*(booking(second, city_id=city) for second in range(180) for city in (1, 2, 3)))

    last = gateway_pb2.PreviewRange()
    last.last.FromTimedelta(timedelta(hours=1))
    told = RangePreview(session, dagger, last, max_rows=4)

    given = sum(len(step.rows.rows) for step in told.steps)
    assert (given, told.done.rows, told.done.rows_left_out) == (4, 9, 5)
    assert told.done.reason == Done.REASON_ROW_LIMIT
    assert told.done.cost.rows_per_minute == pytest.approx(6 / 60)  # two windows of three are whole


def test_two_streams_close_their_windows_together(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger, other = Dagger(tmp_path, kafka), Dagger(tmp_path / "other", kafka)
    dagger.sql = """
        SELECT a.order_number AS order_number, b.city_id AS city, a.rowtime
        FROM data_stream AS a LEFT JOIN other AS b ON a.order_number = b.order_number
        AND b.rowtime BETWEEN a.rowtime - INTERVAL '60' SECOND AND a.rowtime + INTERVAL '60' SECOND"""
    dagger.write(*(booking(second, order=str(second)) for second in range(10)))
    other.write(*(booking(second, order=str(second), city_id=7) for second in range(0, 10, 2)))

    class Joined(Dagger):
        def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
            job = super().spec(run_dir)
            second = job.streams.add()
            second.CopyFrom(job.streams[0])
            second.stream.name, second.stream.topics[0] = "others", other.topic
            second.input.table = "other"
            return job

    dagger.__class__ = Joined
    told = RangePreview(session, dagger, everything())

    rows = [(from_proto(row), step.rows.partial) for step in told.steps for row in step.rows.rows]
    found = {row.fields["order_number"]: (row.fields.get("city"), partial) for row, partial in rows}
    assert found == {str(n): (7, False) if n % 2 == 0 else (None, True) for n in range(10)}


def test_an_empty_range_ends_at_once(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger = Dagger(tmp_path, kafka)

    told = RangePreview(session, dagger, everything())

    assert (told.done.records, told.done.rows, told.done.reason) == (0, 0, Done.REASON_END_OF_RANGE)
    assert told.done.empty == Done.EMPTY_NO_RECORDS
    assert not told.done.HasField("first_row_ms")


def test_no_rows_say_where_the_records_are(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    broken, filtered = Dagger(tmp_path / "broken", kafka), Dagger(tmp_path / "filtered", kafka)
    broken.write(*[b"\xff broken"] * 3)
    filtered.sql = filtered.sql.replace("WHERE", "WHERE city_id = 4711 AND")
    filtered.write(*(booking(second) for second in range(100)))

    aside, none = RangePreview(session, broken, everything()), RangePreview(session, filtered, everything())

    assert (aside.done.empty, dict(aside.done.quarantined)) == (Done.EMPTY_QUARANTINED, {"MALFORMED": 3})
    assert (none.done.empty, none.done.records, none.done.rows) == (Done.EMPTY_FILTERED, 100, 0)


def test_late_records_alone_are_told_from_those_that_a_query_leaves_out() -> None:
    late, cut = Done(records=5, late=5), Done(records=5, reason=Done.REASON_TIME_LIMIT)

    assert empty(late, whole=0) == Done.EMPTY_LATE
    assert empty(cut, whole=0) == Done.EMPTY_UNSPECIFIED
