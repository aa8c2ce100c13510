"""Lints of `emit: early` and `late: update`: every row that is written is final, or is overwritten later.

A row is written again when its group changes, to the same point of a time-series store: that of its tags and
its time. So tags and time must not change while records come, no row may be withdrawn, and no field may
become NULL again: a NULL field is left out of the line, so that the point would keep the old value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from daggerspec.columns import Role, role_of
from daggersql.findings import Report
from daggersql.ir import gates, whole
from daggersql.ir.expr import Expr, Ref
from daggersql.ir.families import NUMERIC, family
from daggersql.ir.naming import add_column
from daggersql.ir.ops import Form, Op
from daggersql.ir.relations import TIME, Select, Union, group_column


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Setting by which a row is written more than once, as errors name it."""

    code: str
    """Code of the errors."""
    setting: str
    instead: str
    """Advice on what to do in its place."""
    value: str
    """The other value of the setting."""


EARLY: Final = Rewriting("EARLY_NOT_POSSIBLE", "`emit: early`", "emit `final`", "final")
UPDATE: Final = Rewriting("UPDATE_NOT_POSSIBLE", "`late: update`", "`drop` late records", "drop")
# They give a value for values; an overflow apart, which no window comes to by growing and leaves again.
_TOTAL = frozenset({
    Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.NEGATE, Op.TRY_ADD, Op.TRY_SUBTRACT, Op.TRY_MULTIPLY, Op.CONCAT,
    Op.FLOOR_TIME, Op.CEIL_TIME,
})  # fmt: skip
_DIVISIONS = frozenset({Op.DIVIDE, Op.REMAINDER, Op.WHOLE_QUOTIENT, Op.SAFE_WHOLE_QUOTIENT})


def object_to_early(query: Select | Union, report: Report) -> None:
    """Say what of the query's rows would not be true in the end, if they are written early."""
    if not whole.horizon(query):
        return  # rows of records: each is written once
    window = whole.window(query)
    if isinstance(query, Union) or query.window is None or window is None or window.kind == "SESSION":
        text = "`emit: early` works with one TUMBLE or HOP window, not with sessions or joins."
        report.error(EARLY.code, gates.window_span(query), text, EARLY.value)
        return
    _Rows(query, report, EARLY).object_to()


def object_to_update(query: Select | Union, report: Report) -> None:
    """Say why the query's rows cannot be written again with late records."""
    if (windowed := gates.find_windowed_stream(query)) is None:
        text = (
            "`late: update` works with one TUMBLE or HOP window over one stream, not with sessions, joins,"
            " or queries inside of it."
        )
        report.error(UPDATE.code, gates.window_span(query), text, UPDATE.value)
        return
    _Rows(windowed[0], report, UPDATE).object_to()


def refuse_condition(query: Select | Union, condition: Expr, report: Report, rewriting: Rewriting) -> None:
    """Say of a condition on rows that are written more than once that it may turn false again."""
    if not whole.horizon(query) or isinstance(query, Union):
        return  # rows of records; what else cannot be early, the query was told
    values = {output.name: output.value for output in query.outputs}
    over_groups = condition.rebuild(
        lambda node: values.get(node.ref.path[0]) if node.ref is not None and node.ref.path else None
    )
    if not _Rows(query, report, rewriting).stays_true(over_groups):
        text = (
            f"With {rewriting.setting} it may turn false again, and a row that was written stays:"
            f" {rewriting.instead}."
        )
        report.error(rewriting.code, condition.span, text, rewriting.value)


class _Rows:
    """The rows of one window, and which of their values change while it is open."""

    def __init__(self, select: Select, report: Report, rewriting: Rewriting) -> None:
        self._select = select
        self._report = report
        self._rewriting = rewriting
        self._aggregates: Mapping[Ref | None, Expr] = {
            group_column("a", number, aggregate).ref: aggregate
            for number, aggregate in enumerate(select.aggregates)
        }

    def object_to(self) -> None:
        having, names = self._select.having, {output.name for output in self._select.outputs}
        if having is not None and not self.stays_true(having):
            self._object(having, "HAVING may turn false again, and a row that was written stays: select it")
        if TIME not in names and self._select.window is not None:
            self._report.object_to(
                self._rewriting.code,
                self._select.window.span,
                f"With {self._rewriting.setting} a row without {TIME} is a new point whenever it is written.",
                add_column(self._select.outputs, f"{self._select.window.bound_text('END')} AS {TIME}"),
            )
        for output in self._select.outputs:
            if role_of(output.name or "") is not Role.FIELD:
                if self._changes(output.value):
                    text = f"{output.name} changes while the window is open: each value is a row"
                    self._object(output.value, text)
            elif not self._lasts(output.value):
                text = f"{output.name} may become NULL again, and its old value stays: use COALESCE"
                self._object(output.value, text)

    def _object(self, value: Expr, text: str) -> None:
        own = self._rewriting
        self._report.object_to(
            own.code, value.span, f"With {own.setting} {text}, or {own.instead}.", own.value
        )

    def _changes(self, value: Expr) -> bool:
        return any(node.ref in self._aggregates or _is_of_now(node) for node in value.nodes())

    def stays_true(self, condition: Expr) -> bool:
        """Tell whether a condition stays true once it is, as its values only grow, or are fixed."""
        if not self._changes(condition):
            return True
        sides = condition.args
        match condition.op:
            case Op.AND | Op.OR:
                return all(map(self.stays_true, sides))
            case Op.GREATER | Op.AT_LEAST:
                return self._grows(sides[0]) and not self._changes(sides[1])
            case Op.LESS | Op.AT_MOST:
                return self._grows(sides[1]) and not self._changes(sides[0])
        return False

    def _grows(self, value: Expr) -> bool:
        aggregate = self._aggregates.get(value.ref)
        return aggregate is not None and aggregate.op in (Op.COUNT, Op.MAX, Op.MAX_OF_FLOATS)

    def _lasts(self, value: Expr) -> bool:
        """Tell whether a value, once it is not NULL, never becomes NULL again."""
        if not self._changes(value) or self._is_always(value):
            return True
        aggregate = self._aggregates.get(value.ref)
        if aggregate is not None:
            keeps = aggregate.op.keeps if isinstance(aggregate.op, Form) else None
            return keeps is None or keeps.ends
        if value.op is Op.CASE:
            return self._case_lasts(value)
        if value.op in _DIVISIONS:
            return all(map(self._lasts, value.args)) and self._is_divisor(value.args[1])
        if value.op is Op.CAST:
            numbers = family(value.type) in NUMERIC and family(value.args[0].type) in NUMERIC
            return (numbers or value.type.spark == "string") and self._lasts(value.args[0])
        if value.op is Op.COALESCE or _is_total(value):
            return all(map(self._lasts, value.args))
        return False

    def _case_lasts(self, value: Expr) -> bool:
        """CASE: with conditions that change, any branch may come after any other."""
        conditions = len(value.args) // 2
        branches = value.args[conditions:]
        if not any(map(self._changes, value.args[:conditions])):
            return all(map(self._lasts, branches))
        return len(value.args) % 2 == 1 and all(map(self._is_always, branches))

    def _is_always(self, value: Expr) -> bool:
        """Tell whether a value is never NULL."""
        if value.is_constant:
            return value.value is not None
        aggregate = self._aggregates.get(value.ref)
        if aggregate is not None:
            return aggregate.op is Op.COUNT
        if value.op is Op.COALESCE:
            return any(map(self._is_always, value.args))
        if value.op is Op.CAST:
            return family(value.type) in NUMERIC and self._is_always(value.args[0])
        return _is_total(value) and all(map(self._is_always, value.args))

    def _is_divisor(self, value: Expr) -> bool:
        """Tell whether a value is never zero: a constant other than zero, or a count."""
        if value.op is Op.CAST:
            return self._is_divisor(value.args[0])
        if value.is_constant:
            return value.value != 0
        return self._grows(value) and self._aggregates[value.ref].op is Op.COUNT


def _is_total(value: Expr) -> bool:
    return value.op.total if isinstance(value.op, Form) else value.op in _TOTAL


def _is_of_now(value: Expr) -> bool:
    return value.op.of_now if isinstance(value.op, Form) else value.op is Op.NOW
