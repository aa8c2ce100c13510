"""SelectFields(messages, type, path); SelectFields(Filters(…), path)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.encoded import is_encoded, select_field, type_of
from daggersql.functions.messages import check_same, element_message, leaf
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, cast, wrong
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BINARY, Array
from daggersql.operators.coercion import describe

_OF_EACH = Form("transform({0}, x -> {1})")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values, path = arguments[0], arguments[-1]
    name = arguments[1] if len(arguments) == 3 else None
    message = element_message(values)
    if message is not None:
        if name is not None and not check_same(message, name, report):
            return wrong(span)
        field = leaf(message, path, report)
        if field is None:
            return wrong(span)
        read = (values.read[0], f"{values.read[1]}.{field.path}") if values.read else None
        return Expr(_OF_EACH, Array(field.type), span, (values, field.value), read=read)
    if not is_encoded(values):
        report.error("TYPE_MISMATCH", values.span, f"SelectFields takes messages, not {describe(values)}.")
        return wrong(span)
    name = name or type_of(values)
    if name is None:
        report.error(
            "INVALID_ARGUMENT",
            values.span,
            "Name the type of these messages: SelectFields(messages, type, path).",
        )
        return wrong(span)
    found_in_bytes = select_field(cast(values, Array(BINARY)), name, path, span, report)
    return found_in_bytes or wrong(span)


FUNCTION = Function(
    "SelectFields",
    (
        Signature((Family.ARRAY, Family.TEXT), 0, "{0}"),
        Signature((Family.ARRAY, Family.TEXT, Family.TEXT), 0, "{0}"),
    ),
    own=True,
    build=_build,
    doc=Doc(
        about="One field of each message of a list, as a list. A field that is not set reads as its default,"
        " NULL where the schema tells whether it is set; bytes that are not such a message give NULL, and are"
        " counted. NULL for NULL.",
        parameters=(
            ("messages", "a repeated message, a list of encoded messages, or what Filters gives"),
            (
                "type",
                "full name of the message type, a constant; or a column that holds it, then the values come"
                " as text. May be left out where the messages tell",
            ),
            ("path", "a constant: the field, with dots into messages"),
        ),
        examples=(),
        dagger="Fails for a map field.",
    ),
)
