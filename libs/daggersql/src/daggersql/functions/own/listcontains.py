"""ListContains(list, item)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.checks import is_null
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BOOLEAN, Array
from daggersql.operators.coercion import describe, unify

_CONTAINS = Form("coalesce(array_contains({0}, {1}), false)")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, item = arguments
    if not isinstance(values.type, Array) or is_null(item):
        return call(Op.FALSE, BOOLEAN, span)
    if unify(values.type.element, item.type) is None:
        report.error("TYPE_MISMATCH", item.span, f"{describe(values)} cannot contain {describe(item)}.")
        return wrong(span)
    return call(_CONTAINS, BOOLEAN, span, values, item)


FUNCTION = Function(
    "ListContains",
    (Signature((Family.ARRAY, Family.ANY), BOOLEAN, "{0}"),),
    own=True,
    build=_build,
    doc=Doc(
        "Whether a list has an element that equals the item. Never NULL: false for a NULL list, for a NULL"
        " item, and when only NULLs are left to compare with. Text is compared letter by letter.",
        (("list", "any list"), ("item", "what the list holds")),
        (
            ("ListContains(Split('a,b', ','), 'a')", "true"),
            ("ListContains(Split('a,b', ','), NULL)", "false"),
        ),
        dagger="takes lists of text only.",
    ),
)
