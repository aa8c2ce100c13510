"""Right numbers, not only right columns: what a query gives as a stream is what a recount gives."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from tests.conformance import records
from tests.conformance.conformance_numbers import (
    BATCHES,
    BEYOND,
    CASES,
    COUNT,
    SAMPLE,
    START,
    kind,
    made,
    planned,
    rounded,
)
from tests.conformance.corpus import tables
from tests.conformance.engine import Engine, engine
from tests.conformance.recounts import ALL

from daggersql import Plan, check

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


def batches(plan: Plan, streams: dict[str, list[Message]], part: slice) -> dict[str, Any]:
    """The records of each stream that are in some of the batches, as views have them."""
    by_name = {table.name: table for table in tables(*streams)}
    size = COUNT // BATCHES
    edges = [*range(0, COUNT, size), COUNT, COUNT + 1, COUNT + 2]
    spans = list(pairwise(edges))[part]
    return {
        read.table: [
            records.decoded(by_name[read.table], read.paths, streams[read.table][a:b], read.table, a)
            for a, b in spans
        ]
        for read in plan.reads
    }


def canonical(rows: Sequence[dict[str, Any]], names: list[str]) -> list[str]:
    """Rows in one order, floats to nine digits: sums are added up in another order."""
    return sorted(repr([rounded(row[name]) for name in names]) for row in rows)


@pytest.mark.parametrize(
    ("name", "added_up"),
    [pytest.param(*case, marks=[] if case in SAMPLE else pytest.mark.long) for case in CASES],
)
def test_a_streamed_query_gives_what_a_recount_gives_also_over_a_restart(
    name: str, added_up: bool, spark: Engine
) -> None:
    query = ALL[name]
    plan, streams = planned(query), made(query)
    plan = plan if added_up else replace(plan, partial_aggregation=None)
    names = [column.name for column in plan.columns]
    half = BATCHES // 2
    found = spark.stream(
        plan, batches(plan, streams, slice(half)), batches(plan, streams, slice(half, None))
    ).rows
    expected = list(query.recount(streams, BEYOND))

    assert expected, "a recount of nothing shows nothing"
    assert canonical(found, names) == canonical(expected, names)


STAGED = [
    (name, added_up)
    for name, added_up in CASES
    if (plan := planned(ALL[name])).staged and (added_up or plan.partial_aggregation is None)
]
OLDER = {kind(name): (name, adds_up) for name, adds_up in reversed(STAGED)}.values()


@pytest.mark.parametrize(
    ("name", "added_up"),
    [pytest.param(*case, marks=[] if case in list(OLDER)[::3] else pytest.mark.long) for case in STAGED],
)
def test_a_checkpoint_of_a_query_that_was_not_in_stages_goes_on_in_stages(
    name: str, added_up: bool, spark: Engine
) -> None:
    """As those of drivers from before there were any: Spark's state is the same."""
    query = ALL[name]
    plan, streams = planned(query), made(query)
    names = [column.name for column in plan.columns]
    half = BATCHES // 2
    runs = batches(plan, streams, slice(half)), batches(plan, streams, slice(half, None))
    found = spark.stream(plan, *runs, staged_from=1).rows

    assert canonical(found, names) == canonical(list(query.recount(streams, BEYOND)), names)


FARES = [*(Random(7).uniform(0.01, 500) for _ in range(1000)), 1e16, 1.0, -1e16, 1e-3, -7e20, 7e20]
EXACT = "SELECT SUM(speed_kmh) AS total, AVG(speed_kmh) AS mean FROM driver_pings GROUP BY {window}"


@pytest.mark.parametrize("added_up", [False, True])
def test_a_sum_of_floats_is_the_same_in_any_order_and_is_rounded_once(spark: Engine, added_up: bool) -> None:
    """Also with numbers that cancel each other out: added up one by one they give any of several sums."""
    (table,) = tables("driver_pings")
    checked = check(EXACT.format(window="TUMBLE(rowtime, INTERVAL '1' HOUR)"), [table])
    assert checked.plan is not None
    plan = checked.plan if added_up else replace(checked.plan, partial_aggregation=None)
    time, speed = table.time_field, GetMessageClass(table.message)

    def pings(values: Sequence[float], at: datetime) -> pa.Table:
        made = [ParseDict({time: at.isoformat(), "speed_kmh": value}, speed()) for value in values]
        return records.decoded(table, plan.reads[0].paths, made, table.name, 0)

    found = set()
    for seed in range(3):
        fares = Random(seed).sample(FARES, len(FARES))
        cut = 300 * seed + 1
        rows = spark.stream(
            plan, {table.name: [pings(fares[:cut], START), pings(fares[cut:], START), pings([1.0], BEYOND)]}
        ).rows
        found |= {(row["total"].hex(), row["mean"].hex()) for row in rows}

    assert found == {(math.fsum(FARES).hex(), (math.fsum(FARES) / len(FARES)).hex())}
