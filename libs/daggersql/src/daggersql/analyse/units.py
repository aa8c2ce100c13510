"""EXTRACT, FLOOR TO and CEIL TO: calls that name a unit of time."""

from __future__ import annotations

from daggersql.findings import Report, Span
from daggersql.functions.general import PARTS, TIME_UNITS
from daggersql.ir.expr import Expr, call, wrong
from daggersql.ir.ops import Op
from daggersql.ir.types import BIGINT, TIMESTAMP, Family, fits
from daggersql.operators.coercion import describe
from daggersql.syntax import tree, units
from daggersql.syntax.cursor import span


def unit_of_time(
    name: str, unit: tree.Node, value: Expr, place: Span, report: Report, *, constant: bool = False
) -> Expr:
    """EXTRACT, FLOOR TO and CEIL TO (`name`) of a timestamp; `constant`: the unit stands in quotes."""
    known = PARTS if name == "EXTRACT" else TIME_UNITS
    word = unit.name.removesuffix("S")
    if word not in known:
        units.refuse(unit.name, span(unit), report, known, constant=constant)
        return wrong(place)
    if value.wrong:
        return wrong(place)
    if not fits(value.type, Family.TIMESTAMP):
        report.error("TYPE_MISMATCH", value.span, f"{name} takes a timestamp, not {describe(value)}.")
        return wrong(place)
    if name == "EXTRACT":
        return call(PARTS[word], BIGINT, place, value)
    return call(Op.FLOOR_TIME if name == "FLOOR TO" else Op.CEIL_TIME, TIMESTAMP, place, value, name=word)
