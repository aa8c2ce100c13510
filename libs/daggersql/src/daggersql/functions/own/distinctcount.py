"""DistinctCount(x)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.types import BIGINT, Family


def _distinct(kind: Family, value: str) -> Signature:
    """A Theta sketch of 2^15 entries over the value in a form that keeps different values different."""
    sketch = f"theta_sketch_estimate(theta_sketch_agg({value}, 15))"
    return Signature((kind,), BIGINT, f"coalesce(CAST(round({sketch}) AS BIGINT), 0L)")


FUNCTION = Function(
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
    doc=Doc(
        "How many different values a group has; NULL is none, a group without values has 0. Text is compared"
        " letter by letter, without Unicode normalisation; all NaN are one value.",
        (("x", "numbers, text, bytes, conditions, times"),),
        (
            ("DistinctCount('a')", "1"),
            ("DistinctCount(NULL)", "0"),
        ),
        dagger="keeps every value in state, whatever their number.",
        state="A Theta sketch: 8 bytes for each different value, at most 512 KiB; exact up to 32,768 values.",
    ),
)
