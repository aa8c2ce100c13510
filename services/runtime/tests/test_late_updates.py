"""Windows that take late records, in Spark: which rows are written at which gate, over restarts and a batch
that dies when written. Records stand in files, and event time is where each step has it.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from services.runtime.tests.sessions import START, feed, moment, schema, spark_session
from tests.conformance.corpus import tables

from daggersql import Plan, check
from daggersql.plan import CLOSED, GATE
from runtime.source import watermark
from runtime.source.gates import choose_rows, with_gates
from runtime.source.stream import begin_batch
from runtime.spark import queries
from runtime.spark import session as spark

ALLOWED_S, STEPS, STEP_S, DIES_IN = 180, 8, 90, 4
MINUTE = "TUMBLE(rowtime, INTERVAL '60' SECOND)"
HOP = "HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND)"
Row = tuple[datetime, str]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session() as started:
        yield started


class UpdateRun:
    """One query on one checkpoint, started anew for each step."""

    def __init__(self, session: SparkSession, plan: Plan, folder: Path) -> None:
        assert plan.window is not None
        self.batches: dict[int, list[Any]] = {}
        """Rows of each batch, as they were written last."""
        self.dies = False
        """True if the next batch with rows ends the query."""
        self._session, self._folder = session, folder
        self._windows = watermark.windows(plan.window)
        self._advance_ms = 0
        [read] = plan.reads
        fields = [*schema(tables("bookings")[0], read.paths), StructField(CLOSED, LongType())]
        (folder / read.table).mkdir()
        files = session.readStream.schema(StructType(fields)).json(str(folder / read.table))
        rows = with_gates(files, self._windows, self._windows.gates).withWatermark(GATE, "100000000 days")
        rows.createOrReplaceTempView(f"`{read.table}`")
        self._rows = spark.rows(session, plan.spark_sql)

    def step(self, watermark_ms: int) -> None:
        """Read what is there, then close windows up to this event time."""
        self._advance_ms = watermark_ms
        query = (
            self._rows.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _take(self, rows: DataFrame, batch: int) -> None:
        running = begin_batch(self._session)
        chosen = choose_rows(
            rows,
            self._windows,
            late_until=running.late_until,
            closes_until=running.closes_until,
        )
        assert CLOSED not in chosen.columns
        self.batches[batch] = chosen.collect()
        if self.dies and self.batches[batch]:
            raise RuntimeError("killed in this batch")
        queries.advance_watermark(running.stream, self._advance_ms)


@pytest.mark.parametrize(("window", "size_s", "slide_s"), [(MINUTE, 60, 60), (HOP, 60, 20)])
def test_rows_end_as_a_recount_of_all_records_that_were_not_too_late(
    window: str, size_s: int, slide_s: int, session: SparkSession, tmp_path: Path
) -> None:
    sql = (
        "SELECT service_type AS tag_service, COUNT(*) AS n, COUNT(DISTINCT order_number) AS orders,"
        f" {window.replace('(', '_END(', 1)} AS window_timestamp FROM bookings"
        f" GROUP BY {window}, service_type"
    )
    plan = check(sql, tables("bookings"), allowed_lateness=timedelta(seconds=ALLOWED_S)).plan
    assert plan is not None
    run, chance, closed_s = UpdateRun(session, plan, tmp_path), random.Random(44), -(10**9)
    expected: dict[Row, set[str]] = defaultdict(set)
    too_late = 0
    for step in range(STEPS):
        newest = (step + 1) * STEP_S
        times = [chance.uniform(newest - STEP_S, newest) for _ in range(30)]
        times += [
            chance.uniform(newest - STEP_S - ALLOWED_S - 60, newest - STEP_S)
            for _ in range(15 if step else 0)
        ]
        records = []
        for number, time in enumerate(times):
            service, order = chance.choice("ab"), f"{step}-{number}"
            closed_ms = 0 if step == 0 else round((START.timestamp() + closed_s) * 1000)
            records.append({
                "rowtime": moment(time), "service_type": service, "order_number": order, CLOSED: closed_ms,
            })  # fmt: skip
            for start in range(int(time // slide_s) * slide_s, math.floor(time - size_s), -slide_s):
                if start + size_s <= time:
                    continue
                if start + size_s + ALLOWED_S <= closed_s:
                    too_late += 1
                else:
                    expected[START + timedelta(seconds=start + size_s), service].add(order)
        feed(tmp_path, "bookings", f"{step:02}", records)
        closed_s = newest - 5 if step < STEPS - 1 else 10_000
        until_ms = round((START.timestamp() + closed_s) * 1000)
        if step == DIES_IN:
            run.dies = True
            with pytest.raises(Exception, match="killed in this batch"):
                run.step(until_ms)
            died = max(run.batches)
            before, run.dies = sorted(run.batches[died]), False
            run.step(until_ms)
            assert sorted(run.batches[died]) == before, "a batch that is repeated repeats its rows"
        else:
            run.step(until_ms)

    assert too_late > 0, "a test without records that are too late shows nothing"
    written: dict[Row, list[int]] = defaultdict(list)
    for _, rows in sorted(run.batches.items()):
        for row in rows:
            assert row.n == row.orders
            written[row.window_timestamp.replace(tzinfo=UTC), row.tag_service].append(row.n)
    assert {row: counts[-1] for row, counts in written.items()} == {
        row: len(orders) for row, orders in expected.items()
    }
    for counts in written.values():
        assert len(counts) <= len(plan.window.gates if plan.window else ())
        assert all(one < other for one, other in pairwise(counts)), counts
    assert {len(counts) for counts in written.values()} == {1, 2, 3}
