"""Receive Spark's events of queries with one call to Java for each event.

PySpark reads each number of an event, and each entry of each map, by a call of its own, and releases each
Java object by another. Spark has the whole event as JSON.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

# Spark omits NaN, such as the rates of a batch that took no time; PySpark requires all fields
_RATES = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}


class JsonListener(StreamingQueryListener):
    """Listener with the same events as PySpark's."""

    _java_listener: Any = None

    @property
    def _jlistener(self) -> Any:
        if self._java_listener is None:
            jvm: Any = SparkContext._jvm  # noqa: SLF001 - as PySpark does
            self._java_listener = jvm.PythonStreamingQueryListenerWrapper(_JavaListener(self))
        return self._java_listener


class _JavaListener:
    """Adapter that Java calls."""

    def __init__(self, listener: StreamingQueryListener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryStarted(QueryStartedEvent.fromJson(json.loads(event.json())))

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 - Spark's name
        progress = progress_of(json.loads(event.json())["progress"])
        self._listener.onQueryProgress(QueryProgressEvent(progress))

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryIdle(QueryIdleEvent.fromJson(json.loads(event.json())))

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 - Spark's name
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJson(json.loads(event.json())))

    class Java:
        """Java interface that the adapter implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def progress_of(form: dict[str, Any]) -> StreamingQueryProgress:
    """Build the progress of a batch from Spark's JSON form."""
    sources = [{**_RATES, **source} for source in form["sources"]]
    return StreamingQueryProgress.fromJson({**form, "sources": sources})
