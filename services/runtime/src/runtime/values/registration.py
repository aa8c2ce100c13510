"""Bring functions to the SQL session of one launch.

How a function's module uses it:

    def register(session):
        session.function("s2id", compute, "string")

counts each row where no argument is NULL and the answer is. Where NULL is a proper answer, or one row may
hold several invalid values, the module counts itself:

    def register(session):
        counter = session.invalid_input("jsonquery")
        session.register_uncounted("jsonquery", partial(compute, counter), "string")

with `counter.add(n)` inside. A native expression has nobody to tell but a flag, which costs a trip to Python:
native are the functions that nearly always have an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from runtime.values.invalid_input import InvalidInput, counter, invalid_rows


class Registration:
    """The functions of one launch: the session that knows them, their message types, their invalid input.

    Two launches of one Spark application have one each, and neither sees what the other counts.
    """

    def __init__(self, spark: SparkSession, files: bytes = b"") -> None:
        """`files` are the message types that functions know, as a serialised FileDescriptorSet."""
        self.files = files
        self._spark = spark
        self._invalid = counter(spark.sparkContext)

    def invalid_input(self, function: str) -> InvalidInput:
        """Return the counter of one function, by its module's name."""
        return InvalidInput(self._invalid, function)

    def counts(self) -> Mapping[str, int]:
        """Count values that functions could not use, by function, over all finished tasks."""
        return Counter(self._invalid.value)

    def function(self, name: str, compute: Callable[..., pa.Array], returns: str) -> None:
        """Bring a function over Arrow arrays to the session; `returns` is its Spark type.

        A row counts as invalid when no argument is NULL and the answer is.
        """
        invalid = self.invalid_input(name)

        def compute_and_count(*arrays: pa.Array) -> pa.Array:
            answers = compute(*arrays)
            invalid.add(invalid_rows(arrays, answers))
            return answers

        self.register_uncounted(name, compute_and_count, returns)

    def flag(self, function: str, name: str) -> None:
        """Bring `name(flag BOOLEAN) -> BOOLEAN`, the flag itself: counts each row where it is true.

        So a native expression can tell: `CASE WHEN NOT name(is invalid) THEN … END`.
        """
        invalid = self.invalid_input(function)

        def count_true(flags: pa.Array) -> pa.Array:
            invalid.add(int(pc.sum(flags).as_py() or 0))
            return flags

        self.register_uncounted(name, count_true, "boolean")

    def register_uncounted(self, name: str, compute: Callable[..., pa.Array], returns: str) -> None:
        """Bring a function that counts itself, or has nothing to count."""
        # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
        self._spark.udf.register(name, arrow_udf(compute, returns))  # type: ignore[call-overload]
