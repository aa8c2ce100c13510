"""Helpers of test_sink_parquet.py and of its neighbours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_cases.parquet import seen

from daggerspec.columns import Column, role_of
from runtime import sinks
from runtime.encode.rows import Layout
from runtime.errors import FencedError
from runtime.sinks import BatchRef, Outcome, Part, Target

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
WINDOWS = pa.schema(
    [("n", pa.int64()), ("window_timestamp", TIME), ("__window_start", TIME), ("__window_end", TIME)]
)
COUNT = Column("n", role_of("n"), "n", "bigint")
WINDOW_TIME = Column("window_timestamp", role_of("window_timestamp"), "window_timestamp", "timestamp")
COUNTS = Layout((COUNT, WINDOW_TIME), ("__window_start", "__window_end"))


@dataclass
class Table:
    """A table of one test: how it is written to and read."""

    resolved: spec_pb2.ResolvedSink
    layout: Layout = COUNTS
    schema: pa.Schema = WINDOWS

    @property
    def root(self) -> Path:
        asked = self.resolved.sink.parquet
        return Path(asked.location) / asked.table

    @property
    def target(self) -> Target:
        text = self.resolved.SerializeToString()
        return Target("d", text, self.layout, self.schema, b"", updates=False)

    def stage(self, rows: Sequence[dict[str, Any]], batch: BatchRef, number: int = 0) -> Outcome:
        """Write one partition, as a worker does; what its end says."""
        writer = sinks.open_writer(replace(self.target, part=Part(batch, number)))
        for row in rows:
            writer.write(pa.RecordBatch.from_pylist([row], schema=self.schema), batch.batch_id)
        return writer.finish()

    def write(self, *parts: Sequence[dict[str, Any]], batch: BatchRef) -> None:
        """Write a batch of several partitions and commit it, as a driver does."""
        ends = [self.stage(rows, batch, number) for number, rows in enumerate(parts)]
        sinks.commit(self.target, batch, [end.receipt for end in ends if end.receipt])

    def seen(self) -> Counter[int]:
        """What readers of folders see."""
        return Counter(int(str(row["n"])) for row in seen(self.resolved))

    def told(self) -> Counter[int]:
        """What readers of manifests see."""
        files = [
            self.root / file["path"]
            for manifest in self.root.glob("_daggers/commits/*/*/*.json")
            for file in json.loads(manifest.read_text())["files"]
        ]
        return Counter(n for file in files for n in pq.read_table(file)["n"].to_pylist())

    def waiting(self) -> list[str]:
        """What is staged, but for parts of small files, which are removed when they are old."""
        folder = self.root / "_daggers" / "staged"
        names = [path.name for path in folder.iterdir()] if folder.exists() else []
        return [name for name in names if not name.startswith(".")]


def window(n: int, minutes: int = 0) -> dict[str, Any]:
    end = NOON + timedelta(minutes=minutes)
    start = end - timedelta(minutes=1)
    return {"n": n, "window_timestamp": end, "__window_start": start, "__window_end": end}


def batch(number: int = 0, checkpoint: str = "c", generation: int = 1) -> BatchRef:
    return BatchRef(checkpoint, number, generation)


FIRST = ([window(1, 1), window(2, 90)], [window(3, 1)])
"""Two partitions, rows of two hours."""


class Dead(BaseException):
    """The process does nothing any more."""


EVERY: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "text": ("string", pa.string(), ["", "𝄞 עברית\n", "with \0"]),
    "whole": ("bigint", pa.int64(), [2**63 - 1, -(2**63), 0]),
    "small": ("tinyint", pa.int8(), [127, -128]),
    "double": ("double", pa.float64(), [0.1, 5e-324, float("inf"), float("-inf")]),
    "single": ("float", pa.float32(), [0.5, -1.5]),
    "yes": ("boolean", pa.bool_(), [True, False]),
    "unsigned": ("decimal(20,0)", pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
    "money": ("decimal(38,18)", pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678")]),
    "time": ("timestamp", TIME, [NOON, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]),
    "bytes": ("binary", pa.binary(), [b"", b"\x00\xff"]),
    "list": ("array<string>", pa.list_(pa.string()), [[], ["a", None]]),
    "map": ("map<string,bigint>", pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    "inside": ("struct<a:bigint>", pa.struct([("a", pa.int64())]), [{"a": 2**60}, {"a": None}]),
    "span": ("interval day to second", pa.duration("us"), [timedelta(seconds=1.5), timedelta(days=-2)]),
}


def check_the_first_manifest_counts(table: Table) -> None:
    """Assert that of two manifests of one batch the first one counts."""
    slow = [table.stage(rows, batch(), number) for number, rows in enumerate(FIRST)]
    ends = [table.stage(rows, batch(generation=2), number) for number, rows in enumerate(FIRST)]
    sinks.commit(table.target, batch(), [each.receipt for each in slow])
    sinks.commit(table.target, batch(generation=2), [end.receipt for end in ends])

    assert table.seen() == table.told() == Counter([1, 2, 3])
    assert table.waiting() == []


def check_the_launch_that_stood_still_is_fenced(table: Table) -> None:
    """Assert that a launch whose batch another one wrote meanwhile cannot commit it."""
    slow = [table.stage(rows, batch(), number) for number, rows in enumerate(FIRST)]
    table.write(*FIRST, batch=batch(generation=2))
    with pytest.raises(FencedError):
        sinks.commit(table.target, batch(), [each.receipt for each in slow])

    assert table.seen() == table.told() == Counter([1, 2, 3])
