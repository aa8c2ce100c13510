"""Rows that are no data: notes, which say what a range held, or that event time goes on without it.

They pass the watermark as data does, so one `observe` above it counts exactly, once for each committed batch,
and looks at little more than a NULL in each row of data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

ROWTIME = "rowtime"
TALLY = "__tally"
TIME = pa.timestamp("us", tz="UTC")
# Of rows that have no event time: moves no watermark, whatever the age of the data.
_BEFORE_EVERYTHING_US = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_NUMBERS = ("rows", "late", "ticks", "data", "reached", "late_newest", "ahead_ms")
_BAD = "bad_"


class Reason(StrEnum):
    """Why a record was set aside."""

    MALFORMED = "MALFORMED"
    FROM_THE_FUTURE = "FROM_THE_FUTURE"
    NO_EVENT_TIME = "NO_EVENT_TIME"
    EMPTY_VALUE = "EMPTY_VALUE"


@dataclass(slots=True)
class Tally:
    """What a range held. Event times are microseconds after the epoch."""

    rows: int = 0
    """Records that became rows, those `late` among them."""
    late: int = 0
    """Rows that came after their last window was closed: Spark drops them."""
    late_newest: int | None = None
    """The greatest event time of those."""
    ticks: int = 0
    data: int | None = None
    """The greatest event time of a record; None without one."""
    reached: int | None = None
    """The greatest event time of a record or a tick."""
    place: str | None = None
    """Where the record stands whose event time is `data`, for a person."""
    ahead_ms: int | None = None
    """How far that is ahead of the earlier of its Kafka time and the time its batch was planned."""
    aside: Counter[Reason] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    """Values that functions which are computed where records are read could not use, by function."""

    def add(self, micros: np.ndarray, late_before_ms: int | None) -> int | None:
        """Count rows with these event times, late before a time.

        Returns the index of the row that is now the newest of all; None when one from before is.
        """
        if not len(micros):
            return None
        self.rows += len(micros)
        if late_before_ms is not None and len(late := micros[micros < late_before_ms * 1000]):
            self.late += len(late)
            newest = int(late.max())
            self.late_newest = newest if self.late_newest is None else max(newest, self.late_newest)
        index = int(micros.argmax())
        if self.data is not None and micros[index] <= self.data:
            return None
        self.data = self.reached = int(micros[index])
        return index

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.rows or self.ticks or self.aside)


def bad(function: str) -> str:
    """Where a note counts the values that a function could not use."""
    return _BAD + function


def function_of(name: str) -> str | None:
    """Whose bad values a note counts under this name; None when it counts something else."""
    return name.removeprefix(_BAD) if name.startswith(_BAD) else None


def with_notes(columns: Sequence[pa.Field], computed: Sequence[str] = ()) -> pa.Schema:
    """The schema of rows with these columns, and of notes, to Spark's mind.

    `computed` are the functions whose bad values notes tell of.
    """
    names = (*_NUMBERS, *Reason, *map(bad, computed))
    numbers = [pa.field(name, pa.int64()) for name in names]
    tally = pa.struct([*numbers, pa.field("place", pa.string())])
    told = pa.schema([*columns, pa.field(TALLY, tally)])
    return to_arrow_schema(from_arrow_schema(told), timezone="UTC")


def note(schema: pa.Schema, tally: Tally) -> pa.RecordBatch:
    """One row that says what a range held."""
    told: dict[str, int | str | None] = {name: getattr(tally, name) for name in _NUMBERS}
    told |= {reason: tally.aside[reason] for reason in Reason}
    told |= {bad(function): count for function, count in tally.bad.items()}
    told["place"] = tally.place
    time = _BEFORE_EVERYTHING_US if tally.reached is None else tally.reached
    fixed: Mapping[str, pa.Array] = {
        ROWTIME: pa.array([time]).cast(TIME),
        TALLY: pa.array([told], schema.field(TALLY).type),
    }
    arrays = [fixed[field.name] if field.name in fixed else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def tick(schema: pa.Schema, time_ms: int) -> pa.RecordBatch:
    """One row that carries event time to `time_ms`, and nothing else."""
    return note(schema, Tally(ticks=1, reached=time_ms * 1000))
