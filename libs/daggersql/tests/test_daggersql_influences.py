"""Which fields decide which rows a query gives, and where: all that is neither a column nor a constant."""

from __future__ import annotations

import pytest
from tests.conformance.shop import END, JOINED, TIMED, WINDOW, plan, tables

from daggersql import check

EMAIL = "customer.email"
TOP = (
    "SELECT city AS x, mail AS y, window_end AS window_timestamp FROM (SELECT customer.city AS city,"
    f" customer.email AS mail, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, {{}}"
    f" ORDER BY {{}} DESC) AS place FROM {TIMED}) t WHERE place <= 3"
)
COUNTED = f"SELECT COUNT({EMAIL}) AS n, number AS x, {END} FROM orders GROUP BY {WINDOW}, number"


def influences(sql: str, path: str = EMAIL) -> list[tuple[str, str]]:
    """Where a path decides: clauses, and what stands there in the text."""
    lines = sql.split("\n")
    return [
        (one.clause, lines[one.place[0] - 1][one.place[1] - 1 : one.place[3] - 1])
        for one in plan(sql).influences
        if path in [of for _, of in one.origins]
    ]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {EMAIL} AS x FROM orders",
        f"SELECT CASE WHEN {EMAIL} = 'a' THEN 1 END AS x FROM orders WHERE number = 'b'",
        f"SELECT x FROM (SELECT number AS x, UPPER({EMAIL}) AS e, rowtime FROM orders) WHERE x = 'a'",
        f"SELECT o.{EMAIL} AS x {JOINED.format('LEFT JOIN')}",
        f"SELECT {EMAIL} AS x FROM orders UNION ALL SELECT number FROM refunds WHERE number = 'a'",
        f"SELECT COUNT(1) AS x, {END} FROM (SELECT {EMAIL} AS e, rowtime FROM orders) GROUP BY {WINDOW}",
        f"WITH t AS (SELECT {EMAIL} AS e, number, rowtime FROM orders) SELECT e AS x FROM t"
        " WHERE number = 'a'",
    ],
)
def test_a_column_decides_nothing_whatever_it_is_made_of(sql: str) -> None:
    assert influences(sql) == []


@pytest.mark.parametrize(
    ("sql", "where"),
    [
        (f"SELECT number AS x\nFROM orders WHERE number = 'b' AND {EMAIL} LIKE 'a%'", [("WHERE", EMAIL)]),
        (f"SELECT x FROM (SELECT UPPER({EMAIL}) AS e, number AS x, rowtime FROM orders) WHERE e = 'A'",
         [("WHERE", EMAIL)]),
        (f"WITH t AS (SELECT {EMAIL} AS e, number AS x, rowtime FROM orders) SELECT x FROM t WHERE e IS NULL",
         [("WHERE", "e")]),
        (f"SELECT {EMAIL} AS x, {END} FROM orders GROUP BY {EMAIL}, {WINDOW}", [("GROUP BY", EMAIL)]),
        (f"SELECT COUNT({EMAIL}) AS x, {END} FROM orders GROUP BY {WINDOW}", [("an aggregate", EMAIL)]),
        (f"SELECT COUNT(DISTINCT LOWER({EMAIL})) AS x, {END} FROM orders GROUP BY {WINDOW}",
         [("an aggregate", EMAIL)]),
        (f"SELECT SUM(amount) FILTER (WHERE {EMAIL} = 'a') AS x, {END} FROM orders GROUP BY {WINDOW}",
         [("an aggregate", EMAIL)]),
        (f"SELECT SUM(CASE WHEN {EMAIL} = 'a' THEN 1 ELSE 0 END) AS x, {END} FROM orders GROUP BY {WINDOW}",
         [("an aggregate", EMAIL)]),
        (f"SELECT COUNT(1) AS x, {END} FROM orders GROUP BY {WINDOW} HAVING MAX({EMAIL}) > 'b'",
         [("HAVING", f"MAX({EMAIL})"), ("an aggregate", EMAIL)]),
        (f"SELECT x, window_timestamp FROM ({COUNTED}) WHERE n > 3",
         [("an aggregate", EMAIL), ("WHERE", "n")]),
        (f"SELECT number AS x FROM orders CROSS JOIN UNNEST(ARRAY['a', 'b']) AS c (l)"
         f" WHERE SUBSTRING({EMAIL}, 1, 1) = c.l", [("WHERE", EMAIL)]),
        (f"SELECT l AS x FROM orders CROSS JOIN UNNEST(ARRAY[{EMAIL}, number]) AS c (l)",
         [("UNNEST", EMAIL)]),
        ("SELECT o.amount AS x " + JOINED.format("JOIN").replace("o.number", f"o.{EMAIL}"),
         [("ON", f"o.{EMAIL}")]),
        ("SELECT o.amount AS x " + JOINED.format("LEFT JOIN").replace("r.number", f"r.{EMAIL}"),
         [("ON", f"r.{EMAIL}")]),
        (f"SELECT o.amount AS x {JOINED.format('JOIN')} WHERE r.{EMAIL} = 'a'", [("WHERE", f"r.{EMAIL}")]),
        ("SELECT o.amount AS x " + JOINED.format("LEFT JOIN").replace(
            "refunds r", f"(SELECT number, rowtime FROM refunds WHERE {EMAIL} = 'a') r"), [("WHERE", EMAIL)]),
        (f"SELECT number AS x FROM orders WHERE {EMAIL} = 'a' UNION ALL SELECT number FROM refunds",
         [("WHERE", EMAIL)]),
        (f"SELECT x FROM (SELECT {EMAIL} AS x FROM orders UNION ALL SELECT number FROM refunds)"
         " WHERE x > 'a'",
         [("WHERE", "x")]),
        (TOP.format("number", "amount"),
         [("an ORDER BY whose first rows are equal", EMAIL), ("WHERE", "place")]),
        (TOP.format(EMAIL, "amount").replace(f" {EMAIL} AS mail", " number AS mail"),
         [("PARTITION BY", EMAIL)]),
        (TOP.format("number", EMAIL).replace(f" {EMAIL} AS mail", " number AS mail"),
         [("ORDER BY", EMAIL), ("WHERE", "place")]),
    ],
)  # fmt: skip
def test_what_chooses_groups_orders_or_adds_up_decides(sql: str, where: list[tuple[str, str]]) -> None:
    assert influences(sql) == where


def test_event_time_decides_by_windows() -> None:
    sql = f"SELECT COUNT(1) AS x, {END} FROM orders GROUP BY {WINDOW}"

    assert influences(sql, "rowtime") == [("a window", "rowtime")]


def test_a_whole_message_decides_by_all_that_it_has() -> None:
    assert influences("SELECT number AS x FROM orders WHERE customer IS NOT NULL", "customer") == [
        ("WHERE", "customer")
    ]


def test_conditions_on_rows_say_by_what_they_go() -> None:
    sql = f"SELECT LOWER({EMAIL}) AS mail, number AS x FROM orders"
    found = check(sql, tables(), conditions=["mail = 'a'", "x = 'b'"]).plan

    assert found is not None
    assert {one.text: one.origins for one in found.conditions} == {
        "mail = 'a'": (("orders", EMAIL),),
        "x = 'b'": (("orders", "number"),),
    }


def test_columns_say_where_they_stand() -> None:
    found = plan(f"SELECT number AS x,\n  {EMAIL} FROM orders")

    assert found.places == ((1, 18, 1, 19), (2, 3, 2, 17))
