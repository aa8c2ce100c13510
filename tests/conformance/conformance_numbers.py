"""Helpers of test_conformance_numbers.py and of its neighbours."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import Message
from tests.conformance import records
from tests.conformance.corpus import tables
from tests.conformance.queries import words
from tests.conformance.recounts import ALL
from tests.conformance.recounts.own import Query

from daggersql import Plan, check

START = datetime(2024, 2, 29, 23, 56, tzinfo=UTC)
BEYOND = START + timedelta(days=70)
COUNT, BATCHES = 400, 2


def planned(query: Query) -> Plan:
    checked = check(query.sql, tables(*query.streams))
    assert checked.plan is not None, checked.findings
    return checked.plan


def made(query: Query) -> dict[str, list[Message]]:
    """Records over eight minutes, and two behind every window, which close all others."""
    found = {}
    for seed, table in enumerate(tables(*query.streams)):
        vocabulary = words(query.sql)
        some = records.made(table, COUNT, START, timedelta(minutes=8), seed, vocabulary)
        last = records.made(table, 2, BEYOND, timedelta(seconds=2), seed + 100, vocabulary)
        found[table.name] = [*some, *last]
    return found


def rounded(value: Any) -> Any:
    """A value in which floats that were added up in another order are equal."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(f"{value:.9g}") + 0.0
    return value.isoformat() if isinstance(value, datetime) else value


ADDED_UP = [name for name in ALL if planned(ALL[name]).partial_aggregation is not None]
WORDS = re.compile(
    r"TUMBLE|HOP|SESSION|TABLE\(|ROW_NUMBER|DISTINCT|HAVING|FILTER|LEFT JOIN|JOIN|UNNEST|LATERAL|UNION"
)


def kind(name: str) -> frozenset[str]:
    """What a query is made of, as far as it matters to a stream: two of one kind run alike."""
    words = WORDS.findall(" ".join(ALL[name].sql.upper().split()))
    return frozenset([*words, *(["added up"] if name in ADDED_UP else [])])


# Each query as a driver runs it, and those that a reader adds up also without that. `make test` has one of
# each kind, the first by its name.
CASES = [(name, name in ADDED_UP) for name in sorted(ALL)] + [(name, False) for name in sorted(ADDED_UP)]
SAMPLE = {kind(name): (name, adds_up) for name, adds_up in reversed(CASES[: len(ALL)])}.values()
