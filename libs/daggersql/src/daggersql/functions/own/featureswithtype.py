"""FeaturesWithType(key, value, type, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import OF_MANY, STATE, let, let_in, list_values, unless_too_many
from daggersql.functions.featurerows import FEATURES, TRIPLETS, TYPES, list_of, typed_feature
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, wrong
from daggersql.ir.families import Family

# Sorted, equal ones stand side by side: array_distinct compares each struct with every other.
_DISTINCT = let(
    f"array_sort(flatten({list_values('{0}', '{1}')}))",
    "s",
    "filter(s, (x, i) -> i = 0 OR NOT x <=> get(s, i - 1))",
)
_TRIPLETS = unless_too_many("featureswithtype", "{1}", f"transform({_DISTINCT}, x -> x.made)")


def triplets(function: str, arguments: Sequence[Expr], span: Span, report: Report) -> Expr | None:
    """Build the TRIPLETS of one row; None, with findings, on errors."""
    if len(arguments) % 3:
        report.error(
            "WRONG_ARGUMENT_COUNT",
            span,
            f"{function} takes triplets of key, value and type, not {len(arguments)} arguments.",
        )
        return None
    groups = zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True)
    features = [typed_feature(key, value, kind, function.lower(), report) for key, value, kind in groups]
    rows = [expression for expression in features if expression is not None]
    return list_of(rows, TRIPLETS, span) if len(rows) == len(features) else None


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    features = triplets("FeaturesWithType", arguments, span, report)
    if features is None:
        return wrong(span)
    return Expr(_TRIPLETS, FEATURES, span, (features, let_in(where, span)), aggregate=True)


FUNCTION = Function(
    "FeaturesWithType",
    (
        Signature((Family.ANY, Family.ANY, Family.ANY), FEATURES, "{rest}", variadic=True),
        Signature((), FEATURES, "{rest}"),
    ),
    aggregate=True,
    own=True,
    build=_build,
    warning=f"FeaturesWithType keeps the triplets of a group until its window closes: {OF_MANY}.",
    doc=Doc(
        about="The feature rows of a group: name and id are the key as text, the value stands,"
        " converted, in the slot that the type names. NULL is 0 or false under a numeric type or BooleanType"
        " and an empty slot under the others; text is read as Java reads numbers, FLOAT as it is written;"
        " what cannot be converted is an empty slot, and counted. Equal triplets are given once, in no"
        " particular order: key, value and the value's own type, so that NULL and 0 are two. Empty for a"
        " group without rows, and without triplets.",
        parameters=(
            ("key", "text or a number"),
            ("value", "a scalar that the type can hold"),
            ("type", f"a constant, one of {', '.join(TYPES)}; further triplets may follow"),
        ),
        examples=(),
        dagger="Takes triplets of equal hash codes for equal, and fails for NULL text, for text that is no"
        " number and for 2.0 as IntegerType.",
        state=f"The triplets of every row: it {STATE}",
    ),
)
