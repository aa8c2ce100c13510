"""Features(key, value, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import OF_MANY, STATE, let_in, list_values, unless_too_many
from daggersql.functions.featurerows import FEATURES, list_of, untyped_feature
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, wrong
from daggersql.ir.families import Family

_PAIRS = unless_too_many("features", "{1}", f"flatten({list_values('{0}', '{1}')})")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    if len(arguments) % 2:
        report.error(
            "WRONG_ARGUMENT_COUNT",
            span,
            f"Features takes pairs of key and value, not {len(arguments)} arguments.",
        )
        return wrong(span)
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    features = [untyped_feature(key, value, report) for key, value in pairs]
    rows = [expression for expression in features if expression is not None]
    if len(rows) < len(features):
        return wrong(span)
    listed = list_of(rows, FEATURES, span)
    return Expr(_PAIRS, FEATURES, span, (listed, let_in(where, span)), aggregate=True)


FUNCTION = Function(
    "Features",
    (
        Signature((Family.ANY, Family.ANY), FEATURES, "{rest}", variadic=True),
        Signature((), FEATURES, "{rest}"),
    ),
    aggregate=True,
    own=True,
    build=_build,
    warning=f"Features keeps the pairs of a group until its window closes: {OF_MANY}.",
    doc=Doc(
        about="A feature row for each pair of each row: name and id are the key as text, the value stands in"
        " the slot of its type (bytes, string, int, long, double, float, bool, timestamp), a decimal number"
        " in double. NULL fills no slot. Pairs that come twice are given twice. Empty for a group without"
        " rows, and without pairs.",
        parameters=(("key", "text or a number"), ("value", "a scalar; further pairs may follow")),
        examples=(),
        state=f"The pairs of every row: it {STATE}",
    ),
)
