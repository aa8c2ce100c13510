"""Comparisons of floats, as Flink and Java have them: NaN equals nothing, itself included, and is neither
less nor greater than anything (ADR 172).

To Spark NaN equals NaN and is greater than all numbers, so most comparisons come out right by themselves.
Only where it matters, and where an operand can be NaN, is a comparison told otherwise; NULL stays NULL.
"""

from __future__ import annotations

from daggersql.ir.expr import Expr
from daggersql.ir.ops import Op
from daggersql.ir.types import DOUBLE, FLOAT

_FLOATS = (FLOAT, DOUBLE)
# Whoever is NaN is the least of all instead, and so greater than nothing.
_LEAST = "nanvl({{{0}}}, CAST('-Infinity' AS {1}))"
_BOTH = {
    Op.EQUAL: "({0} = {1} AND ({1} IS NULL OR NOT isnan({0})))",
    Op.UNEQUAL: "({0} <> {1} OR ({1} IS NOT NULL AND isnan({0})))",
    Op.SAME: "({0} <=> {1} AND NOT isnan({0}))",
    Op.DIFFERENT: "(NOT ({0} <=> {1}) OR isnan({0}))",
    Op.NULL_IF: "CASE WHEN isnan({0}) THEN {0} ELSE nullif({0}, {1}) END",
}
_GREATER = {Op.GREATER: (0, ">"), Op.LESS: (1, "<")}
_AT_LEAST = {Op.AT_LEAST: (0, ">="), Op.AT_MOST: (1, "<=")}
COMPARED_TEMPLATES = (
    *_BOTH.values(),
    _LEAST.format(0, "DOUBLE"),
)
"""For the list of functions of Spark that emitted SQL may call."""


def comparison_template(node: Expr) -> str | None:
    """Return the template of a comparison whose operands can be NaN; None where Spark's own is equivalent."""
    op, args = node.op, node.args
    if op in _BOTH and isinstance(op, Op):
        return _BOTH[op] if can_be_nan(args[0]) and can_be_nan(args[1]) else None
    if op is Op.IN:
        return "({0} IN ({rest}) AND NOT isnan({0}))" if _meets_nan(args) else None
    if op in _GREATER:
        number, sign = _GREATER[op]
        return _with_least(args, number, sign) if can_be_nan(args[number]) else None
    if op in _AT_LEAST:
        number, sign = _AT_LEAST[op]
        return _at_least(args, number, sign) if can_be_nan(args[number]) else None
    return None


def can_be_nan(value: Expr) -> bool:
    """Tell whether an expression may be NaN."""
    if value.type not in _FLOATS or value.is_constant:
        return False
    if value.op is Op.CAST:
        (given,) = value.args
        if isinstance(given.value, str):
            return given.value.strip().lstrip("+-").lower() == "nan"
        return given.type.spark == "string" or can_be_nan(given)
    if value.op is Op.CASE:
        return any(map(can_be_nan, value.args[len(value.args) // 2 :]))
    return any(map(can_be_nan, value.args)) if value.op is Op.COALESCE else True


def _meets_nan(args: tuple[Expr, ...]) -> bool:
    return can_be_nan(args[0]) and any(map(can_be_nan, args[1:]))


def _with_least(args: tuple[Expr, ...], number: int, sign: str) -> str:
    """Write `a > b` and `b < a`, where argument `number` is a."""
    greater = _LEAST.format(number, args[number].type.spark.upper())
    return f"({greater} {sign} {{1}})" if number == 0 else f"({{0}} {sign} {greater})"


def _at_least(args: tuple[Expr, ...], number: int, sign: str) -> str:
    """Write `a >= b` and `b <= a`, where argument `number` is a."""
    other = 1 - number
    if args[other].value is not None:
        # A constant is greater than the least value of all.
        return _with_least(args, number, sign)
    return f"({{0}} {sign} {{1}} AND ({{{other}}} IS NULL OR NOT isnan({{{number}}})))"
