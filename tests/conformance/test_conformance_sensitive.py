"""Two data sets that differ in sensitive values alone give an ungranted caller the same bytes: over generated
queries, those that the gateway lets through.

SQLite evaluates them, in words of its own: what is asked is which rows there are and what is in them, and a
query that lets no sensitive value choose does so in no engine.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from daggers.v1 import events_pb2, spec_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.shop import END, TIMED, WINDOW, tables

from access import Principal, sensitive
from access.sensitive import Made
from api_gateway.masking import mask_of
from daggersql import Plan, check
from eventlog.testing import given as folded
from fleet import Fleet
from runtime.encode.readback import from_columns

BOB = Principal("user:bob")
SPEC = spec_pb2.DaggerSpec(
    streams=[{"table": "orders", "stream": "orders"}, {"table": "refunds", "stream": "refunds"}]
)
VALUES = ("a", "ab", "b", "a@b.c", "")
EXAMPLES = 120


def fleet() -> Fleet:
    """Orders have a sensitive field; refunds have the same values, and nothing is said of them."""
    made, meta = Fleet(), events_pb2.RequestMeta(actor="root")
    streams = [
        spec_pb2.Stream(name="orders", time_field="event_time", sensitive=["customer.email"]),
        spec_pb2.Stream(name="refunds", time_field="event_time"),
    ]
    for record in folded(*(events_pb2.StreamRegistered(meta=meta, stream=stream) for stream in streams)):
        made.apply(record)
    return made


Database = sqlite3.Connection


def database(emails: int) -> Database:
    """Orders of a few minutes and their items; `emails` seeds addresses alone, some of which are absent."""
    chance, hidden, made = random.Random(1), random.Random(emails), sqlite3.connect(":memory:")
    columns = "id, rowtime, number, amount, customer_city, customer_email"
    for table in ("orders", "refunds"):
        made.execute(f"CREATE TABLE {table} ({columns})")
        for row in range(24):
            told = hidden if table == "orders" else chance
            email = told.choice((*VALUES, None))
            values = (
                row,
                10 * row,
                chance.choice(VALUES),
                chance.choice((0.5, 1, 2)),
                chance.choice(VALUES),
                email,
            )
            made.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", values)
    made.execute("CREATE TABLE items (order_id, name, price)")
    for order in range(24):
        for _ in range(chance.randrange(3)):
            made.execute("INSERT INTO items VALUES (?, ?, ?)", (order, chance.choice(VALUES), 1.0))
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


# ---- Queries ----------------------------------------------------------------------------------------------

CLEAN, EMAIL = ("number", "customer.city"), "customer.email"


@st.composite
def value(draw: st.DrawFn, leaves: Sequence[str], depth: int = 2) -> str:
    """A text made of columns."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(leaves))
    inner = value(leaves, depth - 1)
    match draw(st.integers(0, 4)):
        case 0:
            return f"UPPER({draw(inner)})"
        case 1:
            return f"SUBSTRING({draw(inner)}, 1, 1)"
        case 2:
            return f"COALESCE({draw(inner)}, {draw(inner)})"
        case 3:
            return f"({draw(inner)} || {draw(inner)})"
    return f"CASE WHEN {draw(condition(leaves))} THEN {draw(inner)} ELSE {draw(inner)} END"


@st.composite
def condition(draw: st.DrawFn, leaves: Sequence[str]) -> str:
    """A condition on columns."""
    left = draw(value(leaves, 1))
    right = draw(st.sampled_from(("= 'a'", "LIKE 'a%'", "IS NULL", "<> 'b'", "IN ('a', 'b')")))
    return f"{left} {right}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query; where it chooses rows it reads the sensitive field now and then, among its columns often."""
    prefix = draw(st.sampled_from(("", "o.")))
    shape = draw(st.sampled_from(("records", "unnested", "united", "grouped", "joined", "first")))
    if shape == "joined":
        prefix = "o."
    elif shape in ("grouped", "first"):
        prefix = ""
    clean = [f"{prefix}{column}" for column in CLEAN]
    seen = [*clean, f"{prefix}{EMAIL}"]
    chooses = draw(st.sampled_from([clean, seen]))
    where = f" WHERE {draw(condition(chooses))}" if draw(st.booleans()) else ""
    one, other = draw(value(seen)), draw(value(seen))
    stream = "orders o" if prefix else "orders"
    selected = f"SELECT {one} AS one, {other} AS tag_other"
    match shape:
        case "unnested":
            listed = draw(st.sampled_from([f"{prefix}items", f"ARRAY[{draw(value(chooses, 1))}, 'b']"]))
            named = "(name, price)" if listed.endswith("items") else "(name)"
            return f"{selected}, i.name AS name FROM {stream} CROSS JOIN UNNEST({listed}) AS i {named}{where}"
        case "united":
            inner = f"{selected} FROM {stream}{where} UNION ALL SELECT number, customer.email FROM refunds"
            outer = draw(st.sampled_from(("", " WHERE one = 'a'", " WHERE tag_other = 'a'")))
            return f"SELECT UPPER(one) AS one, tag_other FROM ({inner}) t{outer}"
        case "grouped":
            key, counted = draw(value(chooses, 1)), draw(value(chooses, 1))
            having = draw(st.sampled_from(("", " HAVING COUNT(1) > 1", f" HAVING MAX({counted}) > 'a'")))
            group = (
                f" GROUP BY {WINDOW}, {key}" if any(leaf in key for leaf in seen) else f" GROUP BY {WINDOW}"
            )
            return (
                f"SELECT COUNT({counted}) AS n, SUM(amount) AS total, {END} FROM orders{where}{group}{having}"
            )
        case "joined":
            left, right = draw(st.sampled_from(chooses)), draw(st.sampled_from(("number", "customer.city")))
            kind = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
            return (
                f"{selected}, r.customer.email AS theirs FROM orders o {kind} refunds r ON {left} = r.{right}"
                " AND r.rowtime BETWEEN o.rowtime - INTERVAL '20' SECOND AND o.rowtime + INTERVAL '20' SECOND"
                f"{where}"
            )
        case "first":
            by, kept = draw(st.sampled_from(chooses)), draw(st.sampled_from(chooses))
            return (
                "SELECT kept, place, window_end AS window_timestamp FROM ("
                f"SELECT {kept} AS kept, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
                f" ORDER BY {by} DESC) AS place FROM {TIMED}{where}) t WHERE place <= 2"
            )
    return f"SELECT one, tag_other FROM ({selected} FROM {stream}{where}) t"


# ---- What an ungranted caller gets -------------------------------------------------------------------------


def told(plan: Plan, sql: str, emails: int, hidden: Sequence[str]) -> list[bytes]:
    """Rows as they are answered, masked, in no order."""
    with closing(database(emails)) as stored:
        found = stored.execute(in_sqlite(sql)).fetchall()
    names = [column.name for column in plan.columns]
    rows = [from_columns(dict(zip(names, map(plain, names, row), strict=True))).to_proto() for row in found]
    mask_of(plan.columns, tuple(column for column in plan.columns if column.name in hidden)).rows(rows)
    return sorted(row.SerializeToString(deterministic=True) for row in rows)


def plain(name: str, value: Any) -> Any:
    """A value as a row of JSON has it."""
    is_time = name == "window_timestamp" and value is not None
    return datetime.fromtimestamp(60 * value, UTC).isoformat() if is_time else value


def test_accepted_queries_give_the_same_bytes_whatever_the_sensitive_values_are() -> None:
    outcomes = Counter[str]()
    world = fleet()
    streams = sensitive.unseen(BOB, SPEC, world)

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(queries())
    def run(sql: str) -> None:
        plan = check(sql, tables()).plan
        assert plan is not None, sql
        made = Made(plan.columns, plan.origins, plan.places, plan.influences)
        hidden = [column.name for column in sensitive.hidden(made, streams)]
        are_same = len({tuple(told(plan, sql, emails, hidden)) for emails in (3, 4, 5)}) == 1
        if [*sensitive.deciding(BOB, made, streams, world)]:
            outcomes["refused"] += 1
            outcomes["tells"] += not are_same
            return
        outcomes["masked" if hidden else "clean"] += 1
        assert are_same, sql

    run()

    assert outcomes["masked"] >= EXAMPLES // 5, outcomes
    assert outcomes["masked"] + outcomes["clean"] >= EXAMPLES // 2, outcomes
    assert outcomes["refused"] >= EXAMPLES // 10, outcomes
    assert outcomes["tells"] >= outcomes["refused"] // 2, outcomes  # and rightly refused
