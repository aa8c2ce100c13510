"""Aggregates that collect the different values of a group: LISTAGG(DISTINCT …), CollectArray(DISTINCT …).

A group keeps each value once, however many rows have it, and no NULL. A set has no order that a replay would
give again, so its values come sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.checks import check_constant_text
from daggersql.functions.collected import MOST, let
from daggersql.functions.signature import Function, Signature
from daggersql.ir.expr import Expr, call, text_constant
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Keeps, Op
from daggersql.ir.types import STRING, Array

_SORTED = (Family.TEXT, Family.INTEGER, Family.NUMBER, Family.BOOLEAN, Family.TIMESTAMP, Family.DATE)
_TOO_MANY = f"[daggers USER RESULT_TOO_LARGE] A group has more than {MOST:,} different values: group by more."

_LISTED = let(
    "array_sort(collect_set({0}))",
    "once",
    f"CASE WHEN size(once) > {MOST} THEN raise_error('{_TOO_MANY}') ELSE once END",
)


_SORTED_ONCE = Form(_LISTED, keeps=Keeps("list", "a list of DISTINCT values", ends=True))
_JOINED = Form("CASE WHEN size({0}) > 0 THEN array_join({0}, {1}) END")


def _values(value: Expr, span: Span, where: Expr | None) -> Expr:
    """Build the sorted values of a group that meet the condition of FILTER."""
    among = value if where is None else call(Op.CASE, value.type, span, where, value)
    return Expr(_SORTED_ONCE, Array(value.type), span, (among,), aggregate=True)


def _list(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    return _values(arguments[0], span, where)


def _text(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    separator = arguments[1] if len(arguments) > 1 else text_constant(",", STRING, span)
    return call(_JOINED, STRING, span, _values(arguments[0], span, where), separator)


FORMS = {
    "LISTAGG": Function(
        "LISTAGG",
        (
            Signature((Family.TEXT,), STRING, _SORTED_ONCE),
            Signature((Family.TEXT, Family.TEXT), STRING, _SORTED_ONCE),
        ),
        aggregate=True,
        check=check_constant_text(1, "The separator", "','"),
        build=_text,
    ),
    "COLLECTARRAY": Function(
        "CollectArray",
        tuple(Signature((family,), 0, _SORTED_ONCE) for family in _SORTED),
        aggregate=True,
        build=_list,
    ),
}
"""By their names in capitals, what they are when DISTINCT stands before their first argument."""
