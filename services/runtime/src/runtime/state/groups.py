"""How large the groups of a query have grown, told while their windows are open.

A list and a count of different values have a bound for each group (`daggersql.functions`). Whether a group
nears it stands in Spark's state alone, which a query shows only when the window closes. But each batch leaves
the groups that it changed in the checkpoint, and Spark reads those back (its source `statestore`), so looking
at them every so often costs what has changed, not what there is.

What an aggregate keeps is known by how it begins: a list is a row of one array, a sketch names its family.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructType

from chassis.logging import logger
from daggersql.plan import Bound

# Which operator that has state, first and last batch -> what they changed.
Changes: TypeAlias = Callable[[int, int, int], DataFrame]

PERIOD_S = 30.0
LARGE = "LARGE_GROUPS"
_NEAR = 0.8
_KEEPS_GROUPS = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
# A row of Spark's: 8 bytes for NULLs, then size and place of its only value, an array, which says how many
# elements it has. All numbers are little-endian.
_IS_LIST = "(substring({0}, 1, 8) = X'0000000000000000' AND substring({0}, 13, 4) = X'10000000')"
_LENGTH = "conv(concat({digits}), 16, 10)"
# A sketch of DistinctCount, which has no bound, never takes as much.
_IS_COUNT = "(substring({0}, 3, 1) = X'03' AND octet_length({0}) > 1048576)"


@dataclass(frozen=True, slots=True)
class Largest:
    """What a look found of one bound."""

    size: int
    groups: int
    """Groups that are near the bound or beyond."""
    time: datetime


def changes(session: SparkSession, checkpoint: str, operator: int, first: int, last: int) -> DataFrame:
    """The groups that these batches changed: `key` and `value`, both as Spark keeps them."""
    feed = session.read.format("statestore").option("readChangeFeed", "true").option("operatorId", operator)
    return feed.option("changeStartBatchId", first).option("changeEndBatchId", last).load(checkpoint)


class Groups:
    """Looks at the groups that batches change, on a thread of its own; `warnings` is asked by any."""

    def __init__(
        self,
        bounds: Sequence[Bound],
        keeps: timedelta,
        *,
        changes: Changes,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`keeps` is how long a group is kept after its last record: what was seen of it holds as long."""
        self._changes = changes
        self._bounds = {bound.kind: bound for bound in bounds}
        self._keeps = keeps
        self._now = now
        self._committed = self._looked = -1
        self._operators: tuple[str, ...] = ()
        self._found: dict[str, Largest] = {}

    def follow(self, ended: threading.Event) -> None:
        """Look every PERIOD_S, until `ended`; not at all for a query without a bound."""
        if self._bounds:
            threading.Thread(target=self._run, args=(ended,), name="groups", daemon=True).start()

    def committed(self, batch_id: int, operators: Sequence[str]) -> None:
        """A batch was committed by a query with these operators that have state, in their order."""
        if self._committed < 0:
            self._looked = batch_id - 1
        self._operators = tuple(operators)
        self._committed = batch_id

    def look(self) -> None:
        """Look at what the batches since the last look have changed.

        Raises: PySparkException, when Spark cannot read it.
        """
        first, newest = self._looked + 1, self._committed
        if newest < first:
            return
        self._looked = newest
        now = self._now()
        self._found = {kind: seen for kind, seen in self._found.items() if now - seen.time < self._keeps}
        for operator, name in enumerate(self._operators):
            if name in _KEEPS_GROUPS:
                self._look_at(self._changes(operator, first, newest), now)

    def warnings(self) -> tuple[str, ...]:
        """What a person should know of groups that near a bound or are beyond."""
        largest = sorted(self._found.items())
        return tuple(_warning(self._bounds[kind], seen) for kind, seen in largest)

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(PERIOD_S):
            try:
                self.look()
            except PySparkException as problem:
                # A batch of long ago whose files are gone: the next look begins behind it.
                logger().warning("groups.not_checked", why=str(problem).splitlines()[0])

    def _look_at(self, changed: DataFrame, now: datetime) -> None:
        value = changed.schema["value"].dataType
        assert isinstance(value, StructType)
        # Aggregates of one kind call what they keep alike: a struct is cast by position.
        named = ", ".join(
            f"c{number}: {field.dataType.simpleString()}" for number, field in enumerate(value.fields)
        )
        kept = [f"v.c{number}" for number, field in enumerate(value.fields) if field.dataType == BinaryType()]
        if not kept:
            return
        rows = changed.selectExpr("xxhash64(key) AS g", f"CAST(value AS struct<{named}>) AS v")
        sizes = {
            kind: f"greatest(0, {', '.join(_SIZES[kind](column) for column in kept)})"
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


def _length(kept: str) -> str:
    digits = ", ".join(f"hex(substring({kept}, {position}, 1))" for position in (20, 19, 18, 17))
    length = _LENGTH.format(digits=digits)
    return f"CASE WHEN {_IS_LIST.format(kept)} THEN CAST({length} AS BIGINT) ELSE 0L END"


def _estimate(kept: str) -> str:
    estimate = f"CAST(theta_sketch_estimate({kept}) AS BIGINT)"
    return f"CASE WHEN {_IS_COUNT.format(kept)} THEN {estimate} ELSE 0L END"


_SIZES = {"list": _length, "distinct": _estimate}


def _warning(bound: Bound, seen: Largest) -> str:
    groups = "A group has" if seen.groups == 1 else f"{seen.groups:,} groups have"
    up_to = "" if seen.groups == 1 else "up to "
    state = "more than" if seen.size > bound.most else "near"
    functions = " or ".join(bound.functions)
    return (
        f"{LARGE}: {groups} {up_to}{seen.size:,} values in {functions}, {state} the {bound.most:,} that there"
        f" is an answer for, and the window is still open. {bound.beyond}"
    )
