"""What `emit: early` can write: rows that are results, or that are written over until they are."""

import pytest
from tests.conformance.corpus import tables

from daggersql import Severity, check

WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
END = "TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
GROUP = f"FROM bookings GROUP BY {WINDOW}, service_type"


def said(sql: str, *, accepted: bool = False) -> list[tuple[str, Severity, int]]:
    findings = check(sql, tables(), early=True, accepted=accepted).findings
    return [
        (finding.code, finding.severity, finding.column)
        for finding in findings
        if finding.code.startswith("EARLY")
    ]


@pytest.mark.parametrize(
    "columns",
    [
        "COUNT(*) AS n", "SUM(fare) AS total, AVG(fare) AS mean, MAX(fare) - MIN(fare) AS spread",
        "SUM(fare) / COUNT(*) AS mean", "COUNT(*) FILTER (WHERE surge) * 100 / COUNT(*) AS percent",
        "CAST(COUNT(*) AS DOUBLE) / 60 AS per_second", "ROUND(SUM(fare), 2) AS total",
        "CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END AS load",
        "COALESCE(SUM(fare) / SUM(tip), 0) AS share",
        "LISTAGG(driver_id) AS drivers, COUNT(DISTINCT driver_id) AS n, LAST_VALUE(fare) AS latest",
    ],
)  # fmt: skip
def test_values_that_stay_values_can_be_written_early(columns: str) -> None:
    assert said(f"SELECT service_type AS tag_service, {columns}, {END} {GROUP}") == []


@pytest.mark.parametrize(
    "having", ["COUNT(*) > 3", "3 <= COUNT(*)", "COUNT(*) >= 3 AND MAX(fare) > 5", "service_type = 'RIDE'"]
)
def test_a_condition_that_stays_true_can_be_written_early(having: str) -> None:
    assert said(f"SELECT service_type AS tag_service, COUNT(*) AS n, {END} {GROUP} HAVING {having}") == []


@pytest.mark.parametrize("having", ["SUM(fare) > 3", "COUNT(*) < 3", "MIN(fare) > 1", "NOT COUNT(*) > 3"])
def test_a_condition_that_may_turn_false_leaves_rows_that_are_no_result(having: str) -> None:
    sql = f"SELECT service_type AS tag_service, COUNT(*) AS n, {END} {GROUP} HAVING {having}"

    assert said(sql) == [("EARLY_NOT_POSSIBLE", Severity.ERROR, sql.index(having) + 1)]


@pytest.mark.parametrize(
    "column",
    [
        "MAX(fare) AS tag_max", "CAST(COUNT(*) AS STRING) AS label_n",
        "MAX(event_timestamp) AS window_timestamp",
        "PROCTIME() AS window_timestamp", "NULLIF(COUNT(*), 3) AS n", "SUM(fare) / SUM(tip) AS share",
        "CASE WHEN COUNT(*) > 3 THEN 'many' END AS load", "CollectArray(fare) AS fares",
        "CAST(LISTAGG(driver_id) AS INT) AS n",
    ],
)  # fmt: skip
def test_what_moves_a_row_or_takes_a_value_back_is_said_at_its_place(column: str) -> None:
    time = "" if "window_timestamp" in column else f", {END}"
    sql = f"SELECT service_type AS tag_service, {column}{time} {GROUP}"

    assert said(sql) == [("EARLY_NOT_POSSIBLE", Severity.ERROR, sql.index(column) + 1)]


def test_a_row_without_a_time_is_a_new_point_each_time() -> None:
    sql = f"SELECT service_type AS tag_service, COUNT(*) AS n {GROUP}"

    assert said(sql) == [("EARLY_NOT_POSSIBLE", Severity.ERROR, sql.index("TUMBLE") + 1)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM bookings GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE), service_type",
        "SELECT b.fare FROM bookings b JOIN payments p ON b.order_number = p.order_id"
        " AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '1' MINUTE",
    ],
)
@pytest.mark.parametrize("accepted", [False, True])
def test_sessions_and_joins_cannot_be_written_early(sql: str, accepted: bool) -> None:
    assert [each[:2] for each in said(sql, accepted=accepted)] == [("EARLY_NOT_POSSIBLE", Severity.ERROR)]


def test_records_are_forwarded_when_they_come() -> None:
    assert said("SELECT order_number, NULLIF(fare, 0) AS fare FROM bookings") == []


@pytest.mark.parametrize(
    ("sql", "early"),
    [
        (f"SELECT service_type AS tag_s, COUNT(*) AS n, {END} {GROUP} HAVING SUM(fare) > 3", True),
        ("SELECT JsonQuery(order_number, '$.a[1:-1]') AS x FROM bookings", False),
        ("SELECT JsonDelete(order_number, '$..*[?(@.a)]') AS x FROM bookings", False),
        ("SELECT JsonQuery(order_number, '$.a[?(!@.b == 1 && $.c)]') AS x FROM bookings", False),
        ("SELECT i.x FROM bookings, UNNEST(items) AS i (x, x, y, z)", False),
    ],
)
def test_what_only_a_newer_check_objects_to_is_a_warning_for_a_query_that_was_accepted(
    sql: str, early: bool
) -> None:
    new, old = (check(sql, tables(), early=early, accepted=accepted) for accepted in (False, True))
    objections = [finding for finding in new.findings if finding.severity is Severity.ERROR]

    assert objections
    assert new.plan is None
    assert old.plan is not None
    assert {objection.code for objection in objections} <= {warning.code for warning in old.plan.warnings}
