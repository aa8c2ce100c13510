"""Calls that name a reference table by a constant: their signatures, whether the table exists, how often it
is read anew, and how they are made."""

from __future__ import annotations

from collections.abc import Sequence

from daggerspec.fields import REFERENCE
from daggersql.environment import Reference
from daggersql.findings import Report, Span, instead, instead_of_constant, unless
from daggersql.functions.signature import Build, Signature
from daggersql.ir.expr import Expr, call, cast, null
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form
from daggersql.ir.types import STRING, Type

DEFAULT_HOURS = 1
MAX_HOURS = 24 * 365
"""A table is read at least once a year, whatever a query says."""
HOURS = (
    "refresh hours",
    f"a constant: how old the table may grow; {DEFAULT_HOURS} when left out, 0 or less reads it for each"
    " batch",
)
"""Text of the function reference about the refresh time."""


def signatures(result: Type, *both: Family) -> tuple[Signature, ...]:
    """Build signatures of a table's name and a text, then nothing, a refresh time, a text, or `both`."""
    ways = ((), (Family.INTEGER,), (Family.TEXT,), both)
    return tuple(Signature((Family.TEXT, Family.TEXT, *more), result, "{0}") for more in ways)


def builds(form: Form, result: Type) -> Build:
    """Build the call of the table's name, the text, and the further text, in whichever place, or NULL."""

    def build(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
        given = [argument for argument in arguments[2:] if family(argument.type) is Family.TEXT]
        further = given[0] if given else null(span)
        return call(
            form, result, span, *(cast(expression, STRING) for expression in (*arguments[:2], further))
        )

    return build


def use(arguments: Sequence[Expr], report: Report, *, entries: bool) -> None:
    """Check the name and the refresh time of a call, and note that the query reads the table.

    `entries`: it reads a list, not values by key.
    """
    name = arguments[0]
    if not isinstance(name.value, str):
        report.error("INVALID_ARGUMENT", name.span, "The name of a reference table is written as a constant.")
        return
    if not REFERENCE.fullmatch(name.value):
        report.error(
            "INVALID_ARGUMENT",
            name.span,
            "A reference table is called by its name: letters, digits, '.', '_' and '-'.",
        )
        return
    tables = report.environment.references
    if tables is not None and name.value not in tables:
        suggestion = report.nearest(name.value, tables)
        report.error(
            "REFERENCE_NOT_FOUND",
            name.span,
            f"There is no reference table {name.value}"
            + unless(suggestion, "; an administrator can register it"),
            instead_of_constant(name.span, suggestion),
        )
        return
    hours = DEFAULT_HOURS
    for argument in arguments[2:]:
        if family(argument.type) is Family.INTEGER:
            value = argument.value
            if not isinstance(value, int):
                report.error(
                    "INVALID_ARGUMENT",
                    argument.span,
                    "The refresh time is a constant, whole hours; 0 reads the table for each batch.",
                    instead(argument.span, str(DEFAULT_HOURS)),
                )
                return
            hours = min(max(0, value), MAX_HOURS)
    report.note_reference(Reference(name.value, entries, hours))
