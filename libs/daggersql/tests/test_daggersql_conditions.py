"""Conditions on the rows that a query gives: what sinks say by `when`."""

from __future__ import annotations

import pytest
from tests.conformance.corpus import tables

from daggersql import CheckResult, check
from daggersql.emit.rowconditions import with_conditions

WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
SQL = (
    "SELECT service_type AS tag_service, COUNT(*) AS n, AVG(fare) AS mean,"
    " TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM bookings"
    f" GROUP BY {WINDOW}, service_type"
)
RECORDS = "SELECT order_number, fare, rowtime FROM bookings"


def asked(*conditions: str, sql: str = SQL, early: bool = False) -> CheckResult:
    return check(sql, tables(), early=early, conditions=conditions)


@pytest.mark.parametrize(
    ("condition", "spark"),
    [
        ("n > 3", "(`row`.`n` > 3)"),
        ("tag_service = 'RIDE' AND n > 3", "((`row`.`tag_service` = 'RIDE') AND (`row`.`n` > 3))"),
        ("mean IS NOT NULL", "(NOT (`row`.`mean` IS NULL))"),
        (
            "n < 2 OR window_timestamp > TIMESTAMP '2026-01-01 00:00:00'",
            "((`row`.`n` < 2) OR (`row`.`window_timestamp` > TIMESTAMP'2026-01-01 00:00:00Z'))",
        ),
        ("TRUE", "TRUE"),
    ],
)
def test_a_condition_is_told_to_spark_over_the_columns_of_the_rows(condition: str, spark: str) -> None:
    checked = asked(condition)

    assert checked.conditions == {}
    assert checked.plan is not None
    assert [(one.text, one.spark_sql) for one in checked.plan.conditions] == [(condition, spark)]


@pytest.mark.parametrize(
    ("condition", "code", "column"),
    [
        ("n > 3 AND nn < 4", "UNKNOWN_COLUMN", 11),
        ("service_type = 'RIDE'", "UNKNOWN_COLUMN", 1),
        ("tag_service = RIDE", "UNKNOWN_COLUMN", 15),
        ("n + 1", "TYPE_MISMATCH", 1),
        ("n = 'many'", "TYPE_MISMATCH", 1),
        ("n >", "SYNTAX_ERROR", 4),
        ("n > 3) OR (n < 2", "SYNTAX_ERROR", 6),
        ("n > 3; DROP TABLE x", "MULTIPLE_STATEMENTS", 6),
        ("SUM(n) > 3", "AGGREGATE_NOT_ALLOWED", 1),
        ("EXISTS (SELECT 1 FROM bookings)", "UNSUPPORTED_SUBQUERY", 1),
        ("java_method('a', 'b') = 'c'", "FORBIDDEN_FUNCTION", 1),
        (" ", "SYNTAX_ERROR", 2),
    ],
)
def test_what_is_no_condition_on_the_rows_is_told_with_its_place(
    condition: str, code: str, column: int
) -> None:
    checked = asked(condition, "n > 3")
    [finding] = checked.conditions[condition]
    [violation] = checked.wrong_conditions("spec.sinks", ["", "n > 3", condition])

    assert checked.plan is not None  # the query is well
    assert (finding.code, finding.line, finding.column) == (code, 1, column)
    assert (violation.field, violation.reason) == ("spec.sinks[2].when", code)
    assert [one.text for one in checked.plan.conditions] == ["n > 3"]


def test_a_condition_is_no_part_of_the_query_and_of_its_state() -> None:
    plain, conditioned = asked().plan, asked("GeoHash(mean, mean, 5) = 'u'", "n > 3").plan

    assert plain is not None
    assert conditioned is not None
    assert (plain.fingerprint, plain.spark_sql, plain.functions) == (
        conditioned.fingerprint,
        conditioned.spark_sql,
        conditioned.functions,
    )
    assert conditioned.condition_functions == ("geohash",)
    assert with_conditions(plain, "SELECT 1") == "SELECT 1"
    told = with_conditions(conditioned, "SELECT 1")
    assert told.endswith(", ((`row`.`n` > 3)) AS `__condition_1` FROM (SELECT 1) AS `row`")
    assert told.startswith("SELECT `row`.`tag_service`, `row`.`n`, `row`.`mean`, `row`.`window_timestamp`, ")


def test_of_a_query_that_is_wrong_no_condition_is_judged() -> None:
    checked = asked("nope > 3", sql="SELECT nope FROM bookings")

    assert (checked.plan, checked.conditions) == (None, {})
    assert [finding.code for finding in checked.findings] == ["UNKNOWN_COLUMN"]


@pytest.mark.parametrize("condition", ["n > 3", "tag_service = 'RIDE'", "n > 3 OR tag_service <> 'RIDE'"])
def test_early_rows_may_go_by_what_stays_true(condition: str) -> None:
    assert asked(condition, early=True).conditions == {}


@pytest.mark.parametrize("condition", ["n < 3", "mean > 1", "NOT n > 3"])
def test_early_rows_do_not_go_by_what_may_turn_false_again(condition: str) -> None:
    [finding] = asked(condition, early=True).conditions[condition]

    assert finding.code == "EARLY_NOT_POSSIBLE"
    assert asked(condition, sql=RECORDS.replace("fare", "fare AS mean, 1 AS n"), early=True).conditions == {}
