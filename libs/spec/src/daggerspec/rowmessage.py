"""Build the Protobuf message of a query's rows, from the query's columns. Pure.

The types are those that the runtime's encoder takes (`daggerspec.fit`): BIGINT is int64, DOUBLE double, a
timestamp google.protobuf.Timestamp, an array repeated, a map a map, a struct a message. A scalar has
presence, so that NULL is read as NULL again. A message that exists only grows: records of it are in topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from daggerspec.columns import Column
from daggerspec.fit import Type, parse_type
from daggerspec.protobuf import DURATION, TIMESTAMP

_SCALARS: Final = {
    "tinyint": FieldDescriptorProto.TYPE_INT32,
    "smallint": FieldDescriptorProto.TYPE_INT32,
    "int": FieldDescriptorProto.TYPE_INT32,
    "bigint": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "boolean": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "binary": FieldDescriptorProto.TYPE_BYTES,
}
_IMPORTED: Final = {"timestamp": TIMESTAMP, "interval day to second": DURATION}
_KEYS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "string"})
_DIGITS_OF_INT64: Final = 18
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NotExpressible(Exception):  # noqa: N818 - reads as what is wrong
    """Some columns fit no field; `problems` has a sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


def build_file(
    package: str, message: str, columns: Sequence[Column], before: FileDescriptorProto | None = None
) -> FileDescriptorProto:
    """Build the file of a message with a field for each column.

    before: the file as it is registered, whose fields and their numbers stay. Raises: NotExpressible.
    """
    file = FileDescriptorProto()
    if before is not None:
        file.CopyFrom(before)
    file.name, file.package, file.syntax = f"{package.replace('.', '/')}.proto", package, "proto3"
    row = next((one for one in file.message_type if one.name == message), None)
    if row is None:
        row = file.message_type.add(name=message)
    if problems := list(_add_fields(row, f".{package}.{message}", "", _parts(columns))):
        raise NotExpressible(problems)
    text = row.SerializeToString()
    for full_name in _IMPORTED.values():
        path = f"{full_name.replace('.', '/').lower()}.proto"
        if full_name.encode() in text and path not in file.dependency:
            file.dependency.append(path)
    return file


def _parts(columns: Sequence[Column]) -> Sequence[tuple[str, Type]]:
    """Return the fields of a row; what stands behind a dot in a column's name is a field of a message."""
    row = Type("struct")
    for column in columns:
        kind = parse_type(column.type)
        for name in reversed(column.name.split(".")):
            kind = Type("struct", parts=((name, kind),))
        row = _join(row, kind)
    return row.parts


def _join(one: Type, other: Type) -> Type:
    """Join the fields of two structs: those of `a.b` and `a.c` are in one `a`."""
    parts = dict(one.parts)
    for name, kind in other.parts:
        there = parts.get(name)
        parts[name] = _join(there, kind) if there is not None and there.name == "struct" else kind
    return Type("struct", parts=tuple(parts.items()))


def _add_fields(
    message: DescriptorProto, full_name: str, above: str, parts: Sequence[tuple[str, Type]]
) -> Iterator[str]:
    """Add a field for each part that has none yet; yield a sentence for each that cannot have one."""
    for name, kind in parts:
        path = f"{above}{name}"
        if not _NAME.fullmatch(name):
            yield f"No Protobuf field can be called as column {path} is: give it another name with AS."
            continue
        element = kind.parts[0][1] if kind.name == "array" else kind
        below = _camel(name) + ("Entry" if kind.name == "map" else "")
        field = _field_of(name, element, f"{full_name}.{below}")
        if field is None or (kind.name == "map" and dict(kind.parts)["key"].name not in _KEYS):
            yield (
                f"No Protobuf field takes column {path}, {kind.name.upper()} of such values: write a part of"
                " it, or CAST it to STRING."
                if kind.parts
                else f"No Protobuf field takes column {path} of type {kind.name.upper()}: CAST it to STRING."
            )
            continue
        is_repeated = kind.name in ("array", "map")
        field.label = FieldDescriptorProto.LABEL_REPEATED if is_repeated else field.LABEL_OPTIONAL
        there = next((one for one in message.field if one.name == name), None)
        if there is None:
            _append(message, field)
        elif (there.type, there.type_name, there.label) != (field.type, field.type_name, field.label):
            yield (
                f"Column {path} is {kind.name.upper()}, and its topic has records in which it is something"
                " else: give it another name with AS."
            )
            continue
        if element.name in ("struct", "map"):
            nested = next((one for one in message.nested_type if one.name == below), None)
            nested = nested or message.nested_type.add(name=below)
            if kind.name == "map":
                nested.options.map_entry = True
            yield from _add_fields(nested, f"{full_name}.{below}", f"{path}.", element.parts)


def _field_of(name: str, kind: Type, message: str) -> FieldDescriptorProto | None:
    """Return the field of one value; None where no field takes values of the kind.

    message: the full name that a message of the kind has.
    """
    if kind.name in ("struct", "map"):
        return FieldDescriptorProto(name=name, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=message)
    if kind.name in _IMPORTED:
        imported = f".{_IMPORTED[kind.name]}"
        return FieldDescriptorProto(name=name, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=imported)
    scalar = _decimal(kind) if kind.name == "decimal" else _SCALARS.get(kind.name)
    return None if scalar is None else FieldDescriptorProto(name=name, type=scalar)


def _decimal(kind: Type) -> FieldDescriptorProto.Type.ValueType:
    """Return the type of a decimal's field: what has more digits than int64 is a uint64, or a sum of them."""
    if kind.scale:
        return FieldDescriptorProto.TYPE_DOUBLE
    is_long = kind.precision > _DIGITS_OF_INT64
    return FieldDescriptorProto.TYPE_UINT64 if is_long else FieldDescriptorProto.TYPE_INT64


def _append(message: DescriptorProto, field: FieldDescriptorProto) -> None:
    """Append a field behind those that are there; a single scalar has presence."""
    field.number = max((one.number for one in message.field), default=0) + 1
    is_single = field.label == FieldDescriptorProto.LABEL_OPTIONAL
    if is_single and field.type != FieldDescriptorProto.TYPE_MESSAGE and not message.options.map_entry:
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
    message.field.append(field)


def _camel(name: str) -> str:
    """Return the name of a field's message, as protoc calls that of a map: ab_cd is AbCd."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
