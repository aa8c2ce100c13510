"""Check that a newer schema reads what an older one wrote, on the wire and by name. Pure.

Records stay in their topics, and queries and sinks name fields. So a field keeps its number, name, type and
cardinality, an enum value its number and name; what is removed is reserved for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2 as dp

from api_gateway.validate.schemas import messages_of
from daggerspec.protobuf import scalar
from daggerspec.violation import Violation
from fleet import Fleet

_AT = "schema.files"


def breaks(schema: spec_pb2.Schema, fleet: Fleet) -> Iterator[Violation]:
    """Yield a violation for each change that breaks readers of the registered schema."""
    old_messages: dict[str, dp.DescriptorProto] = {}
    old_enums: dict[str, dp.EnumDescriptorProto] = {}
    entries = {name: fleet.messages[name] for name in schema.messages if name in fleet.messages}
    for sequence, registered in sorted({entry.sequence: entry.value for entry in entries.values()}.items()):
        messages = _messages(registered)
        old_messages |= {name: messages[name] for name in entries if entries[name].sequence == sequence}
        old_enums |= _enums(registered)
    for name, message in sorted(_messages(schema).items()):
        if name in old_messages:
            yield from _message(name, old_messages[name], message)
    for name, enum in sorted(_enums(schema).items()):
        if name in old_enums:
            yield from _enum(name, old_enums[name], enum)


def _message(name: str, old: dp.DescriptorProto, new: dp.DescriptorProto) -> Iterator[Violation]:
    was = {field.number: field for field in old.field}
    now = {field.number: field for field in new.field}
    reserved_now = _reserved_ranges(new)
    for number, field in sorted(was.items()):
        place = f"{name}.{field.name} (field {number})"
        if number not in now:
            if not any(number in span for span in reserved_now):
                yield _violation(place, f"is gone: reserve {number}, so that nobody uses it again", "REMOVED")
            continue
        yield from _field(place, field, now[number], old, new)
    for number, field in sorted(now.items()):
        place = f"{name}.{field.name} (field {number})"
        if number in was:
            continue
        if any(number in span for span in _reserved_ranges(old)):
            yield _violation(place, f"uses number {number}, which is reserved", "REUSED")
        elif field.label == dp.FieldDescriptorProto.LABEL_REQUIRED:
            yield _violation(place, "is new and required: older records lack it", "NEW_REQUIRED")
        if field.name in old.reserved_name or field.name in {field_.name for field_ in was.values()}:
            yield _violation(place, f"uses the name {field.name} of another field", "REUSED")
    for span in _reserved_ranges(old):
        if not _covered(span, reserved_now):
            yield _violation(name, f"no longer reserves {span.start} to {span.stop - 1}", "UNRESERVED")


def _field(
    place: str,
    was: dp.FieldDescriptorProto,
    now: dp.FieldDescriptorProto,
    old: dp.DescriptorProto,
    new: dp.DescriptorProto,
) -> Iterator[Violation]:
    if was.name != now.name:
        yield _violation(place, f"is now called {now.name}: queries name fields", "RENAMED")
    if (was.type, was.type_name) != (now.type, now.type_name):
        yield _violation(place, f"was {_kind(was)} and is now {_kind(now)}", "TYPE_CHANGED")
    repeated = dp.FieldDescriptorProto.LABEL_REPEATED
    if (was.label == repeated) != (now.label == repeated):
        yield _violation(place, "changed between single and repeated", "CARDINALITY_CHANGED")
    elif now.label == dp.FieldDescriptorProto.LABEL_REQUIRED != was.label:
        yield _violation(place, "is now required: older records may lack it", "NEW_REQUIRED")
    if _oneof(was, old) != _oneof(now, new):
        yield _violation(place, "moved into, out of or between oneofs", "ONEOF_CHANGED")


def _enum(name: str, old: dp.EnumDescriptorProto, new: dp.EnumDescriptorProto) -> Iterator[Violation]:
    now: dict[int, set[str]] = {}
    for value in new.value:
        now.setdefault(value.number, set()).add(value.name)
    reserved = [range(span.start, span.end + 1) for span in new.reserved_range]
    for value in old.value:
        place = f"{name}.{value.name} (value {value.number})"
        if value.number in now:
            if value.name not in now[value.number]:
                names = " and ".join(sorted(now[value.number]))
                yield _violation(place, f"is now called {names}: queries name values", "RENAMED")
        elif not any(value.number in span for span in reserved):
            yield _violation(
                place, f"is gone: reserve {value.number}, so that nobody uses it again", "REMOVED"
            )
    for number in sorted(now):
        if any(span.start <= number <= span.end for span in old.reserved_range):
            yield _violation(f"{name} (value {number})", f"uses number {number}, which is reserved", "REUSED")


def _violation(place: str, text: str, reason: str) -> Violation:
    return Violation(_AT, f"{place} {text}", reason)


def _reserved_ranges(message: dp.DescriptorProto) -> list[range]:
    return [range(span.start, span.end) for span in message.reserved_range]


def _covered(span: range, by: list[range]) -> bool:
    number = span.start
    while number < span.stop:
        number = max((other.stop for other in by if number in other), default=-1)
        if number < 0:
            return False
    return True


def _kind(field: dp.FieldDescriptorProto) -> str:
    return field.type_name.removeprefix(".") or scalar(field.type)


def _oneof(field: dp.FieldDescriptorProto, message: dp.DescriptorProto) -> str:
    """Return the name of a field's oneof; empty for a proto3 optional field, whose oneof is synthetic."""
    if field.proto3_optional or not field.HasField("oneof_index"):
        return ""
    return message.oneof_decl[field.oneof_index].name


def _messages(schema: spec_pb2.Schema) -> dict[str, dp.DescriptorProto]:
    return {name: declared for file in schema.files.file for name, declared in messages_of(file)}


def _enums(schema: spec_pb2.Schema) -> Mapping[str, dp.EnumDescriptorProto]:
    enums: dict[str, dp.EnumDescriptorProto] = {}
    for file in schema.files.file:
        prefix = f"{file.package}." if file.package else ""
        enums |= {f"{prefix}{enum.name}": enum for enum in file.enum_type}
        for name, message in messages_of(file):
            enums |= {f"{name}.{enum.name}": enum for enum in message.enum_type}
    return enums
