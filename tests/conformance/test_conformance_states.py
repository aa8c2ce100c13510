"""A query in stages keeps what it kept before there were stages: its checkpoints go on.

What 39202320 kept stands in `states_39202320.json`, by the fingerprint of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from services.runtime.tests.streams import source_session
from tests.conformance.corpus import public, tables
from tests.conformance.recounts import ALL
from tests.conformance.states import State, state_of

from daggersql import check
from runtime.spark.session import another

pytestmark = [pytest.mark.integration, pytest.mark.long]
BEFORE: dict[str, State] = json.loads(Path(__file__).with_name("states_39202320.json").read_text())
STREAMS = ("bookings", "payments", "customer_events")
SIDES = {
    "a stream": "payments",
    "a sub-query": "(SELECT fee, gateway AS g, UPPER(order_id) AS order_id, rowtime FROM payments"
    " WHERE UPPER(currency) <> 'X')",
    "a union": "(SELECT order_id, rowtime FROM payments WHERE fee > 1 UNION ALL"
    " SELECT customer_id, rowtime FROM customer_events)",
    "a list": "(SELECT c.code AS order_id, b.rowtime FROM bookings AS b"
    " CROSS JOIN UNNEST(b.promo_codes) AS c (code))",
    "windows": "(SELECT order_id, COUNT(*) AS n, TUMBLE_ROWTIME(rowtime, INTERVAL '10' SECOND) AS rowtime"
    " FROM payments WHERE UPPER(gateway) <> 'X'"
    " GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), order_id)",
    "sessions": "(SELECT order_id, COUNT(*) AS n, SESSION_ROWTIME(rowtime, INTERVAL '5' SECOND) AS rowtime"
    " FROM payments GROUP BY SESSION(rowtime, INTERVAL '5' SECOND), order_id)",
    "a join": "(SELECT p.order_id, e.screen, p.rowtime FROM payments AS p JOIN customer_events AS e"
    " ON p.customer_id = e.customer_id"
    " AND e.rowtime BETWEEN p.rowtime AND p.rowtime + INTERVAL '5' SECOND)",
}
NEAR = "AND {0}.rowtime BETWEEN {1}.rowtime AND {1}.rowtime + INTERVAL '10' SECOND"
SELECTED = "b.status AS status, s.order_id AS id, b.fare AS fare, b.customer.id AS customer"


def _queries() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for case in public().cases("sql_accept"):
        if all(each["message"].startswith("corpus.v1.") for each in case["streams"].values()):
            yield case["id"], case["sql"], tuple(case["streams"])
    for name, query in ALL.items():
        yield name, query.sql, query.streams
    for name, side in SIDES.items():
        for kind in ("JOIN", "LEFT JOIN"):
            on = "ON b.order_number = s.order_id AND s.order_id <> 'x' "
            yield (
                f"{kind} with {name}",
                f"SELECT {SELECTED} FROM bookings AS b {kind} {side} AS s {on}{NEAR.format('s', 'b')}",
                STREAMS,
            )
            yield (
                f"{name} with {kind}",
                f"SELECT {SELECTED} FROM {side} AS s {kind} bookings AS b {on}{NEAR.format('b', 's')}"
                " WHERE s.order_id <> 'y'",
                STREAMS,
            )


QUERIES = {name: (sql, streams) for name, sql, streams in _queries()}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as started:
        yield started


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_in_stages_keeps_what_it_kept_as_a_whole(
    name: str, session: SparkSession, tmp_path: Path
) -> None:
    sql, streams = QUERIES[name]
    found = tables(*streams)
    plan = check(sql, found).plan
    assert plan is not None

    state = state_of(another(session), plan, found, tmp_path, staged=True)

    assert state == state_of(another(session), plan, found, tmp_path, staged=False)
    assert state == BEFORE.get(plan.fingerprint, state)


def test_most_queries_have_the_fingerprint_that_they_had() -> None:
    plans = (check(sql, tables(*streams)).plan for sql, streams in QUERIES.values())

    assert len([plan for plan in plans if plan and plan.fingerprint in BEFORE]) >= len(BEFORE) // 2
