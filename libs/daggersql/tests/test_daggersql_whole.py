"""How far back a plan needs records, and which rows tell since when."""

from datetime import timedelta

import pytest
from tests.conformance.corpus import tables

from daggersql import check
from daggersql.findings import Severity

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
    assert (planned.horizon, planned.lookback) == tuple(timedelta(minutes=minute) for minute in minutes)
    assert ("__since" in planned.hidden) == tells


SESSIONS = """(SELECT customer_id AS c, COUNT(*) AS n, CollectArray(event_name) AS events,
SESSION_ROWTIME(rowtime, INTERVAL '1' MINUTE) AS rt
FROM customer_events GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE), customer_id) AS s"""
NEAR = "s.rt BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE"
BY_RT, BY_ROWTIME = BY_TEN.format("rt"), BY_TEN.format("b.rowtime")
BY_COUNT = f"SELECT COUNT(*) AS k, n AS m FROM {SESSIONS} {BY_RT}, n"
RECORDS = f"bookings b {{}} {SESSIONS} ON {NEAR} AND b.order_number ="
UNFOLDED = f"{SESSIONS}, UNNEST(events) AS t(e)"


@pytest.mark.parametrize(
    ("sql", "together"),
    [
        (BY_COUNT, True),
        (f"SELECT k, m FROM ({BY_COUNT}) AS g WHERE k > 1", True),
        (f"{BY_COUNT} UNION ALL {BY_COUNT}", True),
        (f"SELECT COUNT(*) AS k, e FROM {UNFOLDED} {BY_RT}, e", True),
        (f"SELECT COUNT(*) AS k, s.n FROM {RECORDS.format('LEFT JOIN')} s.c {BY_ROWTIME}, s.n", True),
        (f"SELECT SUM(n) AS k, c FROM {SESSIONS} WHERE n > 1 {BY_RT}, c", False),
        (f"SELECT COUNT(*) AS k FROM {UNFOLDED} {BY_RT}", False),
        (f"SELECT b.fare, s.c FROM {RECORDS.format('JOIN')} s.events[1]", False),
        (f"SELECT MAX(n) AS k, n % 2 AS m FROM {MINUTES.format('TUMBLE')} {BY_RT}, n % 2", False),
    ],
)
def test_groups_by_results_of_sessions_are_whole_together(sql: str, together: bool) -> None:
    planned = check(sql, tables()).plan

    assert planned is not None
    assert planned.hidden[-1] == ("__since_of_window" if together else "__since")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (
            f"SELECT COUNT(*) AS k, n FROM {SESSIONS} GROUP BY SESSION(rt, INTERVAL '5' MINUTE), n",
            "UNSUPPORTED_GROUPING",
        ),
        (f"SELECT b.fare FROM {RECORDS.format('LEFT JOIN')} s.events[1]", "UNSUPPORTED_JOIN"),
        (f"SELECT b.fare FROM {RECORDS.format('LEFT JOIN')} s.c AND s.n > 1", "UNSUPPORTED_JOIN"),
        (
            f"SELECT COUNT(*) AS k FROM {RECORDS.format('JOIN')} s.events[1] {BY_ROWTIME}",
            "UNSUPPORTED_JOIN",
        ),
        (
            f"""SELECT COUNT(*) AS k FROM bookings b, {SESSIONS}
            WHERE b.order_number = s.events[1] AND {NEAR} {BY_ROWTIME}""",
            "UNSUPPORTED_JOIN",
        ),
        (
            f"""SELECT b.fare, g.k FROM bookings b JOIN (SELECT COUNT(*) AS k, c, n,
            TUMBLE_ROWTIME(rt, INTERVAL '10' MINUTE) AS rt FROM {SESSIONS} {BY_RT}, c, n) AS g
            ON b.order_number = g.c AND g.rt BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE""",
            "UNSUPPORTED_JOIN",
        ),
        (
            f"""SELECT COUNT(*) AS k FROM (SELECT SESSION_ROWTIME(rt, INTERVAL '5' MINUTE) AS rt
            FROM {SESSIONS} GROUP BY SESSION(rt, INTERVAL '5' MINUTE)) AS o {BY_RT}""",
            "UNSUPPORTED_WINDOW",
        ),
        (f"{BY_COUNT} UNION ALL SELECT 1 AS k, 1 AS m FROM bookings", "UNSUPPORTED_SET_OPERATION"),
    ],
)
def test_what_goes_by_results_of_sessions_and_cannot_be_known_to_be_partial_is_objected_to(
    sql: str, code: str
) -> None:
    new, running = check(sql, tables()), check(sql, tables(), accepted=True)

    assert [finding.code for finding in new.findings if finding.severity is Severity.ERROR] == [code]
    assert running.plan is not None
    assert code in {warning.code for warning in running.plan.warnings}


def test_a_time_that_is_not_the_end_of_its_group_is_no_event_time() -> None:
    first = MINUTES.format("TUMBLE").replace("COUNT(*) AS n", "MIN(rowtime) AS n")

    found = check(f"SELECT COUNT(*) AS k FROM {first} {BY_TEN.format('n')}", tables()).findings

    assert "NOT_A_TIME_ATTRIBUTE" in {each.code for each in found}
