"""What Spark tells of queries is the same, whether PySpark asks for each part of it or for all at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from services.runtime.tests.sessions import driver_session

from runtime.spark.events import JsonListener, progress_of

PATIENCE_S = 120


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with driver_session() as started:
        yield started


class EventListener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self.events.append(("started", event.id, event.runId, event.name, event.timestamp))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        self.events.append(("progress", *known(event.progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        self.events.append(("idle", event.id, event.runId, event.timestamp))

    def has_ended(self) -> bool:
        return bool(self.events) and self.events[-1][0] == "terminated"

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self.events.append(("terminated", event.id, event.runId, event.errorClassOnException))


class PySparkListener(EventListener, StreamingQueryListener):
    """As PySpark does it."""


class OwnListener(EventListener, JsonListener):
    """As we do."""


def known(progress: StreamingQueryProgress) -> list[Any]:
    """What anybody here reads of a batch."""
    return [
        *(progress[name] for name in ("id", "runId", "name", "timestamp", "batchId", "batchDuration")),
        *(dict(progress[name]) for name in ("durationMs", "eventTime")),
        [dict(operator) for operator in progress.stateOperators],
        [[offset(source.endOffset), offset(source.latestOffset)] for source in progress.sources],
        {name: row.asDict() for name, row in progress.observedMetrics.items()},
    ]


def offset(text: str) -> Any:
    """An offset; None where Spark tells of none, for which both have words of their own."""
    return json.loads(text) if text.startswith("{") else None


def collected(rows: DataFrame, batch_id: int) -> None:
    rows.collect()


@pytest.mark.integration
def test_events_say_what_pysparks_say(session: SparkSession, tmp_path: Path) -> None:
    asked, heard = PySparkListener(), OwnListener()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"at": "2026-01-01T00:00:30Z", "city": "ü"}\n{"at": null}\n')
    for listener in (asked, heard):
        session.streams.addListener(listener)
    rows = (
        session.readStream.schema("at TIMESTAMP, city STRING")
        .json(str(tmp_path / "in"))
        .withWatermark("at", "5 seconds")
        .observe("source.s.0", F.sum(F.lit(2**60)).alias("sum"), F.max("city").alias("city"))
        .groupBy(F.window("at", "60 seconds"), "city")
        .count()
    )
    query = rows.writeStream.foreachBatch(collected)
    query = query.outputMode("append").option("checkpointLocation", str(tmp_path / "checkpoint"))
    ended = query.queryName("told").trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S  # Spark tells of the end later
    while not all(listener.has_ended() for listener in (asked, heard)):
        assert ended
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for listener in (asked, heard):
        session.streams.removeListener(listener)

    assert heard.events == asked.events
    assert heard.events[0][0] == "started"
    [first, *_] = [event for event in heard.events if event[0] == "progress"]
    assert first[-1] == {"source.s.0": {"sum": 2**61, "city": "ü"}}


def test_a_batch_that_took_no_time_has_no_rates() -> None:
    source = {"description": "", "startOffset": None, "endOffset": {}, "latestOffset": {}, "numInputRows": 0}
    form = {
        "id": "1b671a64-40d5-491e-99b0-da01ff1f3341", "runId": "1b671a64-40d5-491e-99b0-da01ff1f3341",
        "name": None, "timestamp": "2026-01-01T00:00:00.000Z", "batchId": 7, "batchDuration": 0,
        "stateOperators": [], "sources": [source], "sink": {"description": "", "numOutputRows": -1},
    }  # fmt: skip
    progress = progress_of(form)

    assert progress.sources[0].processedRowsPerSecond == 0.0
    assert (progress.batchId, progress.durationMs, progress.observedMetrics) == (7, {}, {})
