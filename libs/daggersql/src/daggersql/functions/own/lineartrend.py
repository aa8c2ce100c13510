"""LinearTrend(times, values, hop_start, minutes)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.series import TIMES, VALUES, call_with, check_lists, check_minutes
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BIGINT, DOUBLE, TIMESTAMP

_FORM = Form("lineartrend({rest})")
_KINDS = (TIMES, VALUES, TIMESTAMP, BIGINT)


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    check_lists(arguments[0], arguments[1], report)
    check_minutes(arguments[3], "window", report)


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    return call_with(_FORM, arguments, _KINDS, DOUBLE, span)


FUNCTION = Function(
    "LinearTrend",
    (Signature((Family.ARRAY, Family.ARRAY, Family.TIMESTAMP, Family.INTEGER), DOUBLE, _FORM),),
    own=True,
    check=_check,
    build=_build,
    doc=Doc(
        about="The slope, per minute, of the straight line that fits a series of one value a minute best"
        " (least squares). A minute without a value is 0, of two values in one minute the later in the list"
        " counts, and points outside of the window are left out. NULL when a list or a number is NULL, when"
        " the lists differ in length, and for a window of one minute, which has no slope.",
        parameters=(
            ("times", "list of timestamps, such as CollectArray(w)"),
            ("values", "list of numbers of the same length; a point whose time or value is NULL is left out"),
            ("hop_start", "begin of the window, such as HOP_START(…)"),
            ("minutes", "length of the window in whole minutes, from 1 to 44,640"),
        ),
        examples=(),
        dagger="Fails for points outside of the window, and gives NaN for a window of one minute.",
    ),
)
