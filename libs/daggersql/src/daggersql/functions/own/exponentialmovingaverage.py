"""ExponentialMovingAverage(times, values, hop_start, window, alpha)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.series import (
    TIMES,
    VALUES,
    call_with,
    check_lists,
    check_minutes,
    check_range,
)
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import DOUBLE, TIMESTAMP

_FORM = Form("exponentialmovingaverage({rest})")
_KINDS = (TIMES, VALUES, TIMESTAMP, DOUBLE, DOUBLE)


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    times, values, _, window, alpha = arguments
    check_lists(times, values, report)
    check_minutes(window, "window", report)
    check_range(alpha, "weight alpha", 0, 1, report, whole=False)


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    return call_with(_FORM, arguments, _KINDS, DOUBLE, span)


FUNCTION = Function(
    "ExponentialMovingAverage",
    (
        Signature(
            (Family.ARRAY, Family.ARRAY, Family.TIMESTAMP, Family.NUMBER, Family.NUMBER),
            DOUBLE,
            _FORM,
        ),
    ),
    own=True,
    check=_check,
    build=_build,
    doc=Doc(
        about="The exponential moving average of a series of one value a minute: each minute weighs alpha,"
        " all before it together the rest; the oldest minute carries the remaining weight. A minute without a"
        " value is 0, of two values in one minute the later in the list counts, and points outside of the"
        " window are left out. NULL when a list or a number is NULL, or the lists differ in length.",
        parameters=(
            ("times", "list of timestamps, such as CollectArray(w)"),
            ("values", "list of numbers of the same length; a point whose time or value is NULL is left out"),
            ("hop_start", "begin of the window, such as HOP_START(…)"),
            ("window", "length of the window in whole minutes, from 1 to 44,640"),
            ("alpha", "weight of the newest minute, from 0 to 1"),
        ),
        examples=(),
        dagger="Counts points before and after the window too.",
    ),
)
