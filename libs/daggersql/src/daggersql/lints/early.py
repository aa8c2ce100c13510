"""What `emit: early` asks of a query: what is written while a window is open is a result, or is written over.

A row is written again when its group changes, to the same point of a time-series store: that of its tags and
its time. So these stay the same while the window is open, no row is taken back, and no field becomes NULL
again: a NULL field is left out of the line, and the point would keep the old one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from daggersql.findings import Report
from daggersql.functions.aggregates import COUNT, MAX
from daggersql.functions.general import NOW
from daggersql.ir import whole
from daggersql.ir.expr import Expr
from daggersql.ir.relations import TIME, Select, Union, group_column
from daggersql.ir.types import NUMERIC, family

CODE = "EARLY_NOT_POSSIBLE"
# They give a value for values; an overflow apart, which no window comes to by growing and leaves again.
_PLAIN = re.compile(
    r"\(\{0\} [-+*] \{1\}\)|\(- \{0\}\)|try_(add|subtract|multiply)\("
    r"|(abs|ceil|floor|round|exp|greatest|least|concat|upper|lower|date_trunc)\("
)
_DIVIDES = re.compile(r"try_divide\(|mod\(| div ")


def object_to_early(query: Select | Union, report: Report) -> None:
    """Say what of the query's rows would not be true in the end."""
    if not whole.horizon(query):
        return  # rows of records: each is written once
    window = whole.window(query)
    if isinstance(query, Union) or query.window is None or window is None or window.kind == "SESSION":
        place = query.outputs[0].value.span
        if isinstance(query, Select) and query.window is not None:
            place = query.window.span
        report.error(
            CODE,
            place,
            "`emit: early` works with one TUMBLE or HOP window, not with sessions or joins.",
            "final",
        )
        return
    _Rows(query, report).object_to()


class _Rows:
    """The rows of one window, and which of their values change while it is open."""

    def __init__(self, select: Select, report: Report) -> None:
        self._select = select
        self._report = report
        self._aggregates: Mapping[str, Expr] = {
            group_column("a", number, each).text: each for number, each in enumerate(select.aggregates)
        }

    def object_to(self) -> None:
        having, names = self._select.having, {each.name for each in self._select.outputs}
        if having is not None and not self._stays_true(having):
            self._object(having, "HAVING may turn false again, and a row that was written stays: select it")
        if TIME not in names and self._select.window is not None:
            self._report.object_to(
                CODE,
                self._select.window.span,
                f"With `emit: early` a row without {TIME} is a new point each time it is written.",
                f"{self._select.window.window.kind}_END{self._select.window.arguments} AS {TIME}",
            )
        for output in self._select.outputs:
            if output.name == TIME or (output.name or "").startswith(("tag_", "label_")):
                if self._changes(output.value):
                    what = f"{output.name} changes while the window is open: each value is a row"
                    self._object(output.value, what)
            elif not self._lasts(output.value):
                what = f"{output.name} may become NULL again, and its old value stays: use COALESCE"
                self._object(output.value, what)

    def _object(self, value: Expr, what: str) -> None:
        self._report.object_to(CODE, value.span, f"With `emit: early` {what}, or emit `final`.", "final")

    def _changes(self, value: Expr) -> bool:
        return any(node.text in self._aggregates or NOW in node.template for node in value.nodes())

    def _stays_true(self, condition: Expr) -> bool:
        """Whether a condition that held holds for ever: over what only grows, or does not change."""
        if not self._changes(condition):
            return True
        sides = condition.args
        match condition.template:
            case "({0} AND {1})" | "({0} OR {1})":
                return all(map(self._stays_true, sides))
            case "({0} > {1})" | "({0} >= {1})":
                return self._grows(sides[0]) and not self._changes(sides[1])
            case "({0} < {1})" | "({0} <= {1})":
                return self._grows(sides[1]) and not self._changes(sides[0])
        return False

    def _grows(self, value: Expr) -> bool:
        aggregate = self._aggregates.get(value.text)
        return aggregate is not None and aggregate.template in (COUNT, MAX)

    def _lasts(self, value: Expr) -> bool:
        """Whether a value that is there does not become NULL again."""
        if not self._changes(value) or self._is_always(value):
            return True
        aggregate = self._aggregates.get(value.text)
        if aggregate is not None:
            return "_toomany(" not in aggregate.template
        if value.template.startswith("CASE WHEN") and " div " not in value.template:
            return self._case_lasts(value)
        if _DIVIDES.search(value.template):
            return all(map(self._lasts, value.args)) and self._is_divisor(value.args[1])
        if value.template.startswith("try_cast("):
            numbers = family(value.type) in NUMERIC and family(value.args[0].type) in NUMERIC
            return (numbers or value.type.spark == "string") and self._lasts(value.args[0])
        if value.template.startswith("coalesce(") or _PLAIN.match(value.template):
            return all(map(self._lasts, value.args))
        return False

    def _case_lasts(self, value: Expr) -> bool:
        """CASE: with conditions that change, any branch may come after any other."""
        conditions = value.template.count(" WHEN ")
        branches = value.args[conditions:]
        if not any(map(self._changes, value.args[:conditions])):
            return all(map(self._lasts, branches))
        return " ELSE " in value.template and all(map(self._is_always, branches))

    def _is_always(self, value: Expr) -> bool:
        """Whether it is never NULL."""
        if value.is_constant:
            return value.value is not None
        aggregate = self._aggregates.get(value.text)
        if aggregate is not None:
            return aggregate.template == COUNT
        if value.template.startswith("coalesce("):
            return any(map(self._is_always, value.args))
        if value.template.startswith("try_cast("):
            return family(value.type) in NUMERIC and self._is_always(value.args[0])
        return _PLAIN.match(value.template) is not None and all(map(self._is_always, value.args))

    def _is_divisor(self, value: Expr) -> bool:
        """Whether it does not become zero: a constant that is not, or a count."""
        if value.template.startswith("try_cast("):
            return self._is_divisor(value.args[0])
        if value.is_constant:
            return value.value != 0
        return self._grows(value) and self._aggregates[value.text].template == COUNT
