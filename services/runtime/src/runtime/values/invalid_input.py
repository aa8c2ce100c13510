"""Values that a function could not use: NULL for the query, and counted for the heartbeat.

Counted in the workers, where they are met, by a Spark accumulator: the updates of a task travel with its
result, once for each task that succeeds, and are all there when a job's action returns. The driver takes the
counts of the attempt that wrote the batch (`launch.batch`). What a reader computes itself it counts in its
control rows. Spark computes a Python function for every row before it looks at the CASE around it, so what a
CASE would have left out is counted too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam


class _Counting(AccumulatorParam[Counter[str]]):
    """Adds counts up by function."""

    def zero(self, value: Counter[str]) -> Counter[str]:
        """Return no counts: Spark starts each task with them."""
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802 - Spark's name
        """Add the second counts to the first, in place."""
        value1.update(value2)
        return value1


def counter(context: SparkContext) -> Accumulator[Counter[str]]:
    """Counts by function, from all workers of a Spark application."""
    return context.accumulator(Counter(), _Counting())


@dataclass(frozen=True, slots=True)
class InvalidInput:
    """Counts the invalid input of one function. Picklable: goes to the workers with the function."""

    _counter: Accumulator[Any]
    _function: str

    def add(self, count: int) -> None:
        """Count values that could not be used."""
        if count:
            self._counter.add(Counter({self._function: count}))


def invalid_rows(arguments: tuple[pa.Array, ...], answers: pa.Array) -> int:
    """Count the rows that have every argument and no answer."""
    if answers.null_count == 0:
        return 0
    unanswered = pc.is_null(answers)
    missing = reduce(pc.and_, (pc.is_valid(argument) for argument in arguments), unanswered)
    return int(pc.sum(missing).as_py() or 0)
