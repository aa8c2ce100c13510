"""Every suggestion that is an edit, made: its finding is gone, and no error has come."""

from collections import Counter

import pytest
from tests.conformance.corpus import cases, tables

from daggersql import CheckResult, Finding, Severity, check

WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
MINUTES = "TABLE(TUMBLE(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))"
END = "TUMBLE_END(rowtime, INTERVAL '1' MINUTE)"
JOINED = (
    "bookings b JOIN payments p ON b.order_number = p.order_id"
    " AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE"
)
COUNTED = f"SELECT status, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}, status"
CORPUS = {case["id"]: case["sql"] for case in cases("sql_reject")}
FURTHER = {
    "time of a windowed sub-query": f"SELECT MAX(n) AS m FROM ({COUNTED}) t GROUP BY {WINDOW}",
    "time of a windowed CTE": f"WITH t AS ({COUNTED}) SELECT MAX(n) AS m FROM t GROUP BY {WINDOW}",
    "window of a windowed CTE": f"WITH t AS ({COUNTED}) SELECT status, MAX(n) AS m FROM t",
    "keys over a windowed CTE": f"WITH t AS ({COUNTED}) SELECT status, MAX(n) AS m FROM t GROUP BY status",
    "end of a window as event time": (
        "SELECT MAX(n) AS m, TUMBLE_END(w, INTERVAL '5' MINUTE) AS window_timestamp"
        f" FROM (SELECT {END} AS w, COUNT(*) AS n FROM bookings GROUP BY {WINDOW})"
        " GROUP BY TUMBLE(w, INTERVAL '5' MINUTE)"
    ),
    "end of a window called rowtime": (
        f"SELECT MAX(n) AS m FROM (SELECT {END} AS rowtime, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}) t"
        f" GROUP BY {WINDOW}"
    ),
    "time of a sub-query": f"SELECT MAX(f) AS m FROM (SELECT fare AS f FROM bookings) t GROUP BY {WINDOW}",
    "time of the table-valued form": (
        "SELECT MAX(n) AS m FROM (SELECT window_start, COUNT(*) AS n FROM"
        f" {MINUTES} GROUP BY window_start, window_end) GROUP BY {WINDOW}"
    ),
    "aggregates without a window": (
        "SELECT SUM(fare) + tip AS n, UPPER(driver_id) AS u FROM bookings WHERE fare > 1 HAVING COUNT(*) > 1"
    ),
    "table-valued window without GROUP BY": f"SELECT status, COUNT(*) AS n FROM {MINUTES}",
    "join without a window": f"SELECT COUNT(*) AS n FROM {JOINED}",
    "keys, and a bound": (
        "SELECT status, TUMBLE_END(rowtime, INTERVAL '5' MINUTE) AS window_timestamp, COUNT(*) AS n"
        " FROM bookings GROUP BY status"
    ),
    "DISTINCT": "SELECT DISTINCT status, fare AS x FROM bookings WHERE fare > 1",
    "DISTINCT of groups": f"SELECT DISTINCT status, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}, status",
    "UNION DISTINCT": "SELECT fare FROM bookings UNION DISTINCT SELECT fee FROM payments",
    "bound in GROUP BY": f"SELECT COUNT(*) AS n FROM bookings GROUP BY {END}",
    "alias of a bound in GROUP BY": (
        f"SELECT {END} AS window_timestamp, COUNT(*) AS n FROM bookings GROUP BY window_timestamp"
    ),
    "alias of a bound beside the window": (
        f"SELECT {END} AS window_timestamp, COUNT(*) AS n FROM bookings GROUP BY window_timestamp, {WINDOW}"
    ),
    "double quotes": (
        'SELECT "fare" AS "f" FROM "bookings" WHERE status = "CREATED" AND "driver_id" <> "status"'
    ),
    "values of an enum without quotes": (
        "SELECT CASE status WHEN created THEN 1 WHEN CANCELED THEN 2 END AS n FROM bookings"
        " WHERE status = completed OR complete <> status OR status IN (`created`, 'CANCELLED')"
    ),
    "ORDER BY": "SELECT fare AS f FROM bookings ORDER BY f DESC LIMIT 10",
    "ORDER BY inside": "SELECT f FROM (SELECT fare AS f FROM bookings ORDER BY f) t",
    "FORM": "SELECT fare FORM bookings",
    "FORM behind an alias": "SELECT fare AS f FORM bookings",
    "WEHRE": "SELECT fare FROM bookings WEHRE fare > 1",
    "GRUOP": f"SELECT COUNT(*) AS n FROM bookings GRUOP BY {WINDOW}",
    "HAVNG": f"SELECT COUNT(*) AS n FROM bookings GROUP BY {WINDOW} HAVNG COUNT(*) > 1",
    "BEWTEEN": "SELECT fare FROM bookings WHERE fare BEWTEEN 1 AND 2",
    "ADN": "SELECT fare FROM bookings WHERE fare > 1 ADN tip > 1",
    "a bracket": "SELECT UPPER(driver_id AS d FROM bookings",
    "a digit": "SELECT fare AS 1st FROM bookings",
    "a text that is not closed": "SELECT fare FROM bookings WHERE status = 'CREATED",
    "an unnamed digit": "SELECT 2 * fare, 2 * fare FROM bookings",
    "an unnamed column of a sub-query": "SELECT fare FROM (SELECT fare, tip + 1 FROM bookings) t",
    "two columns of a name": "SELECT fare AS n, tip AS N FROM bookings",
    "two columns of a name in a sub-query": "SELECT a FROM (SELECT fare AS a, tip AS a FROM bookings) t",
    "too few names": "SELECT a FROM (SELECT fare, tip FROM bookings) t (a)",
    "text of a number": "SELECT driver_id || fare AS x FROM bookings",
    "an average by hand": f"SELECT SUM(discount) / COUNT(*) AS mean FROM bookings GROUP BY {WINDOW}",
    "keys that are no tags": (
        f"SELECT status, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}, status, UPPER(driver_id)"
    ),
    "a key by its name": (f"SELECT UPPER(driver_id) AS k, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}, k"),
    "the name of an aggregate in HAVING": (
        f"SELECT status, COUNT(*) AS n FROM bookings GROUP BY {WINDOW}, status HAVING n > 1 AND n < 9"
    ),
    "the name of a column in WHERE": "SELECT fare + tip AS paid FROM bookings WHERE paid * 2 > 1",
    "the name of a column in SELECT": "SELECT fare + tip AS paid, paid * 2 AS y, y + 1 AS z FROM bookings",
    "types of PostgreSQL": (
        "SELECT fare::text AS a, cancel_reason_id::int8 AS b, tip::float8 AS c,"
        " event_timestamp::timestamptz AS d FROM bookings"
    ),
    "a misspelt type": "SELECT CAST(fare AS STRNG) AS f FROM bookings",
    "a shared time": (
        f"SELECT COUNT(*) AS n, FLOOR({END} TO DAY) AS window_timestamp FROM bookings GROUP BY {WINDOW}"
    ),
    "a tag of a record": "SELECT order_number AS tag_order, event_timestamp AS tag_time, fare FROM bookings",
    "nothing but tags": f"SELECT status AS tag_status FROM bookings GROUP BY {WINDOW}, status",
    "nothing but tags of records": "SELECT status AS tag_status, rowtime AS window_timestamp FROM bookings",
    "DATE_TRUNC": "SELECT DATE_TRUNC('HUOR', rowtime) AS h FROM bookings",
    "DATE_TRUNC by weeks": "SELECT DATE_TRUNC('week', rowtime) AS h FROM bookings",
    "a semicolon": "SELECT fare FROM bookings; -- no more",
    "PROCTIME in a join": (
        f"SELECT COUNT(*) AS n FROM {JOINED} GROUP BY TUMBLE(PROCTIME(), INTERVAL '1' MINUTE)"
    ),
    "an element's path": "SELECT ElementAt(items, 'items', 0, 'nme') AS x FROM bookings",
    "rows of records": "SELECT fare FROM bookings, UNNEST(items) AS i (a)",
}
TEXTS = {**CORPUS, **FURTHER}


def errors(checked: CheckResult) -> Counter[str]:
    return Counter(found.code for found in checked.findings if found.severity is Severity.ERROR)


def of_kind(checked: CheckResult, finding: Finding) -> int:
    return sum((found.code, found.message) == (finding.code, finding.message) for found in checked.findings)


@pytest.mark.parametrize("name", TEXTS)
def test_a_suggestion_applied_removes_its_finding_and_adds_no_error(name: str) -> None:
    sql = TEXTS[name]
    before = check(sql, tables())
    for finding in before.findings:
        if finding.edit is None:
            continue
        after = check(finding.edit.apply(sql), tables())

        assert of_kind(after, finding) < of_kind(before, finding), finding
        assert errors(after) <= errors(before) - Counter(
            {finding.code: finding.severity is Severity.ERROR}
        ), finding


# Of these a person has to decide something, or to move a part of the text; all others are edits.
IN_WORDS = {
    "REJ-122": "JOIN … ON … AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE",
    "REJ-151": "FROM",
    "REJ-158": ")",
    "REJ-167": "SELECT",
    "REJ-168": "SELECT",
    "REJ-169": "SELECT",
    "REJ-229": "use WHERE",
    "REJ-241": "b.status, p.status",
    "REJ-299": "SELECT",
}


def test_what_is_suggested_can_be_applied_but_for_a_few_in_words() -> None:
    found = {
        name: finding.suggestion
        for name, sql in TEXTS.items()
        for finding in check(sql, tables()).findings
        if finding.suggestion is not None and finding.edit is None
    }

    assert found == IN_WORDS


@pytest.mark.parametrize("name", FURTHER)
def test_what_was_written_by_habit_is_a_query_once_its_suggestions_are_applied(name: str) -> None:
    sql = FURTHER[name]
    for _ in range(8):
        edit = next((finding.edit for finding in check(sql, tables()).findings if finding.edit), None)
        sql = edit.apply(sql) if edit else sql

    assert check(sql, tables()).plan is not None, sql
