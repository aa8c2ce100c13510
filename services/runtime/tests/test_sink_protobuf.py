"""Rows as Protobuf messages: by name, nested by dots, checked by type before the first row."""

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from services.runtime.tests.sink_protobuf import FILES

from daggersql import Column, Role
from runtime.encode.protobuf import MessageEncoder, encoder
from runtime.encode.readback import from_message
from runtime.encode.rows import Layout
from runtime.errors import JobError

NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


PLACE = pa.struct([("city", pa.string()), ("lat", pa.float32())])


def encode(columns: dict[str, pa.Array]) -> tuple[list[Any], list[Any]]:
    """The rows as JSON of their messages, and the refusals."""
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    layout = Layout(tuple(Column(name, Role.FIELD, name, "") for name in columns), hidden=())
    encoded, refusals = MessageEncoder(layout, batch.schema, FILES, "row.v1.Row").encode(batch)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(FILES).file:
        pool.Add(file)
    row = message_factory.GetMessageClass(pool.FindMessageTypeByName("row.v1.Row"))
    read = [None if value is None else json_format.MessageToDict(row.FromString(value)) for value in encoded]
    return read, refusals


@pytest.mark.parametrize(
    ("name", "values", "kind", "expected"),
    [
        ("count", [7], pa.int64(), {"count": 7}),
        ("big", [Decimal(2**64 - 1)], pa.decimal128(20, 0), {"big": str(2**64 - 1)}),
        ("share", [3], pa.int32(), {"share": 3.0}),
        ("share", [Decimal("1.50")], pa.decimal128(10, 2), {"share": 1.5}),
        ("open", [True], pa.bool_(), {"open": True}),
        ("name", ["x"], pa.string(), {"name": "x"}),
        ("raw", [b"\x01"], pa.binary(), {"raw": "AQ=="}),
        ("colour", ["RED"], pa.string(), {"colour": "RED"}),
        ("colour", [1], pa.int32(), {"colour": "RED"}),
        ("at", [NOON], pa.timestamp("us", "UTC"), {"at": "2026-01-01T12:00:00.250Z"}),
        ("took", [timedelta(seconds=2)], pa.duration("us"), {"took": "2s"}),
        ("maybe", [0], pa.int64(), {"maybe": "0"}),
        ("maybe", [None], pa.int64(), {}),
        ("name", [None], pa.string(), {}),
        ("place", [{"city": "A", "lat": None}], PLACE, {"place": {"city": "A"}}),
        ("place.city", ["A"], pa.string(), {"place": {"city": "A"}}),
        ("place.city", [None], pa.string(), {}),
        ("places", [[{"city": "A", "lat": 1.0}]], pa.list_(PLACE), {"places": [{"city": "A", "lat": 1.0}]}),
        ("tags", [["a", "b"]], pa.list_(pa.string()), {"tags": ["a", "b"]}),
        ("counts", [[("a", 1)]], pa.map_(pa.string(), pa.int32()), {"counts": {"a": "1"}}),
    ],
)
def test_a_column_fills_the_field_of_its_name(
    name: str, values: Sequence[Any], kind: pa.DataType, expected: dict[str, Any]
) -> None:
    assert encode({name: pa.array(values, kind)}) == ([expected], [])


def test_dotted_columns_build_one_nested_message() -> None:
    columns = {"place.city": pa.array(["A"]), "place.lat": pa.array([1.5]), "count": pa.array([1])}

    assert encode(columns) == ([{"place": {"city": "A", "lat": 1.5}, "count": 1}], [])


def test_a_value_that_does_not_fit_refuses_its_row_only() -> None:
    rows, refusals = encode({"count": pa.array([1, 2**31, 3])})

    assert rows == [{"count": 1}, None, {"count": 3}]
    assert [(refusal.row, refusal.reason) for refusal in refusals] == [(1, "SINK_REFUSED")]


def test_a_time_that_no_message_holds_refuses_its_row_only() -> None:
    far = pa.array([0, 2**60, None, 1], pa.int64()).cast(pa.timestamp("us", "UTC"))

    rows, refusals = encode({"at": far, "count": pa.array([1, 2, 3, 4])})

    assert [row and row["count"] for row in rows] == [1, None, 3, 4]
    assert [(refusal.row, refusal.reason) for refusal in refusals] == [(1, "SINK_REFUSED")]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"colour": pa.array(["BLUE"])}, "BLUE"),
        ({"tags": pa.array([["a", None]])}, "null"),
        ({"big": pa.array([-1])}, "-1"),
    ],
)
def test_a_refusal_says_what_is_wrong(columns: dict[str, pa.Array], problem: str) -> None:
    rows, (refusal,) = encode(columns)

    assert rows == [None]
    assert problem in refusal.detail


def test_every_column_that_does_not_fit_is_named_at_once() -> None:
    columns = {
        "cuont": pa.array([1]),
        "name": pa.array([1]),
        "count": pa.array(["1"]),
        "tags": pa.array(["a"]),
        "place.town": pa.array(["A"]),
        "name.first": pa.array(["A"]),
        "at": pa.array([1]),
        "share": pa.array([1.5]),
    }

    with pytest.raises(JobError) as refused:
        encode(columns)

    detail = refused.value.error.detail
    assert refused.value.error.reason == "SINK_MESSAGE_MISMATCH"
    assert [
        name for name in columns if f"column {name}: " not in detail and f"column {name} of" not in detail
    ] == ["share"]


def test_a_message_that_is_not_registered_is_named() -> None:
    with pytest.raises(JobError, match="is not registered"):
        MessageEncoder(Layout((), ()), pa.schema([]), FILES, "row.v1.Wor")


def test_a_worker_keeps_the_encoder_of_a_target_that_comes_again() -> None:
    layout = Layout((Column("count", Role.FIELD, "count", ""),), hidden=("__window_start",))
    schema = pa.schema([("count", pa.int64()), ("__window_start", pa.timestamp("us", "UTC"))])
    asked = layout, schema, FILES, "row.v1.Row"

    assert encoder(*pickle.loads(pickle.dumps(asked))) is encoder(*asked)
    assert encoder(layout, schema.remove(1), FILES, "row.v1.Row") is not encoder(*asked)


def test_whole_numbers_of_64_bits_are_read_back_as_numbers() -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(FILES).file:
        pool.Add(file)
    row = message_factory.GetMessageClass(pool.FindMessageTypeByName("row.v1.Row"))(
        count=1, big=2**64 - 1, name="7", maybe={"value": -(2**63)}, counts={"9": 2**53 + 1}
    )
    row.at.FromDatetime(NOON)
    row.places.add(city="x")
    columns = from_message(row)

    assert {name: columns[name] for name in ("count", "big", "name", "maybe", "counts", "at", "places")} == {
        "count": 1,
        "big": 2**64 - 1,
        "name": "7",
        "maybe": -(2**63),
        "counts": {"9": 2**53 + 1},
        "at": "2026-01-01T12:00:00.250Z",
        "places": [{"city": "x", "lat": 0.0}],
    }
