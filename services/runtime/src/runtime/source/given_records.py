"""Make the records of a reader from values that are given, as a topic would have had them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.source.given import GivenRecords
from runtime.source.records import Records
from runtime.source.tasks import OffsetRange


def read_given(given: GivenRecords, wanted: OffsetRange) -> Iterator[Records]:
    """Yield the records of a range, none if it is empty."""
    if wanted.end > wanted.start:
        yield make_records(given.values[wanted.start : wanted.end], given.now_ms, wanted.start)


def make_records(values: Sequence[bytes], now_ms: int, first: int = 0) -> Records:
    """Make records of values: of one instant, and with offsets from `first` on."""
    count = len(values)
    return Records(
        np.arange(first, first + count),
        np.full(count, now_ms, np.int64),
        pa.array(values, pa.binary()),
        pa.nulls(count, pa.binary()),
    )
