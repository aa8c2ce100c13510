"""Names of output columns: one that is free, and the change of the text that gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggerspec.columns import LABEL, TAG, Role, role_of
from daggersql.findings import Report, Rewrite
from daggersql.ir.relations import Output

RESERVED = frozenset({"time", "_time", "_measurement", "_field", "_value"})
"""InfluxDB's own: the point's time, and how its query language calls the measurement and the field."""


class Taken:
    """Names that columns have, or were told to have, or must not have."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._names = {*RESERVED, *((output.name or "").lower() for output in outputs)}

    def free(self, name: str) -> str:
        """The name, with a number behind it where it is taken; it is taken from then on."""
        free, number = name, 2
        while free.lower() in self._names:
            free, number = f"{name}_{number}", number + 1
        self._names.add(free.lower())
        return free


def is_tag(output: Output) -> bool:
    """Whether a column's name makes it a tag."""
    return role_of(output.name or "") is Role.TAG


def as_field(name: str) -> str:
    """A tag's name without what makes it one."""
    return name.removeprefix(TAG).removeprefix(LABEL)


def say_unnamed(output: Output, names: Taken, report: Report) -> None:
    """Say of a column that it has no name."""
    start, end = output.span
    words = f"AS {names.free(identifier(report.text[start:end]) or 'value')}"
    rewrite = Rewrite((end, end), f" {words}", words)
    report.error("UNNAMED_COLUMN", output.span, f"Give this column a name: {words}.", rewrite)


def renamed(output: Output, name: str) -> Rewrite | None:
    """Another name for a column; none where a star stands for it, or GROUP BY names it."""
    if output.star or output.is_key:
        return None
    if output.span == output.value.span:
        return Rewrite((output.span[1], output.span[1]), f" AS {name}", name)
    return Rewrite(output.span, name)


def selected(outputs: Sequence[Output], column: str) -> Rewrite:
    """One column more, behind all others."""
    end = max(outputs[-1].span[1], outputs[-1].value.span[1])
    return Rewrite((end, end), f", {column}", column)


def identifier(text: str) -> str:
    """A name made of the letters and digits of a text."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()[:60]
    return f"value_{name}" if name[:1].isdigit() else name
