"""S2Id(latitude, longitude, level)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.signature import Function, Signature
from daggersql.tree import Expr
from daggersql.types import STRING, Family

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


FUNCTION = Function(
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
