"""Alert rules on the rows of a query: what is compiled, and what is refused at which part and place."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.conformance.corpus import tables

from daggersql import CheckResult, RuleText, check
from daggersql.rules.compiled import LimitComparison, RuleLimits

WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
SQL = (
    "SELECT service_type AS tag_service, COUNT(*) AS n, AVG(fare) AS mean,"
    " TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM bookings"
    f" GROUP BY {WINDOW}, service_type"
)
RECORDS = "SELECT order_number, fare AS mean, 1 AS n, rowtime FROM bookings"


LIMITS = RuleLimits("service_limits", ("tag_service",), ("most", "least"))


def check_rules(*rules: RuleText, sql: str = SQL, early: bool = False) -> CheckResult:
    return check(sql, tables(), ["service_limits", "owners"], early=early, rules=rules)


def test_a_rule_is_compiled_with_its_key_its_columns_and_its_comparison() -> None:
    result = check_rules(
        RuleText("slow", "mean > 0.5 AND n >= 100", summary="{tag_service}: {mean:.1%} of {n}")
    )

    assert result.rules == ()
    assert result.plan is not None
    [rule] = result.plan.rules
    assert "`row`.`n` >= 100" in rule.when
    assert (rule.resolve, rule.key, rule.read) == ("", ("tag_service",), ("mean", "n", "tag_service"))
    assert rule.comparison == LimitComparison("mean", 0.5, above=True)
    assert rule.origins == (("bookings", "fare"), ("bookings", "service_type"))


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("n > 3", LimitComparison("n", 3.0, above=True)),
        ("3 > n", LimitComparison("n", 3.0, above=False)),
        ("mean <= -1.5", LimitComparison("mean", -1.5, above=False)),
        ("n > mean", None),
        ("tag_service = 'RIDE'", None),
        ("n > 3 OR mean > 1", None),
    ],
)
def test_the_comparison_that_decides_is_found(when: str, expected: LimitComparison | None) -> None:
    plan = check_rules(RuleText("r", when)).plan

    assert plan is not None
    assert plan.rules[0].comparison == expected


@pytest.mark.parametrize(
    ("when", "share", "resolve"),
    [
        ("n > 100", 0.2, "<= 80"),
        ("n < 100", 0.2, ">= 120"),
        ("mean > -10", 0.5, "<= -15"),
    ],
)
def test_clear_is_the_limit_less_a_share_of_it(when: str, share: float, resolve: str) -> None:
    plan = check_rules(RuleText("r", when, clear=share)).plan

    assert plan is not None
    assert resolve.split()[0] in plan.rules[0].resolve
    assert resolve.split()[1] in plan.rules[0].resolve.replace("(-15", "-15")


@pytest.mark.parametrize(
    ("rule", "part", "code", "column"),
    [
        (RuleText("r", "nn > 3"), "when", "UNKNOWN_COLUMN", 1),
        (RuleText("r", "n > 3 AND"), "when", "SYNTAX_ERROR", 10),
        (RuleText("r", "n + 1"), "when", "TYPE_MISMATCH", 1),
        (RuleText("r", "SUM(n) > 3"), "when", "AGGREGATE_NOT_ALLOWED", 1),
        (RuleText("r", "GeoHash(mean, mean, 5) = 'u'"), "when", "UNSUPPORTED_FUNCTION", 1),
        (RuleText("r", "n > before(n)"), "when", "WRONG_ARGUMENT_COUNT", 5),
        (RuleText("r", "n > before('soon', n)"), "when", "INVALID_ARGUMENT", 12),
        (RuleText("r", "n > before('90s', n)"), "when", "INVALID_ARGUMENT", 12),
        (RuleText("r", "n > before('32d', n)"), "when", "INVALID_ARGUMENT", 12),
        (RuleText("r", "n > before('7d', tag_service)"), "when", "TYPE_MISMATCH", 18),
        (RuleText("r", "n > before('7d', m)"), "when", "UNKNOWN_COLUMN", 18),
        (RuleText("r", "n > before('7d', SUM(n))"), "when", "AGGREGATE_NOT_ALLOWED", 18),
        (RuleText("r", "n > 2 * before('7d', n)", clear=0.2), "clear", "CLEAR_NOT_POSSIBLE", 1),
        (RuleText("r", "outside(n, 4)"), "when", "WRONG_ARGUMENT_COUNT", 1),
        (RuleText("r", "outside(band => 4)"), "when", "WRONG_ARGUMENT_COUNT", 1),
        (RuleText("r", "outside(n, band => 4, band => 5)"), "when", "WRONG_ARGUMENT_COUNT", 1),
        (RuleText("r", "outside(n, bend => 4)"), "when", "INVALID_ARGUMENT", 12),
        (RuleText("r", "outside(n, band => 0)"), "when", "INVALID_ARGUMENT", 20),
        (RuleText("r", "outside(n, band => n)"), "when", "INVALID_ARGUMENT", 20),
        (RuleText("r", "outside(n, season => 'hour of wek')"), "when", "INVALID_ARGUMENT", 22),
        (RuleText("r", "outside(m)"), "when", "UNKNOWN_COLUMN", 9),
        (RuleText("r", "outside(SUM(n))"), "when", "AGGREGATE_NOT_ALLOWED", 9),
        (RuleText("r", "outside(tag_service)"), "when", "TYPE_MISMATCH", 9),
        (RuleText("r", "outside(n) OR outside(mean)"), "when", "UNSUPPORTED_OPERATION", 15),
        (
            RuleText("r", "outside(n)", resolve_when="outside(mean)"),
            "resolve_when",
            "UNSUPPORTED_OPERATION",
            1,
        ),
        (RuleText("r", "outside(n) > 3"), "when", "TYPE_MISMATCH", 1),
        (RuleText("r", "outside(n)", clear=0.2), "clear", "CLEAR_NOT_POSSIBLE", 1),
        (RuleText("r", "ABS(x => n) > 3"), "when", "UNSUPPORTED_OPERATION", 5),
        (RuleText("r", "n > 3", resolve_when="m < 2"), "resolve_when", "UNKNOWN_COLUMN", 1),
        (RuleText("r", "n > mean", clear=0.2), "clear", "CLEAR_NOT_POSSIBLE", 1),
        (RuleText("r", "n > 3 AND n < 9", clear=0.2), "clear", "CLEAR_NOT_POSSIBLE", 1),
        (RuleText("r", "n > 3", key=("n", "tag_servise")), "key[1]", "UNKNOWN_COLUMN", 1),
        (RuleText("r", "n > 3", summary="{tag_service} {count}"), "summary", "UNKNOWN_COLUMN", 16),
        (RuleText("r", "n > 3", summary="{n:x}"), "summary", "INVALID_SUMMARY", 4),
        (RuleText("r", "n > 3", summary="a } b"), "summary", "INVALID_SUMMARY", 3),
        (RuleText("r", "n > 3", summary="a {n"), "summary", "INVALID_SUMMARY", 3),
        (RuleText("r", "n > mist", limits=LIMITS), "when", "UNKNOWN_COLUMN", 5),
        (RuleText("r", "n > most OR most", limits=LIMITS), "when", "TYPE_MISMATCH", 13),
        (RuleText("r", "n > most", summary="{mist}", limits=LIMITS), "summary", "UNKNOWN_COLUMN", 2),
    ],
)
def test_what_is_wrong_with_a_rule_has_its_part_and_place(
    rule: RuleText, part: str, code: str, column: int
) -> None:
    result = check_rules(RuleText("fine", "n > 1"), rule)
    [violation] = result.wrong_rules("spec.alerts")

    assert result.plan is not None  # the query is well
    assert (violation.field, violation.reason) == (f"spec.alerts[1].{part}", code)
    assert (violation.line, violation.column) == (1, column)
    assert [one.text.name for one in result.plan.rules] == ["fine"]


def test_a_number_of_an_earlier_window_is_read_as_a_column() -> None:
    text = "mean > 1.5 * before('7d', mean + n) AND n > 3"
    plan = check_rules(RuleText("more", text, resolve_when="n < before('7d', mean + n)")).plan

    assert plan is not None
    [rule] = plan.rules
    [value] = rule.past
    assert (value.text, value.lag, value.key) == (
        "before('7d', mean + n)",
        timedelta(days=7),
        ("tag_service",),
    )
    assert value.columns == ("mean", "n")
    assert f"`row`.`{value.column}`" in rule.when
    assert f"`row`.`{value.column}`" in rule.resolve
    assert rule.read == ("mean", value.column, "n")
    assert rule.origins == (("bookings", "fare"), ("bookings", "service_type"))


def test_the_same_number_of_several_times_is_one_series() -> None:
    plan = check_rules(
        RuleText("r", "n > before('1d', n) AND n > before('7d', n)"), RuleText("s", "n > 1")
    ).plan

    assert plan is not None
    first, second = plan.rules[0].past
    assert first.series == second.series
    assert first.column != second.column
    assert plan.rules[1].past == ()


def test_rows_of_the_past_are_found_by_texts_and_whole_numbers_alone() -> None:
    sql = SQL.replace("service_type", "fare")
    [violation] = check_rules(RuleText("r", "n > before('7d', n)"), sql=sql).wrong_rules("alerts")

    assert (violation.field, violation.reason) == ("alerts[0].when", "TYPE_MISMATCH")
    assert "tag_service" in violation.message


def test_a_band_is_compiled_for_each_answer_of_the_driver() -> None:
    text = "outside(n + 1, band => 2.5, season => 'hour of week') AND mean > 3"
    plan = check_rules(
        RuleText("odd", text, resolve_when="NOT outside(n + 1, season => 'Hour of Week', band => 2.5)")
    ).plan

    assert plan is not None
    [rule] = plan.rules
    band = rule.band
    assert band is not None
    assert (band.text, band.number_text) == (text.removesuffix(" AND mean > 3"), "n + 1")
    assert (band.band, band.season, band.key, band.columns) == (2.5, "hour of week", ("tag_service",), ("n",))
    assert rule.read == ("n", "mean")
    assert rule.origins == (("bookings", "fare"), ("bookings", "service_type"))
    assert "__band_" not in str(rule.answers)
    outside, inside, unknown = (answer.when for answer in rule.answers)
    assert outside == inside.replace("FALSE", "TRUE").replace("false", "true")
    assert len({outside, inside, unknown}) == 3


def test_a_band_is_four_and_without_a_season_where_nothing_else_is_said() -> None:
    plan = check_rules(RuleText("odd", "outside(n)"), RuleText("far", "outside(n, band => 8)")).plan

    assert plan is not None
    odd, far = (rule.band for rule in plan.rules)
    assert odd is not None
    assert far is not None
    assert (odd.band, odd.season, far.band) == (4.0, "", 8.0)
    assert odd.series == far.series


@pytest.mark.parametrize(
    ("changed", "part", "code"),
    [
        ({"reference": "service_limit"}, "reference", "REFERENCE_NOT_FOUND"),
        ({"key": ("tag_service", "tag_servise")}, "key[1]", "UNKNOWN_COLUMN"),
        ({"key": ("mean",)}, "key[0]", "TYPE_MISMATCH"),
        ({"columns": ("most", "mean")}, "columns[1]", "AMBIGUOUS_COLUMN"),
    ],
)
def test_what_is_wrong_with_limits_has_its_part(changed: dict[str, Any], part: str, code: str) -> None:
    [violation] = check_rules(RuleText("r", "n > most", limits=replace(LIMITS, **changed))).wrong_rules("a")

    assert (violation.field, violation.reason) == (f"a[0].limits.{part}", code)


def test_limits_of_a_table_are_columns_of_the_rows_by_their_key() -> None:
    text = RuleText(
        "many", "n > most AND mean < 3", summary="{n} of {most}", resolve_when="n < least", limits=LIMITS
    )
    plan = check_rules(text).plan

    assert plan is not None
    [rule] = plan.rules
    most, least, present = LIMITS.column("most"), LIMITS.column("least"), LIMITS.present
    assert rule.when.startswith(f"`row`.`{present}` AND (")
    assert f"`row`.`{most}`" in rule.when
    assert rule.resolve.startswith(f"NOT `row`.`{present}` OR (")
    assert rule.read == ("n", most, "mean", least)
    assert rule.comparison == LimitComparison("n", None, above=True, limit_column=most)
    assert rule.origins == (("bookings", "fare"), ("bookings", "service_type"))


@pytest.mark.parametrize(("when", "above"), [("n >= most", True), ("most >= n", False), ("n < least", False)])
def test_the_limit_of_a_row_decides_as_a_number_does(when: str, above: bool) -> None:
    plan = check_rules(RuleText("r", when, clear=0.2, limits=LIMITS)).plan

    assert plan is not None
    [rule] = plan.rules
    compared = rule.comparison
    assert compared is not None
    assert (compared.column, compared.limit, compared.above) == ("n", None, above)
    assert compared.find_limit({compared.limit_column: 5.0}) == 5.0
    assert ("<=" if above else ">=") in rule.resolve
    assert f"abs(`row`.`{compared.limit_column}`)" in rule.resolve.lower()


MINUTES = timedelta(minutes=10)


def test_a_rule_on_absent_rows_reads_its_key_alone() -> None:
    plan = check_rules(RuleText("silent", "", summary="{tag_service} is silent", absent=MINUTES)).plan

    assert plan is not None
    [rule] = plan.rules
    assert (rule.when, rule.key, rule.read, rule.comparison) == ("TRUE", ("tag_service",), (), None)
    assert rule.origins == (("bookings", "service_type"),)


@pytest.mark.parametrize(
    ("rule", "part", "code"),
    [
        (RuleText("r", "", absent=timedelta(seconds=59)), "absent", "OUT_OF_RANGE"),
        (RuleText("r", "", absent=MINUTES, key=("tag_servise",)), "key[0]", "UNKNOWN_COLUMN"),
        (RuleText("r", "", absent=MINUTES, summary="{n}"), "summary", "COLUMN_NOT_IN_KEY"),
        (RuleText("r", "", absent=MINUTES, summary="{m}"), "summary", "UNKNOWN_COLUMN"),
    ],
)
def test_what_is_wrong_with_a_rule_on_absent_rows_has_its_part(rule: RuleText, part: str, code: str) -> None:
    [violation] = check_rules(rule).wrong_rules("alerts")

    assert (violation.field, violation.reason) == (f"alerts[0].{part}", code)


def test_a_rule_on_absent_rows_needs_windows_too() -> None:
    [violation] = check_rules(RuleText("r", "", absent=MINUTES), sql=RECORDS).wrong_rules("alerts")

    assert (violation.field, violation.reason) == ("alerts[0].absent", "RULE_NEEDS_WINDOW")


@pytest.mark.parametrize(("sql", "early"), [(RECORDS, False), (SQL, True)])
def test_a_rule_needs_windows_whose_rows_are_written_once(sql: str, early: bool) -> None:
    [violation] = check_rules(RuleText("r", "n > 3"), sql=sql, early=early).wrong_rules("alerts")

    assert (violation.field, violation.reason) == ("alerts[0].when", "RULE_NEEDS_WINDOW")


def test_rules_are_no_part_of_the_query_and_of_its_state() -> None:
    plain, ruled = check_rules().plan, check_rules(RuleText("r", "n > 3")).plan

    assert plain is not None
    assert ruled is not None
    assert (plain.fingerprint, plain.spark_sql) == (ruled.fingerprint, ruled.spark_sql)
