"""What is made of sessions, while records come in: windows with a partial session are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from services.runtime.tests.sessions import START, drain, feed, moment, planned, spark_session, stream

from runtime.launch.wholeness import drop_incomplete
from runtime.source.status import Gap

pytestmark = pytest.mark.integration

SESSIONS = """(SELECT customer_id AS c, COUNT(*) AS n, SESSION_ROWTIME(rowtime, INTERVAL '6' SECOND) AS rt
    FROM customer_events GROUP BY SESSION(rowtime, INTERVAL '6' SECOND), customer_id) AS i"""
BY_COUNT = f"SELECT COUNT(*) AS k, n FROM {SESSIONS} GROUP BY TUMBLE(rt, INTERVAL '20' SECOND), n"
COMPLETE_FROM = START + timedelta(seconds=60)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session() as started:
        yield started


def events(customer: str, *seconds: int) -> list[dict[str, str]]:
    return [{"customer_id": customer, "rowtime": moment(second)} for second in seconds]


def test_where_a_partial_session_ends_no_group_by_a_result_is_written(
    session: SparkSession, tmp_path: Path
) -> None:
    # The session of `partial` began at 58 s, which was skipped: it has 7 records too.
    records = [*events("partial", 62, 66, 70, 74, 78, 82), *events("other", *range(81, 95, 2))]
    feed(tmp_path, "customer_events", "0", [*records, *events("later", 105, 107)])
    plan = planned(BY_COUNT)
    rows = stream(session, plan, tmp_path)
    batches: list[list[Row]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(drop_incomplete(batch, [Gap(None, COMPLETE_FROM)], plan.lookahead).collect())

    for second in (200, 300, 400):
        feed(tmp_path, "customer_events", f"{second}", events("clock", second))
        query = (
            rows.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    written = [
        (row["n"], row["k"], row["__window_start"].minute * 60 + row["__window_start"].second)
        for batch in batches
        for row in batch
    ]

    assert (2, 1, 100) in written
    assert [row for row in written if row[2] < 100] == []


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT b.fare, i.n FROM bookings b, {SESSIONS} WHERE b.order_number = i.c AND i.n > 1 AND {{}}",
        f"SELECT b.fare, i.n FROM bookings b JOIN {SESSIONS} ON {{}} WHERE b.order_number = i.c AND i.n > 1",
    ],
)
def test_a_join_with_sessions_runs_wherever_its_key_stands(
    session: SparkSession, tmp_path: Path, sql: str
) -> None:
    near = "i.rt BETWEEN b.rowtime - INTERVAL '9' SECOND AND b.rowtime + INTERVAL '9' SECOND"
    feed(tmp_path, "customer_events", "0", [*events("a", 10, 12), *events("b", 11)])
    feed(
        tmp_path,
        "bookings",
        "0",
        [{"order_number": each, "fare": 7.0, "rowtime": moment(13)} for each in "ab"],
    )
    rows = stream(session, planned(sql.format(near)), tmp_path)
    found = []
    for second in (200, 300, 400):
        feed(tmp_path, "customer_events", f"{second}", events("clock", second))
        feed(
            tmp_path, "bookings", f"{second}", [{"order_number": "z", "fare": 0.0, "rowtime": moment(second)}]
        )
        found += drain(rows, tmp_path)

    assert [(row["fare"], row["n"]) for row in found] == [(7.0, 2)]
