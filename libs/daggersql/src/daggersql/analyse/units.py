"""Calls that name a unit of time: EXTRACT, FLOOR TO, CEIL TO, DATE_TRUNC, TIMESTAMPADD, TIMESTAMPDIFF."""

from __future__ import annotations

from daggersql.analyse.calls import call_function
from daggersql.analyse.checks import Checks
from daggersql.findings import Report, Span
from daggersql.functions.general import PARTS, ROUNDED_UNITS, TIME_UNITS
from daggersql.functions.times import BY_UNIT
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import Family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import BIGINT, DATE, TIMESTAMP
from daggersql.operators.coercion import describe
from daggersql.syntax import tree, units
from daggersql.syntax.cursor import span_of

_ROUNDING = {
    (True, False): Op.FLOOR_TIME,
    (True, True): Op.FLOOR_TO_WEEK,
    (False, False): Op.CEIL_TIME,
    (False, True): Op.CEIL_TO_WEEK,
}
"""By whether down and whether to a week."""


def of_time(node: tree.Node, checks: Checks) -> Expr:
    """EXTRACT(unit FROM time), FLOOR(time TO unit), CEIL(time TO unit)."""
    name = node.name.upper()
    first, second = node.expressions[:2]
    unit, value = (first, second) if name == "EXTRACT" else (second, first)
    return _unit_of_time(name, unit, checks.check(value), span_of(node), checks.report)


def date_trunc(node: tree.Node, checks: Checks) -> Expr:
    """DATE_TRUNC('unit', time) is FLOOR(time TO unit)."""
    unit = node.expressions[0] if len(node.expressions) == 2 else None
    if not isinstance(unit, tree.Literal) or not unit.is_string:
        checks.report.error(
            "INVALID_ARGUMENT",
            span_of(node),
            "DATE_TRUNC takes a constant unit and a time: 'HOUR', rowtime.",
        )
        return wrong(span_of(node))
    word = tree.Var(this=unit.name.upper())
    word.meta.update(unit.meta)
    value = checks.check(node.expressions[1])
    return _unit_of_time("FLOOR TO", word, value, span_of(node), checks.report, constant=True)


def by_unit(node: tree.Node, unit: tree.Node, checks: Checks) -> Expr:
    """TIMESTAMPADD(DAY, n, time) and TIMESTAMPDIFF(DAY, from, to)."""
    functions = BY_UNIT[node.name.upper()]
    function = functions.get(unit.name.upper().removeprefix("SQL_TSI_").removesuffix("S"))
    if function is None:
        units.refuse(unit.name, span_of(unit), checks.report, functions)
        return wrong(span_of(node))
    arguments = [checks.check(expression) for expression in node.expressions[1:]]
    return call_function(function, arguments, span_of(node), checks.report)


def _unit_of_time(
    name: str, unit: tree.Node, value: Expr, span: Span, report: Report, *, constant: bool = False
) -> Expr:
    """EXTRACT, FLOOR TO and CEIL TO (`name`) of a timestamp or a date; `constant`: the unit stands in quotes,
    as in DATE_TRUNC, which takes no WEEK: elsewhere it begins on Monday there.
    """
    units_of_form = PARTS if name == "EXTRACT" else TIME_UNITS if constant else ROUNDED_UNITS
    word = unit.name.removesuffix("S")
    if word not in units_of_form:
        units.refuse(unit.name, span_of(unit), report, units_of_form, constant=constant)
        return wrong(span)
    if value.wrong:
        return wrong(span)
    if not fits(value.type, Family.TIMESTAMP) and not fits(value.type, Family.DATE):
        report.error(
            "TYPE_MISMATCH", value.span, f"{name} takes a timestamp or a date, not {describe(value)}."
        )
        return wrong(span)
    if name == "EXTRACT":
        return call(PARTS[word], BIGINT, span, value)
    rounded = call(
        _ROUNDING[name == "FLOOR TO", word == "WEEK"], TIMESTAMP, span, cast(value, TIMESTAMP), name=word
    )
    return cast(rounded, DATE) if value.type == DATE else rounded
