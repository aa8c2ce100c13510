"""SingleFeatureWithType(key, value, type, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.featurerows import FEATURES, TYPES
from daggersql.functions.own.featureswithtype import triplets
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form

_MADE = Form("transform(array_distinct({0}), x -> x.made)")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    features = triplets("SingleFeatureWithType", arguments, span, report)
    if features is None:
        return wrong(span)
    return call(_MADE, FEATURES, span, features)


FUNCTION = Function(
    "SingleFeatureWithType",
    (
        Signature((Family.ANY, Family.ANY, Family.ANY), FEATURES, "{rest}", variadic=True),
        Signature((), FEATURES, "{rest}"),
    ),
    own=True,
    build=_build,
    doc=Doc(
        about="The feature rows of one row: name and id are the key as text, the value stands, converted, in"
        " the slot that the type names. NULL is 0 or false under a numeric type or BooleanType and an empty"
        " slot under the others; text is read as Java reads numbers, FLOAT as it is written; what cannot be"
        " converted is an empty slot, and counted. A triplet that comes twice is given once: key, value and"
        " the value's own type. Empty without triplets.",
        parameters=(
            ("key", "text or a number"),
            ("value", "a scalar that the type can hold"),
            ("type", f"a constant, one of {', '.join(TYPES)}; further triplets may follow"),
        ),
        examples=(),
        dagger="Takes triplets of equal hash codes for equal, and fails for NULL text, for text that is no"
        " number and for 2.0 as IntegerType.",
    ),
)
