"""Columns that a query's field paths select from a message, and their types.

The one place where the dialect's type table (Protobuf type -> column type) is written down for Arrow; the
Spark type follows from the Arrow type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from daggerspec.protobuf import DURATION, JSON_LIKE, RECURSION_LIMIT, TIME_PART, TIMESTAMP, WRAPPERS, is_map
from runtime.errors import user

_TIME = pa.timestamp("us", tz="UTC")
_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


class ColumnKind(Enum):
    """Form of a single value: it decides how it becomes a column's value."""

    SCALAR = auto()
    TIMESTAMP = auto()
    DURATION = auto()
    WRAPPER = auto()
    JSON = auto()
    STRUCT = auto()


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """One selected field.

    `children` are the selected fields of a STRUCT; of a map, its key and its value. `type` is the Arrow type
    of the whole column, repetition included.
    """

    field: FieldDescriptor
    kind: ColumnKind
    children: tuple[FieldColumn, ...]
    type: pa.DataType

    @property
    def name(self) -> str:
        """Name of the column: the field's."""
        return str(self.field.name)

    @property
    def is_map(self) -> bool:
        """True if the field is a map<key, value>."""
        return is_map(self.field)

    @property
    def default(self) -> Any:
        """Declared default of an unset field, as the column has it; None where the schema declares none."""
        field = self.field
        if self.kind is not ColumnKind.SCALAR or field.is_repeated or not field.has_presence:
            return None
        if not field.has_default_value:
            return None
        return field.default_value if field.enum_type is None else enum_text(field, field.default_value)

    @property
    def has_defaults(self) -> bool:
        """True if it, or a field in it, has a declared default."""
        return self.default is not None or any(child.has_defaults for child in self.children)


@dataclass(frozen=True, slots=True)
class TimePart:
    """`seconds` or `nanos` of a single Timestamp or Duration: a column of its own, named by the whole path.

    It is the number that was sent, also where the time is none and its column is NULL.
    """

    path: str
    time: tuple[str, ...]
    """Names on the way to the Timestamp or Duration."""
    of_duration: bool

    @property
    def is_seconds(self) -> bool:
        """True for the seconds, False for the nanos."""
        return self.path.endswith(f"{TIME_PART}seconds")

    @property
    def type(self) -> pa.DataType:
        """Arrow type of its column."""
        return pa.int64() if self.is_seconds else pa.int32()


# What is selected below a message: for each field name, what is selected below that; None is everything.
_Selection: TypeAlias = "dict[str, _Selection | None]"


def select(message: Descriptor, paths: Iterable[str]) -> tuple[FieldColumn, ...]:
    """Select the columns that `paths` (dotted field paths of `message`) need, in the order of its fields.

    A path that goes on below a Timestamp, a wrapper, a JSON-like message or a map selects the whole of it.
    Raises `JobError` (USER) for a path the message does not have.
    """
    selection: _Selection = {}
    for path in paths:
        _add(selection, path.split("."))
    return _columns(message, selection, path="", above=(message.full_name,))


def time_part(message: Descriptor, path: str) -> TimePart | None:
    """Parse a path to a part of a time (behind `TIME_PART`); None for any other path.

    Raises `JobError` (USER) for a path the message does not have.
    """
    time, _, part = path.partition(TIME_PART)
    if not part:
        return None
    owner: Descriptor | None = message
    for name in time.split("."):
        field = None if owner is None else owner.fields_by_name.get(name)
        if field is None or field.is_repeated:
            raise user("UNKNOWN_FIELD", f"The message {message.full_name} has no single field {time!r}.")
        owner = field.message_type
    if owner is None or owner.full_name not in (TIMESTAMP, DURATION):
        raise user("UNKNOWN_FIELD", f"The field {time!r} of {message.full_name} is no time.")
    return TimePart(path, tuple(time.split(".")), owner.full_name == DURATION)


def enum_text(field: FieldDescriptor, number: int) -> str:
    """Return the first name of a number in a field's enum; its decimal text where it has none."""
    assert field.enum_type is not None
    value = field.enum_type.values_by_number.get(number)
    return str(number) if value is None else str(value.name)


def column_at(message: Descriptor, path: str) -> FieldColumn | None:
    """Return the column of the field at a path, wherever it leads, with all that is below.

    None where recursion is cut. Raises KeyError for a path the message does not have.
    """
    *parents, last = path.split(".")
    above: tuple[str, ...] = (message.full_name,)
    for name in parents:
        below = message.fields_by_name[name].message_type
        if below is None:
            raise KeyError(name)
        if above.count(below.full_name) > RECURSION_LIMIT:
            return None
        message, above = below, (*above, below.full_name)
    return _column(message.fields_by_name[last], None, "", above)


def message_of(field: FieldDescriptor) -> Descriptor:
    """Return the message type of a field that has one."""
    assert field.message_type is not None
    return field.message_type


def arrow_schema(columns: Iterable[FieldColumn]) -> pa.Schema:
    """Build the Arrow schema of these columns, every one of them nullable, exactly as Spark expects it."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def _add(selection: _Selection, names: list[str]) -> None:
    """Select the path `names`, unless something above it is selected as a whole."""
    head, *rest = names
    if not rest:
        selection[head] = None
    elif (below := selection.setdefault(head, {})) is not None:
        _add(below, rest)


def _columns(
    message: Descriptor, selection: _Selection | None, path: str, above: tuple[str, ...]
) -> tuple[FieldColumn, ...]:
    """Return the selected fields of `message`; `above` names the messages down to it, itself included."""
    fields: Mapping[str, FieldDescriptor] = message.fields_by_name
    for name in () if selection is None else selection:
        if name not in fields:
            raise user("UNKNOWN_FIELD", f"The message {message.full_name} has no field {path + name!r}.")
    chosen = fields if selection is None else selection
    columns = (
        _column(field, None if selection is None else selection[field.name], path, above)
        for field in message.fields
        if field.name in chosen
    )
    return tuple(column for column in columns if column is not None)


def _column(
    field: FieldDescriptor, selection: _Selection | None, path: str, above: tuple[str, ...]
) -> FieldColumn | None:
    """Return the column of `field`; None where recursion is cut."""
    kind = _kind(field)
    children: tuple[FieldColumn, ...] = ()
    if kind is ColumnKind.STRUCT:
        below = message_of(field)
        if above.count(below.full_name) > RECURSION_LIMIT:
            return None
        whole = selection is None or is_map(field)
        children = _columns(
            below, None if whole else selection, f"{path}{field.name}.", (*above, below.full_name)
        )
        if is_map(field) and len(children) < 2:
            return None
    return FieldColumn(field, kind, children, _type(field, kind, children))


def _kind(field: FieldDescriptor) -> ColumnKind:
    if field.message_type is None:
        return ColumnKind.SCALAR
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return ColumnKind.TIMESTAMP
    if name == DURATION:
        return ColumnKind.DURATION
    if name in WRAPPERS:
        return ColumnKind.WRAPPER
    return ColumnKind.JSON if name in JSON_LIKE else ColumnKind.STRUCT


def _type(field: FieldDescriptor, kind: ColumnKind, children: tuple[FieldColumn, ...]) -> pa.DataType:
    """Return the column's Arrow type, repetition included."""
    if is_map(field):
        key, value = children
        return pa.map_(key.type, value.type)
    match kind:
        case ColumnKind.SCALAR:
            single = _scalar(field)
        case ColumnKind.TIMESTAMP:
            single = _TIME
        case ColumnKind.DURATION:
            single = pa.duration("us")
        case ColumnKind.WRAPPER:
            single = _scalar(message_of(field).fields_by_name["value"])
        case ColumnKind.JSON:
            single = pa.string()
        case ColumnKind.STRUCT:
            single = pa.struct([pa.field(child.name, child.type) for child in children])
    return pa.list_(pa.field("element", single)) if field.is_repeated else single


def _scalar(field: FieldDescriptor) -> pa.DataType:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary()
    return _SCALARS.get(field.cpp_type, pa.string())
