"""Rows as they are shown, and series."""

import io
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from daggers.v1 import spec_pb2
from rich.console import Console

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
