"""Records of any message type, made up from a seed: every field set now and then, keys that meet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from daggersql import Table
from runtime.decode.decoder import Decoder

# Few different values, so that groups and joins are of more than one record.
_TEXTS = ("a", "b", "c", "/v1/orders", "7", "", '{"k": [1, 2], "latency": 3}', "2024-02-29 10:00:00", "日本")
_WHOLE = (0, 1, 2, 3, 7, 200, 500)
_PARTS = (0.0, 0.5, 1.25, -6.17, 45.0, 106.8)
_DEPTH = 4


def made(
    table: Table, count: int, start: datetime, span: timedelta, seed: int, words: Sequence[str] = ()
) -> Iterator[Message]:
    """`count` records whose event times are spread evenly over `span` from `start`, in order.

    `words` are texts that come often: those that a query compares with.
    """
    chance = random.Random(seed)
    make = GetMessageClass(table.message)
    texts = (*_TEXTS, *words, *words)
    for number in range(count):
        record = make()
        _fill(record, chance, texts, _DEPTH)
        _set_time(record, table.time_field, start + span * (number / count))
        yield record


def decoded(
    table: Table, paths: Sequence[str], records: Sequence[Message], topic: str, first_offset: int
) -> pa.Table:
    """The records as the runtime's view of the stream has them: the columns of `paths`, rowtime, metadata."""
    found = Decoder(table.message, [path for path in paths if not path.startswith("__")], table.time_field)
    batch = found.decode([record.SerializeToString() for record in records])
    count = len(records)
    meta = {
        "rowtime": batch.rowtime,
        "__topic": pa.array([topic] * count, pa.string()),
        "__partition": pa.array([0] * count, pa.int32()),
        "__offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
        "__timestamp": batch.rowtime,
    }
    names = batch.columns.schema.names if found.schema.names else []
    return pa.table({**{name: batch.columns.column(name) for name in names}, **meta})


def _set_time(record: Message, path: str, moment: datetime) -> None:
    *above, last = path.split(".")
    for name in above:
        record = getattr(record, name)
    getattr(record, last).FromDatetime(moment)


def _fill(record: Message, chance: random.Random, texts: Sequence[str], depth: int) -> None:
    for field in record.DESCRIPTOR.fields:
        if field.containing_oneof is not None and chance.random() < 0.5:
            continue
        if field.is_repeated:
            _fill_many(record, field, chance, texts, depth)
        elif field.message_type is None:
            setattr(record, field.name, _scalar(field, chance, texts))
        elif depth and chance.random() < 0.9:
            _fill_message(getattr(record, field.name), field.message_type, chance, texts, depth - 1)


def _fill_many(
    record: Message, field: FieldDescriptor, chance: random.Random, texts: Sequence[str], depth: int
) -> None:
    values = getattr(record, field.name)
    below = field.message_type
    for _ in range(chance.randrange(4)):
        if below is None:
            values.append(_scalar(field, chance, texts))
        elif below.GetOptions().map_entry:
            key, value = below.fields_by_name["key"], below.fields_by_name["value"]
            entry = values[_scalar(key, chance, texts)] if value.message_type else None
            if entry is None:
                values[_scalar(key, chance, texts)] = _scalar(value, chance, texts)
            else:
                _fill_message(entry, value.message_type, chance, texts, depth - 1)
        elif depth:
            _fill_message(values.add(), below, chance, texts, depth - 1)


def _fill_message(
    record: Message, kind: Descriptor, chance: random.Random, texts: Sequence[str], depth: int
) -> None:
    if kind.full_name == "google.protobuf.Timestamp":
        record.seconds = 1_709_200_000 + chance.randrange(100_000)  # type: ignore[attr-defined]
        record.nanos = chance.randrange(1_000) * 1_000_000  # type: ignore[attr-defined]
    elif kind.full_name == "google.protobuf.Duration":
        record.seconds = chance.randrange(100)  # type: ignore[attr-defined]
    else:
        _fill(record, chance, texts, depth)


def _scalar(field: FieldDescriptor, chance: random.Random, texts: Sequence[str]) -> object:
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).number
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return chance.choice(_PARTS)
        case FieldDescriptor.CPPTYPE_STRING:
            text = chance.choice(texts)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    return chance.choice(_WHOLE)
