"""DistinctCount(x)."""

from __future__ import annotations

from daggersql.functions.distinct import signatures
from daggersql.functions.signature import Doc, Function

FUNCTION = Function(
    "DistinctCount",
    signatures(15),
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
