"""Build quarantine records of rows that a sink refused, complete, so that a replay can write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from daggers.v1 import telemetry_pb2

from runtime.encode import json_text, rows
from runtime.encode.rows import Refusal
from runtime.sinks import Target


def quarantine_records(
    target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
) -> Iterator[tuple[telemetry_pb2.Quarantined, str]]:
    """Yield the quarantine record of each refused row, and its full row key.

    The record has the visible columns as JSON, for people, and the whole row as an Arrow IPC stream.
    """
    layout, sink = target.layout, target.name
    refused_rows = batch.take(pa.array([refusal.row for refusal in refusals], pa.int64()))
    readable = rows.readable(refused_rows)
    texts = json_text.objects([(column.name, values) for column, values in layout.visible(readable)])
    keys = rows.keys(layout, readable)
    places: list[tuple[int, int]] = [(0, 0)] * len(refusals)
    if not layout.windowed:  # topic, partition, offset, …
        places = [
            (partition or 0, offset or 0)
            for partition, offset in zip(
                *(refused_rows.column(name).to_pylist() for name in layout.key_columns[1:3]), strict=True
            )
        ]
    for number, (refusal, text, key, (partition, offset)) in enumerate(
        zip(refusals, texts, keys, places, strict=True)
    ):
        record = telemetry_pb2.Quarantined(
            dagger=target.dagger,
            topic=sink,
            sink=sink,
            partition=partition,
            offset=offset,
            stage="sink",
            reason=refusal.reason,
            detail=refusal.detail,
            value=text.encode(),
            key=key.encode(),
            decoded_prefix=text,
            row=to_ipc_stream(refused_rows.slice(number, 1)),
        )
        yield record, key


def to_ipc_stream(row: pa.RecordBatch) -> bytes:
    """Serialise a batch of 1 row as an Arrow IPC stream, with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        # a slice shares the buffers of the whole batch; `take` copies only the row
        writer.write_batch(row.take(pa.array([0], pa.int64())))
    return bytes(sink.getvalue().to_pybytes())
