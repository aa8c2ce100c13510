"""Reference tables that calls name by constants: whether they exist, and how often they are read anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, nearest
from daggersql.known import Reference
from daggersql.tree import Expr
from daggersql.types import Family, family

DEFAULT_HOURS = 1
MAX_HOURS = 24 * 365
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def use(arguments: Sequence[Expr], report: Report, *, entries: bool) -> None:
    """Check the name and the refresh time of a call, and note that the query reads the table.

    `entries`: it reads a list, not values by key.
    """
    name = arguments[0]
    if not isinstance(name.value, str):
        report.error("INVALID_ARGUMENT", name.span, "The name of a reference table is written as a constant.")
        return
    if not _NAME.fullmatch(name.value) or ".." in name.value:
        report.error(
            "INVALID_ARGUMENT",
            name.span,
            "A reference table is called by its name: letters, digits, '.', '_' and '-'.",
        )
        return
    known = report.known.references
    if known is not None and name.value not in known:
        suggestion = nearest(name.value, known)
        hint = f": did you mean {suggestion}?" if suggestion else "; an administrator can register it."
        report.error(
            "REFERENCE_NOT_FOUND", name.span, f"There is no reference table {name.value}{hint}", suggestion
        )
        return
    hours = DEFAULT_HOURS
    for argument in arguments[2:]:
        if family(argument.type) is Family.INTEGER:
            value = argument.value
            if not isinstance(value, int) or value > MAX_HOURS:
                report.error(
                    "INVALID_ARGUMENT",
                    argument.span,
                    f"The refresh time is a constant, whole hours up to {MAX_HOURS}; 0 reads the table for"
                    f" each"
                    " batch.",
                    str(DEFAULT_HOURS),
                )
                return
            hours = max(0, value)
    report.note_reference(Reference(name.value, entries, hours))
