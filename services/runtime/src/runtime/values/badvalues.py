"""Values that a function could not use: NULL for the query, and counted for the heartbeat.

Counted in the workers, where they are met, by a Spark accumulator: the updates of a task travel with its
result, once for each task that succeeds, and are all there when a job's action returns. The driver takes the
counts of the attempt that wrote the batch (`launch.batch`). What a reader computes itself it counts in its
notes (`source.notes`). Spark computes a Python function for every row before
it looks at the CASE around it, so what a CASE would have left out is counted too.

How a function's module uses it:

    def register(spark):
        badvalues.register(spark, "s2id", compute, "string")

counts each row where no argument is NULL and the answer is. Where NULL is a proper answer, or one row may
hold several bad values, the module counts itself:

    def register(spark):
        tally = badvalues.tally(spark, "jsonquery")
        spark.udf.register("jsonquery", arrow_udf(partial(compute, tally), …))

with `tally.add(n)` inside. A native expression has nobody to tell but a flag (`register_flag`), which costs
a trip to Python: native are the functions that nearly always have an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf


class _Counting(AccumulatorParam[Counter[str]]):
    """Adds counts up, name by name."""

    def zero(self, value: Counter[str]) -> Counter[str]:
        """No counts."""
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802 - Spark's name
        """Both together."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts the bad values of one function. Picklable: goes to the workers with the function."""

    _total: Accumulator[Any]
    _function: str

    def add(self, count: int) -> None:
        """So many more values could not be used."""
        if count:
            self._total.add(Counter({self._function: count}))


def tally(spark: SparkSession, function: str) -> Tally:
    """The counter of one function, by its module's name."""
    return Tally(_total(spark.sparkContext), function)


def register(spark: SparkSession, function: str, compute: Callable[..., pa.Array], returns: str) -> None:
    """Bring a function over Arrow arrays to a session; `returns` is its Spark type.

    A row counts as bad when no argument is NULL and the answer is.
    """
    found = tally(spark, function)

    def counted(*arrays: pa.Array) -> pa.Array:
        answers = compute(*arrays)
        found.add(bad_rows(arrays, answers))
        return answers

    # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
    spark.udf.register(function, arrow_udf(counted, returns))  # type: ignore[call-overload]


def bad_rows(arguments: tuple[pa.Array, ...], answers: pa.Array) -> int:
    """How many rows have every argument and no answer."""
    if answers.null_count == 0:
        return 0
    unanswered = pc.is_null(answers)
    known = reduce(pc.and_, (pc.is_valid(each) for each in arguments), unanswered)
    return int(pc.sum(known).as_py() or 0)


def register_flag(spark: SparkSession, function: str, name: str) -> None:
    """Bring `name(flag BOOLEAN) -> BOOLEAN`, the flag itself, to a session: counts each row where it is true.

    So a native expression can tell: `CASE WHEN NOT name(is bad) THEN … END`.
    """
    found = tally(spark, function)

    def counted(flags: pa.Array) -> pa.Array:
        found.add(int(pc.sum(flags).as_py() or 0))
        return flags

    # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
    spark.udf.register(name, arrow_udf(counted, "boolean"))  # type: ignore[call-overload]


def counts(spark: SparkSession) -> Mapping[str, int]:
    """Bad values since the session began, by function: what all finished tasks have said."""
    return Counter(_total(spark.sparkContext).value)


@lru_cache(maxsize=1)
def _total(context: SparkContext) -> Accumulator[Any]:
    """The one accumulator of a Spark application."""
    return context.accumulator(Counter(), _Counting())
