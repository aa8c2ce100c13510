"""What a streaming query does not tell or let do by PySpark alone."""

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

# With what follows, less than the lease's patience: a driver that lost its lease is gone after twice that.
_STOP_S = 10.0
_LOOK_S = 0.01
# Frames of a query's thread, as Java prints them.
_EXECUTOR, _TURN = "(TriggerExecutor.scala:", "MicroBatchExecution.executeOneBatch("
_BEGINS, _PLANS = "MicroBatchExecution.constructNextBatch(", "MicroBatchExecution.runBatch("
_WRITES = (".addBatch(", "MicroBatchExecution.markMicroBatchEnd(")
_LOCKED = "MicroBatchExecution.withProgressLocked("
"""Where Spark's lock is taken: to begin a batch, to commit one that is written, and behind that."""
_INTERRUPTED = re.compile(
    r"Interrupted(IO)?Exception|ClosedByInterruptException|cancelled job group|Query .{0,200} was stopped"
)


class QueryError(Exception):
    """What ended a query, in the JVM's words: the whole text, with its causes."""


def failure(query: StreamingQuery) -> QueryError | None:
    """What ended a query; None while it runs, and when it was stopped.

    What `query.exception()` keeps of it lacks the causes' kinds.
    """
    ended = query._jsq.exception()  # noqa: SLF001 - see above
    if ended.isEmpty():
        return None
    return QueryError(_printed(ended.get()))


def has_ended(query: StreamingQuery) -> bool:
    """Whether its thread has: it starts no reader any more, works on no batch, and begins none.

    What its status says is older: of a start, and of a batch that just begins, it does not know yet.
    """
    return not query._jsq.streamingQuery().queryExecutionThread().isAlive()  # noqa: SLF001 - see above


def stop_patiently(stop: Callable[[], object]) -> None:
    """Stop a query, or Spark, and do not wait for a store, a broker or an executor that never answers."""
    stopping = threading.Thread(target=stop, name="stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def last_batch(
    query: StreamingQuery, *, release: Callable[[], object] | None = None, patience_s: float = 120.0
) -> None:
    """Let no further batch begin: one that runs is finished and committed, and then the query ends.

    `release` is called now and then: sources that wait for records are to do so no more. Returns once Spark
    knows it, which takes as long as Spark plans a batch, or after `patience_s`. `stop` would interrupt the
    batch: that comes after `has_ended`.

    Spark ends by itself between two batches once its state says so, but also interrupts itself where the
    state says so when it has planned one (`MicroBatchExecution.runBatch`). So the state is set only where
    that is not before it: in a batch that is being written, or while nothing goes on. Spark's own lock, which
    it needs to begin a batch and to commit one, keeps it there meanwhile.
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
                if _lets_end(thread):
                    state.set(terminated)
                    if not _begins_a_batch(thread):
                        return
                    state.set(active)  # it had looked at the state before
            finally:
                lock.unlock()
        time.sleep(_LOOK_S)


def is_interruption(error: BaseException) -> bool:
    """Whether an error is what Spark or Py4J make of an interrupted thread or a cancelled job, whatever is
    wrapped around that. Spark itself knows some of it only.
    """
    texts = list[str]()
    seen: BaseException | None = error
    while seen is not None:
        origin = getattr(seen, "_origin", None)  # what PySpark keeps of the JVM's, with its causes
        texts += [str(seen), "" if origin is None else _printed(origin)]
        seen = seen.__cause__ or seen.__context__
    return _INTERRUPTED.search("\n".join(texts)) is not None


def _lets_end(thread: JavaObject) -> bool:
    """Whether a query's thread writes a batch, or rests between two: no plan of one is still to be made."""
    frames = _frames(thread)
    return any(step in frames for step in _WRITES) or _rests(frames)


def _begins_a_batch(thread: JavaObject) -> bool:
    """Whether a query's thread waits for Spark's lock where it begins a batch. Looks until it does, or is
    surely elsewhere: it may just have woken up, or ended a batch, whose commit waits for the lock as well.
    """
    while True:
        frames = _frames(thread)
        if _BEGINS in frames:
            return True
        is_elsewhere = _LOCKED in frames or any(step in frames for step in _WRITES) or _rests(frames)
        if is_elsewhere or _TURN not in frames:
            return False


def _rests(frames: str) -> bool:
    return "java.lang.Thread.sleep" in frames and _EXECUTOR in frames and _PLANS not in frames


def _frames(thread: JavaObject) -> str:
    """What a thread is doing; nothing of one that has ended."""
    return str(_jvm().org.apache.commons.lang3.ArrayUtils.toString(thread.getStackTrace()))


def _state(name: str) -> JavaObject:
    states = _jvm().org.apache.spark.sql.execution.streaming.runtime
    return getattr(getattr(states, f"{name}$"), "MODULE$")


def _printed(throwable: JavaObject) -> str:
    return str(_jvm().org.apache.spark.util.Utils.exceptionString(throwable))


def _jvm() -> JVMView:
    jvm = SparkContext._jvm  # noqa: SLF001 - Spark's objects, from a thread that has no session
    assert jvm is not None
    return jvm


def observed(query: StreamingQuery) -> dict[str, dict[str, Any]]:
    """What was observed of the rows of the batch that runs, by the observation's name; NULLs are left out.

    To be asked in foreachBatch, once the rows are computed: Spark tells of it later, and to another thread.
    """
    pairs = query._jsq.streamingQuery().lastExecution().observedMetrics().iterator()  # noqa: SLF001 - Spark has no public way
    rows = {}
    while pairs.hasNext():
        pair = pairs.next()
        rows[pair._1()] = json.loads(pair._2().json())  # noqa: SLF001 - a pair's first and second
    return rows


def advance_watermark(query: StreamingQuery, watermark_ms: int) -> None:
    """Move event time to `watermark_ms` (ms since the epoch), where that is further on; to be called in
    foreachBatch. The batch that runs is committed with it, and the next one closes windows by it.
    """
    tracker = query._jsq.streamingQuery().watermarkTracker()  # noqa: SLF001 - Spark has no public way to a query's event time
    if watermark_ms > tracker.currentWatermark():
        tracker.setWatermark(watermark_ms)
