"""`late: update`: windows with gates, and what can be written again with late records."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.corpus import tables

from daggersql import Plan, check
from daggersql.ir.gates import gates

SECOND, MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
ALLOWED = timedelta(minutes=10)
WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
END = "TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
COUNTED = f"SELECT COUNT(*) AS n, {END} FROM bookings GROUP BY {WINDOW}"
SESSIONS = (
    "SELECT status AS tag_status, COUNT(*) AS n FROM bookings"
    " GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE), status"
)
JOINED = (
    f"SELECT COUNT(*) AS n, {END.replace('rowtime', 'a.rowtime')} FROM bookings AS a JOIN bookings AS b"
    " ON a.order_number = b.order_number AND b.rowtime BETWEEN a.rowtime - INTERVAL '5' SECOND AND a.rowtime"
    f" GROUP BY {WINDOW.replace('rowtime', 'a.rowtime')}"
)
TOP = (
    "SELECT driver_id AS tag_driver, n, window_timestamp FROM (SELECT q.*, ROW_NUMBER() OVER (PARTITION BY"
    " window_timestamp ORDER BY n DESC) AS place FROM (SELECT driver_id, COUNT(*) AS n,"
    f" {END} FROM bookings GROUP BY {WINDOW}, driver_id) AS q) WHERE place <= 3"
)


def plan_of(sql: str, allowed: timedelta = ALLOWED) -> Plan:
    checked = check(sql, tables(), allowed_lateness=allowed)
    assert checked.plan is not None, checked.findings
    return checked.plan


def codes(sql: str, **options: object) -> list[str]:
    findings = check(sql, tables(), allowed_lateness=ALLOWED, **options).findings  # type: ignore[arg-type]
    return [one.code for one in findings if one.code.startswith("UPDATE")]


@pytest.mark.parametrize(
    ("allowed", "slide", "expected"),
    [
        (600, 60, (0, 180, 600)),
        (60, 60, (0, 15, 60)),
        (3_600, 86_400, (0, 900, 3_600)),
        (0.0015, 60, (0, 0.001)),
    ],
)
def test_the_middle_gate_is_where_another_window_ends_if_one_does(
    allowed: float, slide: int, expected: tuple[float, ...]
) -> None:
    found = gates(timedelta(seconds=allowed), slide * SECOND)
    assert found == tuple(timedelta(seconds=gate) for gate in expected)


@given(st.integers(1_000_000, 10**11), st.integers(1, 10**8))
def test_gates_grow_from_the_end_to_all_that_is_allowed(allowed: int, slide_ms: int) -> None:
    allowed_lateness = timedelta(microseconds=allowed)
    found = gates(allowed_lateness, timedelta(milliseconds=slide_ms))
    assert list(found) == sorted(set(found))
    assert (len(found), found[0], found[-1]) == (
        3,
        timedelta(),
        allowed_lateness // MILLISECOND * MILLISECOND,
    )
    assert all(gate.microseconds % 1000 == 0 for gate in found)


@pytest.mark.parametrize("sql", [SESSIONS, JOINED, TOP, "SELECT fare FROM bookings"])
def test_sessions_joins_first_rows_and_records_are_refused_by_name(sql: str) -> None:
    assert codes(sql) == ["UPDATE_NOT_POSSIBLE"]
    assert codes(sql, accepted=True) == ["UPDATE_NOT_POSSIBLE"]
    assert check(sql, tables()).plan is not None


def test_a_row_that_late_records_would_withdraw_is_refused() -> None:
    assert codes(f"{COUNTED} HAVING MIN(fare) > 1") == ["UPDATE_NOT_POSSIBLE"]
    assert codes(f"{COUNTED} HAVING COUNT(*) > 1") == []
    [finding] = check(COUNTED, tables(), allowed_lateness=ALLOWED, conditions=["n < 5"]).conditions["n < 5"]
    assert (finding.code, "`late: update`" in finding.message) == ("UPDATE_NOT_POSSIBLE", True)


@pytest.mark.parametrize("sql", [COUNTED, COUNTED.replace("COUNT(*)", "COUNT(DISTINCT fare)")])
def test_the_state_is_another_one_for_each_lateness_and_kept_for_longer(sql: str) -> None:
    plain, ten, twenty = check(sql, tables()).plan, plan_of(sql), plan_of(sql, 2 * ALLOWED)
    assert plain is not None
    assert len({plain.fingerprint, ten.fingerprint, twenty.fingerprint}) == 3
    assert ten.horizon - plain.horizon == ALLOWED
    assert (ten.hidden, ten.columns, ten.key) == (plain.hidden, plain.columns, plain.key)
    [closing] = ten.closing["bookings"]
    assert (ten.window, closing.allowed_lateness) == (closing, ALLOWED)
