"""Records that come late by up to more than the allowed lateness, into queries whose rows are written again
with them: in the end each row is that of all records which were not too late, over a batch that died.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from pyspark.sql import SparkSession
from services.runtime.tests.streams import source_session
from tests.conformance import records
from tests.conformance.conformance_previews import job, written
from tests.conformance.corpus import tables
from tests.conformance.late import DELAY, START, LateRun
from tests.conformance.recounts.own import Query

from daggersql import Plan, Window, check
from runtime.source.metrics import Late
from runtime.spark import queries
from runtime.spark.session import another

pytestmark = [pytest.mark.integration, pytest.mark.long]

ALLOWED = timedelta(seconds=180)
SPAN = timedelta(seconds=100)
ROUNDS, DIES_IN = 7, 4
IN_TIME, LATE = 40, 16
MINUTE = "TUMBLE(rowtime, INTERVAL '60' SECOND)"
HOP = "HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND)"
CASES = {
    "added up by readers": (MINUTE, "MAX(fare) AS value", "", (False, True)),
    "each record": (HOP, "COUNT(DISTINCT fare) AS value", "", (False, False)),
    "counted in a stage": (HOP, "MAX(fare) AS value", "WHERE fare > 1", (True, True)),
}
"""Window, aggregate beside the count, filter, and whether there is a stage and readers add up."""
Row = tuple[datetime, str]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as started:
        yield started


class UpdatesRecount:
    """The answer over all records that were not too late, and how many were too late for how many windows."""

    def __init__(self, plan: Plan, *, is_filtered: bool) -> None:
        assert plan.window is not None
        self._window: Window = plan.window
        self._filtered = is_filtered
        self._fares: dict[Row, list[float]] = defaultdict(list)
        self.late = Late()

    def add(self, some: Sequence[Message], closed: datetime | None) -> None:
        """Count records that come when windows are closed up to this event time."""
        for record in some:
            value: Any = record
            if self._filtered and not value.fare > 1:
                continue
            time = value.event_timestamp.ToDatetime(tzinfo=UTC)
            service = value.DESCRIPTOR.fields_by_name["service_type"].enum_type.values_by_number[
                value.service_type
            ]
            begin = datetime.fromtimestamp(0, UTC)
            begin += (time - begin) // self._window.slide * self._window.slide
            missed = 0
            while begin + self._window.size > time:
                end = begin + self._window.size
                if closed is not None and end + ALLOWED <= closed:
                    missed += 1
                else:
                    self._fares[end, service.name].append(value.fare)
                begin -= self._window.slide
            self.late += Late(missed > 0, missed)

    def rows(self, *, distinct: bool) -> dict[Row, tuple[int, float]]:
        """Count, and greatest or number of different fares, by end of window and service."""
        return {
            row: (len(fares), len(set(fares)) if distinct else max(fares))
            for row, fares in self._fares.items()
        }


@pytest.mark.parametrize("name", CASES)
def test_rows_end_as_a_recount_of_all_records_that_were_not_too_late(
    name: str, session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    window, value, where, form = CASES[name]
    sql = (
        f"SELECT service_type AS tag_service, COUNT(*) AS n, {value}, {window.replace('(', '_END(', 1)} AS"
        f" window_timestamp FROM bookings {where} GROUP BY {window}, service_type"
    )
    query = Query(sql, ("bookings",), lambda *_: [])
    [table] = tables("bookings")
    plan = check(query.sql, [table], allowed_lateness=ALLOWED).plan
    assert plan is not None
    assert (plan.staged is not None, plan.partial_aggregation is not None) == form
    spec = job(query, written({"bookings": ()}, kafka), kafka, tmp_path)
    spec.platform.bootstrap_servers = kafka
    spec.streams[0].input.idle_timeout.FromSeconds(0)
    spec.spec.late.update.FromTimedelta(ALLOWED)
    recount, closed = UpdatesRecount(plan, is_filtered=bool(where)), None
    run = LateRun(another(session), spec, plan, kafka)
    late: Counter[str] = Counter()
    batches: dict[int, list[dict[str, Any]]] = {}

    def count_late() -> None:
        for late_rows in run.late.values():
            late.update(rows=late_rows.rows, windows=late_rows.windows)

    try:
        for number in range(ROUNDS):
            begin = START + number * SPAN
            in_time = list(records.made(table, IN_TIME, begin, SPAN, seed=number))
            if number:
                behind = list(records.made(table, LATE, begin - 3 * SPAN, 3 * SPAN, seed=100 + number))
                recount.add(behind, closed)
                before = run.read
                run.send({"bookings": behind})
                run.until(lambda run, end=before + LATE: run.read >= end)  # type: ignore[misc]
            recount.add(in_time, closed)
            run.dies_in_batch = number == DIES_IN
            run.send({"bookings": in_time})
            if run.dies_in_batch:
                with pytest.raises(Exception, match="killed in this batch"):
                    run.until(lambda _: False)
                count_late()
                batches, died = dict(run.batches), max(run.batches)
                run = LateRun(another(session), spec, plan, kafka)
                run.until(lambda run, died=died: died in run.batches)  # type: ignore[misc]
                assert have_same_rows(run.batches[died], batches[died]), (
                    "a batch that is repeated repeats its rows"
                )
            closed = begin + SPAN * (IN_TIME - 1) / IN_TIME - DELAY
            run.until(lambda run, to=closed: run.closed is not None and run.closed >= to)  # type: ignore[misc]
            assert run.closed == closed, "what is late is not what was meant"
        last = list(records.made(table, 2, START + timedelta(days=70), timedelta(seconds=4), seed=99))
        run.send({"bookings": last})
        run.until(lambda run: run.closed is not None and run.closed >= START + timedelta(days=70))
        count_late()
    finally:
        queries.stop_patiently(run.query.stop)

    batches |= run.batches
    rows = [row for _, some in sorted(batches.items()) for row in some]
    written_rows: dict[Row, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        written_rows[row["__window_end"].astimezone(UTC), row["tag_service"]].append((row["n"], row["value"]))
    expected = recount.rows(distinct="DISTINCT" in value)
    ends = {row: values[-1] for row, values in written_rows.items()}
    assert ends == {row: value for row, value in expected.items() if row[0] < START + timedelta(days=60)}
    assert late == Counter(rows=recount.late.rows, windows=recount.late.windows)
    assert recount.late.rows > 0, "a test without records that are too late shows nothing"
    times = Counter(map(len, written_rows.values()))
    assert set(times) == {1, 2, 3}, times
    for counts in written_rows.values():
        assert all(one[0] < other[0] for one, other in pairwise(counts)), counts


def have_same_rows(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Compare the rows of two batches, in any order."""
    return sorted(map(repr, one)) == sorted(map(repr, other))
