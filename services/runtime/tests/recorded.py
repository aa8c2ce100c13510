"""Rows that are records as they were read: what the reader makes of a forwarding with `payload: record`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.columns import Column, Role
from runtime.encode.rows import Layout
from runtime.sinks import BatchRef, Part, Target
from runtime.source.records import HEADERS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LAYOUT = Layout(
    (
        Column("value", Role.FIELD, "value", "binary"),
        Column("key", Role.FIELD, "key", "binary"),
        Column("headers", Role.FIELD, "headers", "array<struct<key:string,value:binary>>"),
    ),
    hidden=("__rowtime", "__key_0", "__key_1", "__key_2"),
    has_records=True,
)
SCHEMA = pa.schema(
    [("value", pa.binary()), ("key", pa.binary()), ("headers", HEADERS),
     ("__rowtime", pa.timestamp("us", "UTC")),
     ("__key_0", pa.string()), ("__key_1", pa.int32()), ("__key_2", pa.int64())]
)  # fmt: skip


@dataclass(frozen=True)
class Record:
    """One record of the partition 0."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def batch(records: Sequence[Record], partition: int = 0) -> pa.RecordBatch:
    """Rows that are these records."""
    columns = zip(*(_row(record, partition) for record in records), strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _row(record: Record, partition: int) -> tuple[Any, ...]:
    time = NOON + timedelta(seconds=record.offset)
    return record.value, record.key, record.headers, time, "in", partition, record.offset


def numbered(count: int) -> list[Record]:
    """Records whose values are no messages, one for each offset."""
    return [Record(offset, b"\xff%d" % offset) for offset in range(count)]


def target(resolved: spec_pb2.ResolvedSink) -> Target:
    """A sink that gets such rows; no message is known."""
    part = Part(BatchRef("c", 0, 1), 0)
    return Target("d", resolved.SerializeToString(), LAYOUT, SCHEMA, b"", updates=False, part=part)
