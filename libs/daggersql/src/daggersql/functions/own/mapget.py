"""MapGet(map, key)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import LET
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, variable, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import NULL, Array, Message, Struct
from daggersql.operators import collections
from daggersql.operators.coercion import describe, unify

_GIVEN = Form("named_struct('list', {0}, 'key', {1})")
_WITH_KEY = Form("get(filter(e.list, x -> {0} = e.key), 0)")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, key = arguments
    if values.type == NULL:
        return call(Op.NULL, NULL, span)
    if isinstance(values.type, Array):
        return _of_pairs(values, key, span, report)
    return collections.element(values, key, span, report)


def _of_pairs(values: Expr, key: Expr, span: Span, report: Report) -> Expr:
    """Build the second field of the first message whose first field is the key."""
    kind = values.type.element if isinstance(values.type, Array) else NULL
    fields = list(kind.fields().items()) if isinstance(kind, Message | Struct) else []
    if len(fields) < 2:
        report.error("TYPE_MISMATCH", values.span, f"MapGet takes a map, not {describe(values)}.")
        return wrong(span)
    (name, of_key), (value, of_value) = fields[:2]
    if unify(of_key, key.type) is None:
        report.error("TYPE_MISMATCH", key.span, f"{name} is never {describe(key)}.")
        return wrong(span)
    key_of = call(Op.FIELD, of_key, span, variable("x", kind, span), name=name)
    pair = call(_WITH_KEY, kind, span, key_of)
    there = call(Op.FIELD, of_value, span, pair, name=value)
    return call(LET, of_value, span, call(_GIVEN, kind, span, values, key), there)


FUNCTION = Function(
    "MapGet",
    (Signature((Family.MAP, Family.ANY), 0, "{0}"), Signature((Family.ARRAY, Family.ANY), 0, "{0}")),
    own=True,
    build=_build,
    doc=Doc(
        "The value of a key in a map, with its own type. NULL when the map has no such key, and for NULL.",
        (
            ("map", "a map field, or a list of messages whose first field is the key, the second the value"),
            ("key", "what the map's keys are"),
        ),
        (),
        dagger="gives a value without a SQL type.",
    ),
)
