"""What the quarantine keeps of a row that a sink refused: all of it, so that it can be written later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from daggers.v1 import telemetry_pb2

from runtime.encode import json_text, rows
from runtime.encode.rows import Refusal
from runtime.sinks import Target


def quarantined(
    target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
) -> Iterator[tuple[telemetry_pb2.Quarantined, str]]:
    """For each row that a sink refused its record, and its whole row key.

    The record has the visible columns as JSON, for people, and the whole row as an Arrow IPC stream.
    """
    layout, sink = target.layout, target.name
    refused = batch.take(pa.array([refusal.row for refusal in refusals], pa.int64()))
    shown = rows.readable(refused)
    texts = json_text.objects([(column.name, values) for column, values in layout.visible(shown)])
    keys = rows.keys(layout, shown)
    places: list[tuple[int, int]] = [(0, 0)] * len(refusals)
    if not layout.windowed:  # topic, partition, offset, …
        places = [
            (partition or 0, offset or 0)
            for partition, offset in zip(
                *(refused.column(name).to_pylist() for name in layout.key_columns[1:3]), strict=True
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
            row=stream(refused.slice(number, 1)),
        )
        yield record, key


def stream(row: pa.RecordBatch) -> bytes:
    """A row as an Arrow IPC stream, its schema with it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        # A slice shares the buffers of the batch; `take` copies what is its own.
        writer.write_batch(row.take(pa.array([0], pa.int64())))
    return bytes(sink.getvalue().to_pybytes())
