"""Rows that could lack a record from before the first one read are told apart, in every kind of query.

Random records, read from somewhere in the middle on, go through the plan's SQL in a real Spark: every row
that is written is a row of the whole history, and every row that needs nothing from before is written.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from services.runtime.tests.sessions import planned, schema, spark_session
from services.runtime.tests.whole_rows import (
    LONG,
    QUICK,
    window,
)
from tests.conformance.corpus import tables

from runtime.launch.wholeness import drop_incomplete
from runtime.source.status import Gap
from runtime.spark import session as spark

pytestmark = pytest.mark.integration

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
DAYS = 100
"""Each random history has a day of its own: windows, sessions and joins never reach another."""
CUT_S = 60
Views: TypeAlias = dict[str, tuple[DataFrame, DataFrame]]
"""Streams: all of their records, and those that are read from the cut on."""
COLUMNS = {
    "bookings": ["order_number", "fare"],
    "payments": ["order_id", "fee"],
    "customer_events": ["customer_id"],
}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("collectarray") as started:
        yield started


@pytest.fixture(scope="module")
def views(session: SparkSession) -> Views:
    """Random records; before the cut some are read and some are not, as when partitions begin anywhere."""
    chance = random.Random(13)
    found = {}
    for name, columns in COLUMNS.items():
        all_, cut = [], []
        for day in range(DAYS):
            # Quiet and busy days: sessions of one record, and such as never end.
            for _ in range(chance.choice((6, 15, 40))):
                second = chance.randrange(20, 100) + chance.choice((0, 0.5))
                time = NOON + timedelta(days=day, seconds=second)
                values = (chance.choice("ab"), float(chance.randrange(100)))[: len(columns)]
                record = (*values, time, name, 0, len(all_), time)
                all_.append(record)
                if second >= CUT_S or chance.random() < 0.5:
                    cut.append(record)
        shape = schema(tables(name)[0], columns)
        found[name] = (session.createDataFrame(all_, shape), session.createDataFrame(cut, shape))
    return found


@pytest.mark.parametrize(
    "sql",
    [*QUICK.values(), *(pytest.param(sql, marks=pytest.mark.long) for sql in LONG.values())],
    ids=[*QUICK, *LONG],
)
def test_rows_that_are_written_from_the_middle_on_are_those_of_the_whole_history(
    session: SparkSession, views: Views, sql: str
) -> None:
    text = planned(sql).spark_sql
    # The cut is at the same second of each day.
    day = rf" \1 \2 < date_trunc('DAY', \2) + INTERVAL '{12 * 3600 + CUT_S}' SECOND"
    cut = re.sub(r" (OR|AND) ((?:(?! OR | AND )[^<>])+) < :complete_from", day, text)
    history = Counter(map(plain, ask(session, text, views, 0)))
    written = Counter(
        plain(row) for row, since in told(ask(session, cut, views, 1)) if since in (None, CUT_S)
    )
    due = Counter(plain(row) for row, since in told(ask(session, cut, views, 0)) if since == CUT_S)

    assert not written - history
    assert not due - written
    assert len(written) > DAYS / 3


AROUND = {
    name: sql
    for name, sql in (QUICK | LONG).items()
    # Of sessions in sub-queries a filter may drop one that lacks something, and nothing tells of it then.
    if ":complete_from" not in planned(sql).spark_sql
}
GAP_S = (50, 60)
FAST = ("tumble over tumble", "hop", "session", "join", "left join")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.long) for name in AROUND]
)
def test_rows_that_are_written_around_a_gap_are_those_of_the_whole_history(
    session: SparkSession, views: Views, name: str
) -> None:
    """Some records between the 50th and the 60th second of each day were never read."""
    plan = planned(AROUND[name])
    begin, end = GAP_S
    days = [NOON + timedelta(days=day) for day in range(DAYS)]
    gaps = [Gap(day + timedelta(seconds=begin), day + timedelta(seconds=end)) for day in days]
    of_day = F.unix_timestamp("rowtime") % 86400 - 12 * 3600
    lost = (of_day >= begin) & (of_day < end) & (F.xxhash64("rowtime") % 2 == 0)
    holed = {table: (frames[0], frames[0].filter(~lost)) for table, frames in views.items()}

    def rows(which: int, *, among: bool, told: bool = False) -> Counter[tuple[Any, ...]]:
        for table, frames in holed.items():
            frames[which].createOrReplaceTempView(table)
        found = spark.rows(session, plan.spark_sql)
        found = drop_incomplete(found, gaps, plan.lookahead) if among else found
        if told:  # pairs need nothing but their two records, and lack one where that was lost
            names = ("__since_of_window", "__since", "__window_start")
            since = [F.col(name).isNotNull() for name in names if name in found.columns]
            found = found.filter(since[0] if since else F.lit(False))
        return Counter(map(plain, found.collect()))

    history, written, due = rows(0, among=False), rows(1, among=True), rows(0, among=True, told=True)

    assert not written - history
    assert not due - written
    assert (sum(written.values()) > DAYS / 3, rows(1, among=False) != history) == (True, True)


def ask(session: SparkSession, sql: str, views: Views, which: int) -> list[Row]:
    for name, frames in views.items():
        frames[which].createOrReplaceTempView(name)
    return spark.rows(session, sql).collect()


def plain(row: Row) -> tuple[Any, ...]:
    values = row.asDict(recursive=True)
    return tuple(value for name, value in values.items() if not name.startswith("__since"))


def told(rows: list[Row]) -> list[tuple[Row, float | None]]:
    """Each row, and since when records must be known for it: of groups that stand together, for all."""
    if not rows or "__since_of_window" not in rows[0]:
        return [(row, second(row)) for row in rows]
    windows: dict[Any, list[float]] = {}
    for row in rows:
        time = second(row)
        windows.setdefault(window(row), []).extend([] if time is None else [time])
    return [(row, min(windows[window(row)], default=None)) for row in rows]


def second(row: Row) -> float | None:
    """The cut, where all records that the row needs come after it; None for a row that needs no others."""
    values = row.asDict()
    names = ("__since_of_window", "__since", "__window_start")
    time = next((values[name] for name in names if name in values), None)
    return None if time is None else min(CUT_S, (time.replace(tzinfo=UTC) - NOON).total_seconds() % 86400)
