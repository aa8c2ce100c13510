"""Check that a driver on a standalone cluster has executors.

Spark itself waits for ever: for cores that others use, for a master that is gone, and for one that was
restarted without its state, which ends the executors of applications that it does not know and gives them no
others.
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
"""Checks in a row without an executor before the error: a minute. Counting checks ignores time asleep."""
_LOOKS_OVERLOADED: Final = 61
"""Checks before the error on an overloaded host, where an executor may only be slow to start."""


class Executors:
    """Counts the executors now and then."""

    def __init__(
        self,
        master: str,
        count: Callable[[], int],
        clock: Callable[[], float],
        overload: Callable[[], str] = pressure.overload,
    ) -> None:
        """count: returns the number of executors.

        overload: returns what overloads this host; empty if nothing does.
        """
        self._master, self._count, self._clock, self._overload = master, count, clock, overload
        self._next, self._without = clock(), 0

    def check(self) -> None:
        """Check that there are executors, or were lately. Raises: JobError (EXTERNAL, retryable)."""
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
    """Build the check of an application.

    Only without dynamic allocation on a standalone cluster does it count executors: anywhere else an
    application may be without any, or cannot.
    """
    context = session.sparkContext
    url = str(context.master)
    master = parse(url)
    lasting = context.getConf().get("spark.dynamicAllocation.enabled", "false") != "true"
    if master is None or master.manager is not Manager.STANDALONE or not lasting:
        return Executors(url, lambda: 1, clock)
    spark = context._jsc.sc()  # noqa: SLF001 - PySpark does not tell
    # the driver counts as one
    return Executors(url, lambda: int(spark.getExecutorMemoryStatus().size()) - 1, clock)
