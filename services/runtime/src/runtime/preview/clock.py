"""Fix the clock of a query: a test of it gives the same rows whenever it is run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from daggersql import Plan
from daggersql.plan import StagedQuery

_CLOCKS: Final = re.compile(
    r"(?P<other>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`)|\bcurrent_(?P<kind>timestamp|date)\(\)"
)
"""Calls of Spark SQL that ask the clock, and quoted texts and names, which are none."""


def at(plan: Plan, now: datetime) -> Plan:
    """Return a plan by whose SQL it is always `now` (aware, UTC)."""
    partial = plan.partial_aggregation
    return replace(
        plan,
        spark_sql=fix_clock(plan.spark_sql, now),
        staged=_fix_stages(plan.staged, now),
        partial_aggregation=partial
        and replace(
            partial, spark_sql=fix_clock(partial.spark_sql, now), staged=_fix_stages(partial.staged, now)
        ),
    )


def fix_clock(sql: str, now: datetime) -> str:
    """Replace the calls of a Spark SQL text that ask the clock by an instant (aware, UTC)."""
    instant = f"TIMESTAMP'{now:%Y-%m-%d %H:%M:%S.%f}Z'"

    def literal(match: re.Match[str]) -> str:
        if match["other"] is not None:
            return match["other"]
        return instant if match["kind"] == "timestamp" else f"CAST({instant} AS DATE)"

    return _CLOCKS.sub(literal, sql)


def _fix_stages(staged: StagedQuery | None, now: datetime) -> StagedQuery | None:
    if staged is None:
        return None
    stages = tuple(replace(stage, spark_sql=fix_clock(stage.spark_sql, now)) for stage in staged.stages)
    return replace(staged, spark_sql=fix_clock(staged.spark_sql, now), stages=stages)
