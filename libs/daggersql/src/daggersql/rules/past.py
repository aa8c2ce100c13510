"""`before(time, number)` in conditions of rules: what the number was in the window that ended so long before.

Each call becomes a column of the rows, which the driver adds (`PastValue`).

Rows are the same thing at two times if all their tags are equal; of several rows in a window the greatest
number counts. Where there was no row, or its number was NULL, the call is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from daggerspec.alertrules import digest_texts
from daggerspec.columns import PAST
from daggersql.emit.expressions import sql as sql_of
from daggersql.findings import Report
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family, fits
from daggersql.ir.types import BOOLEAN, INTEGERS, EnumText, Type
from daggersql.plan import Window
from daggersql.rules.compiled import PastValue
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

NAME: Final = "before"
MOST_LAG: Final = timedelta(days=31)
_LAG: Final = re.compile(r"\s*(\d{1,7})\s*(s|m|h|d)\s*")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class PastCalls:
    """Calls in the conditions of one rule."""

    def __init__(
        self, window: Window, tags: Mapping[str, Type], check: Callable[[tree.Node], Expr], report: Report
    ) -> None:
        """tags: their types. check: checks the expression of a number. What is wrong is reported."""
        self._window, self._tags, self._check, self._report = window, tags, check, report
        self.values: dict[str, PastValue] = {}
        """The numbers that were found, by column."""

    def read(self, call: tree.Anonymous, text: str) -> str:
        """Read a call in a condition; return its column, empty where it is wrong."""
        value = self._read(call, text)
        if value is None:
            return ""
        self.values[value.column] = value
        return value.column

    def _read(self, call: tree.Anonymous, text: str) -> PastValue | None:
        """Read a call; None where it is wrong."""
        if len(call.expressions) != 2:
            message = f"{NAME} takes a time and a number: {NAME}('7d', num_of_bookings)."
            self._report.error("WRONG_ARGUMENT_COUNT", span_of(call), message)
            return None
        time, number = call.expressions
        lag = self._read_lag(time)
        value = self._check(number)
        if not value.wrong and not fits(value.type, Family.NUMBER):
            self._report.error("TYPE_MISMATCH", value.span, f"{NAME} reads a number of an earlier window.")
        for name, kind in self._tags.items():
            if not tells_rows_apart(kind):
                message = f"{NAME} finds a row of the past by its tags: {name} is no text or whole number."
                self._report.error("TYPE_MISMATCH", span_of(call), message)
        if lag is None or self._report.failed:
            return None
        begin, end = span_of(call)
        spelt = f"nullif(CAST({sql_of(value)} AS DOUBLE), double('NaN'))"
        column = PAST + digest_texts((spelt, *self._tags, str(lag)))
        columns = tuple(dict.fromkeys(node.ref.path[0] for node in value.nodes() if node.ref is not None))
        return PastValue(column, text[begin:end], lag, spelt, tuple(self._tags), columns)

    def _read_lag(self, node: tree.Node) -> timedelta | None:
        match = _LAG.fullmatch(node.name) if isinstance(node, tree.Literal) and node.is_string else None
        lag = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta()
        problem = ""
        if not timedelta() < lag <= MOST_LAG:
            problem = f"The time is a text like '7d', '1h' or '30m', of {MOST_LAG.days} days at most."
        elif lag % self._window.slide:
            slide = self._window.slide.total_seconds()
            problem = f"No window ended then: it must be a multiple of the {slide:g} s from window to window."
        if problem:
            self._report.error("INVALID_ARGUMENT", span_of(node), problem)
            return None
        return lag


def tells_rows_apart(kind: Type) -> bool:
    """Tell whether values of a type name a row: texts, whole numbers, truth values."""
    return kind in (*INTEGERS, BOOLEAN) or isinstance(kind, EnumText) or fits(kind, Family.TEXT)
