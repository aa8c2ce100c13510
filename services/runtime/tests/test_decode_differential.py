"""Decoding in bulk gives what Protobuf's own parser gives, for any message of any field type."""

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from services.runtime.tests.decode_differential import EXAMPLES, filled
from services.runtime.tests.decode_differential import every_type as shared_every_type

from daggersql.ir import types
from runtime.decode.columns import ColumnKind, FieldColumn, arrow_schema, select
from runtime.decode.decoder import Decoder

every_type = shared_every_type  # a fixture

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATHS = [
    "a_string", "an_enum", "a_place", "a_place.lat", "a_place.seen.seconds", "places.tags", "by_uint32",
    "one_place.floor", "one_value", "legacy.size", "uint64s", "tree.children.name", "event_timestamp",
]  # fmt: skip


def expected_row(message: Message, columns: Iterable[FieldColumn]) -> dict[str, Any]:
    """The row Protobuf's parser gives, by the dialect's type table."""
    return {column.name: expected(message, column) for column in columns}


def expected(message: Message, column: FieldColumn) -> Any:
    field, value = column.field, getattr(message, column.name)
    if column.is_map:
        key, item = column.children
        return {expected_value(k, key): expected_value(value[k], item) for k in value}
    if field.is_repeated:
        return [expected_value(one, column) for one in value]
    if field.has_presence and not message.HasField(column.name):
        return number(field.default_value, field) if field.has_default_value else None
    return expected_value(value, column)


def expected_value(value: Any, column: FieldColumn) -> Any:
    match column.kind:
        case ColumnKind.TIMESTAMP:
            return value.seconds * 1_000_000 + value.nanos // 1000
        case ColumnKind.DURATION:
            return value.seconds * 1_000_000 + int(value.nanos / 1000)
        case ColumnKind.WRAPPER:
            return number(value.value, value.DESCRIPTOR.fields_by_name["value"])
        case ColumnKind.JSON:
            return json.dumps(as_json(value), sort_keys=True)
        case ColumnKind.STRUCT:
            return expected_row(value, column.children)
        case _:
            return number(value, column.field)


def number(value: Any, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return Decimal(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def as_json(value: Message) -> Any:
    match value.DESCRIPTOR.full_name:
        case "google.protobuf.Struct":
            return {key: as_json(one) for key, one in value.fields.items()}
        case "google.protobuf.ListValue":
            return [as_json(one) for one in value.values]
        case "google.protobuf.Any":
            return value.type_url
    match value.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "struct_value":
            return as_json(value.struct_value)
        case "list_value":
            return as_json(value.list_value)
        case "number_value":
            return value.number_value if math.isfinite(value.number_value) else str(value.number_value)
        case kind:
            return getattr(value, kind)


def decoded_value(value: Any, column: FieldColumn, *, one: bool = False) -> Any:
    """A value out of Arrow, in the terms of `expected`."""
    if value is None:
        return None
    if column.is_map and not one:
        key, item = column.children
        return {decoded_value(k, key, one=True): decoded_value(v, item, one=True) for k, v in value}
    if column.field.is_repeated and not one:
        return [decoded_value(item, column, one=True) for item in value]
    match column.kind:
        case ColumnKind.TIMESTAMP:
            return (value - EPOCH) // timedelta(microseconds=1)
        case ColumnKind.DURATION:
            return value // timedelta(microseconds=1)
        case ColumnKind.JSON:
            read = json.loads(value)
            any_type = read.get("@type") if isinstance(read, dict) else None
            return json.dumps(any_type or floats(read), sort_keys=True)
        case ColumnKind.STRUCT:
            return {child.name: decoded_value(value[child.name], child) for child in column.children}
        case _:
            return "NaN" if isinstance(value, float) and math.isnan(value) else value


def floats(read: Any) -> Any:
    """JSON with every number a float, as Struct has it."""
    match read:
        case bool() | None | str():
            return read
        case dict():
            return {key: floats(value) for key, value in read.items()}
        case list():
            return [floats(value) for value in read]
        case _:
            return float(read)


def rows_of(decoder: Decoder, values: list[bytes]) -> list[dict[str, Any]]:
    batch = decoder.decode(values).columns
    return [
        {column.name: decoded_value(row[column.name], column) for column in decoder.columns}
        for row in batch.to_pylist()
    ]


def test_columns_have_the_types_the_dialect_promises(every_type: Descriptor) -> None:
    promised = types.of_message(every_type).fields()

    schema = from_arrow_schema(arrow_schema(select(every_type, promised)))

    assert {field.name: field.dataType.simpleString() for field in schema} == {
        name: kind.spark for name, kind in promised.items()
    }


def test_columns_have_the_arrow_types_that_spark_has_for_them(every_type: Descriptor) -> None:
    schema = arrow_schema(select(every_type, [field.name for field in every_type.fields]))

    assert to_arrow_schema(from_arrow_schema(schema), timezone="UTC").equals(schema, check_metadata=True)


@EXAMPLES
@given(data=st.data())
def test_any_message_decodes_to_what_protobuf_reads(every_type: Descriptor, data: st.DataObject) -> None:
    paths = [field.name for field in every_type.fields]
    decoder = Decoder(every_type, paths, "event_timestamp")
    messages = [filled(data.draw, every_type) for _ in range(data.draw(st.integers(0, 3)))]

    values = [message.SerializeToString() for message in messages]
    parsed = [GetMessageClass(every_type).FromString(value) for value in values]

    assert rows_of(decoder, values) == [expected_row(message, decoder.columns) for message in parsed]


@EXAMPLES
@given(data=st.data())
def test_any_choice_of_paths_decodes_to_its_part_of_the_whole(
    every_type: Descriptor, data: st.DataObject
) -> None:
    paths = data.draw(st.lists(st.sampled_from(PATHS), unique=True))
    decoder = Decoder(every_type, paths, "a_place.seen")
    message = filled(data.draw, every_type)

    decoded = decoder.decode([message.SerializeToString()])
    seen = message.a_place.seen if message.a_place.HasField("seen") else None

    assert (rows_of(decoder, [message.SerializeToString()]), decoded.rowtime.is_valid().to_pylist()) == (
        [expected_row(message, decoder.columns)],
        [seen is not None],
    )


@EXAMPLES
@given(data=st.data())
def test_broken_records_are_found_and_all_others_decode(every_type: Descriptor, data: st.DataObject) -> None:
    decoder = Decoder(every_type, ["a_string", "a_place"], "event_timestamp")
    broken = st.sampled_from([b"\xff", b"\x0a\x05ab", b"\x72\x01\xff", b"\x8a\x01\x02\x09\x00"])
    sound = st.builds(lambda: filled(data.draw, every_type).SerializeToString())
    flagged = data.draw(
        st.lists(st.one_of(st.tuples(st.just(True), broken), st.tuples(st.just(False), sound)))
    )
    values = [value for _, value in flagged]

    decoded = decoder.decode(values)
    alone = decoder.decode([value for is_broken, value in flagged if not is_broken])

    assert (sorted(decoded.broken), text(decoded.columns), decoded.rowtime) == (
        [index for index, (is_broken, _) in enumerate(flagged) if is_broken],
        text(alone.columns),
        alone.rowtime,
    )


def text(batch: pa.RecordBatch) -> str:
    """The rows as text: a NaN equals itself."""
    return repr(batch.to_pylist())
