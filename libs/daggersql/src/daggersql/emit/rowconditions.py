"""The rows of a query with what conditions say of them, as columns behind all others."""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.ir.expr

from __future__ import annotations

from daggerspec.columns import condition_column
from daggerspec.query import quote_name
from daggersql.ir.relations import ROW
from daggersql.plan import CLOSED, GATE, Plan


def with_conditions(plan: Plan, sql: str) -> str:
    """Add a column for each condition of a plan to the SQL of its rows."""
    if not plan.conditions:
        return sql
    row = quote_name(ROW)
    own = [f"{row}.{quote_name(name)}" for name in (*(column.name for column in plan.columns), *plan.hidden)]
    if plan.window is not None and plan.window.gates:
        own += [f"{row}.{quote_name(name)}" for name in (GATE, CLOSED)]
    conditions = [
        f"({condition.spark_sql}) AS {quote_name(condition_column(number))}"
        for number, condition in enumerate(plan.conditions)
    ]
    return f"SELECT {', '.join((*own, *conditions))} FROM ({sql}) AS {row}"
