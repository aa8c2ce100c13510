"""Counts of distinct values of a group, by a Theta sketch: exact while it keeps every value."""

from __future__ import annotations

from daggersql.functions.signature import Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Keeps
from daggersql.ir.types import BIGINT

MOST = 1_000_000
"""Different values of a group that COUNT(DISTINCT …) counts; beyond, the dagger fails and says so."""
KEPT = 20  # the sketch keeps 2^20 values

# Each value in a form that keeps different values different.
_FORMS = (
    (Family.INTEGER, "CAST({0} AS BIGINT)"),
    # Adding 0 makes -0.0 and 0.0 one; as text, decimals of any length stay exact.
    (Family.NUMBER, "CAST({0} + 0 AS STRING)"),
    # The sketch ignores empty text and empty bytes: something stands before each.
    (Family.TEXT, "concat('=', {0})"),
    (Family.BINARY, "concat(X'00', {0})"),
    (Family.BOOLEAN, "CAST({0} AS INT)"),
    (Family.TIMESTAMP, "unix_micros({0})"),
    (Family.DATE, "unix_date({0})"),
)


def signatures(log_size: int, answer: str = "{n}", keeps: Keeps | None = None) -> tuple[Signature, ...]:
    """Build a signature for each kind of value. The sketch keeps 2^`log_size` values. `answer`: SQL over the
    number {n}.
    """
    result = []
    for kind, form in _FORMS:
        sketch = f"theta_sketch_estimate(theta_sketch_agg({form}, {log_size}))"
        number = f"coalesce(CAST(round({sketch}) AS BIGINT), 0L)"
        result.append(Signature((kind,), BIGINT, Form(answer.replace("{n}", number), keeps=keeps)))
    return tuple(result)


_TOO_MANY = (
    f"[daggers USER RESULT_TOO_LARGE] A group has more than {MOST:,} different values in COUNT(DISTINCT …):"
    " use DistinctCount, which estimates beyond its bound, or group by more."
)
COUNT_DISTINCT = Function(
    "COUNT(DISTINCT",
    signatures(
        KEPT,
        f"CASE WHEN {{n}} > {MOST} THEN raise_error('{_TOO_MANY}') ELSE {{n}} END",
        Keeps("distinct", "COUNT(DISTINCT …)", ends=True),
    ),
    aggregate=True,
)
"""Function of COUNT(DISTINCT x); its name cannot be called."""
