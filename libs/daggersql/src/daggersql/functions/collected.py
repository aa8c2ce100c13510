"""Lists of a group's values, the state of our own aggregates, in the order of arrival.

A list grows with its values, so that many small groups cost little; it has no bound of its own, and a group
that exceeds MOST is reported while it grows (`runtime.state.groups`). Two lists of the same rows of a group
have them at the same positions. Spark does not recognise two equal `collect_list`s, so a template names a
list once, and uses `count` for its length.
"""

from __future__ import annotations

from daggersql.findings import Span
from daggersql.ir.expr import Expr, call, constant
from daggersql.ir.ops import Form, Keeps, Op
from daggersql.ir.types import INT

MOST = 10_000
"""Rows of a group that there is an answer for."""
OF_MANY = f"a group of more than {MOST:,} rows gives NULL, and is counted as bad data"
BEYOND = f"{OF_MANY[0].upper()}{OF_MANY[1:]}."
STATE = f"grows with what is in it, also beyond {MOST:,}. {BEYOND}"


def list_values(value: str, among: str) -> str:
    """Write the list of the values of all rows whose `among` is not NULL; empty when there are none.

    `value` and `among` are SQL; rows whose value is NULL are left out too.
    """
    return f"collect_list(CASE WHEN {among} IS NOT NULL THEN {value} END)"


def too_many(among: str) -> str:
    """SQL of whether more rows are kept than there is an answer for."""
    return f"count({among}) > {MOST}"


def let_in(where: Expr | None, span: Span) -> Expr:
    """Build 1 for every row that meets the condition of FILTER, and NULL for the others."""
    one = constant("1", 1, INT, span)
    return one if where is None else call(Op.CASE, INT, span, where, one)


def unless_too_many(function: str, among: str, answer: str) -> Form:
    """SQL of the answer; NULL, and counted by `function`_toomany(flag), for a group of too many rows."""
    sql = f"CASE WHEN NOT {function}_toomany({too_many(among)}) THEN {answer} END"
    return Form(sql, keeps=Keeps("list", function, ends=False))


LET = Form("get(transform(array({0}), e -> {1}), 0)")
"""`e` stands for the first argument in the second one."""


def let(value: str, name: str, body: str) -> str:
    """SQL of `body` in which `name` stands for `value`, computed once and outside of any lambda."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"
