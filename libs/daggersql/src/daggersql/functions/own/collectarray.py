"""CollectArray(x)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import OF_MANY, STATE, let_in, list_values, unless_too_many
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, cast
from daggersql.ir.families import Family
from daggersql.ir.types import NULL, STRING, Array

# A NULL inside a struct is list_values.
_ROWS = list_values("named_struct('v', {0})", "{1}")
_VALUES = unless_too_many("collectarray", "{1}", f"transform({_ROWS}, e -> e.v)")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    value = cast(arguments[0], STRING) if arguments[0].type == NULL else arguments[0]
    return Expr(_VALUES, Array(value.type), span, (value, let_in(where, span)), aggregate=True)


FUNCTION = Function(
    "CollectArray",
    (Signature((Family.ANY,), 0, "{0}"),),
    aggregate=True,
    own=True,
    build=_build,
    warning=f"CollectArray keeps every value of a group until its window closes: {OF_MANY}.",
    doc=Doc(
        about="The values of a group as a list, NULLs included, in the order they came. Two lists of one"
        " group have what came with one record at the same position. Empty for a group without rows.",
        parameters=(("x", "any value"),),
        examples=(),
        state=f"The values themselves: it {STATE}",
    ),
)
