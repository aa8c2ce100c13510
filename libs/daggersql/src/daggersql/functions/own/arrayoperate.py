"""ArrayOperate(list, steps, type)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions import steps
from daggersql.functions.checks import is_null
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import NULL, STRING, Array

STEP_TYPES = (
    "a constant, in any letter case: int, integer, long or bigint for whole numbers, float or double, which"
    " give DOUBLE, or other"
)


_ITSELF = Form("{0}")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, named, declared = arguments
    if is_null(named) or is_null(declared):
        return cast(call(Op.NULL, NULL, span), Array(STRING) if steps.nothing(values) else values.type)
    names = steps.read_steps(named, steps.TRANSFORMS, report)
    kind = steps.read_kind(declared, report)
    if names is None or kind is None:
        return wrong(span)
    typed = steps.elements_as(cast(values, Array(STRING)) if steps.nothing(values) else values, kind, report)
    answer = None if typed is None else steps.apply_steps(typed, names, report)
    return wrong(span) if answer is None else call(_ITSELF, answer.type, span, answer)


FUNCTION = Function(
    "ArrayOperate",
    (Signature((Family.ARRAY, Family.TEXT, Family.TEXT), 0, "{0}"),),
    own=True,
    build=_build,
    doc=Doc(
        "A list after some steps, from left to right: distinct keeps the first of equal elements, sorted (or"
        " sort) puts the smallest first and NULL last, asLongStream and asDoubleStream change the type of"
        " numbers; boxed, parallel, sequential and unordered change nothing. NULL for NULL.",
        (
            ("list", "any list; messages are told apart by distinct, but not sorted"),
            ("steps", "a constant: steps with dots between them, in any letter case"),
            ("type", STEP_TYPES),
        ),
        (
            ("ArrayOperate(Split('b,a,b', ','), 'distinct', 'other')", "[b, a]"),
            ("ArrayOperate(Split('b,a,b', ','), 'distinct.sorted', 'other')", "[a, b]"),
        ),
        dagger="ends the job on NULL; its elements have no SQL type; takes steps in Java's own letter"
        " case only.",
    ),
)
