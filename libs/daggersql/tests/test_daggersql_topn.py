"""Top-N: which numberings run, what their state is, and what is said of all others."""

from datetime import timedelta

import pytest
from tests.conformance.corpus import tables

from daggersql import CheckResult, check

MINUTES = "TABLE(TUMBLE(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))"
COUNTED = (
    f"SELECT status, COUNT(*) AS n, window_start, window_end FROM {MINUTES}"
    " GROUP BY window_start, window_end, status"
)
BY = "PARTITION BY window_start, window_end ORDER BY n DESC"


def top(over: str = BY, where: str = "place <= 3", below: str = f"({COUNTED})") -> str:
    """A Top-N, changed in one place."""
    numbered = f"SELECT *, ROW_NUMBER() OVER ({over}) AS place FROM {below}"
    return f"SELECT status, place, window_end AS window_timestamp FROM ({numbered}) t WHERE {where}"


def checked(sql: str) -> CheckResult:
    return check(sql, tables("bookings", "payments"))


def said(sql: str) -> list[tuple[str, str]]:
    """Codes and the texts they stand at."""
    return [
        (finding.code, finding.message)
        for finding in checked(sql).findings
        if finding.severity.value == "error"
    ]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("place <= 3", 3),
        ("place < 3", 2),
        ("place = 3", 3),
        ("3 >= place", 3),
        ("3 > place", 2),
        ("t.place BETWEEN 2 AND 5", 5),
        ("place <= 7 AND status <> 'CREATED' AND place <= 4", 4),
    ],
)
def test_as_many_rows_are_kept_as_the_condition_lets_through(where: str, kept: int) -> None:
    plan = checked(top(where=where)).plan

    assert plan is not None
    assert f"max_by(`r`.`x0`, `r`.`x1`, {kept}) AS `a0`" in plan.spark_sql


def test_rows_of_a_window_need_no_records_before_it() -> None:
    """The window that is numbered is the window that was counted: nothing is partial in it but that."""
    plan = checked(top()).plan

    assert plan is not None
    assert plan.lookback == timedelta(minutes=1)  # before its end
    assert "`g`.`w`.`start` AS `__since`, `g`.`w`.`start` AS `__start`" in plan.spark_sql


def test_windows_that_overlap_need_what_lies_before_the_end_of_each() -> None:
    window = "rowtime, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE"
    below = (
        f"(SELECT status, COUNT(*) AS n, HOP_END({window}) AS window_end FROM bookings"
        f" GROUP BY HOP({window}), status)"
    )

    plan = checked(top("PARTITION BY window_end ORDER BY n DESC", below=below)).plan

    assert plan is not None
    assert plan.lookback == timedelta(minutes=5)  # before its end
    assert "(`g`.`w`.`start` - INTERVAL '240.000000' SECOND) AS `__since`" in plan.spark_sql


def test_what_is_alike_in_the_order_is_told_apart_by_all_other_columns() -> None:
    plan = checked(top()).plan

    assert plan is not None
    assert "named_struct('o0', `q0`.`n`, 'o1', `q0`.`status`, 'o2', `q0`.`window_start`," in plan.spark_sql


def test_rows_of_a_window_without_a_tag_of_their_own_are_warned_of() -> None:
    plain, tagged = (
        checked(top()),
        checked(top().replace("SELECT status,", "SELECT status AS tag_status,", 1)),
    )

    assert [finding.code for finding in plain.findings] == ["TWO_ROWS_PER_KEY"]
    assert plain.findings[0].suggestion == "tag_place"
    assert tagged.findings == ()


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (top(where="status = 'CREATED'"), "UNSUPPORTED_OVER", "WHERE n <= 3"),
        (top(where="place <= 3 OR n > 1"), "UNSUPPORTED_OVER", "WHERE n <= 3"),
        (top(where="place <= 1001"), "UNSUPPORTED_OVER", "1 to 1,000 rows"),
        (top(where="place < 1"), "UNSUPPORTED_OVER", "1 to 1,000 rows"),
        (top("PARTITION BY status ORDER BY n DESC"), "UNSUPPORTED_OVER", "window by window"),
        (top("ORDER BY n DESC"), "UNSUPPORTED_OVER", "window by window"),
        (top(f"{BY}, status"), "UNSUPPORTED_OVER", "all DESC or all ASC"),
        (top(f"{BY} NULLS FIRST"), "UNSUPPORTED_CLAUSE", "LAST"),
        (top("PARTITION BY window_end ORDER BY metadata", below=MINUTES), "TYPE_MISMATCH", "Maps"),
        (top("PARTITION BY window_end, metadata ORDER BY fare", below=MINUTES), "TYPE_MISMATCH", "map"),
        (top("PARTITION BY status ORDER BY fare", below="bookings"), "UNSUPPORTED_OVER", "TUMBLE or HOP"),
        (
            f"SELECT status, ROW_NUMBER() OVER ({BY}) AS place, COUNT(*) AS n FROM {MINUTES}"
            " GROUP BY window_start, window_end, status",
            "UNSUPPORTED_OVER",
            "sub-query of its own",
        ),
        ("SELECT ROW_NUMBER() OVER (ORDER BY fare) + 1 AS n FROM bookings", "UNSUPPORTED_OVER", "Top-N"),
        ("SELECT RANK() OVER (ORDER BY fare) AS n FROM bookings", "UNSUPPORTED_OVER", "ROW_NUMBER"),
        (
            top(
                "PARTITION BY e ORDER BY n",
                below="(SELECT status, COUNT(*) AS n, SESSION_END(rowtime, INTERVAL '1' MINUTE) AS e,"
                " SESSION_END(rowtime, INTERVAL '1' MINUTE) AS window_end FROM bookings"
                " GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE), status)",
            ),
            "UNSUPPORTED_OVER",
            "TUMBLE or HOP",
        ),
    ],
)
def test_a_numbering_that_has_no_end_or_no_window_is_refused_with_its_reason(
    sql: str, code: str, words: str
) -> None:
    found = said(sql)

    assert [each for each, _ in found] == [code], found
    assert words in found[0][1]


def test_a_numbering_under_with_may_be_read_twice_and_once_by_each_bound() -> None:
    numbered = f"SELECT *, ROW_NUMBER() OVER ({BY}) AS place FROM ({COUNTED})"
    sql = (
        f"WITH t AS ({numbered}) SELECT status, place FROM t WHERE place = 1"
        " UNION ALL SELECT status, place FROM t WHERE place <= 9 AND place > 8"
    )

    plan = checked(sql).plan

    assert plan is not None
    assert "`x1`, 1)" in plan.spark_sql
    assert "`x1`, 9)" in plan.spark_sql


def test_a_numbering_under_with_cannot_read_itself() -> None:
    sql = f"WITH t AS (SELECT *, ROW_NUMBER() OVER ({BY}) AS place FROM t) SELECT * FROM t WHERE place <= 3"

    found = said(sql)

    assert [code for code, _ in found] == ["UNKNOWN_TABLE"], found
