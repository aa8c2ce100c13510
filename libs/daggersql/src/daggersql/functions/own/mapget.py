"""MapGet(map, key)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import let
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, quote_name, wrong
from daggersql.ir.types import NULL, Array, Family, Message, Struct
from daggersql.operators import collections
from daggersql.operators.coercion import describe, unify


def _build(arguments: Sequence[Expr], place: Span, report: Report, where: Expr | None) -> Expr:
    values, key = arguments
    if values.type == NULL:
        return call("NULL", NULL, place)
    if isinstance(values.type, Array):
        return _of_pairs(values, key, place, report)
    return collections.element(values, key, place, report)


def _of_pairs(values: Expr, key: Expr, place: Span, report: Report) -> Expr:
    """The second field of the first message whose first field is the key."""
    kind = values.type.element if isinstance(values.type, Array) else NULL
    fields = list(kind.fields().items()) if isinstance(kind, Message | Struct) else []
    if len(fields) < 2:
        report.error("TYPE_MISMATCH", values.span, f"MapGet takes a map, not {describe(values)}.")
        return wrong(place)
    (name, of_key), (value, found) = fields[:2]
    if unify(of_key, key.type) is None:
        report.error("TYPE_MISMATCH", key.span, f"{name} is never {describe(key)}.")
        return wrong(place)
    pairs = let(
        "named_struct('list', {0}, 'key', {1})",
        "e",
        f"get(filter(e.list, x -> x.{quote_name(name)} = e.key), 0).{quote_name(value)}",
    )
    return call(pairs, found, place, values, key)


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
