"""What aggregates of ours keep of a group: its first rows, up to a bound.

`min_by(value, order, most)` with the same order for every row keeps the rows that came first, in the order
they came, and no more than that: state is bounded whatever the group. Two lists of one group that are made
of the same rows have them at the same positions.
"""

from __future__ import annotations

from daggersql.findings import Span
from daggersql.tree import Expr, call, constant
from daggersql.types import INT

MOST = 10_000
"""Rows of a group that are kept."""
BEYOND = f"A group of more than {MOST:,} rows gives NULL, and is counted as bad data."


def kept(value: str, order: str) -> str:
    """SQL of the list of kept values (NULL when there are none), one longer than MOST when there are more.

    `value` and `order` are SQL; a row whose `order` is NULL is left out.
    """
    return f"min_by({value}, {order}, {MOST + 1})"


def order_of(where: Expr | None, place: Span) -> Expr:
    """The same number for every row that the condition of FILTER lets in, NULL for the others."""
    one = constant("1", 1, INT, place)
    return one if where is None else call("CASE WHEN {0} THEN 1 END", INT, place, where)


def unless_too_many(function: str, rows: str, answer: str) -> str:
    """SQL of the answer; NULL, and counted by `function`_toomany(flag), when `rows` is too long."""
    return f"CASE WHEN NOT {function}_toomany(coalesce(size({rows}), 0) > {MOST}) THEN {answer} END"


def let(value: str, name: str, body: str) -> str:
    """SQL of `body` in which `name` stands for `value`, computed once and outside of any lambda."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"
