"""Queries over tables of which nothing is known: what is wrong all the same is said, and no more."""

from collections.abc import Sequence

import pytest
from tests.conformance.corpus import cases, tables

from daggersql import CheckResult, Severity, check

NAMES = [table.name for table in tables()]
WINDOW = "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"


def errors(checked: CheckResult) -> set[tuple[str, int, int]]:
    return {(f.code, f.line, f.column) for f in checked.findings if f.severity is Severity.ERROR}


def without(sql: str, unknown: Sequence[str]) -> CheckResult:
    return check(sql, [table for table in tables() if table.name not in unknown], unknown=unknown)


@pytest.mark.parametrize("unknown", [NAMES, *([name] for name in NAMES)], ids=" ".join)
def test_nothing_is_said_against_a_query_that_is_right(unknown: list[str]) -> None:
    judged = {case["id"]: without(case["sql"], unknown) for case in cases("sql_accept")}

    assert {name: errors(each) for name, each in judged.items() if errors(each) or each.plan} == {}


def test_what_is_said_against_others_is_said_as_well_when_their_tables_are_known() -> None:
    judged = {
        case["id"]: errors(without(case["sql"], NAMES)) - errors(check(case["sql"], tables()))
        for case in cases("sql_reject")
    }

    assert {name: more for name, more in judged.items() if more} == {}


@pytest.mark.parametrize(
    ("sql", "codes"),
    [
        (f"SELECT status, UPER(a.b) AS c, COUNT(*) AS n FROM later {WINDOW}, status", ["UNKNOWN_FUNCTION"]),
        ("SELECT COUNT(*) AS n FROM later", ["UNBOUNDED_STATE"]),
        ("SELECT a FORM later", ["SYNTAX_ERROR"]),
        ("SELECT l.a, fair FROM later l CROSS JOIN bookings b", ["UNSUPPORTED_JOIN"]),
        ("SELECT a FROM latre", ["UNKNOWN_TABLE"]),
        ("SELECT a FROM (SELECT * FROM later) t WHERE b = 1", []),
        ("SELECT * FROM later UNION ALL SELECT fare, tip FROM bookings", []),
        ("SELECT http_status FROM later", []),
        ("SELECT FeaturesWithType('c', 'acme.v1.Later', a) AS f FROM later", []),
    ],
)
def test_what_does_not_depend_on_the_columns_is_found(sql: str, codes: list[str]) -> None:
    checked = check(sql, tables(), unknown=["later"])

    assert [found.code for found in checked.findings] == codes
    assert checked.plan is None
