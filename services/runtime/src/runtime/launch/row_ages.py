"""Count how old rows are while a partition of them is written to a sink, in the worker. Pure.

The age of a row runs from the end of its window, of one that is written again with late records from the
gate at which it is, of a row of one record from its event time, to when the sink has acknowledged it. That is
known only in the end, so ages are counted as of when the partition began, and moved by what passed since.
Buckets grow by 5 %: what is kept does not grow with the rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from daggerspec.columns import RECORD_TIME, WINDOW_END
from daggersql.plan import GATE

# from 10 ms to twelve years
_BOUNDS_MS: Final = 10.0 * 1.05 ** np.arange(501)
_MIDDLES_MS: Final = np.concatenate(([5.0], np.sqrt(_BOUNDS_MS[:-1] * _BOUNDS_MS[1:]), _BOUNDS_MS[-1:]))
_MICROS: Final = 1_000_000


def bucket_of(age_ms: float) -> int:
    """Return the bucket of an age; an age below zero, by clocks that differ, is in the first."""
    return int(np.searchsorted(_BOUNDS_MS, age_ms, side="right"))


def age_of(bucket: int) -> float:
    """Return the age in ms that stands for a bucket."""
    return float(_MIDDLES_MS[bucket])


@dataclass(frozen=True, slots=True)
class PartAges:
    """Ages of the rows of a partition that one sink was given and has not refused."""

    began: float
    """Begin of the partition, in seconds since 1970: `counts` are as of then."""
    acknowledged: float | None
    """Time at which the sink had taken all of them, durable or staged; None while it has not."""
    counts: Mapping[int, int]
    """Rows by bucket."""

    def at(self, acknowledged: float) -> Counter[int]:
        """Return the rows by bucket of their ages at a time in seconds since 1970."""
        passed_ms = (acknowledged - self.began) * 1000
        moved = Counter[int]()
        for bucket, rows in self.counts.items():
            moved[bucket_of(age_of(bucket) + passed_ms)] += rows
        return moved

    @property
    def oldest(self) -> datetime | None:
        """The event time of the oldest row; None without rows."""
        if not self.counts:
            return None
        age = timedelta(milliseconds=age_of(max(self.counts)))
        return datetime.fromtimestamp(self.began, UTC) - age

    def encode(self) -> bytes:
        """Encode the ages for a report row."""
        form = {"began": self.began, "acknowledged": self.acknowledged, "counts": dict(self.counts)}
        return json.dumps(form).encode()

    @staticmethod
    def decode(content: bytes) -> PartAges:
        """Decode what `encode` made."""
        form = json.loads(content)
        counts = {int(bucket): rows for bucket, rows in form["counts"].items()}
        return PartAges(form["began"], form["acknowledged"], counts)


class RowAges:
    """Counts the rows of one partition as they are given to a sink, and takes off those that it refuses."""

    def __init__(self, began: float, *, updates: bool) -> None:
        """updates: rows come while their windows are open, and then have no age yet."""
        self._began = began
        self._updates = updates
        self._counts = Counter[int]()

    def add(self, rows: pa.RecordBatch) -> None:
        """Count rows."""
        self._counts.update(self._buckets(rows))

    def remove(self, rows: pa.RecordBatch, refused: Collection[int]) -> None:
        """Take off the rows at these indices."""
        if refused:
            self._counts.subtract(self._buckets(rows.take(pa.array(refused, pa.int64()))))

    def seal(self, acknowledged: float | None) -> PartAges:
        """Return the counts. acknowledged: when the sink had taken the rows; None where it has not."""
        return PartAges(self._began, acknowledged, dict(+self._counts))

    def _buckets(self, rows: pa.RecordBatch) -> Mapping[int, int]:
        names = (name for name in (GATE, WINDOW_END, RECORD_TIME) if name in rows.schema.names)
        if (name := next(names, None)) is None:
            return {}
        column = rows.column(name)
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).drop_null()
        ages_ms = (self._began * _MICROS - micros.to_numpy(zero_copy_only=False)) / 1000
        if self._updates:
            ages_ms = ages_ms[ages_ms >= 0]
        buckets, rows_in = np.unique(np.searchsorted(_BOUNDS_MS, ages_ms, side="right"), return_counts=True)
        return dict(zip(buckets.tolist(), rows_in.tolist(), strict=True))
