"""CondEq(path, value): a condition for Filters."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr, call
from daggersql.ir.families import Family
from daggersql.ir.ops import Op
from daggersql.ir.types import CONDITION


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    path, _ = arguments
    if not isinstance(path.value, str):
        report.error("INVALID_ARGUMENT", path.span, "The path of a field is written as a constant.")
    elif not path.value:
        report.error("UNKNOWN_FIELD", path.span, "The path names no field.")


def _build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    return call(Op.NULL, CONDITION, span, *arguments)


FUNCTION = Function(
    "CondEq",
    (Signature((Family.TEXT, Family.ANY), CONDITION, Op.NULL),),
    own=True,
    check=_check,
    build=_build,
    doc=Doc(
        about="A condition for Filters: the field at the path equals the value. Numbers are equal by value,"
        " whatever their types; enums compare by name; a field that is not set equals its default. Never true"
        " for NULL.",
        parameters=(
            ("path", "a constant: the field, with dots into messages"),
            ("value", "a scalar"),
        ),
        examples=(),
        dagger="Numbers of different types are never equal.",
    ),
)
