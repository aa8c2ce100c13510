"""Check that a driver on a standalone cluster has executors.

Spark itself waits for ever: for cores that others use, for a master that is gone, and for one that was
restarted without its state, which ends the executors of applications that it does not know and gives them no
others. A driver that its master knows waits, too, and says for what: it has its place in the master's queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from chassis import pressure
from chassis.logging import logger
from daggerspec import exits
from daggerspec.master import Manager, parse
from runtime.errors import JobError, external
from runtime.spark import master_page
from runtime.spark.executor_ends import ExecutorEnds, describe_ends
from runtime.spark.master_page import MasterState

_PERIOD_S: Final = 5.0
_LOOKS: Final = 13
"""Checks in a row without an executor before the error: a minute. Counting checks ignores time asleep."""
_LOOKS_OVERLOADED: Final = 61
"""Checks before the error on an overloaded host, where an executor may only be slow to start."""
_LOOKS_WAITING: Final = 2
"""Checks in a row without an executor before it is told what the driver waits for: five seconds."""
_LOOKS_FORGOTTEN: Final = 4
"""Checks in a row in which the master does not know the driver, before the error."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class RequestedShare:
    """Executors that an application asks its master for."""

    application: str
    """Its id."""
    cores: int
    """Cores of all its executors; 0 where it takes all."""
    executor_cores: int
    memory_mib: int
    """Memory of an executor; 0 where unknown."""


class Executors:
    """Counts the executors now and then."""

    def __init__(
        self,
        master: str,
        count: Callable[[], int],
        clock: Callable[[], float],
        overload: Callable[[], str] = pressure.overload,
        *,
        share: RequestedShare = RequestedShare("", 0, 1, 0),
        look: Callable[[], MasterState | None] = lambda: None,
        ends: Callable[[], str] = lambda: "",
    ) -> None:
        """count: returns the number of executors.

        overload: returns what overloads this host; empty if nothing does. look: returns the state of the
        master; None where its page does not answer. ends: describes executors that ended lately.
        """
        self._master, self._count, self._clock, self._overload = master, count, clock, overload
        self._share, self._look, self._ends = share, look, ends
        self._next, self._without, self._unknown = clock(), 0, 0
        self.waiting = ""
        """What the driver waits for, for a person; empty while it has executors, or may have soon."""
        self.ended = ""
        """Which executors ended lately, and of what, for a person; empty for none."""

    def check(self) -> None:
        """Check that there are executors, or were lately, or that the master knows who waits for them.

        Raises: JobError (EXTERNAL, retryable).
        """
        if self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD_S
        self.ended = self._ends()
        self._without = 0 if self._count() else self._without + 1
        self.waiting = ""
        if self._without < _LOOKS_WAITING:
            self._unknown = 0
            return
        if self._waits_in_queue():
            self._without = _LOOKS_WAITING  # a minute counts from where nobody knows that it waits
            return
        if self._without < _LOOKS or (self._without < _LOOKS_OVERLOADED and self._overload()):
            return
        raise self._error(
            "has given this driver no executor for a minute or longer: it does not answer, has too little"
            " free, or has forgotten the driver when it was started anew; or its executors do not come up."
        )

    def _waits_in_queue(self) -> bool:
        """Tell whether the master has this driver in its queue, and say for what it waits.

        Not where it has cores already, whose executors have to come up. Raises: JobError where the master
        does not know the driver.
        """
        state = self._look() if self._share.application else None
        if state is None:
            return False
        own = state.application(self._share.application)
        self._unknown = 0 if own is not None else self._unknown + 1
        if self._unknown >= _LOOKS_FORGOTTEN:
            raise self._error("does not know this driver: it was started anew without what it knew.")
        if own is None or own.cores:
            return False
        self.waiting = describe_wait(self._master, self._share, state)
        return True

    def _error(self, text: str) -> JobError:
        return external(exits.NO_EXECUTORS, f"Spark master {self._master} {text}", retryable=True)


def describe_wait(master: str, share: RequestedShare, state: MasterState) -> str:
    """Describe what a driver waits for: what it asks for, what is free, and who has the rest."""
    size = f"{share.executor_cores} core{'s' if share.executor_cores > 1 else ''}"
    memory = f" and {share.memory_mib:,} MiB" if share.memory_mib else ""
    wish = f"{share.cores} cores" if share.cores else "all cores"
    begin = (
        f"it waits for executors: it asks Spark master {master} for {wish}, in executors of {size}{memory}"
    )
    if not state.workers:
        return f"{begin}, and the master has no worker"
    has = f"{state.free:,} of the {state.cores:,} cores of its {state.workers:,} workers are free"
    holders = sorted(
        (holder for holder in state.applications if holder.cores), key=lambda holder: -holder.cores
    )
    named = [f"{_dagger(holder.name)} has {holder.cores:,}" for holder in holders[:_MOST_NAMED]]
    if len(holders) > _MOST_NAMED:
        named.append(f"{len(holders) - _MOST_NAMED} more have the rest")
    if state.free >= share.executor_cores:
        named.append("no worker has that much memory and that many cores free at once")
    return f"{begin}; {has}{': ' if named else ''}{', '.join(named)}"


def _dagger(application: str) -> str:
    """Return the name of the dagger whose driver an application is; of another one its own."""
    platform, _, rest = application.partition(".")
    name, _, generation = rest.rpartition(".")
    return name if platform == "daggers" and generation.isdigit() else application


def asked_cores(conf: SparkConf) -> int:
    """Return the number of cores that an application asks for in all executors; 0 where that may change."""
    if not _lasts(conf):
        return 0
    cores, count = _number(conf, "spark.cores.max", 0), _number(conf, "spark.executor.instances", 0)
    return cores or count * _number(conf, "spark.executor.cores", 1)


def of(session: SparkSession, web_urls: Sequence[str], clock: Callable[[], float]) -> Executors:
    """Build the check of an application; `web_urls`: of the pages of its masters, one of which leads.

    Only without dynamic allocation on a standalone cluster does it count executors: anywhere else an
    application may be without any, or cannot.
    """
    context = session.sparkContext
    url = str(context.master)
    master, conf = parse(url), context.getConf()
    if master is None or master.is_local or not _lasts(conf):
        return Executors(url, lambda: 1, clock)

    ended = ExecutorEnds(session)

    def ends() -> str:
        try:
            return describe_ends(ended.read(), datetime.now(UTC))
        except Py4JError as problem:  # it is told for people: no driver ends of it
            logger().warning("executors.check_failed", why=str(problem).partition("\n")[0])
            return ""

    if master.manager is not Manager.STANDALONE:
        return Executors(url, lambda: 1, clock, ends=ends)
    spark = context._jsc.sc()  # noqa: SLF001 - PySpark does not tell
    share = RequestedShare(
        application=str(context.applicationId),
        cores=_number(conf, "spark.cores.max", 0),
        executor_cores=_number(conf, "spark.executor.cores", 1),
        memory_mib=int(spark.executorMemory()),
    )
    return Executors(
        url,
        # the driver counts as one
        lambda: int(spark.getExecutorMemoryStatus().size()) - 1,
        clock,
        share=share,
        look=lambda: next(filter(None, map(master_page.read, web_urls)), None),
        ends=ends,
    )


def _lasts(conf: SparkConf) -> bool:
    """Tell whether an application keeps as many executors as it has asked for."""
    return conf.get("spark.dynamicAllocation.enabled", "false") != "true"


def _number(conf: SparkConf, name: str, default: int) -> int:
    return int(conf.get(name, "") or default)
