"""HistogramBucket(value, bounds): the buckets of a cumulative histogram that a value falls into.

The fast form is native: `daggersql.functions.own` writes it into the query.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def reference(value: float | None, bounds: str | None) -> list[tuple[str]]:
    """'+Inf', then every bound that is not below the value, as it is written; no row for NULL."""
    if value is None or bounds is None:
        return []
    return [("+Inf",), *((bound,) for bound in bounds.split(",") if float(bound) >= value)]


def register(spark: SparkSession) -> None:
    """Nothing to bring: Spark has filters over lists."""
