"""Which fields the values of an output column are made of, through whatever stands in between."""

from __future__ import annotations

import pytest
from tests.conformance.shop import END, JOINED, TIMED, WINDOW, plan

from daggerspec.columns import Cell


def made_of(sql: str, column: str = "x") -> set[str]:
    """What a column is made of, as TABLE.PATH."""
    found = plan(sql)
    number = [column.name for column in found.columns].index(column)
    return {f"{table}.{path}" for table, path in found.origins[number]}


@pytest.mark.parametrize(
    ("sql", "origins"),
    [
        ("SELECT number AS x, customer.email AS y FROM orders", {"number"}),
        ("SELECT customer.email AS x FROM orders", {"customer.email"}),
        ("SELECT customer AS x FROM orders", {"customer"}),
        ("SELECT UPPER(customer.email) || number AS x FROM orders", {"customer.email", "number"}),
        ("SELECT CASE WHEN customer.email = 'a' THEN 1 ELSE 0 END AS x FROM orders", {"customer.email"}),
        ("SELECT number AS x FROM orders WHERE customer.email = 'a'", {"number"}),
        ("SELECT items[1].name AS x FROM orders", {"items.name"}),
        ("SELECT labels['a'] AS x FROM orders", {"labels"}),
        ("SELECT 'constant' AS x FROM orders", set()),
        ("SELECT rowtime AS x FROM orders", {"rowtime"}),
        (f"SELECT COUNT(1) AS x, {END} FROM orders GROUP BY {WINDOW}", set()),
        (f"SELECT COUNT(customer.email) AS x, {END} FROM orders GROUP BY {WINDOW}", {"customer.email"}),
        (f"SELECT COUNT(DISTINCT number) AS x, {END} FROM orders GROUP BY {WINDOW}", {"number"}),
        (f"SELECT customer.city AS x, SUM(amount) AS y, {END} FROM orders GROUP BY {WINDOW}, customer.city",
         {"customer.city"}),
        (f"SELECT SUM(amount) + COUNT(customer.email) AS x, {END} FROM orders GROUP BY {WINDOW}",
         {"amount", "customer.email"}),
        (f"SELECT COUNT(1) AS y, TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS x FROM orders GROUP BY {WINDOW}",
         {"rowtime"}),
        ("SELECT b AS x FROM (SELECT number AS a, LOWER(customer.email) AS b, rowtime FROM orders)",
         {"customer.email"}),
        ("WITH t AS (SELECT customer.email AS e, number, rowtime FROM orders) SELECT e AS x FROM t",
         {"customer.email"}),
        (f"SELECT n AS x, window_timestamp FROM (SELECT COUNT(customer.email) AS n, {END} FROM orders"
         f" GROUP BY {WINDOW})", {"customer.email"}),
        ("SELECT i.name AS x FROM orders CROSS JOIN UNNEST(items) AS i (name, price)", {"items.name"}),
        ("SELECT i.ordinality AS x FROM orders CROSS JOIN UNNEST(items) WITH ORDINALITY"
         " AS i (name, price, ordinality)", {"items"}),
        ("SELECT i.price AS x FROM (SELECT items AS l, rowtime FROM orders)"
         " CROSS JOIN UNNEST(l) AS i (name, price)", {"items.price"}),
    ],
)  # fmt: skip
def test_a_value_is_made_of_all_that_its_expression_reads(sql: str, origins: set[str]) -> None:
    assert made_of(sql) == {f"orders.{origin}" for origin in origins}


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_each_side_of_a_join_has_its_own(kind: str) -> None:
    sql = f"SELECT o.amount AS x, r.customer.email AS y, o.number || r.number AS z {JOINED.format(kind)}"

    assert made_of(sql) == {"orders.amount"}
    assert made_of(sql, "y") == {"refunds.customer.email"}
    assert made_of(sql, "z") == {"orders.number", "refunds.number"}


def test_a_side_of_a_join_that_is_computed_has_what_it_is_computed_of() -> None:
    below = "(SELECT number, LOWER(customer.email) AS e, rowtime FROM refunds)"
    sql = "SELECT r.e AS x, o.amount AS y " + JOINED.format("JOIN").replace("refunds r", f"{below} r")

    assert (made_of(sql), made_of(sql, "y")) == ({"refunds.customer.email"}, {"orders.amount"})


def test_a_union_has_what_each_of_its_branches_has() -> None:
    sql = (
        "SELECT number AS x, rowtime AS window_timestamp FROM orders"
        " UNION ALL SELECT customer.email, rowtime FROM refunds"
    )
    above = f"SELECT LOWER(x) AS x, window_timestamp FROM ({sql})"

    assert made_of(sql) == made_of(above) == {"orders.number", "refunds.customer.email"}


def test_the_first_of_a_window_have_what_their_rows_have() -> None:
    counted = (
        "SELECT customer.city AS city, SUM(amount) AS n, COUNT(customer.email) AS m,"
        f" window_start, window_end FROM {TIMED} GROUP BY window_start, window_end, customer.city"
    )
    numbered = (
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place"
        f" FROM ({counted})"
    )
    sql = f"SELECT city AS x, n, m, window_end AS window_timestamp FROM ({numbered}) t WHERE place <= 3"

    for column, path in (("x", "customer.city"), ("n", "amount"), ("m", "customer.email")):
        assert f"orders.{path}" in made_of(sql, column)


@pytest.mark.parametrize(
    ("sql", "copy"),
    [
        ("SELECT number AS x FROM orders", ("orders", "number")),
        ("SELECT customer.city AS x FROM orders", ("orders", "customer.city")),
        ("SELECT items AS x FROM orders", ("orders", "items")),
        ("SELECT UPPER(number) AS x FROM orders", None),
        ("SELECT amount * 2 AS x FROM orders", None),
        ("SELECT CAST(amount AS BIGINT) AS x FROM orders", None),
        (f"SELECT number AS x, {END} FROM orders GROUP BY number, {WINDOW}", ("orders", "number")),
        (f"SELECT MAX(amount) AS x, {END} FROM orders GROUP BY {WINDOW}", None),
        (f"SELECT COUNT(*) AS n, {END.replace('window_timestamp', 'x')} FROM orders GROUP BY {WINDOW}", None),
        ("SELECT number AS x FROM orders UNION ALL SELECT number FROM orders", ("orders", "number")),
        ("SELECT number AS x FROM orders UNION ALL SELECT number FROM refunds", None),
    ],
)
def test_a_column_that_is_a_field_as_it_stands_in_the_records_says_so(
    sql: str, copy: tuple[str, str] | None
) -> None:
    found = plan(sql)

    assert found.copies[[column.name for column in found.columns].index("x")] == copy


@pytest.mark.parametrize(
    ("sql", "cell"),
    [
        ("SELECT S2Id(amount, amount, 13) AS x FROM orders", Cell.S2),
        ("SELECT CAST(S2Id(amount, amount, 13) AS BIGINT) AS x FROM orders", Cell.S2),
        ("SELECT GeoHash(amount, amount, 6) AS x FROM orders", Cell.GEOHASH),
        (
            f"SELECT S2Id(amount, amount, 13) AS x, {END} FROM orders"
            f" GROUP BY S2Id(amount, amount, 13), {WINDOW}",
            Cell.S2,
        ),
        ("SELECT cell AS x FROM (SELECT GeoHash(amount, amount, 6) AS cell FROM orders) t", Cell.GEOHASH),
        (
            "SELECT S2Id(amount, amount, 13) AS x FROM orders"
            " UNION ALL SELECT S2Id(amount, amount, 9) FROM orders",
            Cell.S2,
        ),
        (
            "SELECT S2Id(amount, amount, 13) AS x FROM orders"
            " UNION ALL SELECT GeoHash(amount, amount, 6) FROM orders",
            None,
        ),
        ("SELECT UPPER(GeoHash(amount, amount, 6)) AS x FROM orders", None),
        (f"SELECT COUNT(S2Id(amount, amount, 13)) AS x, {END} FROM orders GROUP BY {WINDOW}", None),
        ("SELECT number AS x FROM orders", None),
    ],
)
def test_a_column_that_names_cells_of_a_map_says_which(sql: str, cell: Cell | None) -> None:
    found = plan(sql)

    assert found.columns[[column.name for column in found.columns].index("x")].cell is cell
