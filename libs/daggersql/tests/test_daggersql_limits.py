"""No text makes the check slow, large or wrong: it answers, always."""

import time
import tracemalloc

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import tables

from daggersql import Table, check
from daggersql.limits import MAX_DEPTH, MAX_FIELDS

DEEP = {
    "brackets": "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS x FROM bookings",
    "calls": "SELECT " + "UPPER(" * 5000 + "driver_id" + ")" * 5000 + " AS x FROM bookings",
    "CASE": "SELECT " + "CASE WHEN surge THEN 1 ELSE " * 5000 + "0" + " END" * 5000 + " AS x FROM bookings",
    "NOT": "SELECT order_number FROM bookings WHERE " + "NOT " * 5000 + "surge",
    "minus": "SELECT " + "- " * 5000 + "fare AS x FROM bookings",
    "sums": "SELECT 1" + "+1" * 20_000 + " AS x FROM bookings",
    "sub-queries": "SELECT * FROM " + "(SELECT * FROM " * 2000 + "bookings" + ")" * 2000,
    "elements": "SELECT promo_codes" + "[1]" * 5000 + " AS x FROM bookings",
    "sums in brackets": "SELECT " + "(" * 90 + "1" + ("+1" * 90 + ")") * 90 + " AS x FROM bookings",
}
LARGE = {
    "text": "SELECT '" + "a" * 10_000_000 + "' AS x FROM bookings",
    "list": "SELECT order_number FROM bookings WHERE discount IN (" + ",".join(["1"] * 100_000) + ")",
    "list of texts": "SELECT fare FROM bookings WHERE order_number IN (" + ",".join(["'a'"] * 100_000) + ")",
    "unions": " UNION ALL ".join(["SELECT order_number FROM bookings"] * 3000),
    "words": "a " * 120_000,
    "sub-queries that double": "WITH t0 AS (SELECT driver_id AS x FROM bookings), "
    + ", ".join(f"t{i} AS (SELECT x || x AS x FROM t{i - 1})" for i in range(1, 60))
    + " SELECT x FROM t59",
    "functions that name their argument often": "SELECT "
    + "SUBSTRING(" * 60
    + "driver_id"
    + ", 1, 2)" * 60
    + " AS x FROM bookings",
    "numbers": "SELECT " + "ABS(" * 60 + "discount" + ")" * 60 + " AS x FROM bookings",
    "columns that are long together": "SELECT "
    + ", ".join(f"{'ABS(' * 5}discount{')' * 5} AS x{number}" for number in range(200))
    + " FROM bookings",
    "arguments": "SELECT COALESCE(" + "fare," * 20_000 + "fare) AS x FROM bookings",
}
WORDS = """
    SELECT FROM WHERE GROUP BY HAVING AS AND OR NOT IN IS NULL CASE WHEN THEN ELSE END CAST
    INTERVAL BETWEEN LIKE bookings data_stream rowtime fare status customer pickup latitude TUMBLE
    HOP TUMBLE_END COUNT SUM S2Id DistinctCount EXTRACT FLOOR TRIM SECOND MINUTE UNION ALL JOIN ON
    LEFT DISTINCT FILTER OVER ( ) [ ] , . ; = < > + - * / % || '60' 'x' 1 13 1.5 1e3 ` `fare` -- /*
    */ X'41' ${ {{ : ? # \\ " é
"""
FRAGMENTS = st.sampled_from(WORDS.split())


def _seconds_and_bytes(sql: str) -> tuple[str, float, int]:
    streams = tables()  # compiled once, which is not a part of the check
    tracemalloc.start()
    try:
        code = check(sql, streams).findings[0].code
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Tracing slows everything down: time is taken without it. CPU time: the machine may be busy otherwise.
    started = time.thread_time()
    check(sql, streams)
    return code, time.thread_time() - started, peak


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_query_is_refused_at_once(name: str) -> None:
    code, seconds, peak = _seconds_and_bytes(DEEP[name])

    assert (code, seconds < 5, peak < 50_000_000) == ("QUERY_TOO_DEEP", True, True), (seconds, peak)


@pytest.mark.parametrize("name", LARGE)
def test_a_large_query_is_refused_at_once(name: str) -> None:
    code, seconds, peak = _seconds_and_bytes(LARGE[name])

    assert (code in ("QUERY_TOO_LARGE", "SYNTAX_ERROR"), seconds < 5, peak < 50_000_000) == (
        True,
        True,
        True,
    ), (code, seconds, peak)


@pytest.mark.parametrize("opening", ["(", "UPPER(", "CASE WHEN surge THEN ", "COALESCE(driver_id, ", "TRIM("])
def test_nesting_up_to_the_limit_is_accepted(opening: str) -> None:
    depth = MAX_DEPTH - 2
    closing = " END" if opening.startswith("CASE") else ")"
    sql = f"SELECT {opening * depth}driver_id{closing * depth} AS x FROM bookings"

    assert check(sql, tables()).findings == ()


def test_what_is_long_for_spark_goes_on_where_it_was_accepted() -> None:
    nested = "ABS(" * 7 + "discount" + ")" * 7
    sql = f"SELECT {nested} AS x, rowtime AS window_timestamp FROM bookings"

    assert [finding.code for finding in check(sql, tables()).findings] == ["QUERY_TOO_LARGE"]
    assert check(sql, tables(), accepted=True).findings == ()


def test_a_long_list_of_conditions_is_not_deep() -> None:
    conditions = " OR ".join(f"fare = {i} AND surge" for i in range(2000))
    checked = check(f"SELECT order_number FROM bookings WHERE {conditions}", tables())

    assert checked.findings == ()


def test_a_list_of_ten_thousand_is_accepted_in_good_time() -> None:
    values = ", ".join(map(str, range(10_000)))
    started = time.thread_time()
    checked = check(f"SELECT order_number FROM bookings WHERE discount IN ({values})", tables())
    seconds = time.thread_time() - started

    assert checked.findings == ()
    assert seconds < 3


@given(st.lists(FRAGMENTS, max_size=40).map(" ".join))
@settings(max_examples=4 * settings.default.max_examples)
@example("SELECT FROM")
@example("SELECT x[")
@example("SELECT a.b.c.d FROM bookings GROUP BY")
@example("SELECT EXTRACT(")
@example("SELECT TRIM(BOTH FROM")
@example("SELECT FLOOR(rowtime TO")
@example("SELECT INTERVAL '1' SECOND(")
@example("SELECT CAST(fare AS DECIMAL(")
@example("SELECT fare OVER (")
def test_any_words_get_an_answer(sql: str) -> None:
    checked = check(sql, tables())

    assert (checked.plan is None) == any(finding.severity.value == "error" for finding in checked.findings)


@given(st.text(max_size=200))
@settings(max_examples=3 * settings.default.max_examples)
@example("\ud800")
@example("\x00")
def test_any_text_gets_an_answer_at_a_place_inside_it(sql: str) -> None:
    lines = 1 + sql.replace("\r\n", "\n").replace("\r", "\n").count("\n")
    findings = check(sql, tables()).findings

    assert all(1 <= finding.line <= lines and finding.column >= 1 for finding in findings)


def test_a_message_with_more_columns_than_a_worker_holds_is_refused_by_name_and_its_fields_are_read() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    for number in range(5):  # each has each
        message = file.message_type.add(name=f"M{number}")
        message.field.add(name="s", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
        for other in range(5):
            below = message.field.add(name=f"m{other}", number=other + 2, label=kind.LABEL_OPTIONAL)
            below.type, below.type_name = kind.TYPE_MESSAGE, f".m.M{other}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    table = Table("large", pool.FindMessageTypeByName("m.M0"), "")

    def found(sql: str) -> list[tuple[str, str]]:
        return [(finding.code, finding.message.split(" ")[0]) for finding in check(sql, [table]).findings]

    started = time.thread_time()
    assert found("SELECT s, m1.m2.s AS t FROM large") == []
    assert found("SELECT s, m1 AS t FROM large") == [("QUERY_TOO_LARGE", "t")]
    assert found("SELECT s FROM large WHERE m1 IS NOT NULL") == [("QUERY_TOO_LARGE", "m1")]
    codes = [code for code, _ in found("SELECT s AS `a b`, m1, m2 FROM large")]
    assert codes == ["INVALID_COLUMN_NAME", "QUERY_TOO_LARGE"]
    assert time.thread_time() - started < 20


def test_fields_of_all_columns_and_of_all_reads_count_together() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="w.proto", package="w", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    part, root = file.message_type.add(name="Part"), file.message_type.add(name="Root")
    for number in range(MAX_FIELDS // 2):
        part.field.add(name=f"f{number}", number=number + 1, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    for number, name in enumerate("abc", start=1):
        field = root.field.add(name=name, number=number, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL)
        field.type_name = ".w.Part"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    table = Table("wide", pool.FindMessageTypeByName("w.Root"), "")

    def found(sql: str) -> list[tuple[str, int]]:
        return [(finding.code, finding.column) for finding in check(sql, [table]).findings]

    assert found("SELECT a, b FROM wide") == []
    assert found("SELECT a, a.f1 AS x, b FROM wide") == [("QUERY_TOO_LARGE", 22)]
    assert found("SELECT a, b, c FROM wide") == [("QUERY_TOO_LARGE", 14)]
    known = "CASE WHEN a IS NOT NULL AND b IS NOT NULL AND a.f1 = 2 THEN 1"
    assert found(f"SELECT {known} END AS x FROM wide") == []
    refused = found(f"SELECT {known} WHEN c IS NULL THEN 2 END AS x FROM wide")
    assert refused == [("QUERY_TOO_LARGE", len(f"SELECT {known} WHEN ") + 1)]
