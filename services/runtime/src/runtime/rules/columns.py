"""Add what alert rules say of each row to a batch, as columns behind all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from daggerspec.columns import RULE, RULE_OVER
from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule

_ROW = "row"


def with_rules(rows: DataFrame, rules: Sequence[CompiledRule]) -> DataFrame:
    """Add two columns for each rule: whether it is true of the row, and whether an incident is over."""
    return rows.alias(_ROW).selectExpr(f"{quote_name(_ROW)}.*", *_expressions(rules)) if rules else rows


def _expressions(rules: Sequence[CompiledRule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        over = rule.resolve or f"NOT coalesce(({rule.when}), FALSE)"
        yield f"coalesce(({rule.when}), FALSE) AS {quote_name(f'{RULE}{number}')}"
        yield f"coalesce(({over}), FALSE) AS {quote_name(f'{RULE_OVER}{number}')}"
