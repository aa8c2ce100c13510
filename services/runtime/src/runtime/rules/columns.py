"""Add what alert rules say of each row to a batch, as columns behind all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from daggerspec.columns import BAND, RULE, RULE_ANY, RULE_OVER
from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule, ConditionPair

_ROW = "row"


def with_rules(
    rows: DataFrame, rules: Sequence[CompiledRule], series: int = 0, *, several: bool = False
) -> DataFrame:
    """Add two columns for each rule: whether it is true of the row, and whether an incident is over. Of one
    with a band the number, and in which answers it is.

    series: how many more there are that are true of all rows. several: rows are of several windows: rules
    with a key get a third column, whether they are true of any row of the same key.
    """
    if not rules:
        return rows
    conditions = [*map(_conditions, rules), *[("TRUE", "FALSE")] * series]
    added = (*_expressions(conditions), *_bands(rules))
    ruled = rows.alias(_ROW).selectExpr(f"{quote_name(_ROW)}.*", *added)
    return ruled.selectExpr("*", *_any_of_key(rules)) if several else ruled


def _conditions(rule: CompiledRule) -> tuple[str, str]:
    return ("FALSE", "FALSE") if rule.band is not None else _complete(ConditionPair(rule.when, rule.resolve))


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
        yield f"coalesce(({over}), FALSE) AS {quote_name(f'{RULE_OVER}{number}')}"


def _any_of_key(rules: Sequence[CompiledRule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        if rule.key and not rule.text.is_of_absence and rule.band is None:
            key = ", ".join(map(quote_name, rule.key))
            is_true, any_true = quote_name(f"{RULE}{number}"), quote_name(f"{RULE_ANY}{number}")
            yield f"bool_or({is_true}) OVER (PARTITION BY {key}) AS {any_true}"
