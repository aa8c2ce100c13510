"""Measure the groups of a query while their windows are open, and warn of large ones.

A list and a distinct count have a limit for each group (`daggersql.functions`). How near a group is to it
stands only in Spark's state, which a query shows when the window closes. But each batch writes its changed
groups to the checkpoint, and Spark can read those (its source `statestore`): so a check costs as much as was
changed, not as much as there is.

An aggregate's state is recognised by its first bytes: a list is a row of one array, a sketch has the id of
its family.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructType

from chassis import threads
from chassis.logging import logger
from daggersql.plan import GroupBound

# stateful operator, first and last batch -> the groups that these batches changed
Changes: TypeAlias = Callable[[int, int, int], DataFrame]

PERIOD_S = 30.0
LARGE = "LARGE_GROUPS"
_NEAR = 0.8
_KEEPS_GROUPS = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
# a row of Spark: 8 bytes of NULL bits, then size and offset of its only value, an array, which begins with
# its length. All numbers are little-endian
_IS_LIST = "(substring({0}, 1, 8) = X'0000000000000000' AND substring({0}, 13, 4) = X'10000000')"
_LENGTH = "conv(concat({digits}), 16, 10)"
# a sketch of DistinctCount, which has no limit, never is this large
_IS_COUNT = "(substring({0}, 3, 1) = X'03' AND octet_length({0}) > 1048576)"


@dataclass(frozen=True, slots=True)
class Largest:
    """Largest group for one limit, as of one check."""

    size: int
    groups: int
    """Number of groups near the limit or beyond."""
    time: datetime


def changes(session: SparkSession, checkpoint: str, operator: int, first: int, last: int) -> DataFrame:
    """Read the groups that these batches changed: `key` and `value`, both in Spark's format."""
    feed = session.read.format("statestore").option("readChangeFeed", "true").option("operatorId", operator)
    return feed.option("changeStartBatchId", first).option("changeEndBatchId", last).load(checkpoint)


class Groups:
    """Measures changed groups in a thread of its own; `warnings` may be called by any thread."""

    def __init__(
        self,
        bounds: Sequence[GroupBound],
        keeps: timedelta,
        *,
        changes: Changes,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """keeps: how long a group lives after its last record; a measurement is valid for as long."""
        self._changes = changes
        self._bounds = {bound.kind: bound for bound in bounds}
        self._keeps = keeps
        self._now = now
        self._committed = self._checked_batch = -1
        self._operators: tuple[str, ...] = ()
        self._found: dict[str, Largest] = {}

    def follow(self, ended: threading.Event) -> None:
        """Check every PERIOD_S until `ended`; not at all for a query without limits."""
        if self._bounds:
            threads.start(partial(self._run, ended), "groups")

    def record_batch(self, batch_id: int, operators: Sequence[str]) -> None:
        """Record a committed batch. operators: names of the query's stateful operators, in order."""
        if self._committed < 0:
            self._checked_batch = batch_id - 1
        self._operators = tuple(operators)
        self._committed = batch_id

    def check(self) -> None:
        """Measure the groups that batches have changed since the last check.

        Raises: PySparkException, where Spark cannot read the changes.
        """
        first, newest = self._checked_batch + 1, self._committed
        if newest < first:
            return
        self._checked_batch = newest
        now = self._now()
        self._found = {
            kind: largest_group
            for kind, largest_group in self._found.items()
            if now - largest_group.time < self._keeps
        }
        for operator, name in enumerate(self._operators):
            if name in _KEEPS_GROUPS:
                self._measure(self._changes(operator, first, newest), now)

    def warnings(self) -> tuple[str, ...]:
        """Warn of groups near a limit or beyond."""
        largest = sorted(self._found.items())
        return tuple(_warning(self._bounds[kind], largest_group) for kind, largest_group in largest)

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(PERIOD_S):
            try:
                self.check()
            except PySparkException as problem:
                # files of old batches are gone: the next check begins behind these
                logger().warning("groups.not_checked", why=str(problem).splitlines()[0])

    def _measure(self, changed: DataFrame, now: datetime) -> None:
        value = changed.schema["value"].dataType
        assert isinstance(value, StructType)
        # aggregates of one kind have equal field names: the cast of a struct is by position
        struct_fields = ", ".join(
            f"c{number}: {field.dataType.simpleString()}" for number, field in enumerate(value.fields)
        )
        columns = [
            f"v.c{number}" for number, field in enumerate(value.fields) if field.dataType == BinaryType()
        ]
        if not columns:
            return
        rows = changed.selectExpr("xxhash64(key) AS g", f"CAST(value AS struct<{struct_fields}>) AS v")
        sizes = {
            kind: f"greatest(0, {', '.join(_SIZES[kind](column) for column in columns)})"
            for kind in self._bounds
        }
        near = {kind: f"{size} >= {_NEAR * self._bounds[kind].most:.0f}" for kind, size in sizes.items()}
        answers = [
            text
            for kind, size in sizes.items()
            for text in (
                f"max({size}) AS {kind}_size",
                f"count(DISTINCT CASE WHEN {near[kind]} THEN g END) AS {kind}_groups",
            )
        ]
        answer = rows.selectExpr(*answers).first()
        assert answer is not None
        for kind in self._bounds:
            if groups := answer[f"{kind}_groups"]:
                self._found[kind] = Largest(int(answer[f"{kind}_size"]), groups, now)


def _length(column: str) -> str:
    digits = ", ".join(f"hex(substring({column}, {position}, 1))" for position in (20, 19, 18, 17))
    length = _LENGTH.format(digits=digits)
    return f"CASE WHEN {_IS_LIST.format(column)} THEN CAST({length} AS BIGINT) ELSE 0L END"


def _estimate(column: str) -> str:
    estimate = f"CAST(theta_sketch_estimate({column}) AS BIGINT)"
    return f"CASE WHEN {_IS_COUNT.format(column)} THEN {estimate} ELSE 0L END"


_SIZES = {"list": _length, "distinct": _estimate}


def _warning(bound: GroupBound, largest: Largest) -> str:
    groups = "A group has" if largest.groups == 1 else f"{largest.groups:,} groups have"
    up_to = "" if largest.groups == 1 else "up to "
    state = "more than" if largest.size > bound.most else "near"
    functions = " or ".join(bound.functions)
    return (
        f"{LARGE}: {groups} {up_to}{largest.size:,} values in {functions}, {state} the {bound.most:,} that"
        f" there is an answer for, and the window is still open. {bound.beyond}"
    )
