"""Do in parallel what every start of a driver needs, whatever its dagger."""

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
    """Run `work` in a thread of its own. Its error is raised by the future's result."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as failure:  # noqa: BLE001 - it is for whoever asks for the result
            result.set_exception(failure)

    threading.Thread(target=run, name="warm-up").start()
    return result
