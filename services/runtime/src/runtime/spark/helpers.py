"""End the processes that Spark only needs to start a stream."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql import SparkSession

_MODULES = {"pyspark.sql.worker.create_data_source", "pyspark.sql.worker.plan_data_source_read"}
_starting = set[Path]()
"""Run directories of the launches of this process whose streams start."""
_guard = threading.Lock()


def need(run_dir: Path) -> None:
    """Keep the processes for the streams of a launch, which are about to start."""
    with _guard:
        _starting.add(run_dir)


def release(run_dir: Path, session: SparkSession | None) -> None:
    """End the processes once the last launch that needed them does so no longer.

    session: None where Spark may be gone; then they stay until another launch releases them.
    """
    if run_dir not in _starting:
        return
    with _guard:
        _starting.discard(run_dir)
        if session is not None and not _starting:
            end(session)


def end(session: SparkSession) -> None:
    """End the processes: each takes 25 MiB as the parent of ended workers.

    Spark starts them again if needed.
    """
    context = session.sparkContext
    jvm, environment = context._jvm, context._jsc.sc().env()  # noqa: SLF001 - Spark has no setting for it
    # by reflection: for a method call Py4J resolves the classes of all methods, some of which are missing
    field = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")  # type: ignore[union-attr]
    field.setAccessible(True)
    factories = field.get(environment).iterator()
    while factories.hasNext():
        factory = factories.next()
        if factory._1().workerModule() in _MODULES:  # noqa: SLF001 - Scala's name for the first of a pair
            factory._2().stop()  # noqa: SLF001 - as above
