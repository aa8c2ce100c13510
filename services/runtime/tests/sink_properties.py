"""Helpers of test_sink_properties.py and of its neighbours."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
from daggers.v1 import spec_pb2
from hypothesis import settings
from services.runtime.tests.sinkvalues import (
    Row,
    Types,
    cut,
)

from daggerspec.columns import Column, key_of, role_of
from runtime import sinks
from runtime.encode.rows import Layout, Refusal
from runtime.sinks import BatchRef, Part, Target

BATCH = BatchRef("c", 0, 1)
FEW = settings(max_examples=settings.default.max_examples // 6)
Refused = dict[int, Refusal]
_NUMBERS = count()


def target(resolved: spec_pb2.ResolvedSink, named: Types, hidden: Types) -> Target:
    """Of a dagger of its own."""
    columns = tuple(Column(name, role_of(name), key_of(name), kind.spark) for name, kind in named.items())
    schema = pa.schema([(name, kind.arrow) for name, kind in {**named, **hidden}.items()])
    layout = Layout(columns, tuple(hidden))
    text = resolved.SerializeToString()
    return Target(f"d{next(_NUMBERS)}", text, layout, schema, b"", updates=False, part=Part(BATCH, 0))


def written(aimed: Target, rows: list[Row], size: int) -> Refused:
    """Write a batch in parts of so many rows, and commit it; the refusals, by number of their row."""
    sinks.check(aimed)
    writer, refused = sinks.open_writer(aimed), Refused()
    for number, part in enumerate(cut(rows, size)):
        arrays = [pa.array([row[field.name] for row in part], field.type) for field in aimed.schema]
        outcome = writer.write(pa.RecordBatch.from_arrays(arrays, schema=aimed.schema), 0)
        refused |= {number * size + each.row: each for each in outcome.refused}
    end = writer.finish()
    sinks.commit(aimed, BATCH, [end.receipt] if end.receipt else [])
    return refused | {each.row: each for each in end.refused}
