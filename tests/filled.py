"""Messages filled by their descriptors: each field with a value of its own, so none passes for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

M = TypeVar("M", bound=Message)
Path = tuple[str, ...]
DEPTH = 8
"""How deep a message that contains itself is filled."""
TEXTS = {"decoded_prefix": '{"a": 1}', "decoded": '{"b": [2]}', "example": "[1.50]", "json": '{"c": 1.10}'}
TEXTS |= {"asked": '{"name": "x"}', "next_page_token": ""}
"""Fields whose text is read, and the token that would ask for a next page for ever."""
SECONDS = 1_767_225_600
LARGE = 2**53 + 1
"""What a double would round."""
_PACKAGE = "daggers.v1"
_WHOLE = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}


def filled(kind: type[M]) -> M:
    """Fill every field: of a oneof the last member, of a list two items, of lists in lists one."""
    message = kind()
    _fill(message, count(1), DEPTH)
    return message


def alone(kind: type[M], choice: Path, value: int = 0) -> M:
    """Fill the field at a path and nothing beside it; an enum field with `value`."""
    message: Any = kind()
    part = message
    for name in choice[:-1]:
        part = _inside(part, name)
    field = part.DESCRIPTOR.fields_by_name[choice[-1]]
    if field.enum_type and value and not field.is_repeated:
        setattr(part, field.name, value)
    else:
        _set(part, field, count(1), 1)
    return message


def choices(kind: Descriptor, before: Path = (), depth: int = 4) -> Iterator[tuple[Path, int]]:
    """Find each member of a oneof, and each value of an enum field, with its path."""
    for field in kind.fields:
        path = (*before, field.name)
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            yield path, 0
        if field.enum_type is not None and not field.is_repeated:
            yield from ((path, each.number) for each in field.enum_type.values if each.number)
        inner = field.message_type
        if inner is None or inner.GetOptions().map_entry or depth == 1 or inner.file.package != _PACKAGE:
            continue
        yield from choices(inner, path, depth - 1)


def _inside(message: Any, name: str) -> Any:
    field = message.DESCRIPTOR.fields_by_name[name]
    part = getattr(message, name)
    if field.is_repeated:
        return part.add()
    part.SetInParent()
    return part


def _fill(message: Any, numbers: Iterator[int], depth: int) -> None:
    if depth:
        for field in message.DESCRIPTOR.fields:
            _set(message, field, numbers, depth)


def _set(message: Any, field: FieldDescriptor, numbers: Iterator[int], depth: int) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _set_entry(getattr(message, field.name), inner, numbers, depth)
        return
    for _ in range(2 if field.is_repeated and depth == DEPTH else 1):
        if inner is not None:
            part = getattr(message, field.name)
            _set_message(part.add() if field.is_repeated else part, numbers, depth)
        elif field.is_repeated:
            getattr(message, field.name).append(_scalar(field, next(numbers)))
        else:
            setattr(message, field.name, _scalar(field, next(numbers)))


def _set_message(part: Any, numbers: Iterator[int], depth: int) -> None:
    part.SetInParent()
    if isinstance(part, Timestamp):
        part.FromMicroseconds((SECONDS + next(numbers)) * 1_000_000 + 500_000)
    elif isinstance(part, Duration):
        part.FromMilliseconds(next(numbers) * 1000 + 250)
    elif isinstance(part, AnyMessage):
        part.Pack(Timestamp(seconds=SECONDS))
    elif part.DESCRIPTOR.file.package == _PACKAGE:
        _fill(part, numbers, depth - 1)


def _set_entry(entries: Any, entry: Descriptor, numbers: Iterator[int], depth: int) -> None:
    """One entry: the order of two is nobody's promise."""
    key, inside = entry.fields_by_name["key"], entry.fields_by_name["value"]
    name = _scalar(key, next(numbers))
    if inside.message_type is None:
        entries[name] = _scalar(inside, next(numbers))
    else:
        _set_message(entries[name], numbers, depth)


def _scalar(field: FieldDescriptor, number: int) -> Any:
    kinds: dict[int, Callable[[], Any]] = {
        FieldDescriptor.CPPTYPE_BOOL: lambda: True,
        FieldDescriptor.CPPTYPE_DOUBLE: lambda: number + 0.25,
        FieldDescriptor.CPPTYPE_FLOAT: lambda: number + 0.1,
        FieldDescriptor.CPPTYPE_ENUM: lambda: _last(field.enum_type.values),
    }
    if field.type == FieldDescriptor.TYPE_BYTES:
        return f"{field.name} {number}".encode()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return TEXTS.get(field.name, f"{field.name} {number}")
    return kinds.get(field.cpp_type, lambda: number + (LARGE if field.cpp_type in _WHOLE else 0))()


def _last(values: Sequence[Any]) -> int:
    number: int = values[-1].number
    return number
