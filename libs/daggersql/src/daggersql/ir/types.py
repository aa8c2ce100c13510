"""SQL types, and the type of each kind of Protobuf field: the table of docs/dialect.md.

The runtime decodes by the same table (`runtime.decode.columns`); a test in the runtime holds both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from daggerspec import protobuf


class Type:
    """Type of an expression."""

    @property
    def spark(self) -> str:
        """Spark's name of the type, by `DataType.simpleString`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """Type without parts. `note` distinguishes types that are the same to Spark."""

    name: str
    note: str = ""
    wrapped: bool = field(default=False, compare=False)
    """True: the field is a wrapper such as Int32Value, whose value may be named: `x.value` is `x`."""

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return self.name


@dataclass(frozen=True, slots=True)
class EnumText(Type):
    """A Protobuf enum: text, one of these names (or the decimal text of a number without a name)."""

    values: tuple[str, ...]

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return "string"


@dataclass(frozen=True, slots=True)
class Decimal(Type):
    """A decimal number of at most 38 digits, `scale` of them behind the point."""

    precision: int
    scale: int
    wrapped: bool = field(default=False, compare=False)

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """A repeated field."""

    element: Type

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return f"array<{self.element.spark}>"


@dataclass(frozen=True, slots=True)
class MapOf(Type):
    """A map field."""

    key: Type
    value: Type

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return f"map<{self.key.spark},{self.value.spark}>"


@dataclass(frozen=True, slots=True)
class Message(Type):
    """A nested message; `above` names the messages on the way down to it, itself included."""

    descriptor: Descriptor
    above: tuple[str, ...]

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return f"struct<{','.join(f'{name}:{inner.spark}' for name, inner in self.fields().items())}>"

    def unread(self) -> Mapping[str, str]:
        """Map its fields that are no columns to the reasons; extensions by full names in brackets."""
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
        """Map its fields to types, in the order of the schema, without those beyond the recursion limit."""
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
        """Spark's name of the type."""
        return f"struct<{','.join(f'{name}:{inner.spark}' for name, inner in self.parts)}>"

    def fields(self) -> Mapping[str, Type]:
        """Map its parts to types, in order."""
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
"""Type of an expression with an error: it fits everywhere, so that one mistake is reported once."""
INTERVAL = Scalar("interval")
"""A constant span of time, as in INTERVAL '1' MINUTE."""
CONDITION = Scalar("condition")
"""Type of CondEq's result, which only Filters accepts: it is no value."""

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
    """Build the type of a whole message."""
    return Message(message, (message.full_name,))


def of_field(field: FieldDescriptor, above: tuple[str, ...]) -> Type | None:
    """Build the type of a field, repetition included; None where recursion is cut."""
    entry = protobuf.map_entry(field)
    if entry is not None:
        key = of_field(entry.fields_by_name["key"], above)
        value = of_field(entry.fields_by_name["value"], above)
        return None if key is None or value is None else MapOf(key, value)
    single = _single(field, above)
    return Array(single) if field.is_repeated and single is not None else single


def _below(field: FieldDescriptor) -> Descriptor | None:
    """Return the message type of a field, or of a map's values; None for scalars."""
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


def unwrap(kind: Type) -> Type | None:
    """Return the type of the value in a Protobuf wrapper; None for any other type."""
    return replace(kind, wrapped=False) if isinstance(kind, Scalar | Decimal) and kind.wrapped else None


def count_fields(kind: Type, most: int) -> int:
    """Count the columns without parts in a value of a type, nested messages included; stop at `most`."""
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
    """Find a recursive message type in it whose fields are cut at the recursion limit; None without one."""
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
