"""Mark rows by columns with the count of windows that each is too late for, where Spark counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daggersql.plan import CLOSED, LATE
from runtime.source.reader.control_rows import ROWTIME
from runtime.source.watermark import NEVER, Lateness

_TYPE = pa.int32()


@dataclass(frozen=True, slots=True)
class Marks:
    """One column for each of `count` kinds of windows: NULL for a row that is in time; and with
    `shows_closed` one with the time (ms) up to which windows are closed.
    """

    count: int = 0
    lateness: Lateness | None = None
    """Closed windows of the batch; None: no row is late."""
    shows_closed: bool = False

    @property
    def fields(self) -> list[pa.Field]:
        """Their columns."""
        marks = [pa.field(f"{LATE}{number}", _TYPE) for number in range(self.count)]
        return [*marks, *([pa.field(CLOSED, pa.int64())] if self.shows_closed else [])]

    def of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Compute the columns for rows whose event time, or that of their pane, is in `rowtime`."""
        if not self.shows_closed:
            return self._count_missed(rows)
        closed = NEVER if self.lateness is None else self.lateness.watermark
        return [*self._count_missed(rows), pa.repeat(pa.scalar(closed), len(rows))]

    def _count_missed(self, rows: pa.RecordBatch) -> list[pa.Array]:
        if not self.count:
            return []
        late, times = self.lateness, times_of(rows)
        if late is None or not len(rows) or pc.min(times).as_py() >= late.first_on_time_us:
            return [pa.nulls(len(rows), _TYPE) for _ in range(self.count)]
        return [pa.array(missed, _TYPE, mask=missed == 0) for missed in late.count_missed(np.asarray(times))]


NO_MARKS: Final = Marks()


def times_of(rows: pa.RecordBatch) -> pa.Int64Array:
    """Return the event times of rows, in us."""
    return rows.column(ROWTIME).cast(pa.int64())
