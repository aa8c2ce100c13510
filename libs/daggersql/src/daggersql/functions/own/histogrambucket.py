"""HistogramBucket(value, bounds): rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions import reals
from daggersql.functions.collected import let
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.types import STRING, Array, Struct

_ROWS = (("bucket", STRING),)
# The value is computed outside of the lambda: it may call a function of ours.
_BOUNDS = let(
    "CAST({0} AS DOUBLE)",
    "v",
    "CASE WHEN v IS NOT NULL THEN transform(concat(array('+Inf'), filter(split({1}, ','),"
    " b -> try_cast(b AS DOUBLE) >= v)), b -> named_struct('bucket', b)) END",
)


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    bounds = arguments[1]
    text = bounds.value
    if not isinstance(text, str):
        report.error(
            "INVALID_ARGUMENT", bounds.span, "The bounds are a constant, numbers with commas between them."
        )
        return
    for bound in bounds_of(text):
        number = reals.read(bound)
        if number is None or math.isnan(number):
            report.error(
                "INVALID_ARGUMENT",
                bounds.span,
                f"The bound {bound!r} is no number: write numbers with commas between them, such as '1,2,5'.",
            )
            return


def bounds_of(text: str) -> list[str]:
    """Split bounds; as in Java, last commas are ignored."""
    bounds = text.split(",")
    while len(bounds) > 1 and not bounds[-1]:
        bounds.pop()
    return bounds


FUNCTION = Function(
    "HistogramBucket",
    (Signature((Family.NUMBER, Family.TEXT), Array(Struct(_ROWS)), _BOUNDS),),
    own=True,
    check=_check,
    rows=_ROWS,
    doc=Doc(
        about="The buckets of a cumulative histogram that a value falls into: '+Inf', then each bound that is"
        " not below the value, as it was written. No row for NULL.",
        parameters=(
            ("value", "a number"),
            (
                "bounds",
                "a constant: upper bounds with commas between them, such as '10,50,100', as Java reads them",
            ),
        ),
        examples=(),
    ),
)
