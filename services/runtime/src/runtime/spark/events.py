"""What Spark tells of queries, heard in one answer for each event.

PySpark asks Java for each number of an event by itself, for every entry of every map, and gives back each
object that Java handed out for it. Spark has the whole of it as JSON.
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

# Spark leaves out what is no number, as the rates of a batch that took no time; PySpark wants them all.
_RATES = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}


class JsonListener(StreamingQueryListener):
    """A listener as PySpark's, whose events are the same."""

    _made: Any = None

    @property
    def _jlistener(self) -> Any:
        if self._made is None:
            jvm: Any = SparkContext._jvm  # noqa: SLF001 - as PySpark does
            self._made = jvm.PythonStreamingQueryListenerWrapper(_Heard(self))
        return self._made


class _Heard:
    """The listener, as Java calls it."""

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
        """Java's name for what this is."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def progress_of(form: dict[str, Any]) -> StreamingQueryProgress:
    """The progress of a batch, from Spark's JSON form of it."""
    sources = [{**_RATES, **source} for source in form["sources"]]
    return StreamingQueryProgress.fromJson({**form, "sources": sources})
