"""Query cases: what is accepted runs and gives its columns; what is refused has its code and place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tests.conformance import records
from tests.conformance.corpus import Corpus
from tests.conformance.engine import Engine

from daggersql import CheckResult, Finding, Plan, Severity, Table, check

_START = datetime(2024, 2, 29, 11, 58, tzinfo=UTC)
_COUNT = 120
# A record behind every window there may be (31 days), so that all of them close.
_BEYOND = timedelta(days=70)


def accepted(case: Mapping[str, Any], corpus: Corpus) -> tuple[Plan | None, str | None]:
    """The plan, and what is wrong with it, if anything."""
    checked = check(case["sql"], corpus.tables_of(case))
    if checked.plan is None:
        return None, f"refused: {_shown(errors(checked)[0])}"
    names = [column.name for column in checked.plan.columns]
    wrong = None if names == case["expect_columns"] else f"gives the columns {', '.join(names)}"
    return checked.plan, wrong


def executed(plan: Plan, case: Mapping[str, Any], corpus: Corpus, engine: Engine) -> str | None:
    """What goes wrong when the plan runs over made-up records; None when it gives what it promised."""
    tables = {table.name: table for table in corpus.tables_of(case)}
    views = {read.table: _batches(tables[read.table], read.paths, case["sql"]) for read in plan.reads}
    columns = engine.stream(plan, views).schema
    promised = [(column.name, column.type) for column in plan.columns]
    found = [(name, kind) for name, kind in columns[: len(promised)]]
    return None if found == promised else f"promised {promised}, Spark gives {found}"


def refused(case: Mapping[str, Any], corpus: Corpus) -> str | None:
    """What is wrong with the answer to a text that must be refused; None when nothing is."""
    checked = check(case["sql"], corpus.tables_of(case))
    expected = case["expect"]
    codes = {expected["reason"], *case.get("reason_any", [])}
    hits = [finding for finding in checked.findings if finding.code in codes]
    if checked.plan is not None:
        # Some cases allow an exception, some that a warning stands for the refusal.
        allowed = "optional" in case or (case.get("severity") == "warning" and hits)
        return None if allowed else "accepted"
    if case["class"] != "wrong":
        return None
    if not hits:
        return f"says {_shown(errors(checked)[0])}, not {expected['reason']}"
    places = [(expected["line"], expected["column"]), *map(tuple, expected.get("also", []))]
    if "column_of" in case or any((finding.line, finding.column) in places for finding in hits):
        return None
    return f"says {_shown(hits[0])}, not at {expected['line']}:{expected['column']}"


def errors(checked: CheckResult) -> list[Finding]:
    """The findings that refuse a query."""
    return [finding for finding in checked.findings if finding.severity is Severity.ERROR]


def words(sql: str) -> tuple[str, ...]:
    """The texts that a query has as constants."""
    return tuple(text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", sql))


def _batches(table: Table, paths: tuple[str, ...], sql: str) -> list[Any]:
    made = partial(records.made, table, start=_START, seed=len(table.name), words=words(sql))
    first = list(made(_COUNT, span=timedelta(minutes=4)))
    last = list(made(1, start=_START + _BEYOND, span=timedelta(0)))
    parts = ((first, 0), (last, _COUNT), (last, _COUNT + 1))
    return [records.decoded(table, paths, part, table.name, offset) for part, offset in parts]


def _shown(finding: Finding) -> str:
    return f"{finding.line}:{finding.column} {finding.code} {finding.message}"
