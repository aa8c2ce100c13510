"""Limits of a reference table in the conditions of a rule: rules as rows of a table.

The driver adds the columns of the table to the rows, by their key. What the table has is not known here: its
columns are those that the rule names, and all of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from daggerspec.query import quote_name
from daggersql.findings import Finding, Report, instead, unless
from daggersql.ir.expr import Expr, Ref
from daggersql.ir.relations import ROW
from daggersql.ir.types import DOUBLE, Type
from daggersql.rules.compiled import ConditionPair, RuleLimits
from daggersql.rules.past import tells_rows_apart


class LimitColumns:
    """Columns of a reference table that one rule reads; none where it has no limits."""

    def __init__(
        self, limits: RuleLimits | None, outputs: Mapping[str, Type], report_for: Callable[[str], Report]
    ) -> None:
        """outputs: types of the columns of the query."""
        self._limits, self._outputs, self._report_for = limits, outputs, report_for
        names = () if limits is None else limits.columns
        self.types: Mapping[str, Type] = dict.fromkeys(names, DOUBLE)
        """Types of the columns, as conditions name them."""
        self.columns = {limits.column(name): name for name in names} if limits is not None else {}
        """Their names, by the columns of the rows that have them."""
        self.key = () if limits is None else limits.key
        """Columns of the query whose values are a key of the table."""

    def check(self) -> Iterator[tuple[str, Finding]]:
        """Yield what is wrong with the limits, and the part of the rule."""
        if self._limits is None:
            return
        yield from self._check_reference(self._limits.reference)
        for place, name in enumerate(self._limits.key):
            report = self._report_for(name)
            if name not in self._outputs:
                near = report.nearest(name, self._outputs)
                there = f": there are {', '.join(self._outputs)}"
                text = f"The query has no column {name}{unless(near, there)}."
                report.error("UNKNOWN_COLUMN", (0, len(name)), text, instead((0, len(name)), near))
            elif not tells_rows_apart(self._outputs[name]):
                text = f"Keys of a reference table are texts: {name} is no text, whole number or truth value."
                report.error("TYPE_MISMATCH", (0, len(name)), text)
            yield from ((f"limits.key[{place}]", finding) for finding in report.findings())
        for place, name in enumerate(self._limits.columns):
            if name in self._outputs:
                report = self._report_for(name)
                text = f"The query has a column {name}, too: rename it there, or in the table."
                report.error("AMBIGUOUS_COLUMN", (0, len(name)), text)
                yield from ((f"limits.columns[{place}]", finding) for finding in report.findings())

    def _check_reference(self, name: str) -> Iterator[tuple[str, Finding]]:
        report = self._report_for(name)
        tables = report.environment.references
        if tables is not None and name not in tables:
            near = report.nearest(name, tables)
            text = f"There is no reference table {name}{unless(near, '; an administrator can register it')}."
            report.error("REFERENCE_NOT_FOUND", (0, len(name)), text, instead((0, len(name)), near))
        return (("limits.reference", finding) for finding in report.findings())

    def place_name(self, name: str) -> str:
        """Return the column of the rows that has a column of the table; that of the query is what it is."""
        return self._limits.column(name) if self._limits is not None and name in self.types else name

    def place(self, condition: Expr) -> Expr:
        """Let a condition read the columns of the rows that have those of the table."""

        def place(node: Expr) -> Expr | None:
            if node.ref is None or node.ref.relation != ROW or node.ref.path[0] not in self.types:
                return None
            return replace(node, ref=Ref(ROW, (self.place_name(node.ref.path[0]),)))

        return condition.rebuild(place) if self.types else condition

    def need(self, when: str, resolve: str) -> ConditionPair:
        """Return when a rule is true, and over, of rows whose key the table need not have: of one without,
        it is not true, and over. resolve: empty, where it is over whenever it is not true.
        """
        if self._limits is None:
            return ConditionPair(when, resolve)
        present = f"`row`.{quote_name(self._limits.present)}"
        return ConditionPair(f"{present} AND ({when})", resolve and f"NOT {present} OR ({resolve})")
