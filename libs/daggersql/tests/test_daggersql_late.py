"""What drops a record that comes too late: the first thing above its stream that keeps state."""

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
