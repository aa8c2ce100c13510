"""Rows read back: what they are, in which order, and how they are told to who asked."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec.columns import Column, Role
from daggerspec.limits import WATCHED_ROWS
from daggerspec.row import Row, from_proto
from daggerspec.selection import Condition, Order, Selection
from runtime.encode.readback import from_columns, from_json, newest
from runtime.errors import JobError
from runtime.launch.driverlog import keep_short
from runtime.readrows import STEP_BYTES, RowReader, news, steps
from runtime.sinks import Source
from runtime.sinks import influx as influx_sink
from runtime.sinks import kafka as kafka_sink
from runtime.sinks import log as log_sink

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_columns_become_time_tags_and_fields_by_their_names() -> None:
    row = from_columns(
        {
            "window_timestamp": "2026-01-01T12:00:00Z",
            "tag_city": 1,
            "label_s2id": "x",
            "count": 3,
            "gone": None,
        }
    )

    assert (row.time, row.tags, row.fields) == (NOON, {"tag_city": "1", "s2id": "x"}, {"count": 3})


def test_the_newest_rows_come_first() -> None:
    rows = [Row(NOON.replace(minute=minute), {}, {}) for minute in (1, 3, 2)]

    assert [row.time.minute for row in newest(rows) if row.time] == [3, 2, 1]


def test_rows_without_a_time_stay_in_the_order_they_were_read_in_and_are_all_there() -> None:
    rows = [from_columns({"n": n}, str(n)) for n in (3, 1, 2)]

    assert [row.fields["n"] for row in newest(rows)] == [3, 1, 2]
    assert [row.key for row in rows] == ["3", "1", "2"]


@pytest.mark.integration
def test_the_newest_records_of_a_topic_come_first_when_they_have_no_window(
    kafka: str, tmp_path: Path
) -> None:
    topic = f"cli-rows-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": kafka})
    # the tags sort the other way round, and one row is written again
    for number, (identity, value) in enumerate([("a", "z"), ("b", "y"), ("a", "z"), ("c", "x")]):
        producer.produce(
            topic,
            json.dumps({"tag_t": value}),
            timestamp=1_700_000_000_000 + number,
            headers=[("ce_id", identity.encode())],
        )
    producer.flush(30)

    sink = spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic=topic))
    resolved = spec_pb2.ResolvedSink(sink=sink, kafka=spec_pb2.KafkaAddress(bootstrap_servers=kafka))
    rows = kafka_sink.read(Source("d", resolved, FileDescriptorSet(), tmp_path), Selection(10))

    assert [(row.key, row.tags["tag_t"]) for row in rows] == [("c", "x"), ("a", "z"), ("b", "y")]


def test_rows_are_found_among_the_other_lines_of_a_drivers_log(tmp_path: Path) -> None:
    file = tmp_path / "driver.log"
    file.write_text(
        "starting\n"
        'row {"window_timestamp": "2026-01-01T12:00:00Z", "n": 1}\n'
        "a row of warnings\n"
        'row {"window_timestamp": "2026-01-01T12:01:00Z", "n": 2}\n'
    )

    resolved = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
    rows = log_sink.read(Source("d", resolved, FileDescriptorSet(), tmp_path), Selection(10))

    assert [row.fields["n"] for row in rows] == [2, 1]


def test_a_value_of_any_size_comes_back_as_it_was() -> None:
    told = Row(NOON, {"t": "1"}, {"i": 2**62, "u": 2**64, "f": 1.5, "b": True, "s": "x", "n": {"a": None}})

    assert [
        (field_.name, getattr(field_, field_.WhichOneof("value"))) for field_ in told.to_proto().fields
    ] == [
        ("i", 2**62),
        ("u", "18446744073709551616"),
        ("f", 1.5),
        ("b", True),
        ("s", "x"),
        ("n", '{"a": null}'),
    ]


def test_numbers_of_a_record_come_out_digit_by_digit() -> None:
    text = '{"cell":9007199254740993,"total":12.340,"mean":0.1,"parts":{"sum":[1.50]},"tag_price":2.50}'
    row = from_proto(from_columns(from_json(text)).to_proto())

    assert [(name, str(value)) for name, value in row.fields.items()] == [
        ("cell", "9007199254740993"),
        ("total", "12.340"),
        ("mean", "0.1"),
        ("parts", "{'sum': [Decimal('1.50')]}"),
    ]
    assert (type(row.fields["mean"]), row.tags) == (float, {"tag_price": "2.50"})


CITY = Column("tag_city", Role.TAG, "tag_city", "string")
TAG_NUMBER = Column("tag_n", Role.TAG, "tag_n", "bigint")
N = Column("n", Role.FIELD, "n", "bigint")
EQUAL = gateway_pb2.RowCondition.COMPARISON_EQUAL
TIME = Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp")
HOUR = timedelta(hours=1)
ROWTIME = Column("rowtime", Role.FIELD, "rowtime", "timestamp")
LESS = gateway_pb2.RowCondition.COMPARISON_LESS
AT_LEAST = gateway_pb2.RowCondition.COMPARISON_AT_LEAST


def test_influx_is_asked_for_its_series_and_its_time_and_no_more_points_than_are_wanted() -> None:
    city, number = Condition(CITY, EQUAL, 'a"b'), Condition(TAG_NUMBER, EQUAL, Decimal("7"))
    text = influx_sink.query("b", "m", Selection(6, NOON, (city, number)))

    assert "range(start: 2026-01-01T12:00:00.000000Z, stop: 2262-04-11T00:00:00.000000Z)" in text
    assert r'r._measurement == "m" and r["tag_city"] == "a\"b" and r["tag_n"] == "7")' in text
    assert text.endswith("|> limit(n: 6)")


def test_influx_is_asked_for_the_time_before_an_instant() -> None:
    before = Condition(TIME, LESS, NOON + timedelta(minutes=5))
    text = influx_sink.query("b", "m", Selection(6, NOON, (before, Condition(TIME, LESS, NOON + HOUR))))
    none = influx_sink.query("b", "m", Selection(6, NOON + HOUR, (before,)))

    assert "range(start: 2026-01-01T12:00:00.000000Z, stop: 2026-01-01T12:05:00.000000Z)" in text
    assert text.endswith("|> limit(n: 6)")
    # A range that ends before it begins is an error of the database's.
    assert "range(start: 2026-01-01T13:00:00.000000Z, stop: 2026-01-01T13:00:01.000000Z)" in none


@pytest.mark.parametrize(
    "wanted",
    [
        Selection(6, where=(Condition(N, EQUAL, Decimal(7)),)),
        Selection(6, where=(Condition(CITY, AT_LEAST, "a"),)),
        Selection(6, where=(Condition(CITY, EQUAL, ""),)),
        Selection(6, where=(Condition(ROWTIME, LESS, NOON),)),
        Selection(6, where=(Condition(TAG_NUMBER, EQUAL, Decimal("7.0")),)),
        Selection(6, order=Order(N, descending=True)),
    ],
)
def test_influx_is_asked_for_all_points_where_it_cannot_tell_which(wanted: Selection) -> None:
    text = influx_sink.query("b", "m", wanted)

    assert "limit(" not in text
    assert 'filter(fn: (r) => r._measurement == "m")' in text


def test_many_rows_come_in_messages_that_a_client_takes() -> None:
    rows = (Row(None, {}, {"text": "x" * 1000}, str(number)) for number in range(25_000))
    told = list(steps(rows, gateway_pb2.ReadRowsResponse))

    assert [row.key for step in told for row in step.rows] == [str(number) for number in range(25_000)]
    assert max(step.ByteSize() for step in told) < 2 * STEP_BYTES


def test_a_watch_tells_what_is_new_or_has_changed_and_when_nothing_has() -> None:
    first, second, changed = (Row(None, {}, {"n": n}, key) for n, key in ((1, "a"), (2, "b"), (3, "a")))
    looks = [[first], [second, first], [second, first], [changed, second]]

    told = list(news(looks))

    assert [look.new for look in told] == [[], [second], [], [changed]]
    assert [look.rows for look in told] == [list(reversed(look)) for look in looks]


def test_a_watch_tells_rows_of_one_time_without_tags_once() -> None:
    rows = [Row(NOON, {}, {"customer": each}) for each in "abc"]

    assert [look.new for look in news([[], rows, rows])] == [[], rows[::-1], []]


def test_a_look_that_may_leave_out_new_rows_says_so() -> None:
    def rows(first: int, count: int) -> list[Row]:
        return [Row(None, {}, {"n": n}, str(n)) for n in range(first + count - 1, first - 1, -1)]

    full = WATCHED_ROWS + 1
    told = list(news([rows(0, full), rows(10, full), rows(10_000, full)]))

    assert [(look.missed, look.more, len(look.new)) for look in told] == [
        (False, True, 0),
        (False, True, 10),
        (True, True, WATCHED_ROWS),
    ]


@pytest.mark.integration
@pytest.mark.long
def test_rows_of_a_topic_are_searched_as_far_back_as_they_are_wanted(kafka: str, tmp_path: Path) -> None:
    """What was written last is newest, whatever its window, and however often it was written."""
    topic = f"searched-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka})
    begun = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)

    def write(number: int, value: bytes, key: str) -> None:
        producer.produce(
            topic,
            value,
            partition=number % 3,
            timestamp=round((begun + timedelta(seconds=number)).timestamp() * 1000),
            headers=[("ce_id", key.encode())],
        )

    for number in range(3_000):  # the later a row is written, the older its window
        window = (NOON - timedelta(minutes=number)).isoformat()
        write(
            number,
            json.dumps({"window_timestamp": window, "n": number, "tag_city": str(number % 7)}).encode(),
            f"{number}",
        )
        if number % 100 == 0:
            producer.flush(30)
    for number in range(3_000, 3_600):  # then one row again and again, and what others write
        write(
            number, b'{"n": 5, "tag_city": "5"}' if number % 2 else b"not a row", "5" if number % 2 else "x"
        )
    producer.flush(30)
    resolved = spec_pb2.ResolvedSink(
        sink=spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic=topic)),
        kafka=spec_pb2.KafkaAddress(bootstrap_servers=kafka),
    )

    def numbers(wanted: Selection) -> list[int]:
        found = kafka_sink.read(Source("d", resolved, FileDescriptorSet(), tmp_path), wanted)
        return [row.fields["n"] for row in found]

    since = begun + timedelta(seconds=2_995)
    rare = Condition(N, gateway_pb2.RowCondition.COMPARISON_LESS, Decimal(3))
    of_city = Condition(CITY, EQUAL, "3")

    assert numbers(Selection(6)) == [5, 2999, 2998, 2997, 2996, 2995]
    assert numbers(Selection(100, since)) == [5, 2999, 2998, 2997, 2996, 2995]
    assert numbers(Selection(100, begun + timedelta(days=1))) == []
    assert numbers(Selection(100, where=(rare,))) == [2, 1, 0]
    assert numbers(Selection(2, where=(of_city,))) == [2999 - (2999 - 3) % 7, 2999 - (2999 - 3) % 7 - 7]
    assert numbers(Selection(3, order=Order(N, descending=True))) == [2999, 2998, 2997]
    assert numbers(Selection(3, order=Order(N, descending=False))) == [0, 1, 2]


@pytest.mark.integration
def test_a_watched_topic_is_read_on_and_not_again(kafka: str, tmp_path: Path) -> None:
    topic = f"watched-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": kafka})
    sink = spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic=topic))
    resolved = spec_pb2.ResolvedSink(sink=sink, kafka=spec_pb2.KafkaAddress(bootstrap_servers=kafka))
    looks = kafka_sink.watch(Source("d", resolved, FileDescriptorSet(), tmp_path), 3)
    found = []
    for number in range(6):  # the topic is not there at first
        newest_one = [str(number - 1)] if number else []
        rows = next(rows for rows in looks if [row.tags["tag_t"] for row in rows[:1]] == newest_one)
        found.append([row.tags["tag_t"] for row in rows])
        producer.produce(topic, json.dumps({"tag_t": str(number)}), headers=[("ce_id", str(number).encode())])
        producer.flush(30)
    looks.close()

    assert found == [[], ["0"], ["1", "0"], ["2", "1", "0"], ["3", "2", "1"], ["4", "3", "2"]]


def test_the_sink_that_keeps_rows_best_is_read_and_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    log = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
    away = spec_pb2.InfluxAddress(url="http://127.0.0.1:9", bucket="b")
    influx = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=away)))
    job = spec_pb2.JobSpec(dagger="d", sinks=[log, influx])
    (tmp_path / "spec.pb").write_bytes(job.SerializeToString())

    assert RowReader(tmp_path, "log").read(Selection(10)) == []
    with pytest.raises(JobError, match="INFLUX_UNREACHABLE"):
        RowReader(tmp_path, "").read(Selection(10))
    with pytest.raises(JobError, match="d has no sink kafka; it has influx, log"):
        RowReader(tmp_path, "kafka")


def printed(numbers: Iterable[int]) -> str:
    return "".join(f'2026-01-01T12:00:00Z row {{"n": {number}}}\n' for number in numbers)


def test_a_watch_of_the_log_reads_on_where_its_last_look_ended(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text(printed(range(10, 60)))
    looks = log_sink.watch(Source("orders", spec_pb2.ResolvedSink(), FileDescriptorSet(), tmp_path), 100)
    first = next(looks)
    with log.open("r+") as file:  # were it read again, this would be a row of another look
        file.write(printed([99]))
    with log.open("a") as file:
        file.write(printed([60]))
    second = next(looks)
    looks.close()

    assert [row.fields["n"] for row in second] == [*range(60, 9, -1)]
    assert second[1:] == first


def test_rows_of_a_log_are_told_once_though_it_is_moved_between_two_looks(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text(printed(range(10, 60)))
    looks = log_sink.watch(Source("orders", spec_pb2.ResolvedSink(), FileDescriptorSet(), tmp_path), 100)
    told = list(news(looks_of(looks, log)))
    again = log_sink.read(
        Source("orders", spec_pb2.ResolvedSink(), FileDescriptorSet(), tmp_path), Selection(100)
    )

    assert [row.fields["n"] for each in told for row in each.new] == [60, 61]
    assert told[-1].rows == again[::-1]


def looks_of(looks: Iterator[list[Row]], log: Path) -> Iterator[list[Row]]:
    """Three looks: one, one behind a row and a move of the log, one behind another row."""
    yield next(looks)
    for number in (60, 61):
        with log.open("a") as file:
            file.write(printed([number]))
        if number == 60:
            keep_short(log, limit=10)
        yield next(looks)


def test_a_log_that_is_not_there_yet_has_no_rows(tmp_path: Path) -> None:
    source = Source("orders", spec_pb2.ResolvedSink(), FileDescriptorSet(), tmp_path)

    assert log_sink.read(source, Selection(10)) == []
