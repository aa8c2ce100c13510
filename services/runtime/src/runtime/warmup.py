"""What every start of a driver needs, whatever its dagger, and can have beside all else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pyspark.sql import SparkSession

from runtime import spark

_T = TypeVar("_T")


def begin() -> Future[SparkSession]:
    """Start Spark, which takes the JVM over a second."""
    return _beside(spark.start)


def helpers(session: SparkSession) -> None:
    """Start the Python processes that Spark wants next, one after the other; it keeps those that it has.

    Nothing waits for them: what fails here fails again, and is told, where they are needed.
    """
    from runtime.source import warmup_source as nothing

    _beside(lambda: nothing.read(session))


def _beside(work: Callable[[], _T]) -> Future[_T]:
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as failure:  # noqa: BLE001 - it is for whoever asks for the result
            result.set_exception(failure)

    threading.Thread(target=run, name="warm-up").start()
    return result
