"""PercentileAggregator(p, x)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import MOST, let, too_many
from daggersql.functions.series import number_of
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, cast, constant
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import DOUBLE

_ACCURACY = 2_000
_APPROXIMATE = (
    f"PercentileAggregator is exact up to {MOST:,} values a group; beyond that it is a value whose rank is at"
    f" most {100 / _ACCURACY:g} % of the group away."
)


_NUMBER = Form("CASE WHEN NOT isnan({0}) THEN {0} END")
_CHOSEN = Form("CASE WHEN NOT isnan({0}) AND {1} THEN {0} END")
_POSITION = "({1} * (size(s) + 1) / 100)"
_LOW, _HIGH = (f"get(s, CAST(floor({_POSITION}) AS INT){step})" for step in (" - 1", ""))
_BETWEEN = f"{_LOW} + ({_POSITION} - floor({_POSITION})) * ({_HIGH} - {_LOW})"
_EXACT = let(
    f"collect_top_k({{0}}, {MOST}, true)",  # the least ones, sorted: all of them, in this branch
    "s",
    f"CASE WHEN {_POSITION} < 1 THEN get(s, 0) WHEN {_POSITION} >= size(s) THEN get(s, size(s) - 1)"
    f" WHEN {_LOW} = {_HIGH} THEN {_LOW} ELSE {_BETWEEN} END",
)
_ESTIMATE = f"approx_percentile({{0}}, {{2}}, {_ACCURACY})"
_PERCENTILE = Form(f"CASE WHEN {too_many('{0}')} THEN {_ESTIMATE} ELSE {_EXACT} END")


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    percentile = arguments[0]
    number = number_of(percentile)
    if number is None or not 0 < number <= 100:
        report.error(
            "INVALID_ARGUMENT",
            percentile.span,
            "The percentile is a constant above 0 and at most 100.",
            "50",
        )


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    """Build the value at position p (n + 1) / 100 of the sorted ones, interpolated; within the bound."""
    p = number_of(arguments[0]) or 50.0
    value = cast(arguments[1], DOUBLE)
    number = (
        call(_NUMBER, DOUBLE, span, value) if where is None else call(_CHOSEN, DOUBLE, span, value, where)
    )
    parts = (constant(repr(share), share, DOUBLE, span) for share in (p, p / 100))
    return Expr(_PERCENTILE, DOUBLE, span, (number, *parts), aggregate=True)


FUNCTION = Function(
    "PercentileAggregator",
    (Signature((Family.NUMBER, Family.NUMBER), DOUBLE, "{1}"),),
    aggregate=True,
    own=True,
    check=_check,
    build=_build,
    warning=_APPROXIMATE,
    doc=Doc(
        about="The percentile of a group's numbers: the value at position p (n + 1) / 100 of the n sorted"
        " ones, on the straight line between the two that it falls between. NULL and NaN are left out; NULL"
        " for a group without numbers.",
        parameters=(("p", "a constant above 0 and at most 100"), ("x", "a number")),
        examples=(),
        dagger="Fails for NULL and for a group without numbers.",
        state=f"Up to {MOST:,} numbers of 8 bytes, and a summary of some 100 KiB at most. {_APPROXIMATE}",
    ),
)
