"""Add what alert rules say of each row to a batch, as columns behind all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from daggerspec.columns import BAND, RULE, RULE_OVER
from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule, ConditionPair

_ROW = "row"


def with_rules(rows: DataFrame, rules: Sequence[CompiledRule], series: int = 0) -> DataFrame:
    """Add columns for each rule: whether it is true of the row, and whether an incident is over where that is
    more than that it is not. Of one with a band the number, and in which answers it is.

    series: how many more there are that are true of all rows.
    """
    if not rules:
        return rows
    conditions = [*map(_conditions, rules), *[("TRUE", "")] * series]
    added = (*_expressions(conditions), *_bands(rules))
    return rows.alias(_ROW).selectExpr(f"{quote_name(_ROW)}.*", *added)


def _conditions(rule: CompiledRule) -> tuple[str, str]:
    return ("FALSE", "") if rule.band is not None else (rule.when, rule.resolve)


def _complete(verdict: ConditionPair) -> tuple[str, str]:
    return verdict.when, verdict.resolve or f"NOT coalesce(({verdict.when}), FALSE)"


def _bands(rules: Sequence[CompiledRule]) -> Iterator[str]:
    """Yield the numbers of bands, and of each rule with one the bits of its answers: true, over, true …"""
    numbers = {rule.band.series: rule.band.number for rule in rules if rule.band is not None}
    for series, number in numbers.items():
        yield f"({number}) AS {quote_name(BAND + series)}"
    for place, rule in enumerate(rules):
        if rule.band is not None:
            conditions = [one for verdict in rule.answers for one in _complete(verdict)]
            bits = (f"if(coalesce(({one}), FALSE), {1 << bit}, 0)" for bit, one in enumerate(conditions))
            yield f"({' + '.join(bits)}) AS {quote_name(f'{BAND}{place}')}"


def read_answer(bits: int, place: int) -> tuple[bool, bool]:
    """Read whether a rule is true, and over, in the answer at a place of `CompiledRule.answers`."""
    of_answer = bits >> 2 * place
    return bool(of_answer & 1), bool(of_answer & 2)


def _expressions(conditions: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (when, over) in enumerate(conditions):
        yield f"coalesce(({when}), FALSE) AS {quote_name(f'{RULE}{number}')}"
        if over:
            yield f"coalesce(({over}), FALSE) AS {quote_name(f'{RULE_OVER}{number}')}"
