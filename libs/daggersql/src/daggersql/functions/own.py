"""Our own functions: their signatures. The code is in runtime/udfs/, one file each."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.signature import Function, Signature
from daggersql.tree import Expr
from daggersql.types import BIGINT, STRING, Family

MAX_LEVEL = 30


def _check_level(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    level = arguments[2]
    whole = isinstance(level.value, int) and not isinstance(level.value, bool)
    if level.wrong or (level.is_constant and level.value is None):
        return
    if not whole or not 0 <= int(str(level.value)) <= MAX_LEVEL:
        report.error(
            "INVALID_ARGUMENT",
            level.span,
            f"The level of an S2 cell is a constant from 0 to {MAX_LEVEL}.",
            "13",
        )


S2ID = Function(
    "S2Id",
    (
        Signature(
            (Family.NUMBER, Family.NUMBER, Family.INTEGER),
            STRING,
            "s2id(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE), CAST({2} AS INT))",
        ),
    ),
    own=True,
    check=_check_level,
)


def _distinct(kind: Family, value: str) -> Signature:
    """A Theta sketch of 2^15 entries over the value in a form that keeps different values different."""
    sketch = f"theta_sketch_estimate(theta_sketch_agg({value}, 15))"
    return Signature((kind,), BIGINT, f"coalesce(CAST(round({sketch}) AS BIGINT), 0L)")


DISTINCT_COUNT = Function(
    "DistinctCount",
    (
        _distinct(Family.INTEGER, "CAST({0} AS BIGINT)"),
        # Adding 0 makes -0.0 and 0.0 one; as text, decimals of any length stay exact.
        _distinct(Family.NUMBER, "CAST({0} + 0 AS STRING)"),
        # The sketch ignores empty text and empty bytes: something stands before each.
        _distinct(Family.TEXT, "concat('=', {0})"),
        _distinct(Family.BINARY, "concat(X'00', {0})"),
        _distinct(Family.BOOLEAN, "CAST({0} AS INT)"),
        _distinct(Family.TIMESTAMP, "unix_micros({0})"),
        _distinct(Family.DATE, "unix_date({0})"),
    ),
    aggregate=True,
    own=True,
    warning="DistinctCount is exact up to 32,768 values a group; beyond that it is an estimate, in 95 of 100"
    " groups within 1.2 % of the truth.",
)
FUNCTIONS = (S2ID, DISTINCT_COUNT)

NOT_YET = (
    "S2AreaInKm2", "Distance", "GeoHash", "PercentileAggregator", "CollectArray", "Features",
    "FeaturesWithType", "ExponentialMovingAverage", "LinearTrend", "StartOfMonth", "EndOfMonth",
    "StartOfWeek", "EndOfWeek", "TimeInDate", "FormatTimeInZone", "TimestampFromUnix", "ElementAt",
    "ListContains", "ArrayOperate", "ArrayAggregate", "MapGet", "Split", "SelectFields", "Filters",
    "CondEq", "SingleFeatureWithType", "JsonQuery", "JsonUpdate", "JsonDelete", "ByteToString",
    "DartGet", "DartContains", "HistogramBucket", "OutlierMad",
)  # fmt: skip
"""Dagger's functions that are still to come: known by name, refused with that reason."""
