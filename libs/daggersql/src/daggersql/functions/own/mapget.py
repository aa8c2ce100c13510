"""MapGet(map, key)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql import elements
from daggersql.findings import Report, Span
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.tree import Expr, call
from daggersql.types import NULL, Family, MapOf


def _build(arguments: Sequence[Expr], place: Span, report: Report, where: Expr | None) -> Expr:
    values, key = arguments
    if not isinstance(values.type, MapOf):
        return call("NULL", NULL, place)
    return elements.element(values, key, place, report)


FUNCTION = Function(
    "MapGet",
    (Signature((Family.MAP, Family.ANY), 0, "{0}"),),
    own=True,
    build=_build,
    doc=Doc(
        "The value of a key in a map, with its own type. NULL when the map has no such key, and for NULL.",
        (("map", "a map field"), ("key", "what the map's keys are")),
        (),
        dagger="gives a value without a SQL type.",
    ),
)
