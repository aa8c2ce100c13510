"""What every start of a driver needs, whatever its dagger, and can have beside all else.

Nothing waits for it: what fails here fails again, and is told, where it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import SparkSession

from runtime import spark


def begin() -> None:
    """Start Spark, which takes the JVM over a second; `spark.start` waits for it."""
    # Where checkpoints are is not known yet; a setting can be added to the session later, not taken back.
    _beside(lambda: spark.start(local_checkpoints=False))


def helpers(session: SparkSession) -> None:
    """Start the Python processes that Spark wants next, one after the other; it keeps those that it has."""
    from runtime.source import nothing

    _beside(lambda: nothing.read(session))


def _beside(work: Callable[[], object]) -> None:
    def run() -> None:
        with suppress(Exception):
            work()

    threading.Thread(target=run, name="warm-up").start()
