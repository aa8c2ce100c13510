"""FeaturesWithType(key, value, type, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import BEYOND, MOST, kept, let, order_of, unless_too_many
from daggersql.functions.featurerows import FEATURES, TYPES, list_of, typed
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.tree import Expr, Kind, wrong
from daggersql.types import Family


def triplets(function: str, arguments: Sequence[Expr], place: Span, report: Report) -> Expr | None:
    """The features of one row as a list; None, with findings, when the arguments make none."""
    if len(arguments) % 3:
        report.error(
            "WRONG_ARGUMENT_COUNT",
            place,
            f"{function} takes triplets of key, value and type, not {len(arguments)} arguments.",
        )
        return None
    groups = zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True)
    made = [typed(key, value, kind, function.lower(), report) for key, value, kind in groups]
    found = [each for each in made if each is not None]
    return list_of(found, place) if len(found) == len(made) else None


def _build(arguments: Sequence[Expr], place: Span, report: Report, where: Expr | None) -> Expr:
    features = triplets("FeaturesWithType", arguments, place, report)
    if features is None:
        return wrong(place)
    rows = kept("{0}", "{1}")
    # Sorted, equal ones stand side by side: array_distinct compares each struct with every other.
    distinct = let(
        f"array_sort(flatten({rows}))", "s", "filter(s, (x, i) -> i = 0 OR NOT x <=> get(s, i - 1))"
    )
    answer = f"coalesce({distinct}, CAST(array() AS {FEATURES.spark}))"
    return Expr(
        unless_too_many("featureswithtype", rows, answer),
        FEATURES,
        place,
        (features, order_of(where, place)),
        kind=Kind.AGGREGATE,
    )


FUNCTION = Function(
    "FeaturesWithType",
    (Signature((Family.ANY, Family.ANY, Family.ANY), FEATURES, "{rest}", variadic=True),),
    aggregate=True,
    own=True,
    build=_build,
    warning=f"FeaturesWithType keeps the triplets of a group until its window closes, of at most {MOST:,}"
    f" rows. {BEYOND}",
    doc=Doc(
        about="The different feature rows of a group: name and id are the key as text, the value stands,"
        " converted, in the slot that the type names. NULL is 0 or false under a numeric type or BooleanType"
        " and an empty slot under the others; what cannot be converted is an empty slot, and counted. Rows"
        " that are equal are given once, in no particular order. Empty for a group without rows.",
        parameters=(
            ("key", "text or a number"),
            ("value", "a scalar that the type can hold"),
            ("type", f"a constant, one of {', '.join(TYPES)}; further triplets may follow"),
        ),
        examples=(),
        dagger="Takes rows of equal hash codes for equal, and fails for NULL text and for text that is no"
        " number.",
        state=f"The triplets of at most {MOST:,} rows of a group. {BEYOND}",
    ),
)
