"""Fields of encoded messages: `selectfields(bytes, type, path)` gives the JSON of their list, in Spark's
types. With an empty path it tells which of the bytes are such a message."""

from __future__ import annotations

from dataclasses import replace

from daggersql.findings import Report, Span
from daggersql.functions.messages import ddl, is_known_later, leaf, message_type
from daggersql.ir.expr import Expr, call, text_constant
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BINARY, BOOLEAN, NULL, STRING, Array, Scalar, Type
from daggersql.operators.coercion import describe

_FIELDS = Form("from_json(selectfields({0}, {1}, {2}), {3})")
_DECODABLE = Form("from_json(selectfields({0}, {1}, ''), 'array<boolean>')")


def select_field(values: Expr, name: Expr, path: Expr, span: Span, report: Report) -> Expr | None:
    """Build the field at a path of each encoded message; None, with a finding, on errors.

    Where a column names the type, the values are texts.
    """
    kind: Type = STRING
    if not is_known_later(name):
        message = message_type(name, report)
        field = leaf(message, path, report) if message is not None else None
        if field is None:
            return None
        kind = field.type
    elif not isinstance(path.value, str):
        report.error("INVALID_ARGUMENT", path.span, "The path of a field is written as a constant.")
        return None
    written = ddl(Array(kind))
    if written is None:
        report.error(
            "UNSUPPORTED_TYPE",
            path.span,
            f"A field that is {describe(call(Op.NULL, kind, span))} like this one cannot be taken out of"
            " bytes: maps without text keys cannot.",
        )
        return None
    found_in = call(_FIELDS, Array(kind), span, values, name, path, text_constant(written, STRING, span))
    return replace(found_in, function="selectfields")


def decodable(values: Expr, name: Expr, span: Span) -> Expr:
    """Build TRUE for each encoded message, NULL for bytes that are none."""
    return replace(call(_DECODABLE, Array(BOOLEAN), span, values, name), function="selectfields")


def of_type(name: Expr) -> Scalar:
    """Build the type of an encoded message, with the message's name if a constant names it."""
    return Scalar(BINARY.name, name.value) if isinstance(name.value, str) else BINARY


def is_encoded(values: Expr) -> bool:
    """Tell whether a value is a list of encoded messages, or NULL."""
    return values.type == NULL or (
        isinstance(values.type, Array) and values.type.element.spark == BINARY.spark
    )


def type_of(values: Expr) -> Expr | None:
    """Find the message type that a call of Filters names, also in an inner query; None for other values."""
    kind = values.type.element if isinstance(values.type, Array) else NULL
    if isinstance(kind, Scalar) and kind.note:
        return text_constant(kind.note, STRING, values.span)
    return values.args[2] if values.function == "filters" else None
