"""Helpers of test_slice_parquet.py and of its neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import DEADLINE_S

ALL_SQL = "SELECT order_number, city_id FROM `data_stream`"


def files(folder: Path) -> spec_pb2.ResolvedSink:
    """A sink as a launch is told it."""
    resolved = spec_pb2.ResolvedSink(egress=spec_pb2.Egress(folders=[str(folder)]))
    resolved.sink.parquet.location, resolved.sink.parquet.table = str(folder), "trips"
    return resolved


def rows_of(table: Path) -> list[dict[str, Any]]:
    """The rows of all files of a table, each as often as it is there."""
    files = sorted(table.glob("dt=*/hr=*/*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def until(holds: Callable[[], bool], told: Callable[[], str]) -> None:
    """Wait until a folder has what is expected."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)  # polling a folder; bounded by the deadline
