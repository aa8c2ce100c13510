"""Run an attempt of a replay as the Python half of a Spark application: `spark-submit … --replay …`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from pyspark.sql import SparkSession

from daggerspec import exits
from runtime.replay import main as attempt
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

_LAST_WORDS_S: Final = 2.0


def main(arguments: Sequence[str], started: Callable[[], SparkSession]) -> int:
    """Run the attempt and return its exit code. `started` blocks until the Spark session is up."""
    jvm = JvmWatch()

    def leave() -> None:
        time.sleep(_LAST_WORDS_S)  # the main thread may end first, and log the reason
        os._exit(exits.code(jvm.death()))

    jvm.follow(leave)
    with ExitStack() as process:
        return attempt.main(
            arguments, lambda: process.enter_context(spark.stop_at_exit(started())), jvm.explain
        )
