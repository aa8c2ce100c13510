"""ElementAt(list, index); ElementAt(list, list path, index, path[, table])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daggersql.findings import Report, Span, instead_of_step
from daggersql.functions.checks import is_null
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import NULL, STRING, Array, Message, Struct, unwrap
from daggersql.operators.fields import TIME_FIELDS

_FROM_START = Form("get({0}, try_cast({1} AS INT))")
_FROM_END = Form("get({0}, size({0}) + try_cast({1} AS INT))")
_EITHER = Form(f"CASE WHEN {{1}} >= 0 THEN {_FROM_START.template} ELSE {_FROM_END.template} END")
_AS_TEXT: Mapping[Family, Form | Op] = {
    Family.TEXT: Form("{0}"),
    Family.BINARY: Form("replace(base64({0}), '\\r\\n', '')"),
    Family.TIMESTAMP: Op.TEXT_OF_TIME,
    **dict.fromkeys(
        (Family.ARRAY, Family.MAP, Family.STRUCT), Form("to_json({0}, map('ignoreNullFields', 'false'))")
    ),
}


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    values = arguments[0]
    index = arguments[1] if len(arguments) == 2 else arguments[2]
    if any(is_null(argument) for argument in arguments):
        return cast(call(Op.NULL, NULL, span), STRING)
    assert isinstance(values.type, Array)
    if index.is_constant and isinstance(index.value, int):
        form = _FROM_START if index.value >= 0 else _FROM_END
    else:
        form = _EITHER
    element = Expr(form, values.type.element, span, (values, index), read=values.read)
    if len(arguments) > 2:
        is_right = _names_itself(values, arguments[1], report)
        if len(arguments) == 5:
            is_right = _names_table(values, arguments[4], report) and is_right
        below = _below(element, arguments[3], report)
        if not is_right or below is None:
            return wrong(span)
        element = below
    return call(_AS_TEXT.get(family(element.type), Op.AS_TEXT), STRING, span, element)


def _names_itself(values: Expr, path: Expr, report: Report) -> bool:
    """Check that the path is that of the list; a list that is no field of a stream has no path."""
    if not _constant(path, report):
        return False
    if values.read is not None and path.value != values.read[1]:
        own = values.read[1]
        report.error("UNKNOWN_FIELD", path.span, f"The path of this list is {own}, not {path.value}.", own)
        return False
    return True


def _names_table(values: Expr, table: Expr, report: Report) -> bool:
    if not _constant(table, report):
        return False
    if values.read is not None and table.value != values.read[0]:
        own = values.read[0]
        report.error("UNKNOWN_TABLE", table.span, f"The table of this list is {own}, not {table.value}.", own)
        return False
    return True


def _constant(text: Expr, report: Report) -> bool:
    if isinstance(text.value, str):
        return True
    report.error("INVALID_ARGUMENT", text.span, "Paths and tables are written as constants.")
    return False


def _below(value: Expr, path: Expr, report: Report) -> Expr | None:
    """Build a field of a message, NULL where a message on the way is; None, with a finding, without one."""
    if not _constant(path, report):
        return None
    for name in str(path.value).split("."):
        if (value.type, name) in TIME_FIELDS:
            op, kind = TIME_FIELDS[value.type, name]
            value = call(op, kind, value.span, value)
            continue
        if name == "value" and (inside := unwrap(value.type)) is not None:
            value = replace(value, type=inside)
            continue
        fields = value.type.fields() if isinstance(value.type, Message | Struct) else {}
        if name not in fields:
            near = report.nearest(name, fields)
            rewrite = instead_of_step(path.span, str(path.value).split("."), name, near)
            report.error("UNKNOWN_FIELD", path.span, f"{path.value} leads to no field.", rewrite)
            return None
        read = None if value.read is None else (value.read[0], f"{value.read[1]}.{name}")
        value = Expr(Op.FIELD, fields[name], value.span, (value,), name=name, read=read)
    return value


_LIST, _TEXT, _WHOLE = Family.ARRAY, Family.TEXT, Family.INTEGER

FUNCTION = Function(
    "ElementAt",
    (
        Signature((_LIST, _WHOLE), STRING, "{0}"),
        Signature((_LIST, _TEXT, _WHOLE, _TEXT), STRING, "{0}"),
        Signature((_LIST, _TEXT, _WHOLE, _TEXT, _TEXT), STRING, "{0}"),
    ),
    own=True,
    build=_build,
    doc=Doc(
        "An element of a list, or a field of it, as text. Positions count from 0, negative ones from the"
        " end: -1 is the last. A message is given as JSON, times as yyyy-MM-dd HH:mm:ss.SSS, bytes in"
        " Base64. NULL when there is no such element or it is NULL, and for NULL. With its own type an"
        " element is list[1].",
        (
            ("list", "any list; one of messages in the longer forms"),
            ("list path", "a constant: the path of the list itself"),
            ("index", "position from 0, or from the end when negative"),
            ("path", "a constant: a field of the element, with dots into messages"),
            ("table", "a constant: the table that the list is of"),
        ),
        (
            ("ElementAt(Split('a,b,c', ','), 1)", "b"),
            ("ElementAt(Split('a,b,c', ','), -1)", "c"),
            ("ElementAt(Split('a,b,c', ','), 5)", "NULL"),
        ),
        dagger="gives '' for an unknown path, the text null for NULL, and looks a path up in the first stream"
        " when no table is named.",
    ),
)
