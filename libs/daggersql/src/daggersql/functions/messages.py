"""Message types and paths that stand in a query as constants, for functions over repeated messages.

A list of messages is a repeated field, whose elements are structs, or a list of encoded messages (bytes)
whose type the query names. A path reads what Protobuf reads: through a message that is not set, and for a
field without presence, the default.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.descriptor import FieldDescriptor

from daggerspec.query import quote_name
from daggersql.findings import Report, Span, instead_of_constant, instead_of_step
from daggersql.ir.expr import Expr, bytes_constant, call, cast, text_constant, variable
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import (  # fmt: skip
    BOOLEAN,
    STRING,
    Array,
    EnumText,
    MapOf,
    Message,
    Type,
    of_message,
    unwrap,
)
from daggersql.operators.fields import TIME_FIELDS


@dataclass(frozen=True, slots=True)
class Leaf:
    """Field of a message to which a path leads."""

    type: Type
    value: Expr
    """Over `x`, the message as a struct."""
    path: str
    """Path that must be decoded."""


def message_type(name: Expr, report: Report) -> Message | None:
    """Find the message type that a constant names; None, with a finding, when there is none."""
    descriptor = report.environment.message(name.value) if isinstance(name.value, str) else None
    if descriptor is None and isinstance(name.value, str) and report.environment.unknown:
        return None  # streams without a known schema may have it
    if descriptor is None:
        suggestion = (
            report.nearest(str(name.value), report.environment.messages()) if name.value is not None else None
        )
        report.error(
            "UNKNOWN_MESSAGE",
            name.span,
            f"The streams' schemas have no message {name.value}.",
            instead_of_constant(name.span, suggestion),
        )
        return None
    return of_message(descriptor)


def leaf(message: Message, path: Expr, report: Report) -> Leaf | None:
    """Find the field to which a constant path leads; None, with a finding, when there is none."""
    if not isinstance(path.value, str):
        report.error("INVALID_ARGUMENT", path.span, "The path of a field is written as a constant.")
        return None
    kind: Type = message
    span = path.span
    value, default, read = variable("x", message, span), None, []
    field: FieldDescriptor | None = None
    for name in path.value.split("."):
        if (kind, name) in TIME_FIELDS:
            op, kind = TIME_FIELDS[kind, name]
            value, default = call(op, kind, span, value), call(Op.ZERO, kind, span)
            continue
        if (
            name == "value"
            and (inside := unwrap(kind))
            and field is not None
            and field.message_type is not None
        ):
            kind, default = inside, _default(field.message_type.fields_by_name["value"], inside, span)
            continue
        fields = kind.fields() if isinstance(kind, Message) else {}
        if not isinstance(kind, Message) or name not in fields:
            _unknown(kind, name, path, report)
            return None
        field = kind.descriptor.fields_by_name[name]
        kind = fields[name]
        value = Expr(Op.FIELD, kind, span, (value,), name=name)
        default = _default(field, kind, span)
        read.append(name)
    if default is not None:
        value = call(_OR_DEFAULT, kind, span, value, default)
    return Leaf(kind, value, ".".join(read))


_OR_DEFAULT = Form("CASE WHEN x IS NOT NULL THEN coalesce({0}, {1}) END")


def ddl(kind: Type) -> str | None:
    """Write a type for `from_json`; None for one that JSON has no form of."""
    match kind:
        case Array(element=element):
            below = ddl(element)
            return below and f"array<{below}>"
        case MapOf(key=key, value=value):
            below = ddl(value)
            return f"map<string,{below}>" if below and family(key) is Family.TEXT else None
        case Message():
            parts = [(name, ddl(inner)) for name, inner in kind.fields().items()]
            if any(text is None for _, text in parts):
                return None
            return f"struct<{','.join(f'{quote_name(name)}:{text}' for name, text in parts)}>"
    return kind.spark


def element_message(values: Expr) -> Message | None:
    """Return the message type of a list of structs; None for any other list."""
    kind = values.type.element if isinstance(values.type, Array) else None
    return kind if isinstance(kind, Message) else None


def check_same(message: Message, name: Expr, report: Report) -> bool:
    """Check that a list of structs has the message type that the query names; report it if not."""
    expected = message_type(name, report)
    if expected is None:
        return False
    if expected.descriptor.full_name != message.descriptor.full_name:
        own = str(message.descriptor.full_name)
        report.error(
            "INVALID_ARGUMENT", name.span, f"These messages are {own}.", instead_of_constant(name.span, own)
        )
        return False
    return True


def _unknown(kind: Type, name: str, path: Expr, report: Report) -> None:
    if isinstance(kind, Message):
        suggestion = report.nearest(name, kind.fields())
        detail = f"{kind.descriptor.full_name} has no field {name!r}."
    else:
        suggestion, detail = None, f"There are no fields below {str(path.value).rpartition('.')[0]}."
    rewrite = instead_of_step(path.span, str(path.value).split("."), name, suggestion)
    report.error("UNKNOWN_FIELD", path.span, detail, rewrite)


def _default(field: FieldDescriptor, kind: Type, span: Span) -> Expr | None:
    """Build the value of a field that is not set; None for a field with presence."""
    match kind:
        case Array():
            return call(Op.EMPTY_ARRAY, kind, span)
        case MapOf():
            return call(Op.EMPTY_MAP, kind, span)
    if field.has_presence:
        return _declared_default(field, kind, span) if field.has_default_value else None
    if isinstance(kind, EnumText):
        return text_constant(kind.values[0], STRING, span)
    match family(kind):
        case Family.TEXT:
            return text_constant("", STRING, span)
        case Family.BINARY:
            return bytes_constant("", span)
    return call(Op.FALSE if kind == BOOLEAN else Op.ZERO, kind, span)


def _declared_default(field: FieldDescriptor, kind: Type, span: Span) -> Expr:
    """Build the default that the schema declares."""
    value = field.default_value
    if field.enum_type is not None:
        value = field.enum_type.values_by_number[value].name
    if isinstance(value, bytes):
        return bytes_constant(value.hex(), span)
    return cast(text_constant(str(value), STRING, span), kind)


def is_known_later(name: Expr) -> bool:
    """Tell whether a column of each record names the message type."""
    return name.value is None and family(name.type) is Family.TEXT
