"""Build control rows: rows that are no data; they count a range's records, or move event time on without any.

They pass the watermark operator as data does, so one `observe` above it counts exactly, once for each
committed batch, and looks at little more than a NULL in each row of data. Event time moves by what they say
(`stream.end_batch`), never by a row that passes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from daggerspec import late
from runtime.source.records import Ints
from runtime.source.watermark import Lateness

ROWTIME = "rowtime"
STATISTICS = "__statistics"
TIME = pa.timestamp("us", tz="UTC")
# Event time of rows that have none.
_BEFORE_EVERYTHING_US = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_NUMBERS = ("rows", "late", "late_windows", "idle_advances", "newest", "observed", "late_newest", "ahead_ms")
_INVALID = "invalid_"
BAD_TIMES: Final = "timestamp"
"""Among invalid inputs: records with a Timestamp or Duration beyond its range, which is NULL."""
UNNAMED_ENUMS: Final = "enum"
"""Among invalid inputs: records with a number of an enum that has no name, which is its decimal text."""
DECODED: Final = (BAD_TIMES, UNNAMED_ENUMS)
"""Counts that every reader has, whatever it computes."""


class Reason(StrEnum):
    """Reason why a record was quarantined."""

    MALFORMED = "MALFORMED"
    FROM_THE_FUTURE = "FROM_THE_FUTURE"
    NO_EVENT_TIME = "NO_EVENT_TIME"
    EMPTY_VALUE = "EMPTY_VALUE"
    LATE_REFUSED = late.REFUSED


@dataclass(slots=True)
class RangeStatistics:
    """Statistics of a range. Event times are microseconds after the epoch."""

    rows: int = 0
    """Count of records that became rows, those `late` among them."""
    late: int = 0
    """Count of rows that came after a window of theirs was closed: Spark drops them there. 0 if Spark counts.
    """
    late_windows: int = 0
    """Sum over late rows of the windows that each is missing from."""
    late_newest: int | None = None
    """Greatest event time of those."""
    idle_advances: int = 0
    newest: int | None = None
    """Greatest event time of a record; None without one."""
    observed: int | None = None
    """Greatest event time of a record or an idle advance."""
    newest_record: str | None = None
    """Topic, partition and offset of the record whose event time is `newest`, for a person."""
    ahead_ms: int | None = None
    """Milliseconds that it is ahead of the earlier of its Kafka time and the time its batch was planned."""
    quarantined: Counter[Reason] = field(default_factory=Counter)
    partitions: dict[str, int] = field(default_factory=dict)
    """Greatest event time of each partition's records, by "topic/partition"."""
    invalid_inputs: Counter[str] = field(default_factory=Counter)
    """Counts of the values that functions computed where records are read could not use, by function; and of
    records with such values, under the names in `DECODED`."""

    def add(self, micros: Ints) -> int | None:
        """Count rows with these event times.

        Returns the index of the row that is now the newest of all; None when an earlier one still is.
        """
        if not len(micros):
            return None
        self.rows += len(micros)
        index = int(micros.argmax())
        if self.newest is not None and micros[index] <= self.newest:
            return None
        self.newest = self.observed = int(micros[index])
        return index

    def reach(self, partition: str, micros: Ints) -> None:
        """Remember how far event time is in a partition that has records with these event times."""
        if len(micros):
            newest = int(micros.max())
            self.partitions[partition] = max(newest, self.partitions.get(partition, newest))

    def add_late(self, times: pa.Array, lateness: Lateness, *, counted: bool) -> None:
        """Find the late ones among the rows that are passed on, by their event times (us); count them if
        `counted`.
        """
        first = lateness.first_on_time_us
        if not len(times) or pc.min(times).as_py() >= first:
            return
        micros = np.asarray(times)
        late = micros[micros < first]
        missed = np.sum(lateness.count_missed(late), axis=0)
        if not missed.any():
            return
        if counted:
            self.late += int(np.count_nonzero(missed))
            self.late_windows += int(missed.sum())
        newest = int(late[missed > 0].max())
        self.late_newest = newest if self.late_newest is None else max(newest, self.late_newest)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to report."""
        return not (self.rows or self.idle_advances or self.quarantined)


def invalid_inputs(function: str) -> str:
    """Name the field of the statistics that counts the values a function could not use."""
    return _INVALID + function


def function_of(name: str) -> str | None:
    """Return the function whose invalid inputs a field of the statistics counts; None for other fields."""
    return name.removeprefix(_INVALID) if name.startswith(_INVALID) else None


def with_statistics(columns: Sequence[pa.Field], computed: Sequence[str] = ()) -> pa.Schema:
    """Build the schema of rows with these columns, and of control rows, as Spark types it.

    `computed` are the functions whose invalid inputs are counted.
    """
    names = (*_NUMBERS, *Reason, *map(invalid_inputs, (*DECODED, *computed)))
    numbers = [pa.field(name, pa.int64()) for name in names]
    texts = [pa.field(name, pa.string()) for name in ("newest_record", "partitions")]
    statistics = pa.struct([*numbers, *texts])
    schema = pa.schema([*columns, pa.field(STATISTICS, statistics)])
    return to_arrow_schema(from_arrow_schema(schema), timezone="UTC")


def statistics_row(schema: pa.Schema, statistics: RangeStatistics) -> pa.RecordBatch:
    """Build one row with the statistics of a range."""
    values: dict[str, int | str | None] = {name: getattr(statistics, name) for name in _NUMBERS}
    values |= {reason: statistics.quarantined[reason] for reason in Reason}
    values |= {invalid_inputs(name): statistics.invalid_inputs[name] for name in DECODED}
    values |= {invalid_inputs(function): count for function, count in statistics.invalid_inputs.items()}
    values["newest_record"] = statistics.newest_record
    values["partitions"] = json.dumps(statistics.partitions) if statistics.partitions else None
    time = _BEFORE_EVERYTHING_US if statistics.observed is None else statistics.observed
    columns: Mapping[str, pa.Array] = {
        ROWTIME: pa.array([time]).cast(TIME),
        STATISTICS: pa.array([values], schema.field(STATISTICS).type),
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def idle_advance_row(schema: pa.Schema, time_ms: int) -> pa.RecordBatch:
    """Build one row that carries event time to `time_ms`, and nothing else."""
    return statistics_row(schema, RangeStatistics(idle_advances=1, observed=time_ms * 1000))
