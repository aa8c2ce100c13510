"""Describes the columns of a stream for people and for an editor's completion. Pure.

Columns and types come from the check (`analyse.scope`, `ir.types`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from daggerspec.protobuf import map_entry, scalar
from daggersql.analyse.scope import stream_columns
from daggersql.ir import types
from daggersql.ir.types import Array, EnumText, MapOf, Message, Type
from daggersql.ir.walk import METADATA
from daggersql.plan import Table
from daggersql.syntax.cursor import quote_path

MOST: Final = 2_000
"""Default limit of a stream's columns; the deepest are left out, as schemas may be recursive and large."""
_BEHIND: Final = 2**30
"""Positions from here on are those of fields that no query can read, so that they sort behind all others."""


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """Column, or a field in one."""

    path: str
    """Name in a query: `customer.id`, `items[1].name`, `metadata['key'].value`."""
    type: str
    """SQL type in the words of docs/dialect.md: STRING, ARRAY<STRUCT>."""
    protobuf_type: str
    """int32, shop.v1.Customer, map<string, int32>; empty for what is no field of the message."""
    repeated: bool
    """True for a repeated field that is no map."""
    enum_values: tuple[tuple[str, int], ...]
    """Names and numbers, for an enum and for lists and maps of one."""
    example: str
    """An expression that reads one value."""
    field: str
    """Full name of the field of a message, shop.v1.Customer.id; empty for what is none."""
    unread: str = ""
    """Reason why it is no column and has no type; empty for a field that can be read."""


@dataclass(frozen=True, slots=True)
class _Node:
    path: str
    type: Type
    field: FieldDescriptor | None
    order: tuple[int, ...]
    """Positions in the messages on the way down to it."""
    unread: str = ""


def columns(table: Table, most: int = MOST) -> tuple[list[ColumnDescription], bool]:
    """Describe the columns of a stream, each before its fields, in the order of the schema.

    At most `most`; True: there are more.
    """
    fields = table.message.fields_by_name
    level = [
        _Node(
            quote_path(name), kind, None if name == "rowtime" or name in METADATA else fields[name], (number,)
        )
        for number, (name, kind) in enumerate(stream_columns(table).items())
    ]
    level += _unread(types.of_message(table.message), "", ())
    nodes: list[_Node] = []
    while level and len(nodes) < most:
        more = len(level) > most - len(nodes)
        nodes += level[: most - len(nodes)]
        if more:
            break
        level = [below for node in level for below in _below(node)]
    ordered = sorted(nodes, key=lambda node: node.order)
    return [_describe(node) for node in ordered], bool(level)


def _below(node: _Node) -> Iterator[_Node]:
    """Yield the fields of the message in a column: of a list's first element, and of one value of a map."""
    path, kind = node.path + _element(node.type), _inner(node.type)
    if isinstance(kind, Message):
        for number, (name, below) in enumerate(kind.fields().items()):
            field = kind.descriptor.fields_by_name[name]
            yield _Node(f"{path}.{quote_path(name)}", below, field, (*node.order, number))
        yield from _unread(kind, f"{path}.", node.order)


def _unread(message: Message, prefix: str, order: tuple[int, ...]) -> Iterator[_Node]:
    """Yield the fields of a message that no query can read."""
    fields = message.descriptor.fields_by_name
    for number, (name, reason) in enumerate(message.unread().items()):
        field, path = fields.get(name), f"{prefix}{name if name.startswith('[') else quote_path(name)}"
        yield _Node(path, types.UNKNOWN, field, (*order, _BEHIND + number), reason)


def _describe(node: _Node) -> ColumnDescription:
    field, kind = node.field, _inner(node.type)
    if node.unread:
        names = ("", "") if field is None else (_protobuf(field), str(field.full_name))
        repeated = field is not None and field.is_repeated and map_entry(field) is None
        return ColumnDescription(node.path, "", names[0], repeated, (), "", names[1], node.unread)
    values: tuple[tuple[str, int], ...] = ()
    if field is not None and isinstance(kind, EnumText):
        values = tuple((str(value.name), value.number) for value in _enum(field).values)
    return ColumnDescription(
        node.path,
        _sql(node.type),
        "" if field is None else _protobuf(field),
        isinstance(node.type, Array),
        values,
        _example(node, values),
        "" if field is None else str(field.full_name),
    )


def _example(node: _Node, values: tuple[tuple[str, int], ...]) -> str:
    """Write an example: a message's first field, a list's first element, a comparison of an enum."""
    below = next(_below(node), None)
    if below is not None:
        return _example(below, ())
    value = node.path + _element(node.type)
    return f"{value} = '{values[-1][0]}'" if values else value


def _inner(kind: Type) -> Type:
    match kind:
        case Array(element=inner) | MapOf(value=inner):
            return inner
    return kind


def _element(kind: Type) -> str:
    match kind:
        case Array():
            return "[1]"
        case MapOf(key=key):
            return {"string": "['key']", "boolean": "[TRUE]"}.get(key.spark, "[1]")
    return ""


def _sql(kind: Type) -> str:
    match kind:
        case Array(element=element):
            return f"ARRAY<{_sql(element)}>"
        case MapOf(key=key, value=value):
            return f"MAP<{_sql(key)}, {_sql(value)}>"
        case Message():
            return "STRUCT"
    return kind.spark.upper()


def _protobuf(field: FieldDescriptor) -> str:
    entry = map_entry(field)
    if entry is not None:
        return f"map<{_protobuf(entry.fields_by_name['key'])}, {_protobuf(entry.fields_by_name['value'])}>"
    named = field.message_type or field.enum_type
    if named is not None:
        return str(named.full_name)
    return scalar(field.type)


def _enum(field: FieldDescriptor) -> EnumDescriptor:
    entry = map_entry(field)
    enum = (entry.fields_by_name["value"] if entry else field).enum_type
    assert enum is not None, "its column is an enum's"
    return enum
