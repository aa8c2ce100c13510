"""Rows as they are shown, series, and the demo's city and recount."""

import io
import json
import random
import uuid
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer
from daggers.v1 import spec_pb2
from google.protobuf.message import DecodeError
from rich.console import Console

from cli import driverlog
from cli.daggerfile.parse import parse
from cli.demo.city import OUT_OF_ORDER_S, TICK_S, Booking, City, Ping, bookings_per_s
from cli.demo.encoding import BOOKING, Encoder, example_files
from cli.demo.recount import bookings_table, compare, rows_table, s2_id, supply_table, window_end
from cli.demo.run import find_examples, with_short_windows
from cli.schema import load
from cli.sinks import log
from cli.sinks.kafka import decode_json, read
from cli.sinks.row import Row, from_columns, newest, text
from cli.sparkline import Series, sparkline, table

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

    assert row.document() == {
        "window_timestamp": "2026-01-01T12:00:00Z",
        "tags": {"tag_city": "1", "s2id": "x"},
        "fields": {"count": 3},
    }


def test_the_newest_rows_come_first_and_no_more_than_asked_for() -> None:
    rows = [Row(NOON.replace(minute=minute), {}, {}) for minute in (1, 3, 2)]

    assert [row.time.minute for row in newest(rows, 2) if row.time] == [3, 2]


def test_rows_without_a_time_stay_in_the_order_they_were_read_in_and_are_all_there() -> None:
    rows = [from_columns({"n": n}, str(n)) for n in (3, 1, 2)]

    assert [row.fields["n"] for row in newest(rows, 10)] == [3, 1, 2]
    assert len({row.identity for row in rows}) == 3


def test_the_newest_records_of_a_topic_come_first_when_they_have_no_window(kafka: str) -> None:
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

    rows = read(spec_pb2.KafkaAddress(bootstrap_servers=kafka), topic, decode_json, 10)

    assert [(row.key, row.tags["tag_t"]) for row in rows] == [("c", "x"), ("a", "z"), ("b", "y")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("text", "text"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": None, "b": ["ü"]}, '{"a": null, "b": ["ü"]}'),
    ],
)
def test_a_value_is_shown_as_text_and_never_as_python(value: object, shown: str) -> None:
    assert text(value) == shown


def test_rows_are_found_among_the_other_lines_of_a_drivers_log(tmp_path: Path) -> None:
    file = tmp_path / "driver.log"
    file.write_text(
        "starting\n"
        'row {"window_timestamp": "2026-01-01T12:00:00Z", "n": 1}\n'
        "a row of warnings\n"
        'row {"window_timestamp": "2026-01-01T12:01:00Z", "n": 2}\n'
    )

    assert [row.fields["n"] for row in log.read(file, 10)] == [2, 1]


def test_a_sparkline_goes_from_zero_to_the_largest_value() -> None:
    assert sparkline([0, 7, 3.5, 7]) == "▁█▅█"
    assert sparkline([]) == ""


def test_a_table_of_no_series_says_so_under_its_whole_title() -> None:
    console = Console(width=80, file=io.StringIO())
    with console.capture() as capture:
        console.print(table("a_rather_long_name  RUNNING", [], 5))

    lines = [line.strip() for line in capture.get().splitlines()]
    assert (lines[0], lines[-1]) == ("a_rather_long_name  RUNNING", "no rows yet")


def test_a_series_is_the_values_of_one_field_with_one_set_of_tags() -> None:
    rows = newest(
        [Row(NOON.replace(minute=minute), {"c": city}, {"n": minute}) for minute in (0, 1) for city in "ab"],
        10,
    )

    assert [(each.tags, each.values) for each in Series.collect(rows)] == [
        ("c=b", (0.0, 1.0)),
        ("c=a", (0.0, 1.0)),
    ]


def events(seed: int, ticks: int) -> list[Booking | Ping]:
    city = City(seed)
    return [event for number in range(ticks) for event in city.tick(number)]


def test_a_city_is_the_same_for_one_seed_and_another_for_another() -> None:
    assert events(1, 50) == events(1, 50)
    assert events(1, 50) != events(2, 50)


def test_events_are_never_further_out_of_order_than_promised() -> None:
    newest_so_far, worst = 0.0, 0.0
    for event in events(1, 600):
        newest_so_far = max(newest_so_far, event.second)
        worst = max(worst, newest_so_far - event.second)

    assert 0 < worst <= OUT_OF_ORDER_S + TICK_S


def test_rush_hours_are_busier_than_the_night() -> None:
    assert bookings_per_s(60 * 8.5 / 24) > 3 * bookings_per_s(60 * 2 / 24)


def test_a_broken_record_does_not_parse() -> None:
    encoder = Encoder.of(load(example_files(find_examples()), ()), NOON)
    whole = encoder.booking(City(1).booking(1.0))

    broken = encoder.broken(whole, BOOKING, random.Random(1))

    with pytest.raises(DecodeError):
        encoder.classes[BOOKING].FromString(broken)


def test_a_window_holds_its_beginning_and_not_its_end() -> None:
    ends = [window_end(NOON, second) for second in (0, 9.999, 10)]

    assert ends == ["2026-01-01T12:00:10Z", "2026-01-01T12:00:10Z", "2026-01-01T12:00:20Z"]


def test_the_recount_counts_completed_bookings_and_distinct_drivers() -> None:
    booking = Booking(1, "o", "COMPLETED", 7, "bike", 0.0, 0.0)
    cancelled = Booking(1, "o", "CANCELLED", 7, "bike", 0.0, 0.0)
    ping = Ping(1, "d", "AVAILABLE", 0.0, 0.0, "bike", 0, 0)
    end, cell = "2026-01-01T12:00:10Z", s2_id(0.0, 0.0)

    assert bookings_table([booking, booking, cancelled], NOON) == {(end, "7", cell, "bike"): 2}
    assert supply_table([ping, ping], NOON) == {(end, cell, "AVAILABLE"): 1}


@pytest.mark.parametrize(
    ("latitude", "longitude", "cell"),
    [(0.0, 0.0, "1152921521786716160"), (40.7128, -74.0060, "-8520148434366234624")],
)
def test_a_cell_id_is_a_signed_decimal(latitude: float, longitude: float, cell: str) -> None:
    assert s2_id(latitude, longitude) == cell


def test_every_row_that_is_missing_extra_or_different_is_a_mismatch() -> None:
    expected = {("w1", "a"): 1, ("w1", "b"): 2, ("w2", "a"): 3}
    found = {("w1", "a"): 1, ("w1", "b"): 9, ("w2", "c"): 3}

    compared = compare(expected, found)

    assert (compared.windows, compared.rows, len(compared.mismatches)) == (2, 3, 3)


def test_rows_become_the_table_of_the_recount() -> None:
    row = Row(NOON, {"tag_city_id": "7"}, {"n": 2})

    assert rows_table([row], ("tag_city_id",), "n") == {("2026-01-01T12:00:00Z", "7"): 2}


def test_the_demo_shortens_every_window_of_the_examples() -> None:
    for file in sorted((find_examples() / "daggers").glob("*.yaml")):
        [dagger] = parse(file.read_text(), str(file))
        short = with_short_windows(dagger).spec.sql

        assert (short.count("'10' SECOND"), short.count("'60' SECOND")) == (
            dagger.spec.sql.count("'60' SECOND"),
            0,
        )


def test_logs_keep_what_an_exception_says_and_drop_its_trace() -> None:
    log = [
        "before",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "    raise ValueError",
        "ValueError: no such thing",
        "java.lang.IllegalStateException: stopped",
        "\tat org.apache.spark.X.run(X.scala:1)",
        "Caused by: java.io.IOException: gone",
        "\t... 3 more",
        "after",
    ]

    assert list(driverlog.without_traces(log)) == [
        "before",
        "ValueError: no such thing",
        "java.lang.IllegalStateException: stopped",
        "after",
    ]


def test_a_log_that_was_moved_is_read_with_its_older_part(tmp_path: Path) -> None:
    (tmp_path / "driver.log.1").write_text("first\nsecond\n")
    (tmp_path / "driver.log").write_text("third\n")

    assert list(driverlog.lines(tmp_path / "driver.log")) == ["first", "second", "third"]


def test_a_log_is_followed_over_its_move(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("old\nfirst\nsec")
    followed = driverlog.follow(log, start=len("old\n"))
    begin = next(followed)
    (tmp_path / "driver.log.1").write_text("old\nfirst\nsecond\nthird\n")
    log.write_text("fourth\n")

    assert [begin, *islice(followed, 3)] == ["first", "second", "third", "fourth"]
