"""Differences between two specifications, field by field. Pure.

Both say every default (`daggerspec.defaults`): one that is said only once would look like a change.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from daggerspec.protobuf import is_map

SQL: Final = "sql"
"""The field that is compared by lines."""
Change: TypeAlias = gateway_pb2.SpecChange
"""A field that is another."""


def changes(before: spec_pb2.DaggerSpec, after: spec_pb2.DaggerSpec) -> list[Change]:
    """List the fields that differ, in the order of their numbers."""
    return list(_of_message("", before, after))


def unified_diff(before: str, after: str, *, old: str, new: str) -> list[str]:
    """Return the lines of a unified diff of two texts, called `old` and `new`; none if they are equal."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm=""))


def _of_message(path: str, before: Message, after: Message) -> Iterator[Change]:
    for field in cast(Descriptor, before.DESCRIPTOR).fields:
        inner = f"{path}.{field.name}" if path else field.name
        old, new = getattr(before, field.name), getattr(after, field.name)
        if is_map(field):
            yield from _of_map(inner, dict(old), dict(new))
        elif field.is_repeated:
            yield from _of_list(inner, list(old), list(new))
        elif field.has_presence and before.HasField(field.name) != after.HasField(field.name):
            yield _change(inner, *(_format_field(field, side) for side in (before, after)))
        elif isinstance(old, Message) and _is_ours(old):
            yield from _of_message(inner, old, new)
        elif old != new:
            yield _change(inner, _format_field(field, before), _format_field(field, after))


def _of_list(path: str, before: Sequence[Any], after: Sequence[Any]) -> Iterator[Change]:
    """Elements that are equal stand where they stood; of the others the first is compared with the first."""
    matcher = difflib.SequenceMatcher(None, [_text(line) for line in before], [_text(line) for line in after])
    for _, old, old_end, new, new_end in (opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"):
        both = min(old_end - old, new_end - new)
        for number in range(both):
            one, other, inner = before[old + number], after[new + number], f"{path}[{new + number}]"
            if isinstance(one, Message):
                yield from _of_message(inner, one, other)
            else:
                yield _change(inner, _text(one), _text(other))
        yield from (
            _change(f"{path}[{number}]", _text(before[number]), "") for number in range(old + both, old_end)
        )
        yield from (
            _change(f"{path}[{number}]", "", _text(after[number])) for number in range(new + both, new_end)
        )


def _of_map(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        old, new = (_text(side[key]) if key in side else "" for side in (before, after))
        if old != new:
            yield _change(f"{path}[{key}]", old, new)


def _change(path: str, before: str, after: str) -> Change:
    return Change(field=path, before=before, after=after)


def _is_ours(message: Message) -> bool:
    """Return whether the fields of a message are compared one by one: a duration is one value."""
    return message.DESCRIPTOR.file.package == spec_pb2.DESCRIPTOR.package


def _format_field(field: Any, message: Message) -> str:
    """Format the value of a field as text; empty if it is not set."""
    if field.has_presence and not message.HasField(field.name):
        return ""
    value = getattr(message, field.name)
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name) if value else ""
    if field.has_presence and field.message_type is None:
        return _text(value)
    return _text(value) if value or isinstance(value, Message) else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        value = json_format.MessageToDict(value, preserving_proto_field_name=True)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
