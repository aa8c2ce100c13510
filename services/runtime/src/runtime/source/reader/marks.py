"""Mark rows by columns with the count of windows that each is too late for, where Spark counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daggersql.plan import LATE
from runtime.source.reader.control_rows import ROWTIME
from runtime.source.watermark import Lateness

_TYPE = pa.int32()


@dataclass(frozen=True, slots=True)
class Marks:
    """One column for each of `count` kinds of windows: NULL for a row that is in time."""

    count: int = 0
    lateness: Lateness | None = None
    """Closed windows of the batch; None: no row is late."""

    @property
    def fields(self) -> list[pa.Field]:
        """Their columns."""
        return [pa.field(f"{LATE}{number}", _TYPE) for number in range(self.count)]

    def of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Compute the columns for rows whose event time, or that of their pane, is in `rowtime`."""
        late = self.lateness
        if not self.count:
            return []
        times = times_of(rows)
        if late is None or not len(rows) or pc.min(times).as_py() >= late.first_on_time_us:
            return [pa.nulls(len(rows), _TYPE) for _ in range(self.count)]
        return [pa.array(missed, _TYPE, mask=missed == 0) for missed in late.count_missed(np.asarray(times))]


NO_MARKS: Final = Marks()


def times_of(rows: pa.RecordBatch) -> pa.Int64Array:
    """Return the event times of rows, in us."""
    return rows.column(ROWTIME).cast(pa.int64())
