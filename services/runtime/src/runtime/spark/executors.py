"""Whether a driver on a standalone cluster has anything to compute with.

Spark itself waits for ever: for cores that others hold, for a master that is gone, and for one that came back
without what it knew, which ends the executors of an application it has never heard of and gives it no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from chassis import pressure
from daggerspec import exits
from daggerspec.master import Manager, parse
from runtime.errors import external

_PERIOD_S: Final = 5.0
_LOOKS: Final = 13
"""In a row that find none: a minute. A process that slept has looked less often, not longer."""
_LOOKS_OVERLOADED: Final = 61
"""The same where an executor may only take long to start: to ask for another one would take longer."""


class Executors:
    """Looks now and then how many executors there are."""

    def __init__(
        self,
        master: str,
        count: Callable[[], int],
        clock: Callable[[], float],
        overload: Callable[[], str] = pressure.overload,
    ) -> None:
        """`overload`: what this host has too much of; empty where nothing is."""
        self._master, self._count, self._clock, self._overload = master, count, clock, overload
        self._next, self._without = clock(), 0

    def check(self) -> None:
        """Return while there are some, or have been lately. Raises: JobError (EXTERNAL, retryable)."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD_S
        self._without = 0 if self._count() else self._without + 1
        if self._without < _LOOKS or (self._without < _LOOKS_OVERLOADED and self._overload()):
            return
        raise external(
            exits.NO_EXECUTORS,
            f"Spark master {self._master} has given this driver no executor for a minute or longer: it does"
            " not answer, has too little free, or has forgotten the driver when it was started anew.",
            retryable=True,
        )


def of(session: SparkSession, clock: Callable[[], float]) -> Executors:
    """Those of an application. Only on a standalone cluster it can be without any, and only where they do not
    come and go as Spark needs them.
    """
    context = session.sparkContext
    url = str(context.master)
    master = parse(url)
    lasting = context.getConf().get("spark.dynamicAllocation.enabled", "false") != "true"
    if master is None or master.manager is not Manager.STANDALONE or not lasting:
        return Executors(url, lambda: 1, clock)
    spark = context._jsc.sc()  # noqa: SLF001 - PySpark does not tell
    # The driver is one of them.
    return Executors(url, lambda: int(spark.getExecutorMemoryStatus().size()) - 1, clock)
