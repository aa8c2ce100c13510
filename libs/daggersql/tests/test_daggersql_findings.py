"""What the check says: all of it at once, at its place, with what to write instead."""

import pytest
from tests.conformance.corpus import tables

from daggersql import Finding, Severity, check

WINDOW = "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"


def say(sql: str) -> list[Finding]:
    return list(check(sql, tables()).findings)


def brief(sql: str) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in say(sql)]


def test_all_errors_are_said_at_once_in_the_order_of_the_text() -> None:
    sql = """SELECT fair, S2Idd(1, 2, 13) AS a,
       UPPER(fare) AS b, customer.nam AS c, S2Id(fare, tip, 31) AS d
FROM bookings
WHERE order_number + 1 > 2 AND nothing = 1
LIMIT 3"""

    assert brief(sql) == [
        ("UNKNOWN_COLUMN", 1, 8),
        ("UNKNOWN_FUNCTION", 1, 14),
        ("TYPE_MISMATCH", 2, 14),
        ("UNKNOWN_FIELD", 2, 35),
        ("INVALID_ARGUMENT", 2, 61),
        ("TYPE_MISMATCH", 4, 7),
        ("UNKNOWN_COLUMN", 4, 32),
        ("UNSUPPORTED_CLAUSE", 5, 1),
    ]


def test_the_name_of_an_aggregate_in_where_leads_to_having() -> None:
    finding = say(f"SELECT status, COUNT(*) AS n FROM bookings WHERE n > 1 {WINDOW}, status")[0]

    assert (finding.code, finding.suggestion) == ("UNKNOWN_COLUMN", None)
    assert finding.message.endswith("an aggregate is asked for in HAVING.")


def test_a_name_that_stands_for_itself_or_in_a_circle_has_no_suggestion() -> None:
    circles = ("SELECT q AS q FROM bookings", "SELECT b_ + 1 AS a_, a_ + 1 AS b_ FROM bookings")

    assert [(each.message, each.suggestion) for sql in circles for each in say(sql)] == [
        ("There is no column q in bookings.", None),
        ("SELECT gives the name b_, which GROUP BY alone reads.", None),
        ("SELECT gives the name a_, which GROUP BY alone reads.", None),
    ]


def test_a_column_called_as_a_bound_of_a_window_is_a_column() -> None:
    rows = "(SELECT fare AS hop_start, rowtime FROM bookings)"
    grouped = f"SELECT hop_start, COUNT(*) AS n FROM {rows} {WINDOW}, hop_start"
    ungrouped = say(f"SELECT hop_start + 1 AS x, COUNT(*) AS n FROM {rows}")[0]

    assert check(grouped, tables()).plan is not None
    assert (ungrouped.code, ungrouped.suggestion) == ("UNBOUNDED_STATE", WINDOW)


def test_a_finding_covers_the_whole_of_what_is_wrong() -> None:
    finding = say("SELECT UPPER(\n  fare\n  + tip) AS x FROM bookings")[0]

    assert (finding.line, finding.column, finding.end_line, finding.end_column) == (2, 3, 3, 8)


@pytest.mark.parametrize(
    ("sql", "suggestion"),
    [
        ("SELECT latitude FROM bookings", "pickup.latitude"),
        ("SELECT Fare FROM bookings", "fare"),
        ("SELECT customer.teir AS t FROM bookings", "tier"),
        ("SELECT DistintCount(fare) AS t FROM bookings", "DistinctCount"),
        ("SELECT LENGTH(driver_id) AS t FROM bookings", "CHAR_LENGTH"),
        ("SELECT fare FROM booking", "bookings"),
        ("SELECT fare AS `total fare` FROM bookings", "total_fare"),
        ("SELECT fare FORM bookings", "FROM"),
        ("SELCT fare FROM bookings", "SELECT"),
        ("SELECT fare * 2 FROM bookings", "AS fare_2"),
        (f"SELECT fare FROM bookings {WINDOW}", "add fare to GROUP BY"),
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, 60)", "INTERVAL '60' SECOND"),
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '5m')", "INTERVAL '5' MINUTE"),
        (
            "SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '2 hours')",
            "INTERVAL '2' HOUR",
        ),
        (
            "SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '5x')",
            "INTERVAL '60' SECOND",
        ),
        ("SELECT fare FROM bookings WHERE fare == 1", "="),
        ("SELECT fare FROM bookings WHERE fare > 1 && tip > 1", "AND"),
        (
            f"SELECT TUMBLE_END(rowtime, INTERVAL '2' MINUTE) AS w, COUNT(*) AS n FROM bookings {WINDOW}",
            "TUMBLE_END(rowtime, INTERVAL '1' MINUTE)",
        ),
    ],
)
def test_what_was_meant_is_suggested(sql: str, suggestion: str) -> None:
    assert say(sql)[0].suggestion == suggestion


@pytest.mark.parametrize(
    ("rest", "problem", "keyword"),
    [
        ("form WHER order_number = '1'", "'WHER' is not expected here.", "WHERE"),
        ("b WHER order_number = '1'", "'WHER' is not expected here.", "WHERE"),
        ("form GROPU order_number", "'GROPU' is not expected here.", "FROM"),
        ("b x", "'x' is not expected here.", None),
    ],
)
def test_one_keyword_is_meant_the_one_that_makes_a_query_before_a_guess(
    rest: str, problem: str, keyword: str | None
) -> None:
    findings = say(f"SELECT fare FROM bookings {rest}")

    assert [(each.message, each.suggestion) for each in findings] == [(problem, keyword)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT S2Id(fare, tip, 13.5) AS x FROM bookings", "TYPE_MISMATCH"),
        ("SELECT S2Id(fare, tip, cancel_reason_id) AS x FROM bookings", "INVALID_ARGUMENT"),
        ("SELECT S2Id(fare, tip) AS x FROM bookings", "WRONG_ARGUMENT_COUNT"),
        ("SELECT COUNT(*) AS n FROM bookings", "UNBOUNDED_STATE"),
        (f"SELECT COUNT(*) AS n FROM bookings WHERE COUNT(*) > 1 {WINDOW}", "AGGREGATE_NOT_ALLOWED"),
        (f"SELECT COUNT(*) AS n FROM bookings {WINDOW}, 1", "UNSUPPORTED_GROUPING"),
        (f"SELECT COUNT(*) AS n FROM bookings {WINDOW}, metadata", "TYPE_MISMATCH"),
        (f"SELECT SUM(driver_id) AS n FROM bookings {WINDOW}", "TYPE_MISMATCH"),
        (f"SELECT UPPER(driver_id) FILTER (WHERE surge) AS n FROM bookings {WINDOW}", "TYPE_MISMATCH"),
        (f"SELECT MOD(COUNT(1), 2) FILTER (WHERE surge) AS n FROM bookings {WINDOW}", "TYPE_MISMATCH"),
        (f"SELECT IF(COUNT(1) > 1, 1, 2) FILTER (WHERE surge) AS n FROM bookings {WINDOW}", "TYPE_MISMATCH"),
        ("SELECT DATE_TRUNC('HOUR', rowtime) FILTER (WHERE surge) AS n FROM bookings", "TYPE_MISMATCH"),
        (f"SELECT SUM(DISTINCT fare) AS n FROM bookings {WINDOW}", "UNSUPPORTED_FUNCTION"),
        (f"SELECT COLLECT(DISTINCT fare) AS n FROM bookings {WINDOW}", "UNSUPPORTED_FUNCTION"),
        (f"SELECT LISTAGG(DISTINCT fare) AS n FROM bookings {WINDOW}", "TYPE_MISMATCH"),
        ("SELECT fare FROM bookings WHERE driver_id SIMILAR TO '('", "INVALID_REGEX"),
        ("SELECT fare FROM bookings WHERE driver_id SIMILAR TO driver_id", "INVALID_REGEX"),
        ("SELECT fare FROM bookings WHERE driver_id SIMILAR TO '(a+)+'", "REGEX_TOO_COSTLY"),
        ("SELECT fare FROM bookings WHERE driver_id SIMILAR TO '!x' ESCAPE '!'", "INVALID_REGEX"),
        ("SELECT fare FROM bookings WHERE driver_id SIMILAR TO 'x' ESCAPE '!!'", "INVALID_ARGUMENT"),
        ("SELECT fare FROM bookings WHERE fare SIMILAR TO 'x'", "TYPE_MISMATCH"),
        ("SELECT i.x FROM bookings, UNNEST(items) AS i (x, x, y, z)", "DUPLICATE_COLUMN"),
        ("WITH `` AS (SELECT fare FROM bookings) SELECT fare FROM ``", "SYNTAX_ERROR"),
        ("SELECT RAND() AS n FROM bookings", "UNSUPPORTED_FUNCTION"),
        ("SELECT current_user AS n FROM bookings", "FORBIDDEN_FUNCTION"),
        ("SELECT fare AS __key_0 FROM bookings", "RESERVED_COLUMN"),
        ("SELECT fare AS label_time FROM bookings", "RESERVED_COLUMN"),
        ("SELECT fare AS n, tip AS N FROM bookings", "DUPLICATE_COLUMN"),
        ("SELECT INTERVAL '1' DAY AS n FROM bookings", "UNSUPPORTED_TYPE"),
        ("SELECT rowtime.seconds AS n FROM bookings", "UNKNOWN_FIELD"),
        ("SELECT items.name AS n FROM bookings", "UNKNOWN_FIELD"),
        ("SELECT promo_codes[0] AS n FROM bookings", "INVALID_ARGUMENT"),
        ("SELECT CAST(customer AS STRING) AS n FROM bookings", "TYPE_MISMATCH"),
        ("SELECT CAST(fare AS BLOB) AS n FROM bookings", "UNSUPPORTED_TYPE"),
        ("SELECT DATE '2024-02-30' AS n FROM bookings", "INVALID_ARGUMENT"),
        ("SELECT driver_id LIKE 'a!b' ESCAPE '!' AS n FROM bookings", "INVALID_ARGUMENT"),
        ("SELECT REGEXP(driver_id, '(') AS n FROM bookings", "INVALID_REGEX"),
        ("SELECT REGEXP(driver_id, '(a|aa)+b') AS n FROM bookings", "REGEX_TOO_COSTLY"),
        ("SELECT 1e999 AS n FROM bookings", "INVALID_ARGUMENT"),
        ("SELECT (1, 2) AS n FROM bookings", "UNSUPPORTED_OPERATION"),
        ("SELECT fare FROM bookings; DROP TABLE x", "MULTIPLE_STATEMENTS"),
        ("SELECT fare FROM bookings |> WHERE fare > 1", "FORBIDDEN_SYNTAX"),
        ("SELECT fare FROM bookings WHERE fare > :x", "FORBIDDEN_SYNTAX"),
        ("SELECT TRANSFORM(fare) USING 'cat' FROM bookings", "FORBIDDEN_SYNTAX"),
        ("SELECT fare FROM bookings LATERAL VIEW explode(items) t", "FORBIDDEN_SYNTAX"),
        ("SELECT fare FROM bookings TABLESAMPLE (1 PERCENT)", "UNSUPPORTED_CLAUSE"),
        ("SELECT fare FROM (VALUES (1)) AS t", "UNSUPPORTED_SUBQUERY"),
        (f"SELECT m FROM (SELECT COUNT(*) AS n FROM bookings {WINDOW}) t", "UNKNOWN_COLUMN"),
        ("SELECT tip FROM (SELECT fare FROM bookings) t", "UNKNOWN_COLUMN"),
        ("SELECT a FROM (SELECT fare, tip FROM bookings) t (a)", "COLUMN_COUNT_MISMATCH"),
        ("SELECT a FROM (SELECT fare AS a, tip AS a FROM bookings) t", "DUPLICATE_COLUMN"),
        ("SELECT fare FROM (SELECT fare, tip + 1 FROM bookings) t", "UNNAMED_COLUMN"),
        (
            "WITH a AS (SELECT fare FROM bookings), b AS (SELECT tip FROM bookings) SELECT * FROM a",
            "UNUSED_TABLE",
        ),
        ("SELECT fare FROM bookings WHERE fare IN (SELECT fee FROM payments)", "UNSUPPORTED_SUBQUERY"),
        (f"SELECT COUNT(*) AS n FROM bookings {WINDOW.replace('1', '45000')}", "WINDOW_TOO_LONG"),
        ("SELECT rowtime + INTERVAL '99999999999' DAY AS n FROM bookings", "INTERVAL_TOO_LONG"),
        (f"SELECT COUNT(*) AS n FROM bookings {WINDOW.replace('MINUTE', 'MONTH')}", "BAD_INTERVAL"),
    ],
)
def test_a_mistake_has_its_code(sql: str, code: str) -> None:
    assert [each.code for each in say(sql)] == [code]


@pytest.mark.parametrize(
    ("sql", "column", "unit"),
    [
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUT)", 74, "MINUTE"),
        ("SELECT COUNT(*) AS n FROM bookings GROUP BY SESSION(rowtime, INTERVAL '1' MINUTTES)", 75, "MINUTE"),
        ("SELECT rowtime + INTERVAL '1' HR AS n FROM bookings", 31, "HOUR"),
        ("SELECT rowtime + INTERVAL '1:2' HOUR TO MINUT AS n FROM bookings", 41, "MINUTE"),
        ("SELECT TIMESTAMPADD(HOURR, 1, rowtime) AS n FROM bookings", 21, "HOUR"),
        ("SELECT TIMESTAMPDIFF(SEC, rowtime, rowtime) AS n FROM bookings", 22, "SECOND"),
        ("SELECT EXTRACT(HOURR FROM rowtime) AS n FROM bookings", 16, "HOUR"),
        ("SELECT FLOOR(rowtime TO MONHT) AS n FROM bookings", 25, "MONTH"),
        ("SELECT order_number FROM bookings WHERE rowtime > NOW() - INTERVAL '1' DYA", 72, "DAY"),
        (
            "SELECT b.fare FROM bookings b JOIN payments p ON b.order_number = p.order_id"
            " AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINS",
            139,
            "MINUTE",
        ),
    ],
)
def test_a_misspelt_unit_of_time_is_answered_with_the_one_meant(sql: str, column: int, unit: str) -> None:
    (finding,) = [each for each in say(sql) if each.code != "NO_TIME_COLUMN"]

    assert (finding.code, finding.line, finding.column) == ("BAD_INTERVAL", 1, column)
    assert finding.suggestion == unit


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("TIMESTAMPADD(SQL_TSI_DAY, 1, rowtime)", "TIMESTAMPADD(DAY, 1, rowtime)"),
        ("TIMESTAMPDIFF(sql_tsi_hour, rowtime, rowtime)", "TIMESTAMPDIFF(HOUR, rowtime, rowtime)"),
        ("TIMESTAMPADD('day', 1, rowtime)", "TIMESTAMPADD(DAY, 1, rowtime)"),
        ("EXTRACT(HOURS FROM rowtime)", "EXTRACT(HOUR FROM rowtime)"),
        ("CEIL(rowtime TO days)", "CEIL(rowtime TO DAY)"),
    ],
)
def test_a_unit_of_time_has_one_meaning_however_it_is_written(written: str, plain: str) -> None:
    one, other = (check(f"SELECT {each} AS x FROM bookings", tables()).plan for each in (written, plain))

    assert one is not None
    assert one == other


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("SELECT fare AS `` FROM bookings", 16), ("SELECT fare AS '' FROM bookings", 16),
        ('SELECT fare AS "" FROM bookings', 16), ("SELECT fare `` FROM bookings", 13),
        ("SELECT fare AS ` ` FROM bookings", 16),
        ("SELECT 1 AS n FROM (SELECT fare AS `` FROM bookings) t", 36),
        ("SELECT 1 AS n FROM (SELECT fare FROM bookings) t (``)", 51),
        ("WITH a (``) AS (SELECT fare FROM bookings) SELECT 1 AS n FROM a", 9),
        ("SELECT i.b FROM bookings, UNNEST(items) AS i (``, b, c, d)", 47),
        ("SELECT 1 AS n FROM api_logs, LATERAL TABLE(HistogramBucket(latency_ms, '1')) AS h(``)", 83),
    ],
)  # fmt: skip
def test_an_empty_name_of_a_column_is_said_where_it_stands(sql: str, column: int) -> None:
    errors = [
        (finding.code, finding.line, finding.column)
        for finding in say(sql)
        if finding.severity is Severity.ERROR
    ]

    assert errors == [("INVALID_COLUMN_NAME", 1, column)]


@pytest.mark.parametrize(
    ("sources", "column"),
    [
        ("bookings b JOIN payments b ON b.order_number = b.order_id AND b.rowtime = b.rowtime", 36),
        ("bookings JOIN bookings ON bookings.order_number = bookings.order_number", 34),
        ("bookings a JOIN (SELECT order_id, rowtime FROM payments) a ON a.order_number = a.order_id", 36),
        ("bookings b, UNNEST(b.items) AS b (w, x, y, z)", 32), ("bookings b, payments b", 32),
        ("bookings, UNNEST(promo_codes) AS p (x), UNNEST(promo_codes) AS p (x)", 60),
        ("TABLE(TUMBLE(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' DAY)) JOIN bookings ON TRUE", 94),
    ],
)  # fmt: skip
def test_two_tables_of_one_name_are_said_and_nothing_that_follows_from_it(sources: str, column: int) -> None:
    assert brief(f"SELECT 1 AS n FROM {sources}") == [("DUPLICATE_TABLE", 1, column)]


def test_a_named_query_that_stands_twice_in_from_is_read() -> None:
    sql = "WITH a AS (SELECT fare FROM bookings) SELECT a.fare FROM a JOIN a ON a.fare = a.fare"

    assert [each.code for each in say(sql)] == ["DUPLICATE_TABLE"]


@pytest.mark.parametrize("kind", ["TUMBLE", "SESSION"])
def test_the_processing_time_of_a_window_is_the_time_of_the_batch(kind: str) -> None:
    window = "(rowtime, INTERVAL '1' MINUTE)"
    sql = (
        f"SELECT COUNT(*) AS n, {kind}_END{window} AS window_timestamp, {kind}_PROCTIME{window} AS made"
        f" FROM bookings GROUP BY {kind}{window}, service_type"
    )
    (checked,) = [check(sql, tables())]

    assert checked.plan is not None
    assert "current_timestamp() AS `made`" in checked.plan.spark_sql


def test_a_number_of_findings_has_a_limit() -> None:
    listed = ", ".join(f"nothing{i} AS c{i}" for i in range(900))

    assert len(say(f"SELECT {listed} FROM bookings")) == 100


def test_a_column_of_another_stream_is_pointed_at() -> None:
    assert "driver_pings has it" in say("SELECT speed_kmh FROM bookings")[0].message


def test_what_is_wrong_before_a_semicolon_is_said_as_well_as_what_stands_behind_it() -> None:
    assert [(each.code, each.column) for each in say("DROP TABLE x; SELECT 1")] == [
        ("FORBIDDEN_STATEMENT", 1),
        ("MULTIPLE_STATEMENTS", 13),
    ]


WINDOWS = "TABLE(TUMBLE(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))"
BY_WINDOW = "GROUP BY window_start, window_end"


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        (f"SELECT MAX(window_start) AS x FROM {WINDOWS} {BY_WINDOW}", 12),
        (f"SELECT MAX(TUMBLE_END(rowtime, INTERVAL '1' MINUTE)) AS x FROM bookings {WINDOW}", 12),
        (f"SELECT COUNT(*) FILTER (WHERE window_start > rowtime) AS n FROM {WINDOWS} {BY_WINDOW}", 31),
        (f"SELECT window_start, fare FROM {WINDOWS}", 8),
        (f"SELECT window_end, fare FROM {WINDOWS} UNION ALL SELECT rowtime, fare FROM bookings", 8),
        (f"SELECT fare FROM {WINDOWS} WHERE window_start > TIMESTAMP '2024-01-01 00:00:00'", 96),
    ],
)
def test_a_row_has_no_bounds_of_a_window(sql: str, column: int) -> None:
    assert ("WINDOW_MISMATCH", 1, column) in brief(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT window_start, COUNT(*) AS n FROM (SELECT * FROM {WINDOWS}) {BY_WINDOW}",
        f"SELECT window_end, COUNT(*) AS n FROM {WINDOWS} {BY_WINDOW}"
        " HAVING window_end > TIMESTAMP '2024-01-01 00:00:00'",
        f"SELECT n FROM (SELECT window_end, COUNT(*) AS n FROM {WINDOWS} {BY_WINDOW})"
        " WHERE window_end > TIMESTAMP '2024-01-01 00:00:00'",
    ],
)
def test_groups_have_the_bounds_of_their_window(sql: str) -> None:
    assert check(sql, tables()).plan is not None


def test_a_filter_that_was_ignored_is_a_warning_for_a_query_that_runs() -> None:
    query = f"SELECT MOD(COUNT(1), 2) FILTER (WHERE surge) AS n FROM bookings {WINDOW}"
    checked = check(query, tables(), accepted=True)

    assert checked.plan is not None
    assert ("TYPE_MISMATCH", "FILTER belongs to an aggregate, which MOD is not.") in [
        (warning.code, warning.message) for warning in checked.plan.warnings
    ]
