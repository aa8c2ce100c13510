"""SQL types, and what a Protobuf field becomes: the table of docs/dialect.md.

The runtime decodes by the same table (`runtime.decode.columns`); a test in the runtime holds both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from daggerspec import protobuf


class Type:
    """The type of an expression."""

    @property
    def spark(self) -> str:
        """As Spark's `DataType.simpleString` writes it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """A type without parts. `note` tells apart types that are one to Spark."""

    name: str
    note: str = ""
    wrapped: bool = field(default=False, compare=False)
    """Whether it is what a wrapper holds, which may be named: `x.value` is `x`."""

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return self.name


@dataclass(frozen=True, slots=True)
class EnumText(Type):
    """A Protobuf enum: text, one of these names (or the decimal text of a number without a name)."""

    values: tuple[str, ...]

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return "string"


@dataclass(frozen=True, slots=True)
class Decimal(Type):
    """A decimal number of at most 38 digits, `scale` of them behind the point."""

    precision: int
    scale: int
    wrapped: bool = field(default=False, compare=False)

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """A repeated field."""

    element: Type

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return f"array<{self.element.spark}>"


@dataclass(frozen=True, slots=True)
class MapOf(Type):
    """A map field."""

    key: Type
    value: Type

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return f"map<{self.key.spark},{self.value.spark}>"


@dataclass(frozen=True, slots=True)
class Message(Type):
    """A nested message; `above` names the messages on the way down to it, itself included."""

    descriptor: Descriptor
    above: tuple[str, ...]

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return f"struct<{','.join(f'{name}:{inner.spark}' for name, inner in self.fields().items())}>"

    def unread(self) -> Mapping[str, str]:
        """Its fields that are no columns, each with the reason; extensions by full names in brackets."""
        bound = f"columns end {protobuf.RECURSION_LIMIT} below the first of them"
        reasons = {
            str(field_.name): f"{below.full_name} contains itself: {bound}"
            for field_ in self.descriptor.fields
            if of_field(field_, self.above) is None and (below := _below(field_)) is not None
        }
        pool = self.descriptor.file.pool
        return reasons | {
            f"[{extension.full_name}]": "extensions are no columns"
            for extension in pool.FindAllExtensions(self.descriptor)
        }

    def fields(self) -> Mapping[str, Type]:
        """Its fields, in the order of the schema, without those beyond the recursion limit."""
        fields = {}
        for field_ in self.descriptor.fields:
            kind = of_field(field_, self.above)
            if kind is not None:
                fields[str(field_.name)] = kind
        return fields


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """A row of named parts that is no Protobuf message."""

    parts: tuple[tuple[str, Type], ...]

    @property
    def spark(self) -> str:
        """As Spark writes it."""
        return f"struct<{','.join(f'{name}:{inner.spark}' for name, inner in self.parts)}>"

    def fields(self) -> Mapping[str, Type]:
        """Its parts by name, in order."""
        return dict(self.parts)


BOOLEAN, TINYINT, SMALLINT, INT, BIGINT = map(Scalar, ("boolean", "tinyint", "smallint", "int", "bigint"))
FLOAT, DOUBLE, STRING, BINARY, DATE = map(Scalar, ("float", "double", "string", "binary", "date"))
TIMESTAMP = Scalar("timestamp")
MESSAGE_TIME = Scalar("timestamp", "a google.protobuf.Timestamp: has .seconds and .nanos")
ROWTIME = Scalar("timestamp", "event time: what windows are made of")
WINDOW_TIME = Scalar("timestamp", "the last instant of a window: event time of the rows that it gives")
EVENT_TIMES = (ROWTIME, WINDOW_TIME)
DURATION = Scalar("interval day to second")
NULL = Scalar("void")
UNKNOWN = Scalar("unknown")
"""The type of what was already found to be wrong: fits everywhere, so that one mistake is said once."""
INTERVAL = Scalar("interval")
"""A constant span of time, as in INTERVAL '1' MINUTE."""
CONDITION = Scalar("condition")
"""What CondEq gives to Filters: no value, so nothing else takes it."""

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)

_SCALARS: dict[int, Type] = {
    FieldDescriptor.CPPTYPE_INT32: INT,
    FieldDescriptor.CPPTYPE_INT64: BIGINT,
    FieldDescriptor.CPPTYPE_UINT32: BIGINT,
    FieldDescriptor.CPPTYPE_UINT64: Decimal(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT: FLOAT,
    FieldDescriptor.CPPTYPE_BOOL: BOOLEAN,
}


def of_message(message: Descriptor) -> Message:
    """The type of a whole message."""
    return Message(message, (message.full_name,))


def of_field(field: FieldDescriptor, above: tuple[str, ...]) -> Type | None:
    """The type of a field, repetition included; None where recursion is cut."""
    entry = protobuf.map_entry(field)
    if entry is not None:
        key = of_field(entry.fields_by_name["key"], above)
        value = of_field(entry.fields_by_name["value"], above)
        return None if key is None or value is None else MapOf(key, value)
    single = _single(field, above)
    return Array(single) if field.is_repeated and single is not None else single


def _below(field: FieldDescriptor) -> Descriptor | None:
    """The message of a field, or of the values of a map."""
    entry = protobuf.map_entry(field)
    return field.message_type if entry is None else entry.fields_by_name["value"].message_type


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> Type | None:
    below = field.message_type
    if below is None:
        return _scalar(field)
    name = below.full_name
    if name == protobuf.TIMESTAMP:
        return MESSAGE_TIME
    if name == protobuf.DURATION:
        return DURATION
    if name in protobuf.WRAPPERS:
        inside = _scalar(below.fields_by_name["value"])
        return replace(inside, wrapped=True) if isinstance(inside, Scalar | Decimal) else inside
    if name in protobuf.JSON_LIKE:
        return STRING
    if above.count(name) > protobuf.RECURSION_LIMIT:
        return None
    return Message(below, (*above, name))


def _scalar(field: FieldDescriptor) -> Type:
    if field.enum_type is not None:
        return EnumText(tuple(str(value.name) for value in field.enum_type.values))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return BINARY
    return _SCALARS.get(field.cpp_type, STRING)


def held(kind: Type) -> Type | None:
    """What a wrapper of Protobuf holds; None for any other type."""
    return replace(kind, wrapped=False) if isinstance(kind, Scalar | Decimal) and kind.wrapped else None


def count_fields(kind: Type, most: int) -> int:
    """How many columns without parts a value of a type has, all messages in it looked into; no more than
    `most` are counted.
    """
    count, pending = 0, [kind]
    while pending and count < most:
        match pending.pop():
            case Array(element=inner):
                pending.append(inner)
            case MapOf(key=key, value=value):
                pending += (key, value)
            case Message() | Struct() as whole:
                pending += whole.fields().values()
            case _:
                count += 1
    return count


def cut_off(kind: Type) -> str | None:
    """The message type in it that contains itself and is not followed any deeper, if there is one."""
    match kind:
        case Array(element=inner) | MapOf(value=inner):
            return cut_off(inner)
        case Message(descriptor=message, above=above):
            for field in message.fields:
                below, nested = of_field(field, above), _below(field)
                if below is None and nested is not None:
                    return str(nested.full_name)
                if below is not None and (recursive := cut_off(below)) is not None:
                    return recursive
    return None
