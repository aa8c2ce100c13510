"""What a plan says that a new column does where the rows go, and which types of fields take which values."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2

from daggerspec import sinks
from daggerspec.columns import Column, role_of
from daggerspec.sinks import elasticsearch


def test_a_new_column_is_added_to_what_the_sink_has_made_or_has_to_be_there() -> None:
    index = spec_pb2.Sink(elasticsearch=spec_pb2.ElasticsearchSink(index="trips"))
    table = spec_pb2.Sink(postgres=spec_pb2.PostgresSink(table="trips"))
    said = [sinks.new_column(sink, "note") for sink in (index, table)]
    index.elasticsearch.create_index = table.postgres.create_table = True

    assert said == [
        "where the mapping of trips is strict it must have note before, or the driver fails",
        "the table trips must have note before, or the driver fails",
    ]
    assert [sinks.new_column(sink, "note") for sink in (index, table)] == [
        "the mapping of trips gets note where it is strict",
        "the table trips is altered where it lacks note, if create_table made it",
    ]


COLUMNS = [Column(name, role_of(name), name, "string") for name in ("tag_city", "mail", "window_timestamp")]


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"log": {"limit": 1}}, ()),
        ({"influx": {"measurement": "m"}}, ("tag_city", "window_timestamp")),
        ({"influx": {"measurement": "m_${mail}"}}, ("tag_city", "mail", "window_timestamp")),
        ({"postgres": {"table": "t", "key": ["mail"]}}, ("tag_city", "mail", "window_timestamp")),
        ({"redis": {"key": "k:${tag_city}"}}, ("tag_city", "window_timestamp")),
        ({"kafka": {"topic": "t"}}, ()),
        ({}, ()),
    ],
)
def test_columns_by_which_a_sink_tells_rows_apart_or_finds_them(
    sink: dict[str, Any], told: tuple[str, ...]
) -> None:
    assert sinks.telling(spec_pb2.Sink(**sink), COLUMNS) == told


@pytest.mark.parametrize(
    ("ours", "theirs", "holds"),
    [
        ("keyword", {"type": "text"}, True),
        ("keyword", {"properties": {}}, False),
        ("keyword", {"type": "object", "enabled": False}, True),
        ("object", {"type": "nested"}, True),
        ("object", {"type": "keyword"}, False),
        ("object", {"type": "flattened"}, True),
        ("date", {"type": "long"}, False),
        ("long", {"type": "double"}, True),
        ("long", {"type": "boolean"}, False),
        ("boolean", {"type": "integer"}, False),
    ],
)
def test_a_field_holds_values_of_ours_or_none(ours: str, theirs: dict[str, object], holds: bool) -> None:
    assert elasticsearch.holds({"type": ours}, theirs) == holds
