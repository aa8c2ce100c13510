"""A recounted query gives through a preview, from Kafka to rows, what its recount gives: as daggers are shown
to do in `test_conformance_numbers`, over the same records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import gateway_pb2, host_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.streams import source_session
from tests.conformance.conformance_numbers import BEYOND, SAMPLE, made, planned
from tests.conformance.conformance_previews import job, written
from tests.conformance.recounts import ALL

from daggerspec.limits import PREVIEW_ROWS
from daggerspec.row import Row, from_proto
from daggersql import Plan, Role
from runtime.encode.json_text import KEY, VALUE, join_members, texts
from runtime.encode.readback import from_columns, from_json
from runtime.preview.run import Preview

pytestmark = pytest.mark.integration
QUICK = sorted(name for name, _ in SAMPLE)[::6]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A host's."""
    with source_session() as started:
        yield started


def as_rows(plan: Plan, recounted: Sequence[Mapping[str, Any]]) -> list[Row]:
    """What a recount gives as rows of a preview."""
    columns = [
        (
            column.name,
            texts(
                pa.array([row[column.name] for row in recounted]), KEY if column.role is Role.TAG else VALUE
            ),
        )
        for column in plan.columns
    ]
    return [from_columns(from_json(text)) for text in join_members(columns)]


def canonical(rows: Sequence[Row]) -> list[str]:
    """Rows in one order, floats to nine digits: sums are added up in another order."""
    return sorted(
        repr((row.time, sorted(row.tags.items()), sorted((k, _rounded(v)) for k, v in row.fields.items())))
        for row in rows
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, Mapping):
        return sorted((key, _rounded(each)) for key, each in value.items())
    if isinstance(value, str | bool) or value is None:
        return value
    return float(f"{float(value):.9g}") + 0.0


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.long) for each in sorted(ALL)]
)
def test_a_preview_gives_what_a_recount_gives(
    name: str, session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    query = ALL[name]
    plan, streams = planned(query), made(query)
    prepared = job(query, written(streams, kafka), kafka, tmp_path)
    asked = host_pb2.PreviewJob(job=prepared, range=gateway_pb2.PreviewRange(last_records=100_000))
    steps: list[gateway_pb2.PreviewDaggerResponse] = []

    Preview(asked, session, steps.append, lambda: False).run()

    rows = [from_proto(row) for step in steps if not step.rows.partial for row in step.rows.rows]
    expected = as_rows(plan, list(query.recount(streams, BEYOND)))
    assert expected, "a recount of nothing shows nothing"
    if steps[-1].done.rows_left_out:  # more than a preview gives: those that it gives are right
        assert (len(rows), steps[-1].done.rows) == (PREVIEW_ROWS, len(expected))
        assert Counter(canonical(rows)) <= Counter(canonical(expected))
    else:
        assert canonical(rows) == canonical(expected)
