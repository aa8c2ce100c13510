"""The rows of a query with what conditions say of them, as columns behind all others."""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.ir.expr

from __future__ import annotations

from daggerspec.columns import condition_column
from daggerspec.query import quote_name
from daggersql.ir.relations import ROW
from daggersql.plan import Plan


def with_conditions(plan: Plan, sql: str) -> str:
    """The SQL of a plan's rows, and with it a column for each of its conditions; itself where it has none."""
    if not plan.conditions:
        return sql
    row = quote_name(ROW)
    own = [f"{row}.{quote_name(name)}" for name in (*(column.name for column in plan.columns), *plan.hidden)]
    told = [
        f"({condition.spark_sql}) AS {quote_name(condition_column(number))}"
        for number, condition in enumerate(plan.conditions)
    ]
    return f"SELECT {', '.join((*own, *told))} FROM ({sql}) AS {row}"
