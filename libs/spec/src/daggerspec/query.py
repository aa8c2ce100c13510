"""The query of a dagger as one text of SQL: its own, or the SELECT that its forwarding stands for. Pure.

Findings in that text are moved to the field of the spec in which it was written.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec.violation import Violation, line_starts, lines

_SQL: Final = "sql"
_FORWARD: Final = "forward"


@dataclass(frozen=True, slots=True)
class QueryPart:
    """The part of a query's text that one field of the spec gives."""

    field: str
    """Its path below the spec."""
    start: int
    """The offset of its beginning in the query's text, always at the beginning of a line."""
    text: str
    column: str = ""
    """The path of the column that it is the expression of; empty for another part."""

    @property
    def span(self) -> tuple[int, int]:
        """Its start and end in the query's text."""
        return self.start, self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, and where each part of it was written."""

    sql: str
    parts: tuple[QueryPart, ...]

    @property
    def expressions(self) -> tuple[tuple[int, int], ...]:
        """The spans that must be one expression each: whatever is written there, no more comes of it."""
        return tuple(part.span for part in self.parts if part.field != _SQL)

    def locate(self, path: str, violation: Violation) -> Violation:
        """Move a violation of the query's text to the field that gives its place, below `path`.

        A violation between two fields belongs to the whole, and has no place.
        """
        starts = line_starts(self.sql)
        for part in self.parts:
            first = bisect_right(starts, part.start)
            if violation.line is not None and first <= violation.line < first + len(lines(part.text)):
                named = dataclasses.replace(violation, field=f"{path}.{part.field}")
                return _within(part, first, violation.line, named)
            if part.column and violation.line == first + len(lines(part.text)):  # its name follows it
                return self._without_place(f"{path}.{part.column}.name", violation)
        whole = _FORWARD if self.expressions or not self.parts else _SQL
        return self._without_place(f"{path}.{whole}", violation)

    @staticmethod
    def _without_place(field: str, violation: Violation) -> Violation:
        return Violation(
            field,
            violation.message,
            violation.reason,
            suggestion=violation.suggestion,
            metadata=violation.metadata,
        )


RECORD_COLUMNS: Final = {"value": "__value", "key": "__key", "headers": "__headers"}
"""The columns of a record that is passed on as it is, and what the dialect calls them."""


def has_records(spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether a dagger's rows are records as they are."""
    return spec.HasField(_FORWARD) and spec.forward.payload == spec_pb2.Forward.PAYLOAD_RECORD


def find_tables(spec: spec_pb2.DaggerSpec, names: Iterable[str]) -> Iterator[str]:
    """Yield which of these reference tables a dagger may read: whatever text of its query may name one, and
    alert rules do.
    """
    sql, of_rules = of(spec).sql, {rule.limits.reference for rule in spec.alerts}
    return (name for name in names if f"'{name}'" in sql or name in of_rules)


def of(spec: spec_pb2.DaggerSpec) -> Query:
    """Build the query of a spec with its defaults filled in, from `sql` or `forward`."""
    if not spec.HasField(_FORWARD):
        return Query(spec.sql, (QueryPart(_SQL, 0, spec.sql),))
    text, parts = "SELECT\n", list[QueryPart]()
    if has_records(spec):
        text += ", ".join(f"{quote_name(name)} AS {quote_name(as_)}" for as_, name in RECORD_COLUMNS.items())
        return _add_source(text, parts, spec)
    for number, (column, written, after) in enumerate(_columns(spec.forward)):
        text += ",\n" if number else ""
        parts.append(QueryPart(f"{column}.expression", len(text), written, column))
        text += f"{written}\n{after}"
    text += "" if parts else "*"
    return _add_source(text, parts, spec)


def _add_source(text: str, parts: list[QueryPart], spec: spec_pb2.DaggerSpec) -> Query:
    text += f"\nFROM {quote_name(spec.streams[0].table)}" if spec.streams else ""
    if spec.forward.filter.strip():
        text += "\nWHERE\n"
        parts.append(QueryPart(f"{_FORWARD}.filter", len(text), spec.forward.filter))
        text += spec.forward.filter
    return Query(text, tuple(parts))


def _columns(forward: spec_pb2.Forward) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the expression and the text behind it of each column."""
    for number, written in enumerate(forward.fields):
        yield (
            f"{_FORWARD}.fields[{number}]",
            written.expression,
            f"  AS {quote_name(written.name)}",
        )


def quote_name(name: str) -> str:
    """Quote a name for Spark and the dialect, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def _within(part: QueryPart, first: int, line: int, violation: Violation) -> Violation:
    """Count a violation's places from the part's first line, and end it with the part."""
    written = lines(part.text)
    last = first + len(written) - 1
    end_line, end_column = violation.end_line, violation.end_column
    if end_line is None or end_line > last:
        end_line, end_column = last, len(written[-1]) + 1
    edit = violation.edit
    if edit is not None:
        moved = dataclasses.replace(edit, line=edit.line - first + 1, end_line=edit.end_line - first + 1)
        edit = moved if first <= edit.line and edit.end_line <= last else None
    return dataclasses.replace(
        violation,
        line=line - first + 1,
        end_line=end_line - first + 1,
        end_column=end_column,
        edit=edit,
    )
