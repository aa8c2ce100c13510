"""What drops a record that comes too late: the first thing above its stream that keeps state."""

import re
from datetime import timedelta

import pytest
from tests.conformance.corpus import tables

from daggersql import Window, check

SECOND = timedelta(seconds=1)
TEN = Window("TUMBLE", 10 * SECOND, 10 * SECOND)
MINUTE = Window("TUMBLE", 60 * SECOND, 60 * SECOND)
HOP = Window("HOP", 60 * SECOND, 20 * SECOND)
SESSION = Window("SESSION", 30 * SECOND, 30 * SECOND)
JOIN = Window("JOIN", timedelta(), timedelta())
NEAR = "b.rowtime BETWEEN a.rowtime - INTERVAL '5' SECOND AND a.rowtime + INTERVAL '5' SECOND"
INNER = (
    "SELECT service_type, COUNT(*) AS n, TUMBLE_ROWTIME(rowtime, INTERVAL '10' SECOND) AS t"
    " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), service_type"
)
PAIRS = f"bookings AS a JOIN bookings AS b ON a.order_number = b.order_number AND {NEAR}"


@pytest.mark.parametrize(
    ("sql", "windows"),
    [
        ("SELECT fare FROM bookings", ()),
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND)", (TEN,)),
        (
            "SELECT COUNT(*) AS n FROM bookings"
            " GROUP BY HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND)",
            (HOP,),
        ),
        (
            "SELECT status AS tag_status, COUNT(*) AS n FROM bookings"
            " GROUP BY SESSION(rowtime, INTERVAL '30' SECOND), status",
            (SESSION,),
        ),
        (f"SELECT SUM(n) AS n FROM ({INNER}) AS q GROUP BY TUMBLE(t, INTERVAL '60' SECOND)", (TEN,)),
        (f"SELECT a.fare FROM {PAIRS}", (JOIN,)),
        (f"SELECT COUNT(*) AS n FROM {PAIRS} GROUP BY TUMBLE(a.rowtime, INTERVAL '60' SECOND)", (JOIN,)),
        (
            "SELECT COUNT(*) AS n FROM (SELECT rowtime, fare FROM bookings WHERE fare > 1) AS q"
            " GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)",
            (MINUTE,),
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT rowtime FROM bookings UNION ALL SELECT rowtime FROM bookings)"
            " AS q GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)",
            (MINUTE,),
        ),
    ],
)  # fmt: skip
def test_a_record_is_late_for_the_innermost_window_or_the_join_that_it_goes_to(
    sql: str, windows: tuple[Window, ...]
) -> None:
    checked = check(sql, tables())

    assert checked.plan is not None, checked.findings
    assert checked.plan.closing["bookings"] == windows


def test_a_join_of_a_join_waits_as_long_as_the_one_below() -> None:
    sql = f"SELECT a.fare FROM {PAIRS} JOIN payments AS p ON p.order_id = b.order_number" + (
        " AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '1' MINUTE"
    )
    checked = check(sql, tables())

    assert checked.plan is not None, checked.findings
    assert checked.plan.closing["bookings"] == (JOIN,)
    assert checked.plan.closing["payments"] == (Window("JOIN", 5 * SECOND, timedelta()),)


COUNT = "SELECT COUNT(*) AS n FROM bookings WHERE {} GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND)"


@pytest.mark.parametrize(
    ("sql", "stages"),
    [
        (COUNT.format("status = 'COMPLETED' AND order_number <> 'x'"), 0),
        (COUNT.format("UPPER(order_number) = 'X'"), 1),
        ("SELECT fare FROM bookings WHERE UPPER(order_number) = 'X'", 0),
        (f"SELECT a.fare FROM {PAIRS} WHERE a.fare > 1", 2),
        (f"SELECT SUM(n) AS n FROM ({INNER}) AS q GROUP BY TUMBLE(t, INTERVAL '60' SECOND)", 1),
        (
            "SELECT COUNT(*) AS n FROM bookings, UNNEST(promo_codes) AS c"
            " GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND)",
            1,
        ),
    ],
    ids=[
        "where the reader judges",
        "a function in WHERE",
        "forwarded",
        "a join",
        "windows in windows",
        "a list",
    ],
)
def test_a_query_is_in_stages_where_its_reader_cannot_count_what_comes_late(sql: str, stages: int) -> None:
    plan = check(sql, tables()).plan
    assert plan is not None
    form = plan.partial_aggregation or plan

    assert len(form.staged.stages if form.staged else ()) == stages
    is_read = plan.window is not None and form.staged is None and "AS q" not in sql
    assert plan.finds_late_where_read == is_read
    assert form.staged is None or all(stage.name in form.staged.spark_sql for stage in form.staged.stages)


def test_what_a_join_would_have_dropped_for_its_condition_is_asked_of_its_sides_first() -> None:
    plan = check(f"SELECT a.fare FROM {PAIRS} AND b.status = 'CREATED' WHERE a.fare > 1", tables()).plan
    assert plan is not None
    assert plan.staged is not None
    left, right = plan.staged.stages

    assert "`fare`" in left.spark_sql.partition(" WHERE ")[2]
    assert "'CREATED'" in right.spark_sql.partition(" WHERE ")[2]


def test_the_columns_of_a_side_come_in_the_order_in_which_its_reader_gives_them() -> None:
    """Spark's state of a join has them in that order, as in checkpoints of before there were stages."""
    sql = f"SELECT a.status, a.fare, b.customer FROM {PAIRS}"
    plan = check(sql, tables()).plan
    assert plan is not None
    assert plan.staged is not None

    left, right = (
        re.findall(r"`s[01]`\.`([^`]+)`", stage.spark_sql.partition(" FROM ")[0])[:-1]
        for stage in plan.staged.stages
    )
    behind = ["rowtime", "__topic", "__partition", "__offset"]
    assert left == ["order_number", "status", "fare", *behind], "as the message has them, not as the query"
    assert right == ["order_number", "customer", *behind]
