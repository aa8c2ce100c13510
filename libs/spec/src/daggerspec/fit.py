"""Comparison of a query's columns with the message of a sink, by name, dotted names to nested messages.

The rules are those of the runtime's encoder: numbers of one kind fit each other, a name fits an enum, a
struct fits a message, Timestamp, Duration and the wrappers take their scalars. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from daggerspec.columns import Column
from daggerspec.nearest import hint, nearest
from daggerspec.protobuf import DURATION, INTEGER_FIELDS, REAL_FIELDS, TIMESTAMP, WRAPPERS, map_entry
from daggerspec.violation import Violation

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_REALS: Final = frozenset({"float", "double"})
_TIMES: Final = {"timestamp": TIMESTAMP, "interval day to second": DURATION}


@dataclass(frozen=True, slots=True)
class Type:
    """A Spark SQL type, as `DataType.simpleString` writes it, taken apart."""

    name: str
    """Without parameters: bigint, decimal, array, map, struct …"""
    scale: int = 0
    """Of a decimal."""
    parts: tuple[tuple[str, Type], ...] = ()
    """Fields of a struct by name; ("element", …) of an array; ("key", …), ("value", …) of a map."""
    precision: int = field(default=0, compare=False)
    """Of a decimal: its digits."""


def mismatches(path: str, columns: Sequence[Column], message: Descriptor) -> Iterator[Violation]:
    """Yield a violation for each column without a field in `message`, or of another type."""
    for column in columns:
        *parents, leaf = column.name.split(".")
        owner: Descriptor | None = message
        for parent in parents:
            field = owner.fields_by_name.get(parent) if owner else None
            owner = field.message_type if field and field.message_type and not field.is_repeated else None
        if owner is None:
            where = ".".join(parents)
            text = f"column {column.name}: {message.full_name} has no single nested message {where}"
            yield Violation(path, text, "UNKNOWN_FIELD")
            continue
        yield from _field(path, column.name, parse_type(column.type), owner, leaf)


def _field(path: str, column: str, kind: Type, owner: Descriptor, name: str) -> Iterator[Violation]:
    field = owner.fields_by_name.get(name)
    if field is None:
        suggestion = hint(nearest(name, owner.fields_by_name), "")
        text = f"column {column}: {owner.full_name} has no field {name}{suggestion}"
        yield Violation(path, text, "UNKNOWN_FIELD")
    elif (pair := map_entry(field)) is not None:
        parts, entry = dict(kind.parts), pair.fields_by_name
        if kind.name != "map":
            yield _mismatch(path, column, kind, field)
        else:
            yield from _value(path, column, parts["key"], entry["key"])
            yield from _value(path, column, parts["value"], entry["value"])
    elif field.is_repeated:
        if kind.name != "array":
            yield _mismatch(path, column, kind, field)
        else:
            yield from _value(path, column, kind.parts[0][1], field)
    else:
        yield from _value(path, column, kind, field)


def _value(path: str, column: str, kind: Type, field: FieldDescriptor) -> Iterator[Violation]:
    """Yield the mismatches of one value of a field, whatever the field's cardinality."""
    message = field.message_type
    if message is None:
        if not _scalar_fits(kind, field):
            yield _mismatch(path, column, kind, field)
    elif kind.name in _TIMES and message.full_name == _TIMES[kind.name]:
        return
    elif message.full_name in WRAPPERS:
        if not _scalar_fits(kind, message.fields_by_name["value"]):
            yield _mismatch(path, column, kind, field)
    elif kind.name != "struct":
        yield _mismatch(path, column, kind, field)
    else:
        for name, part in kind.parts:
            yield from _field(path, f"{column}.{name}", part, message, name)


def _scalar_fits(kind: Type, field: FieldDescriptor) -> bool:
    whole = kind.name in _INTEGERS or (kind.name == "decimal" and kind.scale == 0)
    if field.enum_type is not None:
        return kind.name == "string" or whole
    if field.cpp_type in INTEGER_FIELDS:
        return whole
    if field.cpp_type in REAL_FIELDS:
        return whole or kind.name in _REALS or kind.name == "decimal"
    return kind.name == {
        FieldDescriptor.TYPE_BOOL: "boolean",
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_BYTES: "binary",
    }.get(field.type)


def _mismatch(path: str, column: str, kind: Type, field: FieldDescriptor) -> Violation:
    return Violation(
        path, f"column {column} of type {kind.name} does not fit the field {field.full_name}", "TYPE_MISMATCH"
    )


def parse_type(text: str) -> Type:
    """Parse a Spark SQL type, for example array<struct<a:int,b:decimal(20,0)>>.

    Raises: ValueError for any other text.
    """
    kind, rest = _parse(text)
    if rest:
        raise ValueError(f"{text!r} is not a Spark SQL type: {rest!r} is left over")
    return kind


def _parse(text: str) -> tuple[Type, str]:
    end = min((position for position in map(text.find, "<(>,:") if position >= 0), default=len(text))
    name, rest = text[:end].strip().lower(), text[end:]
    if rest.startswith("("):
        inside, _, rest = rest[1:].partition(")")
        precision, _, scale = inside.partition(",")
        return Type(name, int(scale or 0), precision=int(precision)), rest
    if not rest.startswith("<"):
        return Type(name), rest
    rest = rest[1:]
    labels = iter({"array": ("element",), "map": ("key", "value")}.get(name, ()))
    parts = []
    while not rest.startswith(">"):
        label = next(labels, None)
        if label is None:
            label, _, rest = rest.partition(":")
        part, rest = _parse(rest)
        parts.append((label.strip(), part))
        rest = rest.removeprefix(",")
    return Type(name, parts=tuple(parts)), rest[1:]
