"""What Protobuf's own parser reads of a record, by the table of types of docs/dialect.md.

It reads with the whole schema, not with what a decoder makes of it. On purpose only this differs: a number
that an enum does not know is a value (`lenient` declares enums as numbers), a text that is no UTF-8 breaks
its record in every syntax, and a required field may be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from daggerspec.protobuf import DURATION, JSON_LIKE, TIMESTAMP, WRAPPERS, is_map
from runtime.decode.columns import FieldColumn

_F = dp.FieldDescriptorProto
BROKEN: Final = "broken"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def lenient(files: dp.FileDescriptorSet) -> dp.FileDescriptorSet:
    """The same schema, whose enums are numbers."""
    copy = dp.FileDescriptorSet.FromString(files.SerializeToString())
    for file in copy.file:
        if not file.name.startswith("google/"):
            for message in file.message_type:
                _without_enums(message)
    return copy


def _without_enums(message: dp.DescriptorProto) -> None:
    for field in message.field:
        if field.type == _F.TYPE_ENUM:
            field.type = _F.TYPE_INT32
            field.ClearField("type_name")
            field.ClearField("default_value")
        if field.label == _F.LABEL_REQUIRED:
            field.label = _F.LABEL_OPTIONAL
    for nested in message.nested_type:
        _without_enums(nested)


def pool(files: dp.FileDescriptorSet) -> DescriptorPool:
    """A pool of these files."""
    made = DescriptorPool()
    for file in files.file:
        made.AddSerializedFile(file.SerializeToString())
    return made


class Oracle:
    """Reads records of a message into rows, with the columns of its schema."""

    def __init__(self, files: dp.FileDescriptorSet, message: str) -> None:
        self._class = GetMessageClass(pool(lenient(files)).FindMessageTypeByName(message))
        self.unnamed = self.no_time = False

    def row(self, value: bytes, columns: Iterable[FieldColumn]) -> dict[str, Any] | str:
        """The row of a record, or `BROKEN`; sets `unnamed` and `no_time`, of what is in it."""
        self.unnamed = self.no_time = False
        message = self._class()
        try:
            message.MergeFromString(value)
            return {column.name: self._of(message, column) for column in columns}
        except (DecodeError, UnicodeDecodeError):
            return BROKEN

    def _of(self, message: Any, column: FieldColumn) -> Any:
        field, value = column.field, getattr(message, column.name)
        if column.is_map:
            key, item = column.children
            entries = {self._one(at, key): self._one(value[at], item) for at in value}
            return dict(sorted(entries.items(), key=lambda entry: repr(entry[0])))
        if field.is_repeated:
            return [self._one(item, column) for item in value]
        if field.has_presence and not message.HasField(column.name):
            return self._declared(field)
        return self._one(value, column)

    def _declared(self, field: FieldDescriptor) -> Any:
        if field.message_type is not None or not field.has_default_value:
            return None
        return scalar(field.default_value, field)

    def _one(self, value: Any, column: FieldColumn) -> Any:
        below = column.field.message_type
        name = "" if below is None else below.full_name
        if name in (TIMESTAMP, DURATION):
            micros = instant(value) if name == TIMESTAMP else span(value)
            self.no_time |= micros is None
            return micros
        if name in WRAPPERS:
            return scalar(value.value, value.DESCRIPTOR.fields_by_name["value"])
        if name in JSON_LIKE:
            return json.dumps(as_json(value), sort_keys=True)
        if below is not None:
            return {child.name: self._of(value, child) for child in column.children}
        if column.field.enum_type is not None:
            self.unnamed |= value not in {one.number for one in column.field.enum_type.values}
        return scalar(value, column.field)


def scalar(value: Any, field: FieldDescriptor) -> Any:
    """A value of a field without a message."""
    if field.enum_type is not None:
        names = [one.name for one in field.enum_type.values if one.number == value]
        return names[0] if names else str(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return Decimal(value)
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, bytes):
        raise DecodeError("proto2 does not look whether a text is one")
    return comparable(value)


def comparable(value: Any) -> Any:
    """A value that equals itself, and no other: of a NaN, and of both zeros, their text."""
    return str(value) if isinstance(value, float) and (math.isnan(value) or value == 0) else value


def instant(time: Any) -> int | None:
    """Microseconds of a Timestamp; None for none."""
    try:
        time.ToJsonString()
    except ValueError:
        return None
    return int(time.ToNanoseconds() // 1000)


def span(time: Any) -> int | None:
    """Microseconds of a Duration; None for none."""
    try:
        time.ToJsonString()
    except ValueError:
        return None
    nanos = time.ToNanoseconds()
    return int(abs(nanos) // 1000 * (1 if nanos >= 0 else -1))


def as_json(value: Message) -> Any:
    """What a Struct, a Value or a ListValue stands for; numbers that JSON lacks as text."""
    described: Any = value.DESCRIPTOR
    read: Any = value
    match described.full_name:
        case "google.protobuf.Struct":
            return {key: as_json(one) for key, one in read.fields.items()}
        case "google.protobuf.ListValue":
            return [as_json(one) for one in read.values]
    match read.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "struct_value":
            return as_json(read.struct_value)
        case "list_value":
            return as_json(read.list_value)
        case "number_value":
            number = read.number_value
            return float(number) if math.isfinite(number) else str(number)
        case kind:
            return getattr(read, kind)


def shown(value: Any, column: FieldColumn, *, one: bool = False) -> Any:
    """A value of a decoded column, in the words of the oracle."""
    if value is None:
        return None
    if is_map(column.field) and not one:
        key, item = column.children
        entries = [(shown(at, key, one=True), shown(held, item, one=True)) for at, held in value]
        assert len({repr(at) for at, _ in entries}) == len(entries), "a key is there twice"
        return dict(sorted(entries, key=lambda entry: repr(entry[0])))
    if column.field.is_repeated and not one:
        return [shown(item, column, one=True) for item in value]
    below = column.field.message_type
    name = "" if below is None else below.full_name
    if name in JSON_LIKE:
        return json.dumps(_floats(json.loads(value)), sort_keys=True)
    if column.children:
        return {child.name: shown(value[child.name], child) for child in column.children}
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return comparable(value)


def _floats(read: Any) -> Any:
    match read:
        case bool() | None | str():
            return read
        case dict():
            return {key: _floats(value) for key, value in read.items()}
        case list():
            return [_floats(value) for value in read]
        case _:
            return float(read)
