"""Read and control a streaming query beyond PySpark's own API."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject, JVMView
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

# with the steps behind it less than the lease's patience: a driver that lost its lease is gone after twice
# that
_STOP_S = 10.0
_POLL_S = 0.01
# stack frames of a query's thread, as Java prints them
_EXECUTOR, _TURN = "(TriggerExecutor.scala:", "MicroBatchExecution.executeOneBatch("
_BEGINS, _PLANS = "MicroBatchExecution.constructNextBatch(", "MicroBatchExecution.runBatch("
_WRITES = (".addBatch(", "MicroBatchExecution.markMicroBatchEnd(")
_LOCKED = "MicroBatchExecution.withProgressLocked("
"""Frame that takes Spark's lock: to begin a batch, to commit a written one, and after that."""
_INTERRUPTED = re.compile(
    r"Interrupted(IO)?Exception|ClosedByInterruptException|cancelled job group|Query .{0,200} was stopped"
)


class QueryError(Exception):
    """Error that ended a query; its text is the JVM's whole trace, with all causes."""


def failure(query: StreamingQuery) -> QueryError | None:
    """Return the error that ended a query; None while it runs, and after a stop.

    `query.exception()` lacks the classes of the causes.
    """
    ended = query._jsq.exception()  # noqa: SLF001 - see above
    if ended.isEmpty():
        return None
    return QueryError(_to_text(ended.get()))


def has_ended(query: StreamingQuery) -> bool:
    """Tell whether the query's thread has ended: it starts no reader, and runs and begins no batch.

    Its status is not reliable for that: it lags behind at a start, and at the beginning of a batch.
    """
    return not query._jsq.streamingQuery().queryExecutionThread().isAlive()  # noqa: SLF001 - see above


def stop_patiently(stop: Callable[[], object]) -> None:
    """Stop a query, or Spark; wait 10 s at most, as a store, broker or executor may never answer."""
    stopping = threading.Thread(target=stop, name="stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def last_batch(
    query: StreamingQuery, *, release: Callable[[], object] | None = None, patience_s: float = 120.0
) -> None:
    """Let the running batch finish and commit, and begin no further one; then the query ends.

    release: called now and then, so that sources stop waiting for records. Returns once Spark has the order,
    which takes as long as it plans a batch, or after `patience_s`. `stop` would interrupt the batch: call it
    after `has_ended`.

    Spark's thread ends between two batches if its state says so, but a batch that it has just planned it
    interrupts then (`MicroBatchExecution.runBatch`). So the state is only set where no such point is ahead:
    while a batch is written, or between batches. Meanwhile Spark's own lock, which it takes to begin and to
    commit a batch, keeps the thread there.
    """
    execution = query._jsq.streamingQuery()  # noqa: SLF001 - Spark has no public way to end a query between two batches
    state, lock, thread = execution.state(), execution.awaitProgressLock(), execution.queryExecutionThread()
    initializing, active, terminated = map(_state, ("INITIALIZING", "ACTIVE", "TERMINATED"))
    if state.compareAndSet(initializing, terminated):
        return
    end = time.monotonic() + patience_s
    while thread.isAlive() and time.monotonic() < end:
        if release is not None:
            release()
        if lock.tryLock():
            try:
                if _may_end(thread):
                    state.set(terminated)
                    if not _begins_a_batch(thread):
                        return
                    state.set(active)  # the thread had read the state before
            finally:
                lock.unlock()
        time.sleep(_POLL_S)


def is_interruption(error: BaseException) -> bool:
    """Tell whether an error, or any of its causes, is of an interrupted thread or a cancelled job.

    Spark itself recognises only some of these.
    """
    texts = list[str]()
    cause: BaseException | None = error
    while cause is not None:
        origin = getattr(cause, "_origin", None)  # the JVM's throwable, with its causes
        texts += [str(cause), "" if origin is None else _to_text(origin)]
        cause = cause.__cause__ or cause.__context__
    return _INTERRUPTED.search("\n".join(texts)) is not None


def _may_end(thread: JavaObject) -> bool:
    """Tell whether a query's thread writes a batch or rests between two: no planned batch is ahead."""
    frames = _frames(thread)
    return any(step in frames for step in _WRITES) or _is_resting(frames)


def _begins_a_batch(thread: JavaObject) -> bool:
    """Tell whether a query's thread waits for Spark's lock to begin a batch.

    Polls the stack until that is certain: the thread may just have woken up, or have ended a batch, whose
    commit waits for the lock, too.
    """
    while True:
        frames = _frames(thread)
        if _BEGINS in frames:
            return True
        is_elsewhere = _LOCKED in frames or any(step in frames for step in _WRITES) or _is_resting(frames)
        if is_elsewhere or _TURN not in frames:
            return False


def _is_resting(frames: str) -> bool:
    return "java.lang.Thread.sleep" in frames and _EXECUTOR in frames and _PLANS not in frames


def _frames(thread: JavaObject) -> str:
    """Return the stack frames of a thread as text; empty for one that has ended."""
    return str(_jvm().org.apache.commons.lang3.ArrayUtils.toString(thread.getStackTrace()))


def _state(name: str) -> JavaObject:
    states = _jvm().org.apache.spark.sql.execution.streaming.runtime
    return getattr(getattr(states, f"{name}$"), "MODULE$")


def _to_text(throwable: JavaObject) -> str:
    return str(_jvm().org.apache.spark.util.Utils.exceptionString(throwable))


def _jvm() -> JVMView:
    jvm = SparkContext._jvm  # noqa: SLF001 - Spark's objects, from a thread that has no session
    assert jvm is not None
    return jvm


def read_observations(execution: JavaObject) -> dict[str, dict[str, Any]]:
    """Return the observations of the running batch by name, without NULLs.

    execution: Spark's of that batch. Call it in foreachBatch after the rows are computed: Spark reports them
    only later, to another thread.
    """
    pairs = execution.observedMetrics().iterator()
    rows = {}
    while pairs.hasNext():
        pair = pairs.next()
        rows[pair._1()] = json.loads(pair._2().json())  # noqa: SLF001 - a pair's first and second
    return rows


def advance_watermark(stream: JavaObject, watermark_ms: int) -> None:
    """Advance event time to `watermark_ms`, in ms since 1970, if that is later. Call it in foreachBatch.

    stream: Spark's execution of the query. The running batch is committed with it, and the next one closes
    windows by it.
    """
    tracker = stream.watermarkTracker()
    if watermark_ms > tracker.currentWatermark():
        tracker.setWatermark(watermark_ms)
