"""How a query ends between two batches: nothing of it is interrupted, whenever it is asked to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from services.runtime.tests.sessions import driver_session

from runtime.spark import queries

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with driver_session() as started:
        yield started


class Held(StreamingQueryListener):
    """Holds a query's thread before it has begun anything: of all moments the one that Spark lets us hold."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self.begun.set()
        self.goes_on.wait(PATIENCE_S)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        pass


def start(session: SparkSession, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    writer = session.readStream.format("rate").load().writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def end(query: StreamingQuery) -> None:
    """As a drain does."""
    deadline = time.monotonic() + PATIENCE_S
    while not queries.has_ended(query):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    query.stop()


def test_a_query_that_is_only_about_to_begin_is_waited_for(session: SparkSession, tmp_path: Path) -> None:
    held = Held()
    session.streams.addListener(held)
    starting = threading.Thread(target=start, args=(session, tmp_path, lambda _rows, _id: None))
    starting.start()
    try:
        assert held.begun.wait(PATIENCE_S)
        [query] = session.streams.active
        queries.last_batch(query)

        assert (query.status["isTriggerActive"], queries.has_ended(query)) == (False, False)
    finally:
        held.goes_on.set()
        starting.join(PATIENCE_S)
        session.streams.removeListener(held)
    end(query)

    assert queries.failure(query) is None


def test_a_batch_that_runs_is_committed_and_none_follows(session: SparkSession, tmp_path: Path) -> None:
    runs, may_end = threading.Event(), threading.Event()

    def write(rows: DataFrame, batch_id: int) -> None:
        runs.set()
        may_end.wait(PATIENCE_S)
        rows.count()  # a job: an interrupted batch fails here

    query = start(session, tmp_path, write)
    assert runs.wait(PATIENCE_S)
    queries.last_batch(query)

    assert not queries.has_ended(query)
    may_end.set()
    end(query)

    assert queries.failure(query) is None
    begun, committed = (
        sorted(path.name for path in (tmp_path / log).glob("[0-9]*")) for log in ("offsets", "commits")
    )
    assert begun == committed != []


def test_a_batch_that_has_just_been_written_is_committed_and_none_follows(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit waits for the lock that whoever ends the query has: to wait for it would be for ever."""
    runs, may_end, lets_end = threading.Event(), threading.Event(), queries._may_end

    def write(rows: DataFrame, batch_id: int) -> None:
        runs.set()
        may_end.wait(PATIENCE_S)
        rows.count()

    def looks(thread: JavaObject) -> bool:
        found, deadline = lets_end(thread), time.monotonic() + PATIENCE_S
        may_end.set()
        while found and ".withProgressLocked(" not in str([*map(str, thread.getStackTrace())]):
            assert time.monotonic() < deadline
        return found

    monkeypatch.setattr(queries, "_may_end", looks)
    query = start(session, tmp_path, write)
    assert runs.wait(PATIENCE_S)
    ending = threading.Thread(target=queries.last_batch, args=(query,), daemon=True)
    ending.start()
    ending.join(PATIENCE_S)

    assert not ending.is_alive()
    end(query)
    assert queries.failure(query) is None
    begun, committed = (
        sorted(path.name for path in (tmp_path / log).glob("[0-9]*")) for log in ("offsets", "commits")
    )
    assert begun == committed == ["0"]


def test_a_batch_that_is_being_planned_is_written_and_committed(
    session: SparkSession, tmp_path: Path
) -> None:
    """Behind its plan Spark interrupts a batch whose query is to end: it is told so only then."""
    # A constant that Spark's optimizer works out anew for each batch, for about a second.
    slow = "aggregate(sequence(1, 10000000), 0L, (sum, n) -> sum + n) > 0"
    written: list[int] = []
    source = session.readStream.format("rate").load().where(slow)
    writer = source.writeStream.foreachBatch(lambda rows, _: written.append(rows.count()))
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    deadline = time.monotonic() + PATIENCE_S
    while not is_planning(query):
        assert time.monotonic() < deadline
    queries.last_batch(query)
    end(query)

    assert (queries.failure(query), len(written)) == (None, 1)
    begun, committed = (
        sorted(path.name for path in (tmp_path / log).glob("[0-9]*")) for log in ("offsets", "commits")
    )
    assert begun == committed == ["0"]


def is_planning(query: StreamingQuery) -> bool:
    """Whether its thread plans its first batch."""
    frames = [str(frame) for frame in query._jsq.streamingQuery().queryExecutionThread().getStackTrace()]
    steps = [any(step in frame for frame in frames) for step in (".runBatch(", ".addBatch(", ".optimize")]
    return steps == [True, False, True]


def sleep(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """A task that takes as long as the test."""
    time.sleep(PATIENCE_S)
    yield from batches


def test_what_a_stopped_batch_fails_with_is_known_as_an_interruption(
    session: SparkSession, tmp_path: Path
) -> None:
    runs, failed, raised = threading.Event(), threading.Event(), list[BaseException]()

    def write(rows: DataFrame, batch_id: int) -> None:
        runs.set()
        try:
            rows.sparkSession.range(1).mapInArrow(sleep, "id long").collect()
        except BaseException as failure:
            raised.append(failure)
            failed.set()
            raise

    query = start(session, tmp_path, write)
    assert runs.wait(PATIENCE_S)
    query.stop()
    assert failed.wait(PATIENCE_S)

    assert [queries.is_interruption(failure) for failure in raised] == [True]
    assert not queries.is_interruption(ValueError("a value"))
