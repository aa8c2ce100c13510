"""Add what alert rules say of each row to a batch, as columns behind all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from daggerspec.columns import RULE, RULE_ANY, RULE_OVER
from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule

_ROW = "row"


def with_rules(
    rows: DataFrame, rules: Sequence[CompiledRule], series: int = 0, *, several: bool = False
) -> DataFrame:
    """Add two columns for each rule: whether it is true of the row, and whether an incident is over.

    series: how many more there are that are true of all rows. several: rows are of several windows: rules
    with a key get a third column, whether they are true of any row of the same key.
    """
    if not rules:
        return rows
    conditions = [*map(_conditions, rules), *[("TRUE", "FALSE")] * series]
    ruled = rows.alias(_ROW).selectExpr(f"{quote_name(_ROW)}.*", *_expressions(conditions))
    return ruled.selectExpr("*", *_any_of_key(rules)) if several else ruled


def _conditions(rule: CompiledRule) -> tuple[str, str]:
    return rule.when, rule.resolve or f"NOT coalesce(({rule.when}), FALSE)"


def _expressions(conditions: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (when, over) in enumerate(conditions):
        yield f"coalesce(({when}), FALSE) AS {quote_name(f'{RULE}{number}')}"
        yield f"coalesce(({over}), FALSE) AS {quote_name(f'{RULE_OVER}{number}')}"


def _any_of_key(rules: Sequence[CompiledRule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        if rule.key and not rule.text.is_of_absence:
            key = ", ".join(map(quote_name, rule.key))
            is_true, any_true = quote_name(f"{RULE}{number}"), quote_name(f"{RULE_ANY}{number}")
            yield f"bool_or({is_true}) OVER (PARTITION BY {key}) AS {any_true}"
