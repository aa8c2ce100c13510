"""The sink `parquet`: a file for each hour."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from daggers.v1 import spec_pb2

from sinkloops import NAMES, TIME, Trial


@contextmanager
def _serving() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="daggers-bench-") as folder:
        yield folder


def _sink(folder: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.ParquetSink(location=f"{folder}/ours", table="trips")
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(parquet=own))


def _send(folder: str, batch: pa.RecordBatch) -> None:
    rows = pa.Table.from_batches([batch.select(NAMES)])
    hours = pc.floor_temporal(rows[TIME], unit="hour")
    for hour in pc.unique(hours).to_pylist():
        path = Path(folder) / "theirs" / f"dt={hour:%Y-%m-%d}" / f"hr={hour:%H}"
        path.mkdir(parents=True, exist_ok=True)
        with (path / "rows.parquet").open("wb") as file:
            part = rows.filter(pc.equal(hours, hour))
            pq.write_table(part, file, compression="zstd", compression_level=1, row_group_size=len(part))
            file.flush()
            os.fsync(file.fileno())


TRIALS = {"parquet": Trial(_serving, _sink, _send, 5.0)}
