"""Rows of different keys are different rows to every sink, and rows of one key are one: whatever the keys."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st
from services.runtime.tests.sink_contract import NOON, fresh_topic, influx_sink, query, records

from daggersql import Column, Role
from runtime import sinks
from runtime.encode.line_protocol import LineProtocolEncoder
from runtime.encode.rows import Layout, Refusal, event_id, keys
from runtime.launch.refused_rows import quarantine_records
from runtime.sinks import Target

TIME = pa.timestamp("us", "UTC")
LAYOUT = Layout(
    (
        Column("tag_k", Role.TAG, "tag_k", "string"),
        Column("n", Role.FIELD, "n", "bigint"),
        Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    ),
    hidden=("__window_start", "__window_end", "__key_0"),
)
HOSTILE_TEXTS = [
    "", '""', '"', '"""', "a", "a ", "a\\", "a\\ ", "\\", "\\\\", "\\\\\\", "\n", "\\n", "\\\n", "\\\\n",
    "\t", "\\t", "\r", "\\r", "\r\n", "\\x5c", "\\x5cn", "\\x5c\n", "\\x22", '\\x22"', '\\"', "a,b", "a\\,b",
    "a=b", "a\\=b", "a b", "a\\ b", "a\\,", "a\\=", ",", "=", " ", "  ", "null", "NULL", "NaN", "#", "'",
    "\x00", "\x01", "\x7f", "\u0085", "\u2028", "日本", "😀",
]  # fmt: skip
HOSTILE_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.0, 1e308, 0.1, 2.0**53]

texts = st.sampled_from(HOSTILE_TEXTS) | st.text(st.sampled_from('\\ntrx5c2",= \n\r\ta'), max_size=6)
floats = st.sampled_from(HOSTILE_FLOATS) | st.floats()
micros = st.integers(-(10**14), 10**14) | st.sampled_from([0, 1, 999, 1000, 1001])
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), texts),
    (pa.float64(), floats),
    (pa.float32(), st.floats(width=32)),
    (pa.int64(), st.integers(-3, 3)),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=2)),
    (pa.decimal128(10, 2), st.decimals(-1, 1, places=2)),
    (pa.date32(), st.dates()),
    (TIME, micros.map(lambda micro: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro))),
    (pa.list_(pa.float64()), st.lists(st.none() | floats, max_size=2)),
    (pa.struct([("s", pa.string()), ("f", pa.float64())]),
     st.fixed_dictionaries({"s": st.none() | texts, "f": st.none() | floats})),
]  # fmt: skip


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """A column of group keys, most of them hostile, some of them equal."""
    kind, values = draw(st.sampled_from(KINDS))
    return pa.array(draw(st.lists(st.none() | values, min_size=2, max_size=8)), kind)


def as_sql_sees(value: Any) -> Any:
    """The same for values that are one group: NaN is one, 0.0 and -0.0 are."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case list():
            return tuple(map(as_sql_sees, value))
        case dict():
            return tuple(as_sql_sees(part) for part in value.values())
        case _:
            return value


def grouped(array: pa.Array) -> pa.RecordBatch:
    """A row for each key, all of one window."""
    hidden = [pa.array([NOON] * len(array), TIME)] * 2
    n, time = pa.array(range(len(array)), pa.int64()), pa.array([NOON] * len(array), TIME)
    names = ["tag_k", "n", "window_timestamp", *LAYOUT.hidden]
    return pa.RecordBatch.from_arrays([array, n, time, *hidden, array], names=names)


def target(batch: pa.RecordBatch, sink: spec_pb2.ResolvedSink, dagger: str = "d") -> Target:
    return Target(dagger, sink.SerializeToString(), LAYOUT, batch.schema, b"", updates=False)


def points(batch: pa.RecordBatch) -> list[str]:
    """What InfluxDB knows a point by: all of its line but the field."""
    lines, refused = LineProtocolEncoder(LAYOUT, "m").encode(batch)
    assert not refused
    return [line.rpartition(" n=")[0] for line in lines if line is not None]


def logged(batch: pa.RecordBatch) -> list[Any]:
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=100)))
    lines = sinks.open_writer(target(batch, sink)).write(batch, 0).printed
    return [json.dumps(json.loads(line.removeprefix("row "))["tag_k"]) for line in lines]


def set_aside(batch: pa.RecordBatch) -> list[str]:
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
    refusals = [Refusal(row, "NO_FIELDS", "") for row in range(batch.num_rows)]
    found = list(quarantine_records(target(batch, sink), batch, refusals))
    assert [record.key.decode() for record, _ in found] == [key for _, key in found]
    return [event_id("sink", key, None) for _, key in found]


def events(batch: pa.RecordBatch) -> list[str]:
    return [event_id("d", key, None) for key in keys(LAYOUT, batch)]


def same(values: Iterable[Any]) -> list[int]:
    """For each value, the place of the first that is equal."""
    first: dict[Any, int] = {}
    return [first.setdefault(value, at) for at, value in enumerate(values)]


@pytest.mark.parametrize("identities", [points, events, set_aside, logged])
@given(array=columns())
def test_keys_are_one_to_a_sink_exactly_when_they_are_one_group(
    identities: Callable[[pa.RecordBatch], Sequence[Any]], array: pa.Array
) -> None:
    found = identities(grouped(array))

    assert same(found) == same(map(as_sql_sees, array.to_pylist()))


def test_the_key_of_an_ordinary_row_is_what_it_was() -> None:
    array = pa.array([None, "", "Jakarta", 'say "hi"\n'])
    numbers = pa.array([1.5, -2.0, None], pa.float64())

    times = '"2026-01-01T12:00:00Z","2026-01-01T12:00:00Z"'
    assert keys(LAYOUT, grouped(array)) == [
        f"[{times},{text}]" for text in ("null", '""', '"Jakarta"', r'"say \"hi\"\n"')
    ]
    assert keys(LAYOUT, grouped(numbers)) == [f"[{times},{text}]" for text in ("1.5", "-2.0", "null")]


def test_a_date_that_python_has_not_is_written_all_the_same() -> None:
    far = pa.array([4_000_000, None, 0], pa.int32()).cast(pa.date32())

    assert [line.partition(" n=")[0] for line in points(grouped(far))] == [
        "m,tag_k=12921-08-18", "m", "m,tag_k=1970-01-01",
    ]  # fmt: skip


@pytest.mark.integration
def test_influxdb_keeps_a_point_for_each_hostile_tag(influx: dict[str, str]) -> None:
    measurement = f"m-{uuid4().hex[:8]}"
    batch = grouped(pa.array([None, *HOSTILE_TEXTS, "x" * 60_000]))

    refused = sinks.open_writer(target(batch, influx_sink(influx, measurement))).write(batch, 0).refused

    found = query(influx, f'SELECT n, tag_k FROM "{measurement}"')["series"][0]["values"]
    assert (sorted(n for _, n, _ in found), list(refused)) == (list(range(batch.num_rows)), [])
    assert len({tag for *_, tag in found}) == batch.num_rows


@pytest.mark.integration
def test_kafka_has_a_key_and_an_id_for_each_hostile_float(kafka: str) -> None:
    topic = fresh_topic(kafka)
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers, sink.sink.kafka.topic = kafka, topic
    sink.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_JSON
    batch = grouped(pa.array([None, *HOSTILE_FLOATS], pa.float64()))

    sinks.open_writer(target(batch, sink)).write(batch, 0)

    found = records(kafka, topic)
    ids = {(record.key(), dict(record.headers() or [])["ce_id"]) for record in found}
    assert (len(found), len(ids)) == (batch.num_rows, batch.num_rows - 1)  # 0.0 and -0.0 are one


@pytest.mark.integration
@pytest.mark.parametrize(("partitions", "each"), [(1, 2_000), (64, 20)])
def test_influxdb_keeps_a_point_for_each_record_of_one_instant_with_the_tags_that_the_check_names(
    influx: dict[str, str], partitions: int, each: int
) -> None:
    places = [(partition, 977 * partition + at) for partition in range(partitions) for at in range(each)]
    layout = Layout(
        (
            Column("tag_partition", Role.TAG, "tag_partition", "int"),
            Column("tag_thousand", Role.TAG, "tag_thousand", "bigint"),
            Column("n", Role.FIELD, "n", "bigint"),
        ),
        hidden=("__rowtime", "__key_0", "__key_1", "__key_2"),
    )
    numbers = pa.array([partition for partition, _ in places], pa.int32())
    offsets = pa.array([offset for _, offset in places], pa.int64())
    thousands = pa.array([offset // 1000 % 10 for _, offset in places], pa.int64())
    count, time = pa.array(range(len(places)), pa.int64()), pa.array([NOON] * len(places), TIME)
    batch = pa.RecordBatch.from_arrays(
        [numbers, thousands, count, time, pa.array(["t"] * len(places)), numbers, offsets],
        names=["tag_partition", "tag_thousand", "n", *layout.hidden],
    )
    measurement = f"m-{uuid4().hex[:8]}"
    sink = influx_sink(influx, measurement).SerializeToString()
    writer = sinks.open_writer(Target("d", sink, layout, batch.schema, b"", updates=False))

    refused = [writer.write(batch, 0).refused for _ in range(2)]

    found = query(influx, f'SELECT n FROM "{measurement}"')["series"][0]["values"]
    assert (sorted(n for _, n in found), refused) == (list(range(len(places))), [[], []])
