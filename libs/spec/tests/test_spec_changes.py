"""What is another in one specification than in another: every field, once, by its path."""

from collections.abc import Callable

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec import changes
from daggerspec.defaults import fill_defaults

Edit = Callable[[spec_pb2.DaggerSpec], object]


def spec() -> spec_pb2.DaggerSpec:
    return fill_defaults(
        "d",
        spec_pb2.DaggerSpec(
            team="pricing",
            cluster="local",
            streams=[spec_pb2.StreamInput(stream="bookings")],
            sql="SELECT a\nFROM data_stream",
            sinks=[
                spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement="m")),
                spec_pb2.Sink(log=spec_pb2.LogSink()),
            ],
        ),
    )


def second_sink(each: spec_pb2.DaggerSpec) -> None:
    kept = spec_pb2.Sink()
    kept.CopyFrom(each.sinks[1])
    del each.sinks[:]
    each.sinks.append(kept)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda each: setattr(each, "team", "other"), [("team", "pricing", "other")]),
        (lambda each: each.trigger.CopyFrom(Duration(seconds=7)), [("trigger", "1s", "7s")]),
        (lambda each: setattr(each, "emit", 2), [("emit", "EMIT_FINAL", "EMIT_EARLY")]),
        (lambda each: setattr(each, "driver_memory_mib", 900), [("driver_memory_mib", "", "900")]),
        (
            lambda each: setattr(each.streams[0].start, "earliest", True),
            [("streams[0].start.latest", "true", ""), ("streams[0].start.earliest", "", "true")],
        ),
        (
            lambda each: setattr(each.sinks[0].influx, "measurement", "n"),
            [("sinks[0].influx.measurement", "m", "n")],
        ),
        (
            lambda each: each.sinks[1].postgres.columns.update({"a": "b"}),
            [
                ("sinks[1].log", '{"limit": 100}', ""),
                ("sinks[1].postgres", "", '{"columns": {"a": "b"}}'),
            ],
        ),
        (lambda each: each.ClearField("trigger"), [("trigger", "1s", "")]),
    ],
)
def test_a_field_that_is_another_is_told_with_what_it_said_and_says(
    edit: Edit, expected: list[tuple[str, str, str]]
) -> None:
    before, after = spec(), spec()
    before.sinks[1].ClearField("name")
    after.sinks[1].ClearField("name")
    edit(after)

    assert [
        (change.field, change.before, change.after) for change in changes.changes(before, after)
    ] == expected


def test_an_element_that_went_is_told_alone_wherever_it_stood() -> None:
    before, after = spec(), spec()
    second_sink(after)
    found = changes.changes(before, after)

    assert [(each.field, "measurement" in each.before, each.after) for each in found] == [
        ("sinks[0]", True, "")
    ]


def test_a_map_is_compared_by_its_keys() -> None:
    before, after = spec(), spec()
    for each, columns in ((before, {"a": "x", "b": "y"}), (after, {"b": "z", "c": "w"})):
        each.sinks[1].postgres.columns.update(columns)
    found = changes.changes(before, after)

    assert [(each.field.rpartition(".")[2], each.before, each.after) for each in found] == [
        ("columns[a]", "x", ""),
        ("columns[b]", "y", "z"),
        ("columns[c]", "", "w"),
    ]


def test_equal_specifications_have_no_changes_and_a_query_is_compared_by_lines() -> None:
    before, after = spec(), spec()
    after.sql = "SELECT b\nFROM data_stream"
    (change,) = changes.changes(before, after)

    assert changes.changes(before, spec()) == []
    assert change.field == changes.SQL
    assert changes.unified_diff(change.before, change.after, old="3", new="5") == [
        "--- 3", "+++ 5", "@@ -1,2 +1,2 @@", "-SELECT a", "+SELECT b", " FROM data_stream",
    ]  # fmt: skip
