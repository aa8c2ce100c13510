"""Filters(messages, type, condition, …)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.collected import LET
from daggersql.functions.encoded import decodable, is_encoded, of_type, select_field
from daggersql.functions.messages import check_same, element_message, is_known_later, leaf, message_type
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, cast, text_constant, variable, wrong
from daggersql.ir.families import NUMERIC, Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BINARY, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Array, Type
from daggersql.operators import comparisons
from daggersql.operators.coercion import describe, unify

_STRUCT = Form("named_struct({rest})")
_WHERE = Form("filter(e.b, x -> {0})")
_IS_THERE = Form("{0} IS NOT NULL")
_ALL = Form("{rest}", separator=" AND ")
_ZIPPED = Form("zip_with({0}, {1}, (x, y) -> CASE WHEN {2} THEN x END)")
_THERE = Form("filter({0}, x -> x IS NOT NULL)")
_SAME = Form("{0} = {1}")
_SAME_DECIMALS = Form("try_cast({0} AS DECIMAL(38, 10)) = CAST({1} AS DECIMAL(38, 10))")
_SAME_BYTES = Form("{0} = base64({1})")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, name, *conditions = arguments
    if any(len(condition.args) != 2 for condition in conditions):
        odd = next(condition for condition in conditions if len(condition.args) != 2)
        report.error("TYPE_MISMATCH", odd.span, "Filters takes conditions made by CondEq.")
        return wrong(span)
    if element_message(values) is not None:
        return _structs(values, name, conditions, span, report)
    if not is_encoded(values):
        report.error("TYPE_MISMATCH", values.span, f"Filters takes messages, not {describe(values)}.")
        return wrong(span)
    return _encoded_messages(cast(values, Array(BINARY)), name, conditions, span, report)


def _structs(values: Expr, name: Expr, conditions: Sequence[Expr], span: Span, report: Report) -> Expr:
    """Build the filter of a repeated field, over structs."""
    message = element_message(values)
    if message is None or not check_same(message, name, report):
        return wrong(span)
    here = variable("x", message, span)
    parts, tests = [text_constant("b", STRING, span), values], [call(_IS_THERE, BOOLEAN, span, here)]
    for number, condition in enumerate(conditions):
        path, value = condition.args
        field = leaf(message, path, report)
        if field is None:
            return wrong(span)
        parts += [text_constant(f"v{number}", STRING, span), value]
        given = variable(f"e.v{number}", value.type, span)
        tests.append(_equal(field.value, given, value, path, report))
    chosen = call(_WHERE, values.type, span, call(_ALL, BOOLEAN, span, *tests))
    return call(LET, values.type, span, call(_STRUCT, values.type, span, *parts), chosen, name)


def _encoded_messages(
    values: Expr, name: Expr, conditions: Sequence[Expr], span: Span, report: Report
) -> Expr:
    """Build the filter of encoded messages, by fields that are decoded beside them."""
    if not is_known_later(name) and message_type(name, report) is None:
        return wrong(span)
    parts, messages = [text_constant("b", STRING, span), values], variable("e.b", values.type, span)
    beside: list[tuple[str, Expr, Expr]] = []
    if not conditions:
        beside.append(("s", decodable(values, name, span), variable("y", BOOLEAN, span)))
    for number, condition in enumerate(conditions):
        path, value = condition.args
        fields = select_field(values, name, path, path.span, report)
        if fields is None or not isinstance(fields.type, Array):
            return wrong(span)
        field, given = (
            variable("y", fields.type.element, span), variable(f"e.v{number}", value.type, span)
        )  # fmt: skip
        loose = is_known_later(name)
        test = _equal_text(field, given) if loose else _equal(field, given, value, path, report)
        beside.append((f"s{number}", fields, test))
    for number, (key, fields, test) in enumerate(beside):
        parts += [text_constant(key, STRING, span), fields]
        if conditions:
            parts += [text_constant(f"v{number}", STRING, span), conditions[number].args[1]]
        messages = call(_ZIPPED, values.type, span, messages, variable(f"e.{key}", fields.type, span), test)
    kind = Array(of_type(name))
    chosen = call(_THERE, kind, span, messages)
    return call(LET, kind, span, call(_STRUCT, kind, span, *parts), chosen, name)


def _equal(field: Expr, given: Expr, value: Expr, path: Expr, report: Report) -> Expr:
    """Build the comparison of a field with a value, which is `given` in a lambda."""
    common = unify(field.type, value.type)
    if common is None or family(common) in (Family.STRUCT, Family.ARRAY, Family.MAP):
        report.warn(
            "TYPE_MISMATCH",
            value.span,
            f"{path.value} is {describe(field)}: it never equals {describe(value)}.",
        )
        return call(Op.FALSE, BOOLEAN, field.span)
    # For its warning: an enum has no value of that name.
    comparisons.compare("=", field, value, value.span, report)
    return _same(_strict(field, common), _strict(given, common))


def _equal_text(field: Expr, given: Expr) -> Expr:
    """Build the comparison for a field that is a text, as its type is known only at run time."""
    kind, span = family(given.type), field.span
    if kind in NUMERIC:
        # A whole number beyond 2^53 is no DOUBLE, and a DOUBLE may be no decimal number.
        near = _same(call(Op.CAST, DOUBLE, span, field), _strict(given, DOUBLE))
        if kind is Family.NUMBER:
            return near
        return call(_ALL, BOOLEAN, span, near, call(_SAME_DECIMALS, BOOLEAN, span, field, given))
    if kind is Family.TIMESTAMP:
        return _same(call(Op.CAST, TIMESTAMP, span, field), given)
    if kind is Family.BINARY:
        return call(_SAME_BYTES, BOOLEAN, span, field, given)
    return _same(field, _strict(given, STRING))


def _strict(value: Expr, kind: Type) -> Expr:
    return call(Op.STRICT_CAST, kind, value.span, value)


def _same(left: Expr, right: Expr) -> Expr:
    return call(_SAME, BOOLEAN, left.span, left, right)


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
