"""Names of output columns: free names, and rewrites of the text that give them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggerspec.columns import LABEL, TAG, Role, role_of
from daggersql.findings import Report, Rewrite
from daggersql.ir.relations import OutputColumn

RESERVED = frozenset({"time", "_time", "_measurement", "_field", "_value"})
"""Names that InfluxDB reserves for a point's time, and for measurement and field in its query language."""


class ColumnNames:
    """Names that are in use: those of columns, suggested ones, and reserved ones."""

    def __init__(self, outputs: Sequence[OutputColumn]) -> None:
        self._names = {*RESERVED, *((output.name or "").lower() for output in outputs)}

    def free(self, name: str) -> str:
        """Reserve and return the name, with a number appended if it is in use."""
        free, number = name, 2
        while free.lower() in self._names:
            free, number = f"{name}_{number}", number + 1
        self._names.add(free.lower())
        return free


def is_tag(output: OutputColumn) -> bool:
    """Tell whether a column's name makes it a tag."""
    return role_of(output.name or "") is Role.TAG


def as_field(name: str) -> str:
    """Remove the prefix that makes a name a tag's."""
    return name.removeprefix(TAG).removeprefix(LABEL)


def say_unnamed(output: OutputColumn, names: ColumnNames, report: Report) -> None:
    """Report that a column has no name, with a free one as the suggestion."""
    start, end = output.span
    words = f"AS {names.free(identifier(report.text[start:end]) or 'value')}"
    rewrite = Rewrite((end, end), f" {words}", words)
    report.error("UNNAMED_COLUMN", output.span, f"Give this column a name: {words}.", rewrite)


def rename_column(output: OutputColumn, name: str) -> Rewrite | None:
    """Rewrite a column's name; None where it comes from a star, or GROUP BY names it."""
    if output.star or output.is_key:
        return None
    if output.span == output.value.span:
        return Rewrite((output.span[1], output.span[1]), f" AS {name}", name)
    return Rewrite(output.span, name)


def add_column(outputs: Sequence[OutputColumn], column: str) -> Rewrite:
    """Rewrite a SELECT with one more column at its end."""
    end = max(outputs[-1].span[1], outputs[-1].value.span[1])
    return Rewrite((end, end), f", {column}", column)


def identifier(text: str) -> str:
    """Make a name of the letters and digits of a text, in lower case; empty when it has none."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()[:60]
    return f"value_{name}" if name[:1].isdigit() else name
