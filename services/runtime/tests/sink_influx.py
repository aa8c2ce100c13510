"""Helpers of test_sink_influx.py and of its neighbours."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
from services.runtime.tests.sink_contract import NOON

from daggersql import Column, Role
from runtime.encode.rows import Layout

LAYOUT = Layout(
    (
        Column("tag_city", Role.TAG, "tag_city", "string"),
        Column("n", Role.FIELD, "n", "bigint"),
        Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    ),
    hidden=(),
)


def rows(numbers: list[Any], kind: pa.DataType, city: str = "1") -> pa.RecordBatch:
    """One row a second, with these values of n."""
    times = [NOON + timedelta(seconds=at) for at in range(len(numbers))]
    columns = [
        pa.array([city] * len(numbers)),
        pa.array(numbers, kind),
        pa.array(times, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["tag_city", "n", "window_timestamp"])
