"""Fields of encoded messages, in both forms: what SelectFields, Filters and CondEq have in common.

The plain form is Protobuf's own Python. The fast form decodes all messages of a batch at once, pruned to the
one field, and gives each list as JSON, which the query reads back in the type it knows: a function has one
type for all queries, JSON text. Numbers that JSON has no form of are text there, as Spark reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from daggerspec.protobuf import DURATION, TIMESTAMP, WRAPPERS, is_map
from runtime.decode.columns import ColumnKind, FieldColumn, column_at, enum_text, message_of
from runtime.decode.decoder import Decoder, find_message, follow, message_pool
from runtime.decode.json_text import renderer
from runtime.decode.times import duration_us, instant_us
from runtime.encode import json_text
from runtime.errors import JobError, user
from runtime.recent import cache_in_use

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = (TIMESTAMP, DURATION)


# --- plain ---------------------------------------------------------------------------------------------


def decode_message(pool: DescriptorPool, message: str, data: bytes) -> Message:
    """Decode one message. Raises: DecodeError for bytes that are none, KeyError for an unknown type."""
    return GetMessageClass(pool.FindMessageTypeByName(message)).FromString(data)


def value_at(pool: DescriptorPool, message: str, data: bytes, path: str) -> Any:
    """Return the field at a dotted path of one encoded message, as SQL has it in Python.

    Defaults are read through messages that are not set; None is a field that knows it is not set. Raises:
    DecodeError for bytes that are no such message, KeyError for a message or path that is not there.
    """
    value: Any = decode_message(pool, message, data)
    column = column_at(value.DESCRIPTOR, path)
    if column is None:
        raise KeyError(path)
    for name in path.split(".")[:-1]:
        value = getattr(value, name)
    return _plain(column, value)


def _plain(column: FieldColumn, owner: Message) -> Any:
    """Return a column's value in the message that has it, as SQL has it in Python."""
    field, value = column.field, getattr(owner, column.name)
    if column.is_map:
        return {key: _single(column.children[1], value[key]) for key in value}
    if field.is_repeated:
        return [_single(column, item) for item in value]
    is_unset = field.has_presence and not owner.HasField(field.name)
    return column.default if is_unset else _single(column, value)


def _single(column: FieldColumn, value: Any) -> Any:
    match column.kind:
        case ColumnKind.TIMESTAMP:
            instant = instant_us(value.seconds, value.nanos)
            return None if instant is None else _EPOCH + timedelta(microseconds=instant)
        case ColumnKind.DURATION:
            span = duration_us(value.seconds, value.nanos)
            return None if span is None else timedelta(microseconds=span)
        case ColumnKind.WRAPPER:
            return value.value
        case ColumnKind.JSON:
            below = message_of(column.field)
            return renderer(below.full_name, below.file.pool)(value.SerializeToString())
        case ColumnKind.STRUCT:
            return {child.name: _plain(child, value) for child in column.children}
    return value if column.field.enum_type is None else enum_text(column.field, value)


def values_at(pool: DescriptorPool, message: str, items: Sequence[bytes | None], path: str) -> list[Any]:
    """Return the field of each message; None for None, and for bytes that are no such message."""
    values = []
    for item in items:
        try:
            values.append(None if item is None else value_at(pool, message, item, path))
        except DecodeError:
            values.append(None)
    return values


# --- fast ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Path:
    """Decoder of one field."""

    decoder: Decoder
    names: tuple[str, ...]
    """From the message down; none for whether it is one."""
    default: str
    """JSON of a field that is not set."""


def lists(
    files: bytes, items: pa.ListArray, messages: Sequence[str | None], paths: Sequence[str | None]
) -> tuple[list[str | None], int]:
    """Write the fields of each list as JSON, and count the values that could not be used. With an empty path,
    `true` for what is such a message.

    NULL for an unknown type or path.
    """
    answers: list[str | None] = [None] * len(items)
    invalid = 0
    wanted: dict[tuple[str, str], list[int]] = {}
    valid = items.is_valid().to_pylist()
    for row, (message, path) in enumerate(zip(messages, paths, strict=True)):
        if valid[row] and message is not None and path is not None:
            wanted.setdefault((message, path), []).append(row)
    for (message, path), rows in wanted.items():
        try:
            reader = _reader(files, message, path)
        except JobError:
            invalid += len(rows)
            continue
        part = items.take(pa.array(rows))
        texts, broken = _texts(reader, part.flatten().to_pylist())
        invalid += broken
        text = iter(texts)
        for row, length in zip(rows, pc.list_value_length(part).to_pylist(), strict=True):
            answers[row] = f"[{','.join(islice(text, length))}]"
    return answers, invalid


def _texts(reader: _Path, items: Sequence[bytes | None]) -> tuple[list[str], int]:
    """Write each message's field as JSON, `null` for None and for what cannot be decoded; count the last."""
    there = [row for row, item in enumerate(items) if item is not None]
    decoded = reader.decoder.decode([item for item in items if item is not None])
    sound = [row for number, row in enumerate(there) if number not in decoded.broken]
    column = follow(decoded.columns, reader.names) if reader.names else pa.repeat(True, len(sound))
    texts = ["null"] * len(items)
    for row, text in zip(sound, json_text.texts(column, json_text.SPARK), strict=True):
        texts[row] = reader.default if text == "null" else text
    return texts, len(decoded.broken)


@cache_in_use
def _reader(files: bytes, message: str, path: str) -> _Path:
    """Build the decoder of one field. Raises: JobError for a message or a path that is not there."""
    descriptor = find_message(_pool(files), message)
    if not path:
        return _Path(Decoder(descriptor, [str(field.name) for field in descriptor.fields], None), (), "null")
    names, default, within_time, is_wrapped = path.split("."), "null", False, False
    owner: Descriptor | None = descriptor
    for name in names:
        field = None if owner is None else owner.fields_by_name.get(name)
        if owner is None or field is None:
            raise user("UNKNOWN_FIELD", f"The message {message} has no field {path!r}.")
        within_time = within_time or (owner is not descriptor and owner.full_name in _TIMES)
        is_wrapped = owner is not descriptor and owner.full_name in WRAPPERS
        default, owner = _default(field), None if field.is_repeated else field.message_type
    if within_time:
        descriptor = find_message(_pool(files, plain_times=True), message)
    # As a column a wrapper is what it holds.
    return _Path(Decoder(descriptor, [path], None), tuple(names[:-1] if is_wrapped else names), default)


@cache_in_use
def _pool(files: bytes, *, plain_times: bool = False) -> DescriptorPool:
    """Build a pool of the message types. With `plain_times`, times and durations are messages like any other,
    whose nanos are all there: as columns they have microseconds.
    """
    file_set = FileDescriptorSet.FromString(files)
    if plain_times:
        for file in file_set.file:
            for message in file.message_type:
                _rename_times(message, file.package)
    return message_pool(file_set)


def _rename_times(message: DescriptorProto, package: str) -> None:
    """Rename messages of times, so that decoders take them for messages like any other."""
    if f"{package}.{message.name}" in _TIMES:
        message.name = f"Plain{message.name}"
    for field in message.field:
        owner, _, name = field.type_name[1:].rpartition(".")
        if f"{owner}.{name}" in _TIMES:
            field.type_name = f".{owner}.Plain{name}"
    for below in message.nested_type:
        _rename_times(below, "")


def _default(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "{}" if is_map(field) else "[]"
    declared = field.default_value if field.has_default_value else None
    if field.has_presence and declared is None:
        return "null"
    if declared is not None:
        value = declared if field.enum_type is None else enum_text(field, declared)
        return json_text.texts(pa.array([value]), json_text.SPARK)[0]
    if field.enum_type is not None:
        return f'"{field.enum_type.values[0].name}"'
    if isinstance(field.default_value, bool):
        return str(field.default_value).lower()
    return str(field.default_value) if isinstance(field.default_value, int | float) else '""'
