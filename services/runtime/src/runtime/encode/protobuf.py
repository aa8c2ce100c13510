"""Encode output rows as Protobuf messages: columns to fields by name, dotted names to nested messages.

A null leaves its field unset. Numbers of one kind fit each other (a BIGINT goes to any integer field, any
number to a double); a value that does not fit its field refuses that row, not the job. Mismatches of types
are an error before the first row, by the rule book (`daggerspec.fit`), which the gateway has applied, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from pyarrow import types

from daggerspec import fit
from daggerspec.protobuf import is_map
from runtime.encode.rows import Layout, Refusal
from runtime.errors import user
from runtime.recent import cache_in_use

_Setter = Callable[[Any, Any], None]
_FLOATS = {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}


class MessageEncoder:
    """Encodes the rows of one layout as messages of one type.

    Raises `JobError` (USER) that names every column without a field, or whose type does not fit its field.
    """

    def __init__(self, layout: Layout, schema: pa.Schema, descriptors: bytes, message: str) -> None:
        from pyspark.sql.pandas.types import from_arrow_type  # PySpark is 9 MiB: a replay may go without

        self._class = message_class(descriptors, message)
        self._layout = layout
        message_type = cast(Descriptor, self._class.DESCRIPTOR)
        kinds = [schema.field(index).type for index in range(len(layout.columns))]
        columns = [
            replace(column, type=from_arrow_type(kind).simpleString())
            for column, kind in zip(layout.columns, kinds, strict=True)
        ]
        if wrong := list(fit.mismatches("", columns, message_type)):
            raise user("SINK_MESSAGE_MISMATCH", " ".join(f"{violation.description}." for violation in wrong))
        self._setters = [
            _at_path(message_type, column.name, kind) for column, kind in zip(columns, kinds, strict=True)
        ]

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes | None], list[Refusal]]:
        """Encode one message for each row, None where it is refused, and the refusals."""
        columns = [_values(values) for _, values in self._layout.visible(batch)]
        encoded: list[bytes | None] = []
        refusals = []
        for row, values in enumerate(zip(*columns, strict=True)):
            try:
                encoded.append(self._message(values).SerializeToString(deterministic=True))
            except (ValueError, TypeError, KeyError, OverflowError) as problem:
                encoded.append(None)
                name = self._class.DESCRIPTOR.full_name
                refusals.append(Refusal(row, "SINK_REFUSED", f"The row does not fit in {name}: {problem}."))
        return encoded, refusals

    def _message(self, values: Sequence[Any]) -> Message:
        message = self._class()
        for setter, value in zip(self._setters, values, strict=True):
            if isinstance(value, Exception):
                raise value
            if value is not None:
                setter(message, value)
        return message


@cache_in_use
def encoder(layout: Layout, schema: pa.Schema, descriptors: bytes, message: str) -> MessageEncoder:
    """Build an encoder that the worker keeps between batches, so that columns are checked once."""
    return MessageEncoder(layout, schema, descriptors, message)


def _values(array: pa.Array) -> list[Any]:
    """Convert values to Python; one that has no form there (a time beyond 9999) becomes the exception."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError) as problem:
        if len(array) == 1:
            return [problem]
        half = len(array) // 2
        return _values(array.slice(0, half)) + _values(array.slice(half))


@cache_in_use
def message_class(descriptors: bytes, name: str) -> type[Message]:
    """Return the class of a message among these files. Raises `JobError` (USER) when none has it."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        raise user("UNKNOWN_MESSAGE", f"The sink's message {name!r} is not registered.") from None


def _at_path(descriptor: Descriptor, column: str, kind: pa.DataType) -> _Setter:
    """Return the setter of the field that a column's dotted name means."""
    *parents, leaf = column.split(".")
    for parent in parents:
        descriptor = cast(Descriptor, descriptor.fields_by_name[parent].message_type)
    setter = _field(descriptor, leaf, kind)

    def write(message: Any, value: Any) -> None:
        for parent in parents:
            message = getattr(message, parent)
        setter(message, value)

    return write if parents else setter


def _field(descriptor: Descriptor, name: str, kind: pa.DataType) -> _Setter:
    """Return the setter of one field, single, repeated or map."""
    field = descriptor.fields_by_name[name]
    if is_map(field):
        return _map(field, kind)
    if field.is_repeated:
        return _repeated_field(field, kind)
    fill = _filler(field, kind)
    if fill is not None:

        def fill_message(message: Any, value: Any) -> None:
            child = getattr(message, name)
            child.SetInParent()
            fill(child, value)

        return fill_message
    convert = _scalar(field, kind)
    return lambda message, value: setattr(message, name, convert(value))


def _repeated_field(field: FieldDescriptor, kind: pa.DataType) -> _Setter:
    fill = _filler(field, kind.value_type)
    name = field.name
    if fill is not None:

        def add_messages(message: Any, values: Any) -> None:
            for value in values:
                fill(getattr(message, name).add(), _not_null(value))

        return add_messages
    convert = _scalar(field, kind.value_type)
    return lambda message, values: getattr(message, name).extend([convert(_not_null(v)) for v in values])


def _map(field: FieldDescriptor, kind: pa.DataType) -> _Setter:
    entry = cast(Descriptor, field.message_type).fields_by_name
    key = _scalar(entry["key"], kind.key_type)
    fill = _filler(entry["value"], kind.item_type)
    name = field.name
    if fill is not None:

        def put_messages(message: Any, pairs: Any) -> None:
            for k, value in pairs:
                fill(getattr(message, name)[key(k)], _not_null(value))

        return put_messages
    convert = _scalar(entry["value"], kind.item_type)

    def put(message: Any, pairs: Any) -> None:
        getattr(message, name).update({key(k): convert(_not_null(value)) for k, value in pairs})

    return put


def _filler(field: FieldDescriptor, kind: pa.DataType) -> _Setter | None:
    """Return the filler of a message from a value of its column; None for a field that is no message."""
    message = field.message_type
    if message is None:
        return None
    if types.is_timestamp(kind):
        return lambda child, value: child.FromDatetime(value)
    if types.is_duration(kind):
        return lambda child, value: child.FromTimedelta(value)
    if not types.is_struct(kind):  # a wrapper
        convert = _scalar(message.fields_by_name["value"], kind)
        return lambda child, value: setattr(child, "value", convert(value))
    setters = {part.name: _field(message, part.name, part.type) for part in kind}

    def fill(child: Any, value: Any) -> None:
        for name, part in value.items():
            if part is not None:
                setters[name](child, part)

    return fill


def _scalar(field: FieldDescriptor, kind: pa.DataType) -> Callable[[Any], Any]:
    """Return the converter of a column's values to values of a scalar field, which they fit."""
    if field.enum_type is not None and types.is_string(kind):
        numbers = {value.name: value.number for value in field.enum_type.values}
        if field.enum_type.is_closed:
            return lambda value: numbers[value]
        # an open enum holds any number, and one without a name is read as its decimal text
        return lambda value: numbers[value] if value in numbers else int(value)
    if types.is_boolean(kind) or types.is_string(kind) or types.is_binary(kind):
        return lambda value: value
    return float if field.cpp_type in _FLOATS else int


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("an element of a list or map is null")
    return value
