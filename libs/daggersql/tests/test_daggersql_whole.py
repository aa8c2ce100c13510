"""How far back a plan needs records, and which rows tell since when."""

from datetime import timedelta

import pytest
from tests.conformance.corpus import tables

from daggersql import check

MINUTES = """(SELECT driver_id AS d, COUNT(*) AS n, {0}_ROWTIME(rowtime, INTERVAL '1' MINUTE) AS rt
FROM driver_pings GROUP BY {0}(rowtime, INTERVAL '1' MINUTE), driver_id) AS minutes"""
JOINED = """bookings b {0} JOIN payments p ON b.order_number = p.order_id
AND p.rowtime BETWEEN b.rowtime - INTERVAL '1' MINUTE AND b.rowtime + INTERVAL '5' MINUTE"""
BY_TEN = "GROUP BY TUMBLE({}, INTERVAL '10' MINUTE)"


@pytest.mark.parametrize(
    ("sql", "minutes", "tells"),
    [
        ("SELECT fare FROM bookings", (0, 0), False),
        (f"SELECT COUNT(*) AS n FROM bookings {BY_TEN.format('rowtime')}", (10, 0), False),
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE)", (1, 1), True),
        (f"SELECT d, n FROM {MINUTES.format('TUMBLE')}", (1, 1), True),
        (f"SELECT MAX(n) AS m FROM {MINUTES.format('TUMBLE')} {BY_TEN.format('rt')}", (11, 1), True),
        (f"SELECT MAX(n) AS m FROM {MINUTES.format('SESSION')} {BY_TEN.format('rt')}", (11, 1), True),
        (f"SELECT b.fare FROM {JOINED.format('')}", (5, 5), False),
        (f"SELECT b.fare FROM {JOINED.format('LEFT')}", (5, 5), True),
        (f"SELECT COUNT(*) AS n FROM {JOINED.format('')} {BY_TEN.format('b.rowtime')}", (15, 1), True),
        (f"SELECT COUNT(*) AS n FROM {JOINED.format('')} {BY_TEN.format('p.rowtime')}", (15, 5), True),
    ],
)
def test_a_plan_knows_how_far_back_it_needs_records_and_which_rows_must_tell(
    sql: str, minutes: tuple[int, int], tells: bool
) -> None:
    planned = check(sql, tables()).plan

    assert planned is not None
    assert (planned.horizon, planned.lookback) == tuple(timedelta(minutes=each) for each in minutes)
    assert ("__since" in planned.hidden) == tells
