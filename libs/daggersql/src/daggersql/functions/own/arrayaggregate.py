"""ArrayAggregate(list, steps, type)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions import steps
from daggersql.functions.checks import is_null
from daggersql.functions.own.arrayoperate import STEP_TYPES
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BIGINT, DOUBLE, NULL, STRING, Array, Type

_COUNT = Form("CASE WHEN {0} IS NOT NULL THEN CAST(size({0}) AS BIGINT) END")
_FIRST = Form("get({0}, 0)")
_FIRST_NUMBER = Form("CASE WHEN size({0}) = 0 THEN CAST(0 AS {type}) ELSE get({0}, 0) END")
_EXTREMES = {
    step: Form(f"CASE WHEN {{0}} IS NOT NULL THEN coalesce(array_{step}({{0}}), CAST(0 AS {{type}})) END")
    for step in ("min", "max")
}
_ITSELF = Form("{0}")
_SUMS = {
    BIGINT: Form("aggregate({0}, 0L, (a, x) -> try_add(a, coalesce(CAST(x AS BIGINT), 0L)))"),
    DOUBLE: Form("aggregate({0}, 0.0D, (a, x) -> a + coalesce(x, 0.0D))"),
}
_AVERAGE = Form(
    "transform(array(filter({0}, x -> x IS NOT NULL)), f -> CASE WHEN size(f) = 0 THEN 0.0D"
    " ELSE aggregate(f, 0.0D, (a, x) -> a + x) / size(f) END)[0]"
)
_OTHER = tuple(end for end in steps.ENDS if end not in steps.NUMERIC)


def _last(step: str, values: Expr, numeric: bool) -> tuple[Form, Type]:
    """Form and type of the step that makes one value of a list. Of no numbers it makes 0."""
    element = values.type.element if isinstance(values.type, Array) else STRING
    match step:
        case "count":
            return _COUNT, BIGINT
        case "findFirst" | "findAny":
            return (_FIRST_NUMBER if numeric else _FIRST), element
        case "toArray":
            return _ITSELF, values.type
        case "sum":
            kind = DOUBLE if element == DOUBLE else BIGINT
            return _SUMS[kind], kind
        case "average":
            return _AVERAGE, DOUBLE
    return _EXTREMES[step], element


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, named, declared = arguments
    if is_null(named) or is_null(declared):
        return cast(call(Op.NULL, NULL, span), STRING)
    kind = steps.read_kind(declared, report)
    names = steps.read_steps(named, (*steps.TRANSFORMS, *steps.ENDS), report)
    if names is None or kind is None:
        return wrong(span)
    *before, last = names
    # As in Java, boxed numbers are objects like any other.
    numeric = kind != "other" and "boxed" not in before
    ends = steps.ENDS if numeric else _OTHER
    if last not in ends or any(earlier in steps.ENDS for earlier in before):
        listed = ", ".join(ends)
        report.error(
            "UNSUPPORTED_OPERATION", named.span, f"The last step, and no other, is one of {listed}.", ends[0]
        )
        return wrong(span)
    typed = steps.elements_as(cast(values, Array(STRING)) if steps.nothing(values) else values, kind, report)
    prepared = None if typed is None else steps.apply_steps(typed, before, report)
    if prepared is None:
        return wrong(span)
    form, result = _last(last, prepared, numeric)
    return call(form, result, span, prepared)


FUNCTION = Function(
    "ArrayAggregate",
    (Signature((Family.ARRAY, Family.TEXT, Family.TEXT), 0, "{0}"),),
    own=True,
    build=_build,
    doc=Doc(
        "One value made of a list: after the steps of ArrayOperate, if any, the last one is sum, average,"
        " min, max, count, findFirst, findAny (the first) or toArray (the list itself); of the type other,"
        " and after boxed, it is none of the first four. An empty list of numbers gives 0. Numbers leave"
        " NULLs out, count does not. NULL for NULL, and for a sum of whole numbers beyond 64 bits.",
        (
            ("list", "any list"),
            ("steps", "a constant: steps with dots between them, in any letter case"),
            ("type", STEP_TYPES),
        ),
        (
            ("ArrayAggregate(Split('1,2,2', ','), 'distinct.sum', 'int')", "3"),
            ("ArrayAggregate(Split('1,2', ','), 'average', 'double')", "1.5"),
            ("ArrayAggregate(Split('b,a', ','), 'sorted.findFirst', 'Other')", "a"),
        ),
        dagger="gives some answers as Java objects (Optional[b]), sums int in 32 bits, knows no sort, and"
        " takes steps in Java's own letter case only.",
    ),
)
