"""Queries that a person begins with: each runs on any stream, and the first counts by what is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daggersql import Table, check
from daggersql.described import columns
from daggersql.syntax.cursor import KEYWORDS
from daggersql.templates import QueryTemplate, write_first_query, write_templates

Fields: TypeAlias = Sequence[tuple[str, "str | Fields"]]
"""Names of fields with their kinds; a sequence is a message that lies in it."""
TABLE = "bookings"
SINGLE = {
    "string": "TYPE_STRING",
    "int64": "TYPE_INT64",
    "double": "TYPE_DOUBLE",
    "bool": "TYPE_BOOL",
    "bytes": "TYPE_BYTES",
}
NAMED = {
    "enum": ".generated.Enum",
    "enum of one": ".generated.One",
    "time": ".google.protobuf.Timestamp",
    "wrapped": ".google.protobuf.StringValue",
    "itself": ".generated.Record",
}
NAMES = st.sampled_from(
    [
        *(word.lower() for word in sorted(KEYWORDS)),
        *(TABLE, "records", "window_timestamp", "rowtime", "time", "_time", "_value", "_", "__topic", "__x"),
        *(
            "tag_city",
            "label_status",
            "tag_",
            "status",
            "serviceType",
            "city_name",
            "order_number",
            "name",
            "x9",
        ),
        *("lat", "longitude", "customer_id", "user", "driverId", "path", "status_code", "method"),
        *(
            "date",
            "timestamp",
            "interval",
            "array",
            "map",
            "row",
            "value",
            "count",
            "tumble",
            "user",
            "values",
        ),
    ]
)


def add_fields(message: descriptor_pb2.DescriptorProto, path: str, fields: Fields) -> None:
    for number, (name, kind) in enumerate(fields, 1):
        repeated = isinstance(kind, str) and kind.startswith("repeated ")
        kind = kind.removeprefix("repeated ") if isinstance(kind, str) else kind
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        if not isinstance(kind, str):
            inside = f"Inside{number}"
            field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{inside}"
            add_fields(message.nested_type.add(name=inside), field.type_name, kind)
        elif kind in NAMED:
            field.type = field.TYPE_ENUM if kind.startswith("enum") else field.TYPE_MESSAGE
            field.type_name = NAMED[kind]
        else:
            field.type = getattr(descriptor_pb2.FieldDescriptorProto, SINGLE[kind])


def stream(fields: Fields) -> Table:
    """Make a stream whose records have these fields."""
    file = descriptor_pb2.FileDescriptorProto(name="generated.proto", package="generated", syntax="proto3")
    pool = DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        file.dependency.append(module.DESCRIPTOR.name)
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for name, values in (("Enum", ["UNKNOWN", "COMPLETED", "CANCELLED"]), ("One", ["ONLY"])):
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    add_fields(file.message_type.add(name="Record"), ".generated.Record", fields)
    pool.AddSerializedFile(file.SerializeToString())
    return Table(TABLE, pool.FindMessageTypeByName("generated.Record"), "at")


def first_query(fields: Fields, *sensitive: str) -> str:
    return write_first_query(TABLE, columns(stream(fields))[0], sensitive)


def templates(fields: Fields) -> list[QueryTemplate]:
    return write_templates(TABLE, columns(stream(fields))[0])


def counted_by(fields: Fields, *sensitive: str) -> str:
    """Return the expression that the query counts by; empty where it counts all records together."""
    selected = first_query(fields, *sensitive).partition("\n")[0].removeprefix("SELECT ")
    return "" if selected.startswith("count(1)") else selected.partition(" AS ")[0]


def message(depth: int) -> st.SearchStrategy[Fields]:
    kinds = [*SINGLE, *NAMED, "repeated string", "repeated enum", "repeated itself"]
    kind: st.SearchStrategy[str | Fields] = st.sampled_from(kinds)
    if depth:
        kind = kind | message(depth - 1)
    return st.lists(st.tuples(NAMES, kind), max_size=6, unique_by=lambda field: field[0])


@settings(max_examples=2 * settings.default.max_examples)
@given(message(2))
@example([])
@example([(TABLE, [("status", "enum")])])
@example([("status", "enum"), ("STATUS", "enum")])
@example([("select", [("from", [("where", "enum")])])])
@example([("time", "enum")])
@example([("__topic", "enum"), ("rowtime", "enum")])
@example([("lat", "double"), ("longitude", "double"), ("status", "enum"), ("customer_id", "string")])
def test_each_runs_on_a_stream_of_any_message(fields: Fields) -> None:
    table = stream(fields)
    first, *others = (check(template.sql, [table], points=True) for template in templates(fields))

    assert first.plan is not None
    assert first.plan.window is not None
    assert (first.findings, first.plan.window.size.total_seconds()) == ((), 60)
    # That a count of distinct values is an estimate is so whatever is counted.
    assert [finding for other in others for finding in other.findings if finding.code != "APPROXIMATE"] == []
    assert [other for other in others if other.plan is None] == []


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ([("order_number", "string"), ("city", "string"), ("status", "enum")], "status"),
        ([("order_number", "string"), ("city_id", "string")], "city_id"),
        ([("note", "string"), ("serviceType", "string"), ("flavour", "string")], "serviceType"),
        ([("flavour", "string"), ("fare", "double")], "flavour"),
        ([("order_number", "string"), ("customerId", "string"), ("fare", "double")], ""),
        ([("at", "time"), ("fare", "double"), ("tags", "repeated string")], ""),
        ([("only", "enum of one"), ("driver", [("state", "enum")])], "driver.state"),
        ([("driver", [("state", "enum")]), ("mood", "enum")], "driver.state"),
        ([("order", [("status", "enum")])], "`order`.status"),
        ([("end", "enum")], "`end`"),
        ([("channel", "wrapped")], "channel"),
        ([(TABLE, [("status", "enum")])], f"`{TABLE}`.{TABLE}.status"),
    ],
)
def test_it_counts_by_the_likeliest_enum_or_short_text(fields: Fields, by: str) -> None:
    assert counted_by(fields) == by


def test_it_does_not_count_by_what_is_sensitive() -> None:
    fields = [("status", "enum"), ("driver", [("state", "enum"), ("tier", "string")]), ("city", "string")]

    assert counted_by(fields, "status", "driver") == "city"
    assert counted_by(fields, "status", "driver.state") == "city"
    assert counted_by(fields, "stat") == "status"


def test_it_is_written_as_a_person_would() -> None:
    assert first_query([("status", "enum")]) == (
        "SELECT status AS tag_status,\n"
        "       count(1) AS records,\n"
        "       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp\n"
        "FROM `bookings`\n"
        "GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), status\n"
    )


def test_the_questions_are_those_that_the_stream_can_answer() -> None:
    booking = [("status", "enum"), ("lat", "double"), ("long", "double"), ("customer_id", "string")]
    log = [("path", "string"), ("status_code", "int64"), ("at", "time")]

    assert [template.title for template in templates(booking)] == [
        "Records a minute by status",
        "Completed by S2 cell",
        "Conversion",
        "Distinct customer_id",
        "Top 10 of customer_id",
        "Sessions of a customer_id",
    ]
    assert [template.title for template in templates(log)] == [
        "Records a minute",
        "API health by path and status",
    ]
    assert templates(booking)[0].sql == first_query(booking)
