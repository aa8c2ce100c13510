"""What a streaming query does not tell or let do by PySpark alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

# With what follows, less than the lease's patience: a driver that lost its lease is gone after twice that.
_STOP_S = 10.0


class QueryError(Exception):
    """What ended a query, in the JVM's words: the whole text, with its causes."""


def failure(query: StreamingQuery) -> QueryError | None:
    """What ended a query; None while it runs, and when it was stopped.

    What `query.exception()` keeps of it lacks the causes' kinds.
    """
    ended = query._jsq.exception()  # noqa: SLF001 - see above
    if ended.isEmpty():
        return None
    utils = SparkSession.active()._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]  # noqa: SLF001 - Spark's own way to print an exception
    return QueryError(utils.exceptionString(ended.get()))


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


def last_batch(query: StreamingQuery) -> None:
    """Let no further batch begin; the one that runs is finished and committed, and then the query ends.

    `stop` would interrupt it: that comes after `has_ended`.
    """
    session = SparkSession.active()
    states = session._jvm.org.apache.spark.sql.execution.streaming.runtime  # type: ignore[union-attr]  # noqa: SLF001 - Spark has no public way to end a query between two batches
    ended = getattr(getattr(states, "TERMINATED$"), "MODULE$")
    query._jsq.streamingQuery().state().set(ended)  # noqa: SLF001 - as above
