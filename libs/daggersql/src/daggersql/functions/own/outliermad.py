"""OutlierMad(values, times, hop_start, window, observed, tolerance, percentage): rows."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.series import TIMES, VALUES, call_with, check_lists, check_minutes, check_range
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, Array, Struct

_FORM = Form("outliermad({rest})")
_KINDS = (VALUES, TIMES, TIMESTAMP, BIGINT, BIGINT, DOUBLE, DOUBLE)
_ROWS = (
    ("timestamp", TIMESTAMP),
    ("value", DOUBLE),
    ("upper", DOUBLE),
    ("lower", DOUBLE),
    ("is_outlier", BOOLEAN),
)
_MOST_TOLERANCE = 1_000_000


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    values, times, _, window, observed, tolerance, percentage = arguments
    check_lists(times, values, report)
    check_minutes(window, "window", report)
    check_minutes(observed, "observation period", report)
    check_range(tolerance, "tolerance", 0, _MOST_TOLERANCE, report, whole=False)
    check_range(percentage, "percentage of outliers", 0, 100, report, whole=False)


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    return call_with(_FORM, arguments, _KINDS, Array(Struct(_ROWS)), span)


FUNCTION = Function(
    "OutlierMad",
    (
        Signature(
            (
                Family.ARRAY,
                Family.ARRAY,
                Family.TIMESTAMP,
                Family.INTEGER,
                Family.INTEGER,
                Family.NUMBER,
                Family.NUMBER,
            ),
            Array(Struct(_ROWS)),
            _FORM,
        ),
    ),
    own=True,
    check=_check,
    build=_build,
    rows=_ROWS,
    doc=Doc(
        about="Whether a series goes astray at its end, by the double median absolute deviation: the median"
        " of all values splits them in two halves, each with its own deviation; a value further from the"
        " median than the tolerance times its half's deviation is an outlier. Gives a row for each point of"
        " the observation period, in the order of time, with the bounds its value is held against; the flag,"
        " the same on every row, tells whether outliers make up the percentage of these points. When a half"
        " does not deviate at all nothing is an outlier, and both bounds are the value. No row when a list or"
        " a number is NULL, when the lists differ in length, and for an empty observation period.",
        parameters=(
            ("values", "list of numbers, such as CollectArray(v); NULL and what is not finite are left out"),
            ("times", "list of timestamps of the same length"),
            ("hop_start", "begin of the window, such as HOP_START(…)"),
            ("window", "length of the window in whole minutes, from 1 to 44,640"),
            ("observed", "length of the observation period, in whole minutes before the window's end"),
            ("tolerance", "deviations that a value may be away from the median"),
            ("percentage", "share of outliers, from 0 to 100, that sets the flag"),
        ),
        examples=(),
        dagger="Fails for NULL in a list.",
    ),
)
