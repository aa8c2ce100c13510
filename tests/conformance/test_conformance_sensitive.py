"""Two sets of records that differ in sensitive values alone give an ungranted caller the same bytes: over
generated queries, those that the gateway lets through.

SQLite evaluates many, in words of its own: what is asked is which rows there are and what is in them, and a
query that lets no sensitive value choose does so in no engine. Spark evaluates some, as drivers run them.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from tests.conformance import records
from tests.conformance.engine import Engine, engine
from tests.conformance.sensitive import VALUES, Judged, judge, queries
from tests.conformance.shop import END, TIMED, WINDOW, tables

EXAMPLES: Final = 120
IN_SPARK: Final = 40
ADDRESSES: Final = (3, 4, 5)
"""What seeds the addresses of each set of records."""
START: Final = datetime(1970, 1, 1, tzinfo=UTC)
Shop = dict[str, list[dict[str, Any]]]


def shop(emails: int) -> Shop:
    """Orders of a few minutes, with items, and refunds: `emails` seeds the addresses of orders alone."""
    made: Shop = {}
    chance, hidden = random.Random(1), random.Random(emails)
    for table, addresses in (("orders", hidden), ("refunds", chance)):
        made[table] = [
            {
                "id": number,
                "email": addresses.choice((*VALUES, None)),
                "number": chance.choice(VALUES),
                "amount": chance.choice((0.5, 1, 2)),
                "city": chance.choice(VALUES),
                "items": [],
            }
            for number in range(24)
        ]
    for order in made["orders"]:
        order["items"] = [chance.choice(VALUES) for _ in range(chance.randrange(3))]
    return made


# ---- By SQLite ---------------------------------------------------------------------------------------------


def by_sqlite(judged: Judged, sql: str, emails: int) -> list[dict[str, Any]]:
    """The rows of a query."""
    with closing(database(shop(emails))) as stored:
        names = [column.name for column in judged.plan.columns]
        return [
            dict(zip(names, map(plain, names, row), strict=True)) for row in stored.execute(in_sqlite(sql))
        ]


def database(rows: Shop) -> sqlite3.Connection:
    """The shop, a customer's fields and items beside its orders."""
    made = sqlite3.connect(":memory:")
    for table, orders in rows.items():
        made.execute(f"CREATE TABLE {table} (id, rowtime, number, amount, customer_city, customer_email)")
        for row in orders:
            values = (row["id"], 10 * row["id"], row["number"], row["amount"], row["city"], row["email"])
            made.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", values)
    made.execute("CREATE TABLE items (order_id, name, price)")
    for order in rows["orders"]:
        for name in order["items"]:
            made.execute("INSERT INTO items VALUES (?, ?, ?)", (order["id"], name, 1.0))
    return made


def in_sqlite(sql: str) -> str:
    """A query in the words of SQLite."""
    listed = re.search(r"UNNEST\(ARRAY\[(.*), 'b'\]\)", sql)
    if listed is not None:
        sql = sql.replace(
            f"CROSS JOIN {listed[0]} AS i (name)", "CROSS JOIN (SELECT 0 AS k UNION SELECT 1) AS u"
        )
        sql = sql.replace("i.name AS", f"CASE u.k WHEN 0 THEN {listed[1]} ELSE 'b' END AS")
    sql = re.sub(
        r"CROSS JOIN UNNEST\((o\.)?items\) AS i \(name, price\)", "JOIN items AS i ON i.order_id = id", sql
    )
    windows = "(SELECT *, rowtime / 60 AS window_start, rowtime / 60 + 1 AS window_end FROM orders)"
    for ours, theirs in (
        (END, "rowtime / 60 + 1 AS window_timestamp"),
        (WINDOW, "rowtime / 60"),
        (TIMED, windows),
        ("INTERVAL '20' SECOND", "20"),
        ("customer.", "customer_"),
    ):
        sql = sql.replace(ours, theirs)
    return sql


def plain(name: str, value: Any) -> Any:
    """A value as a row of JSON has it."""
    is_time = name == "window_timestamp" and value is not None
    return (START + timedelta(minutes=value)).isoformat() if is_time else value


# ---- By Spark ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    """A session, for all queries."""
    with engine() as started:
        yield started


def by_spark(judged: Judged, emails: int, spark: Engine) -> list[dict[str, Any]]:
    """The rows of a query over the records of both streams."""
    rows = shop(emails)
    views: dict[str, pa.Table] = {}
    for table in tables():
        make = GetMessageClass(table.message)
        messages = [ParseDict(document(row), make()) for row in rows[table.name]]
        paths = [path for read in judged.plan.reads if read.table == table.name for path in read.paths]
        views[table.name] = records.decoded(table, paths, messages, table.name, 0)
    answered = spark.answer(judged.plan, views)
    names = [column.name for column in judged.plan.columns]
    return [{name: text(row[name]) for name in names} for row in answered.to_pylist()]


def document(row: dict[str, Any]) -> dict[str, Any]:
    """An order as JSON; without an address where there is none."""
    time = START + timedelta(seconds=10 * row["id"])
    email = {} if row["email"] is None else {"email": row["email"]}
    return {
        "event_time": time.isoformat().replace("+00:00", "Z"),
        "number": row["number"],
        "customer": {"city": row["city"], **email},
        "items": [{"name": name, "price": 1.0} for name in row["items"]],
        "amount": row["amount"],
    }


def text(value: Any) -> Any:
    """A value as a row of JSON has it."""
    return value.isoformat() if isinstance(value, datetime) else value


# ---- The property ------------------------------------------------------------------------------------------


def holds(examples: int, evaluate: Callable[[Judged, str, int], list[dict[str, Any]]]) -> None:
    """Of generated queries, those that are let through answer the same bytes, and others mostly do not."""
    outcomes = Counter[str]()

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(queries())
    def run(sql: str) -> None:
        judged = judge(sql)
        answers = {tuple(judged.answer(evaluate(judged, sql, emails))) for emails in ADDRESSES}
        if judged.is_refused:
            outcomes["refused"] += 1
            outcomes["tells"] += len(answers) > 1
            return
        outcomes["masked" if judged.hidden else "clean"] += 1
        assert len(answers) == 1, sql

    run()

    assert outcomes["masked"] >= examples // 5, outcomes
    assert outcomes["masked"] + outcomes["clean"] >= examples // 2, outcomes
    assert outcomes["refused"] >= examples // 10, outcomes
    assert outcomes["tells"] >= outcomes["refused"] // 2, outcomes  # and rightly refused


def test_accepted_queries_give_the_same_bytes_whatever_the_sensitive_values_are() -> None:
    holds(EXAMPLES, by_sqlite)


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_in_spark_they_do_so_too(spark: Engine) -> None:
    holds(IN_SPARK, lambda judged, _, emails: by_spark(judged, emails, spark))
