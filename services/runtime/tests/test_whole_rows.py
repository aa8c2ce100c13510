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


def grouped(what: str, window: str, more: str = "") -> str:
    """A sub-query over events: groups of customers, with their event time."""
    kind, _, spans = window.partition(" ")
    spans = ", ".join(f"INTERVAL '{seconds}' SECOND" for seconds in spans.split())
    return f"""(SELECT customer_id AS c, {what} AS n, {kind}_ROWTIME(rowtime, {spans}) AS rt
        FROM customer_events GROUP BY {kind}(rowtime, {spans}), customer_id {more}) AS i"""


TUMBLES, HOPS = grouped("COUNT(*)", "TUMBLE 7"), grouped("COUNT(*)", "HOP 4 8")
SESSIONS = grouped("COUNT(*)", "SESSION 6")
SOME_SESSIONS = grouped("COUNT(*)", "SESSION 6", "HAVING COUNT(*) BETWEEN 2 AND 4")
BY_TEN = "GROUP BY TUMBLE({}rowtime, INTERVAL '10' SECOND)"
BY_TWENTY = "GROUP BY TUMBLE(rt, INTERVAL '20' SECOND)"
BY_TEN_OF_THEM = "GROUP BY TUMBLE(rt, INTERVAL '10' SECOND)"
EARLY = "EXTRACT(SECOND FROM rowtime)"
LISTS = grouped(f"CollectArray({EARLY}) FILTER (WHERE {EARLY} BETWEEN 10 AND 50)", "SESSION 6")
OTHERS = grouped("CASE WHEN COUNT(*) > 3 THEN 'a' ELSE 'b' END", "SESSION 6")
NEAR = "i.rt BETWEEN b.rowtime - INTERVAL '9' SECOND AND b.rowtime + INTERVAL '9' SECOND"
MEETING = f"ON b.order_number = i.n AND {NEAR}"
BY_COUNT = f"""(SELECT COUNT(*) AS s, n, TUMBLE_ROWTIME(rt, INTERVAL '10' SECOND) AS rt2
    FROM {SESSIONS} {BY_TEN_OF_THEM}, n) AS o"""
TUMBLE_TWENTY = "TUMBLE(rt2, INTERVAL '20' SECOND)"
BY_SESSION = "GROUP BY SESSION(rowtime, INTERVAL '6' SECOND)"
JOINED = """JOIN payments p ON b.order_number = p.order_id
    AND p.rowtime BETWEEN b.rowtime - INTERVAL '5' SECOND AND b.rowtime + INTERVAL '9' SECOND"""
QUICK = {
    "tumble over tumble": f"SELECT MAX(n) AS m, c FROM {TUMBLES} {BY_TWENTY}, c",
    "session filtered by its start": f"""SELECT COUNT(*) AS n, customer_id FROM customer_events
        {BY_SESSION}, customer_id
        HAVING EXTRACT(SECOND FROM SESSION_START(rowtime, INTERVAL '6' SECOND)) > 20""",
    "tumble over some sessions": f"SELECT SUM(n) AS m, COUNT(*) AS s, c FROM {SOME_SESSIONS} {BY_TWENTY}, c",
    "left join": f"SELECT b.fare, p.fee FROM bookings b LEFT {JOINED}",
    "tumble over session by count": f"SELECT COUNT(*) AS s, n FROM {SESSIONS} {BY_TEN_OF_THEM}, n",
    "tumble over unfolded sessions": f"""SELECT e, COUNT(*) AS s FROM {LISTS}, UNNEST(i.n) AS t(e)
        {BY_TEN_OF_THEM}, e""",
}
LONG = {
    "tumble": f"SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format('')}",
    "hop": """SELECT COUNT(*) AS n, customer_id FROM customer_events
        GROUP BY HOP(rowtime, INTERVAL '5' SECOND, INTERVAL '15' SECOND), customer_id""",
    "session": f"SELECT COUNT(*) AS n, customer_id FROM customer_events {BY_SESSION}, customer_id",
    "tumble over tumble by count": f"SELECT COUNT(*) AS m, n FROM {TUMBLES} WHERE n > 1 {BY_TWENTY}, n",
    "session over hop": f"SELECT SUM(n) AS m, c FROM {HOPS} GROUP BY SESSION(rt, INTERVAL '5' SECOND), c",
    "tumble over session": f"SELECT SUM(n) AS m, COUNT(*) AS s, c FROM {SESSIONS} {BY_TWENTY}, c",
    "tumble over all busy sessions": f"SELECT SUM(n) AS m FROM {SESSIONS} WHERE n > 2 {BY_TWENTY}",
    "forwarded sessions": f"SELECT n, c, rt FROM {SESSIONS} WHERE n > 1",
    "hop over tumble over session": f"""SELECT SUM(m) AS a, c FROM (
        SELECT SUM(n) AS m, c, TUMBLE_ROWTIME(rt, INTERVAL '8' SECOND) AS rt2 FROM {SOME_SESSIONS}
        GROUP BY TUMBLE(rt, INTERVAL '8' SECOND), c HAVING SUM(n) > 2) AS o
        GROUP BY HOP(rt2, INTERVAL '10' SECOND, INTERVAL '20' SECOND), c""",
    "join": f"SELECT b.fare, p.fee FROM bookings b {JOINED}",
    "tumble over join": f"SELECT COUNT(*) AS n FROM bookings b {JOINED} {BY_TEN.format('b.')}",
    "tumble over join by partner": f"SELECT COUNT(*) AS n FROM bookings b {JOINED} {BY_TEN.format('p.')}",
    "tumble over left join": f"""SELECT COUNT(*) AS n, COUNT(p.fee) AS m
        FROM bookings b LEFT {JOINED} {BY_TEN.format("b.")}""",
    "records with sessions": f"""SELECT i.n, b.fare
        FROM bookings b LEFT JOIN {SESSIONS} ON b.order_number = i.c AND i.rt
        BETWEEN b.rowtime - INTERVAL '9' SECOND AND b.rowtime + INTERVAL '9' SECOND""",
    "sessions filtered by count": f"""SELECT COUNT(*) AS s FROM {SESSIONS}
        WHERE n BETWEEN 2 AND 4 {BY_TEN_OF_THEM}""",
    "hop over some sessions by count": f"""SELECT SUM(n) AS m, n FROM {SOME_SESSIONS} WHERE n <> 3
        GROUP BY HOP(rt, INTERVAL '5' SECOND, INTERVAL '10' SECOND), n""",
    "groups by count, filtered": f"SELECT s, n, rt2 FROM {BY_COUNT} WHERE s < 2",
    "tumble over groups by count": f"SELECT MAX(s) AS m FROM {BY_COUNT} GROUP BY {TUMBLE_TWENTY}",
    "tumble by count over groups by count": f"""SELECT COUNT(*) AS m, s FROM {BY_COUNT}
        GROUP BY {TUMBLE_TWENTY}, s""",
    "unfolded sessions": f"SELECT e, c, rt FROM {LISTS}, UNNEST(i.n) AS t(e)",
    "tumble over all that is unfolded": f"""SELECT COUNT(*) AS s, COUNT(e) AS m
        FROM {LISTS}, UNNEST(i.n) AS t(e) {BY_TEN_OF_THEM}""",
    "tumble over sessions unfolded with the empty ones": f"""SELECT e, COUNT(*) AS s
        FROM {LISTS} LEFT JOIN UNNEST(i.n) AS t(e) ON TRUE {BY_TEN_OF_THEM}, e""",
    "records joined by the result of a session": f"SELECT i.c FROM bookings b JOIN {OTHERS} {MEETING}",
    "records before a comma with sessions": f"""SELECT b.fare, i.n FROM bookings b, {SESSIONS}
        WHERE b.order_number = i.c AND i.n > 1 AND {NEAR}""",
    "tumble over records with sessions by count": f"""SELECT COUNT(*) AS s, i.n
        FROM bookings b LEFT JOIN {SESSIONS} ON b.order_number = i.c AND {NEAR}
        {BY_TEN.format("b.")}, i.n""",
    "union of groups by count": f"""SELECT COUNT(*) AS s, n FROM {SESSIONS} {BY_TEN_OF_THEM}, n
        UNION ALL SELECT COUNT(*) AS s, 0 AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '9' SECOND)""",
    "union": f"""SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format("")}
        UNION ALL SELECT COUNT(*) AS n FROM bookings {BY_SESSION}""",
    "union of records and windows": f"""SELECT CAST(fare AS BIGINT) AS n FROM bookings
        UNION ALL SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format("")}""",
    "tumble over union": f"""SELECT SUM(n) AS m FROM (SELECT n, rt FROM {SESSIONS}
        UNION ALL SELECT CAST(fare AS BIGINT) AS n, rowtime AS rt FROM bookings) AS u {BY_TWENTY}""",
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


def window(row: Row) -> tuple[datetime, datetime]:
    return row["__window_start"], row["__window_end"]


def second(row: Row) -> float | None:
    """The cut, where all records that the row needs come after it; None for a row that needs no others."""
    values = row.asDict()
    names = ("__since_of_window", "__since", "__window_start")
    time = next((values[name] for name in names if name in values), None)
    return None if time is None else min(CUT_S, (time.replace(tzinfo=UTC) - NOON).total_seconds() % 86400)
