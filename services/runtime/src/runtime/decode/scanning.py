"""Mark records that the decoder in bulk may read otherwise than Protobuf's own parser does.

ptars takes the last of two messages where Protobuf merges them, keeps two members of a oneof, both values of
a key, and knows no groups. `Scanner` (in C: it looks at every tag of every record) marks such records, and
those with a time beyond its range, so that only they are parsed again. `is_bulk` tells of the selected fields
of a message whether ptars can read it at all.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from ctypes import c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from chassis.logging import logger
from runtime import compiled
from runtime.decode.columns import ColumnKind, FieldColumn, message_of
from runtime.decode.pruning import real_oneof, unselected_members

SOURCE: Final = Path(__file__).with_name("wire_scanner.c")
Marks: TypeAlias = npt.NDArray[np.uint8]
"""Bits of each record: a sum of the following."""
IRREGULAR: Final = 1
"""The decoder in bulk may read it otherwise than Protobuf."""
UNNAMED_ENUM: Final = 2
"""An enum has a number that has no name."""
BEYOND_RANGE: Final = 4
"""A Timestamp or Duration is beyond its range."""
_MOST_NUMBERS: Final = 2**19
"""Largest sum of field numbers that ptars may make room for: it has a table as long as the greatest number of
each message, of 16 bytes a number."""

_VARINT, _FIXED64, _FIXED32, _BYTES, _MESSAGE, _TIMESTAMP, _DURATION, _MAP = range(8)
_REPEATED, _ENUM, _FLAG, _WORD = 1, 2, 4, 8
_F = FieldDescriptor
_ACTIONS: Final = {
    _F.TYPE_DOUBLE: _FIXED64, _F.TYPE_FIXED64: _FIXED64, _F.TYPE_SFIXED64: _FIXED64,
    _F.TYPE_FLOAT: _FIXED32, _F.TYPE_FIXED32: _FIXED32, _F.TYPE_SFIXED32: _FIXED32,
    _F.TYPE_STRING: _BYTES, _F.TYPE_BYTES: _BYTES, _F.TYPE_MESSAGE: _BYTES,
}  # fmt: skip
_FIXED_SIZE: Final = (_FIXED64, _FIXED32)
_WIRES: Final = (0, 1, 5, 2)
"""The wire type of each of the first actions."""
_DELIMITED: Final = 2
_SIMPLE: Final = {0: 1, 1: 2, 5: 3, _DELIMITED: 4}
"""Content behind a tag of which only its end is to be known, by its wire type; 0 is anything else."""
_A_MESSAGE: Final = 5
_FIELD: Final = np.dtype(
    [
        ("action", "u1"), ("flags", "u1"), ("unused", "u2"), ("child", "i4"), ("once", "i4"),
        ("oneof", "i4"), ("enum_first", "i4"), ("enum_count", "i4"),
    ]
)  # fmt: skip
_NODE: Final = np.dtype([(name, "i4") for name in ("places", "numbers", "once", "oneofs", "entry")])


def is_bulk(columns: tuple[FieldColumn, ...]) -> bool:
    """Tell whether ptars can read these fields.

    None of them, nor a member of a oneof with them, may be a group; no map may have keys of a fixed size (it
    loses their entries); and numbers of fields must fit its tables.
    """
    return _numbers(columns) <= _MOST_NUMBERS and not any(map(_is_foreign, _all(columns)))


def _numbers(columns: tuple[FieldColumn, ...]) -> int:
    own = max((column.field.number for column in columns), default=0)
    return own + sum(_numbers(column.children) for column in columns if column.children)


def _all(columns: tuple[FieldColumn, ...]) -> Iterable[FieldColumn | FieldDescriptor]:
    yield from columns
    yield from unselected_members(columns)
    for column in columns:
        yield from _all(column.children)


def _is_foreign(field: FieldColumn | FieldDescriptor) -> bool:
    if isinstance(field, FieldDescriptor):
        return field.type == FieldDescriptor.TYPE_GROUP
    if field.is_map:
        return _ACTIONS.get(field.children[0].field.type) in _FIXED_SIZE
    return field.field.type == FieldDescriptor.TYPE_GROUP


class Library:
    """Loads the C file's function."""

    def __init__(self, built: Path) -> None:
        """Raises: OSError for what cannot be loaded; AttributeError for one without the function."""
        self.scan = ctypes.CDLL(str(built)).wire_scan
        self.scan.argtypes = [*(c_void_p,) * 7, c_int64, c_void_p]
        self.scan.restype = c_int


@cache
def load() -> Library | None:
    """Load the library, once for each process; None where it was not built or does not load."""
    built = compiled.place(SOURCE)
    try:
        return Library(built) if built.is_file() else None
    except (OSError, AttributeError) as problem:
        logger().warning("decoder.library_skipped", library=built.name, why=str(problem))
        return None


class Scanner:
    """Marks records as `IRREGULAR` or `UNNAMED_ENUM`, by the selected fields of their message."""

    def __init__(self, library: Library, columns: tuple[FieldColumn, ...]) -> None:
        """Lay the table of the fields out for C. `columns` must be some that `is_bulk` accepts."""
        self._scan = library.scan
        table = _ScanTable()
        table.node(columns)
        self._nodes = np.array(table.nodes, _NODE)
        self._simple = np.array(table.simple, np.uint8)
        self._fields = np.array(table.fields, _FIELD)
        self._places = np.array(table.places, np.int32)
        self._enums = np.array(table.enums or [0], np.int32)

    def marks(self, records: pa.BinaryArray) -> Marks | None:
        """Return the marks of each record, none of them NULL; None where no record has any."""
        marks = np.empty(len(records), np.uint8)
        _, ends, data = records.buffers()
        if not len(records) or ends is None:
            return None
        any_marked = self._scan(
            self._nodes.ctypes.data,
            self._simple.ctypes.data,
            self._places.ctypes.data,
            self._fields.ctypes.data,
            self._enums.ctypes.data,
            ends.address + 4 * records.offset,
            None if data is None else data.address,
            len(records),
            marks.ctypes.data,
        )
        return marks if any_marked else None


class _ScanTable:
    """Table of the selected fields as the C file reads it: a node for each place of a message."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, ...]] = []
        self.simple: list[list[int]] = []
        self.fields: list[tuple[int, ...]] = []
        self.places: list[int] = []
        self.enums: list[int] = []
        self._enums: dict[str, tuple[int, int]] = {}

    def node(self, columns: tuple[FieldColumn, ...], entry: int = 0) -> int:
        """Add the node of these fields of a message; returns its number."""
        number = len(self.nodes)
        self.nodes.append(())
        self.simple.append([])
        once, oneofs, by_number = 0, dict[str, int](), dict[int, tuple[int, ...]]()
        for column in columns:
            row = self._field(column, once)
            once += column.field.message_type is not None and not column.field.is_repeated
            by_number[column.field.number] = (*row[:5], _oneof(column.field, oneofs), *row[5:])
        for field in unselected_members(columns):
            row = _ACTIONS.get(field.type, _VARINT), 0, 0, 0, -1, _oneof(field, oneofs), 0, 0
            by_number[field.number] = row
        first, numbers = len(self.places), max(by_number, default=-1) + 1
        self.places += [0] * numbers
        for field_number, row in by_number.items():
            self.fields.append(row)
            self.places[first + field_number] = len(self.fields)
        self.nodes[number] = (first, numbers, once, len(oneofs), entry)
        self.simple[number] = [_simple(tag, by_number, in_entry=entry > 0) for tag in range(128)]
        return number

    def _field(self, column: FieldColumn, once: int) -> tuple[int, ...]:
        """Return the row of a field, without its oneof."""
        field = column.field
        if column.is_map:
            value = column.children[1]
            entry = 1 if value.kind is ColumnKind.SCALAR else 2
            return _MAP, 0, 0, self.node(column.children, entry), -1, 0, 0
        if field.is_repeated:
            once = -1
        match column.kind:
            case ColumnKind.TIMESTAMP:
                return _TIMESTAMP, 0, 0, 0, once, 0, 0
            case ColumnKind.DURATION:
                return _DURATION, 0, 0, 0, once, 0, 0
            case ColumnKind.STRUCT:
                return _MESSAGE, 0, 0, self.node(column.children), once, 0, 0
            case ColumnKind.WRAPPER:
                return _MESSAGE, 0, 0, self._wrapper(message_of(field)), once, 0, 0
            case ColumnKind.JSON:
                return _BYTES, 0, 0, 0, once, 0, 0
        flags = _REPEATED if field.is_repeated else 0
        if field.type == FieldDescriptor.TYPE_BOOL:
            flags |= _FLAG
        elif field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32):
            flags |= _WORD
        enum = (0, 0) if field.enum_type is None else self._enum(field)
        if field.enum_type is not None:
            flags |= _ENUM
        return _ACTIONS.get(field.type, _VARINT), flags, 0, 0, -1, *enum

    def _wrapper(self, message: Descriptor) -> int:
        """Add the node of a wrapper: its one value; returns its number."""
        value = message.fields_by_name["value"]
        return self.node((FieldColumn(value, ColumnKind.SCALAR, (), pa.null()),))

    def _enum(self, field: FieldDescriptor) -> tuple[int, int]:
        enum = field.enum_type
        assert enum is not None
        if enum.full_name not in self._enums:
            numbers = sorted({value.number for value in enum.values})
            self._enums[enum.full_name] = len(self.enums), len(numbers)
            self.enums += numbers
        return self._enums[enum.full_name]


def _simple(tag: int, fields: Mapping[int, tuple[int, ...]], *, in_entry: bool) -> int:
    """Classify the content behind a tag of one byte if only its end is to be known (`_SIMPLE`), else 0.

    Of an entry of a map also keys that are equal where their bytes are, and messages.
    """
    number, wire = divmod(tag, 8)
    if number not in fields:
        return 0 if in_entry or not number else _SIMPLE.get(wire, 0)
    action, flags, _, _, once, oneof, _, _ = fields[number]
    if in_entry and action == _MESSAGE:
        return _A_MESSAGE if wire == _DELIMITED else 0
    checked = _ENUM | _FLAG | _WORD if in_entry else _ENUM
    if action > _BYTES or flags & checked or once >= 0 or oneof >= 0 or _WIRES[action] != wire:
        return 0
    return _SIMPLE[wire]


def _oneof(field: FieldDescriptor, oneofs: dict[str, int]) -> int:
    """Return the number of the oneof that a field is a member of; -1 where it is in none."""
    oneof = real_oneof(field)
    return -1 if oneof is None else oneofs.setdefault(oneof.name, len(oneofs))


def build() -> str:
    """Build the C file, unless it is there. Returns the reason where it fails, else ""."""
    return compiled.build(SOURCE, Library)


if __name__ == "__main__":
    reason = build()
    sys.stdout.write(f"{reason or compiled.place(SOURCE)}\n")
    sys.exit(1 if reason else 0)
