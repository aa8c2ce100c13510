"""Read records by Protobuf's own parser, one by one: those that the decoder in bulk cannot read for sure.

The columns are those of the decoder in bulk, by the same table of types; a differential test holds both
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from runtime.decode.columns import ColumnKind, FieldColumn, TimePart, enum_text, message_of
from runtime.decode.json_text import renderer
from runtime.decode.pruning import field_name, prune_for_reference
from runtime.decode.scanning import BEYOND_RANGE, UNNAMED_ENUM, Marks
from runtime.decode.times import duration_us, instant_us, shown_nanos

_Read: TypeAlias = Callable[[Any], Any]
_TIME: Final = pa.timestamp("us", tz="UTC")


@dataclass(slots=True)
class ParsedRecords:
    """Columns, event times and marks of the records that are not broken, and the errors of the others.

    The columns, `rowtime` and `marks` have the same length; `broken` has the parser's message, by index.
    """

    columns: list[pa.Array]
    rowtime: pa.TimestampArray
    marks: Marks
    beyond: dict[int, tuple[int, int]]
    """Seconds and nanos of event times beyond the range, by index among the sound ones."""
    broken: dict[int, str]


@dataclass(slots=True)
class _Rows:
    columns: list[list[Any]]
    rowtime: list[int | None] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    beyond: dict[int, tuple[int, int]] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)


class ReferenceDecoder:
    """Parses records into columns, parts of times, and the event time."""

    def __init__(
        self,
        message: Descriptor,
        wire: tuple[FieldColumn, ...],
        columns: tuple[FieldColumn, ...],
        parts: tuple[TimePart, ...],
        time_field: str | None,
    ) -> None:
        """`wire`: all that is read of `message`, the event time and times of `parts` among it."""
        pruned = prune_for_reference(wire)
        self._class = GetMessageClass(pruned)
        self._pool = message.file.pool
        self._marks = 0
        self._types = [*(column.type for column in columns), *(part.type for part in parts)]
        self._reads = [
            *(self._column(column) for column in columns),
            *(self._part(part, message) for part in parts),
        ]
        self._time = None if time_field is None else _follow(message, time_field.split("."))

    def parse(self, values: Iterable[bytes]) -> ParsedRecords:
        """Parse values, each the bytes of one record. Never raises for any bytes."""
        rows = _Rows([[] for _ in self._reads])
        for index, value in enumerate(values):
            try:
                read = self._row(self._class.FromString(value))
            except (DecodeError, RecursionError, UnicodeDecodeError, ValueError) as problem:
                rows.broken[index] = str(problem) or type(problem).__name__
                continue
            self._event_time(read[0], rows)
            for column, item in zip(rows.columns, read[1], strict=True):
                column.append(item)
            rows.marks.append(self._marks)
        return ParsedRecords(
            [pa.array(items, kind) for items, kind in zip(rows.columns, self._types, strict=True)],
            pa.array(rows.rowtime, _TIME),
            np.array(rows.marks, np.uint8),
            rows.beyond,
            rows.broken,
        )

    def _row(self, message: Message) -> tuple[Message, list[Any]]:
        self._marks = 0
        return message, [read(message) for read in self._reads]

    def _event_time(self, message: Message, rows: _Rows) -> None:
        time = None if self._time is None else self._time(message)
        micros = None if time is None else instant_us(time.seconds, time.nanos)
        if time is not None and micros is None:
            self._marks |= BEYOND_RANGE
            rows.beyond[len(rows.rowtime)] = time.seconds, time.nanos
        rows.rowtime.append(micros)

    def _column(self, column: FieldColumn) -> _Read:
        """Return the reader of a column in its message."""
        name, single = field_name(column.field), self._single(column)
        if column.is_map:
            return self._map(column, name)
        if column.field.is_repeated:
            return lambda message: [single(item) for item in getattr(message, name)]
        if not column.field.has_presence:
            return lambda message: single(getattr(message, name))
        default = column.default
        return lambda message: single(getattr(message, name)) if message.HasField(name) else default

    def _map(self, column: FieldColumn, name: str) -> _Read:
        """Return the reader of a map, sorted by key, so that the same record always gives the same rows."""
        key, value = (self._single(child) for child in column.children)

        def read(message: Message) -> list[tuple[Any, Any]]:
            entries = getattr(message, name)
            return sorted(((key(raw), value(entries[raw])) for raw in entries), key=itemgetter(0))

        return read

    def _single(self, column: FieldColumn) -> _Read:
        """Return the converter of one value, repetition aside."""
        match column.kind:
            case ColumnKind.TIMESTAMP:
                return self._time_of(instant_us)
            case ColumnKind.DURATION:
                return self._time_of(duration_us)
            case ColumnKind.WRAPPER:
                return lambda message: message.value
            case ColumnKind.JSON:
                render = renderer(message_of(column.field).full_name, self._pool)
                return lambda message: render(message.SerializeToString())
            case ColumnKind.STRUCT:
                below = [(child.name, self._column(child)) for child in column.children]
                return lambda message: {name: read(message) for name, read in below}
        if column.field.enum_type is not None:
            return self._enum(column.field)
        if column.field.type == FieldDescriptor.TYPE_STRING:
            return _text
        return lambda value: value

    def _time_of(self, micros: Callable[[int, int], int | None]) -> _Read:
        def read(time: Any) -> int | None:
            value = micros(time.seconds, time.nanos)
            if value is None:
                self._marks |= BEYOND_RANGE
            return value

        return read

    def _enum(self, of: FieldDescriptor) -> _Read:
        assert of.enum_type is not None
        names = {value.number: enum_text(of, value.number) for value in of.enum_type.values}

        def read(number: int) -> str:
            name = names.get(number)
            if name is None:
                self._marks |= UNNAMED_ENUM
                return str(number)
            return name

        return read

    def _part(self, part: TimePart, message: Descriptor) -> _Read:
        time_of = _follow(message, part.time)
        is_time = duration_us if part.of_duration else instant_us

        def read(whole: Message) -> int | None:
            time = time_of(whole)
            if time is None:
                return None
            sent: int = time.seconds if part.is_seconds else time.nanos
            if is_time(time.seconds, time.nanos) is None:
                self._marks |= BEYOND_RANGE
                return sent
            return sent if part.is_seconds else shown_nanos(sent)

        return read


def _text(value: str | bytes) -> str:
    """Check a text: where the parser does not check it (proto2), it gives bytes for what is no UTF-8."""
    if isinstance(value, bytes):
        raise ValueError("a string is not UTF-8")  # noqa: TRY004 - not of a type, of a record
    return value


def _follow(message: Descriptor, path: Iterable[str]) -> Callable[[Any], Any]:
    """Return the reader of the message at a path; it gives None where one on the way is not set."""
    names = []
    for name in path:
        step = message.fields_by_name[name]
        names.append(field_name(step))
        message = message_of(step)

    def read(value: Any) -> Any:
        for name in names:
            if not value.HasField(name):
                return None
            value = getattr(value, name)
        return value

    return read
