"""What every start of a driver needs, whatever its dagger, and can have beside all else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pyspark.sql import SparkSession

from runtime.spark import session as spark

_T = TypeVar("_T")


def begin() -> Future[SparkSession]:
    """Start Spark, which takes the JVM over a second."""
    return beside(spark.start)


def beside(work: Callable[[], _T]) -> Future[_T]:
    """Do this on a thread of its own. What fails there is raised for whoever asks for the result."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as failure:  # noqa: BLE001 - it is for whoever asks for the result
            result.set_exception(failure)

    threading.Thread(target=run, name="warm-up").start()
    return result
