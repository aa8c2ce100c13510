"""Parts of a text that somebody else wrote: each is one expression, and never more of the query."""

import pytest
from tests.conformance.corpus import tables

from daggersql import check

BEFORE, AFTER = "SELECT\n", "\n  AS `x`\nFROM bookings"


def codes(part: str) -> list[str]:
    sql = f"{BEFORE}{part}{AFTER}"
    found = check(sql, tables(), expressions=[(len(BEFORE), len(BEFORE) + len(part))])
    assert (found.plan is None) == bool(found.findings)
    return [finding.code for finding in found.findings]


@pytest.mark.parametrize(
    "part",
    ["fare", "fare + 1 -- and one", "/* a */ UPPER(order_number)", "(fare)", "CASE WHEN fare > 1 THEN 1 END"],
)
def test_an_expression_is_taken_as_it_stands(part: str) -> None:
    assert codes(part) == []


@pytest.mark.parametrize(
    "part",
    [
        "fare, tip",
        "fare AS y, tip",
        "fare FROM bookings --",
        "fare) , (tip",
        "(fare",
        "fare /*",
        "'fare",
        "fare FROM bookings UNION ALL SELECT tip",
        "fare; SELECT 1",
        "",
        "*",
        "fare tip",
    ],
)
def test_what_is_more_than_an_expression_is_refused_at_its_place(part: str) -> None:
    assert codes(part) in (["SYNTAX_ERROR"], ["MULTIPLE_STATEMENTS"])


def test_the_place_is_one_of_the_whole_text() -> None:
    part = "fare,\ntip"
    sql = f"{BEFORE}{part}{AFTER}"
    [found] = check(sql, tables(), expressions=[(len(BEFORE), len(BEFORE) + len(part))]).findings

    assert (found.line, found.column) == (2, 5)
