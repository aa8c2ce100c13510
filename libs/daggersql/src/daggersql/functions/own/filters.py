"""Filters(messages, type, condition, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import let
from daggersql.functions.encoded import decodable, is_encoded, of_type, selected
from daggersql.functions.messages import check_same, element_message, is_known_later, leaf, message_type
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, Kind, call, cast, wrong
from daggersql.ir.types import BINARY, DOUBLE, NUMERIC, STRING, TIMESTAMP, Array, Family, Type, family
from daggersql.operators import comparisons
from daggersql.operators.coercion import describe, unify


def _build(arguments: Sequence[Expr], place: Span, report: Report, where: Expr | None) -> Expr:
    values, name, *conditions = arguments
    if any(len(each.args) != 2 for each in conditions):
        odd = next(each for each in conditions if len(each.args) != 2)
        report.error("TYPE_MISMATCH", odd.span, "Filters takes conditions made by CondEq.")
        return wrong(place)
    if element_message(values) is not None:
        return _structs(values, name, conditions, place, report)
    if not is_encoded(values):
        report.error("TYPE_MISMATCH", values.span, f"Filters takes messages, not {describe(values)}.")
        return wrong(place)
    return _encoded(cast(values, Array(BINARY)), name, conditions, place, report)


def _structs(values: Expr, name: Expr, conditions: Sequence[Expr], place: Span, report: Report) -> Expr:
    """A repeated field: a filter over structs."""
    message = element_message(values)
    if message is None or not check_same(message, name, report):
        return wrong(place)
    parts, tests, args = ["'b', {0}"], ["x IS NOT NULL"], [values, name]
    for number, condition in enumerate(conditions):
        path, value = condition.args
        found = leaf(message, path, report)
        if found is None:
            return wrong(place)
        args.append(value)
        parts.append(f"'v{number}', {{{len(args) - 1}}}")
        tests.append(_equal(found.sql, found.type, f"e.v{number}", value, path, report))
    body = f"filter(e.b, x -> {' AND '.join(tests)})"
    return call(let(f"named_struct({', '.join(parts)})", "e", body), values.type, place, *args)


def _encoded(values: Expr, name: Expr, conditions: Sequence[Expr], place: Span, report: Report) -> Expr:
    """Encoded messages: the fields are taken out beside them, and tell which messages stay."""
    if not is_known_later(name) and message_type(name, report) is None:
        return wrong(place)
    parts, kept, args = ["'b', {0}"], "e.b", [values, name]
    if not conditions:
        args.append(decodable(values, name, place))
        parts.append("'s', {2}")
        kept = "zip_with(e.b, e.s, (x, y) -> CASE WHEN y THEN x END)"
    for number, condition in enumerate(conditions):
        path, value = condition.args
        fields = selected(values, name, path, path.span, report)
        if fields is None or not isinstance(fields.type, Array):
            return wrong(place)
        args += [fields, value]
        parts.append(f"'s{number}', {{{len(args) - 2}}}, 'v{number}', {{{len(args) - 1}}}")
        loose = is_known_later(name)
        field = fields.type.element
        test = (
            _equal_text("y", f"e.v{number}", value)
            if loose
            else _equal("y", field, f"e.v{number}", value, path, report)
        )
        kept = f"zip_with({kept}, e.s{number}, (x, y) -> CASE WHEN {test} THEN x END)"
    body = f"filter({kept}, x -> x IS NOT NULL)"
    kind = Array(of_type(name))
    return call(let(f"named_struct({', '.join(parts)})", "e", body), kind, place, *args)


def _equal(field: str, kind: Type, sql: str, value: Expr, path: Expr, report: Report) -> str:
    """SQL that tells whether a field of this type has the value, which stands in `sql`."""
    common = unify(kind, value.type)
    if common is None or family(common) in (Family.STRUCT, Family.ARRAY, Family.MAP):
        what = describe(call("", kind, path.span))
        report.warn(
            "TYPE_MISMATCH", value.span, f"{path.value} is {what}: it never equals {describe(value)}."
        )
        return "false"
    # For its warning: an enum has no value of that name.
    comparisons.compare("=", Expr(field, kind, path.span, kind=Kind.COLUMN), value, value.span, report)
    left, right = (f"CAST({each} AS {common.spark})" for each in (field, sql))
    return f"{left} = {right}"


def _equal_text(field: str, sql: str, value: Expr) -> str:
    """The same for a field that came as text, its type not being known before."""
    found = family(value.type)
    if found in NUMERIC:
        # A whole number beyond 2^53 is no DOUBLE, and a DOUBLE may be no decimal number.
        exact = "DECIMAL(38, 10)"
        near = f"try_cast({field} AS {DOUBLE.spark}) = CAST({sql} AS {DOUBLE.spark})"
        return (
            near
            if found is Family.NUMBER
            else f"{near} AND try_cast({field} AS {exact}) = CAST({sql} AS {exact})"
        )
    if found is Family.TIMESTAMP:
        return f"try_cast({field} AS {TIMESTAMP.spark}) = {sql}"
    if found is Family.BINARY:
        return f"{field} = base64({sql})"
    return f"{field} = CAST({sql} AS {STRING.spark})"


FUNCTION = Function(
    "Filters",
    (
        Signature((Family.ARRAY, Family.TEXT, Family.CONDITION), 0, "{0}", variadic=True),
        Signature((Family.ARRAY, Family.TEXT), 0, "{0}"),
    ),
    own=True,
    build=_build,
    doc=Doc(
        about="The messages of a list for which every condition is true, in their order; all of them without"
        " conditions. Bytes that are not such a message are left out, and counted. NULL for NULL.",
        parameters=(
            ("messages", "a repeated message, or a list of encoded messages"),
            ("type", "full name of the message type, a constant; or a column that holds it"),
            ("condition", "CondEq(path, value); further ones may follow, all must be true"),
        ),
        examples=(),
    ),
)
