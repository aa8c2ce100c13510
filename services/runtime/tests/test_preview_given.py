"""Given records through a real Spark: what is late or quarantined, and what time it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import gateway_pb2, host_pb2, spec_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql import SparkSession
from services.runtime.tests.launches import Dagger, whole
from services.runtime.tests.streams import source_session
from tests.integration.bookings import COUNT_SQL, NOON, booking

from daggerspec.row import from_proto
from runtime.preview.run import Preview

pytestmark = pytest.mark.integration
CLOCK_SQL = """SELECT order_number, CURRENT_TIMESTAMP AS clock, CURRENT_DATE AS day,
'current_timestamp()' AS words, rowtime AS window_timestamp FROM `data_stream`"""
JOIN_SQL = """SELECT a.order_number AS order_a, b.order_number AS order_b, a.rowtime AS window_timestamp
FROM `data_stream` AS a JOIN `others` AS b ON a.city_id = b.city_id
AND b.rowtime BETWEEN a.rowtime - INTERVAL '60' SECOND AND a.rowtime + INTERVAL '60' SECOND"""


class Unread(Dagger):
    """A dagger whose Kafka nobody reaches."""

    def __post_init__(self) -> None:
        self.name, self.topic, self.generation = f"given-{self.folder.name}", "in-given", 1
        self.checkpoints = self.folder / "checkpoints"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as session:
        yield session


def compute(
    session: SparkSession, folder: Path, sql: str, now: float | None = None, **tables: list[bytes]
) -> tuple[list[dict[str, Any]], gateway_pb2.PreviewDone]:
    """Return the rows and the end of what becomes of given records; `now`: seconds after noon."""
    dagger = Unread(folder, "127.0.0.1:1", sql)
    dagger.sinks = [spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=1)))]
    run_dir = folder / "run"
    run_dir.mkdir()
    job = dagger.spec(run_dir)
    for table in [*tables][1:]:
        other = job.streams.add()
        other.CopyFrom(job.streams[0])
        other.input.table, other.stream.name = table, table
    job = whole(job)
    job.ClearField("platform")
    given = host_pb2.GivenInput(now=None if now is None else Timestamp(seconds=NOON + round(now)))
    for table, records in tables.items():
        given.tables.add(table=table, records=records)
    steps: list[gateway_pb2.PreviewDaggerResponse] = []
    Preview(host_pb2.PreviewJob(job=job, given=given), session, steps.append, lambda: False).run()
    rows = [from_proto(row) for step in steps for row in step.rows.rows]
    return [
        {"second": row.time and row.time.timestamp() - NOON, **row.tags, **row.fields} for row in rows
    ], steps[-1].done


def test_all_windows_close_and_what_is_late_does_not_depend_on_batches(
    session: SparkSession, tmp_path: Path
) -> None:
    seconds = [10, 20, 75, 30, 59, 80, 65, 200]  # the delay is a second: 30 and 59 come after 60 was closed

    rows, done = compute(
        session,
        tmp_path,
        COUNT_SQL,
        data_stream=[*(booking(second) for second in seconds), b"", booking(9_000)],
        now=300,
    )

    counts = {(row["second"], row["tag_city_id"]): row["num_of_bookings"] for row in rows}
    assert counts == {(60, "1"): 2, (120, "1"): 3, (240, "1"): 1}
    assert (done.late, done.records, dict(done.quarantined)) == (
        2,
        8,
        {"NO_EVENT_TIME": 1, "FROM_THE_FUTURE": 1},
    )


def test_the_clock_stands_still(session: SparkSession, tmp_path: Path) -> None:
    rows, _ = compute(
        session, tmp_path, CLOCK_SQL, data_stream=[booking(5, order="x"), booking(2, order="y")]
    )

    assert sorted(rows, key=lambda row: str(row["order_number"])) == [
        {
            "second": second,
            "order_number": order,
            "clock": "2026-01-01T12:00:05Z",
            "day": "2026-01-01",
            "words": "current_timestamp()",
        }
        for second, order in ((5, "x"), (2, "y"))
    ]


def test_streams_end_together(session: SparkSession, tmp_path: Path) -> None:
    rows, done = compute(
        session,
        tmp_path,
        JOIN_SQL,
        data_stream=[booking(10, order="a"), booking(400, order="c")],
        others=[booking(20, order="b")],
    )

    assert [(row["order_a"], row["order_b"]) for row in rows] == [("a", "b")]
    assert (done.records, done.late) == (3, 0)


def test_no_record_gives_no_row(session: SparkSession, tmp_path: Path) -> None:
    rows, done = compute(session, tmp_path, COUNT_SQL, data_stream=[])

    assert (rows, done.records) == ([], 0)
